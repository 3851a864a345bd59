"""Networks, tokenizers and processors in transformers format, refused where weights are missing or left over."""

import contextlib
import io
import logging
import pickle
import re
from pathlib import Path
from typing import Any

import safetensors
import torch
import transformers

from waltz.core.errors import UserError
from waltz.models.checkpoint_file import format_keys, is_allowed
from waltz.models.registry import ModelSpec
from waltz.models.weights import find_package_gguf

log = logging.getLogger(__name__)

COMPUTED_KEYS = re.compile(r"(.*\.)?(position_ids|token_type_ids|inv_freq|masked_bias|num_batches_tracked)")
"""Keys of what older versions of transformers stored and newer ones compute, or never read."""
LOADING_ERRORS = (OSError, ValueError, EOFError, pickle.UnpicklingError, safetensors.SafetensorError)
"""What is raised where files cannot be had, or are no whole checkpoints."""
ZIP_READER = "PytorchStreamReader"
"""What says so in a RuntimeError."""


def load_pretrained(
    spec: ModelSpec, network_class: Any, head: str = "", reader: Any = transformers.AutoTokenizer
) -> tuple[Any, Any]:
    """A network, at the precision of its entry, and its tokenizer or processor.

    Each weight of the network has to be in the checkpoint. Weights of the checkpoint that the network has no place for
    are an error where they lie among its own (`belongs`), as in a file of a deeper or wider network; other ones are
    parts that the class does not use, such as heads of pre-training, and are logged. The entry's `allow_missing`
    excuses keys of both sorts; an excused weight that is missing is zero, never random.

    Args:
        spec: A model by hub id, folder or package.
        network_class: One of the transformers `AutoModelFor...` classes.
        head: What the class adds to a network, for the error about a checkpoint without it. Transformers
            itself fills in random weights there, and warns at most.
        reader: The transformers `Auto...` class of what prepares inputs.
    Raises:
        UserError: The weights cannot be had, or are not those of the network.
    """
    transformers.utils.logging.disable_progress_bar()
    source, options = _resolve_source(spec)
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # bars of GGUF loading, which no setting stops
            words = reader.from_pretrained(source, **options)
            network, report = network_class.from_pretrained(
                source,
                dtype=getattr(torch, spec.dtype),
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # they are in the report then, and refused below
                **options,
            )
    except (*LOADING_ERRORS, RuntimeError) as error:
        if not isinstance(error, LOADING_ERRORS) and ZIP_READER not in str(error):
            raise
        first_line = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise UserError(
            f"models.{spec.name}: cannot load {spec.weights} at {spec.revision}: {first_line}; check the network,"
            " or put the files into the hub cache"
        ) from error
    _check_loading_report(spec, network, report, head)
    return network, words


def is_network_weight(network: Any, key: str) -> bool:
    """Whether a left-over key of a checkpoint lies among a network's own weights.

    It does where it names a further layer, something inside a layer, or something inside another part that the network
    has. It does not where a whole part is absent that hangs at the network itself, at a model inside it (`bert.pooler`)
    or at its heads (`cls.seq_relationship`), nor where the network computes what older versions stored.
    """
    prefix = f"{network.base_model_prefix}."
    forms = {key, key.removeprefix(prefix), prefix + key}  # files of the base model leave the prefix out
    return not COMPUTED_KEYS.fullmatch(key) and any(_is_inside(network, form.split(".")) for form in forms)


def _is_inside(network: Any, parts: list[str]) -> bool:
    path = [network]
    for part in parts:
        child = path[-1]._modules.get(part)
        if child is None:
            break
        path.append(child)
    place, absent = path[-1], parts[len(path) - 1 : len(path)]
    if set(absent) & set(place._buffers):
        return False
    if any(isinstance(part, torch.nn.ModuleList) for part in path):
        return True
    if isinstance(place, transformers.PreTrainedModel):
        return False
    of_heads = len(path) == 2 and parts[0] != network.base_model_prefix and network.base_model is not network
    return not of_heads or any(True for _ in place.parameters(recurse=False))


def _check_loading_report(spec: ModelSpec, network: Any, report: dict[str, Any], head: str) -> None:
    """Refuse what transformers reports, or make the best of what the entry excuses."""
    missing, left = sorted(report["missing_keys"]), sorted(report["unexpected_keys"])
    shapes = sorted(report["mismatched_keys"])
    where, excused = f"models.{spec.name}: {spec.weights}", spec.allow_missing
    if lacking := [key for key in missing if not is_allowed(key, excused)]:
        advice = f"; name a checkpoint that was trained with its {head}" if head else ""
        raise UserError(f"{where} lacks the weights of {format_keys(lacking)}{advice}")
    if shapes:
        of = [f"{key} {list(theirs)} for {list(ours)}" for key, theirs, ours in shapes]
        raise UserError(f"{where} has weights of another shape: {format_keys(of)}; name a checkpoint of its config")
    unused = [key for key in left if not is_allowed(key, excused)]
    if strange := [key for key in unused if is_network_weight(network, key)]:
        raise UserError(
            f"{where} has unexpected weights {format_keys(strange)}; name a checkpoint of its config, or say in"
            f" models.{spec.name}.allow_missing why they harm nothing"
        )
    if unused:
        log.info("%s: %d weights belong to parts that are not used: %s", where, len(unused), format_keys(unused))
    weights = network.state_dict()
    for key in missing:
        weights[key].zero_()


def get_max_positions(network: Any, tokenizer: Any) -> int:
    """Most positions that an encoder reads, special tokens included."""
    return int(min(tokenizer.model_max_length, getattr(network.config, "max_position_embeddings", None) or 512))


def _resolve_source(spec: ModelSpec) -> tuple[str, dict[str, Any]]:
    """Where transformers shall load from, with the options that say what."""
    if spec.weights.startswith("package:"):
        file = find_package_gguf(spec)
        return str(file.parent), {"gguf_file": file.name}
    if Path(spec.weights).is_dir():
        return spec.weights, {}
    if Path(spec.weights).is_file():
        raise UserError(f"models.{spec.name}: {spec.weights} is a file; kind {spec.kind} reads a folder or hub id")
    return spec.weights, {"revision": spec.revision}
