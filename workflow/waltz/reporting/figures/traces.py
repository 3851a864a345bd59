"""Traces of self-consistency tests: figures with the texts of an item, its answer and explanation,
and edits of them.

Thesis C.7, C.8, C.11, C.12, C.23, C.24, C.27, C.29, C.31 and C.33 show such traces of single items.
"""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from waltz.consistency.metrics import COT, SETTING_OF_TEST
from waltz.core.schema import ConsistencyRecord
from waltz.reporting.figures.figure_files import (
    LoadImage,
    NamedFigure,
    sample_items,
    use_style,
)
from waltz.reporting.figures.heatmaps import fit_title

WIDTH, HEADING, LINE, GAP, TOP, IMAGE = 7.6, 1.5, 0.17, 0.09, 0.4, 1.9
"""In inches: width of a figure and of its headings; heights of a line, a space between entries, the
title, an image.
"""
LINE_LENGTH = 96
"""Number of characters in a line of text."""
MAX_LINES = 12
"""Largest number of lines that an entry shows."""
VERDICTS = {
    1: ("consistent", "#0072b2"),
    0: ("not consistent", "#b24a00"),
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
    """

    heading: str
    text: str
    verdict: tuple[str, str] | None = None


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
        for heading, text in _list_trace_texts(record):
            # Several tests start from the same explanation, which is shown once.
            if (heading, text) in explanations:
                continue
            entries.append(TraceEntry(heading, text))
            if heading in EXPLANATIONS:
                explanations.add((heading, text))
    return entries


def _list_trace_texts(record: ConsistencyRecord) -> Iterator[tuple[str, str]]:
    """Yield each text of one test with its heading, without the texts that the test does not have."""
    explanation = "explanation"
    if SETTING_OF_TEST[record.test] == COT:
        explanation = "reasoning"
    inserted, edited_explanation = "inserted", f"{explanation}, edited"
    if record.test == "biasing_features":
        inserted, edited_explanation = "suggested", f"{explanation} then"
    # In the order of the test: answer, explanation, edit, answer after the edit, reason of the
    # verdict.
    texts = {
        "answer": record.answer,
        explanation: record.explanation,
        inserted: record.inserted,
        "item, edited": record.edited_input,
        edited_explanation: record.edited_explanation,
        "answer after that": record.edited_answer,
        "reason": record.reason or record.error,
    }
    for heading, text in texts.items():
        if text is not None:
            yield heading, text


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


def _list_lines(entry: TraceEntry) -> list[str]:
    """Return the lines of an entry; an entry with a verdict has one empty line."""
    if entry.verdict:
        return [""]
    return _wrap_text(entry.text)


def _draw_entry(
    figure: Figure, entry: TraceEntry, lines: Sequence[str], top: float, height: float
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
            _write(figure, 0.015, y, entry.heading, weight="bold", fontsize=8)
        if number == 0 and entry.verdict:
            verdict, color = entry.verdict
            _write(
                figure,
                0.985,
                y,
                verdict,
                fontsize=8,
                weight="bold",
                color=color,
                ha="right",
            )
        _write(figure, HEADING / WIDTH, y, line, fontsize=8)


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
