"""The cells of a table in rows and columns, laid out as in the paper, with their marks."""

from collections.abc import Sequence
from dataclasses import dataclass

from waltz.reporting.tables.best import SignificanceTests
from waltz.reporting.tables.cells import ONLY_PUBLISHED, SYNTHETIC_DATA, Cell
from waltz.reporting.tables.declaration import Declaration, get_style
from waltz.reporting.tables.paper_values import EVERY_METRIC, NO_PAPER_VALUE, RANDOM

PROBES = "cv-probes:"
"""Prefix of the data sets of CV-Probes, of which only the condition is shown."""
COMMON_REASONS = (ONLY_PUBLISHED, SYNTHETIC_DATA, NO_PAPER_VALUE)
"""Reasons why a number has no verdict that are given once for all cells."""


@dataclass(frozen=True)
class MarkedCell:
    """A cell with its marks.

    Attributes:
        cell: The cell.
        best: Whether it is the highest of several models, and a test shows it.
        at_chance: Whether it is at or below the chance level.
        note: Number of its reason below the table; 0 for none.
    """

    cell: Cell
    best: bool
    at_chance: bool
    note: int


@dataclass(frozen=True)
class Grid:
    """One profile of a table.

    Attributes:
        corner: Headings of the fields that name a row.
        columns: Headings of each column, the uppermost first.
        rows: Names of each row, as many as in `corner`, with its cells; None where there is no cell.
        notes: Reasons, in the order of their numbers from 1, each with its number of cells.
        general: Reasons shared by many cells why numbers have no verdict.
    """

    corner: tuple[str, ...]
    columns: tuple[tuple[str, ...], ...]
    rows: tuple[tuple[tuple[str, ...], tuple[MarkedCell | None, ...]], ...]
    notes: tuple[tuple[str, int], ...]
    general: tuple[str, ...]


UNPAIRED = SignificanceTests()
"""No paired items: what independent samples show, from the cells' intervals."""


def lay_out_profiles(
    declaration: Declaration, cells: Sequence[Cell], significance: SignificanceTests = UNPAIRED
) -> dict[str, Grid]:
    """Lay out the cells of each profile."""
    profiles = dict.fromkeys(cell.profile for cell in cells)
    return {
        profile: lay_out_grid(declaration, [cell for cell in cells if cell.profile == profile], significance)
        for profile in profiles
    }


def lay_out_grid(declaration: Declaration, cells: Sequence[Cell], significance: SignificanceTests = UNPAIRED) -> Grid:
    """Lay out the cells of one profile in rows and columns; rows of a metric are adjacent.

    The chance level is a row of its own where the paper gives it for all columns, else it follows the metric's name.
    """
    cells, chances = _split_off_chances(declaration, cells)
    column_fields = (*declaration.column_groups, declaration.columns)
    columns = _sort_names(declaration, [name_column(declaration, cell) for cell in cells], column_fields)
    rows = _sort_names(declaration, [name_row(declaration, cell) for cell in cells], declaration.rows)
    best = significance.find_best(declaration, cells) if declaration.marks_best else set()
    counts: dict[str, int] = {}
    marked_cells: dict[tuple[tuple[str, ...], tuple[str, ...]], MarkedCell] = {}
    for cell in cells:
        note = 0
        if cell.reason and not (cell.reason in COMMON_REASONS and (cell.value is not None or cell.text)):
            counts[cell.reason] = counts.get(cell.reason, 0) + 1
            note = list(counts).index(cell.reason) + 1
        is_low = cell.value is not None and cell.chance is not None and cell.value <= cell.chance
        marked = MarkedCell(cell, cell in best, is_low and get_style(cell.metric).chance, note)
        marked_cells[name_row(declaration, cell), name_column(declaration, cell)] = marked
    general = dict.fromkeys(
        cell.reason for cell in cells if cell.reason in COMMON_REASONS and cell.reason not in counts
    )
    return Grid(
        corner=tuple({"dataset": "data set", **declaration.field_titles}.get(name, name) for name in declaration.rows),
        columns=tuple(_format_headings(column_fields, column) for column in columns),
        rows=tuple(
            (
                _format_headings(declaration.rows, row, chances.get(row)),
                tuple(marked_cells.get((row, column)) for column in columns),
            )
            for row in rows
        ),
        notes=tuple(counts.items()),
        general=tuple(f"Numbers without a verdict: {reason}." for reason in general),
    )


def _split_off_chances(
    declaration: Declaration, cells: Sequence[Cell]
) -> tuple[list[Cell], dict[tuple[str, ...], float | None]]:
    """Return the cells without the chance level, unless it fills a row, and the chance level by row where it is one."""
    chance_cells = [cell for cell in cells if cell.model == RANDOM]
    others = [cell for cell in cells if cell.model != RANDOM]
    needed = {name_column(declaration, cell) for cell in others if cell.metric not in declaration.side_metrics}
    if (
        declaration.columns != "model"
        and chance_cells
        and needed <= {name_column(declaration, cell) for cell in chance_cells}
    ):
        return list(cells), {}
    chances: dict[tuple[str, ...], float | None] = {}
    for cell in others:
        if get_style(cell.metric).chance and cell.chance is not None:
            row = name_row(declaration, cell)
            chances[row] = cell.chance if chances.setdefault(row, cell.chance) == cell.chance else None
    return others, chances


def name_row(declaration: Declaration, cell: Cell) -> tuple[str, ...]:
    """Return the names of a cell's row; a side metric is in the row of the metric that its setting names."""
    metric = cell.setting if cell.metric in declaration.side_metrics else cell.metric
    setting = "" if cell.metric in declaration.side_metrics else cell.setting
    fields = {"metric": metric, "model": cell.model, "dataset": cell.dataset, "setting": setting}
    return tuple(fields[name] for name in declaration.rows)


def name_column(declaration: Declaration, cell: Cell) -> tuple[str, ...]:
    """Return the names of a cell's column, the uppermost heading first."""
    is_side_metric = cell.metric in declaration.side_metrics
    names = [getattr(cell, name) for name in (*declaration.column_groups, declaration.columns)]
    return tuple([*names[:-1], get_style(cell.metric).heading] if is_side_metric else names)


def _sort_names(
    declaration: Declaration, names: Sequence[tuple[str, ...]], fields: Sequence[str]
) -> list[tuple[str, ...]]:
    """Sort distinct names: metrics as declared, all else in order of appearance, outer fields first."""
    metrics = {metric: place for place, metric in enumerate((EVERY_METRIC, *declaration.sources))}
    orders: list[dict[str, int]] = []
    for field, entries in zip(fields, zip(*names, strict=True), strict=False):
        first_places = {entry: place for place, entry in enumerate(dict.fromkeys(entries))}
        orders.append(
            {entry: metrics.get(entry, len(metrics)) for entry in entries} if field == "metric" else first_places
        )
    places = {name: [order[part] for order, part in zip(orders, name, strict=True)] for name in names}
    return sorted(places, key=places.__getitem__)


def _format_headings(fields: Sequence[str], names: Sequence[str], chance: float | None = None) -> tuple[str, ...]:
    """Return the headings of names; metrics, and tests in the place of data sets, have headings of their own."""
    suffix = "" if chance is None else f" (chance {chance:g})"
    headings = []
    for field, name in zip(fields, names, strict=True):
        is_metric = field == "metric" or (field == "dataset" and name != EVERY_METRIC)
        title = get_style(name.removeprefix(PROBES)).heading if is_metric else name
        headings.append(title + suffix if field == "metric" else title)
    return tuple(headings)
