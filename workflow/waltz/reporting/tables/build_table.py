"""A table from the files of a study."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from waltz.reporting.tables.cells import COMPARED_PROFILE, Cell
from waltz.reporting.tables.compare_to_paper import StudyFacts, build_cells
from waltz.reporting.tables.declaration import Declaration
from waltz.reporting.tables.derived import derive_numbers, derive_paper_averages
from waltz.reporting.tables.numbers import read_numbers
from waltz.reporting.tables.paper_values import Key, PaperValue, read_paper_values


def build_table(
    declaration: Declaration,
    files: Mapping[str, Sequence[str]],
    published: Sequence[str | Path],
    profiles: Sequence[str],
    study: StudyFacts,
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
    printed = read_paper_cells(declaration, published)
    cells = []
    shown = (
        [next((name for name in profiles if name == COMPARED_PROFILE), profiles[0])] if declaration.once else profiles
    )
    for profile in shown:
        numbers = derive_numbers(declaration, read_numbers(files, profile), printed, profile, study)
        cells += build_cells(declaration, profile, numbers, printed, study)
    return cells


def read_paper_cells(declaration: Declaration, published: Sequence[str | Path]) -> dict[Key, PaperValue]:
    """The cells that a table is compared with."""
    printed: dict[Key, PaperValue] = {}
    for file in published:
        printed |= read_paper_values(file)
    return derive_paper_averages(printed) if "rescaled" in declaration.derived else printed
