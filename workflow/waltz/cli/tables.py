"""The command `waltz tables`: the tables that a study built."""

import difflib
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from waltz.cli.output import create_console, report_errors
from waltz.core.errors import UserError
from waltz.reporting.tables.cells import Cell, read_cells
from waltz.reporting.tables.declaration import Declaration
from waltz.reporting.tables.declarations import TABLES
from waltz.reporting.tables.formats import LEGEND, format_cell, list_reasons
from waltz.reporting.tables.grid import lay_out_grid

app = typer.Typer(add_completion=False)


@app.command()
def tables_command(
    study: Annotated[str, typer.Option(help="Name of a study that was run.")] = "valse",
    profile: Annotated[str, typer.Option(help="Fidelity profile: published or equations.")] = "published",
    results: Annotated[Path, typer.Option(help="Folder of results.")] = Path("results"),
    why: Annotated[bool, typer.Option(help="List the reasons of cells without a value or verdict.")] = False,
) -> None:
    """Print the tables that a study built."""
    folder = results / study / "reporting" / "tables"
    files = [file for name in TABLES if (file := folder / f"{name}.csv").is_file()]
    with report_errors():
        if not files:
            built = sorted(path.parts[-3] for path in results.glob("*/reporting/tables"))
            close = _suggest(study, built)
            raise UserError(f"{folder} holds no tables{close}; run: snakemake --cores 2 --config study={study}")
        for file in files:
            cells = read_cells([file])
            profiles = list(dict.fromkeys(cell.profile for cell in cells))
            declaration = TABLES[file.stem]
            if not cells or (declaration.profile_independent and profile not in profiles):
                continue
            if profile not in profiles:
                close = _suggest(profile, profiles)
                raise UserError(f"{file} has no profile {profile!r}{close}; it has {', '.join(profiles)}")
            _print_table(declaration, [cell for cell in cells if cell.profile == profile], why)
    typer.echo(LEGEND)


def _print_table(declaration: Declaration, cells: list[Cell], why: bool) -> None:
    """Print a table with data sets as rows, because a terminal is narrow, and without models that have no value."""
    if declaration.columns == "metric":
        _print_grid(declaration, cells, declaration.title)
    else:
        by_dataset = replace(
            declaration, rows=("dataset", "setting"), columns="model", column_groups=(), side_metrics=()
        )
        for metric, heading in declaration.metrics.items():
            metric_cells = [cell for cell in cells if cell.metric == metric]
            measured = {cell.model for cell in metric_cells if cell.value is not None}
            if measured:
                measured_cells = [cell for cell in metric_cells if cell.model in measured]
                _print_grid(by_dataset, measured_cells, f"{declaration.title}: {heading}")
    if why:
        for line in list_reasons(declaration, cells):
            typer.echo(f"  {line}")


def _print_grid(declaration: Declaration, cells: list[Cell], title: str) -> None:
    table_grid = lay_out_grid(declaration, cells)
    columns = (" ".join(filter(None, names)) for names in table_grid.columns)
    table = Table("", *columns, title=f"{declaration.id}: {title}", title_justify="left")
    is_full = declaration.columns == "model"
    for names, row in table_grid.rows:
        table.add_row(" ".join(names), *("" if marked is None else format_cell(marked.cell, is_full) for marked in row))
    create_console().print(table)


def _suggest(name: str, names: list[str]) -> str:
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f" (did you mean {close[0]!r}?)" if close and close[0] != name else ""
