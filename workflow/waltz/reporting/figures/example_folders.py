"""Items that figures show, and the folders of these figures with an index of titles."""

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
