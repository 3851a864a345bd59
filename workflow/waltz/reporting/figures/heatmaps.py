"""Heatmaps of Shapley values: an image with its patches and a text with its tokens.

Such figures are in thesis 4.1 and B.1 to B.10. Blue values count for a match, red values against
it; hatching and signs show the same without colors.
"""

import math
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from matplotlib.textpath import TextToPath

from waltz.core.text_diff import Span
from waltz.reporting.figures.figure_files import use_style
from waltz.reporting.figures.fonts import (
    allow_missing_glyphs,
    choose_fonts,
    find_undrawable,
    warn_of_undrawable,
)

FONT_SIZE = 8.5
"""Font size of tokens, in points."""
NARROWEST = 0.36
"""Smallest width of the box of a token, in inches; it has room for a value of six characters."""


@dataclass(frozen=True)
class TokenBox:
    """Box of a token in the lines of a text.

    Attributes:
        token: Number of the token.
        line: Number of the line, from 0.
        left: Left end of the box in the line, in inches.
        width: Width of the box, in inches.
        label: Text in the box.
        size: Font size of the label, in points.
        joined: Whether the token continues the word of the previous token.
    """

    token: int
    line: int
    left: float
    width: float
    label: str
    size: float
    joined: bool


def lay_out_tokens(
    text: str, tokens: Sequence[str], spans: Sequence[Span], width: float
) -> list[TokenBox]:
    """Return the tokens of a text as boxes in lines.

    Boxes of tokens of the same word touch each other. A word may break at the end of a line. The
    lines of a text that begins in a script written from right to left begin at the right.

    Args:
        text: The text.
        tokens: Its tokens as the tokenizer spells them.
        spans: Characters of the text that each token covers.
        width: Width of a line, in inches.
    Returns:
        Boxes in the order of the tokens. A label that is wider than a line is cut.
    """
    boxes: list[TokenBox] = []
    line = 0
    right = 0.0  # end of the previous box; 0 at the begin of a line
    for token, (full_label, joined) in enumerate(_label_tokens(text, tokens, spans)):
        label, size = _fit_label(full_label, width)
        label_width = min(width, _measure_width(label, size) + 0.1)
        left = right
        if right > 0 and not joined:
            left += 0.06
        if right and left + label_width > width:
            line += 1
            left = 0.0
        box_width = max(label_width, NARROWEST)
        boxes.append(TokenBox(token, line, left, box_width, label, size, joined))
        right = left + box_width
    if _is_right_to_left(text):
        return [replace(box, left=width - box.left - box.width) for box in boxes]
    return boxes


def _label_tokens(
    text: str, tokens: Sequence[str], spans: Sequence[Span]
) -> Iterator[tuple[str, bool]]:
    """Yield the label of each token, and whether the token continues the word of the previous
    token.
    """
    position = 0  # end of the text that labels have shown
    last_start = 0
    last_letter = ""
    for token, span in zip(tokens, spans, strict=True):
        start, end = span["start"], span["end"]
        # A token without characters in the text, such as a special token, shows itself.
        if end <= start:
            yield token, False
            continue
        # Spans that the user chose come in any order; one further to the left shows all its text.
        if start < last_start:
            position, last_letter = start, ""
        # Characters that an earlier token has shown are not shown again.
        piece = text[max(start, position) : end]
        # Pieces of a word have no space between them, nor at the end of the one or the begin of the
        # other.
        is_adjacent = bool(last_letter) and start <= position
        has_space = last_letter.isspace() or piece[:1].isspace()
        # Tokens of one character share its span.
        yield (
            piece.strip() or "·",
            is_adjacent and not has_space,
        )
        last_start, position = start, end
        last_letter = text[end - 1]


def _fit_label(label: str, width: float) -> tuple[str, float]:
    """Return a label that fits a line of a width in inches, and its font size.

    A label that is too wide gets a smaller font; if it is still too wide, it is cut and ends with
    an ellipsis.
    """
    for size in (FONT_SIZE, FONT_SIZE - 2):
        if _measure_width(label, size) + 0.1 <= width:
            return label, size
    # Letters in proportion to the width, less 0.3 inches for the ellipsis and margins.
    n_letters = int(len(label) * (width - 0.3) / _measure_width(label, size))
    return f"{label[:n_letters]}…", size


