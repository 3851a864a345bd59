"""The command `waltz tables`: the tables that a study built."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from waltz.cli.output import (
    create_console,
    find_newest_study,
    suggest_run,
)
from waltz.cli.run.checkout import DEFAULT_RESULTS, find_results
from waltz.core.errors import UserError, check_name, suggest_name

if TYPE_CHECKING:
    from rich.console import Console

    from waltz.reporting.tables.cells import Cell
    from waltz.reporting.tables.declaration import Declaration

app = typer.Typer(add_completion=False, rich_markup_mode=None)

HEADLINES = ("thesis-4.2", "thesis-4.3", "thesis-3.4", "thesis-C.25", "thesis-5.5")
"""Tables that may be the headline; the first one with averages over data sets is shown below the
list of tables.
"""


@app.command()
def tables_command(
    ids: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ID", help="Tables, such as thesis-4.2 or 4.2.", show_default=False
        ),
    ] = None,
    study: Annotated[
        str | None,
        typer.Option(
            help="Name of a study that was run; the newest run's if none is given."
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            help="Fidelity profile, published or equations; the study's first if none is given."
        ),
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option(help="Folder of results.", show_default=DEFAULT_RESULTS),
    ] = None,
    why: Annotated[
        bool, typer.Option(help="List the reasons of cells without a value or verdict.")
    ] = False,
) -> None:
    """List the tables that a study built and print its headline table, or print the tables that are
    named.
    """
    folder = find_results(results)
    study = study or find_newest_study(folder)
    tables = find_tables(folder, study)
    if not tables:
        raise UserError(
            f"{folder / study / 'reporting' / 'tables'} holds no tables{suggest_run(study, folder)}"
        )
    chosen = [_choose_table(name, list(tables)) for name in ids or ()]
    profile = choose_profile(profile, tables, study)
    # From here on, a table has only the cells of the profile that is shown.
    tables = select_profile(tables, profile)
    if chosen:
        _print_tables(chosen, tables, why)
    else:
        _list_tables(tables, study, profile)
        print_headline(tables, create_console())


def find_tables(results: Path, study: str) -> dict[str, list[Cell]]:
    """Return the cells of each table that a study has built, by its id, in the order of the
    declarations.
    """
    from waltz.reporting.tables.cells import read_cells
    from waltz.reporting.tables.declarations import TABLES

    folder = results / study / "reporting" / "tables"
    cells = {}
    for name in TABLES:
        file = folder / f"{name}.csv"
        if file.is_file():
            cells[name] = read_cells([file])
    return cells


def _choose_table(name: str, tables: Sequence[str]) -> str:
    """Return the id of a table from its full id or from the part after the name of its paper.

    Raises:
        UserError: No table or more than one table has this id.
    """
    from waltz.plan.table_entries import find_figure_table

    # `4.2` means `thesis-4.2`; it may fit tables of several papers.
    matches = [table for table in tables if f"-{table}".endswith(f"-{name}")]
    # The number of a figure is not that of a table.
    figure = find_figure_table(name, tables)
    if figure in matches:
        matches.remove(figure)
    if len(matches) == 1:
        return matches[0]
    advice = suggest_name(name, tables)
    if figure:
        advice = f" (the numbers of the figure are {figure!r})"
    if matches:
        advice = f" (it fits {' and '.join(matches)})"
    raise UserError(f"{name}: no such table{advice}; `waltz tables` lists them")


def choose_profile(
    profile: str | None, tables: dict[str, list[Cell]], study: str
) -> str:
    """Return the profile that is named, or the first profile of the tables if none is named.

    Raises:
        UserError: The tables do not have the profile.
    """
    all_cells = itertools.chain.from_iterable(tables.values())
    profiles = list(dict.fromkeys(cell.profile for cell in all_cells))
    if profile is None:
        return profiles[0]
    check_name("--profile", f"profile of study {study}", profile, profiles)
    return profile


def select_profile(
    tables: dict[str, list[Cell]], profile: str
) -> dict[str, list[Cell]]:
    """Return each table with its cells of one profile; a table may have none."""
    selected = {}
    for name, cells in tables.items():
        selected[name] = [cell for cell in cells if cell.profile == profile]
    return selected


def _list_tables(tables: dict[str, list[Cell]], study: str, profile: str) -> None:
    """Print the id and title of each table, and how many of its cells have a value or a text."""
    from rich.table import Table

    from waltz.reporting.tables.declarations import TABLES
    from waltz.reporting.tables.titles import name_data_sets

    listing = Table(
        "table",
        "title",
        "cells with a value",
        title=f"study {study}, {profile}",
        title_justify="left",
    )
    for name, cells in tables.items():
        # A table may lack cells in the profile that is shown.
        if cells:
            filled = sum(cell.value is not None or bool(cell.text) for cell in cells)
            title = name_data_sets(TABLES[name], cells).title
            listing.add_row(name, title, f"{filled} of {len(cells)}")
    create_console().print(listing)
    typer.echo("print one with: waltz tables ID\n")


def print_headline(tables: dict[str, list[Cell]], console: Console) -> None:
    """Print the averages over data sets of the first headline table that has them, with one row for
    each model, and one for chance.

    Args:
        tables: Cells of one profile by the id of their table.
        console: The console.
    """
    for name in HEADLINES:
        averages = _find_averages(tables.get(name, []))
        if averages:
            _print_averages(name, averages, console)
            return


def _find_averages(cells: Sequence[Cell]) -> dict[tuple[str, str], Cell]:
    """Return the averages over data sets that have a value, by model and metric."""
    averages = {}
    for cell in cells:
        if cell.dataset == "average" and cell.value is not None:
            averages[cell.model, cell.metric] = cell
    return averages


def _print_averages(
    name: str, averages: dict[tuple[str, str], Cell], console: Console
) -> None:
    from rich.table import Table

    from waltz.reporting.tables.declarations import TABLES, get_style
    from waltz.reporting.tables.formats import format_cell
    from waltz.reporting.tables.grid import get_chance

    models, measured_metrics = zip(*averages, strict=True)
    # Metrics in the order of the declaration; those without an average have no column.
    metrics = [metric for metric in TABLES[name].sources if metric in measured_metrics]
    headings = [get_style(metric).heading for metric in metrics]
    headline = Table(
        "model",
        *headings,
        title=f"{name}: averages over data sets",
        title_justify="left",
    )
    texts = {key: format_cell(cell, False) for key, cell in averages.items()}
    for model in dict.fromkeys(models):
        row = [texts.get((model, metric), "–") for metric in metrics]
        headline.add_row(model, *row)
    chances = {metric: get_chance(cell) for (_, metric), cell in averages.items()}
    if any(chance is not None for chance in chances.values()):
        headline.add_row(
            "chance", *(_format_chance(chances[metric]) for metric in metrics)
        )
    console.print(headline)


def _format_chance(chance: float | None) -> str:
    return "–" if chance is None else f"{chance:.1f}"


def _print_tables(
    names: Sequence[str], tables: dict[str, list[Cell]], why: bool
) -> None:
    from waltz.reporting.tables.declarations import TABLES
    from waltz.reporting.tables.formats import LEGEND
    from waltz.reporting.tables.titles import name_data_sets

    for name in names:
        declaration = name_data_sets(TABLES[name], tables[name])
        _print_table(declaration, tables[name], why)
    typer.echo(LEGEND)


def _print_table(declaration: Declaration, cells: list[Cell], why: bool) -> None:
    """Print a table in a form that fits a terminal: data sets are rows, and models without a value
    are omitted.

    Args:
        declaration: The table.
        cells: Its cells of one profile.
        why: Whether the reasons of cells are printed as well.
    """
    from waltz.reporting.tables.cells import group_cells
    from waltz.reporting.tables.formats import list_reasons

    # Metrics side by side fit as they are; else each metric is a table with models as columns.
    if declaration.columns == "metric":
        _print_grid(declaration, cells, declaration.title)
    else:
        cells_by_metric = group_cells(cells, "metric")
        for metric in declaration.sources:
            _print_metric(declaration, metric, cells_by_metric.get(metric, []))
    if why:
        for line in list_reasons(declaration, cells):
            typer.echo(f"  {line}")


def _print_metric(declaration: Declaration, metric: str, cells: list[Cell]) -> None:
    """Print the cells of one metric with one row for each data set, if a model has a value."""
    from waltz.reporting.tables.declarations import get_style

    # The same cells in another layout: the table is turned, and groups of columns are dropped.
    by_dataset = replace(
        declaration,
        rows=("dataset", "setting"),
        columns="model",
        column_groups=(),
        side_metrics=(),
    )
    measured = {cell.model for cell in cells if cell.value is not None}
    measured_cells = [cell for cell in cells if cell.model in measured]
    if measured_cells:
        title = f"{declaration.title}: {get_style(metric).heading}"
        _print_grid(by_dataset, measured_cells, title)


def _print_grid(declaration: Declaration, cells: list[Cell], title: str) -> None:
    from rich.table import Table

    from waltz.reporting.tables.formats import format_cell
    from waltz.reporting.tables.grid import lay_out_grid

    table_grid = lay_out_grid(declaration, cells)
    columns = [" ".join(filter(None, names)) for names in table_grid.columns]
    table = Table(
        "", *columns, title=f"{declaration.id}: {title}", title_justify="left"
    )
    # Intervals and n take much room; they are shown where a column is a model.
    is_full = declaration.columns == "model"
    for names, row in table_grid.rows:
        texts = []
        for marked in row:
            text = ""
            if marked is not None:
                text = format_cell(marked.cell, is_full)
            texts.append(text)
        table.add_row(" ".join(names), *texts)
    create_console().print(table)
