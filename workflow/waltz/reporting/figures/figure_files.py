"""Files of figures: SVG and PNG with the same bytes for the same numbers, and folders of examples
with their titles.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from matplotlib import style
from matplotlib.figure import Figure
from PIL import Image

from waltz.core.errors import UserError
from waltz.core.files.atomic import replace_file, write_text
from waltz.core.files.safe_names import is_safe_name
from waltz.core.records import AnyRecord, convert_to_records
from waltz.core.sampling import sample
from waltz.reporting.figures.fonts import allow_missing_glyphs, list_fonts
from waltz.sources.images import load_image, open_images

STYLE = Path(__file__).with_name("waltz.mplstyle")
NamedFigure = tuple[str, str, Figure]
"""Name of a figure's file without its suffix, title of the figure, and the figure."""
LoadImage = Callable[[str, str], Image.Image]
"""Function that returns an image by the name of its data set and its own name."""
INDEX = "index.json"


@contextmanager
def use_style(**options: str) -> Iterator[None]:
    """Use the style of waltz for figures in a block; `options` are further options of matplotlib."""
    with (
        style.context([STYLE, {"font.family": list_fonts()}, options]),
        allow_missing_glyphs(),
    ):
        yield


def save_figure(
    figure: Figure, paths: Sequence[str | Path], full_page: bool = False
) -> None:
    """Write a figure to each path, in the format of its suffix, without the date.

    Args:
        figure: The figure.
        paths: Paths of the files.
        full_page: Whether the page keeps its size; otherwise it is cropped to its content, which
            takes twice as long.
    """
    for path in map(Path, paths):
        form = path.suffix.removeprefix(".")
        metadata: dict[str, None] = {}
        if form == "svg":
            # A date would change the bytes of an SVG although its numbers are the same.
            metadata["Date"] = None
        options = {}
        if full_page:
            options["savefig.bbox"] = "standard"
        with replace_file(path) as temporary, use_style(**options):
            figure.savefig(temporary, format=form, metadata=metadata)


def list_drawable_items(table: pa.Table, profile: str) -> list[str]:
    """Return the ids of the items that have no error in any row, sorted, so that a sample of them
    does not depend on the order of rows.

    Args:
        table: Table with the columns `item_id`, `profile` and `error`.
        profile: Fidelity profile of the rows.
    """
    columns = table.select(["item_id", "profile", "error"])
    rows = columns.filter(pc.field("profile") == profile).to_pylist()
    failed = {row["item_id"] for row in rows if row["error"] is not None}
    return sorted({row["item_id"] for row in rows} - failed)


@dataclass(frozen=True, slots=True)
class ExampleItem:
    """Item that a figure shows as an example, in one fidelity profile.

    Attributes:
        dataset: Name of the data set.
        profile: Fidelity profile.
        number: Number of the example in its sample, from 1.
        item_id: Id of the item.
    """

    dataset: str
    profile: str
    number: int
    item_id: str

    @property
    def file_name(self) -> str:
        """Name of the figure's file without its suffix."""
        return f"{self.dataset}-{self.profile}-{self.number}"

    @property
    def title(self) -> str:
        """Data set, profile and id, as in the title of the figure."""
        return f"{self.dataset}, {self.profile}: {self.item_id}"

    def select_records(
        self, table: pa.Table, record_type: type[AnyRecord]
    ) -> list[AnyRecord]:
        """Return the records of the item in a table of its data set."""
        is_of_item = pc.field("item_id") == self.item_id
        is_of_profile = pc.field("profile") == self.profile
        return list(
            convert_to_records(table.filter(is_of_item & is_of_profile), record_type)
        )


def sample_items(
    tables: Mapping[str, pa.Table], profiles: Iterable[str], n: int, seed: int
) -> Iterator[ExampleItem]:
    """Yield the items to show in each profile: a seeded sample over all data sets.

    Args:
        tables: By data set, a table with the columns `item_id`, `profile` and `error`; items with
            an error are skipped.
        profiles: Fidelity profiles of the rows.
        n: Largest number of items of a profile.
        seed: Seed of the sample.
    """
    for profile in profiles:
        items: dict[str, tuple[str, str]] = {}
        for dataset, table in tables.items():
            for item_id in list_drawable_items(table, profile):
                items[f"{dataset} {item_id}"] = (dataset, item_id)
        keys = sample(list(items), min(n, len(items)), seed)
        for number, key in enumerate(keys, 1):
            dataset, item_id = items[key]
            yield ExampleItem(dataset, profile, number, item_id)


@contextmanager
def open_dataset_images(
    datasets: Iterable[str], folders: Iterable[str]
) -> Iterator[LoadImage]:
    """Yield a function that loads an image by the names of its data set and the image.

    Args:
        datasets: Names of the data sets.
        folders: Folder or archive of images of each data set; empty for text tasks.
    """
    folder_of = dict(zip(datasets, folders, strict=False))
    with ExitStack() as stack:
        # Data sets may share a folder or archive, which is opened once.
        sources = {
            folder: stack.enter_context(open_images(folder))
            for folder in dict.fromkeys(folder_of.values())
        }
        yield lambda dataset, name: load_image(sources[folder_of[dataset]], name)


def save_examples(folder: str | Path, figures: Iterable[NamedFigure]) -> None:
    """Write figures to a new folder, each as SVG and PNG, and their titles to its `index.json`."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    titles = {}
    for name, title, figure in figures:
        save_figure(
            figure,
            [folder / f"{name}.{form}" for form in ("svg", "png")],
            full_page=True,
        )
        titles[name] = title
    write_text(folder / INDEX, json.dumps(titles, indent=1, ensure_ascii=False) + "\n")


def list_example_files(folder: str | Path) -> dict[str, str]:
    """Return the title of each figure in a folder by the path of its SVG, in the order in which
    they were drawn.

    Raises:
        UserError: The index of the folder cannot be read, or is not an index of figures.
    """
    index = Path(folder) / INDEX
    try:
        titles = json.loads(index.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(
            f"{index}: index cannot be read ({error}); delete its folder and run again"
        ) from None
    # Names become paths below, so a name that leads out of the folder is refused.
    if not isinstance(titles, dict) or not all(map(_is_figure_name, titles)):
        raise UserError(
            f"{index}: not an index of figures by name; delete its folder and run again"
        )
    return {
        str(index.with_name(f"{name}.svg")): title for name, title in titles.items()
    }


def _is_figure_name(name: str) -> bool:
    """Return whether a name can only be the name of a file in the folder of its index."""
    return is_safe_name(name) and "/" not in name
