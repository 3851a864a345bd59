"""Regions in TSV files of bottom-up attention: a line an image, arrays in base64, found by byte offset.

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
"""First column of a header, where somebody added one."""
MAX_LINE_BYTES = 2**26
"""Most bytes of a line; 100 regions of 2,048 features take 1.1 million."""
NUMERIC_ID = re.compile(r"(?:COCO_[a-z]+\d{4}_)?0*(\d+)", re.ASCII)
"""Ids and names of images that are a number, as `42`, `000000000042` and `COCO_val2014_000000000042`."""
POSITIVE_NUMBER = re.compile(rb"[1-9]\d{0,8}")


class RegionArrays(NamedTuple):
    """What a row holds.

    Attributes:
        features: float32 of shape (regions, width).
        boxes: Left, top, right, bottom in pixels: float32 of shape (regions, 4).
        size: Height and width of the image in pixels: int64 of shape (2,).
    """

    features: np.ndarray
    boxes: np.ndarray
    size: np.ndarray


class LinePosition(NamedTuple):
    """Where a row stands: its number from 1, and its first byte."""

    number: int
    offset: int


def read_regions(file: Path, name: str) -> RegionArrays:
    """The regions of an image by its file name, with or without folder and suffix.

    A row belongs to an image if its id is the name, or both are the same number: `COCO_val2014_000000000042.jpg` and
    `000000000042.jpg` have the row of the id 42. The first use of a file reads all of it, to know where each row is.

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
        raise UserError(f"{file}: lines {numbers} are regions of {name}, and differ; leave one of them")
    return decode_line(rows[0], f"{file}, line {lines[0].number}")


def normalise_image_id(name: str) -> str:
    """What tells an image from others in ids and in names alike: its number, or the name itself."""
    found = NUMERIC_ID.fullmatch(name)
    return found[1] if found else name


def decode_line(line: bytes, where: str) -> RegionArrays:
    """What a line holds.

    Args:
        line: The line, without its end.
        where: Its place, for errors.
    Raises:
        UserError: A column is not what it should be.
    """
    cells = line.split(b"\t")
    row = dict(zip(COLUMNS[len(cells)], cells, strict=True))
    sizes = []
    for column in ("image_h", "image_w", "num_boxes"):
        if not POSITIVE_NUMBER.fullmatch(row[column]):
            raise UserError(f"{where}: {column} is {row[column][:20]!r}, no number; fetch the file anew")
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
    """float32 in base64."""
    try:
        return np.frombuffer(base64.b64decode(cell, validate=True), dtype="<f4").astype(np.float32)
    except ValueError as error:
        raise UserError(f"{where}: {column} is no float32 in base64 ({error}); fetch the file anew") from None


@functools.lru_cache(maxsize=4)
def _index_lines(file: Path, changed: int) -> Mapping[str, tuple[LinePosition, ...]]:
    """Where the rows of each image are; `changed` is the file's time, so that another state is read anew."""
    found: dict[str, tuple[LinePosition, ...]] = {}
    offset = 0
    with file.open("rb") as opened:
        for number, line in enumerate(iter(lambda: opened.readline(MAX_LINE_BYTES), b""), start=1):
            image, tab, _ = line.partition(b"\t")
            if line.strip() and not (number == 1 and image in HEADER_NAMES):
                if not tab or line.count(b"\t") + 1 not in COLUMNS or len(line) == MAX_LINE_BYTES:
                    counts = " or ".join(map(str, COLUMNS))
                    raise UserError(
                        f"{file}, line {number}: no row of {counts} columns; the file is cut off or another one:"
                        " fetch it anew"
                    )
                key = normalise_image_id(image.decode("utf-8", errors="backslashreplace"))
                found[key] = (*found.get(key, ()), LinePosition(number, offset))
            offset += len(line)
    return found


def _read_line(file: Path, line: LinePosition) -> bytes:
    with file.open("rb") as opened:
        opened.seek(line.offset)
        return opened.readline().rstrip(b"\r\n")
