"""Traces of self-consistency tests: what was asked, said, edited and said again, as a figure of text.

Thesis C.7, C.8, C.11, C.12, C.23, C.24, C.27, C.29, C.31 and C.33 print such traces of single items.
"""

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from matplotlib import style
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from waltz.consistency.summary.rescaling import COT, SETTINGS
from waltz.reporting.figures.example_folders import NamedFigure, select_items
from waltz.reporting.figures.frequencies import STYLE
from waltz.reporting.figures.heatmap import fit_title

WIDTH, HEADING, LINE, GAP, TOP, IMAGE = 7.6, 1.5, 0.17, 0.09, 0.4, 1.9
"""Inches: width of a figure and of its headings, height of a line, space between entries, the title, an image."""
LETTERS = 96
"""Characters of a line of text."""
MAX_FIGURES = 12
"""Most lines of an entry."""
VERDICTS = {1: ("consistent", "#0072b2"), 0: ("not consistent", "#b24a00"), None: ("no verdict", "#555555")}

Row = Mapping[str, Any]


@dataclass(frozen=True)
class TraceEntry:
    """One block of lines.

    Attributes:
        heading: What it is.
        text: What it says.
        verdict: Of an entry that begins a test, its verdict in words, and their colour.
    """

    heading: str
    text: str
    verdict: tuple[str, str] | None = None


def list_entries(rows: Sequence[Row]) -> list[TraceEntry]:
    """What a trace tells, in order; what a test does not have, and what was told before, is left out.

    Args:
        rows: Rows of the layout CONSISTENCY, of one item and seed, a test each.
    """
    found = [TraceEntry("item", rows[0]["text"])]
    told: set[tuple[str, str]] = set()
    for row in rows:
        found.append(TraceEntry(row["test"].replace("_", " "), "", VERDICTS[row["verdict"]]))
        for heading, text in _list_exchanges(row):
            if heading not in ("explanation", "reasoning") or (heading, text) not in told:
                found.append(TraceEntry(heading, text))
            told.add((heading, text))
    return found


def _list_exchanges(row: Row) -> Iterator[tuple[str, str]]:
    """Headings and texts of one test."""
    explanation = "reasoning" if SETTINGS[row["test"]] == COT else "explanation"
    biased = row["test"] == "biasing_features"
    for heading, text in (
        ("answer", row["answer"]),
        (explanation, row["explanation"]),
        ("suggested" if biased else "inserted", row["inserted"]),
        ("item, edited", row["edited_input"]),
        (f"{explanation} then" if biased else f"{explanation}, edited", row["edited_explanation"]),
        ("answer after that", row["edited_answer"]),
        ("why", row["reason"] or row["error"]),
    ):
        if text is not None:
            yield heading, str(text)


def draw_trace(rows: Sequence[Row], title: str, image: np.ndarray | None = None) -> Figure:
    """Draw the tests of one item under each other.

    Args:
        rows: Rows of the layout CONSISTENCY, of one item and seed, a test each.
        title: Heading of the figure, such as model and data set.
        image: The item's image, RGB of shape (height, width, 3).
    Returns:
        A figure that no window manager knows of; it can be saved with `figures.save`.
    """
    blocks = [(entry, [""] if entry.verdict else _wrap_text(entry.text)) for entry in list_entries(rows)]
    seen = 0.0 if image is None else IMAGE + GAP
    height = TOP + seen + sum(LINE * len(lines) + GAP for _, lines in blocks) + GAP
    with style.context(STYLE):
        figure = Figure(figsize=(WIDTH, height))
        words: dict[str, Any] = {"ha": "left", "va": "baseline", "parse_math": False}
        figure.text(0.01, (height - 0.22) / height, title, fontsize=fit_title(title, WIDTH), **words)
        at = height - TOP
        if image is not None:
            wide = min(IMAGE * image.shape[1] / image.shape[0], WIDTH - HEADING) / WIDTH
            panel = figure.add_axes((HEADING / WIDTH, (at - IMAGE) / height, wide, IMAGE / height))
            panel.imshow(image)
            panel.set(anchor="NW")
            panel.set_axis_off()
            at -= seen
        for entry, lines in blocks:
            block = LINE * len(lines) + GAP
            if entry.verdict:
                figure.add_artist(_make_band((at - block) / height, block / height))
            for number, line in enumerate(lines):
                y = (at - GAP / 2 - LINE * (number + 0.75)) / height
                if number == 0:
                    figure.text(0.015, y, entry.heading, weight="bold", fontsize=8, **words)
                if number == 0 and entry.verdict:
                    name, colour = entry.verdict
                    figure.text(0.985, y, name, fontsize=8, weight="bold", color=colour, **{**words, "ha": "right"})
                figure.text(HEADING / WIDTH, y, line, fontsize=8, **words)
            at -= block
    return figure


def draw_traces(
    tables: Mapping[str, pa.Table],
    model: str,
    profile: str,
    n: int,
    seed: int,
    load: Callable[[str, str], np.ndarray],
) -> Iterator[NamedFigure]:
    """Traces of a few items, a seeded sample over all data sets of those without an error.

    Args:
        tables: By data set, of the layout CONSISTENCY.
        model: Name of the decoder.
        profile: A fidelity profile.
        n: Most items.
        seed: The study's seed.
        load: The image of a data set by its name, as pixels.
    """
    order = list(SETTINGS)
    for number, (dataset, item_id) in enumerate(select_items(tables, profile, n, seed), 1):
        of = (pc.field("item_id") == item_id) & (pc.field("profile") == profile)
        rows = tables[dataset].filter(of).to_pylist()
        first = sorted(
            (row for row in rows if row["seed"] == rows[0]["seed"]), key=lambda row: order.index(row["test"])
        )
        title = f"{model}, {dataset}, {profile}: {item_id}"
        image = None if first[0]["image"] is None else load(dataset, first[0]["image"])
        yield f"{dataset}-{profile}-{number}", f"{title}, tests of self-consistency", draw_trace(first, title, image)


def _wrap_text(text: str) -> list[str]:
    """A text as lines that fit, line ends inside it kept; an empty text is named, a long one cut with a mark."""
    lines = [piece for line in text.strip("\n").splitlines() for piece in textwrap.wrap(line, LETTERS) or [""]]
    shown: Sequence[str] = lines or ["(nothing)"]
    return (
        [*shown[: MAX_FIGURES - 1], f"… ({len(shown) - MAX_FIGURES + 1} more lines)"]
        if len(shown) > MAX_FIGURES
        else list(shown)
    )


def _make_band(bottom: float, height: float) -> Rectangle:
    return Rectangle((0, bottom), 1, height, facecolor="#e6e6e6", edgecolor="none", zorder=-1)
