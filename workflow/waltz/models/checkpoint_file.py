"""Checkpoint files as released by their authors: read as tensors only and loaded into a network key
by key.
"""

import argparse
import logging
import pickle
import re
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import huggingface_hub
import safetensors
import safetensors.torch
import torch
from huggingface_hub.utils.tqdm import disable_progress_bars

from waltz.core.errors import UserError, convert_to_user_error, get_first_line
from waltz.core.files.json_objects import parse_json
from waltz.core.files.safe_names import is_safe_name
from waltz.model_registry import CHECKPOINT_SUFFIXES, ModelSpec
from waltz.models.array_pickle import StoredType, read_scalar

Settings = Mapping[str, Any]
"""Content of a JSON file with a model's settings, as it was read: not checked."""
WEIGHT_LEVELS = ("model", "state_dict", "model_state_dict")
"""Keys under which training code keeps the weights, next to the optimizer's state."""
WRAPPER_PREFIX = "module."
"""Prefix that PyTorch's wrappers for several GPUs add to each key."""
MAX_LISTED_KEYS = 8
"""Maximum number of keys that an error names of each sort."""

HARMLESS_TYPES: list[Callable[..., Any] | tuple[Callable[..., Any], str]] = [
    argparse.Namespace,
    (StoredType, "numpy.dtype"),
    (read_scalar, "numpy.core.multiarray.scalar"),
    (read_scalar, "numpy._core.multiarray.scalar"),
]
"""Types of the settings and counters that training scripts store next to weights; creating one runs
no other code.
"""
log = logging.getLogger(__name__)
ZIP_MAGIC = b"PK\x03\x04"
_ACCEPTS_SKELETONS = ContextVar("accepts_skeletons", default=False)
"""Whether tensors of the meta device, which have no values, are read."""
FORBIDDEN_GLOBAL = re.compile(r"GLOBAL (\w+(\.\w+)+)")


@contextmanager
def accept_skeletons() -> Iterator[None]:
    """Let checkpoints have tensors of the meta device, with which preflight checks keys and shapes
    but no values.
    """
    token = _ACCEPTS_SKELETONS.set(True)
    try:
        yield
    finally:
        _ACCEPTS_SKELETONS.reset(token)


def read_checkpoint(file: Path) -> dict[str, torch.Tensor]:
    """Return the weights of a checkpoint file by key; a file in PyTorch's zip layout is
    memory-mapped.

    Levels of the file around them (`WEIGHT_LEVELS`, also nested) and a `module.` before every key
    are removed. Values that are not tensors, such as the number of an epoch, are skipped.

    Args:
        file: A `.safetensors` file, or a file of `torch.save`, from which only tensors and plain
            values are read.
    Raises:
        UserError: The file cannot be read, is truncated, is not a checkpoint, holds Python objects, or
            holds no tensor, or a tensor that is not dense.
    """
    content = _find_weights(_load_file(file))
    tensors: dict[str, torch.Tensor] = {}
    for key, value in content.items():
        if not isinstance(value, torch.Tensor):
            continue
        if not is_dense(value):
            raise UserError(
                f"{file}: {str(key)[:80]} is not a dense tensor of real numbers; save the weights as safetensors"
            )
        tensors[str(key)] = value
    if not tensors:
        keys = ", ".join(str(key)[:80] for key in list(content)[:5])
        raise UserError(
            f"{file}: holds no weights by name (got {keys or 'nothing'}, expected weights, or them below"
            f" {', '.join(WEIGHT_LEVELS)}); save the weights alone, as safetensors"
        )
    # Only if all have it: a network may have a part of that name.
    if all(key.startswith(WRAPPER_PREFIX) for key in tensors):
        tensors = {
            key.removeprefix(WRAPPER_PREFIX): value for key, value in tensors.items()
        }
    return tensors


