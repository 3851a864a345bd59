"""Layout of a table: its cells in rows and columns as in the paper, with their marks."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from waltz.reporting.tables.best import SignificanceTests
from waltz.reporting.tables.cells import (
    ONLY_PUBLISHED,
    SYNTHETIC_DATA,
    Cell,
    group_cells,
)
from waltz.reporting.tables.declaration import Declaration
from waltz.reporting.tables.declarations import get_style
from waltz.reporting.tables.paper_values import EVERY_METRIC, NO_PAPER_VALUE, RANDOM

PROBES_PREFIX = "cv-probes:"
"""Prefix of the data sets of CV-Probes; a table shows only the condition after it."""
COMMON_REASONS = (ONLY_PUBLISHED, SYNTHETIC_DATA, NO_PAPER_VALUE)
"""Reasons why numbers have no verdict that are written once for all cells, and not as a note of
each cell.
"""
Names = tuple[str, ...]
"""Names of a row or column: one name for each field, the outermost first."""


@dataclass(frozen=True, slots=True)
class MarkedCell:
    """A cell with its marks.

    Attributes:
        cell: The cell.
        best: Whether it is the best of several models, as a test shows.
        at_chance: Whether its value is at or below the chance level.
        note: Number of its reason in the list below the table, from 1; 0 if it has no reason there.
    """

    cell: Cell
    best: bool
    at_chance: bool
    note: int


@dataclass(frozen=True, slots=True)
class Grid:
    """Layout of a table in one profile.

    Attributes:
        corner: Headings of the fields that name a row.
        columns: Headings of each column, the uppermost first.
        rows: Names of each row, as many as in `corner`, and its cells, one for each column; None
            where a cell is missing.
        notes: Reasons in the order of their numbers from 1, each with its number of cells.
        general: Sentences about the reasons why numbers have no verdict, which hold for many cells.
    """

    corner: Names
    columns: tuple[Names, ...]
    rows: tuple[tuple[Names, tuple[MarkedCell | None, ...]], ...]
    notes: tuple[tuple[str, int], ...]
    general: tuple[str, ...]


UNPAIRED = SignificanceTests()
"""Significance tests without paired items: only the intervals of cells, as of independent samples,
decide.
"""


def lay_out_profiles(
    declaration: Declaration,
    cells: Sequence[Cell],
    significance: SignificanceTests = UNPAIRED,
) -> dict[str, Grid]:
    """Return the layout of each profile of a table, by profile."""
    return {
        profile: lay_out_grid(declaration, cells_of_profile, significance)
        for profile, cells_of_profile in group_cells(cells, "profile").items()
    }


def lay_out_grid(
    declaration: Declaration,
    cells: Sequence[Cell],
    significance: SignificanceTests = UNPAIRED,
) -> Grid:
    """Return the layout of one profile of a table, in which the rows of a metric are adjacent.

    The chance level gets a separate row if the paper gives it for all columns; otherwise it follows
    the metric's name.
    """
    # The paper gives chance levels as rows of a model `random`.
    cells, chances = _split_off_chances(declaration, cells)
    column_fields = (*declaration.column_groups, declaration.columns)
    columns = _order_names(
        declaration, [name_column(declaration, cell) for cell in cells], column_fields
    )
    rows = _order_names(
        declaration, [name_row(declaration, cell) for cell in cells], declaration.rows
    )
    marked_cells, notes = _mark_cells(declaration, cells, significance)

    # A declaration may give a field another title in its table.
    titles = {"dataset": "data set", **declaration.field_titles}
    grid_rows = []
    for row in rows:
        headings = _format_headings(declaration.rows, row, chances.get(row))
        grid_rows.append(
            (headings, tuple(marked_cells.get((row, column)) for column in columns))
        )
    return Grid(
        corner=tuple(titles.get(field, field) for field in declaration.rows),
        columns=tuple(_format_headings(column_fields, column) for column in columns),
        rows=tuple(grid_rows),
        notes=tuple(notes.items()),
        general=_list_general_reasons(cells, notes),
    )


def _mark_cells(
    declaration: Declaration, cells: Sequence[Cell], significance: SignificanceTests
) -> tuple[dict[tuple[Names, Names], MarkedCell], dict[str, int]]:
    """Return the marked cells by row and column, and the number of cells of each reason.

    The order of the reasons is the order of their numbers in `MarkedCell.note`.
    """
    best: set[Cell] = set()
    if declaration.marks_best:
        best = significance.find_best(declaration, cells)
    # A counter has its reasons in order of appearance.
    counts = Counter(filter(None, map(_get_note, cells)))
    numbers = {reason: number for number, reason in enumerate(counts, 1)}
    marked_cells = {}
    for cell in cells:
        position = (name_row(declaration, cell), name_column(declaration, cell))
        note = numbers.get(_get_note(cell), 0)
        marked_cells[position] = MarkedCell(
            cell, cell in best, _is_at_chance(cell), note
        )
    return marked_cells, counts


def _get_note(cell: Cell) -> str:
    """Return the reason that is a note of a cell; empty if it is written once for all cells."""
    if cell.is_filled and cell.reason in COMMON_REASONS:
        return ""
    return cell.reason


def _is_at_chance(cell: Cell) -> bool:
    """Return whether a value is at or below the chance level, even if its interval reaches above
    it.
    """
    chance = get_chance(cell)
    if cell.value is None or chance is None:
        return False
    return cell.value <= chance


def get_chance(cell: Cell) -> float | None:
    """Return the chance level of a cell; None if values of its metric are not compared with it."""
    if not get_style(cell.metric).chance:
        return None
    return cell.chance


def _list_general_reasons(
    cells: Sequence[Cell], notes: dict[str, int]
) -> tuple[str, ...]:
    """Return a sentence for each reason that is written once for all cells."""
    reasons = {cell.reason for cell in cells}
    general = reasons.intersection(COMMON_REASONS).difference(notes)
    return tuple(f"Numbers without a verdict: {reason}." for reason in sorted(general))


def _split_off_chances(
    declaration: Declaration, cells: Sequence[Cell]
) -> tuple[list[Cell], dict[Names, float]]:
    """Separate the chance levels from the cells of models.

    Returns:
        The cells to lay out, and the chance level of each row. If the chance levels fill a row,
        they stay among the cells, and the second result is empty.
    """
    chance_cells = [cell for cell in cells if cell.model == RANDOM]
    model_cells = [cell for cell in cells if cell.model != RANDOM]
    if _fills_row(declaration, chance_cells, model_cells):
        return list(cells), {}

    levels_by_row: defaultdict[Names, set[float]] = defaultdict(set)
    for cell in model_cells:
        chance = get_chance(cell)
        if chance is not None:
            levels_by_row[name_row(declaration, cell)].add(chance)
    # A row whose cells have different chance levels has no common one.
    chances = {
        row: levels.pop() for row, levels in levels_by_row.items() if len(levels) == 1
    }
    return model_cells, chances


def _fills_row(
    declaration: Declaration, chance_cells: Sequence[Cell], model_cells: Sequence[Cell]
) -> bool:
    """Return whether there is a chance level for all columns, except the columns of side metrics."""
    # Side metrics have no chance level.
    needed = {
        name_column(declaration, cell)
        for cell in model_cells
        if cell.metric not in declaration.side_metrics
    }
    return needed <= {name_column(declaration, cell) for cell in chance_cells}


def name_row(declaration: Declaration, cell: Cell) -> Names:
    """Return the names of a cell's row; a side metric stands in the row of the metric that its
    setting names.
    """
    if cell.metric in declaration.side_metrics:
        cell = replace(cell, metric=cell.setting, setting="")
    return tuple(getattr(cell, field) for field in declaration.rows)


def name_column(declaration: Declaration, cell: Cell) -> Names:
    """Return the names of a cell's column, the uppermost heading first; each side metric has a
    separate column.
    """
    groups = [getattr(cell, field) for field in declaration.column_groups]
    if cell.metric in declaration.side_metrics:
        return (*groups, get_style(cell.metric).heading)
    return (*groups, getattr(cell, declaration.columns))


def _order_names(
    declaration: Declaration, names: Sequence[Names], fields: Sequence[str]
) -> list[Names]:
    """Return distinct names of rows or columns in the order of the table.

    Names are sorted by their fields, the outermost field first: metrics as declared, other fields
    in order of appearance.
    """
    sorted_names = list(dict.fromkeys(names))
    # The sort is stable, so it begins with the innermost field.
    for level, field in reversed(list(enumerate(fields))):
        order = list(dict.fromkeys(name[level] for name in names))
        if field == "metric":
            order = [EVERY_METRIC, *declaration.sources]
        ranks = {entry: rank for rank, entry in enumerate(order)}
        # Metrics that are not declared come last.
        sorted_names.sort(key=lambda name: ranks.get(name[level], len(ranks)))
    return sorted_names


def _format_headings(
    fields: Sequence[str], names: Names, chance: float | None = None
) -> Names:
    """Return the headings of names: declared headings for metrics and tests, the names themselves
    for all others.
    """
    headings = list(map(_get_heading, fields, names))
    if chance is not None and "metric" in fields:
        headings[fields.index("metric")] += f" (chance {chance:g})"
    return tuple(headings)


def _get_heading(field: str, name: str) -> str:
    """Return the heading of one name: declared for a metric or test, else the name itself."""
    if field not in ("metric", "dataset"):
        return name
    # Tables of tests have the names of tests as data sets; their headings are those of metrics.
    if field == "dataset" and name == EVERY_METRIC:
        return name
    return get_style(name.removeprefix(PROBES_PREFIX)).heading
