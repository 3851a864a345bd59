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
from waltz.model_registry import DETECTOR_CONFIG, ModelSpec
from waltz.models.checkpoint_file import find_checkpoint_file, load_weights, read_checkpoint
from waltz.models.networks.detector.network import Detector
from waltz.models.networks.detector.settings import (
    DetectorConfig,
    DetectorSettings,
    check_config_sizes,
    read_config,
    read_sizes,
)

WEIGHTS_LEVEL = "model"
"""Key of the weights in the file."""


def read_arrays(file: Path) -> dict[str, torch.Tensor]:
    """Return the weights of a pickle of NumPy arrays by key; a `model` level around them is removed.

    Raises:
        UserError: The file cannot be read, holds anything but plain values and arrays of numbers, or no array.
    """
    try:
        with file.open("rb") as opened:
            content: Any = _ArrayUnpickler(opened, encoding="latin1").load()
    except UserError:
        raise
    except OSError as error:
        raise UserError(f"{file}: cannot be read: {error.strerror or error}; check the path") from None
    except Exception as error:  # a hostile or truncated file can raise anything
        first_line = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise UserError(
            f"{file}: is truncated or no pickle of arrays ({first_line[:100]}); fetch it again and compare its sha256"
        ) from None
    if isinstance(content, Mapping) and isinstance(content.get(WEIGHTS_LEVEL), Mapping):
        content = content[WEIGHTS_LEVEL]
    arrays = {str(key): value for key, value in content.items()} if isinstance(content, Mapping) else {}
    arrays = {key: value for key, value in arrays.items() if isinstance(value, np.ndarray)}
    invalid = [key for key, value in arrays.items() if value.dtype.kind not in "fiu"]
    if invalid or not arrays:
        raise UserError(
            f"{file}: {f'{invalid[0]} is no array of numbers' if invalid else 'holds no arrays by name'};"
            " fetch it again"
        )
    return {
        key: torch.from_numpy(np.array(value, dtype=value.dtype.newbyteorder("="))) for key, value in arrays.items()
    }


def _encode_bytes(text: str, encoding: str) -> bytes:
    """Return bytes as Python 2's protocol encodes them."""
    if encoding not in ("latin1", "latin-1"):
        raise pickle.UnpicklingError(f"bytes in {encoding}")
    return text.encode("latin-1")


def _collect_constructors() -> dict[tuple[str, str], Callable[..., Any]]:
    """Return the constructors of arrays, by their names in pickles of old and new NumPy."""
    array: Any = np.zeros(1)
    number: Any = np.float64(0)
    constructors: dict[tuple[str, str], Callable[..., Any]] = {
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
        ("collections", "OrderedDict"): OrderedDict,
        ("_codecs", "encode"): _encode_bytes,
    }
    for core in ("numpy.core", "numpy._core"):
        constructors[f"{core}.multiarray", "_reconstruct"] = array.__reduce__()[0]
        constructors[f"{core}.multiarray", "scalar"] = number.__reduce__()[0]
        constructors[f"{core}.numeric", "_frombuffer"] = array.__reduce_ex__(5)[0]
    return constructors


class _ArrayUnpickler(pickle.Unpickler):
    """An unpickler that creates arrays and refuses everything else."""

    constructors = _collect_constructors()

    def find_class(self, module: str, name: str) -> Any:
        """Return a constructor of arrays."""
        if (module, name) not in self.constructors:
            raise pickle.UnpicklingError(f"it holds an object of {module}.{name}, which is not loaded")
        return self.constructors[module, name]


PICKLE_SUFFIX = ".pkl"
"""End of the name of the weights as they were first released."""
COUNTER_SUFFIX = "num_batches_tracked"
"""End of the keys of what training counted."""
DIGEST_DIGITS = 16


def load_detector(file: Path, config: Path | None = None, allow_missing: Mapping[str, str] = {}) -> Detector:
    """Return a detector from its weights and configuration.

    Args:
        file: Weights in the layout of `pytorch_model.bin` of the released detector, or its pickle of NumPy arrays.
        config: Its configuration; None uses the `config.yaml` next to the weights, else the released values.
        allow_missing: Patterns of keys that may be missing or unexpected, with reasons.
    Raises:
        UserError: A file cannot be read, they are of different networks, or a weight is missing or unexpected.
    """
    weights = read_arrays(file) if file.suffix == PICKLE_SUFFIX else read_checkpoint(file)
    sizes = read_sizes(weights, file)
    adjacent = file.with_name(DETECTOR_CONFIG)
    config_file = config or (adjacent if adjacent.is_file() else None)
    config_read = read_config(config_file) if config_file else DetectorConfig(DetectorSettings(), {})
    if config_file:
        check_config_sizes(sizes, config_read.sizes, file, config_file)
    with torch.device("meta"):
        network = Detector(_name_detector(file, config_read.settings), sizes, config_read.settings)
    load_weights(network, weights, file, "", lambda key: key.endswith(COUNTER_SUFFIX), allow_missing)
    return network.eval().requires_grad_(False)


def load_configured_detector(spec: ModelSpec) -> Detector:
    """Return the detector that a model's entry names: a file, or a folder or hub id with one.

    Raises:
        UserError: As `load_detector` does, or the files cannot be had.
    """
    is_local = Path(spec.detector).exists()
    if not is_local and not spec.detector_revision:
        raise UserError(
            f"models.{spec.name}.detector: {spec.detector!r} is no file or folder, and a hub id needs a"
            " detector_revision (a full commit hash)"
        )
    try:
        file = find_checkpoint_file(replace(spec, weights=spec.detector, revision=spec.detector_revision))
        return load_detector(file, None if is_local else _download_config(spec), spec.allow_missing)
    except UserError as error:
        prefix = f"models.{spec.name}"
        raise UserError(f"{prefix}.detector: {str(error).removeprefix(f'{prefix}: ')}") from None


def _download_config(spec: ModelSpec) -> Path | None:
    """Return the configuration in a repository, or None if it has none; a failed request is an error.

    The hub's cache records absent files, for machines without a network.
    """
    repository = "/".join(spec.detector.split("/")[:2])
    cached = huggingface_hub.try_to_load_from_cache(repository, DETECTOR_CONFIG, revision=spec.detector_revision)
    if cached is not None:
        return Path(cached) if isinstance(cached, str) else None
    try:
        return Path(huggingface_hub.hf_hub_download(repository, DETECTOR_CONFIG, revision=spec.detector_revision))
    except LocalEntryNotFoundError as error:
        first_line = str(error).strip().splitlines()[0]
        raise UserError(f"cannot load {DETECTOR_CONFIG} of {repository}: {first_line}; check the network") from None
    except EntryNotFoundError:
        return None


def _name_detector(file: Path, settings: DetectorSettings) -> str:
    """Return the name of a file with a digest of its bytes and the settings."""
    with file.open("rb") as opened:
        hasher = hashlib.file_digest(opened, "sha256")
    hasher.update(f"Settings({repr(settings).partition('(')[2]}".encode())
    return f"{file.name}@{hasher.hexdigest()[:DIGEST_DIGITS]}"