def align_keys(
    weights: Mapping[str, torch.Tensor], names: Collection[str]
) -> dict[str, torch.Tensor]:
    """Return weights by the keys of a network: without the prefix of the part of a training program
    that held the network, such as `model.` of Lightning or `module._orig_mod.`.

    Weights of other parts of that program, such as its loss, are left out and logged. If no key is
    one of the network, all are returned as they are.

    Args:
        weights: Weights by their keys in a file.
        names: Keys of the network.
    """
    # Of all prefixes, the one before the most keys of the network; of equals, the shortest.
    counts: Counter[str] = Counter()
    for key in weights:
        parts = key.split(".")
        for index in range(len(parts)):
            if ".".join(parts[index:]) in names:
                counts[key.removesuffix(".".join(parts[index:]))] += 1
    if not counts:
        return dict(weights)
    prefix = max(counts, key=lambda prefix: (counts[prefix], -len(prefix)))
    aligned, unrelated = {}, []
    for key, value in weights.items():
        if key.startswith(prefix):
            aligned[key.removeprefix(prefix)] = value
        else:
            unrelated.append(key)
    if unrelated:
        log.info(
            "%d weights are not part of the network: %s",
            len(unrelated),
            format_keys(unrelated),
        )
    return aligned


def _find_weights(content: Any) -> Mapping[Any, Any]:
    """Return the innermost mapping below `WEIGHT_LEVELS`; empty if the content is not a mapping."""
    if not isinstance(content, Mapping):
        return {}
    # Each level may contain each other one once; a file whose mapping contains itself ends here, too.
    for _ in WEIGHT_LEVELS:
        for level in WEIGHT_LEVELS:
            if isinstance(content.get(level), Mapping):
                content = content[level]
                break
    weights: Mapping[Any, Any] = content
    return weights


def is_dense(tensor: torch.Tensor) -> bool:
    """Return whether a tensor holds a real number at each of its positions.

    A tensor of the `meta` device has no values, so that a copy of it shows uninitialized memory;
    indices of a sparse tensor may lie outside of its shape; and a complex tensor would lose its
    imaginary part.
    """
    if tensor.is_meta and not _ACCEPTS_SKELETONS.get():
        return False
    is_plain = tensor.layout == torch.strided and not (
        tensor.is_nested or tensor.is_quantized
    )
    return is_plain and not tensor.is_complex()


def load_weights(
    network: torch.nn.Module,
    weights: Mapping[str, torch.Tensor],
    file: Path,
    name: str,
    is_ignored: Callable[[str], bool],
    allow_missing: Mapping[str, str] = {},
) -> None:
    """Load weights into a network; each weight must match a key and its shape.

    Values are copied and cast to the network's precision. The network may be on the `meta` device,
    so that nothing is initialized or allocated before.

    Args:
        network: The network, whose parameters and buffers are overwritten.
        weights: Weights by key of the network.
        file: File of the weights, for errors.
        name: Name of the model in the study, for errors; empty outside of one.
        is_ignored: Predicate of keys that belong to something else, such as momentum copies.
        allow_missing: Patterns (`fnmatch`) of keys that may be missing or unexpected, each with the
            reason why that is harmless. Missing weights are zero, never random.
    Raises:
        UserError: A key is missing, unexpected or has another shape; all are counted, and the first
            ones are named.
    """
    parameters = network.state_dict()
    faults = _list_faults(parameters, weights, is_ignored, allow_missing)
    if faults:
        raise UserError(
            f"{format_subject(name, file)}: {'; '.join(faults)}; name a checkpoint of this very network, or say in"
            " allow_missing why not"
        )
    values = {}
    for key, parameter in parameters.items():
        if key in weights:
            values[key] = weights[key].to(dtype=parameter.dtype, copy=True)
        else:
            # Allowed to be missing; never random.
            values[key] = torch.zeros_like(parameter, device="cpu")
    # A tensor without values cannot be copied into, so that it is replaced.
    is_on_meta = any(parameter.is_meta for parameter in parameters.values())
    network.load_state_dict(values, strict=True, assign=is_on_meta)


def _list_faults(
    parameters: Mapping[str, torch.Tensor],
    weights: Mapping[str, torch.Tensor],
    is_ignored: Callable[[str], bool],
    allow_missing: Mapping[str, str],
) -> list[str]:
    """Return for each kind of fault its keys: missing, unexpected, and of another shape; see
    `load_weights`.
    """
    # A weight of another shape is never allowed: nothing says what it means.
    missing, misshapen = [], []
    for key, parameter in parameters.items():
        if key not in weights:
            if not is_allowed(key, allow_missing):
                missing.append(key)
        elif weights[key].shape != parameter.shape:
            misshapen.append(
                f"{key} {_format_shape(weights[key])} for {_format_shape(parameter)}"
            )
    unexpected = []
    for key in weights:
        is_harmless = is_ignored(key) or is_allowed(key, allow_missing)
        if key not in parameters and not is_harmless:
            unexpected.append(key)
    faults = {
        "lacks": missing,
        "has unexpected": unexpected,
        "has of another shape": misshapen,
    }
    return [f"{fault} {format_keys(keys)}" for fault, keys in faults.items() if keys]