def _measure_width(label: str, size: float) -> float:
    """Return the width of a label in inches."""
    font = FontProperties(family=choose_fonts(label), size=size)
    with allow_missing_glyphs():
        points, _, _ = TextToPath().get_text_width_height_descent(label, font, False)
    # A point is 1/72 of an inch.
    return float(points) / 72


def _is_right_to_left(text: str) -> bool:
    """Return whether a text begins in a script written from right to left."""
    for letter in text:
        direction = unicodedata.bidirectional(letter)
        if direction in ("L", "R", "AL"):
            return direction != "L"
    return False


WIDTH, IMAGE, LINE, GAP, TOP = 4.3, 2.7, 0.38, 0.12, 0.42
"""Width of a column, and heights of an image, a line of tokens, a space and the headings, in
inches.
"""
DIGITS = 6.0
"""Font size of values, in points."""
TITLE_LETTER = 0.092
"""Width of a letter of a title at 11 points, with a margin, in inches."""
SMALLEST_ORIGINAL = 0.6
"""Smallest width, in inches, at which the original image is drawn next to the colored one."""
HATCH = "/////"
COLOR_RANGE = 0.34
"""Distance of the color of 1 from the middle of the color map (0.5), whose ends are too dark for
black letters.
"""
INTERACTION_COLUMNS, MAX_INTERACTING = 4, 12
"""Largest number of images in a row, and in a whole figure of interactions."""
NOTEBOOK_DPI = 80
"""Resolution of a figure in a notebook, in dots per inch."""
FEW_PATCHES = 5**2
"""Largest number of patches of an image whose values are written in a larger font."""
MAX_LABELED_PATCHES = 8**2
"""Largest number of patches of an image whose values are written into the patches."""


@dataclass(frozen=True, eq=False)
class Heatmap:
    """Attention relevance of one text and one image, which has no sign and no unit.

    Attributes:
        tokens: Relevance of each text player, at least 0.
        patches: Relevance of each patch that the network divides images into, at least 0, of shape
            (rows, columns).
    """

    tokens: np.ndarray
    patches: np.ndarray


@dataclass(frozen=True, eq=False)
class HeatmapPanel:
    """Text with its image and their Shapley values.

    Attributes:
        heading: Role of the text, such as `caption`.
        text: The text.
        tokens: The text players' tokens.
        spans: Characters of the text that each token covers; for an empty span, the token itself is
            shown.
        cells: Number of the patch that each pixel lies in, of shape (height, width); a pixel of no
            patch has the number of patches.
        phi: Shapley values of text players and of patches, of shape (players,), in the unit of the
            score.
        score: The model's score of the text.
        t_shap: T-SHAP, between 0 and 1; NaN if it is undefined.
        t_shap_se: Standard error of T-SHAP; NaN if it is unknown.
        relevance: Attention relevance that is drawn below the Shapley values; None if it is not
            drawn.
    """

    heading: str
    text: str
    tokens: Sequence[str]
    spans: Sequence[Span]
    cells: np.ndarray
    phi: np.ndarray
    score: float
    t_shap: float
    t_shap_se: float = math.nan
    relevance: Heatmap | None = None


@dataclass(frozen=True, eq=False)
class Layer:
    """Coloring of a panel: a strength of color and a label for each token and patch.

    Attributes:
        heading: Heading above the coloring.
        signed: Whether strengths are in [-1, 1]; otherwise they are in [0, 1].
        tokens: Strength of each text player.
        patches: Strength of each image player, of shape (patches,); or of each patch of the
            network, of shape (rows, columns).
        token_labels: Label of each text player.
        patch_labels: Label of each image player; empty if patches have no labels.
    """

    heading: str
    signed: bool
    tokens: np.ndarray
    patches: np.ndarray
    token_labels: Sequence[str]
    patch_labels: Sequence[str]


