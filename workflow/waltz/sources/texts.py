"""Texts of a user's file: lines, a table with a column of captions, or COCO captions."""

from collections.abc import Iterator
from pathlib import Path

from waltz.core.errors import UserError, shorten_value
from waltz.core.text_diff import fold_text
from waltz.sources.formats.captions import (
    CAPTION_COLUMNS,
    list_captions,
    list_named_lines,
    replace_escapes,
)
from waltz.sources.formats.coco import is_coco, read_captions
from waltz.sources.pair_layouts import fold_names
from waltz.sources.raw_entry import RawEntry
from waltz.sources.raw_files import read_text_lines
from waltz.sources.tables import SHEET_SUFFIXES, TABLE_SUFFIXES, read_table

SUFFIXES = (*TABLE_SUFFIXES, *SHEET_SUFFIXES, ".txt")
"""Ends of names by which a word is taken for a file; a file of another name has lines."""


LONGEST_NAME = 2
"""Most words of the name of the only column; more are a text, in a file without header."""


def read_texts(path: Path) -> Iterator[str]:
    """Yield the texts of a file, in their order; an absent text of a table is empty.

    Raises:
        UserError: The file cannot be read, or has no column of texts.
    """
    for text in _read_texts(path):
        yield " ".join(text.split())


def _read_texts(path: Path) -> Iterator[str]:
    """Yield the texts of a file as they stand there."""
    named_rows = list_named_lines(path)
    if named_rows:
        for row in named_rows:
            yield replace_escapes(row.fields["caption"])
        return
    # The end of the name tells the format.
    suffix = path.suffix.lower()
    if suffix == ".json" and is_coco(path):
        for caption in read_captions(path, path.stem, None):
            yield caption.caption
    elif path.is_dir() or suffix in (*TABLE_SUFFIXES, *SHEET_SUFFIXES):
        for row in read_table(path):
            yield from list_captions(row, _find_text(row))
    else:
        yield from map(replace_escapes, filter(fold_text, read_text_lines(path)))


def _find_text(row: RawEntry) -> object:
    """Return the text of a record: the only field, a caption, or a question with its answer."""
    fields = fold_names(row.fields)
    # A table of one column has its texts there, whatever its name.
    if len(fields) == 1:
        ((name, text),) = fields.items()
        if len(name.split()) > LONGEST_NAME:
            raise UserError(
                f"{row.location}: a text stands where the name of the column is expected (got"
                f" {shorten_value(repr(name))}); write caption in a line above it"
            )
        return text
    for name in CAPTION_COLUMNS:
        if name in fields:
            return fields[name]
    # Existence and counting take a question with its answer as one text.
    if "question" in fields and "answer" in fields:
        return f"{fields['question']} {fields['answer']}"
    raise UserError(
        f"{row.location}: no column of texts (got {', '.join(fields)}, expected"
        f" {', '.join(CAPTION_COLUMNS)}, or question and answer); name it in the first line"
    )
