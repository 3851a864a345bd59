"""Traces of self-consistency tests: figures with the texts of an item, its answer and explanation,
and edits of them.

Thesis C.7, C.8, C.11, C.12, C.23, C.24, C.27, C.29, C.31 and C.33 show such traces of single items.
Their colors are used here: the prompt is black, the model's text blue, and an edit orange.
"""

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Rectangle

from waltz.consistency.edit_tests.mentions import BIASING_FEATURES
from waltz.consistency.metrics import COT, SETTING_OF_TEST
from waltz.core.schema import ConsistencyRecord
from waltz.reporting.figures.figure_files import (
    LoadImage,
    NamedFigure,
    sample_items,
    use_style,
)
from waltz.reporting.figures.heatmaps import fit_title

WIDTH, HEADING, LINE, GAP, TOP, IMAGE = 7.6, 1.5, 0.17, 0.09, 0.58, 1.9
"""In inches: width of a figure and of its headings; heights of a line, a space between entries, the
title, an image.
"""
LINE_LENGTH = 96
"""Number of characters in a line of text."""
MAX_LINES = 12
"""Largest number of lines that an entry shows."""
FONT_SIZE = 8
"""Size of texts and headings, in points."""
PROMPT, OUTPUT, EDIT = "#000000", "#0060c0", "#c45500"
"""Colors of what a prompt says, of what the model generates, and of what a test inserts."""
COLORS = "black: prompt; blue: text of the model; orange: edit"
"""Meaning of the colors, below the title."""
EDITED_REASONINGS = ("filler_tokens", "adding_mistakes", "paraphrasing")
"""Tests that write a chain of thought; early answering keeps the beginning of the model's."""
VERDICTS = {
    1: ("consistent", "#117733"),
    0: ("not consistent", "#882255"),
    None: ("no verdict", "#555555"),
}
EXPLANATIONS = ("explanation", "reasoning")
"""Headings of texts that several tests may share."""


@dataclass(frozen=True)
class TraceEntry:
    """Entry of a trace: a text under its heading, or the beginning of a test.

    Attributes:
        heading: Kind of the text, or name of the test.
        text: The text; empty at the beginning of a test.
        verdict: Verdict of the test and its color, at the beginning of a test; None for a text.
        color: Color of the text.
        edit: Part of the text that a test inserted, which has the color of edits.
    """

    heading: str
    text: str
    verdict: tuple[str, str] | None = None
    color: str = PROMPT
    edit: str = ""


@dataclass(frozen=True)
class Segment:
    """Part of a line in one color."""

    text: str
    color: str


def list_entries(records: Sequence[ConsistencyRecord]) -> list[TraceEntry]:
    """Return the entries of a trace in their order, without missing texts and repeated
    explanations.

    Args:
        records: Tests of one item and seed.
    """
    entries = [TraceEntry("item", records[0].text)]
    explanations: set[tuple[str, str]] = set()
    for record in records:
        verdict = VERDICTS[record.verdict]
        entries.append(TraceEntry(record.test.replace("_", " "), "", verdict))
        for entry in _list_trace_texts(record):
            # Several tests start from the same explanation, which is shown once.
            if (entry.heading, entry.text) in explanations:
                continue
            entries.append(entry)
            if entry.heading in EXPLANATIONS:
                explanations.add((entry.heading, entry.text))
    return entries


def _list_trace_texts(record: ConsistencyRecord) -> Iterator[TraceEntry]:
    """Yield the entry of each text of one test, without the texts that the test does not have."""
    explanation = "explanation"
    if SETTING_OF_TEST[record.test] == COT:
        explanation = "reasoning"
    inserted, edited_explanation = "inserted", f"{explanation}, edited"
    if record.test == BIASING_FEATURES:
        inserted, edited_explanation = "suggested", f"{explanation} then"
    # A counterfactual edit inserts a word; input from explanation inserts the explanation.
    edit = record.inserted or record.explanation or ""
    reasoning_color = OUTPUT
    if record.test in EDITED_REASONINGS:
        reasoning_color = EDIT
    # In the order of the test: answer, explanation, edit, answer after the edit, reason of the
    # verdict.
    texts = (
        ("answer", record.answer, OUTPUT, ""),
        (explanation, record.explanation, OUTPUT, ""),
        (inserted, record.inserted, EDIT, ""),
        ("item, edited", record.edited_input, PROMPT, edit),
        (edited_explanation, record.edited_explanation, reasoning_color, ""),
        ("answer after that", record.edited_answer, OUTPUT, ""),
        ("reason", record.reason or record.error, PROMPT, ""),
    )
    for heading, text, color, inserted_part in texts:
        if text is not None:
            yield TraceEntry(heading, text, color=color, edit=inserted_part)


