"""The command `waltz tables`: the tables that a study built."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from waltz.cli.output import create_console, find_newest_study, report_errors, suggest_run
from waltz.core.errors import UserError, build_name_error, find_closest

if TYPE_CHECKING:
    from rich.console import Console

    from waltz.reporting.tables.cells import Cell
    from waltz.reporting.tables.declaration import Declaration

app = typer.Typer(add_completion=False, rich_markup_mode=None)

HEADLINES = ("thesis-4.2", "thesis-4.3", "thesis-3.4", "thesis-C.25", "thesis-5.5")
"""Tables of which the first that has averages over data sets is shown below the list of tables."""


@app.command()
def tables_command(
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="ID", help="Tables, such as thesis-4.2 or 4.2.", show_default=False)
    ] = None,
    study: Annotated[
        str | None, typer.Option(help="Name of a study that was run; the newest run's if none is given.")
    ] = None,
    profile: Annotated[
        str | None, typer.Option(help="Fidelity profile, published or equations; the study's first if none is given.")
    ] = None,
    results: Annotated[Path, typer.Option(help="Folder of results.")] = Path("results"),
    why: Annotated[bool, typer.Option(help="List the reasons of cells without a value or verdict.")] = False,
) -> None:
    """List the tables that a study built and print its headline table, or print the tables that are named."""
    with report_errors():
        study = study or find_newest_study(results)
        tables = find_tables(results, study)
        if not tables:
            folder = results / study / "reporting" / "tables"
            raise UserError(f"{folder} holds no tables{suggest_run(study, results)}")
        chosen = [_choose_table(name, list(tables)) for name in ids or ()]
        profile = choose_profile(profile, tables, study)
    if chosen:
        _print_tables(chosen, tables, profile, why)
    else:
        _list_tables(tables, study, profile)
        print_headline(tables, profile, create_console())


def find_tables(results: Path, study: str) -> dict[str, list[Cell]]:
    """Return the cells of each table that a study has built, in the order in which tables are declared."""
    from waltz.reporting.tables.cells import read_cells
    from waltz.reporting.tables.declarations import TABLES

    folder = results / study / "reporting" / "tables"
    return {name: read_cells([file]) for name in TABLES if (file := folder / f"{name}.csv").is_file()}


def _choose_table(name: str, tables: Sequence[str]) -> str:
    """Return the table of an id, given in full or without the name of its paper."""
    matches = [table for table in tables if name == table or table.endswith(f"-{name}")]
    if len(matches) != 1:
        close = find_closest(name, tables)
        advice = f" (it fits {' and '.join(matches)})" if matches else f" (did you mean {close!r}?)" if close else ""
        raise UserError(f"{name}: no such table{advice}; `waltz tables` lists them")
    return matches[0]


def choose_profile(profile: str | None, tables: dict[str, list[Cell]], study: str) -> str:
    """Return the profile that is named, or the first of the tables."""
    profiles = list(dict.fromkeys(cell.profile for cells in tables.values() for cell in cells))
    if profile is not None and profile not in profiles:
        raise build_name_error("--profile", f"profile of study {study}", profile, profiles)
    return profile or profiles[0]


def _count_values(cells: Sequence[Cell], profile: str) -> tuple[int, int]:
    """Return how many cells of a profile have a value or a text, and how many there are."""
    in_profile = [cell for cell in cells if cell.profile == profile]
    return sum(cell.value is not None or bool(cell.text) for cell in in_profile), len(in_profile)


def _list_tables(tables: dict[str, list[Cell]], study: str, profile: str) -> None:
    from rich.table import Table

    from waltz.reporting.tables.declarations import TABLES

    listing = Table("table", "title", "cells with a value", title=f"study {study}, {profile}", title_justify="left")
    for name, cells in tables.items():
        values, total = _count_values(cells, profile)
        if total:
            listing.add_row(name, TABLES[name].title, f"{values} of {total}")
    create_console().print(listing)
    typer.echo("print one with: waltz tables ID\n")


def print_headline(tables: dict[str, list[Cell]], profile: str, console: Console) -> None:
    """Print the averages over data sets of the first headline table that has them, one model a row."""
    from rich.table import Table

    from waltz.reporting.tables.declarations import TABLES
    from waltz.reporting.tables.formats import format_cell

    for name in HEADLINES:
        averages = {
            (cell.model, cell.metric): cell
            for cell in tables.get(name, [])
            if (cell.profile, cell.dataset) == (profile, "average") and cell.value is not None
        }
        if averages:
            metrics = {
                metric: text for metric, text in TABLES[name].metrics.items() if metric in {key[1] for key in averages}
            }
            headline = Table("model", *metrics.values(), title=f"{name}: averages over data sets", title_justify="left")
            for model in dict.fromkeys(model for model, _ in averages):
                cells = [averages.get((model, metric)) for metric in metrics]
                headline.add_row(model, *("–" if cell is None else format_cell(cell, False) for cell in cells))
            console.print(headline)
            return


def _print_tables(names: Sequence[str], tables: dict[str, list[Cell]], profile: str, why: bool) -> None:
    from waltz.reporting.tables.declarations import TABLES
    from waltz.reporting.tables.formats import LEGEND

    for name in names:
        _print_table(TABLES[name], [cell for cell in tables[name] if cell.profile == profile], why)
    if names:
        typer.echo(LEGEND)


def _print_table(declaration: Declaration, cells: list[Cell], why: bool) -> None:
    """Print a table with data sets as rows, because a terminal is narrow, and without models that have no value."""
    from waltz.reporting.tables.formats import list_reasons

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
    from rich.table import Table

    from waltz.reporting.tables.formats import format_cell
    from waltz.reporting.tables.grid import lay_out_grid

    table_grid = lay_out_grid(declaration, cells)
    columns = (" ".join(filter(None, names)) for names in table_grid.columns)
    table = Table("", *columns, title=f"{declaration.id}: {title}", title_justify="left")
    is_full = declaration.columns == "model"
    for names, row in table_grid.rows:
        table.add_row(" ".join(names), *("" if marked is None else format_cell(marked.cell, is_full) for marked in row))
    create_console().print(table)
