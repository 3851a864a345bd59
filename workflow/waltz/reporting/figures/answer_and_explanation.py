"""Figure of an answer above its explanation, with the contributions of the prompt's tokens and of patches to both.

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
LETTER, TEXT_LINE, LAYER, TITLE = 0.072, 0.16, 0.24, 0.5
"""Inches: width of a letter of generated text, heights of its lines, of a layer's heading, of the title."""
HEADINGS = ("as they are, in %", "renormalised per modality, in %")
MAX_LINES = 5
"""Largest number of lines of a generated text."""


@dataclass(frozen=True, eq=False)
class ExplainedText:
    """An answer or an explanation, and the contributions of the prompt to it.

    Attributes:
        name: `answer` or `explanation`.
        generated_text: The text that the model generated.
        prompt: The prompt.
        tokens: The text players' tokens.
        spans: Characters of the prompt that each token stands for; where empty, the token itself is shown.
        phi: Shapley values of text players, then of patches row by row: float64 of shape (players, outputs), an output
            a generated token.
        cells: Number of the patch that each pixel lies in, of shape (height, width); the number of patches where
            none. None without an image.
        t_shap: Share of text, between 0 and 1; None without an image, or where it is undefined.
        t_shap_se: Its standard error.
    """

    name: str
    generated_text: str
    prompt: str
    tokens: Sequence[str]
    spans: Sequence[Span]
    phi: np.ndarray
    cells: np.ndarray | None = None
    t_shap: float | None = None
    t_shap_se: float | None = None


def draw_answer_and_explanation(sides: Sequence[ExplainedText], title: str, image: np.ndarray | None = None) -> Figure:
    """Draw an answer above its explanation, on the left as computed, on the right renormalised per modality.

    Values are contribution ratios, averaged over the tokens with contributions that are not negligible, in percent. On
    the left both sides share one scale of colours. On the right each modality of each side has its own, and numbers are
    percent of its sum of magnitudes.

    Args:
        sides: The answer, then its explanation.
        title: Heading, such as the model's name with CC-SHAP.
        image: The image as the model sees it, before any masking: RGB in [0, 1], of shape (height, width, 3).
    Returns:
        A figure without a window; save it with `save_figure`.
    """
    panels = [_make_panel(side) for side in sides]
    peak = max((float(np.nan_to_num(np.abs(panel.phi)).max(initial=0)) for panel in panels), default=0.0)
    width = 2 * COLUMN + 4 * GAP
    boxes = [lay_out_tokens(side.prompt, side.tokens, side.spans, COLUMN) for side in sides]
    captions = [_format_caption(side, width) for side in sides]
    image_heights = [IMAGE + GAP if side.cells is not None and image is not None else 0.0 for side in sides]
    heights = [
        len(lines) * TEXT_LINE + LAYER + image_height + (max((box.line + 1 for box in row), default=0)) * LINE + 2 * GAP
        for lines, image_height, row in zip(captions, image_heights, boxes, strict=True)
    ]
    height = TITLE + sum(heights) + 0.35
    with style.context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure = Figure(figsize=(width, height))
        page = add_panel(figure, 0, 0, width, height)
        write_text_at(page, GAP, height - 0.16, title, fontsize=fit_title(title, width), va="top")
        top = height - TITLE
        for side, panel, row, lines, image_height, side_height in zip(
            sides, panels, boxes, captions, image_heights, heights, strict=True
        ):
            for number, line in enumerate(lines):
                weight = "normal" if number else "bold"
                write_text_at(page, GAP, top - number * TEXT_LINE, line, fontsize=9, fontweight=weight, va="top")
            below = top - len(lines) * TEXT_LINE - LAYER
            for column, layer in enumerate(split_layers(panel, peak)):
                left = GAP + column * (COLUMN + 2 * GAP)
                write_text_at(page, left, below + 0.03, HEADINGS[column], va="bottom", color="0.25", fontsize=8)
                if image_height and image is not None and side.cells is not None:
                    image_width = draw_image(figure, left, below, image, side.cells, layer)
                    if not column:
                        draw_original(figure, left + image_width + GAP, below, COLUMN - image_width - GAP, image)
                draw_tokens(page, left, below - image_height, row, layer)
            top -= side_height
        draw_legend(page, GAP, 0.12)
    return figure


def _format_caption(side: ExplainedText, width: float) -> list[str]:
    """Return the lines above a side: its name with the share of text, then the generated text."""
    lines = textwrap.wrap(" ".join(side.generated_text.split()) or "(nothing)", int((width - 2 * GAP) / LETTER))
    if len(lines) > MAX_LINES:
        lines = [*lines[: MAX_LINES - 1], f"{lines[MAX_LINES - 1][:-1]}…"]
    share = ""
    if side.t_shap is not None:
        error = "" if side.t_shap_se is None else f" ± {100 * side.t_shap_se:.1f}"
        share = f", T-SHAP {100 * side.t_shap:.1f}{error} %"
    return [f"{side.name}{share}", *lines]


def _make_panel(side: ExplainedText) -> HeatmapPanel:
    """Return the panel of a side: its mean contribution ratios in percent, NaN where nothing contributes."""
    contributing = find_contributing_outputs(side.phi)
    means = (
        100 * compute_contribution_ratios(side.phi[:, contributing]).mean(axis=1)
        if contributing.any()
        else np.full(len(side.phi), math.nan)
    )
    cells = np.zeros((0, 0), dtype=np.int64) if side.cells is None else side.cells
    return HeatmapPanel(side.name, side.prompt, side.tokens, side.spans, cells, means, math.nan, math.nan)
