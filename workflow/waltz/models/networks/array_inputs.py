"""Logits of original checkpoints and language models for prepared arrays, to compare with other implementations."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from waltz.core.devices import Device
from waltz.core.errors import UserError
from waltz.model_registry import ModelSpec
from waltz.models.checkpoint_file import read_adjacent_settings
from waltz.models.decoders import load_decoder
from waltz.models.networks.albef import load_matching_network
from waltz.models.networks.mplug_owl3 import ImageStates, MplugOwl3, load_mplug_owl3
from waltz.models.networks.vilbert import TwoStreams, load_two_streams

Arrays = Mapping[str, np.ndarray]
PAIRS_PER_BATCH = 16
"""Pairs that pass ALBEF at once; rows of ViLBERT pass alone."""
PADDING_BIAS = -10000.0
"""Bias of the attention scores of padding; finite, as in both releases."""
LOCATION_NUMBERS = 5
"""Numbers of a region's location: left, top, right, bottom and area as shares of the image."""


@torch.inference_mode()
def compute_logits(file: Path, config: Mapping[str, Any] | None, inputs: Arrays, kind: str) -> dict[str, np.ndarray]:
    """Return logits of an original checkpoint for prepared inputs.

    Args:
        file: The checkpoint.
        config: The release's settings; None for those next to the file.
        inputs: Arrays of n rows; other arrays are ignored. All kinds take `input_ids` of shape (n, tokens), and
            optionally `attention_mask` (default 1) and `token_type_ids` (default 0) of the same shape. `albef` takes
            `pixel_values` of shape (n, 3, side, side), the side that of the settings, or else any multiple of the
            patch's. ViLBERT takes `features` (n, regions, width) and `boxes` (n, regions, 5), whose row 0 is the whole
            image, and optionally `image_mask` (n, regions); `vilbert-12in1` also `task_ids`, (n,) or (n, 1), whose
            tokens are not in `input_ids`. `mplug-owl3` takes no `token_type_ids`; it takes `pixel_values` of all rows'
            tiles in order, (tiles, 3, side, side), and `media_offset`, (n, tokens, 2): the number of tiles of earlier
            rows, and that plus the tiles that the position sees; any negative numbers where a row has none. Both
            arrays are missing where no row has any.
        kind: `albef`, `vilbert`, `vilbert-12in1`, `mplug-owl3`, or `text` for a language model: a GGUF file or a folder
            in transformers format, which takes no `token_type_ids`.
    Returns:
        For `mplug-owl3` and `text`, `logits`, float32 of shape (n, tokens, vocabulary), 0 at padding, each row read
        alone. Else `match_logits`, float32 of shape (n, 2), in the order of the head: mismatch and match for ALBEF,
        match and mismatch for ViLBERT. For `vilbert-12in1` also `retrieval_logit`, float32 of shape (n, 1); the
        original's output of that name is the NLVR2 head where the batch is even, this one never is.
    Raises:
        UserError: The checkpoint cannot be loaded, or the inputs do not fit it.
    """
    if kind == "text":
        return _compute_text_logits(file, inputs)
    if kind == "albef":
        return _compute_albef_logits(file, config, inputs)
    if kind == "mplug-owl3":
        return _compute_owl_logits(file, config, inputs)
    return _compute_vilbert_logits(file, config, inputs, has_tasks=kind == "vilbert-12in1")


def build_padding_bias(mask: torch.Tensor) -> torch.Tensor:
    """Return the bias of attention scores for a float mask of tokens or regions: from (n, keys) to (n, 1, 1, keys)."""
    return ((1 - mask) * PADDING_BIAS)[:, None, None]


