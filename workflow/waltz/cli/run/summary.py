"""Summary at the end of a run of Snakemake: its headline table and files, skipped parts, and the
next commands.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path

import typer

from waltz.cli.commands.tables import choose_profile, print_headline, select_profile
from waltz.cli.output import create_console
from waltz.reporting.tables.cells import count_cells, read_cells, select_compared
from waltz.reporting.tables.declarations import TABLES

SHOWN_REASONS = 3
"""Largest number of skipped parts that are named with their reasons; of further parts only the
number is shown.
"""
SHOWN_TABLES = 3
"""Largest number of tables whose files are named; for more tables only their folder is named."""


def print_run_summary(
    study: str, skipped: Mapping[str, str], files: Iterable[str | Path]
) -> None:
    """Print to stderr a summary of a run; print nothing if the run was asked for neither a table
    nor the page nor an export.

    Args:
        study: Name of the study.
        skipped: Reason for each part that the study cannot run here, by its name.
        files: Files that the run was asked for, and files that these needed. Files of earlier runs
            are not shown.
    """
    paths = list(map(Path, files))
    _print_exports(paths)
    csvs: dict[str, Path] = {}
    page = None
    for path in paths:
        if path.match("tables/*.csv"):
            csvs[path.stem] = path
        elif path.name == "report.html":
            page = path
    # In the order of the report, whatever order the run had.
    csvs = {name: csvs[name] for name in TABLES if name in csvs}
    if not csvs and page is None:
        return
    console = create_console(stderr=True)
    tables = {name: read_cells([csv]) for name, csv in csvs.items()}
    if any(tables.values()):
        profile = choose_profile(None, tables, study)
        print_headline(select_profile(tables, profile), console)
    counts = count_cells("", select_compared(list(chain(*tables.values()))))
    if counts.compared:
        console.print(
            f"papers:  of {counts.compared:,} numbers that they print, {counts.describe()}"
        )
    if len(csvs) > SHOWN_TABLES:
        folder = next(iter(csvs.values())).parent
        console.print(f"tables:  {folder} ({len(csvs)} tables)")
    else:
        for csv in csvs.values():
            console.print(f"table:   {csv.with_suffix('.md')}")
    if page is not None:
        console.print(f"report:  {page}")
    console.print(f"skipped: {_describe_skipped(skipped)}")
    console.print(f"next:    {_suggest_commands(study, list(csvs), page is not None)}")


def _print_exports(paths: Iterable[Path]) -> None:
    """Print the folders of an export."""
    for path in paths:
        if path.match("export/*") and path.is_dir():
            typer.echo(f"export:  {path}", err=True)


def _suggest_commands(study: str, tables: Sequence[str], has_page: bool) -> str:
    """Return the commands that show the results of the run."""
    commands = []
    if has_page:
        commands.append(f"waltz report {study} --open")
    if len(tables) > SHOWN_TABLES:
        commands.append(f"waltz tables --study {study}")  # lists all tables
    elif tables:
        commands.append(f"waltz tables {' '.join(tables)} --study {study}")
    return "; ".join(commands)


def _describe_skipped(skipped: Mapping[str, str]) -> str:
    """Return the first skipped parts with their reasons, and the number of further parts; `nothing`
    without any.
    """
    lines = [f"{name} ({reason})" for name, reason in skipped.items()]
    n_others = len(lines) - SHOWN_REASONS
    if n_others > 0:
        lines = [*lines[:SHOWN_REASONS], f"{n_others} more"]
    return "; ".join(lines) or "nothing"