def get_shape(
    weights: Mapping[str, torch.Tensor], key: str, axes: int, label: str
) -> tuple[int, ...]:
    """Return the shape of a weight, which has this number of axes, none of length 0.

    Args:
        weights: Weights by key.
        key: Key of the weight.
        axes: Number of axes.
        label: Start of error messages.
    Raises:
        UserError: The weight is missing, or of another shape.
    """
    if key not in weights:
        raise UserError(f"{label}: lacks {key}; name a checkpoint of this very network")
    shape = tuple(weights[key].shape)
    if len(shape) != axes or 0 in shape:
        raise UserError(
            f"{label}: {key} is of shape {shape}, {axes} axes are expected; name a checkpoint of this very network"
        )
    return shape


def list_layers(
    weights: Mapping[str, torch.Tensor], prefix: str, suffix: str = ""
) -> list[int]:
    """Return the numbers between a prefix and a suffix of keys, in order: the layers that have such
    weights.
    """
    pattern = re.compile(rf"{re.escape(prefix)}(\d{{1,4}})\.{re.escape(suffix)}")
    matches = map(pattern.match, weights)
    return sorted({int(match[1]) for match in matches if match})


def find_checkpoint_file(spec: ModelSpec) -> Path:
    """Return the checkpoint file of a model.

    Args:
        spec: A model whose weights are a checkpoint file, a folder or hub id with one such file in
            it, or `OWNER/REPOSITORY/FILE` on the hub. Of files that differ only in their suffix,
            safetensors is taken.
    Raises:
        UserError: There is no such file or there are several, or it cannot be fetched from the hub.
    """
    path = Path(spec.weights)
    if path.is_file():
        return path
    if path.is_dir():
        names = sorted(entry.name for entry in path.iterdir() if entry.is_file())
        return path / _select_file(spec, names)
    # OWNER/REPOSITORY, or OWNER/REPOSITORY/FILE.
    owner, _, rest = spec.weights.partition("/")
    repository, _, name = rest.partition("/")
    repository = f"{owner}/{repository}"
    disable_progress_bars()
    try:
        if not name:
            name = _select_file(spec, _list_hub_files(repository, spec.revision))
        return Path(
            huggingface_hub.hf_hub_download(repository, name, revision=spec.revision)
        )
    except (OSError, ValueError) as error:
        raise convert_to_user_error(error) or UserError(
            f"{format_subject(spec.name, 'cannot load')} {spec.weights} at {spec.revision}:"
            f" {get_first_line(error)}; check the network, or name a file or folder"
        ) from error


def read_adjacent_settings(file: Path) -> Settings:
    """Return the settings next to a checkpoint file, in a JSON file of its name or `config.json`;
    empty without one.
    """
    for path in (file.with_suffix(".json"), file.with_name("config.json")):
        if path.is_file():
            return read_settings(path)
    return {}


def read_configured_settings(spec: ModelSpec) -> Settings | None:
    """Return the settings that a model's entry names as its `config`; None if it names none."""
    if not spec.config:
        return None
    return read_settings(Path(spec.config))


