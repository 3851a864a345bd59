"""Which foiling functions an instrument is built with, over the rows of its source."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from waltz.core.errors import UserError
from waltz.foils.candidates import Candidate, Found, Refused
from waltz.instruments import INSTRUMENTS

if TYPE_CHECKING:
    from waltz.foils.proposer_needs import Needs

Row = Mapping[str, Any]
Made = Iterator[tuple[Row, Found]]
"""Source rows, each with one thing found; a row comes as often as it gives candidates."""


def of_splits(rows: Sequence[Row], splits: Sequence[str], place: str) -> list[Row]:
    """The rows of some splits.

    Args:
        rows: Rows of a source.
        splits: The splits wanted.
        place: Where the study names them, for the error.
    Raises:
        UserError: The source has no such split.
    """
    known = sorted({str(row["split"]) for row in rows})
    for split in splits:
        if split not in known:
            raise UserError(f"study file: {place}: the source has no split {split!r}; it has {', '.join(known)}")
    return [row for row in rows if row["split"] in splits]


def made(instrument: str, rows: Iterable[Row], needs: "Needs") -> Made:
    """All candidates of an instrument in the order of the rows; what is refused may come before them.

    Args:
        instrument: One of `waltz.instruments.INSTRUMENTS`.
        rows: Rows of its source.
        needs: Models and limits.
    """
    usable: list[Row] = []
    for row in rows:
        if row["rejected"] is None:
            usable.append(row)
        else:
            yield row, Refused(f"the source's row: {row['rejected']}")
    yield from import_module(INSTRUMENTS[instrument].maker).made(usable, needs, instrument)


def distinct(found: Made) -> Iterator[tuple[Row, Candidate | Refused]]:
    """What was found, without candidates that repeat an earlier one of the same row."""
    seen: set[tuple[str, str, str]] = set()
    for row, entry in found:
        if isinstance(entry, Candidate):
            key = (str(row["source_id"]), entry.caption, entry.foil)
            if key in seen:
                continue
            seen.add(key)
        yield row, entry
