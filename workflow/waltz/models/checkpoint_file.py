"""Checkpoint files as released by their authors: read as tensors only and loaded into a network key by key."""

import argparse
import pickle
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, cast

import huggingface_hub
import numpy as np
import safetensors
import safetensors.torch
import torch
from huggingface_hub.utils.tqdm import disable_progress_bars

from waltz.core.errors import UserError, get_first_line
from waltz.core.files.json_objects import parse_json
from waltz.model_registry import ModelSpec

WEIGHT_LEVELS = ("model", "state_dict", "model_state_dict")
"""Keys under which training code keeps the weights, next to the optimiser's state."""
WRAPPER_PREFIX = "module."
"""Prefix that PyTorch's wrappers for several GPUs add to each key."""
SUFFIXES = (".safetensors", ".bin", ".pth", ".pt")
"""Suffixes of checkpoint files."""
MAX_LISTED_KEYS = 8
"""Maximum number of keys that an error names of each sort."""

NUMPY_SCALAR = cast(Callable[..., Any], np.float64(0).__reduce__()[0])
HARMLESS_TYPES: list[Callable[..., Any] | tuple[Callable[..., Any], str]] = [
    argparse.Namespace,
    np.dtype,
    *{type(np.dtype(name)) for name in ("bool", "int32", "int64", "float32", "float64")},
    (NUMPY_SCALAR, "numpy.core.multiarray.scalar"),
    (NUMPY_SCALAR, "numpy._core.multiarray.scalar"),
]
"""Types of the settings and counters that training scripts store next to weights; creating one runs no other code."""
ZIP_MAGIC = b"PK\x03\x04"
FORBIDDEN_GLOBAL = re.compile(r"GLOBAL (\w+(\.\w+)+)")


def read_checkpoint(file: Path) -> dict[str, torch.Tensor]:
    """Return the weights of a checkpoint file by key; a file in PyTorch's zip layout is memory-mapped.

    Levels of the file around them (`WEIGHT_LEVELS`, also nested) and a `module.` before every key are removed. Values
    that are not tensors, such as the number of an epoch, are skipped.

    Args:
        file: A `.safetensors` file, or one of `torch.save`, from which only tensors and plain values are read.
    Raises:
        UserError: The file cannot be read, is truncated, is no checkpoint, holds Python objects, or holds no tensor.
    """
    content: Any = _load_file(file)
    while isinstance(content, Mapping) and (level := next((key for key in WEIGHT_LEVELS if key in content), None)):
        if not isinstance(content[level], Mapping):
            break
        content = content[level]
    tensors = {}
    if isinstance(content, Mapping):
        tensors = {str(key): value for key, value in content.items() if isinstance(value, torch.Tensor)}
    if not tensors:
        raise UserError(f"{file}: holds no weights by name; name the checkpoint file of a model")
    if all(key.startswith(WRAPPER_PREFIX) for key in tensors):
        tensors = {key.removeprefix(WRAPPER_PREFIX): value for key, value in tensors.items()}
    return tensors


