"""One figure of an answer above its explanation: what each token of the prompt, and each patch, contributes to either.

Thesis 5.3 and 5.4, C.13 to C.22. Colours and hatching are those of `heatmap`.
"""

import math
import textwrap
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib import style
from matplotlib.figure import Figure

from waltz.attribution.contribution_ratios import compute_contribution_ratios, find_contributing_outputs
from waltz.core.text_diff import Span
from waltz.reporting.figures.frequencies import STYLE
from waltz.reporting.figures.heatmap import (
    GAP,
    IMAGE,
    LINE,
    HeatmapPanel,
    add_panel,
    draw_image,
    draw_legend,
    draw_original,
    draw_tokens,
    fit_title,
    split_layers,
    write_text_at,
)
from waltz.reporting.figures.token_lines import lay_out_tokens

COLUMN = 5.6
"""Inches: width of a column of tokens."""
LETTER, SAID, LAYER, TITLE = 0.072, 0.16, 0.24, 0.5
"""Inches: width of a letter of what is said, heights of its lines, of a layer's heading, of the figure's heading."""
HEADINGS = ("as they are, in %", "renormalised per modality, in %")
MAX_LINES = 5
"""Most lines of what is said."""


@dataclass(frozen=True, eq=False)
class ExplainedText:
    """An answer, or an explanation, and what the prompt contributes to it.

    Attributes:
        name: `answer` or `explanation`.
        said: What the model said.
        prompt: The prompt.
        tokens: The text players' tokens.
        spans: Characters of the prompt that each stands for; empty ones show the token itself.
        phi: Shapley values of text players, then of patches row by row: float64 of shape (players, outputs), an output
            a token of what was said.
        cells: Number of the patch that each pixel lies in, of shape (height, width); `patches` where none. None without
            an image.
        t_shap: Share of text, between 0 and 1; None without an image, or where it is undefined.
        t_shap_se: Its standard error.
    """

    name: str
    said: str
    prompt: str
    tokens: Sequence[str]
    spans: Sequence[Span]
    phi: np.ndarray
    cells: np.ndarray | None = None
    t_shap: float | None = None
    t_shap_se: float | None = None


def draw_answer_and_explanation(sides: Sequence[ExplainedText], title: str, image: np.ndarray | None = None) -> Figure:
    """Both sides under each other; on the left values as they are, on the right renormalised per modality.

    Values are ratios, averaged over the tokens to which more than next to nothing contributes, in percent. On the left
    both sides share one scale of colours. On the right each modality of each side has its own, and numbers are percent
    of its sum of magnitudes.

    Args:
        sides: The answer, then its explanation.
        title: Heading, such as the model's name with CC-SHAP.
        image: What the model sees, before any masking: RGB in [0, 1], of shape (height, width, 3).
    Returns:
        A figure that no window manager knows of; it can be saved with `figures.save`.
    """
    samples = [_make_panel(side) for side in sides]
    peak = max((float(np.nan_to_num(np.abs(sample.phi)).max(initial=0)) for sample in samples), default=0.0)
    width = 2 * COLUMN + 4 * GAP
    boxes = [lay_out_tokens(side.prompt, side.tokens, side.spans, COLUMN) for side in sides]
    words = [_format_caption(side, width) for side in sides]
    pictures = [IMAGE + GAP if side.cells is not None and image is not None else 0.0 for side in sides]
    heights = [
        len(lines) * SAID + LAYER + picture + (max((box.line + 1 for box in row), default=0)) * LINE + 2 * GAP
        for lines, picture, row in zip(words, pictures, boxes, strict=True)
    ]
    height = TITLE + sum(heights) + 0.35
    with style.context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure = Figure(figsize=(width, height))
        page = add_panel(figure, 0, 0, width, height)
        write_text_at(page, GAP, height - 0.16, title, fontsize=fit_title(title, width), va="top")
        top = height - TITLE
        for side, sample, row, lines, picture, high in zip(
            sides, samples, boxes, words, pictures, heights, strict=True
        ):
            for number, line in enumerate(lines):
                bold = "normal" if number else "bold"
                write_text_at(page, GAP, top - number * SAID, line, fontsize=9, fontweight=bold, va="top")
            below = top - len(lines) * SAID - LAYER
            for column, layer in enumerate(split_layers(sample, peak)):
                left = GAP + column * (COLUMN + 2 * GAP)
                write_text_at(page, left, below + 0.03, HEADINGS[column], va="bottom", color="0.25", fontsize=8)
                if picture and image is not None and side.cells is not None:
                    used = draw_image(figure, left, below, image, side.cells, layer)
                    if not column:
                        draw_original(figure, left + used + GAP, below, COLUMN - used - GAP, image)
                draw_tokens(page, left, below - picture, row, layer)
            top -= high
        draw_legend(page, GAP, 0.12)
    return figure


def _format_caption(side: ExplainedText, width: float) -> list[str]:
    """What stands above a side: its name with the share of text, then what was said, in lines."""
    lines = textwrap.wrap(" ".join(side.said.split()) or "(nothing)", int((width - 2 * GAP) / LETTER))
    if len(lines) > MAX_LINES:
        lines = [*lines[: MAX_LINES - 1], f"{lines[MAX_LINES - 1][:-1]}…"]
    share = ""
    if side.t_shap is not None:
        error = "" if side.t_shap_se is None else f" ± {100 * side.t_shap_se:.1f}"
        share = f", T-SHAP {100 * side.t_shap:.1f}{error} %"
    return [f"{side.name}{share}", *lines]


def _make_panel(side: ExplainedText) -> HeatmapPanel:
    """A side with its mean ratios in percent, NaN where nothing contributes."""
    kept = find_contributing_outputs(side.phi)
    means = (
        100 * compute_contribution_ratios(side.phi[:, kept]).mean(axis=1)
        if kept.any()
        else np.full(len(side.phi), math.nan)
    )
    cells = np.zeros((0, 0), dtype=np.int64) if side.cells is None else side.cells
    return HeatmapPanel(side.name, side.prompt, side.tokens, side.spans, cells, means, math.nan, math.nan)
