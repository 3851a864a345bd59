"""Contents that are embedded in the page: tables as JSON, images as data URIs, JSON that cannot end
its script.
"""

import base64
import hashlib
import io
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict

from PIL import Image

from waltz.core.files.open_image import open_image
from waltz.reporting.tables.best import SignificanceTests
from waltz.reporting.tables.cells import Cell, classify_cell, is_small
from waltz.reporting.tables.declaration import Declaration
from waltz.reporting.tables.declarations import get_style
from waltz.reporting.tables.grid import (
    UNPAIRED,
    Grid,
    Names,
    lay_out_profiles,
    name_column,
    name_row,
)

NAMES = (
    "profile",
    "metric",
    "model",
    "dataset",
    "setting",
    "verdict",
    "reason",
    "text",
    "paper_text",
)
NUMBERS = (
    "value",
    "n",
    "ci_low",
    "ci_high",
    "paper_value",
    "difference",
    "sd",
    "paper_sd",
    "chance",
    "tolerance",
)
POSITION = ("row", "column", "mark")
BEST, AT_CHANCE, SMALL = 1, 2, 4
"""Bits of the mark of a cell: it is the best of several models, at or below chance, from too few
items or images.
"""
NO_POSITION = (-1, -1, 0)
"""Row, column and mark of a cell that the grid does not show: a chance level next to the metric's
name.
"""
DIGITS = 7
"""Number of significant digits of a number on the page; the CSV has all digits."""


class TableLayout(TypedDict):
    """Headings of a table in one profile: `corner` stands above the names of rows."""

    corner: Names
    columns: Sequence[Names]
    rows: Sequence[Names]


class TableJson(TypedDict):
    """One table for the page's script.

    `layouts` has a layout for each profile, `decimals` the number of decimals of each metric. `names`
    holds each text once. Each row of `cells` has an index in `names` for each field of `NAMES`, then the
    numbers `NUMBERS`, then its row and column in the layout of its profile, and its mark.
    """

    id: str
    layouts: Mapping[str, TableLayout]
    decimals: Mapping[str, int]
    profiles: Sequence[str]
    names: Sequence[str]
    cells: Sequence[Sequence[float | None]]


def make_table_json(
    declaration: Declaration,
    cells: Sequence[Cell],
    significance: SignificanceTests = UNPAIRED,
) -> TableJson:
    """Return one table as data for the page's script, with the same layout as in the other formats.

    Args:
        declaration: The table; if several cells have the same position, the fields in which they
            differ are added to the fields that name rows.
        cells: Its cells of all profiles.
        significance: Significance tests, which decide what is bold.
    """
    declaration = _add_missing_columns(declaration, cells)
    layouts: dict[str, TableLayout] = {}
    positions: dict[Cell, tuple[int, int, int]] = {}
    for profile, grid in lay_out_profiles(declaration, cells, significance).items():
        positions |= _index_positions(grid)
        rows = [row for row, _ in grid.rows]
        layouts[profile] = TableLayout(
            corner=grid.corner, columns=grid.columns, rows=rows
        )
    # One row of the JSON for each cell: indices of its texts, its numbers, and its position.
    names: dict[str, int] = {}
    packed = []
    for cell in cells:
        texts = [_get_name(cell, field) for field in NAMES]
        indices = [names.setdefault(text, len(names)) for text in texts]
        numbers = [_round_number(getattr(cell, field)) for field in NUMBERS]
        packed.append([*indices, *numbers, *positions.get(cell, NO_POSITION)])
    return TableJson(
        id=declaration.id,
        layouts=layouts,
        decimals={cell.metric: get_style(cell.metric).decimals for cell in cells},
        profiles=list(layouts),
        names=list(names),
        cells=packed,
    )


def list_field_names() -> list[str]:
    """Return the names of the entries in a row of `cells`, in their order."""
    return [*NAMES, *NUMBERS, *POSITION]


def _index_positions(grid: Grid) -> dict[Cell, tuple[int, int, int]]:
    """Return row, column and mark of each cell that the grid shows."""
    positions = {}
    for row, (_, entries) in enumerate(grid.rows):
        for column, marked in enumerate(entries):
            if marked is not None:
                mark = BEST * marked.best + AT_CHANCE * marked.at_chance
                mark += SMALL * _is_small(marked.cell)
                positions[marked.cell] = (row, column, mark)
    return positions


def _is_small(cell: Cell) -> bool:
    """Return whether a cell has a number from too few items or images; counts never are, since
    nothing is measured.
    """
    return (
        cell.value is not None
        and cell.unit != "count"
        and is_small(cell.n, cell.images)
    )


def _add_missing_columns(
    declaration: Declaration, cells: Sequence[Cell]
) -> Declaration:
    """Return the declaration with as many fields in its row names as are needed to distinguish all
    cells.
    """

    def count_positions(rows: tuple[str, ...]) -> int:
        extended = replace(declaration, rows=rows)
        positions = set()
        for cell in cells:
            names = name_row(extended, cell), name_column(extended, cell)
            positions.add((cell.profile, names))
        return len(positions)

    # A field joins the row names only if it separates cells that would share a position.
    shown = {*declaration.rows, *declaration.column_groups, declaration.columns}
    rows = declaration.rows
    for field in ("metric", "model", "dataset", "setting"):
        longer = (*rows, field)
        if field not in shown and count_positions(rows) < count_positions(longer):
            rows = longer
    return replace(declaration, rows=rows)


