"""Comparison of two runs, cell by cell of their tables: two studies, or one study at two commits."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from waltz.core.errors import UserError
from waltz.reporting.run_records import read_records
from waltz.reporting.tables.cells import Cell, read_cells
from waltz.reporting.tables.paper_values import Key

SAME = "same"
OVERLAP = "intervals overlap"
DIFFERENT = "moved"
ONLY_FIRST, ONLY_SECOND = "only in the first", "only in the second"
VERDICTS = (DIFFERENT, OVERLAP, ONLY_FIRST, ONLY_SECOND, SAME)


@dataclass(frozen=True)
class Change:
    """One cell in two runs.

    Attributes:
        table: Id of the table.
        profile: Fidelity profile.
        key: metric, model, dataset, setting.
        first: Value in the first run, or None.
        second: Value in the second run, or None.
        difference: Second minus first value, in the metric's unit; None where one is missing.
        verdict: One of `VERDICTS`: `same` to the last digit; `intervals overlap` where both have intervals that do;
            `moved` where numbers differ otherwise; or the only run with a value.
        reason: Reason of the run without a value.
    """

    table: str
    profile: str
    key: Key
    first: float | None
    second: float | None
    difference: float | None
    verdict: str
    reason: str


@dataclass(frozen=True)
class Run:
    """Tables and commits of one results folder.

    Attributes:
        cells: Cells of all tables.
        commits: Number of run records by commit of waltz.
    """

    cells: tuple[Cell, ...]
    commits: Counter[str]


def read_run(folder: str | Path) -> Run:
    """Read the tables and commits of one study's results.

    Args:
        folder: A folder `results/<study>`.
    """
    folder = Path(folder)
    files = sorted((folder / "reporting" / "tables").glob("*-*.csv"))
    if not files:
        raise UserError(f"{folder}: no tables (reporting/tables/*.csv); run the study, or name its results folder")
    cells = read_cells(files)
    records = read_records(sorted(folder.rglob("*.run.json")), folder)
    return Run(tuple(cells), Counter(str(record.facts.get("commit", "unknown")) for record in records))


def compare_cells(first: Iterable[Cell], second: Iterable[Cell]) -> list[Change]:
    """Compare all cells with a value in either run, in the order of the first, then those of the second only."""
    sides = [{_get_key(cell): cell for cell in cells} for cells in (first, second)]
    changes = []
    for key in dict.fromkeys([*sides[0], *sides[1]]):
        first_cell, second_cell = sides[0].get(key), sides[1].get(key)
        if any(cell is not None and cell.value is not None for cell in (first_cell, second_cell)):
            changes.append(_compare_cell(key, first_cell, second_cell))
    return changes


def count_verdicts(changes: Sequence[Change]) -> dict[str, int]:
    """Count the cells of each verdict, in the order of `VERDICTS`."""
    counts = Counter(change.verdict for change in changes)
    return {verdict: counts[verdict] for verdict in VERDICTS}


def _get_key(cell: Cell) -> tuple[str, str, Key]:
    """Return what identifies a cell in both runs."""
    return cell.table, cell.profile, (cell.metric, cell.model, cell.dataset, cell.setting)


def _compare_cell(key: tuple[str, str, Key], first_cell: Cell | None, second_cell: Cell | None) -> Change:
    """Compare a cell of two runs."""
    first, second = (cell.value if cell else None for cell in (first_cell, second_cell))
    if first is None or second is None:
        missing = first_cell if first is None else second_cell
        reason = missing.reason if missing else "not in its tables"
        return Change(*key, first, second, None, ONLY_SECOND if first is None else ONLY_FIRST, reason)
    verdict = SAME if first == second else OVERLAP if _intervals_overlap(first_cell, second_cell) else DIFFERENT
    return Change(*key, first, second, second - first, verdict, "")


def _intervals_overlap(first: Cell | None, second: Cell | None) -> bool:
    """Return whether both cells have intervals that overlap."""
    ends = [end for cell in (first, second) if cell for end in (cell.ci_low, cell.ci_high)]
    if len(ends) < 4 or None in ends:
        return False
    first_low, first_high, second_low, second_high = (float(end or 0.0) for end in ends)
    return first_low <= second_high and second_low <= first_high
