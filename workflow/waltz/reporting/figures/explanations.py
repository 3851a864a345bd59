"""Figures of explained items: contributions to an encoder's score, and to a decoder's answer above its explanation.

Encoders: thesis 4.1, B.1 to B.10. Decoders: thesis 5.6, C.5, C.6, C.9, C.10, C.26, C.28, C.30, C.32; before and after a
counterfactual edit: thesis 5.3, 5.4, C.13 to C.22.
"""

import math
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from matplotlib.figure import Figure
from PIL import Image

from waltz.attribution.t_shap import CONTRIBUTION_RATIO, compute_contribution_ratios, find_contributing_outputs
from waltz.core.files.group_files import read_runs
from waltz.core.sampling import sample
from waltz.core.schema import ATTRIBUTION, CC_SHAP, EDITED
from waltz.core.text_diff import Span
from waltz.models.decoders.coalitions import Players, build_equations_players, build_published_players
from waltz.models.decoders.decoder import Decoder
from waltz.models.encoders.coalitions import PROFILES
from waltz.models.encoders.encoder import Encoder
from waltz.models.visible_image import render_decoder_view, render_encoder_view
from waltz.reporting.figures.figure_files import LoadImage, NamedFigure, select_items_of_profiles, use_style
from waltz.reporting.figures.heatmaps import (
    GAP,
    IMAGE,
    LINE,
    HeatmapPanel,
    NotebookFigure,
    add_panel,
    draw_heatmaps,
    draw_image,
    draw_legend,
    draw_original,
    draw_tokens,
    fit_title,
    lay_out_tokens,
    split_layers,
    write_text_at,
)

Row = Mapping[str, Any]


def select_example_items(rows: Sequence[Row], n: int, seed: int) -> list[str]:
    """Return the ids of the items to show: a seeded sample of those without an error, in that order."""
    failed = {row["item_id"] for row in rows if row["error"] is not None}
    ids = sorted({row["item_id"] for row in rows} - failed)
    return sample(ids, min(n, len(ids)), seed)


def draw_encoder_examples(
    tables: Mapping[str, pa.Table], encoder: Encoder, profiles: Sequence[str], n: int, seed: int, load_image: LoadImage
) -> Iterator[NamedFigure]:
    """Yield a figure of each of a few items of every data set.

    Args:
        tables: Rows of the layout ATTRIBUTION by data set.
        n: Largest number of items of a data set and profile.
    """
    for dataset, table in tables.items():
        rows = table.to_pylist()
        for profile in profiles:
            of_profile = [row for row in rows if row["profile"] == profile]
            for number, item_id in enumerate(select_example_items(of_profile, n, seed), 1):
                texts = [row for row in of_profile if row["item_id"] == item_id]
                title = f"{encoder.spec.name}, {dataset}, {profile}: {item_id}"
                figure = draw_encoder_example(encoder, texts, load_image(dataset, texts[0]["image"]), title)
                yield f"{dataset}-{profile}-{number}", title, figure


def draw_encoder_example(encoder: Encoder, rows: Sequence[Row], image: Image.Image, title: str) -> Figure:
    """Draw the texts of one item with its image and the contributions in its rows."""
    prepared = encoder.prepare_image(image)
    panels = []
    for row in rows:
        players = PROFILES[row["profile"]](encoder, encoder.tokenize(row["text"]), prepared, row["grid"] or None)
        panels.append(
            HeatmapPanel(
                heading=row["role"],
                text=row["text"],
                tokens=row["tokens"],
                spans=row["spans"],
                cells=players.cells.cpu().numpy(),
                phi=np.array(row["phi"], dtype=np.float64)[:, 0],
                score=row["score"],
                t_shap=math.nan if row["t_shap"] is None else row["t_shap"],
                t_shap_se=math.nan if row["t_shap_se"] is None else row["t_shap_se"],
            )
        )
    return draw_heatmaps(render_encoder_view(encoder, image), panels, title)


COLUMN = 5.6
"""Inches: width of a column of tokens."""
LETTER, TEXT_LINE, LAYER, TITLE = 0.072, 0.16, 0.24, 0.5
"""Inches: width of a letter of generated text, heights of its lines, of a layer's heading, of the title."""
HEADINGS = ("as they are, in %", "renormalised per modality, in %")
MAX_LINES = 5
"""Largest number of lines of a generated text."""
UNRECORDED_TEXT = "(not recorded)"
"""Stands for a text that a recorded run does not hold."""


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
        is_ratio: Whether `phi` holds contribution ratios in percent, as some recorded runs have them.
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
    is_ratio: bool = False


