"""Sources of a study on the page: license, citation, numbers of rows, files with checksums."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, JsonValue

from waltz.core.downloads.checksums import LOCK_ON_DOWNLOAD
from waltz.core.redaction import redact_url
from waltz.plan.raw_files import name_files
from waltz.reporting.run_records import RunRecord, read_lock

SYNTHETIC_LICENCE = "drawn by this package, sprites CC-BY 4.0"


class FileEntry(BaseModel):
    """Origin of a file in a study, as in `plan.study.File`; a file has one of the first four."""

    url: str = ""
    path: str = ""
    listed: str = ""
    drawn: str = ""
    sha256: str = ""

    def describe_origin(self) -> str:
        """Return the origin of the file; a URL is shown without secrets."""
        if self.drawn:
            return f"drawn: {self.drawn}"
        return self.path or self.listed or redact_url(self.url)

    def read_checksum(self, lock: Path) -> str:
        """Return the SHA-256 of the file; the lock file has those recorded at the first download."""
        if self.sha256 == LOCK_ON_DOWNLOAD:
            return read_lock(self.url, lock)
        return self.sha256


class SourceEntry(BaseModel):
    """Entry of a source in a study, as in `plan.study.Source`."""

    format: str
    files: dict[str, FileEntry]
    images: FileEntry | list[FileEntry] | None = None
    licence: str | None = None
    citation: str = ""


@dataclass(frozen=True)
class ListedFile:
    """File of a source.

    Attributes:
        name: Name of the file in its source.
        origin: Its path, its URL, or the file of the embedded world.
        sha256: Its checksum; empty if none is stated.
    """

    name: str
    origin: str
    sha256: str


@dataclass(frozen=True)
class SourceSection:
    """Source of a study.

    Attributes:
        name: Name of the source.
        format: Format of its files.
        licence: Licence of its data.
        citation: Citation in one line; empty if none is stated.
        record: Record of the run that read it, with numbers of rows; None without one.
        files: Its files and images.
    """

    name: str
    format: str
    licence: str
    citation: str
    record: RunRecord | None
    files: tuple[ListedFile, ...]


def describe_sources(
    sources: Mapping[str, Mapping[str, JsonValue]],
    records: Iterable[RunRecord],
    lock: Path,
) -> list[SourceSection]:
    """Return the facts about the sources of a study.

    Args:
        sources: Entry of each source in the study.
        records: Run records; those named `sources/NAME` have the numbers of rows.
        lock: The download lock file.
    """
    records_by_name = {record.name: record for record in records}
    described = []
    for name, settings in sources.items():
        entry = SourceEntry.model_validate(settings)
        files = name_files(entry.files, entry.images)
        licence = entry.licence
        if licence is None:
            # Drawn scenes need no license of others: the package draws them itself.
            is_drawn = all(file.drawn for file in files.values())
            licence = SYNTHETIC_LICENCE if is_drawn else "not stated"
        described.append(
            SourceSection(
                name=name,
                format=entry.format,
                licence=licence,
                citation=entry.citation,
                record=records_by_name.get(f"sources/{name}"),
                files=tuple(
                    ListedFile(part, file.describe_origin(), file.read_checksum(lock))
                    for part, file in files.items()
                ),
            )
        )
    return described
