"""Skeletons of checkpoints: keys, shapes and settings without values, read from a few hundred
kilobytes.

A skeleton is stored as a checkpoint whose tensors are on the meta device. Therefore the code that
loads the real checkpoint also loads the skeleton, or refuses it for the same reasons.
"""

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import torch

from waltz.core.errors import UserError, get_first_line
from waltz.core.files.safe_names import is_safe_name
from waltz.core.redaction import hide_secrets
from waltz.model_registry import CHECKPOINT_SUFFIXES
from waltz.models.checkpoint_file import HARMLESS_TYPES, format_keys
from waltz.models.pretrained import META
from waltz.preflight.hub import Files

SMALL_SUFFIXES = (".json", ".jinja", ".model", ".txt", ".yaml")
"""Suffixes of files with settings and tokenizers."""
LARGEST_SMALL_FILE = 50_000_000
"""Maximum number of bytes of a file with settings or a tokenizer."""
INDEX = ".index.json"
"""Suffix of the index, which lists for each weight the file that contains it."""
STEMS = ("model", "pytorch_model")
"""Beginnings of the names of files with weights in transformers format."""
SKELETON = "pytorch_model.bin"
"""Name of the written file with weights without values."""
LARGEST_HEADER = 100_000_000
"""Maximum number of bytes of a safetensors header."""
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
"""Torch type of each type in a safetensors header."""


def write_skeleton(files: Files, folder: Path) -> None:
    """Write a folder with the settings and tokenizer of a model and with its weights without
    values.

    Args:
        files: Files of the model.
        folder: Destination, which exists.
    Raises:
        UserError: A file that the index names is missing, lacks keys that it should have, or cannot
            be read.
    """
    # Settings and tokenizer are copied as they are.
    for name in select_small_files(files):
        with files.open(name) as opened:
            (folder / name).write_bytes(opened.read())
    names = select_weights(files)
    index = _read_index(files, names)
    absent = list_absent_weights(files)
    if absent:
        raise UserError(
            f"lacks {format_keys(absent)}, which its index names; see its page, or correct the revision"
        )
    # Each key must come from the file that the index names for it.
    keys: dict[str, str] = {}
    weights: dict[str, torch.Tensor] = {}
    for name in names:
        with files.open(name) as opened:
            content = read_shapes(opened, name)
        keys |= dict.fromkeys(content, name)
        weights |= content
    missing = [key for key, name in index.items() if keys.get(key) != name]
    if missing:
        raise UserError(
            f"lacks {format_keys(missing)}, which its index names; see its page, or correct the revision"
        )
    if weights:
        torch.save(weights, folder / SKELETON)


def list_absent_weights(files: Files) -> list[str]:
    """Return the files of weights that the index of a model names but that do not exist."""
    indexed = set(_read_index(files, select_weights(files)).values())
    return sorted(indexed - files.sizes.keys())


def select_small_files(files: Files) -> list[str]:
    """Return the names of the files with settings and tokenizer of a model."""
    names = []
    for name, size in files.sizes.items():
        if _names_small_file(name) and size < LARGEST_SMALL_FILE:
            names.append(name)
    return names


def _names_small_file(name: str) -> bool:
    """Return whether a file holds settings or a part of a tokenizer by its name."""
    # Subfolders hold other formats of the model, which loaders do not read.
    if "/" in name or not is_safe_name(name):
        return False
    return name.endswith(SMALL_SUFFIXES) and not name.endswith(INDEX)


def select_weights(files: Files) -> list[str]:
    """Return the names of the files of weights that loaders would read: safetensors if there are
    any.
    """
    names_at_top = sorted(name for name in files.sizes if "/" not in name)
    for suffix in CHECKPOINT_SUFFIXES:
        names = [name for name in names_at_top if name.endswith(suffix)]
        if names:
            return _prefer_names_of_transformers(names)
    return []


def _prefer_names_of_transformers(names: list[str]) -> list[str]:
    """Return the names that transformers gives to weights, or all names if there is none of these."""
    # A repository may also contain weights in the format of its authors, which transformers
    # ignores.
    names_of_transformers = [name for name in names if name.startswith(STEMS)]
    return names_of_transformers or names


def _read_index(files: Files, names: list[str]) -> Mapping[str, str]:
    """Return for each key in the index the file that contains it; empty without index, or if one
    file has all keys.
    """
    has_single_file = any("-" not in name for name in names)
    if has_single_file:
        return {}
    for name in names:
        # model.safetensors.index.json belongs to model-1-of-2.safetensors.
        index = f"{name.partition('-')[0]}{Path(name).suffix}{INDEX}"
        if index in files.sizes:
            return _read_weight_map(files, index)
    return {}


def _read_weight_map(files: Files, index: str) -> Mapping[str, str]:
    """Return for each key in an index the file that contains it.

    Raises:
        UserError: The file is not an index.
    """
    with files.open(index) as opened:
        try:
            return dict(json.loads(opened.read())["weight_map"])
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(
                f"{index}: is not an index ({get_first_line(error)}); see its page"
            ) from None


def read_shapes(opened: BinaryIO, name: str) -> dict[str, Any]:
    """Return the content of a checkpoint without values; only the descriptions of its tensors are
    read.

    Args:
        opened: The file, opened at its start.
        name: Name of the file, whose suffix determines the format.
    Returns:
        Tensors on the meta device, in the nesting of the file.
    Raises:
        UserError: The file is not a checkpoint.
    """
    try:
        if name.endswith(".safetensors"):
            return _read_header(opened)
        with (
            torch.serialization.skip_data(),
            torch.serialization.safe_globals(HARMLESS_TYPES),
        ):
            content = torch.load(opened, map_location=META, weights_only=True)
    except UserError:
        raise
    except Exception as error:  # a broken file can raise anything
        raise UserError(
            f"{name}: is not a checkpoint ({hide_secrets(get_first_line(error))[:200]}); fetch it again"
        ) from None
    if not isinstance(content, dict):
        raise UserError(
            f"{name}: holds no weights by name; name the checkpoint file of a model"
        )
    return content


def _read_header(opened: BinaryIO) -> dict[str, torch.Tensor]:
    """Return the tensors that the header of a safetensors file describes, on the meta device."""
    # A safetensors file begins with the length of its header, 8 bytes, and the header in JSON.
    (length,) = struct.unpack("<Q", opened.read(8))
    if length > LARGEST_HEADER:
        raise ValueError(f"a header of {length} bytes")
    header = json.loads(opened.read(length))
    header.pop("__metadata__", None)
    tensors = {}
    for key, entry in header.items():
        tensors[key] = torch.empty(
            entry["shape"], dtype=DTYPES[entry["dtype"]], device=META
        )
    return tensors