def _compute_albef_logits(file: Path, config: Mapping[str, Any] | None, inputs: Arrays) -> dict[str, np.ndarray]:
    config = read_adjacent_settings(file) if config is None else config
    network = load_matching_network(file, config)
    ids_shape = _check_ids(inputs, ("pixel_values", "input_ids"), network.longest)
    patch, bert, pixels = network.visual_encoder.patch, network.text_encoder.config, inputs["pixel_values"]
    side = network.side
    if "image_res" not in config and pixels.ndim:
        side = max(pixels.shape[-1] // patch, 1) * patch
    shapes = {
        "pixel_values": (ids_shape[0], 3, side, side),
        **{name: ids_shape for name in ("input_ids", "attention_mask", "token_type_ids") if name in inputs},
    }
    limits = {"input_ids": bert.vocab_size, "token_type_ids": bert.type_vocab_size}
    arrays = _check_arrays(inputs, shapes, limits)
    logits = [np.zeros((0, 2), dtype=np.float32)]
    for first in range(0, ids_shape[0], PAIRS_PER_BATCH):
        batch = {name: values[first : first + PAIRS_PER_BATCH] for name, values in arrays.items()}
        bias = build_padding_bias(batch["attention_mask"]) if "attention_mask" in batch else None
        states = network.text_encoder.encode_text(batch["input_ids"], bias, batch.get("token_type_ids"))
        logits.append(network.logits(states, network.visual_encoder(batch["pixel_values"]), bias).numpy())
    return {"match_logits": np.concatenate(logits)}


def _compute_vilbert_logits(
    file: Path, settings: Mapping[str, Any] | None, inputs: Arrays, has_tasks: bool
) -> dict[str, np.ndarray]:
    network = load_two_streams(file, settings, has_tasks)
    config = network.config
    tasks = ("task_ids",) if has_tasks else ()
    ids_shape = _check_ids(inputs, ("input_ids", "features", "boxes", *tasks), config.max_position_embeddings)
    if inputs["features"].ndim != 3 or not inputs["features"].shape[1]:
        raise UserError(
            f"--inputs: features is of shape {inputs['features'].shape}, (n, regions, {config.v_feature_size}) is"
            " needed, the whole image first; correct the file"
        )
    regions_shape = (ids_shape[0], inputs["features"].shape[1])
    shapes = {
        **dict.fromkeys(("input_ids", "token_type_ids", "attention_mask"), ids_shape),
        "features": (*regions_shape, config.v_feature_size),
        "boxes": (*regions_shape, LOCATION_NUMBERS),
        "image_mask": regions_shape,
        **dict.fromkeys(tasks, ids_shape[:1]),
    }
    inputs = {
        "token_type_ids": np.zeros(ids_shape, dtype=np.int64),
        "attention_mask": np.ones(ids_shape),
        "image_mask": np.ones(regions_shape),
        **inputs,
    }
    if has_tasks and inputs["task_ids"].shape == (ids_shape[0], 1):
        inputs["task_ids"] = inputs["task_ids"][:, 0]
    limits = {"input_ids": config.vocab_size, "token_type_ids": config.type_vocab_size, "task_ids": config.tasks}
    arrays = _check_arrays(inputs, shapes, limits)
    rows = [
        _compute_row(network, {name: values[[row]] for name, values in arrays.items()}) for row in range(ids_shape[0])
    ]
    outputs = {"match_logits": np.array([match for match, _ in rows], dtype=np.float32).reshape(-1, 2)}
    if has_tasks:
        outputs["retrieval_logit"] = np.array([rank for _, rank in rows], dtype=np.float32).reshape(-1, 1)
    return outputs


def _compute_row(network: TwoStreams, inputs: Mapping[str, torch.Tensor]) -> tuple[list[float], list[float]]:
    """Return ITM logits and, for 12-in-1, the retrieval logit of one row."""
    text_mask, tasks = inputs["attention_mask"], inputs.get("task_ids")
    if tasks is not None:
        text_mask = torch.nn.functional.pad(text_mask, (1, 0), value=1)
    text_bias, image_bias = build_padding_bias(text_mask), build_padding_bias(inputs["image_mask"])
    text = network.encode_text(inputs["input_ids"], inputs["token_type_ids"], tasks, text_bias)
    image = network.encode_image(inputs["features"], inputs["boxes"], image_bias)
    joint = network.fuse(text, image, text_bias, image_bias)
    return network.match_logits(joint)[0].tolist(), network.retrieval_logit(joint)[
        0
    ].tolist() if tasks is not None else []


def _compute_owl_logits(file: Path, config: Mapping[str, Any] | None, inputs: Arrays) -> dict[str, np.ndarray]:
    network = load_mplug_owl3(file, read_adjacent_settings(file) if config is None else config)
    text = network.language_model.config
    needed = ("media_offset", "pixel_values")
    if not any(name in inputs for name in needed) and "input_ids" in inputs:
        no_tiles = np.zeros((0, 3, network.side, network.side))
        inputs = {**inputs, "media_offset": np.full((*inputs["input_ids"].shape, 2), -1), "pixel_values": no_tiles}
    ids_shape = _check_ids(inputs, ("input_ids", *needed), text.max_position_embeddings)
    tiles = inputs["pixel_values"].shape[:1]
    shapes = {
        "input_ids": ids_shape,
        "attention_mask": ids_shape,
        "pixel_values": (*tiles, 3, network.side, network.side),
    }
    inputs = {"attention_mask": np.ones(ids_shape), **inputs}
    arrays = _check_arrays(inputs, shapes, {"input_ids": text.vocab_size})
    visible = arrays["attention_mask"].bool()
    offsets = _check_offsets(inputs["media_offset"], visible.numpy(), int(tiles[0]))
    logits = np.zeros((*ids_shape, text.vocab_size), dtype=np.float32)
    for row, (start, counts) in enumerate(offsets):
        pixels = arrays["pixel_values"][start : start + counts.max(initial=0)]
        kept = visible[row]
        logits[row, kept.numpy()] = _compute_owl_row(network, arrays["input_ids"][row, kept], pixels, counts)
    return {"logits": logits}


def _compute_owl_row(network: MplugOwl3, ids: torch.Tensor, pixels: torch.Tensor, counts: np.ndarray) -> np.ndarray:
    """Return the logits of a row, of shape (positions, vocabulary), whose positions see the first `counts` tiles."""
    images = None
    if len(pixels):
        sees = torch.from_numpy(counts[:, None] > np.arange(len(pixels)))
        features = network.encode_images(pixels).flatten(0, 1)
        positions = sees.long().argmax(dim=0).repeat_interleave(network.positions_per_tile)
        states = network.project_images(features[None], positions[None])
        images = ImageStates(states, sees.repeat_interleave(network.positions_per_tile, dim=1)[None])
    return network.compute_logits(ids[None], torch.arange(len(ids))[None], images)[0].float().numpy()


def _compute_text_logits(file: Path, inputs: Arrays) -> dict[str, np.ndarray]:
    decoder = load_decoder(ModelSpec(file.name, "text", str(file), "local"), Device("cpu", torch.get_num_threads(), ""))
    ids_shape = _check_ids(inputs, ("input_ids",), decoder.window)
    vocabulary = decoder.network.model.config.vocab_size
    shapes = {"input_ids": ids_shape, "attention_mask": ids_shape}
    arrays = _check_arrays({"attention_mask": np.ones(ids_shape), **inputs}, shapes, {"input_ids": vocabulary})
    logits = np.zeros((*ids_shape, vocabulary), dtype=np.float32)
    for row, kept in enumerate(arrays["attention_mask"].bool()):
        ids = arrays["input_ids"][row, kept][None]
        if ids.numel():
            positions = torch.arange(ids.shape[1])[None]
            row_logits, _ = decoder.network.compute_logits(ids, positions, last_count=ids.shape[1])
            logits[row, kept.numpy()] = row_logits[0].float().numpy()
    return {"logits": logits}


def _check_offsets(offsets: np.ndarray, visible: np.ndarray, tiles: int) -> list[tuple[int, np.ndarray]]:
    """Return for each row its first tile, and the number of its tiles that each position but padding sees."""
    if offsets.shape != (*visible.shape, 2) or offsets.dtype.kind not in "iu":
        raise UserError(
            f"--inputs: media_offset is {offsets.dtype} of shape {offsets.shape}, whole numbers of shape"
            f" {(*visible.shape, 2)} are needed; correct the file"
        )
    rows = []
    for row, kept in zip(offsets, visible, strict=True):
        start, stop = row[kept].astype(np.int64).T
        if (start < 0).all():
            rows.append((0, np.zeros(len(start), dtype=np.int64)))
            continue
        if (start != start[0]).any() or (np.diff(stop, prepend=start[0]) < 0).any() or stop[-1] > tiles:
            raise UserError(
                f"--inputs: media_offset of row {len(rows)} is wrong: its first numbers must be one, and its second"
                f" ones rise from there to at most the {tiles} tiles of pixel_values; correct the file"
            )
        rows.append((int(start[0]), stop - start))
    return rows


def _check_ids(inputs: Arrays, needed: Sequence[str], max_tokens: int) -> tuple[int, int]:
    """Return the shape of the ids, after a check that it is valid and no array is missing."""
    if missing := [name for name in needed if name not in inputs]:
        raise UserError(f"--inputs: {', '.join(missing)} missing; this model needs {', '.join(needed)}; add them")
    shape = inputs["input_ids"].shape
    if len(shape) != 2 or not 0 < shape[1] <= max_tokens:
        raise UserError(
            f"--inputs: input_ids is of shape {shape}, (n, 1 to {max_tokens} tokens) is needed; correct the file"
        )
    return shape[0], shape[1]


def _check_arrays(
    inputs: Arrays, shapes: Mapping[str, tuple[int, ...]], limits: Mapping[str, int]
) -> dict[str, torch.Tensor]:
    """Return the arrays of these shapes, each checked: ids below their limits as int64, the others as float32."""
    tensors = {}
    for name, shape in shapes.items():
        array = inputs[name]
        if array.shape != shape:
            raise UserError(f"--inputs: {name} is of shape {array.shape}, {shape} is needed; correct the file")
        if name in limits:
            values = f"whole numbers from 0 to {limits[name] - 1}"
            is_valid = array.dtype.kind in "iu" and ((array >= 0) & (array < limits[name])).all()
        elif name.endswith("_mask"):
            values, is_valid = "0 and 1", array.dtype.kind in "biuf" and np.isin(array, (0, 1)).all()
        else:
            values, is_valid = "finite numbers", array.dtype.kind in "iuf" and np.isfinite(array).all()
        if not is_valid:
            raise UserError(f"--inputs: {name} holds other than {values}; correct the file")
        tensors[name] = torch.from_numpy(array.astype(np.int64 if name in limits else np.float32))
    return tensors