def load_weights(
    network: torch.nn.Module,
    weights: Mapping[str, torch.Tensor],
    file: Path,
    name: str,
    is_ignored: Callable[[str], bool],
    allow_missing: Mapping[str, str] = {},
) -> None:
    """Load weights into a network; each weight must match a key and its shape.

    Values are copied and cast to the network's precision. The network may be on the `meta` device, so that nothing is
    initialised or allocated before.

    Args:
        network: The network, whose parameters and buffers are overwritten.
        weights: Weights by key of the network.
        file: Where they come from, for errors.
        name: Name of the model in the study, for errors; empty outside of one.
        is_ignored: Predicate of keys that belong to something else, such as momentum copies.
        allow_missing: Patterns (`fnmatch`) of keys that may be missing or unexpected, each with the reason why that is
            harmless. Missing weights are zero, never random.
    Raises:
        UserError: A key is missing, unexpected or has another shape; all are counted, the first ones named.
    """
    own = network.state_dict()
    absent = [key for key in own if key not in weights]
    unexpected = [key for key in weights if key not in own and not is_ignored(key)]
    misshapen = [key for key in own if key in weights and weights[key].shape != own[key].shape]
    faults = {
        "lacks": [key for key in absent if not is_allowed(key, allow_missing)],
        "has unexpected": [key for key in unexpected if not is_allowed(key, allow_missing)],
        "has of another shape": [
            f"{key} {_format_shape(weights[key])} for {_format_shape(own[key])}" for key in misshapen
        ],
    }
    if any(faults.values()):
        where = format_subject(name, file)
        faults_text = "; ".join(f"{fault} {format_keys(keys)}" for fault, keys in faults.items() if keys)
        raise UserError(
            f"{where}: {faults_text}; name a checkpoint of this very network, or say in allow_missing why not"
        )
    fitted = {
        key: weights[key].to(dtype=value.dtype, copy=True) if key in weights else torch.zeros_like(value, device="cpu")
        for key, value in own.items()
    }
    network.load_state_dict(fitted, strict=True, assign=any(value.is_meta for value in own.values()))


def get_shape(weights: Mapping[str, torch.Tensor], key: str, axes: int, where: str) -> tuple[int, ...]:
    """Return the shape of a weight, which has this number of axes, none of length 0.

    Raises:
        UserError: It is missing, or of another shape.
    """
    if key not in weights:
        raise UserError(f"{where}: lacks {key}; name a checkpoint of this very network")
    shape = tuple(weights[key].shape)
    if len(shape) != axes or 0 in shape:
        raise UserError(
            f"{where}: {key} is of shape {shape}, {axes} axes are expected; name a checkpoint of this very network"
        )
    return shape


def list_layers(weights: Mapping[str, torch.Tensor], prefix: str, suffix: str = "") -> list[int]:
    """Return the numbers between a prefix and a suffix of keys, in order: the layers that have such weights."""
    pattern = re.compile(rf"{re.escape(prefix)}(\d{{1,4}})\.{re.escape(suffix)}")
    return sorted({int(match[1]) for match in map(pattern.match, weights) if match})


def find_checkpoint_file(spec: ModelSpec) -> Path:
    """Return the checkpoint file of a model.

    Args:
        spec: A model whose weights are a checkpoint file, a folder or hub id with one such file in it, or
            `OWNER/REPOSITORY/FILE` on the hub. Of files that differ only in their suffix, safetensors is taken.
    Raises:
        UserError: There is no such file or there are several, or it cannot be had from the hub.
    """
    path = Path(spec.weights)
    if path.is_file():
        return path
    if path.is_dir():
        return path / _select_file(spec, sorted(entry.name for entry in path.iterdir() if entry.is_file()))
    owner, _, rest = spec.weights.partition("/")
    repository, _, name = rest.partition("/")
    repository = f"{owner}/{repository}"
    disable_progress_bars()
    try:
        name = name or _select_file(spec, _list_hub_files(repository, spec.revision))
        return Path(huggingface_hub.hf_hub_download(repository, name, revision=spec.revision))
    except (OSError, ValueError) as error:
        raise UserError(
            f"{format_subject(spec.name, 'cannot load')} {spec.weights} at {spec.revision}:"
            f" {get_first_line(error)}; check the network, or name a file or folder"
        ) from error


def read_adjacent_settings(file: Path) -> dict[str, Any]:
    """Return the settings next to a checkpoint file, in a JSON file of its name or `config.json`; empty without one."""
    paths = (path for path in (file.with_suffix(".json"), file.with_name("config.json")) if path.is_file())
    return next(map(read_settings, paths), {})


def read_configured_settings(spec: ModelSpec) -> dict[str, Any] | None:
    """Return the settings that a model's entry names as its `config`; None if it names none."""
    return read_settings(Path(spec.config)) if spec.config else None


