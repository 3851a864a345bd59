"""The command `waltz preflight`: check what a study needs before anything big is downloaded."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from contextlib import chdir
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from waltz.cli.output import check_outputs, create_console
from waltz.cli.run.checkout import (
    CONFIG,
    find_checkout,
    find_fault,
    find_files_of_studies,
    locate_study,
    start_snakemake,
)

if TYPE_CHECKING:
    from waltz.plan.plan import Plan
    from waltz.preflight.checks import Check

app = typer.Typer(add_completion=False, rich_markup_mode=None)
TIMEOUT_SECONDS = 30.0
HOURS_OF_DAY = 24


@app.command()
def preflight_command(
    studies: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="STUDY",
            help="A study or its file; of several files, later ones win.",
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--json", help="File for the checks as JSON.")
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            help="Folder of Snakemake's profile; $SNAKEMAKE_PROFILE if none is given."
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option(min=1, help="Seconds that servers have to answer.")
    ] = TIMEOUT_SECONDS,
) -> None:
    """Check files, models, disk, GPUs and scheduler of a study before it runs; exit with 1 if
    something would fail.
    """
    from waltz.plan.read_study import DEFAULT

    check_outputs(json=output)
    # Paths are made absolute before the folder changes to the checkout.
    target = output.resolve() if output else None
    located = list(map(locate_study, studies or [DEFAULT]))
    with chdir(find_checkout()):
        checks = _check(located, profile, timeout)
    if target:
        _write_json(target, checks)
    _print_checks(checks)
    if any(check.state == "failure" for check in checks):
        raise typer.Exit(1)


def _check(studies: Sequence[str], profile: str | None, timeout: float) -> list[Check]:
    from waltz.plan.build_plan import build_plan
    from waltz.plan.read_study import read_study_files
    from waltz.preflight.machine import find_profile
    from waltz.preflight.run import run_preflight

    files = find_files_of_studies(studies)
    plan = build_plan(read_study_files(files, CONFIG))
    checks = run_preflight(plan, find_profile(profile), timeout)
    return [*checks, *_check_work(files, plan)]


def _check_work(files: Sequence[Path], plan: Plan) -> list[Check]:
    """Return a check with the number of jobs and estimated GPU hours of each stage, or one failed
    check for a fault.
    """
    from waltz.plan.costs import compute_costs
    from waltz.plan.run_table import STAGES
    from waltz.preflight.checks import Check, State
    from waltz.preflight.machine import count_jobs_by_rule

    # Snakemake itself says which jobs are left, since it knows what was run before.
    run = start_snakemake(
        ["--dry-run", "--quiet", "--configfile", *map(str, files)],
        Path.cwd(),
        quiet=True,
    )
    if run.returncode:
        return [
            Check(
                "work",
                "snakemake --dry-run",
                State.FAILURE,
                f"{find_fault(run.stderr)}; correct it",
            )
        ]
    jobs = count_jobs_by_rule(run.stdout + run.stderr, Path("rules"))
    costs = compute_costs(plan)
    checks = []
    for stage, count in jobs.items():
        finding = f"{count:,} jobs"
        # Only stages with model runs have estimated costs; a stage may have several steps.
        if stage in STAGES:
            hours = sum(cost.hours for cost in costs if cost.step in STAGES[stage])
            finding += f", {hours:,.0f} GPU hours"
        checks.append(Check("work", stage, State.OK, finding))
    finding = _describe_total(sum(jobs.values()), sum(cost.hours for cost in costs))
    checks.append(Check("work", "total", State.OK, finding))
    return checks


def _describe_total(n_jobs: int, hours: float) -> str:
    """Return the number of jobs, the GPU hours of a study, and the days that they take on one and
    on two GPUs.
    """
    total = f"{n_jobs:,} jobs, {hours:,.0f} GPU hours"
    days = hours / HOURS_OF_DAY
    # Hours need no days where they are few.
    if days < 1:
        return total
    return f"{total}: {days:,.0f} days of one GPU, {days / 2:,.0f} days of two"


def _write_json(file: Path, checks: Sequence[Check]) -> None:
    from waltz.core.files.atomic import write_text

    write_text(
        file,
        json.dumps([asdict(check) for check in checks], indent=2, ensure_ascii=False)
        + "\n",
    )


def _print_checks(checks: Sequence[Check]) -> None:
    """Print all checks in the order of `State`, the worst last, and the number of checks in each
    state.
    """
    from rich.table import Table

    from waltz.preflight.checks import State

    table = Table("state", "what", "name", "found; what to do")
    # States are declared from the best to the worst; checks of one state keep their order.
    states = list(State)
    for check in sorted(checks, key=lambda check: states.index(check.state)):
        table.add_row(check.state.value, check.subject, check.name, check.finding)
    create_console().print(table)
    n_checks = Counter(check.state for check in checks)
    counts = [f"{n_checks[state]} {state.value}" for state in State]
    typer.echo(f"preflight: {', '.join(counts)}")
