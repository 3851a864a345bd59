"""A table's four files."""

from collections.abc import Sequence
from typing import Protocol

from waltz.core.files.atomic import write_text
from waltz.reporting.tables.cells import Cell, to_csv
from waltz.reporting.tables.declaration import Declaration
from waltz.reporting.tables.latex import latex
from waltz.reporting.tables.layouts import html_page, markdown


class TableFiles(Protocol):
    """Where a table's forms go."""

    csv: str
    md: str
    tex: str
    html: str


def write_table(declaration: Declaration, cells: Sequence[Cell], files: TableFiles) -> None:
    """Write a table as CSV, Markdown, LaTeX and HTML."""
    write_text(files.csv, to_csv(cells))
    write_text(files.md, markdown(declaration, cells))
    write_text(files.tex, latex(declaration, cells))
    write_text(files.html, html_page(declaration, cells))
