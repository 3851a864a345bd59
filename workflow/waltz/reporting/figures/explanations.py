"""Figures of explained items: contributions to an encoder's score, and to a decoder's answer above
its explanation.

Encoders: thesis 4.1, B.1 to B.10. Decoders: thesis 5.6, C.5, C.6, C.9, C.10, C.26, C.28, C.30,
C.32; before and after a counterfactual edit: thesis 5.3, 5.4, C.13 to C.22.
"""

import itertools
import math
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from waltz.attribution.t_shap import (
    CONTRIBUTION_RATIO,
    compute_contribution_ratios,
    find_contributing_outputs,
)
from waltz.core.files.group_files import read_runs
from waltz.core.sampling import sample
from waltz.core.schema import (
    ATTRIBUTION,
    CC_SHAP,
    EDITED,
    AttributionRecord,
    CcShapRecord,
    EditedRecord,
)
from waltz.core.text_diff import Span
from waltz.models.decoders.coalitions import (
    DecoderPlayers,
    build_equations_players,
    build_published_players,
)
from waltz.models.decoders.decoder import Decoder
from waltz.models.encoders.coalitions import PROFILES
from waltz.models.encoders.encoder import Encoder
from waltz.models.visible_image import render_decoder_view, render_encoder_view
from waltz.reporting.figures.figure_files import (
    ExampleItem,
    LoadImage,
    NamedFigure,
    list_drawable_items,
    sample_items,
    use_style,
)
from waltz.reporting.figures.heatmaps import (
    GAP,
    IMAGE,
    LINE,
    HeatmapPanel,
    NotebookFigure,
    TokenBox,
    add_panel,
    count_lines,
    draw_heatmaps,
    draw_image,
    draw_legend,
    draw_original,
    draw_tokens,
    find_peak,
    fit_title,
    lay_out_tokens,
    split_layers,
    write_text_at,
)


def draw_encoder_examples(
    tables: Mapping[str, pa.Table],
    encoder: Encoder,
    profiles: Sequence[str],
    n: int,
    seed: int,
    load_image: LoadImage,
) -> Iterator[NamedFigure]:
    """Yield figures of a few items of each data set, one for each item.

    Args:
        tables: Rows of the layout ATTRIBUTION by data set.
        encoder: The encoder, which renders the images as it sees them.
        profiles: Fidelity profiles.
        n: Largest number of items of a data set and profile.
        seed: Seed of the sample of items.
        load_image: Function that returns an image by the names of its data set and the image.
    """
    for (dataset, table), profile in itertools.product(tables.items(), profiles):
        item_ids = list_drawable_items(table, profile)
        shown_ids = sample(item_ids, min(n, len(item_ids)), seed)
        for number, item_id in enumerate(shown_ids, 1):
            item = ExampleItem(dataset, profile, number, item_id)
            # All texts of an item are drawn in one figure: caption and foil.
            texts = item.select_records(table, AttributionRecord)
            assert texts[0].image is not None  # an encoder reads an image
            image = load_image(dataset, texts[0].image)
            title = f"{encoder.spec.name}, {item.title}"
            figure = draw_encoder_example(encoder, texts, image, title)
            yield item.file_name, title, figure


def draw_encoder_example(
    encoder: Encoder,
    attributions: Sequence[AttributionRecord],
    image: Image.Image,
    title: str,
) -> Figure:
    """Return the figure of one item: its texts with its image and their contributions.

    Args:
        encoder: The encoder.
        attributions: Attribution of each text of the item.
        image: Image of the item.
        title: Title of the figure.
    """
    prepared = encoder.prepare_image(image)
    panels = []
    for attribution in attributions:
        # The players are built again: records have their values, but not the patch of each pixel.
        build_players = PROFILES[attribution.profile]
        players = build_players(
            encoder,
            encoder.tokenize(attribution.text),
            prepared,
            attribution.grid or None,
        )
        # phi: (players, outputs); an encoder has one output, its score.
        phi = np.array(attribution.phi, dtype=np.float64)[:, 0]
        panel = HeatmapPanel(
            heading=attribution.role,
            text=attribution.text,
            tokens=attribution.tokens or (),
            spans=_list_spans(attribution),
            cells=players.cells.cpu().numpy(),
            phi=phi,
            score=_replace_none(attribution.score),
            t_shap=_replace_none(attribution.t_shap),
            t_shap_se=_replace_none(attribution.t_shap_se),
        )
        panels.append(panel)
    return draw_heatmaps(render_encoder_view(encoder, image), panels, title)


