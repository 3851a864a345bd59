"""Files of figures: SVG and PNG, the same bytes for the same numbers, and folders of examples with their titles."""

import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from matplotlib import style
from matplotlib.figure import Figure

from waltz.core.errors import UserError
from waltz.core.files.atomic import replace_file, write_text
from waltz.core.sampling import sample

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


NamedFigure = tuple[str, str, Figure]
"""Name of a file without its suffix, title, and the figure."""
INDEX = "index.json"


def select_items(tables: Mapping[str, pa.Table], profile: str, n: int, seed: int) -> list[tuple[str, str]]:
    """Return data sets and ids of the items to show: a seeded sample over all data sets.

    Args:
        tables: By data set, a table with the columns `item_id`, `profile` and `error`; items with an error are
            skipped.
        profile: Fidelity profile.
        n: Largest number of items.
        seed: The study's seed.
    """
    items: dict[str, tuple[str, str]] = {}
    for dataset, table in tables.items():
        rows = table.select(["item_id", "profile", "error"]).filter(pc.field("profile") == profile).to_pylist()
        failed = {row["item_id"] for row in rows if row["error"] is not None}
        ids = sorted({row["item_id"] for row in rows} - failed)
        items |= {f"{dataset} {item_id}": (dataset, item_id) for item_id in ids}
    return [items[key] for key in sample(list(items), min(n, len(items)), seed)]


def save_examples(folder: str | Path, figures: Iterable[NamedFigure]) -> None:
    """Write figures into a new folder, each as SVG and PNG, with their titles in `index.json`.

    Args:
        folder: The folder.
        figures: The figures.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    titles = {}
    for name, title, figure in figures:
        save_figure(figure, [folder / f"{name}.{form}" for form in ("svg", "png")], full_page=True)
        titles[name] = title
    write_text(folder / INDEX, json.dumps(titles, indent=1, ensure_ascii=False) + "\n")


def list_example_files(folder: str | Path) -> dict[str, str]:
    """Return the titles of a folder's figures by their SVG, in the order in which they were drawn.

    Raises:
        UserError: The folder has no index.
    """
    index = Path(folder) / INDEX
    try:
        titles = json.loads(index.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{index}: index cannot be read ({error}); delete its folder and run again") from None
    return {str(index.with_name(f"{name}.svg")): title for name, title in titles.items()}
