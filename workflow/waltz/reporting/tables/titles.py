"""Titles of tables and charts, which name the data sets of a study that are not VALSE's."""

from collections.abc import Iterable
from dataclasses import replace

from waltz.core.errors import list_names
from waltz.reporting.tables.cells import SYNTHETIC_DATA, Cell
from waltz.reporting.tables.declaration import AVERAGE, Declaration
from waltz.valse_release import RELEASE

PAPER_DATA = "VALSE"
"""Word in a declared title that stands for the data sets of the paper."""
MOST_NAMES = 4
"""Number of names that fit into a title; of more, it says the number."""


def name_data_sets(declaration: Declaration, cells: Iterable[Cell]) -> Declaration:
    """Return a declaration whose title names the data sets that the study has numbers on.

    Args:
        declaration: The table.
        cells: Its cells of all profiles.
    """
    title = name_data_sets_in_title(declaration.title, cells)
    return replace(declaration, title=title)


def name_data_sets_in_title(title: str, cells: Iterable[Cell]) -> str:
    """Return a title that names the data sets that the study has numbers on.

    Those of the paper are called VALSE, except synthetic ones with the same names.

    Args:
        title: Title of a table or chart; stays unless it says "on VALSE" or "over VALSE".
        cells: Cells of the table, or of all tables of the chart.
    """
    if f"on {PAPER_DATA}" not in title and f"over {PAPER_DATA}" not in title:
        return title
    measured = [
        cell for cell in cells if cell.value is not None and cell.dataset != AVERAGE
    ]
    datasets = list(dict.fromkeys(cell.dataset for cell in measured))
    new_datasets = datasets
    # All cells of a study with synthetic data have this reason.
    if SYNTHETIC_DATA not in {cell.reason for cell in measured}:
        new_datasets = [dataset for dataset in datasets if dataset not in RELEASE]
    if not new_datasets:
        return title
    names = new_datasets
    if len(new_datasets) < len(datasets):
        names = [PAPER_DATA, *new_datasets]
    if len(datasets) > MOST_NAMES:
        return title.replace(PAPER_DATA, f"{len(datasets)} data sets")
    return title.replace(PAPER_DATA, list_names(names, "and"))
