"""Facts of a study that its export states: sources, their terms (`licences.yaml` lists known licences) and files."""

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from waltz.core.errors import UserError
from waltz.core.files.downloads import compute_sha256

LICENCES_FILE = Path(__file__).with_name("licences.yaml")
UNKNOWN = "unknown"


@dataclass(frozen=True)
class Licence:
    """A known licence.

    Attributes:
        name: Its SPDX identifier.
        hub: Its identifier on the Hugging Face hub.
        url: Address of its text.
        embed: Whether images under it may be passed on inside a data set.
    """

    name: str
    hub: str
    url: str
    embed: bool


@dataclass(frozen=True)
class Terms:
    """Terms of one source.

    Attributes:
        texts: Licence of its annotations, as its origin or the study states it; None where it is not stated.
        images: Licence of its images; None where it is unknown.
        citation: Citation of the source.
        no_images_reason: Why its images are not exported; None where they may be passed on.
    """

    texts: str | None
    images: str | None
    citation: str | None
    no_images_reason: str | None


def find_licence(name: str | None) -> Licence | None:
    """Return the known licence of a name ("CC BY 4.0", "cc-by-4.0"), or None."""
    return None if name is None else _read_licences().get(_normalize(name))


def get_hub_name(name: str | None) -> str:
    """Return the hub's identifier of a licence: `other` for an unknown one, `unknown` where none is stated."""
    if name is None:
        return UNKNOWN
    licence = find_licence(name)
    return licence.hub if licence else "other"


def read_terms(source: Mapping[str, Any]) -> Terms:
    """Return the terms of one source of a study.

    Args:
        source: Its entry: format, files, and optionally licence, citation and images, whose own `licence` takes
            precedence.
    Raises:
        UserError: `licences.yaml` has no entry for the format's images.
    """
    data = _read_data()
    image_entry = source.get("images", {})
    if isinstance(image_entry, list):  # all folders of one source's images share their terms
        image_entry = image_entry[0]
    drawn = data["drawn"]
    is_drawn = any("drawn" in file for file in (image_entry, *source["files"].values()))
    texts = source.get("licence") or (drawn["texts"] if is_drawn else None)
    citation = source.get("citation") or (drawn["citation"] if is_drawn else None)
    if "licence" in image_entry:
        images, reason = image_entry["licence"], None
    elif "drawn" in image_entry:
        images, reason = drawn["images"], None
    elif source["format"] not in data["images"]:
        raise UserError(
            f"{LICENCES_FILE.name}: images: no entry for the format {source['format']};"
            " state whether the source's licence covers its images"
        )
    else:
        reason = data["images"][source["format"]]
        images = texts if reason is None else None
    return Terms(texts, images, citation, _find_no_images_reason(images, reason, "images" in source))


def _find_no_images_reason(images: str | None, reason: str | None, has_images: bool) -> str | None:
    """Return why images may not be passed on, or None."""
    if reason is not None:
        return reason
    if not has_images:
        return "the study names no images"
    if images is None:
        return "no licence is stated"
    licence = find_licence(images)
    if licence is None:
        return f"the licence {images!r} is not among the known ones"
    return None if licence.embed else f"{licence.name} allows it for some uses only"


@functools.cache
def _read_data() -> dict[str, Any]:
    data: dict[str, Any] = yaml.safe_load(LICENCES_FILE.read_text(encoding="utf-8"))
    return data


@functools.cache
def _read_licences() -> dict[str, Licence]:
    """Return the known licences by all their names."""
    return {
        _normalize(name): Licence(entry["name"], entry["hub"], entry["url"], entry["embed"])
        for entry in _read_data()["licences"]
        for name in (entry["name"], *entry["names"])
    }


def _normalize(name: str) -> str:
    return re.sub(r"[^a-z0-9.]+", " ", name.casefold()).strip().removeprefix("the ")


@dataclass(frozen=True)
class RawFile:
    """A file of a source.

    Attributes:
        name: Its name in the study.
        origin: Its url; the name of a drawn file or of a user's file.
        sha256: Its checksum.
    """

    name: str
    origin: str
    sha256: str


@dataclass(frozen=True)
class SourceFacts:
    """A source of a study.

    Attributes:
        name: Its name in the study.
        form: Its format.
        drawn: Whether waltz drew its scenes.
        terms: Licences and citation.
        files: Its files without images.
    """

    name: str
    form: str
    drawn: bool
    terms: Terms
    files: tuple[RawFile, ...]


@dataclass(frozen=True)
class StudyFacts:
    """Facts of a study that its data set card contains.

    Attributes:
        study: Name of the study.
        seed: Its seed.
        valid_votes: Votes for the caption that make an item valid.
        sources: The sources of the parts, by name.
        instruments: Entry of each built instrument in the study.
        models: Models that proposed or filtered foils, by role.
        funnel: Rows of the funnel layout.
        audit: Rows of the layout of the blind audit.
        about: Entry `export` of the study: `url`, `creators`, `published`, `version`.
    """

    study: str
    seed: int
    valid_votes: int
    sources: Mapping[str, SourceFacts]
    instruments: Mapping[str, Mapping[str, Any]]
    models: Mapping[str, str]
    funnel: Sequence[Mapping[str, Any]]
    audit: Sequence[Mapping[str, Any]]
    about: Mapping[str, Any]


def build_source_facts(name: str, entry: Mapping[str, Any], files: Mapping[str, str]) -> SourceFacts:
    """Return the facts of one source and take the checksums of its files.

    Args:
        files: Paths of its files, by their names in the study.
    """
    raw_files = []
    for file, path in files.items():
        file_entry = entry["files"][file]
        origin = file_entry.get("url") or PurePosixPath(file_entry.get("drawn") or file_entry["path"]).name
        raw_files.append(RawFile(file, origin, compute_sha256(Path(path))))
    is_drawn = any("drawn" in file for file in entry["files"].values())
    return SourceFacts(name, entry["format"], is_drawn, read_terms(entry), tuple(raw_files))
