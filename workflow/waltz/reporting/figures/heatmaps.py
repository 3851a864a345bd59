"""Heatmaps of Shapley values: an image with its patches and a text with its tokens.

Thesis 4.1 and B.1 to B.10. Blue counts for a match, red against it; hatching and signs show the same without colours.
"""

import math
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Rectangle
from matplotlib.textpath import TextToPath

from waltz.core.text_diff import Span
from waltz.reporting.figures.figure_files import allow_missing_glyphs, list_fonts, use_style

FONT_SIZE = 8.5
"""Font size of tokens, in points."""
NARROWEST = 0.36
"""Inches: width of the box of a letter, which holds a value of six characters."""


@dataclass(frozen=True)
class TokenBox:
    """Position of a token in the lines of a text, in inches; `joined` to the previous piece."""

    token: int
    line: int
    left: float
    width: float
    label: str
    size: float
    joined: bool


def lay_out_tokens(text: str, tokens: Sequence[str], spans: Sequence[Span], width: float) -> list[TokenBox]:
    """Lay out tokens as boxes in lines; pieces of a word touch, and words break at the end of a line.

    A text that begins in a script written from right to left runs from the right.

    Args:
        tokens: Its tokens as the tokenizer spells them.
        width: Width of a line, in inches.
    Returns:
        Boxes in the order of the tokens. A label wider than a line is cut.
    """
    labels = _label_tokens(text, tokens, spans)
    boxes: list[TokenBox] = []
    line, right = 0, 0.0
    for token, (label, joined) in enumerate(labels):
        shortened, size = _fit_label(label, width)
        box_width = min(width, _measure_width(shortened, size) + 0.1)
        left = right if joined or not right else right + 0.06
        if right and left + box_width > width:
            line, left = line + 1, 0.0
        boxes.append(TokenBox(token, line, left, max(box_width, NARROWEST), shortened, size, joined))
        right = left + boxes[-1].width
    if not _is_right_to_left(text):
        return boxes
    return [
        TokenBox(box.token, box.line, width - box.left - box.width, box.width, box.label, box.size, box.joined)
        for box in boxes
    ]


def _label_tokens(text: str, tokens: Sequence[str], spans: Sequence[Span]) -> Iterator[tuple[str, bool]]:
    """Yield the label of each token, and whether it continues the previous word."""
    position, last = 0, ""
    for token, span in zip(tokens, spans, strict=True):
        start, end = span["start"], span["end"]
        if end <= start:
            yield token, False
            continue
        piece = text[max(start, position) : end]
        joined = bool(last) and start <= position and not last.isspace() and not piece[:1].isspace()
        yield piece.strip() or "·", joined  # tokens of one character share its span
        position, last = end, text[end - 1]


def _fit_label(label: str, width: float) -> tuple[str, float]:
    """Return a label and its font size, cut with an ellipsis where it is wider than a line."""
    size = FONT_SIZE if _measure_width(label, FONT_SIZE) + 0.1 <= width else FONT_SIZE - 2
    if _measure_width(label, size) + 0.1 <= width:
        return label, size
    n_letters = int(len(label) * (width - 0.3) / _measure_width(label, size))
    return f"{label[:n_letters]}…", size


def _measure_width(label: str, size: float) -> float:
    """Return the width of a label in inches."""
    font = FontProperties(family=list_fonts(), size=size)
    with allow_missing_glyphs():
        points, _, _ = TextToPath().get_text_width_height_descent(label, font, False)
    return float(points) / 72


def _is_right_to_left(text: str) -> bool:
    """Return whether a text begins in a script written from right to left."""
    directions = (unicodedata.bidirectional(letter) for letter in text)
    return next((kind for kind in directions if kind in ("L", "R", "AL")), "L") != "L"


