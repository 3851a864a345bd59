"""Detectors from their released files: PyTorch checkpoints, or pickles of NumPy arrays read without running code."""

import hashlib
import pickle
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import huggingface_hub
import numpy as np
import torch
from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

from waltz.core.errors import UserError
from waltz.models.checkpoint_file import find_checkpoint_file, load_weights, read_checkpoint
from waltz.models.networks.detector.network import Detector
from waltz.models.networks.detector.settings import (
    DetectorConfig,
    DetectorSettings,
    check_config_sizes,
    read_config,
    read_sizes,
)
from waltz.models.registry import DETECTOR_CONFIG, ModelSpec

WEIGHTS_LEVEL = "model"
"""Key under which the file keeps the weights."""


def read_arrays(file: Path) -> dict[str, torch.Tensor]:
    """The weights of a pickle of NumPy arrays, by key; a `model` level around them is taken away.

    Raises:
        UserError: The file cannot be read, holds anything but plain values and arrays of numbers, or no array.
    """
    try:
        with file.open("rb") as opened:
            found: Any = _ArrayUnpickler(opened, encoding="latin1").load()
    except UserError:
        raise
    except OSError as error:
        raise UserError(f"{file}: cannot be read: {error.strerror or error}; check the path") from None
    except Exception as error:  # whatever a hostile or truncated file makes the reader raise
        first_line = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise UserError(
            f"{file}: is truncated or no pickle of arrays ({first_line[:100]}); fetch it again and compare its sha256"
        ) from None
    if isinstance(found, Mapping) and isinstance(found.get(WEIGHTS_LEVEL), Mapping):
        found = found[WEIGHTS_LEVEL]
    arrays = {str(key): value for key, value in found.items()} if isinstance(found, Mapping) else {}
    arrays = {key: value for key, value in arrays.items() if isinstance(value, np.ndarray)}
    odd = [key for key, value in arrays.items() if value.dtype.kind not in "fiu"]
    if odd or not arrays:
        raise UserError(
            f"{file}: {f'{odd[0]} is no array of numbers' if odd else 'holds no arrays by name'}; fetch it again"
        )
    return {
        key: torch.from_numpy(np.array(value, dtype=value.dtype.newbyteorder("="))) for key, value in arrays.items()
    }


def _encode_bytes(text: str, encoding: str) -> bytes:
    """Bytes as Python 2's protocol spells them."""
    if encoding not in ("latin1", "latin-1"):
        raise pickle.UnpicklingError(f"bytes in {encoding}")
    return text.encode("latin-1")


def _collect_constructors() -> dict[tuple[str, str], Callable[..., Any]]:
    """What makes arrays again, by the names that pickles of old and new NumPy call it."""
    array: Any = np.zeros(1)
    number: Any = np.float64(0)
    found: dict[tuple[str, str], Callable[..., Any]] = {
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
        ("collections", "OrderedDict"): OrderedDict,
        ("_codecs", "encode"): _encode_bytes,
    }
    for core in ("numpy.core", "numpy._core"):
        found[f"{core}.multiarray", "_reconstruct"] = array.__reduce__()[0]
        found[f"{core}.multiarray", "scalar"] = number.__reduce__()[0]
        found[f"{core}.numeric", "_frombuffer"] = array.__reduce_ex__(5)[0]
    return found


class _ArrayUnpickler(pickle.Unpickler):
    """An unpickler that makes arrays and refuses all else."""

    makers = _collect_constructors()

    def find_class(self, module: str, name: str) -> Any:
        """What makes arrays."""
        if (module, name) not in self.makers:
            raise pickle.UnpicklingError(f"it holds an object of {module}.{name}, which is not loaded")
        return self.makers[module, name]


pass

PICKLE_SUFFIX = ".pkl"
"""End of the name of the weights as they were first released."""
COUNTER_SUFFIX = "num_batches_tracked"
"""End of the keys of what training counted."""
DIGEST_DIGITS = 16


def load_detector(file: Path, config: Path | None = None, allow_missing: Mapping[str, str] = {}) -> Detector:
    """A detector by its weights and configuration.

    Args:
        file: Weights in the layout of `pytorch_model.bin` of the released detector, or its pickle of NumPy arrays.
        config: Its configuration; None takes the `config.yaml` beside the weights, else the released values.
        allow_missing: Patterns of keys that may lack or be left over, with reasons; see `checkpoint_file.load_weights`.
    Raises:
        UserError: A file cannot be read, they are of different networks, or a weight is missing or unexpected.
    """
    weights = read_arrays(file) if file.suffix == PICKLE_SUFFIX else read_checkpoint(file)
    sizes = read_sizes(weights, file)
    beside = file.with_name(DETECTOR_CONFIG)
    chosen = config or (beside if beside.is_file() else None)
    read_in = read_config(chosen) if chosen else DetectorConfig(DetectorSettings(), {})
    if chosen:
        check_config_sizes(sizes, read_in.said, file, chosen)
    with torch.device("meta"):
        network = Detector(_name_detector(file, read_in.settings), sizes, read_in.settings)
    load_weights(network, weights, file, "", lambda key: key.endswith(COUNTER_SUFFIX), allow_missing)
    return network.eval().requires_grad_(False)


def load_configured_detector(spec: ModelSpec) -> Detector:
    """The detector that a model's entry names: a file, or a folder or hub id with one.

    Raises:
        UserError: As `load_detector` does, or the files cannot be had.
    """
    local = Path(spec.detector).exists()
    if not local and not spec.detector_revision:
        raise UserError(
            f"models.{spec.name}.detector: {spec.detector!r} is no file or folder, and a hub id needs a"
            " detector_revision (a full commit hash)"
        )
    try:
        file = find_checkpoint_file(replace(spec, weights=spec.detector, revision=spec.detector_revision))
        return load_detector(file, None if local else _download_config(spec), spec.allow_missing)
    except UserError as error:
        before = f"models.{spec.name}"
        raise UserError(f"{before}.detector: {str(error).removeprefix(f'{before}: ')}") from None


def _download_config(spec: ModelSpec) -> Path | None:
    """The configuration in a repository, or None where there is none; not being able to look is an error.

    The hub's cache remembers what a repository has not, for machines without a network.
    """
    repository = "/".join(spec.detector.split("/")[:2])
    known = huggingface_hub.try_to_load_from_cache(repository, DETECTOR_CONFIG, revision=spec.detector_revision)
    if known is not None:
        return Path(known) if isinstance(known, str) else None
    try:
        return Path(huggingface_hub.hf_hub_download(repository, DETECTOR_CONFIG, revision=spec.detector_revision))
    except LocalEntryNotFoundError as error:
        first_line = str(error).strip().splitlines()[0]
        raise UserError(f"cannot load {DETECTOR_CONFIG} of {repository}: {first_line}; check the network") from None
    except EntryNotFoundError:
        return None


def _name_detector(file: Path, settings: DetectorSettings) -> str:
    """Name of a file, with a digest of its bytes and the settings."""
    with file.open("rb") as opened:
        total = hashlib.file_digest(opened, "sha256")
    total.update(f"Settings({repr(settings).partition('(')[2]}".encode())
    return f"{file.name}@{total.hexdigest()[:DIGEST_DIGITS]}"
