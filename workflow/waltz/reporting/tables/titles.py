"""Titles of tables and charts, which name the data sets of a study that are not VALSE's."""

import re
from collections.abc import Iterable
from dataclasses import replace

from waltz.core.errors import list_names
from waltz.reporting.tables.cells import SYNTHETIC_DATA, Cell
from waltz.reporting.tables.declaration import AVERAGE, Declaration
from waltz.valse_release import RELEASE

PAPER_DATA = "VALSE"
"""Word in a declared title that stands for the data sets of the paper."""
DATA_IN_TITLE = re.compile(rf"\b(on|over) {PAPER_DATA}\b")
MOST_NAMES = 4
"""Number of names that fit into a title."""


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
    if not DATA_IN_TITLE.search(title):
        return title
    measured = [cell for cell in cells if cell.value is not None]
    datasets = list(dict.fromkeys(cell.dataset for cell in measured))
    # All cells of a study with synthetic data have this reason.
    paper_datasets = {*RELEASE, AVERAGE}
    if SYNTHETIC_DATA in {cell.reason for cell in measured}:
        paper_datasets = {AVERAGE}
    names = [dataset for dataset in datasets if dataset not in paper_datasets]
    if not names:
        return title
    if paper_datasets.intersection(datasets) - {AVERAGE}:
        names = [PAPER_DATA, *names]
    data = list_names(names, "and")
    if len(names) > MOST_NAMES:
        data = f"{len({*datasets} - {AVERAGE})} data sets"
    return title.replace(PAPER_DATA, data)
