"""Captions of a user: a table with a row for each caption, and the name of its image."""

import html
import logging
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from waltz.core.errors import UserError, shorten_value, suggest_or_list
from waltz.sources.pair_layouts import fold_names, read_optional, spell_number
from waltz.sources.raw_entry import RawEntry
from waltz.sources.raw_files import (
    check_unique,
    find_empty,
    join_lines,
    open_text,
    read_text_lines,
)
from waltz.sources.records import CaptionRecord
from waltz.sources.tables import IMAGE_ENDING, read_table

logger = logging.getLogger(__name__)

IMAGE_COLUMNS = (
    *("image", "image_file", "filename", "file_name", "image_path", "image_name"),
    "img",
)
"""Names of the column with the image."""
CAPTION_COLUMNS = (
    *("caption", "captions", "text", "sentence", "sentences", "description", "title"),
    "comment",
)
"""Names of the column with the caption, the first that a table has; it may hold several captions."""
TRUTH_COLUMNS = ("label", "labels", "is_true", "is_correct", "correct")
"""Names of a column that says whether a caption is true, as in VSR."""
FOIL_COLUMN = "foil"
"""Name of a column that may say whether a caption is a foil."""
TRUE, FALSE = ("1", "true"), ("0", "false")
UNTRUE = "a column of the file says that the caption is false"
"""Reason why a false caption is rejected."""
ID = "id"
NAMED_LINE = re.compile(
    rf"(?P<image>\S[^\t]*{IMAGE_ENDING})(?:#\d+)?\t(?P<caption>[^\t]+)",
    re.IGNORECASE,
)
"""Line of a file without a header, such as of Flickr8k's `token.txt`: image, number, tab, caption."""
HTML_ESCAPE = re.compile(
    r"&(?:amp|apos|gt|lt|nbsp|quot|#\d{1,6}|#x[0-9a-f]{1,5});", re.IGNORECASE
)
"""Character as web pages write it."""


def read_captions(path: str, source: str, split: str | None) -> Iterator[CaptionRecord]:
    """Yield the captions of a table; an empty caption or image is rejected.

    Letter case and blanks of the names of columns make no difference. Without a column `id`, rows
    are named by their positions. A record that stands twice is yielded once. Where a column says for some captions that
    they are true and for others that they are false, the false ones are rejected.

    Raises:
        UserError: A column is missing, a value is no text, or an id comes twice with other content.
    """
    rows = _read_rows(Path(path))
    image_column = _find_column(rows, IMAGE_COLUMNS, "image")
    caption_column = _find_column(rows, CAPTION_COLUMNS, "caption")
    truth_column = _find_truth_column(rows)
    seen_ids: set[str] = set()
    seen_records: set[tuple[str, str, str]] = set()
    n_repeated = 0
    for position, row in enumerate(rows, 1):
        image = _read_text(row, read_optional(row, image_column), "image")
        row_id = _read_id(row, position)
        captions = list_captions(row, read_optional(row, caption_column))
        truths = _read_truths(row, truth_column)
        for number, caption in enumerate(captions, 1):
            rejected = find_empty(image=image, caption=caption)
            if number <= len(truths) and truths[number - 1] is False:
                rejected = UNTRUE
            source_id = row_id
            if len(captions) > 1:
                source_id = f"{row_id}:{number}"
            record = (source_id, image, caption)
            if record in seen_records:
                n_repeated += 1
                continue
            seen_records.add(record)
            check_unique(seen_ids, source_id, row.location)
            yield CaptionRecord(
                source=source,
                source_id=source_id,
                split=split,
                image=image,
                caption=caption,
                rejected=rejected,
            )
    if n_repeated:
        logger.warning("%s: %d rows stand twice; each counts once", path, n_repeated)


