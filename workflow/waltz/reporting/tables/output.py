"""A table's four files."""

from collections.abc import Sequence
from typing import Protocol

from waltz.core.files.atomic import write_text
from waltz.reporting.tables.cells import Cell, format_csv
from waltz.reporting.tables.declaration import Declaration
from waltz.reporting.tables.latex import format_latex
from waltz.reporting.tables.layouts import format_html_page, format_markdown


class TableFiles(Protocol):
    """Where a table's forms go."""

    csv: str
    md: str
    tex: str
    html: str


def write_table(declaration: Declaration, cells: Sequence[Cell], files: TableFiles) -> None:
    """Write a table as CSV, Markdown, LaTeX and HTML."""
    write_text(files.csv, format_csv(cells))
    write_text(files.md, format_markdown(declaration, cells))
    write_text(files.tex, format_latex(declaration, cells))
    write_text(files.html, format_html_page(declaration, cells))
