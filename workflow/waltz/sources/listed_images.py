"""Single images that a table lists by url and checksum, fetched into one zip."""

import re
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from waltz.core.errors import UserError
from waltz.core.files.atomic import replace_file
from waltz.core.files.downloads import is_url, provide_raw_file
from waltz.sources.raw_files import read_text_lines

COLUMNS = ("file", "url", "bytes", "sha256")
LONGEST_NAME = 200
"""Bytes of the name of a file; temporary files beside it have longer names."""
NOT_LISTED = "its image is not listed"
"""Reason why a row about another image is rejected."""


@dataclass(frozen=True)
class ListedImage:
    """An image of the list.

    Attributes:
        file: Its path in the zip, and below the folder of local copies.
        url: Its address.
        size: Its bytes.
        sha256: Its checksum.
    """

    file: str
    url: str
    size: int
    sha256: str


def read_image_list(path: Path) -> list[ListedImage]:
    """Return the images of a tab-separated table with a header.

    Raises:
        UserError: There is no such table, or a row lacks a column, has no checksum, names no file in a folder or no
            url, or repeats the name of a file: rows of a source name their image without its folder.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such list of images; correct `listed` in the study")
    images: dict[str, ListedImage] = {}
    lines = ((number, line.split("\t")) for number, line in enumerate(read_text_lines(path), 1) if line)
    _, header = next(lines, (1, []))
    if missing := [name for name in COLUMNS if header.count(name) != 1]:
        raise UserError(f"{path}, line 1: no column {missing[0]}, or two; expected {', '.join(COLUMNS)}")
    for number, cells in lines:
        where = f"{path}, line {number}"
        row = dict(zip(header, cells, strict=False))
        if missing := [name for name in COLUMNS if not row.get(name)]:
            raise UserError(f"{where}: {missing[0]} is missing; expected {', '.join(COLUMNS)}")
        if not (re.fullmatch("[0-9]{1,18}", row["bytes"]) and re.fullmatch("[0-9a-f]{64}", row["sha256"])):
            raise UserError(f"{where}: bytes or sha256 is no number of its kind; correct the line")
        if not is_url(row["url"]):
            raise UserError(f"{where}: url is none of http or https (got {row['url']!r}); correct the line")
        parts = row["file"].split("/")
        if not row["file"].isprintable() or {"", ".", ".."} & set(parts) or len(parts[-1].encode()) > LONGEST_NAME:
            raise UserError(f"{where}: file is no path in a folder (got {row['file'][:80]!r}); correct the line")
        if parts[-1] in images:
            raise UserError(f"{where}: {row['file']} is listed twice, or another file of its name; remove one line")
        images[parts[-1]] = ListedImage(row["file"], row["url"], int(row["bytes"]), row["sha256"])
    return list(images.values())


def fetch_listed_images(listed: Path, local: str | None, target: Path, lock_file: Path, cache: Path) -> None:
    """Copy or fetch every image of a list into one zip, which depends on nothing but the images.

    Args:
        listed: The list.
        local: Folder of local copies below `$WALTZ_DATA`.
        target: The zip.
        lock_file: The download lock file.
        cache: Folder of all that was fetched, by checksum.
    Raises:
        UserError: As `provide_raw_file`, for the first image that cannot be had.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        replace_file(target) as temporary,
        zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive,
    ):
        for image in read_image_list(listed):
            entry: dict[str, Any] = {"url": image.url, "sha256": image.sha256, "size": image.size}
            if local:
                entry["local"] = f"{local}/{image.file}"
            copy = Path(folder) / PurePosixPath(image.file).name
            provide_raw_file(entry, copy, lock_file, cache)
            archive.writestr(zipfile.ZipInfo(image.file), copy.read_bytes())


def reject_unlisted(rows: Iterable[dict[str, Any]], listed: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a source; those about an image that is not listed are rejected."""
    names = {PurePosixPath(image.file).name for image in read_image_list(listed)}
    for row in rows:
        unlisted = row["rejected"] is None and PurePosixPath(str(row["image"])).name not in names
        yield {**row, "rejected": NOT_LISTED} if unlisted else row
