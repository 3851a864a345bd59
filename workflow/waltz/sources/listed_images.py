"""Single images that a table lists with URL and checksum; they are fetched into one zip."""

import re
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
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
    images: dict[str, ListedImage] = {}
    lines = (
        (number, line.split("\t"))
        for number, line in enumerate(read_text_lines(path), 1)
        if line
    )
    _, header = next(lines, (1, []))
    if missing := [name for name in COLUMNS if header.count(name) != 1]:
        raise UserError(
            f"{path}, line 1: no column {missing[0]}, or two; expected {', '.join(COLUMNS)}"
        )
    for number, cells in lines:
        location = f"{path}, line {number}"
        # A short line lacks its last columns, which the next check reports.
        row = dict(zip(header, cells, strict=False))
        if missing := [name for name in COLUMNS if not row.get(name)]:
            raise UserError(
                f"{location}: {missing[0]} is missing; expected {', '.join(COLUMNS)}"
            )
        if not (
            re.fullmatch("[0-9]{1,18}", row["bytes"])
            and re.fullmatch("[0-9a-f]{64}", row["sha256"])
        ):
            raise UserError(
                f"{location}: bytes or sha256 is no number of its kind; correct the line"
            )
        if not is_url(row["url"]):
            raise UserError(
                f"{location}: url is none of http or https (got {describe_value(row['url'])}); correct the line"
            )
        try:
            check_user(row["url"])
        except ValueError as error:
            raise UserError(f"{location}: {error}") from None
        # The path becomes a file on disk and in the zip, so it must not leave its folder.
        parts = row["file"].split("/")
        if not (row["file"].isprintable() and is_safe_name(row["file"])) or {
            "",
            ".",
        } & set(parts):
            raise UserError(
                f"{location}: file is no path in a folder (got {row['file'][:80]!r}); correct the line"
            )
        if parts[-1] in images:
            raise UserError(
                f"{location}: {row['file']} is listed twice, or another file of its name; remove one line"
            )
        # Keyed by the name without folder, as the rows of a source name images.
        images[parts[-1]] = ListedImage(
            row["file"], row["url"], int(row["bytes"]), row["sha256"]
        )
    return list(images.values())


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
            yield replace(row, rejected=NOT_LISTED)
        else:
            yield row
