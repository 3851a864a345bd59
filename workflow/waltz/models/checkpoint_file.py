"""Checkpoint files as their authors saved them: read as tensors alone, and fitted to a network key by key."""

import json
import pickle
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import huggingface_hub
import safetensors
import safetensors.torch
import torch
from huggingface_hub.utils.tqdm import disable_progress_bars

from waltz.core.errors import UserError
from waltz.models.registry import ModelSpec

WEIGHT_LEVELS = ("model", "state_dict", "model_state_dict")
"""Keys under which training code keeps the weights, next to the optimiser's state."""
WRAPPER_PREFIX = "module."
"""What PyTorch's wrappers for several GPUs put before each key."""
SUFFIXES = (".safetensors", ".bin", ".pth", ".pt")
"""Ends of names of checkpoint files."""
MAX_LISTED_KEYS = 8
"""Most keys that an error names of each sort."""

ZIP_MAGIC = b"PK\x03\x04"
FORBIDDEN_GLOBAL = re.compile(r"GLOBAL (\w+(\.\w+)+)")


def read_checkpoint(file: Path) -> dict[str, torch.Tensor]:
    """The weights of a checkpoint file, by key; a file in PyTorch's zip layout is mapped and not copied.

    Levels of the file around them (`LEVELS`, also nested) and a `module.` before every key are taken away. What is no
    tensor, such as the number of an epoch, is no weight and left out.

    Args:
        file: A `.safetensors` file, or one of `torch.save`, of which tensors and plain values alone are read.
    Raises:
        UserError: The file cannot be read, is truncated or no checkpoint, holds objects of Python, or no tensor.
    """
    found: Any = _load_file(file)
    while isinstance(found, Mapping) and (level := next((key for key in WEIGHT_LEVELS if key in found), None)):
        if not isinstance(found[level], Mapping):
            break
        found = found[level]
    tensors = {}
    if isinstance(found, Mapping):
        tensors = {str(key): value for key, value in found.items() if isinstance(value, torch.Tensor)}
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
    ignored: Callable[[str], bool],
    allow_missing: Mapping[str, str] = {},
) -> None:
    """Load weights into a network, each of which must find its place and shape.

    Values are copied and cast to the network's precision. The network may lie on the `meta` device, then nothing is
    drawn or allocated before.

    Args:
        network: What the weights are for; its parameters and buffers are overwritten.
        weights: Weights by key of the network.
        file: Where they come from, for errors.
        name: Name of the model in the study, for errors; empty outside of one.
        ignored: Which other keys are known to belong to something else, such as momentum copies.
        allow_missing: Patterns (`fnmatch`) of keys that may lack or be left over, each with the reason why that harms
            nothing. What lacks is zero, never random.
    Raises:
        UserError: A key lacks, is unexpected or has another shape; all of them are counted, the first ones named.
    """
    own = network.state_dict()
    absent = [key for key in own if key not in weights]
    left = [key for key in weights if key not in own and not ignored(key)]
    misshapen = [key for key in own if key in weights and weights[key].shape != own[key].shape]
    faults = {
        "lacks": [key for key in absent if not is_allowed(key, allow_missing)],
        "has unexpected": [key for key in left if not is_allowed(key, allow_missing)],
        "has of another shape": [
            f"{key} {_format_shape(weights[key])} for {_format_shape(own[key])}" for key in misshapen
        ],
    }
    if any(faults.values()):
        where = format_subject(name, file)
        said = "; ".join(f"{fault} {format_keys(keys)}" for fault, keys in faults.items() if keys)
        raise UserError(f"{where}: {said}; name a checkpoint of this very network, or say in allow_missing why not")
    fitted = {
        key: weights[key].to(device="cpu", dtype=value.dtype, copy=True)
        if key in weights
        else torch.zeros_like(value, device="cpu")
        for key, value in own.items()
    }
    network.load_state_dict(fitted, strict=True, assign=any(value.is_meta for value in own.values()))