def draw_answer_and_explanation(sides: Sequence[ExplainedText], title: str, image: np.ndarray | None = None) -> Figure:
    """Draw an answer above its explanation, on the left as computed, on the right renormalised per modality.

    Values are contribution ratios, averaged over the tokens with contributions that are not negligible, in percent. On
    the left both sides share one scale of colours. On the right each modality of each side has its own, and numbers are
    percent of its sum of magnitudes.

    Args:
        title: Heading, such as the model's name with CC-SHAP.
        image: The image as the model sees it, before any masking: RGB in [0, 1], of shape (height, width, 3).
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
    with use_style():
        figure = NotebookFigure(figsize=(width, height))
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
    if not contributing.any():
        means = np.full(len(side.phi), math.nan)
    elif side.is_ratio:
        means = side.phi.mean(axis=1)
    else:
        means = 100 * compute_contribution_ratios(side.phi[:, contributing]).mean(axis=1)
    cells = np.zeros((0, 0), dtype=np.int64) if side.cells is None else side.cells
    return HeatmapPanel(side.name, side.prompt, side.tokens, side.spans, cells, means, math.nan, math.nan)


ImageWithPatches = tuple[np.ndarray, np.ndarray]
"""The image as a model sees it, RGB in [0, 1] of shape (height, width, 3), and the patch of each pixel."""
RenderImage = Callable[[str, Row], ImageWithPatches | None]
"""Returns the image as the model sees it, by data set and row of contributions; None without an image."""

POST_HOC, AFTER_EDIT = "post-hoc", "post-hoc-edited"
SIDES = ("answer", "explanation")
PLAYERS: Mapping[str, Callable[..., Players]] = {
    "equations": build_equations_players,
    "published": build_published_players,
}


@dataclass(frozen=True, eq=False)
class ExplanationTables:
    """Tables of the consistency stage for one decoder and data set.

    Attributes:
        contributions: Contributions, of the attribution layout.
        cc_shap: CC-SHAP values, of the layout `CC_SHAP`.
        edited: Edited items, of the layout `EDITED`; None in a study without edits.
        edited_contributions: Contributions to edited items, of the attribution layout.
    """

    contributions: pa.Table
    cc_shap: pa.Table
    edited: pa.Table | None = None
    edited_contributions: pa.Table | None = None


def read_explanation_tables(
    files: Mapping[str, Sequence[str]], model: str, datasets: Sequence[str]
) -> dict[str, ExplanationTables]:
    """Read the tables of one decoder by data set.

    Args:
        files: Files of the consistency stage by the names of the fields of `ExplanationTables`.
    """
    layouts = {
        "contributions": ATTRIBUTION,
        "cc_shap": CC_SHAP,
        "edited": EDITED,
        "edited_contributions": ATTRIBUTION,
    }
    runs = [(model, dataset) for dataset in datasets]
    tables = {name: read_runs(files[name], layout, runs) for name, layout in layouts.items() if files.get(name)}
    return {run[1]: ExplanationTables(**{name: by_run[run] for name, by_run in tables.items()}) for run in runs}


def draw_explanations(
    tables: Mapping[str, ExplanationTables],
    model: str,
    profiles: Sequence[str],
    n: int,
    seed: int,
    render_image: RenderImage,
) -> Iterator[NamedFigure]:
    """Yield a figure for each kind of explanation of a few items.

    Args:
        n: Largest number of items of a profile.
    """
    contributions = {dataset: entry.contributions for dataset, entry in tables.items()}
    for profile, number, dataset, item_id in select_items_of_profiles(contributions, profiles, n, seed):
        rows = _index_by_setting(tables[dataset].contributions, item_id, profile)
        shaps = _select_rows(tables[dataset].cc_shap, item_id, profile)
        for kind in dict.fromkeys(setting.partition(":")[0] for setting in rows):
            sides = [rows[f"{kind}:{side}"] for side in SIDES]
            (shap,) = (row for row in shaps if (row["kind"], row["seed"]) == (kind, sides[0]["seed"]))
            title = f"{model}, {dataset}, {profile}: {item_id}, {kind}, {_format_cc_shap(shap)}"
            yield (
                f"{dataset}-{profile}-{number}-{kind}",
                title,
                _draw_item(dataset, title, [("", sides, shap)], render_image),
            )


def draw_edits(
    tables: Mapping[str, ExplanationTables],
    model: str,
    profiles: Sequence[str],
    n: int,
    seed: int,
    render_image: RenderImage,
) -> Iterator[NamedFigure]:
    """Yield figures of a few items before and after an edit; the arguments are those of `draw_explanations`."""
    edited_contributions = {
        dataset: entry.edited_contributions
        for dataset, entry in tables.items()
        if entry.edited_contributions is not None
    }
    for profile, number, dataset, item_id in select_items_of_profiles(edited_contributions, profiles, n, seed):
        after = _index_by_setting(edited_contributions[dataset], item_id, profile)
        before = _index_by_setting(tables[dataset].contributions, item_id, profile)
        seed_of_item = after[f"{AFTER_EDIT}:answer"]["seed"]
        if f"{POST_HOC}:answer" not in before or (edited := tables[dataset].edited) is None:
            continue
        (shap,) = (
            row
            for row in _select_rows(tables[dataset].cc_shap, item_id, profile)
            if (row["kind"], row["seed"]) == (POST_HOC, seed_of_item)
        )
        (edit,) = (row for row in _select_rows(edited, item_id, profile) if row["seed"] == seed_of_item)
        generated_texts = {"answer": edit["edited_answer"], "explanation": edit["edited_explanation"]}
        parts = [
            ("", [before[f"{POST_HOC}:{side}"] for side in SIDES], shap),
            (f" with “{edit['inserted']}”", [after[f"{AFTER_EDIT}:{side}"] for side in SIDES], generated_texts),
        ]
        values = (shap["value"], edit["cc_shap"], edit["answer"], edit["explanation"])
        before_edit, after_edit, answer, explanation = map(_format_number, values)
        title = (
            f"{model}, {dataset}, {profile}: {item_id}, “{edit['inserted']}” inserted,"
            f" CC-SHAP {before_edit} → {after_edit}; moved: answer {answer}, explanation {explanation}"
        )
        yield f"{dataset}-{profile}-{number}-edit", title, _draw_item(dataset, title, parts, render_image)


def make_image_renderer(decoder: Decoder | None, load_image: LoadImage) -> RenderImage:
    """Return a function that renders images as a decoder sees them.

    Args:
        decoder: The decoder; None for a language model.
    """

    def render_image(dataset: str, row: Row) -> ImageWithPatches | None:
        if decoder is None or row["image"] is None or not row["grid"]:
            return None
        prepared = decoder.prepare_image(load_image(dataset, row["image"]))
        players = PLAYERS[row["profile"]](decoder, decoder.build_prompt(row["text"]), prepared, grid=row["grid"])
        return render_decoder_view(decoder, prepared, players)

    return render_image


def _draw_item(
    dataset: str, title: str, parts: Sequence[tuple[str, Sequence[Row], Row]], render_image: RenderImage
) -> Figure:
    """Draw answers and explanations; each part has a suffix of its names, rows, and generated texts."""
    sides, image = [], None
    for suffix, rows, generated_texts in parts:
        for name, row in zip(SIDES, rows, strict=True):
            view = render_image(dataset, row)
            image, cells = view or (image, None)
            sides.append(
                ExplainedText(
                    name=name + suffix,
                    generated_text=generated_texts[name] or UNRECORDED_TEXT,
                    prompt=row["text"],
                    tokens=row["tokens"],
                    spans=row["spans"],
                    phi=np.array(row["phi"], dtype=np.float64),
                    cells=cells,
                    t_shap=None if cells is None else row["t_shap"],
                    t_shap_se=None if cells is None else row["t_shap_se"],
                    is_ratio=row["explained"] == CONTRIBUTION_RATIO,
                )
            )
    return draw_answer_and_explanation(sides, title, image)


def _select_rows(table: pa.Table, item_id: str, profile: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.filter(
        (pc.field("item_id") == item_id) & (pc.field("profile") == profile)
    ).to_pylist()
    return rows


def _index_by_setting(table: pa.Table, item_id: str, profile: str) -> dict[str, dict[str, Any]]:
    return {row["setting"]: row for row in _select_rows(table, item_id, profile)}


def _format_cc_shap(row: Row) -> str:
    if row["value"] is None:
        return f"CC-SHAP not defined ({row['reason']})"
    error = "" if row["standard_error"] is None else f" ± {row['standard_error']:.3f}"
    return f"CC-SHAP {_format_number(row['value'])}{error}"


def _format_number(value: float | None) -> str:
    return "not defined" if value is None or math.isnan(value) else f"{value:.3f}".replace("-", "−")