def _get_name(cell: Cell, field: str) -> str:
    if field == "paper_text" and cell.paper_value is not None:
        return ""
    if field == "verdict":
        return classify_cell(cell)
    return str(getattr(cell, field))


def _round_number(number: float | None) -> float | int | None:
    """Return a number with few digits, a whole number as an integer; None for nan and infinity,
    which JSON lacks.
    """
    if number is None or isinstance(number, int):
        return number
    if not math.isfinite(number):
        return None
    rounded = float(f"{number:.{DIGITS}g}")
    return int(rounded) if rounded.is_integer() else rounded


SVG_BYTES = 40_000
"""Largest number of bytes of an SVG that is embedded as it is; a larger SVG is embedded as a raster
image.
"""
MAX_SIDE, MIN_SIDE = 1400, 640
"""Largest and smallest number of pixels of the longer side of a figure."""
PICTURES_BYTES = 1_500_000
"""Number of bytes that all figures together may have."""
MARGIN = 0.9
"""Share of an image's bytes that its size is computed for, since bytes grow a little faster than
pixels.
"""
FIGURE_QUALITY, MIN_QUALITY, EXAMPLE_QUALITY = 60, 35, 65


def escape_json(data: Any) -> str:
    """Return data as JSON for a `<script type="application/json">`: nothing in it begins a tag or a
    comment.

    Raises:
        ValueError: A number is not finite.
    """
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # Escaped as \uXXXX, so that no `</script>` or `<!--` in a text ends the script; JSON.parse
    # restores them.
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def hash_script(script: str) -> str:
    """Return the hash by which a content security policy names an inline script."""
    return (
        f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"
    )


def inline_figures(files: Sequence[str | Path]) -> list[str]:
    """Return figures as data URIs: small SVGs as they are, other figures as WebP.

    All figures together fit into `PICTURES_BYTES`, so the more WebPs there are, the smaller is each
    of them.

    Args:
        files: SVGs or raster images. A large SVG is replaced by the PNG next to it if there is one.
    """
    sources = [_select_format(Path(file)) for file in files]
    # SVGs are embedded as they are; raster images share the bytes that are left.
    svg_sizes = [file.stat().st_size for file in sources if file.suffix == ".svg"]
    n_images = len(sources) - len(svg_sizes)
    bytes_per_image = (PICTURES_BYTES - sum(svg_sizes)) // max(1, n_images)
    uris = []
    for file in sources:
        if file.suffix == ".svg":
            uris.append(_make_uri("image/svg+xml", file.read_bytes()))
        else:
            uris.append(_fit_figure(file, bytes_per_image))
    return uris


def read_figure_size(file: str | Path) -> tuple[int, int] | None:
    """Return width and height of a figure, in pixels (raster image) or points (SVG); None for an
    SVG without them.
    """
    file = Path(file)
    if file.suffix != ".svg":
        with open_image(file) as image:
            return image.size
    # The first tag of the file holds width and height, which matplotlib writes in points.
    root = re.search(r"<svg\b[^>]*>", file.read_text(encoding="utf-8"))
    if root is None:
        return None
    width = re.search(r'\swidth="([\d.]+)', root[0])
    height = re.search(r'\sheight="([\d.]+)', root[0])
    if width is None or height is None:
        return None
    return round(float(width[1])), round(float(height[1]))


def _select_format(file: Path) -> Path:
    """Return the PNG next to a large SVG if there is one, else the file."""
    raster = file.with_suffix(".png")
    is_large_svg = file.suffix == ".svg" and file.stat().st_size > SVG_BYTES
    if is_large_svg and raster.is_file():
        return raster
    return file


def _fit_figure(file: Path, max_bytes: int) -> str:
    """Return an image as a data URI of a WebP, as large as a number of bytes allows."""
    with open_image(file) as image:
        image.load()
        # A first encoding of the smallest size tells how many bytes this image needs.
        content = _encode_webp(image, MIN_SIDE, FIGURE_QUALITY)
        # Bytes grow with the number of pixels, the square of the side.
        growth = math.sqrt(MARGIN * max_bytes / len(content))
        max_side = min(MAX_SIDE, int(MIN_SIDE * growth))
        if max_side > MIN_SIDE and max(image.size) > MIN_SIDE:
            larger = _encode_webp(image, max_side, FIGURE_QUALITY)
            if len(larger) <= max_bytes:
                content = larger
        # Below the smallest size, only the quality is reduced.
        if len(content) > max_bytes:
            content = _encode_webp(image, MIN_SIDE, MIN_QUALITY)
    return _make_uri("image/webp", content)


def inline_image(image: Image.Image, max_side: int) -> str:
    """Return an image as a data URI of a WebP whose longer side has at most `max_side` pixels."""
    return _make_uri("image/webp", _encode_webp(image, max_side, EXAMPLE_QUALITY))


def _encode_webp(image: Image.Image, max_side: int, quality: int) -> bytes:
    # Images are never enlarged.
    scale = min(1.0, max_side / max(image.size))
    width = max(1, math.floor(image.width * scale))
    height = max(1, math.floor(image.height * scale))
    small = image.convert("RGB").resize(
        (width, height), Image.Resampling.LANCZOS, reducing_gap=3.0
    )
    content = io.BytesIO()
    small.save(content, "WEBP", quality=quality, method=2)
    return content.getvalue()


def _make_uri(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"
