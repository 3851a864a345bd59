"""Tables as JSON for the report's script: the rows and columns of `grid`, each text once."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from waltz.reporting.tables.cells import Cell
from waltz.reporting.tables.declaration import Declaration
from waltz.reporting.tables.grid import Grid, lay_out_grid, name_column, name_row
from waltz.reporting.tables.metric_styles import get_decimals
from waltz.reporting.tables.verdict_counts import classify_cell

NAMES = ("profile", "metric", "model", "dataset", "setting", "verdict", "reason", "text", "published_text")
NUMBERS = ("value", "n", "ci_low", "ci_high", "published", "difference", "sd", "published_sd", "chance")
POSITION = ("row", "column", "mark")
BEST, AT_CHANCE = 1, 2
"""Sum to the mark of a cell: the best of several models, at or below chance."""
NO_POSITION = (-1, -1, 0)
"""Position of a cell that the grid does not show: a chance level that stands next to the metric's name."""
DIGITS = 7
"""Significant digits of a number on the page; the CSV has all."""


def make_table_json(declaration: Declaration, cells: Sequence[Cell]) -> dict[str, Any]:
    """Return one table, laid out as in its other formats.

    Args:
        declaration: The table; fields in which cells of one position differ are added to those that name rows.
        cells: Its cells of all profiles.
    Returns:
        `names` holds each text once; a row of `cells` has indices in it for `NAMES`, then `NUMBERS`, then its row and
        column in its profile's entry of `layouts` and its mark. `layouts` has the headings of each profile: `corner`
        (of the row names), `columns` and `rows`.
    """
    declaration = _add_missing_columns(declaration, cells)
    names: dict[str, int] = {}
    profiles = list(dict.fromkeys(cell.profile for cell in cells))
    layouts = {
        profile: lay_out_grid(declaration, [cell for cell in cells if cell.profile == profile]) for profile in profiles
    }
    positions = {cell: position for grid in layouts.values() for cell, position in _index_positions(grid).items()}
    packed = [
        [
            *(names.setdefault(_get_name(cell, field), len(names)) for field in NAMES),
            *(_round_number(getattr(cell, field)) for field in NUMBERS),
            *positions.get(cell, NO_POSITION),
        ]
        for cell in cells
    ]
    return {
        "id": declaration.id,
        "layouts": {
            profile: {"corner": grid.corner, "columns": grid.columns, "rows": [row for row, _ in grid.rows]}
            for profile, grid in layouts.items()
        },
        "places": {cell.metric: get_decimals(cell.metric) for cell in cells},
        "profiles": profiles,
        "names": list(names),
        "cells": packed,
    }


def list_field_names() -> list[str]:
    """Return the names of the fields in a row of `cells`."""
    return [*NAMES, *NUMBERS, *POSITION]


def _index_positions(grid: Grid) -> dict[Cell, tuple[int, int, int]]:
    """Return row, column and mark of each cell that the grid shows."""
    return {
        marked.cell: (row, column, BEST * marked.best + AT_CHANCE * marked.at_chance)
        for row, (_, entries) in enumerate(grid.rows)
        for column, marked in enumerate(entries)
        if marked is not None
    }


def _add_missing_columns(declaration: Declaration, cells: Sequence[Cell]) -> Declaration:
    """Return the declaration with rows named by all fields that are needed to distinguish its cells."""

    def count_positions(rows: tuple[str, ...]) -> int:
        extended = replace(declaration, rows=rows)
        return len({(cell.profile, name_row(extended, cell), name_column(extended, cell)) for cell in cells})

    rows = declaration.rows
    for field in ("metric", "model", "dataset", "setting"):
        is_shown = field in rows or field in declaration.column_groups or field == declaration.columns
        if not is_shown and count_positions(rows) < count_positions((*rows, field)):
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
    rounded = float(f"{number:.{DIGITS}g}")
    return int(rounded) if rounded.is_integer() else rounded


def group_by_table(cells: Sequence[Cell]) -> Mapping[str, list[Cell]]:
    """Group cells by table, in order of appearance."""
    tables: dict[str, list[Cell]] = {}
    for cell in cells:
        tables.setdefault(cell.table, []).append(cell)
    return tables
