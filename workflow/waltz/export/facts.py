"""What a study says of the data that goes into an export: sources, terms, files, construction."""

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
        origin: Its url; for a drawn file or one of the user's own, its name.
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
        drawn: Whether the package drew it.
        terms: Licences and citation.
        files: Its files, images left out.
    """

    name: str
    form: str
    drawn: bool
    terms: Terms
    files: tuple[RawFile, ...]


@dataclass(frozen=True)
class StudyFacts:
    """All that a card says beside the items themselves.

    Attributes:
        study: Name of the study.
        seed: Its seed.
        valid_votes: Votes for the caption that make an item valid.
        sources: The sources of the parts, by name.
        instruments: Entry of each built instrument in the study.
        models: Models that proposed foils or filtered them, by role.
        funnel: Rows of the funnel layout.
        audit: Rows of the layout of the blind audit.
        about: What the study says of the data set itself: `url`, `creators`, `published`, `version`.
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
    """The facts of one source.

    Args:
        name: Its name in the study.
        entry: Its entry in the study.
        files: Where its files lie, by their names in the study; their checksums are taken here.
    """
    found = []
    for file, path in files.items():
        given = entry["files"][file]
        origin = given.get("url") or PurePosixPath(given.get("drawn") or given["path"]).name
        found.append(RawFile(file, origin, compute_sha256(Path(path))))
    drawn = any("drawn" in file for file in entry["files"].values())
    return SourceFacts(name, entry["format"], drawn, read_terms(entry), tuple(found))