def find_checkpoint_file(spec: ModelSpec) -> Path:
    """The checkpoint file of a model.

    Args:
        spec: A model whose weights are a checkpoint file, a folder or hub id with one such file in it, or
            `OWNER/REPOSITORY/FILE` on the hub. Of two files that differ in their suffix alone, the safetensors is it.
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
        first_line = str(error).strip().splitlines()[0]
        raise UserError(
            f"{format_subject(spec.name, 'cannot load')} {spec.weights} at {spec.revision}: {first_line}; check the"
            " network, or name a file or folder"
        ) from error


def read_adjacent_settings(file: Path) -> dict[str, Any]:
    """The settings beside a checkpoint file, in a JSON file of its name or `config.json`; empty where there is none.

    Raises:
        UserError: The file there is no JSON mapping.
    """
    beside = (path for path in (file.with_suffix(".json"), file.with_name("config.json")) if path.is_file())
    return next(map(read_settings, beside), {})


def read_configured_settings(spec: ModelSpec) -> dict[str, Any] | None:
    """The settings that a model's entry names as its `config`; None where what lies beside the file shall decide.

    Raises:
        UserError: The file cannot be read or is no JSON mapping.
    """
    return read_settings(Path(spec.config)) if spec.config else None


def read_settings(file: Path) -> dict[str, Any]:
    """A model's settings from a JSON file.

    Raises:
        UserError: It cannot be read or is no mapping.
    """
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{file}: cannot be read as JSON ({str(error).splitlines()[0]}); mend it") from None
    if not isinstance(found, dict):
        raise UserError(f"{file}: is no JSON mapping; write the model's settings by name")
    return found


def format_subject(name: str, what: object) -> str:
    """How an error begins: what it is about, after the model's name in a study where it has one."""
    return f"models.{name}: {what}" if name else str(what)


def is_allowed(key: str, allow_missing: Mapping[str, str]) -> bool:
    """Whether a key is one that the model's entry excuses."""
    return any(fnmatchcase(key, pattern) for pattern in allow_missing)


def format_keys(keys: Iterable[str]) -> str:
    """The first `NAMED` of some keys, and how many more there are."""
    keys = list(keys)
    more = f" and {len(keys) - MAX_LISTED_KEYS} more" if len(keys) > MAX_LISTED_KEYS else ""
    return f"{', '.join(keys[:MAX_LISTED_KEYS])}{more}"


def _load_file(file: Path) -> Any:
    """What a checkpoint file holds, without running code of it."""
    try:
        if file.suffix == ".safetensors":
            return safetensors.torch.load_file(file)
        with file.open("rb") as opened:
            mapped = opened.read(len(ZIP_MAGIC)) == ZIP_MAGIC
        with warnings.catch_warnings(action="ignore"):  # about pickles that are refused, or read, all the same
            return torch.load(file, map_location="cpu", weights_only=True, mmap=mapped)
    except OSError as error:
        raise UserError(f"{file}: cannot be read: {error.strerror or error}; check the path") from None
    except pickle.UnpicklingError as error:
        if code := FORBIDDEN_GLOBAL.search(str(error)):
            raise UserError(
                f"{file}: is truncated, or holds an object of {code[1]} besides tensors, which is not loaded since that"
                " runs code of the file; fetch it again, or save its tensors alone as safetensors"
            ) from None
        raise UserError(f"{file}: {_describe_broken_file('its pickle cannot be read')}") from None
    except Exception as error:  # whatever a hostile or truncated file makes its readers raise
        first_line = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise UserError(f"{file}: {_describe_broken_file(first_line[:100])}") from None


def _describe_broken_file(reason: str) -> str:
    return f"is truncated or no checkpoint ({reason}); fetch it again and compare its sha256"


def _list_hub_files(repository: str, revision: str) -> list[str]:
    """Names of the checkpoint files of a repository; those of the cache where the hub cannot be reached."""
    wanted = [f"*{suffix}" for suffix in SUFFIXES]
    try:
        offered = huggingface_hub.snapshot_download(repository, revision=revision, allow_patterns=wanted, dry_run=True)
        return sorted(entry.filename for entry in offered)
    except huggingface_hub.errors.DryRunError:
        cached = Path(
            huggingface_hub.snapshot_download(
                repository, revision=revision, allow_patterns=wanted, local_files_only=True
            )
        )
        return sorted(str(entry.relative_to(cached)) for entry in cached.rglob("*") if entry.is_file())


def _select_file(spec: ModelSpec, names: Iterable[str]) -> str:
    """The one checkpoint file among some files."""
    found = [name for name in names if name.endswith(SUFFIXES)]
    stems = {Path(name).with_suffix("") for name in found}
    if len(stems) != 1:
        raise UserError(
            f"{format_subject(spec.name, spec.weights)} holds {len(stems)} checkpoints"
            f" ({format_keys(found) or 'none'}), one is expected ({', '.join(SUFFIXES)}); name the file itself"
        )
    return min(found, key=lambda name: SUFFIXES.index(Path(name).suffix))


def _format_shape(tensor: torch.Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "scalar"