def list_named_lines(path: Path) -> list[RawEntry]:
    """Return the rows of a file of lines that begin with the name of their image; none if its first
    line does not.

    Raises:
        UserError: A later line has no image and caption.
    """
    if path.is_dir():
        return []
    with open_text(path) as file:
        first = next(filter(None, map(bytes.strip, file)), b"")
    # Any file may be asked, such as an archive.
    if not NAMED_LINE.fullmatch(first.decode(errors="replace")):
        return []
    rows = []
    for number, line in enumerate(read_text_lines(path), 1):
        if not line.strip():
            continue
        named = NAMED_LINE.fullmatch(line.strip())
        if named is None:
            raise UserError(
                f"{path}: line {number}: no image and caption (got {shorten_value(repr(line.strip()))}, expected the"
                " name of an image, a tab and a caption, as in the lines above); correct it"
            )
        rows.append(RawEntry(named.groupdict(), f"{path}: line {number}"))
    return rows


def _read_rows(path: Path) -> list[RawEntry]:
    """Return the rows of a file of captions."""
    rows = list_named_lines(path)
    if rows:
        return rows
    if path.suffix.lower() in (".txt", ".token"):
        raise UserError(
            f"{path}: lines of text name no images, which every item needs; write a table of image and caption"
        )
    return read_table(path)


def _find_truth_column(rows: Sequence[RawEntry]) -> str | None:
    """Return the column that says of each caption whether it is true; None where no column says both."""
    for column in (*TRUTH_COLUMNS, FOIL_COLUMN):
        truths: set[bool | None] = set()
        for row in rows:
            truths.update(_read_truths(row, column))
        # A column of zeros alone may be a class of images.
        if truths == {True, False}:
            return column
    return None


def _read_truths(row: RawEntry, column: str | None) -> list[bool | None]:
    """Return whether each caption of a row is true; None where the value is no truth value."""
    if column is None:
        return []
    values = read_optional(row, column)
    if not isinstance(values, list):
        values = [values]
    truths: list[bool | None] = []
    for value in values:
        text = str(spell_number(value)).strip().lower()
        is_true = None
        if text in TRUE:
            is_true = column != FOIL_COLUMN
        elif text in FALSE:
            is_true = column == FOIL_COLUMN
        truths.append(is_true)
    return truths


def _read_id(row: RawEntry, position: int) -> str:
    """Return the id of a caption: its position where it has none."""
    value = read_optional(row, ID)
    # A column of whole numbers in which some are absent has floats.
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if value is None:
        return str(position)
    return str(value)


def list_captions(row: RawEntry, value: object) -> list[str]:
    """Return the captions of a cell, which holds one or a list of them; an absent one is empty."""
    if not isinstance(value, list):
        return [_read_caption(row, value)]
    captions = []
    for entry in value:
        text = entry
        if isinstance(entry, dict):  # of Karpathy's splits
            text = entry.get("raw")
        captions.append(_read_caption(row, text))
    return captions


def _read_caption(row: RawEntry, value: object) -> str:
    return replace_escapes(join_lines(_read_text(row, value, "caption")))


def replace_escapes(text: str) -> str:
    """Return a text with the characters that its HTML escapes mean, such as & for `&amp;`."""
    return HTML_ESCAPE.sub(lambda escape: html.unescape(escape[0]), text)


def _find_column(rows: Sequence[RawEntry], names: tuple[str, ...], role: str) -> str:
    """Return the name of a column, in small letters."""
    # An entry of a JSON file may lack what others have.
    columns: dict[str, None] = {}
    for row in rows:
        columns.update(dict.fromkeys(fold_names(row.fields)))
    for name in names:
        if name in columns:
            return name
    raise UserError(
        f"{rows[0].location}: no column {role!r}{suggest_or_list(role, list(columns))}; call it {role}"
    )


def _read_text(row: RawEntry, value: object, role: str) -> str:
    """Return the text of a cell; empty where there is none."""
    if value is None:
        return ""
    text = spell_number(value)
    if not isinstance(text, str):
        raise UserError(
            f"{row.location}: {role} is {value!r} (expected a text); correct it"
        )
    return text
