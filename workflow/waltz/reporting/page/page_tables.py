"""Tables that only the page shows: cells of one declared table, laid out as headings and texts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from waltz.reporting.tables.cells import Cell
from waltz.reporting.tables.declaration import Declaration
from waltz.reporting.tables.formats import format_notes, format_short_cell
from waltz.reporting.tables.grid import Grid, MarkedCell, lay_out_grid

Row = Mapping[str, Any]
"""Row of a result file, by column."""


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
        return (
            f"{self.declaration.id}-{self.profile}"
            if self.profile
            else self.declaration.id
        )

    @property
    def title(self) -> str:
        """Title of the table, with its profile."""
        return (
            f"{self.declaration.title}, profile {self.profile}"
            if self.profile
            else self.declaration.title
        )

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
        """Headings of the table: those of the names of rows, without the group's name, then those
        of the columns.
        """
        labels = (
            _label_datasets(self.cells) if self.declaration.columns == "dataset" else {}
        )
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


def build_cell(declaration: Declaration, metric: str, row: Row, **names: str) -> Cell:
    """Return the cell of a number in a row of a result file.

    Args:
        declaration: The table.
        metric: Metric in the table.
        row: Row with `value`, `n`, `ci_low` and `ci_high`, perhaps with `reason` and `images`, and
            with names of the cell.
        **names: Names that the row lacks or that are different in the table: `profile`, `model`, `dataset` or
            `setting`.
    """
    return replace(
        build_text_cell(declaration, metric, "", row, **names),
        value=row["value"],
        n=row["n"],
        ci_low=row["ci_low"],
        ci_high=row["ci_high"],
        reason=row.get("reason") or "",
        images=row.get("images"),
    )


def build_text_cell(
    declaration: Declaration, metric: str, text: str, row: Row, **names: str
) -> Cell:
    """Return a cell with a text in the place of a number; `row` and `names` are the same as in
    `build_cell`.
    """
    # Names of the row replace empty ones, and named arguments replace names of the row.
    all_names = {
        "profile": "",
        "model": "",
        "dataset": "",
        "setting": "",
        **row,
        **names,
    }
    return Cell(
        table=declaration.id,
        profile=all_names["profile"],
        metric=metric,
        model=all_names["model"],
        dataset=all_names["dataset"],
        setting=all_names["setting"],
        value=None,
        n=None,
        ci_low=None,
        ci_high=None,
        paper_value=None,
        difference=None,
        verdict="",
        reason="",
        text=text,
    )


def select_cells(declaration: Declaration, rows: Sequence[Row]) -> list[Cell]:
    """Return the cells of the metrics that a table shows, metric by metric.

    Args:
        declaration: The table; a source without settings takes rows of all settings.
        rows: Rows of the layout `METRICS`.
    """
    cells = []
    for metric, sources in declaration.sources.items():
        for source in sources:
            takes_all_settings = source.settings == ("",)
            for row in rows:
                has_setting = takes_all_settings or row["setting"] in source.settings
                if row["metric"] == source.metric and has_setting:
                    cells.append(build_cell(declaration, metric, row))
    return cells


def group_rows(rows: Sequence[Row], key: str) -> dict[str, list[Row]]:
    """Group rows by the value of a column; groups are in order of appearance."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row[key], []).append(row)
    return groups


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
        upper = f"–{high:,}" if high > low else ""
        labels[dataset] = f"{dataset}, n\u00a0=\u00a0{low:,}{upper}"
    return labels


def _format_entry(entry: MarkedCell | None) -> PageText:
    return (
        PageText("")
        if entry is None
        else PageText(format_short_cell(entry.cell), entry.note)
    )