def draw_trace(
    records: Sequence[ConsistencyRecord], title: str, image: np.ndarray | None = None
) -> Figure:
    """Return the figure of the tests of one item, one below the other.

    Args:
        records: Tests of one item and seed.
        title: Title of the figure.
        image: The item's image, RGB of shape (height, width, 3).
    """
    # Lines come first, since their number decides the height of the figure.
    blocks = [(entry, _list_lines(entry)) for entry in list_entries(records)]
    blocks_height = sum(LINE * len(lines) + GAP for _, lines in blocks)
    height = TOP + blocks_height + GAP
    if image is not None:
        height += IMAGE + GAP
    with use_style():
        figure = Figure(figsize=(WIDTH, height))
        _write(
            figure,
            0.01,
            (height - 0.22) / height,
            title,
            fontsize=fit_title(title, WIDTH),
        )
        _write(figure, 0.01, (height - 0.42) / height, COLORS, fontsize=FONT_SIZE)
        top = height - TOP  # upper end of what is drawn next, in inches
        if image is not None:
            # As high as IMAGE allows, unless it is then wider than the column of texts.
            image_width = (
                min(IMAGE * image.shape[1] / image.shape[0], WIDTH - HEADING) / WIDTH
            )
            panel = figure.add_axes(
                (HEADING / WIDTH, (top - IMAGE) / height, image_width, IMAGE / height)
            )
            panel.imshow(image)
            panel.set(anchor="NW")
            panel.set_axis_off()
            top -= IMAGE + GAP
        for entry, lines in blocks:
            block_height = LINE * len(lines) + GAP
            _draw_entry(figure, entry, lines, top, height)
            top -= block_height
    return figure


def _list_lines(entry: TraceEntry) -> list[list[Segment]]:
    """Return the lines of an entry; an entry with a verdict has one empty line."""
    if entry.verdict:
        return [[]]
    lines = _wrap_text(entry.text)
    # A whole word: "red" does not stand in "a hundred dogs".
    match = re.search(rf"(?<!\w){re.escape(entry.edit)}(?!\w)", entry.text)
    if not entry.edit or match is None:
        return [[Segment(line, entry.color)] for line in lines]
    return _color_edit(entry, lines, match.start(), match.end())


def _color_edit(
    entry: TraceEntry, lines: Sequence[str], start: int, end: int
) -> list[list[Segment]]:
    """Return the lines of an entry with the words of its edit in the color of edits.

    Args:
        entry: The entry.
        lines: Its lines, which are the text's words in order.
        start: Position in the text at which the edit begins.
        end: Position behind the edit.
    """
    colored = []
    position = 0
    for line in lines:
        segments: list[Segment] = []
        for word in line.split():
            first = entry.text.find(word, position)
            # The last line of a cut text is none of the text.
            if first >= 0:
                position = first + len(word)
            is_edit = 0 <= first < end and position > start
            color = EDIT if is_edit else entry.color
            if segments and segments[-1].color == color:
                word = f"{segments.pop().text} {word}"
            segments.append(Segment(word, color))
        colored.append(segments)
    return colored


