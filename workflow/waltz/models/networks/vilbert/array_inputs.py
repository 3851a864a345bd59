"""Scores of prepared inputs, row by row, so that none depends on what else is in a file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from waltz.core.errors import UserError
from waltz.models.networks.vilbert.checkpoint import load_network
from waltz.models.networks.vilbert.config import VilbertConfig
from waltz.models.networks.vilbert.network import TwoStreams, build_padding_bias

TASK_TOKEN_KINDS = {"vilbert": False, "vilbert-12in1": True}
"""Kinds of checkpoints, and whether they read task tokens."""
LOCATION_NUMBERS = 5
"""Numbers of a region's location: left, top, right, bottom and area as shares of the image."""


def compute_logits(
    file: Path, config: Mapping[str, Any] | None, inputs: Mapping[str, np.ndarray], kind: str
) -> dict[str, np.ndarray]:
    """What a ViLBERT or 12-in-1 says of prepared inputs.

    Args:
        file: An original checkpoint.
        config: The release's JSON; None for the one beside the file, and where there is none for the released sizes.
        inputs: `input_ids`, `attention_mask`, `token_type_ids` of shape (n, length); `features` (n, regions, width)
            and `boxes` (n, regions, 5), whose row 0 is the whole image, used as they are; `image_mask` (n, regions);
            for `vilbert-12in1` also `task_ids`, (n,) or (n, 1), whose tokens `input_ids` do not hold. Masks that are
            not given are 1 and types 0, as in the original; arrays of other names are left.
        kind: `vilbert` or `vilbert-12in1`.
    Returns:
        `match_logits` of the ITM head, float32 (n, 2), index 0 a match; for `vilbert-12in1` also `retrieval_logit`,
        float32 (n, 1). The original's output of that name is the NLVR2 head where the batch is even; this one never is.
    Raises:
        UserError: The kind is unknown, the checkpoint cannot be loaded, or an array lacks or is not as it should be.
    """
    if kind not in TASK_TOKEN_KINDS:
        raise UserError(f"--kind {kind}: no kind of ViLBERT; there are {', '.join(TASK_TOKEN_KINDS)}")
    network = load_network(file, config, TASK_TOKEN_KINDS[kind])
    arrays = _check_inputs(network.config, inputs)
    rows = [_compute_row(network, arrays, row) for row in range(len(arrays["input_ids"]))]
    found = {"match_logits": np.array([match for match, _ in rows], dtype=np.float32).reshape(-1, 2)}
    if TASK_TOKEN_KINDS[kind]:
        found["retrieval_logit"] = np.array([rank for _, rank in rows], dtype=np.float32).reshape(-1, 1)
    return found


@torch.inference_mode()
def _compute_row(network: TwoStreams, arrays: Mapping[str, np.ndarray], row: int) -> tuple[list[float], list[float]]:
    """ITM logits and, for 12-in-1, the retrieval logit of one row."""
    given = {name: torch.from_numpy(values[row : row + 1]) for name, values in arrays.items()}
    seen = given["attention_mask"]
    if "task_ids" in given:
        seen = torch.nn.functional.pad(seen, (1, 0), value=1)
    words, regions = (build_padding_bias(mask, network.dtype) for mask in (seen, given["image_mask"]))
    text = network.encode_text(given["input_ids"], given["token_type_ids"], given.get("task_ids"), words)
    joint = network.fuse(text, network.encode_image(given["features"], given["boxes"], regions), words, regions)
    ranks = network.retrieval_logit(joint)[0].tolist() if "task_ids" in given else []
    return network.match_logits(joint)[0].tolist(), ranks


def _check_inputs(config: VilbertConfig, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays that the network needs, of its types.

    Raises:
        UserError: An array lacks, or has a wrong shape, type or value.
    """
    limits = {"input_ids": config.vocab_size, "token_type_ids": config.type_vocab_size}
    needed = ["input_ids", "features", "boxes"]
    if config.tasks:
        limits["task_ids"] = config.tasks
        needed.append("task_ids")
    if lacking := [name for name in needed if name not in inputs]:
        raise UserError(f"--inputs: {', '.join(lacking)} missing; this model needs {', '.join(needed)}; add them")
    found = {name: np.asarray(inputs[name]) for name in needed}
    if found["input_ids"].ndim != 2 or found["features"].ndim != 3:
        said = " and ".join(f"{name} {found[name].shape}" for name in ("input_ids", "features"))
        raise UserError(f"--inputs: {said}: shapes (n, length) and (n, regions, width) are needed; mend the file")
    (rows, length), regions = found["input_ids"].shape, found["features"].shape[1]
    found["token_type_ids"] = np.asarray(inputs.get("token_type_ids", np.zeros((rows, length), dtype=np.int64)))
    found["attention_mask"] = np.asarray(inputs.get("attention_mask", np.ones((rows, length))))
    found["image_mask"] = np.asarray(inputs.get("image_mask", np.ones((rows, regions))))
    shapes = {
        **dict.fromkeys(("token_type_ids", "attention_mask"), (rows, length)),
        "features": (rows, regions, config.v_feature_size),
        "boxes": (rows, regions, LOCATION_NUMBERS),
        "image_mask": (rows, regions),
    }
    if config.tasks:
        shapes["task_ids"] = (rows,)
        found["task_ids"] = found["task_ids"].squeeze(1) if found["task_ids"].shape == (rows, 1) else found["task_ids"]
    for name, shape in shapes.items():
        if found[name].shape != shape:
            raise UserError(f"--inputs: {name} is of shape {found[name].shape}, {shape} is needed; mend the file")
    if not 0 < length <= config.max_position_embeddings or not regions:
        raise UserError(
            f"--inputs: {length} tokens and {regions} regions a row; 1 to {config.max_position_embeddings} tokens and"
            " the whole image at least are read"
        )
    for name, limit in limits.items():
        found[name] = _check_ids(name, found[name], limit)
    for name in ("attention_mask", "image_mask"):
        if found[name].dtype.kind not in "biuf" or not np.isin(found[name], (0, 1)).all():
            raise UserError(f"--inputs: {name} holds other than 0 and 1; mend the file")
    for name in ("features", "boxes"):
        if found[name].dtype.kind not in "iuf" or not np.isfinite(found[name]).all():
            raise UserError(f"--inputs: {name} holds other than finite numbers; mend the file")
    floats = {name: values.astype(np.float32) for name, values in found.items() if name not in limits}
    return {**{name: found[name] for name in limits}, **floats}


def _check_ids(name: str, values: np.ndarray, limit: int) -> np.ndarray:
    """Rows of a table of so many, int64."""
    if values.dtype.kind not in "iu" or (values.size and not 0 <= values.min() <= values.max() < limit):
        raise UserError(f"--inputs: {name} holds other than whole numbers from 0 to {limit - 1}; mend the file")
    return values.astype(np.int64)