WIDTH, IMAGE, LINE, GAP, TOP = 4.3, 2.7, 0.38, 0.12, 0.42
"""Inches: width of a column, height of an image, height of a line of tokens, space, height of the headings."""
DIGITS = 6.0
"""Font size of values, in points."""
TITLE_LETTER = 0.092
"""Inches: width of a letter of a title at 11 points, with a margin."""
SMALLEST_ORIGINAL = 0.6
"""Inches that the original needs at least next to an image."""
HATCH = "/////"
COLOUR_RANGE = 0.34
"""Distance of a value of 1 from the middle of the colour map, whose ends are too dark for black letters."""
INTERACTION_COLUMNS, MAX_INTERACTING = 4, 12
"""Images in a row, and most images, of a figure of interactions."""
NOTEBOOK_DPI = 80
"""Dots per inch of a figure in a notebook."""
MAX_LABELLED_SIDE = 8
"""Largest number of patches a side whose values are written into them."""


@dataclass(frozen=True, eq=False)
class Heatmap:
    """Attention relevance of one text with one image, without sign and unit.

    Attributes:
        tokens: Relevance of each text player, at least 0.
        patches: Relevance of each patch of the network itself, at least 0, of shape (rows, columns).
    """

    tokens: np.ndarray
    patches: np.ndarray


