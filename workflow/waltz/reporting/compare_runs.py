"""Comparison of the tables of two runs, cell by cell: two studies, or one study at two commits."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from waltz.core.errors import UserError
from waltz.reporting.run_records import read_study_records
from waltz.reporting.tables.cells import Cell, read_cells
from waltz.reporting.tables.paper_values import PaperKey

CELLS_OF_ALL_TABLES = ("reproduction", "reproduction_summary")
"""Files next to the tables that hold or count the cells of all tables again."""
SAME = "same"
OVERLAP = "intervals overlap"
DIFFERENT = "moved"
ONLY_FIRST, ONLY_SECOND = "only in the first", "only in the second"
VERDICTS = (DIFFERENT, OVERLAP, ONLY_FIRST, ONLY_SECOND, SAME)
NO_CELL = Cell(
    table="",
    profile="",
    metric="",
    model="",
    dataset="",
    setting="",
    value=None,
    n=None,
    ci_low=None,
    ci_high=None,
    paper_value=None,
    difference=None,
    verdict="",
    reason="not in its tables",
)
"""Stands for a cell that one of the runs lacks."""


@dataclass(frozen=True)
class Change:
    """Comparison of one cell in two runs.

    Attributes:
        table: Id of the table.
        profile: Fidelity profile.
        key: Metric, model, data set and setting of the cell.
        first: Value in the first run, or None.
        second: Value in the second run, or None.
        difference: Second minus first value, in the metric's unit; None where a run has no value.
        verdict: One of `VERDICTS`: `same` where both values are equal to the last digit; `intervals
            overlap` where they differ and both have intervals that overlap; `moved` where they
            differ otherwise; `only in the first` or `only in the second` where one run has no
            value.
        reason: Reason why one run has no value; empty where both have a value.
    """

    table: str
    profile: str
    key: PaperKey
    first: float | None
    second: float | None
    difference: float | None
    verdict: str
    reason: str


@dataclass(frozen=True)
class StudyTables:
    """Tables of one run of a study, and the commits that made them.

    Attributes:
        cells: Cells of all tables.
        commits: Number of run records by commit of waltz.
    """

    cells: tuple[Cell, ...]
    commits: Counter[str]


def read_study_tables(folder: str | Path) -> StudyTables:
    """Return the cells of all tables, and the commits of all run records, in one study's results.

    Args:
        folder: A folder `results/<study>`.
    """
    folder = Path(folder)
    files = sorted((folder / "reporting" / "tables").glob("*.csv"))
    files = [file for file in files if file.stem not in CELLS_OF_ALL_TABLES]
    if not files:
        raise UserError(
            f"{folder}: no tables (reporting/tables/*.csv); run the study, or name its results folder"
        )
    cells = read_cells(files)
    records = read_study_records(sorted(folder.rglob("*.run.json")), folder)
    commits = Counter(record.commit or "unknown" for record in records)
    return StudyTables(tuple(cells), commits)


def compare_cells(first: Iterable[Cell], second: Iterable[Cell]) -> list[Change]:
    """Compare all cells that have a value in at least one run.

    Returns:
        Changes in the order of the first run's cells, then of the cells that only the second run
        has.
    """
    first_cells = _index_cells(first)
    second_cells = _index_cells(second)
    changes = []
    # A dict keeps the order of its keys and each key once.
    for key in first_cells | second_cells:
        change = _compare_cell(
            key, first_cells.get(key, NO_CELL), second_cells.get(key, NO_CELL)
        )
        if change is not None:
            changes.append(change)
    return changes


def count_verdicts(changes: Sequence[Change]) -> dict[str, int]:
    """Count the cells of each verdict, in the order of `VERDICTS`."""
    counts = Counter(change.verdict for change in changes)
    return {verdict: counts[verdict] for verdict in VERDICTS}


def _index_cells(cells: Iterable[Cell]) -> dict[tuple[str, str, PaperKey], Cell]:
    """Return cells by the key that identifies them in both runs: table, profile, and metric,
    model, data set, setting.
    """
    indexed = {}
    for cell in cells:
        key = PaperKey(cell.metric, cell.model, cell.dataset, cell.setting)
        indexed[cell.table, cell.profile, key] = cell
    return indexed


def _compare_cell(
    key: tuple[str, str, PaperKey], first_cell: Cell, second_cell: Cell
) -> Change | None:
    """Compare a cell of two runs; None if neither run has a value of it."""
    first, second = first_cell.value, second_cell.value
    if first is None and second is None:
        return None
    if first is None:
        return Change(*key, None, second, None, ONLY_SECOND, first_cell.reason)
    if second is None:
        return Change(*key, first, None, None, ONLY_FIRST, second_cell.reason)
    # Equal values need no interval; unequal values are a change unless their intervals overlap.
    if first == second:
        verdict = SAME
    elif _have_overlapping_intervals(first_cell, second_cell):
        verdict = OVERLAP
    else:
        verdict = DIFFERENT
    return Change(*key, first, second, second - first, verdict, "")


def _have_overlapping_intervals(first: Cell, second: Cell) -> bool:
    """Return whether both cells have intervals, and these overlap."""
    if first.interval is None or second.interval is None:
        return False
    first_low, first_high = first.interval
    second_low, second_high = second.interval
    return first_low <= second_high and second_low <= first_high
