"""A table from the files of a study."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from waltz.reporting.tables.cells import JOINED_PROFILE, Cell
from waltz.reporting.tables.compare_to_paper import Study, join
from waltz.reporting.tables.declaration import Declaration
from waltz.reporting.tables.derived import derived, printed_averages
from waltz.reporting.tables.numbers import read_numbers
from waltz.reporting.tables.paper_values import Key, Printed, read_published


def make_table(
    declaration: Declaration,
    files: Mapping[str, Sequence[str]],
    published: Sequence[str | Path],
    profiles: Sequence[str],
    study: Study,
) -> list[Cell]:
    """All cells of a table, profile by profile.

    Args:
        declaration: The table.
        files: Files of numbers by kind, those that the study has.
        published: CSV files of the published tables that it is compared with.
        profiles: Those of the study.
        study: Models, and whether the study is compared with print.
    Raises:
        UserError: A file is missing or broken.
    """
    printed = printed_cells(declaration, published)
    cells = []
    shown = [next((name for name in profiles if name == JOINED_PROFILE), profiles[0])] if declaration.once else profiles
    for profile in shown:
        numbers = derived(declaration, read_numbers(files, profile), printed, profile, study)
        cells += join(declaration, profile, numbers, printed, study)
    return cells


def printed_cells(declaration: Declaration, published: Sequence[str | Path]) -> dict[Key, Printed]:
    """The cells that a table is compared with."""
    printed: dict[Key, Printed] = {}
    for file in published:
        printed |= read_published(file)
    return printed_averages(printed) if "rescaled" in declaration.derived else printed
