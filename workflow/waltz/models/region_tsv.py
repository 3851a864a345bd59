"""Regions in TSV files of bottom-up attention: one line per image, arrays in base64, located by byte offset.

Source:
    The formats of the releases of bottom-up attention (6 columns) and of LXMERT (10), neither with a header.
"""

import base64
import functools
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np

from waltz.core.errors import UserError

COLUMNS = {
    6: ("image_id", "image_w", "image_h", "num_boxes", "boxes", "features"),
    10: (
        "image_id",
        "image_h",
        "image_w",
        "objects_id",
        "objects_conf",
        "attrs_id",
        "attrs_conf",
        "num_boxes",
        "boxes",
        "features",
    ),
}
"""Names of the columns by their number."""
HEADER_NAMES = (b"image_id", b"img_id")
"""First column of an optional header."""
MAX_LINE_BYTES = 2**26
"""Maximum bytes of a line; 100 regions of 2,048 features take 1.1 million."""
NUMERIC_ID = re.compile(r"(?:COCO_[a-z]+\d{4}_)?0*(\d+)", re.ASCII)
"""Ids and names of images that are a number, as `42`, `000000000042` and `COCO_val2014_000000000042`."""
POSITIVE_NUMBER = re.compile(rb"[1-9]\d{0,8}")


class RegionArrays(NamedTuple):
    """Arrays of a row.

    Attributes:
        features: float32 of shape (regions, width).
        boxes: Left, top, right, bottom in pixels: float32 of shape (regions, 4).
        size: Height and width of the image in pixels: int64 of shape (2,).
    """

    features: np.ndarray
    boxes: np.ndarray
    size: np.ndarray


class LinePosition(NamedTuple):
    """Position of a row: its line number from 1, and its first byte."""

    number: int
    offset: int


def read_regions(file: Path, name: str) -> RegionArrays:
    """Return the regions of an image by its file name, with or without folder and suffix.

    A row belongs to an image if its id is the name, or both are the same number: `COCO_val2014_000000000042.jpg` and
    `000000000042.jpg` have the row of the id 42. The first use of a file reads all of it to index the rows.

    Raises:
        UserError: The file is no such TSV, or has no row of the image, several that differ, or a broken one.
    """
    index = _index_lines(file, file.stat().st_mtime_ns)
    path = PurePosixPath(name)
    lines = next((index[key] for key in map(normalise_image_id, (name, path.name, path.stem)) if key in index), ())
    if not lines:
        raise UserError(
            f"{file}: no row has the id of {name} ({normalise_image_id(path.stem)}); name the file that holds it"
        )
    rows = [_read_line(file, line) for line in lines]
    if any(row != rows[0] for row in rows):
        numbers = " and ".join(str(line.number) for line in lines)
        raise UserError(f"{file}: lines {numbers} are regions of {name}, and differ; keep one of them")
    return decode_line(rows[0], f"{file}, line {lines[0].number}")


def normalise_image_id(name: str) -> str:
    """Return the number in an image's id or name, or the name itself."""
    match = NUMERIC_ID.fullmatch(name)
    return match[1] if match else name


def decode_line(line: bytes, where: str) -> RegionArrays:
    """Return the arrays of a line.

    Args:
        line: The line, without its end.
        where: Its location, for error messages.
    Raises:
        UserError: A column is invalid.
    """
    cells = line.split(b"\t")
    row = dict(zip(COLUMNS[len(cells)], cells, strict=True))
    sizes = []
    for column in ("image_h", "image_w", "num_boxes"):
        if not POSITIVE_NUMBER.fullmatch(row[column]):
            raise UserError(f"{where}: {column} is {row[column][:20]!r}, no number; fetch the file again")
        sizes.append(int(row[column]))
    height, width, count = sizes
    boxes, features = (_decode_floats(row[column], column, where) for column in ("boxes", "features"))
    if len(boxes) != 4 * count or not len(features) or len(features) % count:
        raise UserError(
            f"{where}: {len(boxes)} numbers of boxes and {len(features)} of features are none of {count} regions; fetch"
            " the file anew"
        )
    return RegionArrays(features.reshape(count, -1), boxes.reshape(count, 4), np.array([height, width]))


def _decode_floats(cell: bytes, column: str, where: str) -> np.ndarray:
    """Return float32 values from base64."""
    try:
        return np.frombuffer(base64.b64decode(cell, validate=True), dtype="<f4").astype(np.float32)
    except ValueError as error:
        raise UserError(f"{where}: {column} is no float32 in base64 ({error}); fetch the file again") from None


@functools.lru_cache(maxsize=4)
def _index_lines(file: Path, changed: int) -> Mapping[str, tuple[LinePosition, ...]]:
    """Return the positions of the rows of each image; `changed` is the file's time, which invalidates the cache."""
    positions: dict[str, tuple[LinePosition, ...]] = {}
    offset = 0
    with file.open("rb") as stream:
        for number, line in enumerate(iter(lambda: stream.readline(MAX_LINE_BYTES), b""), start=1):
            image, tab, _ = line.partition(b"\t")
            if line.strip() and not (number == 1 and image in HEADER_NAMES):
                if not tab or line.count(b"\t") + 1 not in COLUMNS or len(line) == MAX_LINE_BYTES:
                    counts = " or ".join(map(str, COLUMNS))
                    raise UserError(
                        f"{file}, line {number}: no row of {counts} columns; file truncated or in another format;"
                        " fetch it again"
                    )
                key = normalise_image_id(image.decode("utf-8", errors="backslashreplace"))
                positions[key] = (*positions.get(key, ()), LinePosition(number, offset))
            offset += len(line)
    return positions


def _read_line(file: Path, line: LinePosition) -> bytes:
    with file.open("rb") as stream:
        stream.seek(line.offset)
        return stream.readline().rstrip(b"\r\n")
