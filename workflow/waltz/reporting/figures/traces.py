"""Traces of self-consistency tests as figures of text: item, answer, explanation, edits and the answers after them.

Thesis C.7, C.8, C.11, C.12, C.23, C.24, C.27, C.29, C.31 and C.33 show such traces of single items.
"""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from waltz.consistency.metrics import COT, SETTING_OF_TEST
from waltz.reporting.figures.figure_files import LoadImage, NamedFigure, select_items_of_profiles, use_style
from waltz.reporting.figures.heatmaps import fit_title

WIDTH, HEADING, LINE, GAP, TOP, IMAGE = 7.6, 1.5, 0.17, 0.09, 0.4, 1.9
"""Inches: width of a figure and of its headings, height of a line, space between entries, the title, an image."""
LINE_LENGTH = 96
"""Number of characters in a line of text."""
MAX_LINES = 12
"""Largest number of lines of an entry."""
VERDICTS = {1: ("consistent", "#0072b2"), 0: ("not consistent", "#b24a00"), None: ("no verdict", "#555555")}

Row = Mapping[str, Any]


@dataclass(frozen=True)
class TraceEntry:
    """One block of lines.

    Attributes:
        heading: Kind of text.
        text: The text.
        verdict: Verdict of a test and its colour, for the entry that begins the test.
    """

    heading: str
    text: str
    verdict: tuple[str, str] | None = None


def list_entries(rows: Sequence[Row]) -> list[TraceEntry]:
    """Return the entries of a trace in order, without empty texts and repeated explanations.

    Args:
        rows: Rows of the layout CONSISTENCY of one item and seed, one for each test.
    """
    entries = [TraceEntry("item", rows[0]["text"])]
    earlier: set[tuple[str, str]] = set()
    for row in rows:
        entries.append(TraceEntry(row["test"].replace("_", " "), "", VERDICTS[row["verdict"]]))
        for heading, text in _list_exchanges(row):
            if heading not in ("explanation", "reasoning") or (heading, text) not in earlier:
                entries.append(TraceEntry(heading, text))
            earlier.add((heading, text))
    return entries


def _list_exchanges(row: Row) -> Iterator[tuple[str, str]]:
    """Yield headings and texts of one test."""
    explanation = "reasoning" if SETTING_OF_TEST[row["test"]] == COT else "explanation"
    biased = row["test"] == "biasing_features"
    for heading, text in (
        ("answer", row["answer"]),
        (explanation, row["explanation"]),
        ("suggested" if biased else "inserted", row["inserted"]),
        ("item, edited", row["edited_input"]),
        (f"{explanation} then" if biased else f"{explanation}, edited", row["edited_explanation"]),
        ("answer after that", row["edited_answer"]),
        ("reason", row["reason"] or row["error"]),
    ):
        if text is not None:
            yield heading, str(text)


def draw_trace(rows: Sequence[Row], title: str, image: np.ndarray | None = None) -> Figure:
    """Draw the tests of one item under each other.

    Args:
        rows: Rows of the layout CONSISTENCY of one item and seed, one for each test.
        image: The item's image, RGB of shape (height, width, 3).
    """
    blocks = [(entry, [""] if entry.verdict else _wrap_text(entry.text)) for entry in list_entries(rows)]
    image_height = 0.0 if image is None else IMAGE + GAP
    height = TOP + image_height + sum(LINE * len(lines) + GAP for _, lines in blocks) + GAP
    with use_style():
        figure = Figure(figsize=(WIDTH, height))
        text_style: dict[str, Any] = {"ha": "left", "va": "baseline", "parse_math": False}
        figure.text(0.01, (height - 0.22) / height, title, fontsize=fit_title(title, WIDTH), **text_style)
        at = height - TOP
        if image is not None:
            image_width = min(IMAGE * image.shape[1] / image.shape[0], WIDTH - HEADING) / WIDTH
            panel = figure.add_axes((HEADING / WIDTH, (at - IMAGE) / height, image_width, IMAGE / height))
            panel.imshow(image)
            panel.set(anchor="NW")
            panel.set_axis_off()
            at -= image_height
        for entry, lines in blocks:
            block = LINE * len(lines) + GAP
            if entry.verdict:
                figure.add_artist(_make_band((at - block) / height, block / height))
            for number, line in enumerate(lines):
                y = (at - GAP / 2 - LINE * (number + 0.75)) / height
                if number == 0:
                    figure.text(0.015, y, entry.heading, weight="bold", fontsize=8, **text_style)
                if number == 0 and entry.verdict:
                    name, colour = entry.verdict
                    figure.text(
                        0.985, y, name, fontsize=8, weight="bold", color=colour, **{**text_style, "ha": "right"}
                    )
                figure.text(HEADING / WIDTH, y, line, fontsize=8, **text_style)
            at -= block
    return figure


def draw_traces(
    tables: Mapping[str, pa.Table],
    model: str,
    profiles: Sequence[str],
    n: int,
    seed: int,
    load_image: LoadImage | None,
) -> Iterator[NamedFigure]:
    """Yield the traces of a few items: a seeded sample over all data sets of those without an error.

    Args:
        tables: Tables of the layout CONSISTENCY by data set.
        n: Largest number of items of a profile.
        load_image: Loads an image of a data set; None where the study has none.
    """
    order = list(SETTING_OF_TEST)
    for profile, number, dataset, item_id in select_items_of_profiles(tables, profiles, n, seed):
        of_item = (pc.field("item_id") == item_id) & (pc.field("profile") == profile)
        rows = tables[dataset].filter(of_item).to_pylist()
        first_seed = sorted(
            (row for row in rows if row["seed"] == rows[0]["seed"]), key=lambda row: order.index(row["test"])
        )
        title = f"{model}, {dataset}, {profile}: {item_id}"
        name = first_seed[0]["image"]
        image = None if name is None or load_image is None else np.asarray(load_image(dataset, name))
        yield (
            f"{dataset}-{profile}-{number}",
            f"{title}, tests of self-consistency",
            draw_trace(first_seed, title, image),
        )


def _wrap_text(text: str) -> list[str]:
    """Return a text as lines that fit, with its own line ends; a long text is cut, with the number of omitted lines."""
    lines = [piece for line in text.strip("\n").splitlines() for piece in textwrap.wrap(line, LINE_LENGTH) or [""]]
    lines = lines or ["(nothing)"]
    return (
        [*lines[: MAX_LINES - 1], f"… ({len(lines) - MAX_LINES + 1} more lines)"]
        if len(lines) > MAX_LINES
        else list(lines)
    )


def _make_band(bottom: float, height: float) -> Rectangle:
    """Return the grey band behind a test's first line."""
    return Rectangle((0, bottom), 1, height, facecolor="#e6e6e6", edgecolor="none", zorder=-1)
