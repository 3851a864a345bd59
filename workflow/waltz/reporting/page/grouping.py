"""Rows of measures cut into tables, and their cells."""

from collections.abc import Mapping, Sequence

from waltz.reporting.page.construction_tables import Row, format_interval

HEADINGS = {
    "acc_r": "acc_r",
    "acc": "acc",
    "p_c": "p_c",
    "p_f": "p_f",
    "min_pc_pf": "min(p_c, p_f)",
    "auroc": "AUROC",
}
"""Metrics of captions and foils, as tables head them."""


def sort_rows(rows: Sequence[Row]) -> list[Row]:
    """Rows data set by data set, so that models stand below each other."""
    return [row for of in group_rows(rows, "dataset").values() for row in of]


def group_rows(rows: Sequence[Row], key: str) -> dict[str, list[Row]]:
    """Rows by the value of a column, in order."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row[key], []).append(row)
    return found


def pivot_rows(rows: Sequence[Row], keys: Sequence[str], column: str) -> dict[tuple[str, ...], dict[str, Row]]:
    """Rows by the values of some columns, then by that of another."""
    found: dict[tuple[str, ...], dict[str, Row]] = {}
    for row in rows:
        found.setdefault(tuple(row[key] for key in keys), {})[row[column]] = row
    return found


def count_reasons(rows: Sequence[Mapping[str, object]]) -> list[str]:
    """Each reason for empty cells once, with the models that have it."""
    models: dict[str, list[str]] = {}
    for row in rows:
        if row["reason"]:
            known = models.setdefault(str(row["reason"]), [])
            if row["model"] not in known:
                known.append(str(row["model"]))
    return [f"{', '.join(of)}: {reason}" for reason, of in models.items()]


def format_measure(row: Row | None, places: int = 1) -> str:
    """A cell with its interval; a dash where its reason stands below the table."""
    if row is None:
        return ""
    if row["value"] is None:
        return "–"
    return f"{row['value']:.{places}f}{format_interval(row, f'.{places}f')}"


def format_number(value: float | None, places: int) -> str:
    """A number with some places; nothing for None."""
    return "" if value is None else f"{value:.{places}f}"
