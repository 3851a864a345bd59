"""Tables as the data that the report's script shows: rows and columns of `grid`, short names, reasons once."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from waltz.reporting.tables.cells import Cell
from waltz.reporting.tables.declarations import Declaration
from waltz.reporting.tables.grid import Grid, lay_out_grid, name_column, name_row
from waltz.reporting.tables.metric_styles import get_decimals
from waltz.reporting.tables.verdict_counts import classify_cell

NAMES = ("profile", "metric", "model", "dataset", "setting", "verdict", "reason", "text", "published_text")
NUMBERS = ("value", "n", "ci_low", "ci_high", "published", "difference", "sd", "published_sd", "chance")
PLACES = ("row", "column", "mark")
BEST, GUESSED = 1, 2
"""Sum to the mark of a cell: the best of several models, at or below chance."""
NO_PLACE = (-1, -1, 0)
"""Places of a cell that is said elsewhere: what guessing gives, beside the metric's name."""
DIGITS = 7
"""Significant digits of a number on the page; the CSV has all."""


def make_table_json(declaration: Declaration, cells: Sequence[Cell]) -> dict[str, Any]:
    """One table, laid out as in its other forms.

    Args:
        declaration: How it is laid out; a field in which cells of one place differ is added to those that name rows.
        cells: Its cells, of all profiles.
    Returns:
        `names` holds each text once; a row of `cells` has places in it for `NAMES`, then `NUMBERS`, then its row and
        column in its profile's entry of `layouts` and its mark. `layouts` has the headings of each profile: `corner`
        of what names a row, `columns` and `rows`.
    """
    declaration = _add_missing_columns(declaration, cells)
    names: dict[str, int] = {}
    profiles = list(dict.fromkeys(cell.profile for cell in cells))
    layouts = {
        profile: lay_out_grid(declaration, [cell for cell in cells if cell.profile == profile]) for profile in profiles
    }
    found = {cell: where for laid in layouts.values() for cell, where in _index_places(laid).items()}
    packed = [
        [
            *(names.setdefault(_get_name(cell, field), len(names)) for field in NAMES),
            *(_round_number(getattr(cell, field)) for field in NUMBERS),
            *found.get(cell, NO_PLACE),
        ]
        for cell in cells
    ]
    return {
        "id": declaration.id,
        "layouts": {
            profile: {"corner": laid.corner, "columns": laid.columns, "rows": [row for row, _ in laid.rows]}
            for profile, laid in layouts.items()
        },
        "places": {cell.metric: get_decimals(cell.metric) for cell in cells},
        "profiles": profiles,
        "names": list(names),
        "cells": packed,
    }


def list_field_names() -> list[str]:
    """What stands where in a row of `cells`."""
    return [*NAMES, *NUMBERS, *PLACES]


def _index_places(laid: Grid) -> dict[Cell, tuple[int, int, int]]:
    """Row, column and mark of each cell that has a place."""
    return {
        marked.cell: (row, column, BEST * marked.best + GUESSED * marked.at_chance)
        for row, (_, entries) in enumerate(laid.rows)
        for column, marked in enumerate(entries)
        if marked is not None
    }


def _add_missing_columns(declaration: Declaration, cells: Sequence[Cell]) -> Declaration:
    """The declaration with rows named by all fields without which two cells would share a place."""

    def distinct(rows: tuple[str, ...]) -> int:
        tried = replace(declaration, rows=rows)
        return len({(cell.profile, name_row(tried, cell), name_column(tried, cell)) for cell in cells})

    rows = declaration.rows
    for field in ("metric", "model", "dataset", "setting"):
        told = field in rows or field in declaration.column_groups or field == declaration.columns
        if not told and distinct(rows) < distinct((*rows, field)):
            rows = (*rows, field)
    return replace(declaration, rows=rows)


def _get_name(cell: Cell, field: str) -> str:
    if field == "published_text" and cell.published is not None:
        return ""
    return classify_cell(cell) if field == "verdict" else str(getattr(cell, field))


def _round_number(number: float | None) -> float | int | None:
    if number is None or isinstance(number, int):
        return number
    if number != number or number in (float("inf"), float("-inf")):
        return None
    short = float(f"{number:.{DIGITS}g}")
    return int(short) if short.is_integer() else short


def group_by_table(cells: Sequence[Cell]) -> Mapping[str, list[Cell]]:
    """Cells of each table, in the order in which tables begin."""
    tables: dict[str, list[Cell]] = {}
    for cell in cells:
        tables.setdefault(cell.table, []).append(cell)
    return tables