class NotebookFigure(Figure):
    """Figure that a notebook shows with any backend, since it is not a figure of pyplot.

    Characters that no font has are named in one line, not in one warning each.
    """

    def savefig(self, fname: Any, **options: Any) -> None:
        """Write the figure to a file, as `Figure.savefig` does."""
        # An SVG holds its texts as such, and is shown with the fonts of its reader.
        form = options.get("format") or Path(str(fname)).suffix.removeprefix(".")
        if form != "svg":
            text = "".join(artist.get_text() for artist in self.findobj(Text))
            warn_of_undrawable(find_undrawable(text))
        with allow_missing_glyphs():
            super().savefig(fname, **options)

    def _repr_png_(self) -> bytes:
        buffer = BytesIO()
        with use_style():
            self.savefig(buffer, format="png", dpi=NOTEBOOK_DPI)
        return buffer.getvalue()


def draw_heatmaps(
    image: np.ndarray, panels: Sequence[HeatmapPanel], title: str = ""
) -> Figure:
    """Return the figure of the texts of one image, which stand next to each other.

    The first row shows the values as computed; all texts share one scale of colors. In the second
    row each modality has a separate scale, and numbers are percent of the modality's sum of
    magnitudes. A third row shows attention relevance if a panel has it.

    Args:
        image: The image as the model sees it, before any masking: RGB in [0, 1], of shape (height,
            width, 3).
        panels: The texts with their values.
        title: Title of the figure.
    """
    # All panels share one scale of colors, and the text with most lines decides the height of each
    # row.
    peak = find_peak(panels)
    layers_by_panel = [split_layers(panel, peak) for panel in panels]
    boxes_by_panel = [
        lay_out_tokens(panel.text, panel.tokens, panel.spans, WIDTH) for panel in panels
    ]
    rows = max(map(len, layers_by_panel))
    lines = max(map(count_lines, boxes_by_panel), default=0) or 1
    # A band holds a heading, the image and the lines of tokens of one layer.
    band = TOP / 2 + IMAGE + GAP + lines * LINE + 2 * GAP
    width = len(panels) * (WIDTH + 2 * GAP)
    height = 2 * TOP + rows * band + 0.25
    with use_style():
        figure = NotebookFigure(figsize=(width, height))
        page = add_panel(figure, 0, 0, width, height)
        write_text_at(
            page, GAP, height - 0.16, title, fontsize=fit_title(title, width), va="top"
        )
        for column, panel in enumerate(panels):
            left = GAP + column * (WIDTH + 2 * GAP)
            heading = _format_heading(panel)
            write_text_at(
                page,
                left,
                height - TOP - 0.05,
                heading,
                fontsize=9.5,
                fontweight="bold",
                va="top",
            )
            for row, layer in enumerate(layers_by_panel[column]):
                top = height - 2 * TOP - row * band
                write_text_at(
                    page,
                    left,
                    top,
                    layer.heading,
                    va="bottom",
                    color="0.25",
                    fontsize=8,
                )
                image_width = draw_image(
                    figure, left, top - 0.06, image, panel.cells, layer
                )
                is_first = row == 0 and column == 0
                if is_first:
                    draw_original(
                        figure,
                        left + image_width + GAP,
                        top - 0.06,
                        WIDTH - image_width - GAP,
                        image,
                    )
                draw_tokens(
                    page, left, top - 0.06 - IMAGE - GAP, boxes_by_panel[column], layer
                )
        draw_legend(page, GAP, 0.12)
    return figure


def find_peak(panels: Sequence[HeatmapPanel]) -> float:
    """Return the largest magnitude of the finite values in panels; 0 without any."""
    return max((_find_largest(panel.phi) for panel in panels), default=0.0)


def _find_largest(values: np.ndarray) -> float:
    """Return the largest magnitude of finite values; 0 without any."""
    finite = values[np.isfinite(values)]
    return float(np.abs(finite).max(initial=0))


