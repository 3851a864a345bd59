"""Scores of prepared input arrays, row by row, so that no row depends on the others."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from waltz.core.errors import UserError
from waltz.models.networks.albef.layers import build_padding_bias
from waltz.models.networks.vilbert.checkpoint import load_network
from waltz.models.networks.vilbert.config import VilbertConfig
from waltz.models.networks.vilbert.network import TwoStreams

TASK_TOKEN_KINDS = {"vilbert": False, "vilbert-12in1": True}
"""Kinds of checkpoints, and whether they read task tokens."""
LOCATION_NUMBERS = 5
"""Numbers of a region's location: left, top, right, bottom and area as shares of the image."""


def compute_logits(
    file: Path, config: Mapping[str, Any] | None, inputs: Mapping[str, np.ndarray], kind: str
) -> dict[str, np.ndarray]:
    """Return the outputs of a ViLBERT or 12-in-1 for prepared inputs.

    Args:
        file: An original checkpoint.
        config: The release's JSON; None for the one next to the file, or the released sizes.
        inputs: `input_ids`, `attention_mask`, `token_type_ids` of shape (n, length); `features` (n, regions, width)
            and `boxes` (n, regions, 5), whose row 0 is the whole image, used as they are; `image_mask` (n, regions);
            for `vilbert-12in1` also `task_ids`, (n,) or (n, 1), whose tokens are not in `input_ids`. Missing masks are
            1 and missing types 0, as in the original; other arrays are ignored.
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
    outputs = {"match_logits": np.array([match for match, _ in rows], dtype=np.float32).reshape(-1, 2)}
    if TASK_TOKEN_KINDS[kind]:
        outputs["retrieval_logit"] = np.array([rank for _, rank in rows], dtype=np.float32).reshape(-1, 1)
    return outputs


@torch.inference_mode()
def _compute_row(network: TwoStreams, arrays: Mapping[str, np.ndarray], row: int) -> tuple[list[float], list[float]]:
    """Return ITM logits and, for 12-in-1, the retrieval logit of one row."""
    inputs = {name: torch.from_numpy(values[row : row + 1]) for name, values in arrays.items()}
    text_mask = inputs["attention_mask"]
    if "task_ids" in inputs:
        text_mask = torch.nn.functional.pad(text_mask, (1, 0), value=1)
    words, regions = (build_padding_bias(mask, network.dtype) for mask in (text_mask, inputs["image_mask"]))
    text = network.encode_text(inputs["input_ids"], inputs["token_type_ids"], inputs.get("task_ids"), words)
    joint = network.fuse(text, network.encode_image(inputs["features"], inputs["boxes"], regions), words, regions)
    ranks = network.retrieval_logit(joint)[0].tolist() if "task_ids" in inputs else []
    return network.match_logits(joint)[0].tolist(), ranks


def _check_inputs(config: VilbertConfig, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the arrays that the network needs, converted to its types.

    Raises:
        UserError: An array lacks, or has a wrong shape, type or value.
    """
    limits = {"input_ids": config.vocab_size, "token_type_ids": config.type_vocab_size}
    needed = ["input_ids", "features", "boxes"]
    if config.tasks:
        limits["task_ids"] = config.tasks
        needed.append("task_ids")
    if missing := [name for name in needed if name not in inputs]:
        raise UserError(f"--inputs: {', '.join(missing)} missing; this model needs {', '.join(needed)}; add them")
    checked = {name: np.asarray(inputs[name]) for name in needed}
    if checked["input_ids"].ndim != 2 or checked["features"].ndim != 3:
        shapes_text = " and ".join(f"{name} {checked[name].shape}" for name in ("input_ids", "features"))
        raise UserError(
            f"--inputs: {shapes_text}: shapes (n, length) and (n, regions, width) are needed; correct the file"
        )
    (rows, length), regions = checked["input_ids"].shape, checked["features"].shape[1]
    checked["token_type_ids"] = np.asarray(inputs.get("token_type_ids", np.zeros((rows, length), dtype=np.int64)))
    checked["attention_mask"] = np.asarray(inputs.get("attention_mask", np.ones((rows, length))))
    checked["image_mask"] = np.asarray(inputs.get("image_mask", np.ones((rows, regions))))
    shapes = {
        **dict.fromkeys(("token_type_ids", "attention_mask"), (rows, length)),
        "features": (rows, regions, config.v_feature_size),
        "boxes": (rows, regions, LOCATION_NUMBERS),
        "image_mask": (rows, regions),
    }
    if config.tasks:
        shapes["task_ids"] = (rows,)
        checked["task_ids"] = (
            checked["task_ids"].squeeze(1) if checked["task_ids"].shape == (rows, 1) else checked["task_ids"]
        )
    for name, shape in shapes.items():
        if checked[name].shape != shape:
            raise UserError(f"--inputs: {name} is of shape {checked[name].shape}, {shape} is needed; correct the file")
    if not 0 < length <= config.max_position_embeddings or not regions:
        raise UserError(
            f"--inputs: {length} tokens and {regions} regions a row; 1 to {config.max_position_embeddings} tokens and"
            " the whole image at least are read"
        )
    for name, limit in limits.items():
        checked[name] = _check_ids(name, checked[name], limit)
    for name in ("attention_mask", "image_mask"):
        if checked[name].dtype.kind not in "biuf" or not np.isin(checked[name], (0, 1)).all():
            raise UserError(f"--inputs: {name} holds other than 0 and 1; correct the file")
    for name in ("features", "boxes"):
        if checked[name].dtype.kind not in "iuf" or not np.isfinite(checked[name]).all():
            raise UserError(f"--inputs: {name} holds other than finite numbers; correct the file")
    floats = {name: values.astype(np.float32) for name, values in checked.items() if name not in limits}
    return {**{name: checked[name] for name in limits}, **floats}


def _check_ids(name: str, values: np.ndarray, limit: int) -> np.ndarray:
    """Return ids as int64, each between 0 and `limit - 1`."""
    if values.dtype.kind not in "iu" or (values.size and not 0 <= values.min() <= values.max() < limit):
        raise UserError(f"--inputs: {name} holds other than whole numbers from 0 to {limit - 1}; correct the file")
    return values.astype(np.int64)
