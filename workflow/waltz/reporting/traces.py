"""Traces of self-consistency tests: what was asked, said, edited and said again, as a figure of text.

Thesis C.7, C.8, C.11, C.12, C.23, C.24, C.27, C.29, C.31 and C.33 print such traces of single items.
"""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib import style
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from waltz.reporting.figures import STYLE

WIDTH, HEADING, LINE, GAP, TOP = 7.6, 1.5, 0.17, 0.09, 0.4
"""Inches: width of a figure and of its headings, height of a line, space between entries, the title."""
LETTERS = 96
"""Characters of a line of text."""
MOST = 12
"""Most lines of an entry."""
VERDICTS = {1: ("consistent", "#0072b2"), 0: ("not consistent", "#b24a00"), None: ("no verdict", "#555555")}

Row = Mapping[str, Any]
Entry = tuple[str, str]
"""Heading and text."""


def entries(row: Row, asked: str) -> list[Entry]:
    """What a trace tells, in order; what a test does not have is left out.

    Args:
        row: Row of the layout CONSISTENCY.
        asked: The item as it was put into words.
    """
    told = (
        ("item", asked),
        ("answer", row["answer"]),
        ("explanation", row["explanation"]),
        ("inserted", row["inserted"]),
        ("item, edited", row["edited_input"]),
        ("explanation, edited", row["edited_explanation"]),
        ("answer after that", row["edited_answer"]),
        ("why", row["reason"] or row["error"]),
    )
    return [(heading, str(text)) for heading, text in told if text is not None]


def trace_figure(row: Row, asked: str, title: str) -> Figure:
    """Draw one trace.

    Args:
        row: Row of the layout CONSISTENCY.
        asked: The item as it was put into words.
        title: Heading of the figure, such as model and data set.
    Returns:
        A figure that no window manager knows of; it can be saved with `figures.save`.
    """
    blocks = [(heading, _lines(text)) for heading, text in entries(row, asked)]
    height = TOP + sum(LINE * len(lines) + GAP for _, lines in blocks) + GAP
    name, colour = VERDICTS[row["verdict"]]
    with style.context(STYLE):
        figure = Figure(figsize=(WIDTH, height))
        at = height - 0.22
        words: dict[str, Any] = {"ha": "left", "va": "baseline", "parse_math": False}
        figure.text(0.01, at / height, f"{title}, {row['test'].replace('_', ' ')}", fontsize=10, **words)
        figure.text(0.99, at / height, name, fontsize=10, weight="bold", color=colour, **{**words, "ha": "right"})
        at = height - TOP
        for place, (heading, lines) in enumerate(blocks):
            block = LINE * len(lines) + GAP
            if place % 2 == 0:
                figure.add_artist(_band((at - block) / height, block / height))
            for number, line in enumerate(lines):
                y = (at - GAP / 2 - LINE * (number + 0.75)) / height
                if number == 0:
                    figure.text(0.015, y, heading, weight="bold", fontsize=8, **words)
                figure.text(HEADING / WIDTH, y, line, fontsize=8, **words)
            at -= block
    return figure


def _lines(text: str) -> list[str]:
    """A text as lines that fit, line ends kept; an empty text is named, a long one cut with a mark."""
    lines = [piece for line in text.splitlines() for piece in textwrap.wrap(line, LETTERS) or [""]]
    shown: Sequence[str] = lines or ["(nothing)"]
    return [*shown[: MOST - 1], f"… ({len(shown) - MOST + 1} more lines)"] if len(shown) > MOST else list(shown)


def _band(bottom: float, height: float) -> Rectangle:
    return Rectangle((0, bottom), 1, height, facecolor="#f1f1f1", edgecolor="none", zorder=-1)
