"""Logits of prepared input arrays, used unchanged, for comparison with other implementations."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from waltz.core.errors import UserError
from waltz.models.checkpoint_file import read_adjacent_settings
from waltz.models.networks.albef.layers import build_padding_bias
from waltz.models.networks.albef.network import MatchingNetwork, load_matching_network

PAIRS_PER_BATCH = 16
"""Pairs that one pass takes."""
ID_ARRAYS = ("input_ids", "attention_mask", "token_type_ids")
"""Arrays of one number a token; without a mask every token is seen, without types all are of type 0."""


@torch.inference_mode()
def compute_logits(
    file: Path, config: Mapping[str, Any] | None, inputs: Mapping[str, np.ndarray], kind: str
) -> dict[str, np.ndarray]:
    """Return logits of the matching head of an ALBEF.

    Args:
        file: A checkpoint file.
        config: The release's settings; None for those next to the file.
        inputs: `pixel_values` of shape (n, 3, side, side), the side that of the settings, or else any multiple of the
            patch's; `input_ids` of shape (n, tokens); of the same shape as these `attention_mask` and
            `token_type_ids`, or neither.
        kind: `albef`.
    Returns:
        `match_logits`, float32 of shape (n, 2): mismatch, match.
    Raises:
        UserError: The checkpoint cannot be read or has no matching head, or the inputs do not fit it.
    """
    config = read_adjacent_settings(file) if config is None else config
    network = load_matching_network(file, config)
    arrays = _check_inputs(inputs, network, network.side if "image_res" in config else None)
    pixels, ids = torch.from_numpy(arrays["pixel_values"]).float(), torch.from_numpy(arrays["input_ids"]).long()
    mask, types = (torch.from_numpy(arrays[name]).long() if name in arrays else None for name in ID_ARRAYS[1:])
    batches = []
    for first in range(0, len(ids), PAIRS_PER_BATCH):
        rows = slice(first, first + PAIRS_PER_BATCH)
        bias = None if mask is None else build_padding_bias(mask[rows], torch.float32)
        states = network.text_encoder.encode_text(ids[rows], bias, None if types is None else types[rows])
        batches.append(network.logits(states, network.visual_encoder(pixels[rows]), bias))
    return {"match_logits": torch.cat(batches).numpy()}


def _check_inputs(
    inputs: Mapping[str, np.ndarray], network: MatchingNetwork, side: int | None
) -> dict[str, np.ndarray]:
    """Return the arrays that are used, each checked for shape and values."""
    for name in ("pixel_values", "input_ids"):
        if name not in inputs:
            raise UserError(f"inputs: {name} is missing; ALBEF needs pixel_values and input_ids")
    arrays = {name: inputs[name] for name in ("pixel_values", *ID_ARRAYS) if name in inputs}
    ids, pixels = arrays["input_ids"], arrays["pixel_values"]
    if ids.ndim != 2 or 0 in ids.shape:
        raise UserError(f"inputs: input_ids has shape {ids.shape}; (pairs, tokens) is expected")
    patch = network.visual_encoder.patch
    side = side or (pixels.shape[-1] // patch * patch if pixels.ndim else 0) or patch
    expected: dict[str, tuple[int, ...]] = dict.fromkeys(ID_ARRAYS, ids.shape) | {
        "pixel_values": (len(ids), 3, side, side)
    }
    for name, array in arrays.items():
        if array.shape != expected[name]:
            raise UserError(f"inputs: {name} has shape {array.shape}; {expected[name]} is expected")
        if array.dtype.kind not in ("biuf" if name in ("pixel_values", "attention_mask") else "biu"):
            raise UserError(f"inputs: {name} holds {array.dtype}; another type is expected")
    sizes = {"input_ids": network.text_encoder.vocabulary, "token_type_ids": network.text_encoder.segments}
    for name, size in sizes.items():
        if name in arrays and not (arrays[name].min() >= 0 and arrays[name].max() < size):
            raise UserError(f"inputs: {name} goes from {arrays[name].min()} to {arrays[name].max()}, not below {size}")
    if ids.shape[1] > network.longest:
        raise UserError(f"inputs: input_ids has {ids.shape[1]} tokens, at most {network.longest} are read")
    return arrays