def _list_spans(attribution: AttributionRecord) -> list[Span]:
    """Return the characters of the text that each token of an attribution covers."""
    stored_spans = attribution.spans or ()
    return [Span(start=span.start, end=span.end) for span in stored_spans]


def _replace_none(value: float | None) -> float:
    """Return a number; NaN if it is undefined."""
    if value is None:
        return math.nan
    return value


COLUMN = 5.6
"""Width of a column of tokens, in inches."""
LETTER, TEXT_LINE, LAYER, TITLE = 0.072, 0.16, 0.24, 0.5
"""Width of a letter of generated text, and heights of its lines, of a layer's heading and of the
title, in inches.
"""
HEADINGS = ("as they are, in %", "renormalized per modality, in %")
MAX_LINES = 5
"""Largest number of lines of a generated text."""
UNRECORDED_TEXT = "(not recorded)"
"""Text in the place of a generated text that a recorded run lacks."""


@dataclass(frozen=True, eq=False)
class ExplainedText:
    """Generated answer or explanation, with the contributions of its prompt.

    Attributes:
        name: `answer` or `explanation`.
        generated_text: The text that the model generated.
        prompt: The prompt.
        tokens: The text players' tokens.
        spans: Characters of the prompt that each token covers; for an empty span, the token itself
            is shown.
        phi: Shapley values of text players, then of patches row by row: float64 of shape (players,
            outputs); each output is a generated token.
        cells: Number of the patch that each pixel lies in, of shape (height, width); a pixel of no
            patch has the number of patches. None without an image.
        t_shap: T-SHAP, between 0 and 1; None without an image, or if it is undefined.
        t_shap_se: Standard error of T-SHAP.
        is_ratio: Whether `phi` holds contribution ratios in percent, as some recorded runs have
            them.
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


def draw_answer_and_explanation(
    texts: Sequence[ExplainedText], title: str, image: np.ndarray | None = None
) -> Figure:
    """Return the figure of an answer above its explanation.

    The left column shows the values as computed, the right column the values renormalized per
    modality. Values are contribution ratios in percent, averaged over the generated tokens whose
    contributions are not negligible. On the left both texts share one scale of colors. On the right
    each modality of each text has a separate scale, and numbers are percent of the modality's sum
    of magnitudes.

    Args:
        texts: The answer and the explanation; perhaps several of both.
        title: Heading, such as the model's name with CC-SHAP.
        image: The image as the model sees it, before any masking: RGB in [0, 1], of shape (height,
            width, 3).
    """
    width = 2 * COLUMN + 4 * GAP
    # Bands are laid out first, since their heights decide the height of the page.
    bands = [_lay_out_band(text, width, image) for text in texts]
    peak = find_peak([band.panel for band in bands])
    height = TITLE + sum(band.height for band in bands) + 0.35
    with use_style():
        figure = NotebookFigure(figsize=(width, height))
        page = add_panel(figure, 0, 0, width, height)
        write_text_at(
            page, GAP, height - 0.16, title, fontsize=fit_title(title, width), va="top"
        )
        top = height - TITLE
        for band in bands:
            _draw_band(figure, page, top, band, peak)
            top -= band.height
        draw_legend(page, GAP, 0.12)
    return figure


@dataclass(frozen=True, eq=False)
class _Band:
    """Layout of one answer or explanation on the page; sizes are in inches.

    Attributes:
        panel: The prompt with its values.
        caption: Lines of text above the prompt.
        boxes: Boxes of the prompt's tokens.
        image: The image as the model sees it; None if it is not drawn.
    """

    panel: HeatmapPanel
    caption: Sequence[str]
    boxes: Sequence[TokenBox]
    image: np.ndarray | None

    @property
    def image_height(self) -> float:
        """Height of the image and the space below it; 0 without an image."""
        if self.image is None:
            return 0.0
        return IMAGE + GAP

    @property
    def height(self) -> float:
        """Height of the whole band: caption, heading of the layers, image, tokens and space."""
        caption_height = len(self.caption) * TEXT_LINE
        return (
            caption_height
            + LAYER
            + self.image_height
            + count_lines(self.boxes) * LINE
            + 2 * GAP
        )


def _lay_out_band(text: ExplainedText, width: float, image: np.ndarray | None) -> _Band:
    """Return the layout of an answer or explanation on a page with a width in inches."""
    if text.cells is None:
        image = None
    return _Band(
        panel=_make_panel(text),
        caption=_format_caption(text, width),
        boxes=lay_out_tokens(text.prompt, text.tokens, text.spans, COLUMN),
        image=image,
    )


def _draw_band(
    figure: Figure, page: Axes, top: float, band: _Band, peak: float
) -> None:
    """Draw one answer or explanation: first its caption, then each layer in a column.

    Args:
        figure: The figure.
        page: Axes of the whole page, in inches.
        top: Upper end of the band, in inches.
        band: Layout of the answer or explanation.
        peak: Magnitude that gets the full color in the first layer.
    """
    # The first line names the text, the other lines are the text itself.
    weights = itertools.chain(["bold"], itertools.repeat("normal"))
    for number, (line, weight) in enumerate(zip(band.caption, weights, strict=False)):
        write_text_at(
            page,
            GAP,
            top - number * TEXT_LINE,
            line,
            fontsize=9,
            fontweight=weight,
            va="top",
        )
    below = top - len(band.caption) * TEXT_LINE - LAYER
    for column, layer in enumerate(split_layers(band.panel, peak)):
        left = GAP + column * (COLUMN + 2 * GAP)
        write_text_at(
            page,
            left,
            below + 0.03,
            HEADINGS[column],
            va="bottom",
            color="0.25",
            fontsize=8,
        )
        if band.image is not None:
            image_width = draw_image(
                figure, left, below, band.image, band.panel.cells, layer
            )
            # The original image stands only once, in the room that is left next to the first layer.
            if column == 0:
                draw_original(
                    figure,
                    left + image_width + GAP,
                    below,
                    COLUMN - image_width - GAP,
                    band.image,
                )
        draw_tokens(page, left, below - band.image_height, band.boxes, layer)


def _format_caption(text: ExplainedText, width: float) -> list[str]:
    """Return the lines above a prompt: the name of the generated text with T-SHAP, then the
    generated text itself.
    """
    generated_text = " ".join(text.generated_text.split()) or "(nothing)"
    letters = int((width - 2 * GAP) / LETTER)
    lines = textwrap.wrap(generated_text, letters)
    if len(lines) > MAX_LINES:
        # A text that is too long ends with an ellipsis in its last line.
        lines = [*lines[: MAX_LINES - 1], f"{lines[MAX_LINES - 1][:-1]}…"]
    heading = text.name
    if text.t_shap is not None:
        heading += f", T-SHAP {100 * text.t_shap:.1f}"
        if text.t_shap_se is not None:
            heading += f" ± {100 * text.t_shap_se:.1f}"
        heading += " %"
    return [heading, *lines]


def _make_panel(text: ExplainedText) -> HeatmapPanel:
    """Return the panel of a text with its mean contribution ratios in percent; NaN if no player
    contributes.
    """
    # phi: (players, outputs); the mean is over outputs, the tokens of the generated text.
    contributing = find_contributing_outputs(text.phi)
    if not contributing.any():
        means = np.full(len(text.phi), math.nan)
    # Ratios in percent are averaged over all outputs as they are.
    elif text.is_ratio:
        means = text.phi.mean(axis=1)
    else:
        means = 100 * compute_contribution_ratios(text.phi[:, contributing]).mean(
            axis=1
        )
    cells = np.zeros((0, 0), dtype=np.int64)
    if text.cells is not None:
        cells = text.cells
    return HeatmapPanel(
        text.name,
        text.prompt,
        text.tokens,
        text.spans,
        cells,
        means,
        math.nan,
        math.nan,
    )


ImageWithPatches = tuple[np.ndarray, np.ndarray]
"""Image as a model sees it, RGB in [0, 1] of shape (height, width, 3), and number of the patch of
each pixel.
"""
RenderImage = Callable[[str, AttributionRecord], ImageWithPatches | None]
"""Function that returns the image as the model sees it, by data set and attribution; None without an
image.
"""

POST_HOC, AFTER_EDIT = "post-hoc", "post-hoc-edited"
PLAYERS: Mapping[str, Callable[..., DecoderPlayers]] = {
    "equations": build_equations_players,
    "published": build_published_players,
}


@dataclass(frozen=True, eq=False)
class ExplanationTables:
    """Tables of the consistency stage for one decoder and data set.

    Attributes:
        contributions: Contributions to answers and explanations, of the attribution layout.
        cc_shap: CC-SHAP values, of the layout `CC_SHAP`.
        edited: Edited items, of the layout `EDITED`; None in a study without edits.
        edited_contributions: Contributions to answers and explanations of edited items, of the
            attribution layout.
    """

    contributions: pa.Table
    cc_shap: pa.Table
    edited: pa.Table | None = None
    edited_contributions: pa.Table | None = None


def read_explanation_tables(
    files: Mapping[str, Sequence[str]], model: str, datasets: Sequence[str]
) -> dict[str, ExplanationTables]:
    """Return the tables of one decoder, by data set.

    Args:
        files: Files of the consistency stage, by field of `ExplanationTables`.
        model: Name of the decoder.
        datasets: Names of the data sets.
    """
    layouts = {
        "contributions": ATTRIBUTION,
        "cc_shap": CC_SHAP,
        "edited": EDITED,
        "edited_contributions": ATTRIBUTION,
    }
    runs = [(model, dataset) for dataset in datasets]
    fields_by_dataset: dict[str, dict[str, pa.Table]] = {name: {} for name in datasets}
    for field, layout in layouts.items():
        # A study without edits has no files of edits.
        if not files.get(field):
            continue
        for (_, dataset), table in read_runs(files[field], layout, runs).items():
            fields_by_dataset[dataset][field] = table
    return {
        dataset: ExplanationTables(**fields)
        for dataset, fields in fields_by_dataset.items()
    }


def draw_explanations(
    tables: Mapping[str, ExplanationTables],
    model: str,
    profiles: Sequence[str],
    n: int,
    seed: int,
    render_image: RenderImage,
) -> Iterator[NamedFigure]:
    """Yield figures of a few items, one for each kind of explanation.

    Args:
        tables: Tables of the decoder by data set.
        model: Name of the decoder.
        profiles: Fidelity profiles.
        n: Largest number of items of a profile.
        seed: Seed of the sample of items.
        render_image: Function that returns the image as the decoder sees it.
    """
    contributions = {dataset: entry.contributions for dataset, entry in tables.items()}
    for item in sample_items(contributions, profiles, n, seed):
        attributions = _read_attributions(contributions[item.dataset], item)
        # Settings are named KIND:TEXT, such as `post-hoc:answer`.
        kinds = dict.fromkeys(setting.partition(":")[0] for setting in attributions)
        for kind in kinds:
            estimator_seed = attributions[f"{kind}:answer"].seed
            cc_shap = _find_cc_shap(
                tables[item.dataset].cc_shap, item, kind, estimator_seed
            )
            texts = _pair_texts(attributions, kind, cc_shap.answer, cc_shap.explanation)
            title = f"{model}, {item.title}, {kind}, {_format_cc_shap(cc_shap)}"
            figure = _draw_texts(item.dataset, title, texts, render_image)
            yield f"{item.file_name}-{kind}", title, figure


def draw_edited_explanations(
    tables: Mapping[str, ExplanationTables],
    model: str,
    profiles: Sequence[str],
    n: int,
    seed: int,
    render_image: RenderImage,
) -> Iterator[NamedFigure]:
    """Yield figures of a few items before and after a counterfactual edit; arguments are as in
    `draw_explanations`.
    """
    edited_contributions = {}
    for dataset, entry in tables.items():
        if entry.edited_contributions is not None:
            edited_contributions[dataset] = entry.edited_contributions
    for item in sample_items(edited_contributions, profiles, n, seed):
        item_tables = tables[item.dataset]
        after = _read_attributions(edited_contributions[item.dataset], item)
        before = _read_attributions(item_tables.contributions, item)
        # An edit without a recorded answer before it cannot be compared.
        if f"{POST_HOC}:answer" not in before or item_tables.edited is None:
            continue
        estimator_seed = after[f"{AFTER_EDIT}:answer"].seed
        cc_shap = _find_cc_shap(item_tables.cc_shap, item, POST_HOC, estimator_seed)
        edits = item.select_records(item_tables.edited, EditedRecord)
        (edit,) = (record for record in edits if record.seed == cc_shap.seed)
        # The record of CC-SHAP has the texts before the edit, the record of the edit those after it.
        insertion = f"“{edit.inserted}”"
        texts = [
            *_pair_texts(before, POST_HOC, cc_shap.answer, cc_shap.explanation),
            *_pair_texts(
                after,
                AFTER_EDIT,
                edit.edited_answer,
                edit.edited_explanation,
                suffix=f" with {insertion}",
            ),
        ]
        title = (
            f"{model}, {item.title}, {insertion} inserted,"
            f" CC-SHAP {_format_measure(cc_shap.value)} → {_format_measure(edit.cc_shap)};"
            f" moved: answer {_format_measure(edit.answer)}, explanation {_format_measure(edit.explanation)}"
        )
        figure = _draw_texts(item.dataset, title, texts, render_image)
        yield f"{item.file_name}-edit", title, figure


def make_image_renderer(decoder: Decoder | None, load_image: LoadImage) -> RenderImage:
    """Return a function that renders images as a decoder sees them.

    Args:
        decoder: The decoder; None for a language model.
        load_image: Function that returns an image by the names of its data set and the image.
    """

    def render_image(
        dataset: str, attribution: AttributionRecord
    ) -> ImageWithPatches | None:
        if decoder is None or attribution.image is None:
            return None
        # Without a grid there are no patches, so there is nothing to color.
        if not attribution.grid:
            return None
        prepared = decoder.prepare_image(load_image(dataset, attribution.image))
        build_players = PLAYERS[attribution.profile]
        prompt = decoder.build_prompt(attribution.text)
        players = build_players(decoder, prompt, prepared, grid=attribution.grid)
        return render_decoder_view(decoder, prepared, players)

    return render_image


@dataclass(frozen=True, slots=True)
class _GeneratedText:
    """Answer or explanation that a decoder generated.

    Attributes:
        name: `answer` or `explanation`, perhaps with the edit of the item.
        text: The generated text; None if it was not recorded.
        attribution: Attribution of the text to the players of its prompt.
    """

    name: str
    text: str | None
    attribution: AttributionRecord


def _pair_texts(
    attributions: Mapping[str, AttributionRecord],
    kind: str,
    answer: str | None,
    explanation: str | None,
    suffix: str = "",
) -> list[_GeneratedText]:
    """Return an answer and its explanation with their attributions.

    Args:
        attributions: Attributions of one item by setting.
        kind: Kind of explanation, the first part of the settings.
        answer: The generated answer.
        explanation: The generated explanation.
        suffix: Suffix of the names of both texts.
    """
    return [
        _GeneratedText(f"answer{suffix}", answer, attributions[f"{kind}:answer"]),
        _GeneratedText(
            f"explanation{suffix}", explanation, attributions[f"{kind}:explanation"]
        ),
    ]


def _draw_texts(
    dataset: str,
    title: str,
    generated_texts: Sequence[_GeneratedText],
    render_image: RenderImage,
) -> Figure:
    """Return the figure of the answers and explanations of one item.

    Args:
        dataset: Name of the data set.
        title: Title of the figure.
        generated_texts: The texts from top to bottom.
        render_image: Function that returns the image as the decoder sees it.
    """
    texts = []
    image = None
    for generated in generated_texts:
        attribution = generated.attribution
        text = ExplainedText(
            name=generated.name,
            generated_text=generated.text or UNRECORDED_TEXT,
            prompt=attribution.text,
            tokens=attribution.tokens or (),
            spans=_list_spans(attribution),
            phi=np.array(attribution.phi, dtype=np.float64),
            is_ratio=attribution.explained == CONTRIBUTION_RATIO,
        )
        view = render_image(dataset, attribution)
        # Without an image all players are text players, so T-SHAP says nothing.
        if view is not None:
            image, cells = view
            text = replace(
                text,
                cells=cells,
                t_shap=attribution.t_shap,
                t_shap_se=attribution.t_shap_se,
            )
        texts.append(text)
    return draw_answer_and_explanation(texts, title, image)


def _read_attributions(
    table: pa.Table, item: ExampleItem
) -> dict[str, AttributionRecord]:
    """Return the attributions of one item by setting."""
    records = item.select_records(table, AttributionRecord)
    return {record.setting: record for record in records}


def _find_cc_shap(
    table: pa.Table, item: ExampleItem, kind: str, estimator_seed: int | None
) -> CcShapRecord:
    """Return the CC-SHAP of one kind of explanation and one seed of the estimator, of which there
    is exactly one.
    """
    records = item.select_records(table, CcShapRecord)
    of_kind = [record for record in records if record.kind == kind]
    (cc_shap,) = (
        record for record in of_kind if record.estimator_seed == estimator_seed
    )
    return cc_shap


def _format_cc_shap(cc_shap: CcShapRecord) -> str:
    """Return CC-SHAP with its standard error, or the reason why it is not defined."""
    if cc_shap.value is None:
        return f"CC-SHAP not defined ({cc_shap.reason})"
    text = f"CC-SHAP {_format_measure(cc_shap.value)}"
    if cc_shap.standard_error is not None:
        text += f" ± {cc_shap.standard_error:.3f}"
    return text


def _format_measure(value: float | None) -> str:
    """Return a number with three decimals, or a text if it is not defined."""
    if value is None or math.isnan(value):
        return "not defined"
    return f"{value:.3f}".replace("-", "−")