def count_lines(boxes: Sequence[TokenBox]) -> int:
    """Return the number of lines that boxes of tokens need."""
    return max((box.line + 1 for box in boxes), default=0)


def draw_interactions(
    image: np.ndarray,
    cells: np.ndarray,
    labels: Sequence[str],
    pairs: np.ndarray,
    title: str = "",
) -> Figure:
    """Return a figure with the image once for each text player; regions have the colors of their
    interactions with it.

    Args:
        image: The image as the model sees it: RGB in [0, 1], of shape (height, width, 3).
        cells: Number of the region that each pixel lies in, of shape (height, width); a pixel of no
            region has the number of regions.
        labels: Label of each text player. The `MAX_INTERACTING` players with the largest
            interactions are shown, in the order of the players.
        pairs: Interactions, of shape (text players, regions).
        title: Title of the figure.
    """
    # pairs: (text players, regions); a player is as strong as the sum over its regions.
    magnitudes = np.nan_to_num(np.abs(pairs))
    peak = _find_largest(pairs)
    strongest = np.argsort(-magnitudes.sum(axis=1), kind="stable")[:MAX_INTERACTING]
    players = sorted(strongest.tolist())

    # An upright image is narrower than it is high.
    image_height, image_width = image.shape[:2]
    cell = IMAGE
    if image_width < image_height:
        cell = IMAGE * image_width / image_height
    columns = max(1, min(INTERACTION_COLUMNS, len(players)))
    rows = max(1, math.ceil(len(players) / columns))
    width = max(columns * (cell + GAP) + GAP, WIDTH)
    height = TOP + rows * (IMAGE + TOP) + 0.25
    with use_style():
        figure = NotebookFigure(figsize=(width, height))
        page = add_panel(figure, 0, 0, width, height)
        # Labels of all pairs, one text player after another; n_regions of them belong to each
        # player.
        values, factor = _format_values(pairs.ravel(), peak)
        heading = ", ".join(filter(None, (title, f"interactions{factor}")))
        write_text_at(
            page,
            GAP,
            height - 0.16,
            heading,
            fontsize=fit_title(heading, width),
            va="top",
        )
        n_regions = pairs.shape[1]
        for position, player in enumerate(players):
            row, column = divmod(position, columns)
            left = GAP + column * (cell + GAP)
            top = height - TOP - row * (IMAGE + TOP) - 0.3
            region_labels = values[player * n_regions : (player + 1) * n_regions]
            layer = Layer(
                "", True, np.zeros(0), pairs[player] / (peak or 1), [], region_labels
            )
            label, _ = _fit_label(labels[player], cell)
            write_text_at(
                page, left, top + 0.04, label, va="bottom", fontsize=FONT_SIZE
            )
            draw_image(figure, left, top, image, cells, layer, cell)
        draw_legend(page, GAP, 0.12)
    return figure


def fit_title(title: str, width: float) -> float:
    """Return the font size at which a title fits a page with a width in inches; at most 11 points."""
    return min(11.0, 11.0 * (width - 2 * GAP) / max(1e-9, len(title) * TITLE_LETTER))


def split_layers(panel: HeatmapPanel, peak: float) -> list[Layer]:
    """Return the colorings of a panel: by its values, by its values per modality, and by relevance
    if it has one.

    Args:
        panel: The panel.
        peak: Magnitude that gets the full color in the first coloring.
    """
    layers = [_color_as_computed(panel, peak), _color_per_modality(panel)]
    if panel.relevance is not None:
        layers.append(_color_relevance(panel.relevance))
    return layers


def _color_as_computed(panel: HeatmapPanel, peak: float) -> Layer:
    """Return the coloring by the values of a panel, on a scale that all panels share."""
    n_tokens = len(panel.tokens)
    labels, factor = _format_values(panel.phi, peak)
    # phi: text players first, then patches. Without any contribution, all strengths are 0.
    strengths = panel.phi / (peak or 1)
    return Layer(
        f"as they are{factor}",
        True,
        strengths[:n_tokens],
        strengths[n_tokens:],
        labels[:n_tokens],
        labels[n_tokens:],
    )


