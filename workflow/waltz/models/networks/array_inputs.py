"""Logits of original checkpoints and language models for prepared arrays, to compare with other
implementations.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from waltz.core.errors import UserError
from waltz.core.jobs.devices import Device
from waltz.model_registry import ModelSpec
from waltz.models.checkpoint_file import Settings, read_adjacent_settings
from waltz.models.decoders import load_decoder
from waltz.models.decoders.network import ForwardRequest
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
def compute_logits(
    file: Path, config: Settings | None, inputs: Arrays, kind: str
) -> dict[str, np.ndarray]:
    """Return logits of an original checkpoint for prepared inputs.

    Args:
        file: The checkpoint.
        config: The release's settings; None for those next to the file.
        inputs: Arrays of n rows; further arrays are ignored. Each kind needs its own ones:

            - All kinds take `input_ids` of shape (n, tokens), and optionally `attention_mask` (default 1) and
              `token_type_ids` (default 0) of the same shape.
            - `albef` takes `pixel_values` of shape (n, 3, height, width) of square images, of the size in the settings,
              or else any multiple of the patch's.
            - `vilbert` takes `features` (n, regions, width) and `boxes` (n, regions, 5), whose row 0 is the complete
              image, and optionally `image_mask` (n, regions). `vilbert-12in1` also takes `task_ids`, (n,) or (n, 1),
              whose tokens are not in `input_ids`.
            - `mplug-owl3` takes no `token_type_ids`. It takes `pixel_values` of all rows' tiles in order, (tiles, 3,
              height, width), and `media_offset`, (n, tokens, 2): the number of tiles of earlier rows, and this number
              plus the tiles that the position sees; any negative numbers for a row without tiles. Both arrays are
              missing if no row has tiles.
        kind: `albef`, `vilbert`, `vilbert-12in1`, `mplug-owl3`, or `text` for a language model: a
            GGUF file or a folder in transformers format, which takes no `token_type_ids`.
    Returns:
        For `mplug-owl3` and `text`, `logits`, float32 of shape (n, tokens, vocabulary), 0 at
        padding, each row read alone. Else `match_logits`, float32 of shape (n, 2), in the order of
        the head: mismatch and match for ALBEF, match and mismatch for ViLBERT. For `vilbert-12in1`
        also `retrieval_logit`, float32 of shape (n, 1). (The original gives the NLVR2 head under
        that name if the batch is even; here a batch never is.)
    Raises:
        UserError: The checkpoint cannot be loaded, or the inputs do not fit it.
    """
    if kind == "text":
        return _compute_text_logits(file, inputs)
    if kind == "albef":
        return _compute_albef_logits(file, config, inputs)
    if kind == "mplug-owl3":
        return _compute_owl_logits(file, config, inputs)
    return _compute_vilbert_logits(
        file, config, inputs, has_tasks=kind == "vilbert-12in1"
    )


def build_padding_bias(mask: torch.Tensor) -> torch.Tensor:
    """Return the bias of attention scores for a float mask of tokens or regions: from (n, keys) to
    (n, 1, 1, keys).
    """
    return ((1 - mask) * PADDING_BIAS)[:, None, None]


def _compute_albef_logits(
    file: Path, config: Settings | None, inputs: Arrays
) -> dict[str, np.ndarray]:
    """Return the logits of ALBEF's matching head; see `compute_logits`."""
    if config is None:
        config = read_adjacent_settings(file)
    network = load_matching_network(file, config)
    ids_shape = _check_ids(inputs, ("pixel_values", "input_ids"), network.longest)
    patch = network.visual_encoder.patch
    bert = network.text_encoder.config
    pixels = inputs["pixel_values"]
    image_size = network.image_size
    if "image_res" not in config and pixels.ndim:
        # Without a configured size, the positions are resized to the images.
        image_size = max(pixels.shape[-1] // patch, 1) * patch
    shapes: dict[str, tuple[int, ...]] = {
        "pixel_values": (ids_shape[0], 3, image_size, image_size)
    }
    for name in ("input_ids", "attention_mask", "token_type_ids"):
        if name in inputs:
            shapes[name] = ids_shape
    limits = {"input_ids": bert.vocab_size, "token_type_ids": bert.type_vocab_size}
    arrays = _check_arrays(inputs, shapes, limits)
    # So that no rows give an empty array.
    logits = [np.zeros((0, 2), dtype=np.float32)]
    for first in range(0, ids_shape[0], PAIRS_PER_BATCH):
        batch = {
            name: values[first : first + PAIRS_PER_BATCH]
            for name, values in arrays.items()
        }
        bias = None
        if "attention_mask" in batch:
            bias = build_padding_bias(batch["attention_mask"])
        text = network.text_encoder.encode_text(
            batch["input_ids"], bias, batch.get("token_type_ids")
        )
        image = network.visual_encoder(batch["pixel_values"])
        logits.append(network.compute_logits(text, image, bias).numpy())
    return {"match_logits": np.concatenate(logits)}


def _compute_vilbert_logits(
    file: Path, settings: Settings | None, inputs: Arrays, has_tasks: bool
) -> dict[str, np.ndarray]:
    """Return the logits of the heads of ViLBERT or 12-in-1; see `compute_logits`."""
    network = load_two_streams(file, settings, has_tasks)
    config = network.config
    tasks = ("task_ids",) if has_tasks else ()
    ids_shape = _check_ids(
        inputs,
        ("input_ids", "features", "boxes", *tasks),
        config.max_position_embeddings,
    )
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
    # Defaults of optional arrays.
    inputs = {
        "token_type_ids": np.zeros(ids_shape, dtype=np.int64),
        "attention_mask": np.ones(ids_shape),
        "image_mask": np.ones(regions_shape),
        **inputs,
    }
    if has_tasks and inputs["task_ids"].shape == (ids_shape[0], 1):
        inputs["task_ids"] = inputs["task_ids"][:, 0]
    limits = {
        "input_ids": config.vocab_size,
        "token_type_ids": config.type_vocab_size,
        "task_ids": config.tasks,
    }
    arrays = _check_arrays(inputs, shapes, limits)
    match_logits, retrieval_logits = [], []
    for row in range(ids_shape[0]):
        # Rows of ViLBERT pass alone, of shape (1, ...).
        row_arrays = {name: values[[row]] for name, values in arrays.items()}
        joint = _compute_joint_vector(network, row_arrays)
        match_logits.append(network.compute_match_logits(joint)[0].tolist())
        if has_tasks:
            retrieval_logits.append(network.compute_retrieval_logit(joint)[0].tolist())
    outputs = {"match_logits": np.array(match_logits, dtype=np.float32).reshape(-1, 2)}
    if has_tasks:
        outputs["retrieval_logit"] = np.array(
            retrieval_logits, dtype=np.float32
        ).reshape(-1, 1)
    return outputs


def _compute_joint_vector(
    network: TwoStreams, inputs: Mapping[str, torch.Tensor]
) -> torch.Tensor:
    """Return the joint vector of one row, of shape (1, width)."""
    text_mask, tasks = inputs["attention_mask"], inputs.get("task_ids")
    if tasks is not None:  # for the task token that is inserted
        text_mask = torch.nn.functional.pad(text_mask, (1, 0), value=1)
    text_bias = build_padding_bias(text_mask)
    image_bias = build_padding_bias(inputs["image_mask"])
    text = network.encode_text(
        inputs["input_ids"], inputs["token_type_ids"], tasks, text_bias
    )
    image = network.encode_image(inputs["features"], inputs["boxes"], image_bias)
    return network.fuse(text, image, text_bias, image_bias)


def _compute_owl_logits(
    file: Path, config: Settings | None, inputs: Arrays
) -> dict[str, np.ndarray]:
    """Return the logits of mPLUG-Owl3; see `compute_logits`."""
    if config is None:
        config = read_adjacent_settings(file)
    network = load_mplug_owl3(file, config)
    text = network.language_model.config
    needed = ("media_offset", "pixel_values")
    has_images = any(name in inputs for name in needed)
    if not has_images and "input_ids" in inputs:
        no_tiles = np.zeros((0, 3, network.tile_size, network.tile_size))
        inputs = {
            **inputs,
            "media_offset": np.full((*inputs["input_ids"].shape, 2), -1),
            "pixel_values": no_tiles,
        }
    ids_shape = _check_ids(inputs, ("input_ids", *needed), text.max_position_embeddings)
    tiles = inputs["pixel_values"].shape[:1]
    shapes = {
        "input_ids": ids_shape,
        "attention_mask": ids_shape,
        "pixel_values": (*tiles, 3, network.tile_size, network.tile_size),
    }
    inputs = {"attention_mask": np.ones(ids_shape), **inputs}
    arrays = _check_arrays(inputs, shapes, {"input_ids": text.vocab_size})
    visible = arrays["attention_mask"].bool()
    offsets = _check_offsets(inputs["media_offset"], visible.numpy(), int(tiles[0]))
    logits = np.zeros((*ids_shape, text.vocab_size), dtype=np.float32)
    for row, (start, counts) in enumerate(offsets):
        pixels = arrays["pixel_values"][start : start + counts.max(initial=0)]
        is_visible = visible[row]
        ids = arrays["input_ids"][row, is_visible]
        logits[row, is_visible.numpy()] = _compute_owl_row(network, ids, pixels, counts)
    return {"logits": logits}


def _compute_owl_row(
    network: MplugOwl3, ids: torch.Tensor, pixels: torch.Tensor, counts: np.ndarray
) -> np.ndarray:
    """Return the logits of a row, of shape (positions, vocabulary), whose positions see the first
    `counts` tiles.
    """
    images = None
    if len(pixels):
        # sees[position, tile]: whether the position sees the tile; a tile stands at the first
        # position that does.
        sees = torch.from_numpy(counts[:, None] > np.arange(len(pixels)))
        features = network.encode_images(pixels).flatten(0, 1)
        positions = (
            sees.long().argmax(dim=0).repeat_interleave(network.positions_per_tile)
        )
        states = network.project_images(features[None], positions[None])
        images = ImageStates(
            states, sees.repeat_interleave(network.positions_per_tile, dim=1)[None]
        )
    return (
        network.compute_logits(ids[None], torch.arange(len(ids))[None], images)[0]
        .float()
        .numpy()
    )


def _compute_text_logits(file: Path, inputs: Arrays) -> dict[str, np.ndarray]:
    """Return the logits of a language model; see `compute_logits`."""
    decoder = load_decoder(
        ModelSpec(file.name, "text", str(file), "local"),
        Device("cpu", torch.get_num_threads(), ""),
    )
    ids_shape = _check_ids(inputs, ("input_ids",), decoder.window)
    vocabulary = decoder.network.model.config.vocab_size
    shapes = {"input_ids": ids_shape, "attention_mask": ids_shape}
    arrays = _check_arrays(
        {"attention_mask": np.ones(ids_shape), **inputs},
        shapes,
        {"input_ids": vocabulary},
    )
    logits = np.zeros((*ids_shape, vocabulary), dtype=np.float32)
    for row, is_visible in enumerate(arrays["attention_mask"].bool()):
        ids = arrays["input_ids"][row, is_visible][None]
        if ids.numel():
            positions = torch.arange(ids.shape[1])[None]
            request = ForwardRequest(ids, positions, last_count=ids.shape[1])
            row_logits, _ = decoder.network.compute_logits(request)
            logits[row, is_visible.numpy()] = row_logits[0].float().numpy()
    return {"logits": logits}


def _check_offsets(
    offsets: np.ndarray, visible: np.ndarray, tiles: int
) -> list[tuple[int, np.ndarray]]:
    """Return for each row its first tile, and the number of its tiles that each position but
    padding sees.
    """
    if offsets.shape != (*visible.shape, 2) or offsets.dtype.kind not in "iu":
        raise UserError(
            f"--inputs: media_offset is {offsets.dtype} of shape {offsets.shape}, whole numbers of shape"
            f" {(*visible.shape, 2)} are needed; correct the file"
        )
    rows: list[tuple[int, np.ndarray]] = []
    for row, is_visible in zip(offsets, visible, strict=True):
        # Each of shape (visible positions,): first tile of the row, and tile after the last that
        # the position sees.
        start, stop = row[is_visible].astype(np.int64).T
        if (start < 0).all():  # a row without tiles
            rows.append((0, np.zeros(len(start), dtype=np.int64)))
            continue
        has_one_start = (start == start[0]).all()
        is_ascending = (np.diff(stop, prepend=start[0]) >= 0).all()
        if not (has_one_start and is_ascending and stop[-1] <= tiles):
            raise UserError(
                f"--inputs: media_offset of row {len(rows)} is wrong: its first numbers must be one, and its second"
                f" ones rise from there to at most the {tiles} tiles of pixel_values; correct the file"
            )
        rows.append((int(start[0]), stop - start))
    return rows


def _check_ids(
    inputs: Arrays, needed: Sequence[str], max_tokens: int
) -> tuple[int, int]:
    """Return the shape of the ids, after a check that it is valid and no array is missing."""
    missing = [name for name in needed if name not in inputs]
    if missing:
        raise UserError(
            f"--inputs: {', '.join(missing)} missing; this model needs {', '.join(needed)}; add them"
        )
    shape = inputs["input_ids"].shape
    is_valid = len(shape) == 2 and 0 < shape[1] <= max_tokens
    if not is_valid:
        raise UserError(
            f"--inputs: input_ids is of shape {shape}, (n, 1 to {max_tokens} tokens) is needed; correct the file"
        )
    return shape[0], shape[1]


def _check_arrays(
    inputs: Arrays, shapes: Mapping[str, tuple[int, ...]], limits: Mapping[str, int]
) -> dict[str, torch.Tensor]:
    """Return the arrays of these shapes, checked: ids below their limits as int64, all others as
    float32.
    """
    tensors = {}
    for name, shape in shapes.items():
        array = inputs[name]
        if array.shape != shape:
            raise UserError(
                f"--inputs: {name} is of shape {array.shape}, {shape} is needed; correct the file"
            )
        if name in limits:
            _check_values(
                name,
                _are_ids(array, limits[name]),
                f"whole numbers from 0 to {limits[name] - 1}",
            )
            tensors[name] = torch.from_numpy(array.astype(np.int64))
            continue
        if name.endswith("_mask"):
            is_mask = array.dtype.kind in "biuf" and np.isin(array, (0, 1)).all()
            _check_values(name, bool(is_mask), "0 and 1")
        else:
            is_finite = array.dtype.kind in "iuf" and np.isfinite(array).all()
            _check_values(name, bool(is_finite), "finite numbers")
        tensors[name] = torch.from_numpy(array.astype(np.float32))
    return tensors


def _are_ids(array: np.ndarray, limit: int) -> bool:
    if array.dtype.kind not in "iu":
        return False
    return bool(((array >= 0) & (array < limit)).all())


def _check_values(name: str, is_valid: bool, expected: str) -> None:
    if not is_valid:
        raise UserError(
            f"--inputs: {name} holds other than {expected}; correct the file"
        )