def read_settings(file: Path) -> Settings:
    """Return a model's settings from a JSON file.

    Raises:
        UserError: The file cannot be read or holds no mapping.
    """
    try:
        settings = parse_json(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(
            f"{file}: cannot be read as JSON ({get_first_line(error)}); correct it"
        ) from None
    if not isinstance(settings, dict):
        raise UserError(
            f"{file}: is not a JSON mapping; write the model's settings by name"
        )
    return settings


def read_shard_names(index: Path) -> set[str]:
    """Return the files that an index of weights names, which lie next to it.

    Raises:
        UserError: The index cannot be read, is not an index, or names a file outside its folder.
    """
    weight_map = read_settings(index).get("weight_map")
    if not isinstance(weight_map, dict) or not all(
        isinstance(name, str) for name in weight_map.values()
    ):
        raise UserError(
            f"{index}: is not an index of weights (expected files by key under weight_map); copy it again"
        )
    names = set(weight_map.values())
    outside = [name for name in names if not is_safe_name(name)]
    if outside:
        raise UserError(
            f"{index}: names a file outside its folder, or that cannot be (got {min(outside)[:80]!r}); do not use this"
            " model unless you trust it, and name its files"
        )
    return names


def format_subject(name: str, subject: object) -> str:
    """Return the start of an error message: the subject, after the model's name in a study if it
    has one.
    """
    if name:
        return f"models.{name}: {subject}"
    return str(subject)


def is_allowed(key: str, allow_missing: Mapping[str, str]) -> bool:
    """Return whether the model's entry allows a key to be missing or unexpected."""
    return any(fnmatchcase(key, pattern) for pattern in allow_missing)


def format_keys(keys: Iterable[str]) -> str:
    """Return the first `MAX_LISTED_KEYS` keys, and the number of the others."""
    keys = list(keys)
    listed = ", ".join(keys[:MAX_LISTED_KEYS])
    more = len(keys) - MAX_LISTED_KEYS
    if more > 0:
        return f"{listed} and {more} more"
    return listed


def _load_file(file: Path) -> Any:
    """Return the content of a checkpoint file without running code from it."""
    try:
        if file.suffix == ".safetensors":
            return safetensors.torch.load_file(file)
        with file.open("rb") as opened:
            # Only the zip layout can be mapped into memory.
            is_zip = opened.read(len(ZIP_MAGIC)) == ZIP_MAGIC
        with (
            # Warnings about pickles, which are refused or read anyway.
            warnings.catch_warnings(action="ignore"),
            torch.serialization.safe_globals(HARMLESS_TYPES),
        ):
            return torch.load(file, map_location="cpu", weights_only=True, mmap=is_zip)
    except OSError as error:
        raise UserError(
            f"{file}: cannot be read: {error.strerror or error}; check the path"
        ) from None
    except pickle.UnpicklingError as error:
        code = FORBIDDEN_GLOBAL.search(str(error))
        if code is not None:
            raise UserError(
                f"{file}: is truncated, or holds an object of {code[1]}, which is not loaded because that would run"
                " code of the file; fetch it again, or save only its tensors as safetensors"
            ) from None
        raise _build_broken_file_error(file, "its pickle cannot be read") from None
    except Exception as error:  # a hostile or truncated file can raise anything
        first_line = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise _build_broken_file_error(file, first_line[:100]) from None


def _build_broken_file_error(file: Path, reason: str) -> UserError:
    return UserError(
        f"{file}: is truncated or no checkpoint ({reason}); fetch it again and compare its sha256"
    )


def _list_hub_files(repository: str, revision: str) -> list[str]:
    """Return the checkpoint files of a repository, or those in the cache if the hub cannot be
    reached.
    """
    patterns = [f"*{suffix}" for suffix in CHECKPOINT_SUFFIXES]
    try:
        # A dry run lists files without fetching them.
        entries = huggingface_hub.snapshot_download(
            repository, revision=revision, allow_patterns=patterns, dry_run=True
        )
        return sorted(entry.filename for entry in entries)
    except huggingface_hub.errors.DryRunError:
        folder = Path(
            huggingface_hub.snapshot_download(
                repository,
                revision=revision,
                allow_patterns=patterns,
                local_files_only=True,
            )
        )
        return sorted(
            str(entry.relative_to(folder))
            for entry in folder.rglob("*")
            if entry.is_file()
        )


def _select_file(spec: ModelSpec, names: Iterable[str]) -> str:
    """Return the only checkpoint file among some files."""
    candidates = [name for name in names if name.endswith(CHECKPOINT_SUFFIXES)]
    # One checkpoint may be there in two formats.
    stems = {Path(name).with_suffix("") for name in candidates}
    if len(stems) != 1:
        suffixes = ", ".join(CHECKPOINT_SUFFIXES)
        raise UserError(
            f"{format_subject(spec.name, spec.weights)} holds {len(stems)} checkpoints"
            f" ({format_keys(candidates) or 'none'}), one is expected ({suffixes}); name the file itself"
        )
    return min(
        candidates, key=lambda name: CHECKPOINT_SUFFIXES.index(Path(name).suffix)
    )


def _format_shape(tensor: torch.Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "scalar"
