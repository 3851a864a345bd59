"""Facts of a study about its exported data: sources, terms, files, construction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from waltz.core.files.download_lock import compute_sha256
from waltz.export.licences import Terms, read_terms


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
        name: Its name in the study.
        entry: Its entry in the study.
        files: Paths of its files, by their names in the study.
    """
    raw_files = []
    for file, path in files.items():
        file_entry = entry["files"][file]
        origin = file_entry.get("url") or PurePosixPath(file_entry.get("drawn") or file_entry["path"]).name
        raw_files.append(RawFile(file, origin, compute_sha256(Path(path))))
    is_drawn = any("drawn" in file for file in entry["files"].values())
    return SourceFacts(name, entry["format"], is_drawn, read_terms(entry), tuple(raw_files))
