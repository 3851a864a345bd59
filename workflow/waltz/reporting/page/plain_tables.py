"""Plain tables of texts on the page, and helpers to group rows of measures and to format cells."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, Any]

HEADINGS = {
    "acc_r": "acc_r",
    "acc": "acc",
    "p_c": "p_c",
    "p_f": "p_f",
    "min_pc_pf": "min(p_c, p_f)",
    "auroc": "AUROC",
    "ties": "ties",
}
"""Headings of the metrics of captions and foils."""
SMALLEST_N, WIDEST = 30, 0.25
"""Items, and interval as a share of the metric's scale, that a number needs to mean anything: at least and at most."""
SMALL_MARK = "†"
"""Mark of numbers from too few items."""


@dataclass(frozen=True)
class PlainTable:
    """A table of texts.

    Attributes:
        id: Anchor on the page.
        title: Title of the table.
        note: Explanation that a reader needs.
        header: Texts of the header; the first is the heading of the row names.
        rows: Texts, as many in each row as in the header.
        remarks: Sentences below the table.
        profile: Fidelity profile of all its numbers; empty where there are several or none.
        is_grouped: Whether the first column names groups of rows.
    """

    id: str
    title: str
    note: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    remarks: tuple[str, ...] = ()
    profile: str = ""
    is_grouped: bool = False

    @property
    def groups(self) -> list[tuple[str, list[tuple[str, ...]]]]:
        """Rows by the name of their group, without it; all rows without a name if there are no groups."""
        groups: dict[str, list[tuple[str, ...]]] = {}
        for row in self.rows:
            groups.setdefault(row[0] if self.is_grouped else "", []).append(row[self.is_grouped :])
        return list(groups.items())


def sort_rows(rows: Sequence[Row]) -> list[Row]:
    """Return rows data set by data set, so that the models of one data set are adjacent."""
    return [row for group in group_rows(rows, "dataset").values() for row in group]


def group_rows(rows: Sequence[Row], key: str) -> dict[str, list[Row]]:
    """Group rows by the value of a column, in order of appearance."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row[key], []).append(row)
    return groups


def pivot_rows(rows: Sequence[Row], keys: Sequence[str], column: str) -> dict[tuple[str, ...], dict[str, Row]]:
    """Group rows by the values of some columns, and index each group by another column."""
    groups: dict[tuple[str, ...], dict[str, Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), {})[row[column]] = row
    return groups


def pivot_cells(
    cells: Iterable[tuple[tuple[str, ...], str, str]],
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Return the headings of columns, and rows of names followed by a text for each column.

    Args:
        cells: Names of the row, heading of the column, and text of each cell; no two have the same names and heading.
    """
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    columns: dict[str, None] = {}
    for names, column, text in cells:
        columns[column] = None
        row = rows.setdefault(names, {})
        if column in row:
            raise ValueError(f"two cells of row {' · '.join(names)} are in column {column}")
        row[column] = text
    return tuple(columns), tuple((*names, *(row.get(column, "") for column in columns)) for names, row in rows.items())


def label_datasets(rows: Sequence[Row]) -> dict[str, str]:
    """Return the heading of each data set: its name with the number of items, or the range of numbers."""
    labels = {}
    for name, group in group_rows(rows, "dataset").items():
        counts = sorted(row["n"] for row in group if row["value"] is not None) or [0]
        labels[name] = f"{name}, n\u00a0=\u00a0{counts[0]:,}" + (f"–{counts[-1]:,}" if counts[-1] > counts[0] else "")
    return labels


def list_reasons(rows: Sequence[Mapping[str, object]]) -> list[str]:
    """Return each reason for empty cells once, with its models."""
    models_by_reason: dict[str, list[str]] = {}
    for row in rows:
        if row["reason"]:
            models = models_by_reason.setdefault(str(row["reason"]), [])
            if row["model"] not in models:
                models.append(str(row["model"]))
    return [f"{', '.join(models)}: {reason}" for reason, models in models_by_reason.items()]


def is_small(n: int | None, low: float | None, high: float | None, scale: float = 100.0) -> bool:
    """Return whether a number is from too few items: fewer than `SMALLEST_N`, or with an interval beyond `WIDEST`.

    Args:
        n: Number of items; None for a number that is no measurement.
        low: Lower end of its interval; None without one.
        high: Upper end.
        scale: Distance of the smallest and largest possible value.
    """
    wide = low is not None and high is not None and high - low > WIDEST * scale
    return n is not None and (n < SMALLEST_N or wide)


def format_measure(row: Row | None, decimals: int = 1, scale: float = 100.0) -> str:
    """Return a number with its interval, marked if it is from too few items; a dash for a number that is missing."""
    if row is None:
        return ""
    if row["value"] is None:
        return "–"
    mark = SMALL_MARK if is_small(row["n"], row["ci_low"], row["ci_high"], scale) else ""
    return f"{row['value']:.{decimals}f}{mark}{format_interval(row, f'.{decimals}f')}"


def format_share(row: Row) -> str:
    """Return a share with its interval, or the reason why it is missing."""
    return str(row["reason"]) if row["value"] is None else format_measure(row)


def format_interval(row: Row, form: str = ".1f") -> str:
    """Return the interval that follows a number; an empty text without one."""
    low, high = row["ci_low"], row["ci_high"]
    return "" if low is None or high is None else f" [{low:{form}}, {high:{form}}]"


def format_number(value: float | None, decimals: int) -> str:
    """Return a number with some decimals; an empty text for None."""
    return "" if value is None else f"{value:.{decimals}f}"