@dataclass(frozen=True, eq=False)
class HeatmapPanel:
    """One text with an image and its Shapley values.

    Attributes:
        heading: Role of the text, such as `caption`.
        text: The text.
        tokens: The text players' tokens.
        spans: Characters of the text that each token stands for; where empty, the token itself is shown.
        cells: Number of the patch that each pixel lies in, of shape (height, width); the number of patches where none.
        phi: Shapley values of text players and of patches, of shape (players,), in the unit of the score.
        score: The model's score.
        t_shap: Share of text, between 0 and 1, or NaN.
        t_shap_se: Its standard error, or NaN.
        relevance: Attention relevance to show below, if any.
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
    """One colouring of a panel: numbers in [-1, 1], or in [0, 1] without a sign, and their labels."""

    heading: str
    signed: bool
    tokens: np.ndarray
    patches: np.ndarray
    token_labels: Sequence[str]
    patch_labels: Sequence[str]


class NotebookFigure(Figure):
    """A figure that a notebook shows whatever its backend is, since pyplot does not know it."""

    def _repr_png_(self) -> bytes:
        buffer = BytesIO()
        with use_style():
            self.savefig(buffer, format="png", dpi=NOTEBOOK_DPI)
        return buffer.getvalue()


def draw_heatmaps(image: np.ndarray, panels: Sequence[HeatmapPanel], title: str = "") -> Figure:
    """Draw the texts of one image side by side: as computed, renormalised per modality, and attention relevance if any.

    The first row shares one scale of colours. In the second each modality has a scale of its own, and numbers are
    percent of its sum of magnitudes.

    Args:
        image: The image as the model sees it, before any masking: RGB in [0, 1], of shape (height, width, 3).
    """
    peak = max((float(np.nan_to_num(np.abs(panel.phi)).max(initial=0)) for panel in panels), default=0.0)
    columns = [split_layers(panel, peak) for panel in panels]
    rows = max(map(len, columns))
    boxes = [lay_out_tokens(panel.text, panel.tokens, panel.spans, WIDTH) for panel in panels]
    lines = max((box.line + 1 for column in boxes for box in column), default=1)
    band = TOP / 2 + IMAGE + GAP + lines * LINE + 2 * GAP
    width = len(panels) * (WIDTH + 2 * GAP)
    height = 2 * TOP + rows * band + 0.25
    with use_style():
        figure = NotebookFigure(figsize=(width, height))
        page = add_panel(figure, 0, 0, width, height)
        write_text_at(page, GAP, height - 0.16, title, fontsize=fit_title(title, width), va="top")
        for column, (panel, layers, row_boxes) in enumerate(zip(panels, columns, boxes, strict=True)):
            left = GAP + column * (WIDTH + 2 * GAP)
            write_text_at(
                page, left, height - TOP - 0.05, _format_heading(panel), fontsize=9.5, fontweight="bold", va="top"
            )
            for row, layer in enumerate(layers):
                top = height - 2 * TOP - row * band
                write_text_at(page, left, top, layer.heading, va="bottom", color="0.25", fontsize=8)
                image_width = draw_image(figure, left, top - 0.06, image, panel.cells, layer)
                if not (row or column):
                    draw_original(figure, left + image_width + GAP, top - 0.06, WIDTH - image_width - GAP, image)
                draw_tokens(page, left, top - 0.06 - IMAGE - GAP, row_boxes, layer)
        draw_legend(page, GAP, 0.12)
    return figure


def draw_interactions(
    image: np.ndarray, cells: np.ndarray, labels: Sequence[str], pairs: np.ndarray, title: str = ""
) -> Figure:
    """Draw the image once for each text player, its regions coloured by their interactions with that player.

    Args:
        image: The image as the model sees it: RGB in [0, 1], of shape (height, width, 3).
        cells: Number of the region that each pixel lies in, of shape (height, width); the number of regions where none.
        labels: Text players; the `MAX_INTERACTING` with the largest interactions are shown, in their order.
        pairs: Interactions, of shape (text players, regions).
    """
    strengths = np.abs(np.nan_to_num(pairs)).sum(axis=1)
    shown = sorted(np.argsort(-strengths, kind="stable")[:MAX_INTERACTING].tolist())
    peak = float(np.nan_to_num(np.abs(pairs)).max(initial=0))
    cell = IMAGE * image.shape[1] / image.shape[0] if image.shape[1] < image.shape[0] else IMAGE
    columns = max(1, min(INTERACTION_COLUMNS, len(shown)))
    rows = max(1, math.ceil(len(shown) / columns))
    width, height = columns * (cell + GAP) + GAP, TOP + rows * (IMAGE + TOP) + 0.25
    width = max(width, WIDTH)
    with use_style():
        figure = NotebookFigure(figsize=(width, height))
        page = add_panel(figure, 0, 0, width, height)
        values, factor = _format_values(pairs.ravel(), peak)
        heading = f"{title}, interactions{factor}" if title else f"interactions{factor}"
        write_text_at(page, GAP, height - 0.16, heading, fontsize=fit_title(heading, width), va="top")
        for place, player in enumerate(shown):
            row, column = divmod(place, columns)
            left, top = GAP + column * (cell + GAP), height - TOP - row * (IMAGE + TOP) - 0.3
            own_labels = values[player * pairs.shape[1] : (player + 1) * pairs.shape[1]]
            layer = Layer("", True, np.zeros(0), pairs[player] / (peak or 1), [], own_labels)
            write_text_at(page, left, top + 0.04, _fit_label(labels[player], cell)[0], va="bottom", fontsize=FONT_SIZE)
            draw_image(figure, left, top, image, cells, layer, cell)
        draw_legend(page, GAP, 0.12)
    return figure


def fit_title(title: str, width: float) -> float:
    """Return the font size at which a title fits a page of this width in inches, at most 11 points."""
    return min(11.0, 11.0 * (width - 2 * GAP) / max(1e-9, len(title) * TITLE_LETTER))


def split_layers(panel: HeatmapPanel, peak: float) -> list[Layer]:
    """Return the colourings of a panel: as computed, with full colour at `peak`, per modality, and relevance if any."""
    n_tokens = len(panel.tokens)
    text, image = panel.phi[:n_tokens], panel.phi[n_tokens:]
    plain, factor = _format_values(panel.phi, peak)
    layers = [
        Layer(f"as they are{factor}", True, text / (peak or 1), image / (peak or 1), plain[:n_tokens], plain[n_tokens:])
    ]
    shares = [100 * part / (np.abs(part).sum() or 1) for part in (text, image)]
    labels = [_format_percents(part) for part in shares]
    scaled = [part / (np.abs(part).max(initial=0) or 1) for part in (text, image)]
    layers.append(Layer("renormalised per modality, in %", True, scaled[0], scaled[1], labels[0], labels[1]))
    if panel.relevance is not None:
        tokens, patches = panel.relevance.tokens, panel.relevance.patches
        percent = [f"{100 * share:.0f}" for share in tokens / (tokens.sum() or 1)]
        scaled = [part / (part.max(initial=0) or 1) for part in (tokens, patches)]
        layers.append(Layer("attention relevance, in %", False, scaled[0], scaled[1], percent, []))
    return layers


def draw_original(figure: Figure, left: float, top: float, room: float, image: np.ndarray) -> None:
    """Draw the image itself if there is room for it; positions in inches."""
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
    """Draw the image in grey with each patch in its colour, at most `room` inches wide, and return its width."""
    high, wide = image.shape[:2]
    scale = min(IMAGE / high, room / wide)
    panel = add_panel(figure, left, top - high * scale, wide * scale, high * scale)
    panel.imshow(colour_image(image, cells, layer), extent=(0, wide, high, 0), aspect="auto")
    panel.set(xlim=(0, wide), ylim=(high, 0))
    if layer.patches.ndim == 1:
        for patch, label in enumerate(layer.patch_labels):
            _draw_patch(panel, cells == patch, label, len(layer.patches))
    return float(wide * scale)


def colour_image(image: np.ndarray, cells: np.ndarray, layer: Layer) -> np.ndarray:
    """Return the image in grey with each patch in its colour, RGB in [0, 1] of shape (height, width, 3)."""
    grey = (image @ np.array([0.299, 0.587, 0.114]))[..., np.newaxis]
    if layer.patches.ndim == 2:
        rows, columns = (
            np.arange(side) * parts // side for side, parts in zip(image.shape[:2], layer.patches.shape, strict=True)
        )
        strength = layer.patches[rows][:, columns]
    else:
        strength = np.append(layer.patches, 0.0)[cells]
    colours: np.ndarray = _blend_colours(layer, strength) * (0.5 + 0.5 * grey)
    return colours


def _draw_patch(panel: Axes, inside: np.ndarray, label: str, patches: int) -> None:
    rows, columns = (np.flatnonzero(inside.any(axis=axis)) for axis in (1, 0))
    if not rows.size:
        return
    top, left = int(rows[0]), int(columns[0])
    high, wide = int(rows[-1]) + 1 - top, int(columns[-1]) + 1 - left
    _draw_rectangle(panel, left, top, wide, high, _is_negative_label(label), fill=False, edgecolor="0.35")
    if patches <= MAX_LABELLED_SIDE**2:
        size = DIGITS + 1 if patches <= 25 else DIGITS - 0.5
        write_text_at(
            panel, left + wide / 2, top + high / 2, label, ha="center", va="center", fontsize=size,
            bbox={"boxstyle": "square,pad=0.12", "facecolor": "white", "alpha": 0.75, "linewidth": 0},
        )  # fmt: skip


def draw_tokens(page: Axes, left: float, top: float, boxes: Sequence[TokenBox], layer: Layer) -> None:
    """Draw tokens in their lines, each in its colour with its value below; positions in inches."""
    for box in boxes:
        label = layer.token_labels[box.token]
        corner = left + box.left, top - (box.line + 1) * LINE + 0.05
        face = _blend_colours(layer, layer.tokens[box.token])
        _draw_rectangle(
            page, *corner, box.width, LINE - 0.05, _is_negative_label(label), facecolor=face, edgecolor="0.6"
        )
        middle = corner[0] + box.width / 2
        box_style = (
            {"boxstyle": "square,pad=0.05", "facecolor": face, "linewidth": 0} if _is_negative_label(label) else None
        )
        write_text_at(
            page, middle, corner[1] + 0.215, box.label, ha="center", va="center", fontsize=box.size, bbox=box_style
        )
        write_text_at(page, middle, corner[1] + 0.075, label, ha="center", va="center", fontsize=DIGITS, bbox=box_style)


def draw_legend(page: Axes, left: float, bottom: float) -> None:
    """Draw the scale of colours, from against to for."""
    steps = np.linspace(-1, 1, 9)
    write_text_at(page, left, bottom + 0.08, "against", va="center", fontsize=8)
    for position, strength in enumerate(steps):
        face = map_to_colours(strength)
        _draw_rectangle(
            page, left + 0.5 + 0.2 * position, bottom, 0.2, 0.16, strength < 0, facecolor=face, edgecolor="0.6"
        )
    write_text_at(page, left + 0.58 + 0.2 * len(steps), bottom + 0.08, "for", va="center", fontsize=8)


def _draw_rectangle(
    panel: Axes, left: float, bottom: float, wide: float, high: float, hatched: bool, **options: object
) -> None:
    rectangle = Rectangle((left, bottom), wide, high, linewidth=0.5, **options)  # type: ignore[arg-type]
    panel.add_artist(rectangle)  # `add_patch` would update the limits, which are fixed
    if hatched:
        lines = Rectangle((left, bottom), wide, high, fill=False, linewidth=0, hatch=HATCH, edgecolor=(0, 0, 0, 0.45))
        lines.set_hatch_linewidth(0.35)
        panel.add_artist(lines)


def add_panel(figure: Figure, left: float, bottom: float, wide: float, high: float) -> Axes:
    """Add axes at a position in inches, with inches as data."""
    width, height = figure.get_size_inches()
    panel = figure.add_axes((left / width, bottom / height, wide / width, high / height))
    panel.set_axis_off()
    panel.set(xlim=(0, wide), ylim=(0, high))
    return panel


def write_text_at(panel: Axes, x: float, y: float, text: str, **options: object) -> None:
    """Write a text literally: a dollar sign does not start a formula."""
    panel.text(x, y, text, parse_math=False, **options)  # type: ignore[arg-type]


def _blend_colours(layer: Layer, strength: np.ndarray) -> np.ndarray:
    """Return the RGB colours of a layer's values."""
    values = np.nan_to_num(strength)
    colours = map_to_colours(values) if layer.signed else matplotlib.colormaps["Purples"](0.6 * values)
    return np.asarray(colours)[..., :3]