def read_settings(file: Path) -> dict[str, Any]:
    """Return a model's settings from a JSON file.

    Raises:
        UserError: It cannot be read or is no mapping.
    """
    try:
        settings = parse_json(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{file}: cannot be read as JSON ({get_first_line(error)}); mend it") from None
    if not isinstance(settings, dict):
        raise UserError(f"{file}: is no JSON mapping; write the model's settings by name")
    return settings


def format_subject(name: str, subject: object) -> str:
    """Return the start of an error message: the subject, after the model's name in a study if it has one."""
    return f"models.{name}: {subject}" if name else str(subject)


def is_allowed(key: str, allow_missing: Mapping[str, str]) -> bool:
    """Return whether the model's entry allows a key to be missing or unexpected."""
    return any(fnmatchcase(key, pattern) for pattern in allow_missing)


def format_keys(keys: Iterable[str]) -> str:
    """Return the first `MAX_LISTED_KEYS` keys, and the number of the others."""
    keys = list(keys)
    more = f" and {len(keys) - MAX_LISTED_KEYS} more" if len(keys) > MAX_LISTED_KEYS else ""
    return f"{', '.join(keys[:MAX_LISTED_KEYS])}{more}"


def _load_file(file: Path) -> Any:
    """Return the content of a checkpoint file without running code from it."""
    try:
        if file.suffix == ".safetensors":
            return safetensors.torch.load_file(file)
        with file.open("rb") as opened:
            is_zip = opened.read(len(ZIP_MAGIC)) == ZIP_MAGIC
        with (
            warnings.catch_warnings(action="ignore"),  # warnings about pickles, which are refused or read anyway
            torch.serialization.safe_globals(HARMLESS_TYPES),
        ):
            return torch.load(file, map_location="cpu", weights_only=True, mmap=is_zip)
    except OSError as error:
        raise UserError(f"{file}: cannot be read: {error.strerror or error}; check the path") from None
    except pickle.UnpicklingError as error:
        if code := FORBIDDEN_GLOBAL.search(str(error)):
            raise UserError(
                f"{file}: is truncated, or holds an object of {code[1]}, which is not loaded because that would run"
                " code of the file; fetch it again, or save only its tensors as safetensors"
            ) from None
        raise _build_broken_file_error(file, "its pickle cannot be read") from None
    except Exception as error:  # a hostile or truncated file can raise anything
        first_line = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise _build_broken_file_error(file, first_line[:100]) from None


def _build_broken_file_error(file: Path, reason: str) -> UserError:
    return UserError(f"{file}: is truncated or no checkpoint ({reason}); fetch it again and compare its sha256")


def _list_hub_files(repository: str, revision: str) -> list[str]:
    """Return the checkpoint files of a repository; those in the cache if the hub cannot be reached."""
    patterns = [f"*{suffix}" for suffix in SUFFIXES]
    try:
        entries = huggingface_hub.snapshot_download(
            repository, revision=revision, allow_patterns=patterns, dry_run=True
        )
        return sorted(entry.filename for entry in entries)
    except huggingface_hub.errors.DryRunError:
        folder = Path(
            huggingface_hub.snapshot_download(
                repository, revision=revision, allow_patterns=patterns, local_files_only=True
            )
        )
        return sorted(str(entry.relative_to(folder)) for entry in folder.rglob("*") if entry.is_file())


def _select_file(spec: ModelSpec, names: Iterable[str]) -> str:
    """Return the only checkpoint file among some files."""
    candidates = [name for name in names if name.endswith(SUFFIXES)]
    stems = {Path(name).with_suffix("") for name in candidates}
    if len(stems) != 1:
        raise UserError(
            f"{format_subject(spec.name, spec.weights)} holds {len(stems)} checkpoints"
            f" ({format_keys(candidates) or 'none'}), one is expected ({', '.join(SUFFIXES)}); name the file itself"
        )
    return min(candidates, key=lambda name: SUFFIXES.index(Path(name).suffix))


def _format_shape(tensor: torch.Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "scalar"
