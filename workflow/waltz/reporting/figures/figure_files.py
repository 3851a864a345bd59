"""Files of figures: SVG and PNG, the same bytes for the same numbers, and folders of examples with their titles."""

import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from matplotlib import font_manager, style
from matplotlib.figure import Figure
from PIL import Image

from waltz.core.errors import UserError
from waltz.core.files.atomic import replace_file, write_text
from waltz.core.sampling import sample
from waltz.sources.images import load_image, open_images

STYLE = Path(__file__).with_name("waltz.mplstyle")
FONT = "DejaVu Sans"
FALLBACK_FONTS = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Source Han Sans SC",
    "WenQuanYi Micro Hei",
    "Microsoft YaHei",
    "PingFang SC",
    "Hiragino Sans",
    "Yu Gothic",
    "Malgun Gothic",
    "Noto Sans Devanagari",
    "Noto Sans Bengali",
    "Noto Sans Thai",
    "Noto Emoji",
    "Segoe UI Emoji",
    "Symbola",
)
"""Fonts, where they are installed, for what the font of the style lacks, such as Chinese; the first that has it."""
NamedFigure = tuple[str, str, Figure]
"""Name of a file without its suffix, title, and the figure."""
LoadImage = Callable[[str, str], Image.Image]
"""Returns an image of a data set by their names."""
INDEX = "index.json"


@contextmanager
def use_style(**options: str) -> Iterator[None]:
    """Draw figures in the style of waltz, with other options of matplotlib if given."""
    with style.context([STYLE, {"font.family": list_fonts()}, options]), allow_missing_glyphs():
        yield


@contextmanager
def allow_missing_glyphs() -> Iterator[None]:
    """Say nothing of characters that no font has, which are drawn as empty boxes."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def list_fonts() -> list[str]:
    """Return the font of the style, and those of this machine for characters that it lacks."""
    installed = {font.name for font in font_manager.fontManager.ttflist}
    return [FONT, *(name for name in FALLBACK_FONTS if name in installed)]


def save_figure(figure: Figure, paths: Sequence[str | Path], full_page: bool = False) -> None:
    """Write a figure under each path, in the format that its suffix names, without a date in it.

    Args:
        full_page: Whether the page keeps its size; otherwise it is cropped to its content, which takes twice as long.
    """
    for path in map(Path, paths):
        form = path.suffix.removeprefix(".")
        metadata = {"Date": None} if form == "svg" else {}
        options = {"savefig.bbox": "standard"} if full_page else {}
        with replace_file(path) as temporary, use_style(**options):
            figure.savefig(temporary, format=form, metadata=metadata)


def select_items(tables: Mapping[str, pa.Table], profile: str, n: int, seed: int) -> list[tuple[str, str]]:
    """Return data sets and ids of the items to show: a seeded sample over all data sets.

    Args:
        tables: By data set, a table with the columns `item_id`, `profile` and `error`; items with an error are
            skipped.
    """
    items: dict[str, tuple[str, str]] = {}
    for dataset, table in tables.items():
        rows = table.select(["item_id", "profile", "error"]).filter(pc.field("profile") == profile).to_pylist()
        failed = {row["item_id"] for row in rows if row["error"] is not None}
        ids = sorted({row["item_id"] for row in rows} - failed)
        items |= {f"{dataset} {item_id}": (dataset, item_id) for item_id in ids}
    return [items[key] for key in sample(list(items), min(n, len(items)), seed)]


def select_items_of_profiles(
    tables: Mapping[str, pa.Table], profiles: Iterable[str], n: int, seed: int
) -> Iterator[tuple[str, int, str, str]]:
    """Yield profile, number from 1, data set and id of the items to show; the arguments are those of `select_items`."""
    for profile in profiles:
        for number, (dataset, item_id) in enumerate(select_items(tables, profile, n, seed), 1):
            yield profile, number, dataset, item_id


@contextmanager
def open_dataset_images(datasets: Iterable[str], folders: Iterable[str]) -> Iterator[LoadImage]:
    """Yield a function that loads an image of a data set, by their names.

    Args:
        folders: Their folders or archives of images; none for text tasks.
    """
    with ExitStack() as stack:
        by_dataset = dict(zip(datasets, folders, strict=False))
        sources = {folder: stack.enter_context(open_images(folder)) for folder in dict.fromkeys(by_dataset.values())}
        yield lambda dataset, name: load_image(sources[by_dataset[dataset]], name)


def save_examples(folder: str | Path, figures: Iterable[NamedFigure]) -> None:
    """Write figures into a new folder, each as SVG and PNG, with their titles in `index.json`."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    titles = {}
    for name, title, figure in figures:
        save_figure(figure, [folder / f"{name}.{form}" for form in ("svg", "png")], full_page=True)
        titles[name] = title
    write_text(folder / INDEX, json.dumps(titles, indent=1, ensure_ascii=False) + "\n")


def list_example_files(folder: str | Path) -> dict[str, str]:
    """Return the titles of a folder's figures by their SVG, in the order in which they were drawn."""
    index = Path(folder) / INDEX
    try:
        titles = json.loads(index.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{index}: index cannot be read ({error}); delete its folder and run again") from None
    return {str(index.with_name(f"{name}.svg")): title for name, title in titles.items()}
