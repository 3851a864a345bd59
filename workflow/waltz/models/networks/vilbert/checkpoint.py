"""Loading of ViLBERT and 12-in-1 from their original files, in which every key has a known role."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from waltz.core.errors import UserError
from waltz.models import checkpoint_file
from waltz.models.networks.vilbert.config import TASK_EMBEDDINGS, build_config
from waltz.models.networks.vilbert.network import TwoStreams

UNUSED_KEYS = {
    "mlm": r"cls\.predictions\.(bias|decoder\.weight|transform\.(dense|LayerNorm)\.(weight|bias))",
    "region": r"cls\.imagePredictions\.(decoder|transform\.(dense|LayerNorm))\.(weight|bias)",
    "retrieval": r"vil_logit\.(weight|bias)",
    "vqa, gqa": r"vil_prediction(_gqa)?\.logit_fc\.[023]\.(weight|bias)",
    "nlvr2": r"vil_binary_prediction\.logit_fc\.[023]\.(weight|bias)",
    "entailment": r"vil_tri_prediction\.(weight|bias)",
    "grounding": r"vision_logit\.(weight|bias)",
    "unused": r"linguisic_logit\.(weight|bias)|bert\.encoder\.c_layer\.\d+\.biOutput\.q_dense[12]\.(weight|bias)",
}
"""Keys that no score needs, by their role; a network with a retrieval head still loads its keys."""
OLD_NORM_KEY = re.compile(r"(.*\bLayerNorm[12]?)\.(gamma|beta)")
"""Names of weight and bias of a layer norm in very old files."""


def load_network(
    file: Path,
    settings: Mapping[str, Any] | None,
    has_tasks: bool,
    name: str = "",
    dtype: torch.dtype = torch.float32,
    allow_missing: Mapping[str, str] = {},
) -> TwoStreams:
    """Return a network of the sizes of its checkpoint, in evaluation mode.

    Args:
        file: An original checkpoint, also one of training scripts (`model_state_dict`, `module.`).
        settings: The release's JSON; None for the one next to the file, or the released sizes.
        has_tasks: Whether it has task tokens and a retrieval head, as 12-in-1 does.
        name: Name of the model in the study; empty outside of one.
        dtype: Precision of its weights.
        allow_missing: See `checkpoint_file.load_weights`.
    Raises:
        UserError: The file is no such checkpoint, a key lacks or is unexpected, or the JSON does not fit.
    """
    weights = rename_old_keys(checkpoint_file.read_checkpoint(file))
    where = checkpoint_file.format_subject(name, file)
    if TASK_EMBEDDINGS in weights and not has_tasks:
        raise UserError(f"{where}: it reads task tokens ({TASK_EMBEDDINGS}); say that it is of kind vilbert-12in1")
    if settings is None:
        settings = checkpoint_file.read_adjacent_settings(file) or None
    with torch.device("meta"):
        network = TwoStreams(build_config(weights, settings, has_tasks, where)).to(dtype)
    checkpoint_file.load_weights(network, weights, file, name, is_unused, allow_missing)
    return network.eval().requires_grad_(False)


def is_unused(key: str) -> bool:
    """Return whether a checkpoint's key belongs to a head that scores no match, or to nothing."""
    return any(re.fullmatch(pattern, key) for pattern in UNUSED_KEYS.values())


def rename_old_keys(weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the tensors with old names of layer norms replaced, unless the new name is taken."""
    renamed = {}
    for key, tensor in weights.items():
        old = OLD_NORM_KEY.fullmatch(key)
        new = f"{old[1]}.{'weight' if old[2] == 'gamma' else 'bias'}" if old else key
        renamed[key if new in weights else new] = tensor
    return renamed
