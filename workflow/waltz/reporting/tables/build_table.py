"""One table, built from the result files of a study and written in four formats."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from waltz.core.files.atomic import write_text
from waltz.reporting.tables.cells import COMPARED_PROFILE, Cell, format_csv
from waltz.reporting.tables.compare_to_paper import build_cells
from waltz.reporting.tables.declaration import Declaration
from waltz.reporting.tables.derived import derive_numbers, derive_paper_averages
from waltz.reporting.tables.latex import format_latex
from waltz.reporting.tables.layouts import format_html_page, format_markdown
from waltz.reporting.tables.numbers import StudyFacts, read_numbers
from waltz.reporting.tables.paper_values import Key, PaperValue, read_paper_values


class TableFiles(Protocol):
    """Paths of a table's four files."""

    csv: str
    md: str
    tex: str
    html: str


def build_table(
    declaration: Declaration,
    files: Mapping[str, Sequence[str]],
    paper_tables: Sequence[str | Path],
    profiles: Sequence[str],
    study: StudyFacts,
) -> list[Cell]:
    """Return all cells of a table, profile by profile.

    Args:
        declaration: The table.
        files: The study's result files by kind.
        paper_tables: CSV files of the paper tables that it is compared with.
        profiles: Profiles of the study.
        study: Models, and whether the study is compared with the papers.
    Raises:
        UserError: A file is missing or broken.
    """
    paper_values = read_paper_cells(declaration, paper_tables)
    if declaration.profile_independent:
        profiles = [COMPARED_PROFILE if COMPARED_PROFILE in profiles else profiles[0]]
    cells = []
    for profile in profiles:
        numbers = derive_numbers(declaration, read_numbers(files, profile), paper_values, profile, study)
        cells += build_cells(declaration, profile, numbers, paper_values, study)
    return cells


def read_paper_cells(declaration: Declaration, paper_tables: Sequence[str | Path]) -> dict[Key, PaperValue]:
    """Return the paper values that a table is compared with."""
    paper_values: dict[Key, PaperValue] = {}
    for file in paper_tables:
        paper_values |= read_paper_values(file)
    return derive_paper_averages(paper_values) if "rescaled" in declaration.derived else paper_values


def write_table(declaration: Declaration, cells: Sequence[Cell], files: TableFiles) -> None:
    """Write a table as CSV, Markdown, LaTeX and HTML."""
    write_text(files.csv, format_csv(cells))
    write_text(files.md, format_markdown(declaration, cells))
    write_text(files.tex, format_latex(declaration, cells))
    write_text(files.html, format_html_page(declaration, cells))
