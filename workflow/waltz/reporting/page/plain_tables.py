"""Plain tables of texts on the page, and helpers to group rows of measures and to format cells."""

from collections.abc import Mapping, Sequence
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
}
"""Headings of the metrics of captions and foils."""


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
    """

    id: str
    title: str
    note: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    remarks: tuple[str, ...] = ()
    profile: str = ""


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


def list_reasons(rows: Sequence[Mapping[str, object]]) -> list[str]:
    """Return each reason for empty cells once, with its models."""
    models_by_reason: dict[str, list[str]] = {}
    for row in rows:
        if row["reason"]:
            models = models_by_reason.setdefault(str(row["reason"]), [])
            if row["model"] not in models:
                models.append(str(row["model"]))
    return [f"{', '.join(models)}: {reason}" for reason, models in models_by_reason.items()]


def format_measure(row: Row | None, decimals: int = 1) -> str:
    """Return a number with its interval; a dash where its reason is given below the table."""
    if row is None:
        return ""
    if row["value"] is None:
        return "–"
    return f"{row['value']:.{decimals}f}{format_interval(row, f'.{decimals}f')}"


def format_share(row: Row) -> str:
    """Return a share with its interval, or the reason why it is missing."""
    if row["value"] is None:
        return str(row["reason"])
    return f"{row['value']:.1f}{format_interval(row)}"


def format_interval(row: Row, form: str = ".1f") -> str:
    """Return the interval that follows a number; an empty text without one."""
    low, high = row["ci_low"], row["ci_high"]
    return "" if low is None or high is None else f" [{low:{form}}, {high:{form}}]"


def format_number(value: float | None, decimals: int) -> str:
    """Return a number with some decimals; an empty text for None."""
    return "" if value is None else f"{value:.{decimals}f}"
