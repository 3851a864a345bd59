"""The command `waltz plan`: the runs of a study with their files, and what is skipped and why."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from contextlib import chdir
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Annotated

import typer

from waltz.cli.output import create_console
from waltz.cli.run.checkout import (
    CONFIG,
    find_checkout,
    find_files_of_studies,
    is_study_file,
    locate_study,
)

if TYPE_CHECKING:
    from waltz.plan.overview import OverviewRow

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def plan_command(
    study: Annotated[str, typer.Argument(help="A study of config/, or its file.")],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the table as JSON, one object a run.")
    ] = False,
) -> None:
    """Print each model run that a study plans: its stage, data set, shards and file, or why it is
    skipped.
    """
    # A file is relative to the current folder, so its path is made absolute before the folder
    # changes.
    located = locate_study(study)
    with chdir(find_checkout()):
        rows, jobs = _build_rows(located)
    if as_json:
        typer.echo(json.dumps(list(map(asdict, rows)), indent=2, ensure_ascii=False))
    else:
        _print_rows(rows)
        _print_counts(located, rows, jobs)


def _build_rows(name: str) -> tuple[list[OverviewRow], Mapping[str, int]]:
    """Return the runs of a study as rows and the number of jobs of each step that run a model; the
    study's key `only` may select some of the runs.
    """
    from waltz.plan.build_plan import build_plan
    from waltz.plan.overview import build_overview, count_model_jobs
    from waltz.plan.read_study import read_study_files
    from waltz.reporting.selection import select_only

    study = read_study_files(find_files_of_studies([name]), CONFIG)
    plan = select_only(build_plan(study))
    return build_overview(study, plan), count_model_jobs(plan)


def _print_rows(rows: Sequence[OverviewRow]) -> None:
    from rich.table import Table

    from waltz.plan.overview import OverviewRow

    # One column for each field of the rows, under its name.
    columns = [
        field.name.replace("dataset", "data set") for field in fields(OverviewRow)
    ]
    table = Table(*columns)
    for row in rows:
        table.add_row(*asdict(row).values())
    create_console().print(table)


def _print_counts(
    study: str, rows: Sequence[OverviewRow], jobs: Mapping[str, int]
) -> None:
    """Print the number of jobs that run models, how to count all jobs, and the number of runs."""
    study_option = ["--config", f"study={study}"]
    if is_study_file(study):
        study_option = ["--configfile", study]
    command = shlex.join(["snakemake", "--dry-run", "--quiet", *study_option])
    counts = {**jobs, "total": sum(jobs.values())}
    listing = ", ".join(f"{step} {count:,}" for step, count in counts.items())
    typer.echo(f"jobs that run models: {listing}; jobs of all rules: {command}")
    # A run with a reason is skipped.
    skipped = sum(bool(row.reason) for row in rows)
    typer.echo(
        f"{len(rows) - skipped} runs, {skipped} skipped; run them with snakemake, see their state: waltz status"
    )
