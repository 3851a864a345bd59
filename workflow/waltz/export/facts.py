"""Collect the facts of a study for its export: sources, terms and files. `licenses.yaml` lists
known licenses.
"""

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import yaml
from pydantic import TypeAdapter

from waltz.core.downloads.checksums import compute_sha256
from waltz.core.errors import UserError
from waltz.core.redaction import redact_url
from waltz.core.schema import AuditRecord, FunnelRecord

LICENSES_FILE = Path(__file__).with_name("licenses.yaml")
UNKNOWN = "unknown"
Entry = Mapping[str, Any]
"""Entry of a study as plain values."""


@dataclass(frozen=True)
class License:
    """Describe a known license.

    Attributes:
        name: SPDX identifier.
        hub: Identifier on the Hugging Face hub.
        url: Address of the text.
        embed: Whether images with this license may be passed on inside a data set.
        names: Further names.
    """

    name: str
    hub: str
    url: str
    embed: bool
    names: tuple[str, ...]


@dataclass(frozen=True)
class Terms:
    """Hold the terms of one source.

    Attributes:
        texts: License of the annotations, as their origin or the study states it; None if it is not
            stated.
        images: License of the images; None if it is unknown.
        citation: Citation of the source.
        no_images_reason: Reason why the images are not exported; None if they may be passed on.
    """

    texts: str | None
    images: str | None
    citation: str | None
    no_images_reason: str | None = None


@dataclass(frozen=True)
class LicenseData:
    """Hold the content of `licenses.yaml`.

    Attributes:
        licenses: The known licenses.
        drawn: Terms of drawn scenes.
        images: Reason why a source's license does not cover the images, by format; None if it does.
    """

    licenses: tuple[License, ...]
    drawn: Terms
    images: Mapping[str, str | None]


def find_license(name: str | None) -> License | None:
    """Return the known license of a name ("CC BY 4.0", "cc-by-4.0"), or None."""
    if name is None:
        return None
    return _read_licenses().get(_normalize(name))


def get_hub_name(name: str | None) -> str:
    """Return the hub's identifier of a license: `other` for an unknown license, `unknown` if none
    is stated.
    """
    if name in (None, UNKNOWN):
        return UNKNOWN
    license = find_license(name)
    if license is None:
        return "other"
    return license.hub


def read_terms(source: Entry) -> Terms:
    """Return the terms of one source of a study.

    Args:
        source: The source's entry: format, files, and optionally license, citation and images. A
            `licence` of the images takes precedence for them.
    Raises:
        UserError: `licenses.yaml` has no entry for the format's images.
    """
    scenes = _read_data().drawn
    image_entry = source.get("images", {})
    # All folders of one source's images share their terms.
    if isinstance(image_entry, list):
        image_entry = image_entry[0]
    # Scenes that waltz draws have known terms, which the study may replace.
    texts = source.get("licence") or None  # an empty text states no license
    citation = source.get("citation")
    if _is_drawn(image_entry) or any(map(_is_drawn, source["files"].values())):
        texts = texts or scenes.texts
        citation = citation or scenes.citation

    # The study knows best; then what is drawn; else the license of the texts, if the format's
    # images share it.
    if "licence" in image_entry:
        images = image_entry["licence"]
    elif _is_drawn(image_entry):
        images = scenes.images
    else:
        reason = _get_format_reason(source["format"])
        if reason is not None:
            return Terms(texts, None, citation, reason)
        images = texts
    reason = _find_no_images_reason(images, "images" in source)
    return Terms(texts, images, citation, reason)


def _is_drawn(file: Entry) -> bool:
    """Return whether the entry of a file or of images names scenes that waltz draws."""
    return "drawn" in file


def _get_format_reason(name: str) -> str | None:
    """Return why a source's license does not cover the images of a format; None if it does."""
    reasons = _read_data().images
    if name not in reasons:
        raise UserError(
            f"{LICENSES_FILE.name}: images: no entry for the format {name};"
            " state whether the source's license covers its images"
        )
    return reasons[name]


def _find_no_images_reason(images: str | None, has_images: bool) -> str | None:
    """Return why images of a license may not be passed on, or None."""
    if not has_images:
        return "the study names no images"
    # Without permission nothing is passed on.
    if images is None:
        return "no license is stated"
    license = find_license(images)
    if license is None:
        return f"the license {images!r} is not among the known ones"
    if license.embed:
        return None
    return f"{license.name} allows it for some uses only"


@functools.cache
def _read_data() -> LicenseData:
    data = yaml.safe_load(LICENSES_FILE.read_text(encoding="utf-8"))
    return TypeAdapter(LicenseData).validate_python(data)


@functools.cache
def _read_licenses() -> dict[str, License]:
    """Return the known licenses by all their names."""
    licenses = {}
    for license in _read_data().licenses:
        # People spell licenses in many ways.
        for name in (license.name, *license.names):
            licenses[_normalize(name)] = license
    return licenses


def _normalize(name: str) -> str:
    """Return a license's name without case, punctuation except full stops, and a leading "the"."""
    return re.sub(r"[^a-z0-9.]+", " ", name.casefold()).strip().removeprefix("the ")


@dataclass(frozen=True)
class RawFile:
    """Describe a file of a source.

    Attributes:
        name: Name in the study.
        origin: Url without a query, or the name of a drawn file or of a user's file.
        sha256: Checksum.
    """

    name: str
    origin: str
    sha256: str


@dataclass(frozen=True)
class SourceFacts:
    """Describe a source of a study.

    Attributes:
        name: Name in the study.
        form: Format.
        is_drawn: Whether waltz drew its scenes.
        terms: Licenses and citation.
        files: The files, without images.
    """

    name: str
    form: str
    is_drawn: bool
    terms: Terms
    files: tuple[RawFile, ...]


@dataclass(frozen=True)
class BenchmarkFacts:
    """Hold the facts of a study that its data set card states.

    Attributes:
        study: Name of the study.
        seed: Seed of the study.
        valid_votes: Votes for the caption that make an item valid.
        sources: The sources of the parts, by name.
        instruments: Entry of each built instrument in the study.
        models: Models that proposed or filtered foils, by role.
        funnel: Numbers of candidates after each step.
        audit: Results of judges that see no image.
        about: Entry `export` of the study: `url`, `creators`, `published`, `version`.
    """

    study: str
    seed: int
    valid_votes: int
    sources: Mapping[str, SourceFacts]
    instruments: Mapping[str, Entry]
    models: Mapping[str, str]
    funnel: Sequence[FunnelRecord]
    audit: Sequence[AuditRecord]
    about: Entry


def build_source_facts(name: str, entry: Entry, paths: Iterator[str]) -> SourceFacts:
    """Return the facts of one source with the checksums of its files.

    Args:
        name: Name of the source in the study.
        entry: Entry of the source.
        paths: Paths of the source's files, in the order of the entry; further paths are not read.
    """
    raw_files = []
    for file_name, file in entry["files"].items():
        # Paths of a user stay private: only the name of the file is published.
        origin = redact_url(file.get("url", ""))
        if not origin:
            origin = PurePosixPath(file.get("drawn") or file["path"]).name
        raw_files.append(RawFile(file_name, origin, compute_sha256(Path(next(paths)))))
    is_drawn = any(map(_is_drawn, entry["files"].values()))
    return SourceFacts(
        name, entry["format"], is_drawn, read_terms(entry), tuple(raw_files)
    )