def _color_per_modality(panel: HeatmapPanel) -> Layer:
    """Return the coloring in which the largest magnitude of each modality has the full color.

    Labels are percent of the modality's sum of magnitudes.
    """
    n_tokens = len(panel.tokens)
    strengths = []
    labels = []
    # First the text players, then the patches.
    for phi in (panel.phi[:n_tokens], panel.phi[n_tokens:]):
        strengths.append(phi / (_find_largest(phi) or 1))
        # Where a value is not finite, so is the sum, and no share is defined.
        total = np.abs(phi).sum() or 1
        percents = np.full_like(phi, math.nan)
        if math.isfinite(total):
            percents = 100 * phi / total
        labels.append([_format_signed(percent, 0) for percent in percents])
    return Layer(
        "renormalized per modality, in %",
        True,
        strengths[0],
        strengths[1],
        labels[0],
        labels[1],
    )


def _color_relevance(relevance: Heatmap) -> Layer:
    """Return the coloring by attention relevance, which has no sign; its patches have no labels."""
    tokens, patches = relevance.tokens, relevance.patches
    shares = tokens / (tokens.sum() or 1)
    labels = [f"{100 * share:.0f}" for share in shares]
    token_strengths = tokens / (tokens.max(initial=0) or 1)
    patch_strengths = patches / (patches.max(initial=0) or 1)
    return Layer(
        "attention relevance, in %", False, token_strengths, patch_strengths, labels, []
    )


def draw_original(
    figure: Figure, left: float, top: float, room: float, image: np.ndarray
) -> None:
    """Draw the original image if there is room for it; positions are in inches."""
    high, wide = image.shape[:2]
    if room >= SMALLEST_ORIGINAL:
        scale = min(IMAGE / high, room / wide)
        panel = add_panel(figure, left, top - high * scale, wide * scale, high * scale)
        panel.imshow(image, extent=(0, wide, high, 0), aspect="auto")
        panel.set(xlim=(0, wide), ylim=(high, 0))


def draw_image(
    figure: Figure,
    left: float,
    top: float,
    image: np.ndarray,
    cells: np.ndarray,
    layer: Layer,
    room: float = WIDTH,
) -> float:
    """Draw the image in gray with each patch in its color, and return its width in inches.

    Args:
        figure: The figure.
        left: Left end of the image, in inches.
        top: Upper end of the image, in inches.
        image: The image: RGB in [0, 1], of shape (height, width, 3).
        cells: Number of the patch that each pixel lies in.
        layer: Coloring of the patches.
        room: Largest width of the image, in inches.
    """
    # The image keeps its proportions; its height and the room limit its size.
    high, wide = image.shape[:2]
    scale = min(IMAGE / high, room / wide)
    panel = add_panel(figure, left, top - high * scale, wide * scale, high * scale)
    panel.imshow(
        color_image(image, cells, layer), extent=(0, wide, high, 0), aspect="auto"
    )
    panel.set(xlim=(0, wide), ylim=(high, 0))
    # Only image players (one axis) have outlines and labels; patches of the network (two axes) have
    # none.
    if layer.patches.ndim == 1:
        for patch, label in enumerate(layer.patch_labels):
            _draw_patch(panel, cells == patch, label, len(layer.patches))
    return float(wide * scale)


def color_image(image: np.ndarray, cells: np.ndarray, layer: Layer) -> np.ndarray:
    """Return the image in gray with each patch in its color: RGB in [0, 1], of shape (height,
    width, 3).
    """
    # Luma of ITU-R BT.601; the last axis is kept to multiply RGB.
    gray = (image @ np.array([0.299, 0.587, 0.114]))[..., np.newaxis]
    if layer.patches.ndim == 2:
        # Patches of the network, of shape (rows, columns): each pixel takes the strength of the
        # patch that it lies in.
        height, width = image.shape[:2]
        n_rows, n_columns = layer.patches.shape
        row_of_pixel = np.arange(height) * n_rows // height
        column_of_pixel = np.arange(width) * n_columns // width
        strength = layer.patches[row_of_pixel][:, column_of_pixel]
    else:
        # Players: pixels of no patch have the number behind the last one, and the strength 0.
        strength = np.append(layer.patches, 0.0)[cells]
    colors: np.ndarray = _blend_colors(layer, strength) * (0.5 + 0.5 * gray)
    return colors


