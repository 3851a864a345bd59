"""Skeletons of checkpoints: their keys, shapes and settings without their values, from a few hundred kilobytes.

A skeleton is stored as a checkpoint whose tensors are on the meta device, so that models are loaded from it, and
refused, by the code that loads the real one.
"""

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import torch

from waltz.core.errors import UserError, get_first_line
from waltz.models.checkpoint_file import HARMLESS_TYPES, SUFFIXES, format_keys
from waltz.models.pretrained import META
from waltz.preflight.hub import Files

SMALL_SUFFIXES = (".json", ".jinja", ".model", ".txt", ".yaml")
"""Suffixes of settings and tokenizers."""
LARGEST_SMALL_FILE = 50_000_000
INDEX = ".index.json"
STEMS = ("model", "pytorch_model")
"""Beginnings of the names of weights in transformers format."""
SKELETON = "pytorch_model.bin"
LARGEST_HEADER = 100_000_000
DTYPES = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "I16": torch.int16,
    "I32": torch.int32,
    "I64": torch.int64,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F32": torch.float32,
    "F64": torch.float64,
}
"""Types of a safetensors header."""


def write_skeleton(files: Files, folder: Path) -> None:
    """Write the settings and tokenizer of a model, and its weights without values.

    Args:
        files: Its files.
        folder: Destination, which exists.
    Raises:
        UserError: A file that the index names is missing, or lacks the keys that it should have; or it cannot be read.
    """
    for name in select_small_files(files):
        with files.open(name) as opened:
            (folder / name).write_bytes(opened.read())
    names = select_weights(files)
    index = _read_index(files, names)
    if absent := list_absent_weights(files):
        raise UserError(f"lacks {format_keys(absent)}, which its index names; see its page, or correct the revision")
    keys: dict[str, str] = {}
    weights: dict[str, torch.Tensor] = {}
    for name in names:
        with files.open(name) as opened:
            content = read_shapes(opened, name)
        keys |= dict.fromkeys(content, name)
        weights |= content
    if lost := [key for key, name in index.items() if keys.get(key) != name]:
        raise UserError(f"lacks {format_keys(lost)}, which its index names; see its page, or correct the revision")
    if weights:
        torch.save(weights, folder / SKELETON)


def list_absent_weights(files: Files) -> list[str]:
    """Return the files of weights that the index of a model names and that are not among its files."""
    return sorted({*_read_index(files, select_weights(files)).values()} - files.sizes.keys())


def select_small_files(files: Files) -> list[str]:
    """Return the settings and the tokenizer among the files of a model."""
    return [
        name
        for name, size in files.sizes.items()
        if "/" not in name and name.endswith(SMALL_SUFFIXES) and not name.endswith(INDEX) and size < LARGEST_SMALL_FILE
    ]


def select_weights(files: Files) -> list[str]:
    """Return the files of weights that are loaded: safetensors where there are any."""
    for suffix in SUFFIXES:
        names = sorted(name for name in files.sizes if "/" not in name and name.endswith(suffix))
        if own := [name for name in names if name.startswith(STEMS)] or names:
            return own
    return []


def _read_index(files: Files, names: list[str]) -> Mapping[str, str]:
    """Return the file of each key as the index has it; empty without one."""
    stems = {name.partition("-")[0].removesuffix(Path(name).suffix) + Path(name).suffix for name in names}
    indices = [f"{stem}{INDEX}" for stem in stems if f"{stem}{INDEX}" in files.sizes]
    if not indices or any(Path(name).name in stems for name in names):
        return {}
    with files.open(indices[0]) as opened:
        try:
            return dict(json.loads(opened.read())["weight_map"])
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(f"{indices[0]}: is no index ({get_first_line(error)}); see its page") from None


def read_shapes(opened: BinaryIO, name: str) -> dict[str, Any]:
    """Return the content of a checkpoint without its values, of which only the description is read.

    Args:
        opened: The file, from its start.
        name: Its name, which tells the format.
    Returns:
        Tensors on the meta device; levels around them stay.
    Raises:
        UserError: It is no checkpoint.
    """
    try:
        if name.endswith(".safetensors"):
            return _read_header(opened)
        with torch.serialization.skip_data(), torch.serialization.safe_globals(HARMLESS_TYPES):
            content = torch.load(opened, map_location=META, weights_only=True)
    except UserError:
        raise
    except Exception as error:  # a broken file can raise anything
        raise UserError(f"{name}: is no checkpoint ({get_first_line(error)[:200]}); fetch it again") from None
    if not isinstance(content, dict):
        raise UserError(f"{name}: holds no weights by name; name the checkpoint file of a model")
    return content


def _read_header(opened: BinaryIO) -> dict[str, Any]:
    (length,) = struct.unpack("<Q", opened.read(8))
    if length > LARGEST_HEADER:
        raise ValueError(f"a header of {length} bytes")
    header = json.loads(opened.read(length))
    return {
        key: torch.empty(entry["shape"], dtype=DTYPES[entry["dtype"]], device=META)
        for key, entry in header.items()
        if key != "__metadata__"
    }
