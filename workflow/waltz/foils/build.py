"""Candidates of an instrument from the rows of its source."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from typing import Any

from waltz.core.errors import UserError
from waltz.foils.candidates import Candidate, Refusal, Row, SourceOutcomes, build_candidate_row
from waltz.foils.proposers import MakerOptions
from waltz.instruments import INSTRUMENTS


def select_splits(rows: Sequence[Row], splits: Sequence[str], key: str) -> list[Row]:
    """Return the rows of some splits.

    Args:
        rows: Rows of a source.
        splits: Names of splits.
        key: Key of the study that names them, for the error message.
    Raises:
        UserError: The source has no such split.
    """
    source_splits = sorted({str(row["split"]) for row in rows})
    for split in splits:
        if split not in source_splits:
            raise UserError(f"study file: {key}: the source has no split {split!r}; it has {', '.join(source_splits)}")
    return [row for row in rows if row["split"] in splits]


def build_candidates(instrument: str, rows: Iterable[Row], options: MakerOptions) -> SourceOutcomes:
    """Yield all candidates of an instrument in the order of the rows; refusals may come before them.

    Args:
        instrument: One of `waltz.instruments.INSTRUMENTS`.
        rows: Rows of its source.
        options: Models and limits.
    """
    usable_rows: list[Row] = []
    for row in rows:
        if row["rejected"] is None:
            usable_rows.append(row)
        else:
            yield row, Refusal(f"the source's row: {row['rejected']}")
    maker = import_module(INSTRUMENTS[instrument].maker)
    yield from maker.build_candidates(usable_rows, options, instrument)


def drop_duplicates(outcomes: SourceOutcomes) -> SourceOutcomes:
    """Yield outcomes without candidates that repeat an earlier one of the same row."""
    earlier: set[tuple[str, str, str]] = set()
    for row, outcome in outcomes:
        if isinstance(outcome, Candidate):
            key = (str(row["source_id"]), outcome.caption, outcome.foil)
            if key in earlier:
                continue
            earlier.add(key)
        yield row, outcome


def build_candidate_rows(
    outcomes: SourceOutcomes, instrument: str, refusals: "Counter[str]"
) -> Iterator[dict[str, Any]]:
    """Yield rows of the candidates layout without duplicates.

    Args:
        outcomes: Outcomes of `build_candidates`.
        instrument: Name of the instrument.
        refusals: Counts refused source rows by reason while the rows are read.
    """
    numbers: Counter[str] = Counter()
    for row, outcome in drop_duplicates(outcomes):
        if isinstance(outcome, Refusal):
            refusals[outcome.reason] += 1
        else:
            source_id = row["source_id"]
            yield build_candidate_row(outcome, row, numbers[source_id], instrument, INSTRUMENTS[instrument].piece)
            numbers[source_id] += 1