def map_to_colours(strength: np.ndarray) -> np.ndarray:
    """Return RGBA colours of numbers from -1 (against, red) to 1 (for, blue) that black letters can be read on."""
    return np.asarray(matplotlib.colormaps["RdBu"](0.5 + COLOUR_RANGE * strength))


def _format_heading(panel: HeatmapPanel) -> str:
    """Return the heading of a panel: role, score and T-SHAP."""
    share = "not defined" if math.isnan(panel.t_shap) else f"{100 * panel.t_shap:.1f}"
    error = "" if math.isnan(panel.t_shap_se) else f" ± {100 * panel.t_shap_se:.1f}"
    unit = "" if math.isnan(panel.t_shap) else " %"
    return f"{panel.heading}: score {f'{panel.score:.3g}'.replace('-', '−')}, T-SHAP {share}{error}{unit}"


def _format_values(phi: np.ndarray, peak: float) -> tuple[list[str], str]:
    """Return signed numbers with two digits of the largest, and a common power of ten where they are tiny or huge."""
    power = math.floor(math.log10(peak)) if peak > 0 and math.isfinite(peak) else 0
    exponent = power if power < -2 or power > 3 else 0
    decimals = max(0, 1 - (power - exponent))
    return [_format_signed(value / 10.0**exponent, decimals) for value in phi], f" (× 1e{exponent})" if exponent else ""


def _format_percents(shares: np.ndarray) -> list[str]:
    return [_format_signed(share, 0) for share in shares]


def _format_signed(value: float, decimals: int) -> str:
    """Return a rounded number with its sign; 0 without a sign."""
    if math.isnan(value):
        return "NaN"
    rounded = f"{value:+.{decimals}f}"
    return "0" if float(rounded) == 0 else rounded.replace("-", "−")


def _is_negative_label(label: str) -> bool:
    """Return whether a label shows a negative value."""
    return label.startswith("−")
