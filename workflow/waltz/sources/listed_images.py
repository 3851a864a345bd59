"""Single images that a table lists with URL and checksum; they are fetched into one zip."""

import re
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from waltz.core.downloads.secret_url import SecretUrl
from waltz.core.downloads.transfer import RawFileEntry, provide_raw_file
from waltz.core.downloads.urls import check_user, is_url
from waltz.core.errors import UserError
from waltz.core.files.atomic import replace_file
from waltz.core.files.safe_names import is_safe_name
from waltz.core.redaction import describe_value
from waltz.sources.raw_files import read_text_lines
from waltz.sources.records import AnySourceRecord

COLUMNS = ("file", "url", "bytes", "sha256")
PATTERNS = {"bytes": "[0-9]{1,18}", "sha256": "[0-9a-f]{64}"}
"""Form of the columns that are numbers."""
NOT_LISTED = "its image is not listed"
"""Reason of rejection of a row about an image that the table does not list."""


@dataclass(frozen=True)
class ListedImage:
    """An image of the table.

    Attributes:
        file: Path of the image in the zip, and below the folder of local copies.
        url: Address of the image.
        size: Number of bytes.
        sha256: Checksum, 64 hexadecimal digits.
    """

    file: str
    url: str
    size: int
    sha256: str


def read_image_list(path: Path) -> list[ListedImage]:
    """Read the images of a tab-separated table with the header `COLUMNS`.

    Raises:
        UserError: The table is missing, or a row lacks a column, has an invalid checksum, file or
            URL, or repeats the name of a file: rows of a source name their image without its
            folder.
    """
    if not path.is_file():
        raise UserError(
            f"{path}: no such list of images; correct `listed` in the study"
        )
    numbered_lines = enumerate(read_text_lines(path), 1)
    lines = ((number, line.split("\t")) for number, line in numbered_lines if line)
    _, header = next(lines, (1, []))
    if missing := [name for name in COLUMNS if header.count(name) != 1]:
        raise UserError(
            f"{path}, line 1: no column {missing[0]}, or two; expected {', '.join(COLUMNS)}"
        )
    images: dict[str, ListedImage] = {}
    for number, cells in lines:
        # A short line lacks its last columns, which is a fault.
        row = dict(zip(header, cells, strict=False))
        fault = _find_fault(row)
        if fault is not None:
            raise UserError(f"{path}, line {number}: {fault}")
        # Keyed by the name without folder, as the rows of a source name images.
        name = row["file"].rpartition("/")[2]
        if name in images:
            raise UserError(
                f"{path}, line {number}: {row['file']} is listed twice, or another file of its name; remove one line"
            )
        images[name] = ListedImage(
            row["file"], row["url"], int(row["bytes"]), row["sha256"]
        )
    return list(images.values())


def _find_fault(row: Mapping[str, str]) -> str | None:
    """Return what is wrong with a line of the table, and what to do; None without a fault."""
    if missing := [name for name in COLUMNS if not row.get(name)]:
        return f"{missing[0]} is missing; expected {', '.join(COLUMNS)}"
    for name, pattern in PATTERNS.items():
        if not re.fullmatch(pattern, row[name]):
            return (
                "bytes is not a number, or sha256 is not a checksum; correct the line"
            )
    if not is_url(row["url"]):
        return f"url is none of http or https (got {describe_value(row['url'])}); correct the line"
    try:
        check_user(row["url"])
    except ValueError as error:
        return str(error)
    # The path becomes a file on disk and in the zip, so it must not leave its folder.
    file = row["file"]
    has_empty_part = not {"", "."}.isdisjoint(file.split("/"))
    if has_empty_part or not file.isprintable() or not is_safe_name(file):
        return f"file is not a path in a folder (got {file[:80]!r}); correct the line"
    return None


def fetch_listed_images(
    listed: Path, local: str | None, target: Path, lock_file: Path, cache: Path
) -> None:
    """Copy or fetch every image of a list into one zip, whose bytes depend only on the images.

    Args:
        listed: The table of images.
        local: Folder of local copies below `$WALTZ_DATA`; None where there are none.
        target: The zip.
        lock_file: The download lock file.
        cache: Folder of all fetched files, by checksum.
    Raises:
        UserError: As `provide_raw_file`, for the first image that can be neither copied nor
            fetched.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        replace_file(target) as temporary,
        zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive,
    ):
        for image in read_image_list(listed):
            entry: RawFileEntry = {
                "url": SecretUrl(image.url),
                "sha256": image.sha256,
                "size": image.size,
            }
            if local:
                entry["local"] = f"{local}/{image.file}"
            copy = Path(folder) / PurePosixPath(image.file).name
            provide_raw_file(entry, copy, lock_file, cache)
            # A plain `ZipInfo` has a fixed date, so equal images give equal zips.
            archive.writestr(zipfile.ZipInfo(image.file), copy.read_bytes())


def reject_unlisted(
    rows: Iterable[AnySourceRecord], listed: Path
) -> Iterator[AnySourceRecord]:
    """Yield all rows of a source; a row about an image that is not listed is rejected."""
    names = {PurePosixPath(image.file).name for image in read_image_list(listed)}
    for row in rows:
        is_listed = PurePosixPath(str(row.image)).name in names
        if row.rejected is None and not is_listed:
            row = replace(row, rejected=NOT_LISTED)
        yield row
