"""Samples that are drawn: which items, and a folder of their figures that says what each one shows."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from matplotlib.figure import Figure

from waltz.core.errors import UserError
from waltz.core.files.atomic import write_text
from waltz.core.sampling import sample
from waltz.reporting.figures.frequencies import save_figure

NamedFigure = tuple[str, str, Figure]
"""Name of a file without its suffix, what it shows, and the figure."""
INDEX = "index.json"


def select_items(tables: Mapping[str, pa.Table], profile: str, n: int, seed: int) -> list[tuple[str, str]]:
    """Data sets and ids of the items that are drawn: a seeded sample over all data sets.

    Args:
        tables: By data set, a table with the columns `item_id`, `profile` and `error`; items with an error are passed
            over.
        profile: Whose items.
        n: Most items.
        seed: The study's seed.
    """
    known: dict[str, tuple[str, str]] = {}
    for dataset, table in tables.items():
        rows = table.select(["item_id", "profile", "error"]).filter(pc.field("profile") == profile).to_pylist()
        failed = {row["item_id"] for row in rows if row["error"] is not None}
        ids = sorted({row["item_id"] for row in rows} - failed)
        known |= {f"{dataset} {item_id}": (dataset, item_id) for item_id in ids}
    return [known[key] for key in sample(list(known), min(n, len(known)), seed)]


def save_examples(folder: str | Path, drawn: Iterable[NamedFigure]) -> None:
    """Write figures into a new folder, each as SVG and PNG, with what they show in `index.json`.

    Args:
        folder: The folder.
        drawn: The figures.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    titles = {}
    for name, title, figure in drawn:
        save_figure(figure, [folder / f"{name}.{form}" for form in ("svg", "png")], whole=True)
        titles[name] = title
    write_text(folder / INDEX, json.dumps(titles, indent=1, ensure_ascii=False) + "\n")


def list_example_files(folder: str | Path) -> dict[str, str]:
    """What each figure of such a folder shows, by its SVG, in the order in which they were drawn.

    Raises:
        UserError: The folder has no index.
    """
    index = Path(folder) / INDEX
    try:
        titles = json.loads(index.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{index}: no whole index ({error}); delete its folder and run again") from None
    return {str(index.with_name(f"{name}.svg")): title for name, title in titles.items()}
