"""Charts of word frequencies, and how figures are saved: SVG and PNG, the same bytes for the same numbers."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib import style
from matplotlib.figure import Figure

from waltz.core.files.atomic import replace_file

STYLE = Path(__file__).with_name("waltz.mplstyle")
CAPTION, FOIL = "#0072b2", "#e69f00"
"""Blue and orange that colour-blind readers can distinguish; they differ in grey, too."""
WORDS = 20
"""Largest number of words in one figure."""


def draw_frequencies(counts: Iterable[Mapping[str, Any]], title: str) -> Figure:
    """Draw how often each word occurs in captions and in foils, before and after validation.

    Args:
        counts: Rows of the frequencies layout, of one data set and one kind.
        title: Heading.
    Returns:
        Two panels of horizontal bars: all items, valid items. Words are those most frequent in all items.
    """
    frame = pd.DataFrame(list(counts), columns=["items", "side", "word", "count"])
    table = frame.pivot_table(index="word", columns=["items", "side"], values="count", aggfunc="sum", fill_value=0)
    columns = pd.MultiIndex.from_product([["all", "valid"], ["caption", "foil"]])
    table = table.reindex(columns=columns, fill_value=0)
    order = sorted(table.index, key=lambda word: (-int(table.loc[word, "all"].sum()), word))
    words = order[:WORDS]
    with style.context(STYLE):
        figure = Figure(figsize=(8, 0.9 + 0.24 * max(len(words), 3)))
        axes = figure.subplots(1, 2, sharey=True, sharex=True)
        for panel, items, heading in zip(
            axes, ("all", "valid"), ("before validation", "after validation"), strict=True
        ):
            _draw_bars(panel, table.loc[words].xs(items, axis="columns"), heading)
        axes[0].set_yticks(range(len(words)), words)
        axes[0].invert_yaxis()
        handles, names = axes[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="upper right", ncols=2)
        rest = f" ({len(words)} of {len(order)} words)" if len(order) > len(words) else ""
        figure.suptitle(f"{title}{rest}", x=0.01, ha="left", fontsize=11)
        figure.tight_layout()
    return figure


def save_figure(figure: Figure, paths: Sequence[str | Path], full_page: bool = False) -> None:
    """Write a figure under each path, in the format that its suffix names, without a date in it.

    Args:
        figure: The figure.
        paths: Its files.
        full_page: Whether the page keeps its size; otherwise it is cropped to its content, which takes twice as long.
    """
    for path in map(Path, paths):
        form = path.suffix.removeprefix(".")
        metadata = {"Date": None} if form == "svg" else {}
        options = {"savefig.bbox": "standard"} if full_page else {}
        with replace_file(path) as temporary, style.context([STYLE, options]), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # drawn as an empty box
            figure.savefig(temporary, format=form, metadata=metadata)


def _draw_bars(panel: Any, counts: Any, heading: str) -> None:
    """Draw the counts of captions and foils as horizontal bars."""
    for offset, side, colour in ((-0.2, "caption", CAPTION), (0.2, "foil", FOIL)):
        positions = [row + offset for row in range(len(counts))]
        panel.barh(positions, counts[side], height=0.4, color=colour, label=f"{side}s")
    panel.set_title(heading)
    panel.set_xlabel("count")
