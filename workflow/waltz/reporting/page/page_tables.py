"""Tables that only the page shows: cells of one declared table, laid out as headings and texts."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from waltz.reporting.tables.cells import Cell
from waltz.reporting.tables.declaration import Declaration
from waltz.reporting.tables.formats import format_notes, format_short_cell
from waltz.reporting.tables.grid import Grid, MarkedCell, lay_out_grid

NAMES = ["profile", "model", "dataset", "setting"]
TEXTS = [*NAMES, "metric", "reason", "text"]
COUNTS = ["n", "images"]
NUMBERS = ["value", "ci_low", "ci_high", *COUNTS]
"""Fields of `Cell` that tables of the page have: names, all texts, whole numbers, all numbers."""
Rows = list[dict[str, Any]]
"""Rows of a frame, each as values by column."""


@dataclass(frozen=True)
class PageText:
    """Text in a cell of a table.

    Attributes:
        text: Number with its interval, a text, a dash for a missing number, or an empty text.
        note: Number of the reason why the number is missing, in the list below the table; 0 without
            a reason.
    """

    text: str
    note: int = 0


@dataclass(frozen=True)
class PageRow:
    """Row of a table.

    Attributes:
        names: Names of the row; without the first name if it is the name of the row's group.
        texts: Texts of the row, one for each column.
    """

    names: tuple[str, ...]
    texts: tuple[PageText, ...]


@dataclass(frozen=True)
class PageTable:
    """Table of the page.

    Attributes:
        declaration: Declaration of the table.
        cells: Its cells.
        profile: Fidelity profile of all its numbers; empty if they have several profiles or none.
        remarks: Sentences below the table.
        fact: Sentence that follows the declared notes.
    """

    declaration: Declaration
    cells: Sequence[Cell]
    profile: str = ""
    remarks: tuple[str, ...] = ()
    fact: str = ""

    @property
    def id(self) -> str:
        """Id of the table's anchor on the page."""
        return "-".join(filter(None, (self.declaration.id, self.profile)))

    @property
    def title(self) -> str:
        """Title of the table, with its profile."""
        if not self.profile:
            return self.declaration.title
        return f"{self.declaration.title}, profile {self.profile}"

    @property
    def note(self) -> str:
        """Explanation for the reader: the declared notes, then the fact."""
        return " ".join(filter(None, (*self.declaration.notes, self.fact)))

    @property
    def is_grouped(self) -> bool:
        """True if the first name of a row is the name of its group: a metric."""
        return self.declaration.rows[0] == "metric"

    @cached_property
    def header(self) -> tuple[str, ...]:
        """Headings of the table: of the names of rows, without the group's name, then of the
        columns.
        """
        labels: dict[str, str] = {}
        if self.declaration.columns == "dataset":
            labels = _label_datasets(self.cells)
        columns = []
        for levels in self._grid.columns:
            heading = " ".join(filter(None, levels))
            columns.append(labels.get(heading, heading))
        # A bool is 0 or 1: in grouped tables the first heading, of the group, is dropped.
        return (*self._grid.corner[self.is_grouped :], *columns)

    @cached_property
    def groups(self) -> dict[str, list[PageRow]]:
        """Rows of each group, by its name; without groups, all rows have the empty name."""
        groups: dict[str, list[PageRow]] = {}
        for names, entries in self._grid.rows:
            group = names[0] if self.is_grouped else ""
            row = PageRow(names[self.is_grouped :], tuple(map(_format_entry, entries)))
            groups.setdefault(group, []).append(row)
        return groups

    @property
    def reasons(self) -> list[str]:
        """Reasons why numbers are missing, in the order of their numbers from 1."""
        return format_notes(self._grid)

    @cached_property
    def _grid(self) -> Grid:
        return lay_out_grid(self.declaration, self.cells)


def build_page_cells(declaration: Declaration, rows: pd.DataFrame) -> list[Cell]:
    """Return one cell for each row of a frame.

    Args:
        declaration: The table.
        rows: Columns are fields of `Cell`: `metric` (its name in the table), other names, and the
            columns of a `Measure`. Columns that the frame lacks are empty in all cells; columns
            that are not fields of `Cell` are ignored.
    """
    texts = rows.reindex(columns=TEXTS)
    names = _list_rows(texts.astype(object).where(texts.notna(), ""))
    cells = []
    for name, number in zip(names, list_numbers(rows), strict=True):
        cell = Cell(
            table=declaration.id,
            paper_value=None,
            difference=None,
            verdict="",
            **name,
            **number,
        )
        cells.append(cell)
    return cells


def list_numbers(rows: pd.DataFrame) -> Rows:
    """Return the numbers of each row's measure; None stands for NaN."""
    # A column with missing numbers holds floats, but counts are whole numbers.
    numbers = rows.reindex(columns=NUMBERS).astype(dict.fromkeys(COUNTS, "Int64"))
    return _list_rows(numbers.astype(object).where(numbers.notna(), None))


def _list_rows(rows: pd.DataFrame) -> Rows:
    values: Any = rows.to_dict("records")
    return list(values)


def build_text_cells(
    declaration: Declaration, names: pd.DataFrame, metric: str, texts: "pd.Series[str]"
) -> list[Cell]:
    """Return one cell with a text instead of a number for each row of a frame.

    Args:
        declaration: The table.
        names: Names of the cells; other columns are ignored.
        metric: Metric in the table.
        texts: Text of each row; texts of other rows are ignored.
    """
    # A frame without rows would take the rows of a column that is assigned to it.
    texts = texts.reindex(names.index)
    rows = names.reindex(columns=NAMES).assign(metric=metric, text=texts)
    return build_page_cells(declaration, rows)


def select_cells(declaration: Declaration, rows: pd.DataFrame) -> list[Cell]:
    """Return the cells of the metrics that a table shows, metric by metric.

    Args:
        declaration: The table; a source without settings takes rows of all settings.
        rows: Frame of `MetricRecord`.
    """
    cells = []
    for metric, sources in declaration.sources.items():
        for source in sources:
            is_shown = rows["metric"] == source.metric
            if source.settings != ("",):
                is_shown &= rows["setting"].isin(source.settings)
            cells += build_page_cells(declaration, rows[is_shown].assign(metric=metric))
    return cells


def _label_datasets(cells: Sequence[Cell]) -> dict[str, str]:
    """Return the heading of each data set: its name, and its number of items or the range of these
    numbers.
    """
    # Only numbers with a value count: models that could not be run have no items.
    counts: dict[str, list[int]] = {}
    for cell in cells:
        dataset_counts = counts.setdefault(cell.dataset, [])
        if cell.value is not None and cell.n is not None:
            dataset_counts.append(cell.n)
    labels = {}
    for dataset, numbers in counts.items():
        low, high = min(numbers, default=0), max(numbers, default=0)
        labels[dataset] = f"{dataset}, n\u00a0=\u00a0{low:,}"
        if high > low:
            labels[dataset] += f"–{high:,}"
    return labels


def _format_entry(entry: MarkedCell | None) -> PageText:
    if entry is None:
        return PageText("")
    return PageText(format_short_cell(entry.cell), entry.note)
