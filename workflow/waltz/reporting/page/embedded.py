"""Contents embedded in the page: tables as JSON, images as data URIs, JSON that cannot end its script."""

import base64
import hashlib
import io
import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from PIL import Image

from waltz.core.files.open_image import open_image
from waltz.reporting.page.plain_tables import is_small
from waltz.reporting.tables.best import SignificanceTests
from waltz.reporting.tables.cells import Cell, classify_cell
from waltz.reporting.tables.declaration import Declaration, get_style
from waltz.reporting.tables.grid import UNPAIRED, Grid, lay_out_profiles, name_column, name_row

NAMES = ("profile", "metric", "model", "dataset", "setting", "verdict", "reason", "text", "paper_text")
NUMBERS = ("value", "n", "ci_low", "ci_high", "paper_value", "difference", "sd", "paper_sd", "chance")
POSITION = ("row", "column", "mark")
BEST, AT_CHANCE, SMALL = 1, 2, 4
"""Sum to the mark of a cell: the best of several models as a test shows, at or below chance, from too few items."""
NO_POSITION = (-1, -1, 0)
"""Position of a cell that the grid does not show: a chance level that stands next to the metric's name."""
DIGITS = 7
"""Significant digits of a number on the page; the CSV has all."""


def make_table_json(
    declaration: Declaration, cells: Sequence[Cell], significance: SignificanceTests = UNPAIRED
) -> dict[str, Any]:
    """Return one table, laid out as in its other formats.

    Args:
        declaration: The table; fields in which cells of one position differ are added to those that name rows.
        cells: Its cells of all profiles.
        significance: What tests can show, which decides what is bold.
    Returns:
        `names` holds each text once; a row of `cells` has indices in it for `NAMES`, then `NUMBERS`, then its row and
        column in its profile's entry of `layouts` and its mark. `layouts` has the headings of each profile: `corner`
        (of the row names), `columns` and `rows`.
    """
    declaration = _add_missing_columns(declaration, cells)
    names: dict[str, int] = {}
    layouts = lay_out_profiles(declaration, cells, significance)
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
        "places": {cell.metric: get_style(cell.metric).places for cell in cells},
        "profiles": list(layouts),
        "names": list(names),
        "cells": packed,
    }


def list_field_names() -> list[str]:
    """Return the names of the fields in a row of `cells`."""
    return [*NAMES, *NUMBERS, *POSITION]


def _index_positions(grid: Grid) -> dict[Cell, tuple[int, int, int]]:
    """Return row, column and mark of each cell that the grid shows."""
    return {
        marked.cell: (row, column, BEST * marked.best + AT_CHANCE * marked.at_chance + SMALL * _is_small(marked.cell))
        for row, (_, entries) in enumerate(grid.rows)
        for column, marked in enumerate(entries)
        if marked is not None
    }


def _is_small(cell: Cell) -> bool:
    """Return whether a cell has a number from too few items; counts are no measurements."""
    scale = 100.0 if cell.unit == "percent" else math.inf
    return cell.value is not None and cell.unit != "count" and is_small(cell.n, cell.ci_low, cell.ci_high, scale)


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
    if field == "paper_text" and cell.paper_value is not None:
        return ""
    return classify_cell(cell) if field == "verdict" else str(getattr(cell, field))


def _round_number(number: float | None) -> float | int | None:
    if number is None or isinstance(number, int):
        return number
    if number != number or number in (float("inf"), float("-inf")):
        return None
    rounded = float(f"{number:.{DIGITS}g}")
    return int(rounded) if rounded.is_integer() else rounded


SVG_BYTES = 40_000
"""Largest SVG that is embedded as it is; a larger one is embedded as a raster image."""
MAX_SIDE, MIN_SIDE = 1400, 640
"""Pixels of a figure's longer side, at most and at least."""
PICTURES_BYTES = 1_500_000
"""Bytes of all figures."""
MARGIN = 0.9
"""Share of the bytes that an image is sized for, since bytes grow a little faster than pixels."""
FIGURE_QUALITY, MIN_QUALITY, EXAMPLE_QUALITY = 60, 35, 65


def escape_json(data: Any) -> str:
    """Format data as JSON for a `<script type="application/json">`: nothing in it begins a tag or a comment.

    Raises:
        ValueError: A number is not finite.
    """
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def hash_script(script: str) -> str:
    """Return the hash by which a content security policy names an inline script."""
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"


def inline_figures(files: Sequence[str | Path]) -> list[str]:
    """Return figures as data URIs: small SVGs as they are, others as WebP; the more of these, the smaller.

    Args:
        files: SVGs or raster images. A large SVG is replaced by the PNG next to it if there is one.
    """
    sources = [_select_format(Path(file)) for file in files]
    drawings = [file for file in sources if file.suffix == ".svg"]
    room = (PICTURES_BYTES - sum(file.stat().st_size for file in drawings)) // max(1, len(sources) - len(drawings))
    return [
        _make_uri("image/svg+xml", file.read_bytes()) if file.suffix == ".svg" else _fit_figure(file, room)
        for file in sources
    ]


def read_figure_size(file: str | Path) -> tuple[int, int] | None:
    """Return width and height of a figure, in pixels or points; None for an SVG without them."""
    file = Path(file)
    if file.suffix != ".svg":
        with open_image(file) as image:
            return image.size
    root = re.search(r"<svg\b[^>]*>", file.read_text(encoding="utf-8"))
    width, height = (re.search(rf'\s{side}="([\d.]+)', root[0]) if root else None for side in ("width", "height"))
    return (round(float(width[1])), round(float(height[1]))) if width and height else None


def _select_format(file: Path) -> Path:
    """Return the PNG next to a large SVG if there is one, else the file."""
    if file.suffix == ".svg" and file.stat().st_size > SVG_BYTES and file.with_suffix(".png").is_file():
        return file.with_suffix(".png")
    return file


def _fit_figure(file: Path, room: int) -> str:
    """Return an image as large as the given number of bytes allows."""
    with open_image(file) as image:
        image.load()
        content = _encode_webp(image, MIN_SIDE, FIGURE_QUALITY)
        side = min(MAX_SIDE, int(MIN_SIDE * math.sqrt(MARGIN * room / len(content))))
        if side > MIN_SIDE and max(image.size) > MIN_SIDE:
            larger = _encode_webp(image, side, FIGURE_QUALITY)
            content = larger if len(larger) <= room else content
        if len(content) > room:
            content = _encode_webp(image, MIN_SIDE, MIN_QUALITY)
    return _make_uri("image/webp", content)


def inline_image(image: Image.Image, side: int) -> str:
    """Return an image as a WebP of at most `side` pixels a side, in its own proportions."""
    return _make_uri("image/webp", _encode_webp(image, side, EXAMPLE_QUALITY))


def _encode_webp(image: Image.Image, side: int, quality: int) -> bytes:
    scale = min(1.0, side / max(image.size))
    size = (max(1, math.floor(image.width * scale)), max(1, math.floor(image.height * scale)))
    small = image.convert("RGB").resize(size, Image.Resampling.LANCZOS, reducing_gap=3.0)
    content = io.BytesIO()
    small.save(content, "WEBP", quality=quality, method=2)
    return content.getvalue()


def _make_uri(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"
