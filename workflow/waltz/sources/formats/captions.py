"""Captions of a user: a table with a row for each caption, and the name of its image."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from waltz.core.errors import UserError, suggest_or_list
from waltz.sources.pair_layouts import fold_names
from waltz.sources.raw_entry import RawEntry
from waltz.sources.raw_files import check_unique, find_empty, join_lines
from waltz.sources.records import CaptionRecord
from waltz.sources.tables import read_table

IMAGE_COLUMNS = ("image", "image_file", "filename", "file_name", "image_path", "img")
"""Names of the column with the image."""
CAPTION_COLUMNS = ("caption", "text", "sentence", "description", "title")
"""Names of the column with the caption, the first that a table has."""
ID = "id"


def read_captions(path: str, source: str, split: str | None) -> Iterator[CaptionRecord]:
    """Yield the captions of a table; an empty caption or image is rejected.

    Letter case and blanks of the names of columns make no difference. Without a column `id`, rows
    are named by their positions.

    Raises:
        UserError: A column is missing, a value is no text, or an id comes twice.
    """
    if Path(path).suffix.lower() == ".txt":
        raise UserError(
            f"{path}: lines of text name no images, which every item needs; write a table of image and caption"
        )
    rows = read_table(path)
    image_column = _find_column(rows, IMAGE_COLUMNS, "image")
    caption_column = _find_column(rows, CAPTION_COLUMNS, "caption")
    seen_ids: set[str] = set()
    for position, row in enumerate(rows, 1):
        fields = fold_names(row.fields)
        image = _read_text(row, fields.get(image_column), "image")
        caption = join_lines(_read_text(row, fields.get(caption_column), "caption"))
        source_id = _read_id(fields.get(ID), position)
        check_unique(seen_ids, source_id, row.location)
        yield CaptionRecord(
            source=source,
            source_id=source_id,
            split=split,
            image=image,
            caption=caption,
            rejected=find_empty(image=image, caption=caption),
        )


def _read_id(value: object, position: int) -> str:
    """Return the id of a caption: its position where it has none."""
    # 0 is an id.
    if value is None or value == "":
        return str(position)
    return str(value)


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
    if not isinstance(value, str):
        raise UserError(
            f"{row.location}: {role} is {value!r} (expected a text); correct it"
        )
    return value
