"""Tables as the data that the report's script lays out: short names, numbers that print needs, reasons once."""

from collections.abc import Mapping, Sequence
from typing import Any

from waltz.reporting.declarations import Declaration
from waltz.reporting.layouts import PLACES
from waltz.reporting.tables import Cell
from waltz.reporting.verdict_counts import kind_of

NAMES = ("profile", "metric", "model", "dataset", "setting", "verdict", "reason", "text", "published_text")
NUMBERS = ("value", "n", "ci_low", "ci_high", "published", "difference")
DIGITS = 7
"""Significant digits of a number on the page; the CSV has all."""


def grid_data(declaration: Declaration, cells: Sequence[Cell]) -> dict[str, Any]:
    """One table.

    Args:
        declaration: How it is laid out.
        cells: Its cells, of all profiles.
    Returns:
        `names` holds each text once; a row of `cells` has places in it for `NAMES`, then `NUMBERS`. `rows` are the
        fields that name a row, `groups` the one whose rows stand together, if any; every field in which cells differ
        is among `groups`, `rows` and `columns`, so that no cell hides another.
    """
    places: dict[str, int] = {}
    packed = [
        [
            *(places.setdefault(_name(cell, field), len(places)) for field in NAMES),
            *(_short(getattr(cell, field)) for field in NUMBERS),
        ]
        for cell in cells
    ]
    rows = _row_fields(declaration, cells)
    groups = "metric" if "metric" in rows and len(rows) > 1 else None
    order = {metric: place for place, metric in enumerate(declaration.metrics)}
    if groups:
        metrics = [cell.metric for cell in cells]
        packed = [row for _, row in sorted(zip(metrics, packed, strict=True), key=lambda pair: order.get(pair[0], -1))]
    return {
        "id": declaration.id,
        "groups": groups,
        "rows": [field for field in rows if field != groups],
        "columns": _column_fields(declaration),
        "headings": dict(declaration.metrics),
        "places": {cell.metric: PLACES.get(cell.metric, 1) for cell in cells},
        "profiles": list(dict.fromkeys(cell.profile for cell in cells)),
        "names": list(places),
        "cells": packed,
    }


def field_names() -> list[str]:
    """What stands where in a row of `cells`."""
    return [*NAMES, *NUMBERS]


def _name(cell: Cell, field: str) -> str:
    if field == "published_text" and cell.published is not None:
        return ""
    return kind_of(cell) if field == "verdict" else str(getattr(cell, field))


def _column_fields(declaration: Declaration) -> list[str]:
    return [*declaration.over, declaration.columns]


def _row_fields(declaration: Declaration, cells: Sequence[Cell]) -> list[str]:
    """The declared fields, and those without which two cells would share a place."""
    fields, columns = [*declaration.rows], _column_fields(declaration)
    for field in ("metric", "model", "dataset", "setting"):
        if field in fields or field in columns:
            continue
        shown = {_place(cell, [*fields, *columns]) for cell in cells}
        if len(shown) < len({_place(cell, [*fields, *columns, field]) for cell in cells}):
            fields.append(field)
    return fields


def _place(cell: Cell, fields: Sequence[str]) -> tuple[str, ...]:
    return (cell.profile, *(getattr(cell, field) for field in fields))


def _short(number: float | None) -> float | int | None:
    if number is None or isinstance(number, int):
        return number
    if number != number or number in (float("inf"), float("-inf")):
        return None
    short = float(f"{number:.{DIGITS}g}")
    return int(short) if short.is_integer() else short


def by_table(cells: Sequence[Cell]) -> Mapping[str, list[Cell]]:
    """Cells of each table, in the order in which tables begin."""
    tables: dict[str, list[Cell]] = {}
    for cell in cells:
        tables.setdefault(cell.table, []).append(cell)
    return tables
