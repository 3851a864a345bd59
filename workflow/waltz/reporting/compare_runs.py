"""Two runs beside each other, cell by cell of their tables: two studies, or one study at two commits."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from waltz.core.errors import UserError
from waltz.reporting.page.run_facts import read_records
from waltz.reporting.tables.cells import Cell, parse_csv
from waltz.reporting.tables.paper_values import Key

SAME = "same"
WITHIN = "intervals overlap"
MOVED = "moved"
ONLY_FIRST, ONLY_SECOND = "only in the first", "only in the second"
VERDICTS = (MOVED, WITHIN, ONLY_FIRST, ONLY_SECOND, SAME)


@dataclass(frozen=True)
class Change:
    """One cell in two runs.

    Attributes:
        table: Id of the table.
        profile: Fidelity profile.
        key: metric, model, dataset, setting.
        first: Its value in the first run, or None.
        second: Its value in the second, or None.
        difference: Second less first, in the metric's unit; None where one of them is missing.
        verdict: One of `VERDICTS`: `same` to the last digit; `intervals overlap` where both have intervals that do;
            `moved` where numbers differ otherwise; or the run that alone has a value.
        reason: Why a run has no value, in its own words.
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
    """What a folder of results holds.

    Attributes:
        cells: The cells of all tables.
        commits: How many run records name each commit of waltz.
    """

    cells: tuple[Cell, ...]
    commits: Counter[str]


def read_run(folder: str | Path) -> Run:
    """The tables and commits of one study's results.

    Args:
        folder: `results/<study>`, of this checkout or another.
    Raises:
        UserError: There are no tables.
    """
    folder = Path(folder)
    files = sorted((folder / "reporting" / "tables").glob("*-*.csv"))
    if not files:
        raise UserError(
            f"{folder}: holds no tables (reporting/tables/*.csv); run the study, or name its results folder"
        )
    cells = [cell for file in files for cell in parse_csv(file.read_text(encoding="utf-8"))]
    records = read_records(sorted(folder.rglob("*.run.json")), folder)
    return Run(tuple(cells), Counter(str(record.facts.get("commit", "unknown")) for record in records))


def compare_cells(first: Iterable[Cell], second: Iterable[Cell]) -> list[Change]:
    """Every cell that either run has a value for, in the order of the first, then what only the second has.

    Args:
        first: Cells of one run.
        second: Cells of the other.
    """
    sides = [{_locate(cell): cell for cell in cells} for cells in (first, second)]
    found = []
    for place in dict.fromkeys([*sides[0], *sides[1]]):
        one, other = sides[0].get(place), sides[1].get(place)
        if (one and one.value is not None) or (other and other.value is not None):
            found.append(_compare_cell(place, one, other))
    return found


def count_verdicts(found: Sequence[Change]) -> dict[str, int]:
    """How many cells have each verdict, in the order of `VERDICTS`."""
    tally = Counter(change.verdict for change in found)
    return {verdict: tally[verdict] for verdict in VERDICTS}


def _locate(cell: Cell) -> tuple[str, str, Key]:
    return cell.table, cell.profile, (cell.metric, cell.model, cell.dataset, cell.setting)


def _compare_cell(place: tuple[str, str, Key], one: Cell | None, other: Cell | None) -> Change:
    first, second = (cell.value if cell else None for cell in (one, other))
    if first is None or second is None:
        missing = one if first is None else other
        reason = missing.reason if missing else "not in its tables"
        return Change(*place, first, second, None, ONLY_SECOND if first is None else ONLY_FIRST, reason)
    verdict = SAME if first == second else WITHIN if _intervals_overlap(one, other) else MOVED
    return Change(*place, first, second, second - first, verdict, "")


def _intervals_overlap(one: Cell | None, other: Cell | None) -> bool:
    ends = [end for cell in (one, other) if cell for end in (cell.ci_low, cell.ci_high)]
    if len(ends) < 4 or None in ends:
        return False
    low, high, other_low, other_high = (float(end or 0.0) for end in ends)
    return low <= other_high and other_low <= high