def _draw_patch(panel: Axes, inside: np.ndarray, label: str, n_patches: int) -> None:
    """Draw the outline of a patch with its value.

    Args:
        panel: Axes in pixels.
        inside: Whether each pixel lies in the patch, of shape (height, width).
        label: Label of the patch, its value.
        n_patches: Number of patches of the image. The more there are, the smaller is the label;
            with more than `MAX_LABELED_PATCHES`, patches have no labels.
    """
    # The patch is a rectangle: its first and last row and column are those with any pixel inside.
    rows = np.flatnonzero(inside.any(axis=1))
    columns = np.flatnonzero(inside.any(axis=0))
    if not rows.size:
        return
    top, left = int(rows[0]), int(columns[0])
    height, width = int(rows[-1]) + 1 - top, int(columns[-1]) + 1 - left
    _draw_rectangle(
        panel,
        left,
        top,
        width,
        height,
        _is_negative_label(label),
        fill=False,
        edgecolor="0.35",
    )
    font_size = DIGITS - 0.5
    if n_patches <= FEW_PATCHES:
        font_size = DIGITS + 1
    if n_patches <= MAX_LABELED_PATCHES:
        write_text_at(
            panel,
            left + width / 2,
            top + height / 2,
            label,
            ha="center",
            va="center",
            fontsize=font_size,
            bbox={
                "boxstyle": "square,pad=0.12",
                "facecolor": "white",
                "alpha": 0.75,
                "linewidth": 0,
            },
        )


def draw_tokens(
    page: Axes, left: float, top: float, boxes: Sequence[TokenBox], layer: Layer
) -> None:
    """Draw tokens in their lines, each in its color with its value below it; positions are in
    inches.
    """
    for box in boxes:
        label = layer.token_labels[box.token]
        is_hatched = _is_negative_label(label)
        box_left = left + box.left
        bottom = top - (box.line + 1) * LINE + 0.05
        face = _blend_colors(layer, layer.tokens[box.token])
        _draw_rectangle(
            page,
            box_left,
            bottom,
            box.width,
            LINE - 0.05,
            is_hatched,
            facecolor=face,
            edgecolor="0.6",
        )
        # Texts have a background where hatching would cross their letters.
        background = None
        if is_hatched:
            background = {
                "boxstyle": "square,pad=0.05",
                "facecolor": face,
                "linewidth": 0,
            }
        middle = box_left + box.width / 2
        centered = {"ha": "center", "va": "center", "bbox": background}
        write_text_at(
            page, middle, bottom + 0.215, box.label, fontsize=box.size, **centered
        )
        write_text_at(page, middle, bottom + 0.075, label, fontsize=DIGITS, **centered)


def draw_legend(page: Axes, left: float, bottom: float) -> None:
    """Draw the scale of colors, from `against` on the left to `for` on the right."""
    steps = np.linspace(-1, 1, 9)
    write_text_at(page, left, bottom + 0.08, "against", va="center", fontsize=8)
    for position, strength in enumerate(steps):
        face = map_to_colors(strength)
        _draw_rectangle(
            page,
            left + 0.5 + 0.2 * position,
            bottom,
            0.2,
            0.16,
            strength < 0,
            facecolor=face,
            edgecolor="0.6",
        )
    write_text_at(
        page,
        left + 0.58 + 0.2 * len(steps),
        bottom + 0.08,
        "for",
        va="center",
        fontsize=8,
    )