def _draw_entry(
    figure: Figure,
    entry: TraceEntry,
    lines: Sequence[Sequence[Segment]],
    top: float,
    height: float,
) -> None:
    """Draw an entry: its heading, the verdict of a test on a gray band, and its lines.

    Args:
        figure: The figure, whose units are shares of its size.
        entry: The entry.
        lines: Its lines.
        top: Upper end of the entry, in inches.
        height: Height of the figure, in inches.
    """
    if entry.verdict:
        block_height = LINE * len(lines) + GAP
        band = Rectangle(
            (0, (top - block_height) / height),
            width=1,
            height=block_height / height,
            facecolor="#e6e6e6",
            edgecolor="none",
            zorder=-1,
        )
        figure.add_artist(band)
    for number, line in enumerate(lines):
        y = (top - GAP / 2 - LINE * (number + 0.75)) / height
        if number == 0:
            _write(figure, 0.015, y, entry.heading, weight="bold", fontsize=FONT_SIZE)
        if number == 0 and entry.verdict:
            verdict, color = entry.verdict
            _write(
                figure,
                0.985,
                y,
                verdict,
                fontsize=FONT_SIZE,
                weight="bold",
                color=color,
                ha="right",
            )
        _draw_line(figure, line, y)


def _draw_line(figure: Figure, line: Sequence[Segment], y: float) -> None:
    """Write the segments of a line one behind the other."""
    before = ""
    for segment in line:
        # The width of a text includes no spaces at its ends, so that the segment begins where it
        # begins in the whole line.
        line_width = _measure_width(figure, before + segment.text)
        x = HEADING / WIDTH + line_width - _measure_width(figure, segment.text)
        _write(figure, x, y, segment.text, fontsize=FONT_SIZE, color=segment.color)
        before += f"{segment.text} "


def _measure_width(figure: Figure, text: str) -> float:
    """Return the width of a text, as a share of the figure's width."""
    renderer = FigureCanvasAgg(figure).get_renderer()  # type: ignore[no-untyped-call]
    # Ten times as large, so that the rounding of letters to pixels hardly counts.
    font = FontProperties(size=10 * FONT_SIZE)
    width, _, _ = renderer.get_text_width_height_descent(text, font, ismath=False)
    return float(width / 10 / figure.bbox.width)


def _write(
    figure: Figure, x: float, y: float, text: str, ha: str = "left", **style: Any
) -> None:
    """Write a text as it is, on its baseline: a dollar sign does not start a formula."""
    figure.text(x, y, text, ha=ha, va="baseline", parse_math=False, **style)


def draw_traces(
    tables: Mapping[str, pa.Table],
    model: str,
    profiles: Sequence[str],
    n: int,
    seed: int,
    load_image: LoadImage | None,
) -> Iterator[NamedFigure]:
    """Yield the traces of a few items: a seeded sample over all data sets of the items without an
    error.

    Args:
        tables: Tables of the layout CONSISTENCY, by data set.
        model: Name of the decoder.
        profiles: Fidelity profiles.
        n: Largest number of items of a profile.
        seed: Seed of the sample of items.
        load_image: Function that loads an image of a data set; None if the study has no images.
    """
    order = list(SETTING_OF_TEST)
    for item in sample_items(tables, profiles, n, seed):
        records = item.select_records(tables[item.dataset], ConsistencyRecord)
        # A trace shows one run of the tests.
        shown = [record for record in records if record.seed == records[0].seed]
        shown.sort(key=lambda record: order.index(record.test))
        image = None
        image_name = shown[0].image
        if image_name is not None and load_image is not None:
            image = np.asarray(load_image(item.dataset, image_name))
        title = f"{model}, {item.title}"
        figure = draw_trace(shown, title, image)
        yield item.file_name, f"{title}, tests of self-consistency", figure


def _wrap_text(text: str) -> list[str]:
    """Return a text as lines that fit into the figure; line ends of the text are kept.

    A text of more than `MAX_LINES` lines is cut, and its last line gives the number of omitted
    lines.
    """
    lines: list[str] = []
    for line in text.strip("\n").splitlines():
        # wrap returns nothing for an empty line, which is kept here.
        lines += textwrap.wrap(line, LINE_LENGTH) or [""]
    if len(lines) > MAX_LINES:
        n_omitted = len(lines) - MAX_LINES + 1
        return [*lines[: MAX_LINES - 1], f"… ({n_omitted} more lines)"]
    return lines or ["(nothing)"]
