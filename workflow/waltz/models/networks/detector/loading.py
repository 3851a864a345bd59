"""Detectors from their released files, at any size."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import huggingface_hub
import torch
from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

from waltz.core.errors import UserError
from waltz.models.checkpoint_file import fit, only_file, read
from waltz.models.networks.detector.arrays import read_arrays
from waltz.models.networks.detector.network import Detector
from waltz.models.networks.detector.settings import Config, Settings, read_config
from waltz.models.networks.detector.sizes import agree, sizes_of
from waltz.models.registry import DETECTOR_CONFIG, ModelSpec

PICKLE = ".pkl"
"""End of the name of the weights as they were first released."""
COUNTERS = "num_batches_tracked"
"""End of the keys of what training counted."""
DIGITS = 16


def load_detector(file: Path, config: Path | None = None, allow_missing: Mapping[str, str] = {}) -> Detector:
    """A detector by its weights and configuration.

    Args:
        file: Weights in the layout of `pytorch_model.bin` of the released detector, or its pickle of NumPy arrays.
        config: Its configuration; None takes the `config.yaml` beside the weights, else the released values.
        allow_missing: Patterns of keys that may lack or be left over, with reasons; see `original.fit`.
    Raises:
        UserError: A file cannot be read, they are of different networks, or a weight is missing or unexpected.
    """
    weights = read_arrays(file) if file.suffix == PICKLE else read(file)
    sizes = sizes_of(weights, file)
    beside = file.with_name(DETECTOR_CONFIG)
    chosen = config or (beside if beside.is_file() else None)
    read_in = read_config(chosen) if chosen else Config(Settings(), {})
    if chosen:
        agree(sizes, read_in.said, file, chosen)
    with torch.device("meta"):
        network = Detector(_name(file, read_in.settings), sizes, read_in.settings)
    fit(network, weights, file, "", lambda key: key.endswith(COUNTERS), allow_missing)
    return network.eval().requires_grad_(False)


def named_detector(spec: ModelSpec) -> Detector:
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
        file = only_file(replace(spec, weights=spec.detector, revision=spec.detector_revision))
        return load_detector(file, None if local else _config_on_hub(spec), spec.allow_missing)
    except UserError as error:
        before = f"models.{spec.name}"
        raise UserError(f"{before}.detector: {str(error).removeprefix(f'{before}: ')}") from None


def _config_on_hub(spec: ModelSpec) -> Path | None:
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


def _name(file: Path, settings: Settings) -> str:
    """Name of a file, with a digest of its bytes and the settings."""
    with file.open("rb") as opened:
        total = hashlib.file_digest(opened, "sha256")
    total.update(repr(settings).encode())
    return f"{file.name}@{total.hexdigest()[:DIGITS]}"