def _draw_rectangle(
    panel: Axes,
    left: float,
    bottom: float,
    wide: float,
    high: float,
    hatched: bool,
    **options: object,
) -> None:
    rectangle = Rectangle((left, bottom), wide, high, linewidth=0.5, **options)  # type: ignore[arg-type]
    panel.add_artist(rectangle)  # `add_patch` would update the limits, which are fixed
    if hatched:
        lines = Rectangle(
            (left, bottom),
            wide,
            high,
            fill=False,
            linewidth=0,
            hatch=HATCH,
            edgecolor=(0, 0, 0, 0.45),
        )
        lines.set_hatch_linewidth(0.35)
        panel.add_artist(lines)


def add_panel(
    figure: Figure, left: float, bottom: float, wide: float, high: float
) -> Axes:
    """Return new axes of a figure at a position in inches; their coordinates are inches as well."""
    width, height = figure.get_size_inches()
    panel = figure.add_axes(
        (left / width, bottom / height, wide / width, high / height)
    )
    panel.set_axis_off()
    panel.set(xlim=(0, wide), ylim=(0, high))
    return panel


def write_text_at(
    panel: Axes, x: float, y: float, text: str, **options: object
) -> None:
    """Write a text as it is: a dollar sign does not start a formula."""
    panel.text(
        x,
        y,
        text,
        parse_math=False,
        fontfamily=choose_fonts(text),
        **options,  # type: ignore[arg-type]
    )


def _blend_colors(layer: Layer, strength: np.ndarray) -> np.ndarray:
    """Return the RGB colors of strengths in a layer; the result has a further last axis of 3."""
    if layer.signed:
        return map_to_colors(strength)[..., :3]
    values = np.nan_to_num(strength)
    return np.asarray(matplotlib.colormaps["Purples"](0.6 * values))[..., :3]


def map_to_colors(strength: np.ndarray) -> np.ndarray:
    """Return the RGBA colors of numbers from -1 (against, red) to 1 (for, blue); black letters are
    legible on them.
    """
    # Undefined values have no color.
    values = np.nan_to_num(strength, posinf=0, neginf=0)
    return np.asarray(matplotlib.colormaps["RdBu"](0.5 + COLOR_RANGE * values))


def _format_heading(panel: HeatmapPanel) -> str:
    """Return the heading of a panel: its role, score and T-SHAP."""
    score = f"{panel.score:.3g}".replace("-", "−")
    return f"{panel.heading}: score {score}, T-SHAP {_format_share(panel)}"


def _format_share(panel: HeatmapPanel) -> str:
    """Return T-SHAP of a panel with its standard error, in percent."""
    error = ""
    if not math.isnan(panel.t_shap_se):
        error = f" ± {100 * panel.t_shap_se:.1f}"
    if math.isnan(panel.t_shap):
        return f"not defined{error}"
    return f"{100 * panel.t_shap:.1f}{error} %"


def _format_values(phi: np.ndarray, peak: float) -> tuple[list[str], str]:
    """Return labels of numbers, with their signs, and a text with their common power of ten.

    The largest number has two digits. The text is empty unless the numbers are tiny or huge.

    Args:
        phi: The numbers.
        peak: Largest magnitude of the numbers, and of other numbers with the same scale.
    """
    # The largest magnitude is 10**power times a number from 1 to 10.
    power = 0
    if peak > 0 and math.isfinite(peak):
        power = math.floor(math.log10(peak))
    exponent, factor = 0, ""
    is_readable = -2 <= power <= 3
    if not is_readable:
        exponent, factor = power, f" (× 1e{power})"
    decimals = max(0, 1 - (power - exponent))
    # phi is divided by the common power of ten, which the heading names.
    labels = [_format_signed(value / 10.0**exponent, decimals) for value in phi]
    return labels, factor


def _format_signed(value: float, decimals: int) -> str:
    """Return a rounded number with its sign; 0 has no sign."""
    if math.isnan(value):
        return "NaN"
    rounded = f"{value:+.{decimals}f}"
    if float(rounded) == 0:
        return "0"
    return rounded.replace("-", "−")


def _is_negative_label(label: str) -> bool:
    """Return whether a label shows a negative number."""
    return label.startswith("−")
