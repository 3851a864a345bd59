"""The command `waltz status`: what of a study is done, runs, is skipped, or failed."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from contextlib import chdir
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from waltz.cli.output import create_console, find_newest_study, report_errors, suggest_run
from waltz.cli.run.checkout import find_checkout, start_snakemake
from waltz.core.errors import UserError

if TYPE_CHECKING:
    from waltz.core.run_lock import StudyRun
    from waltz.reporting.progress import Progress

app = typer.Typer(add_completion=False, rich_markup_mode=None)
STUDY_SUFFIXES = (".yaml", ".yml")
CONFIG = Path("config")
RESULTS = Path("results")


@app.command()
def status_command(
    study: Annotated[
        str | None, typer.Argument(help="A study, or its file; the one that was run last if none is given.")
    ] = None,
) -> None:
    """Print what of a study is done, runs, is skipped (and why), or failed (with the last line of its log)."""
    if study and Path(study).suffix in STUDY_SUFFIXES:
        study = str(Path(study).resolve())
    with report_errors(), chdir(find_checkout()):
        from waltz.core.run_lock import read_last_run
        from waltz.plan.plan import Plan
        from waltz.plan.read_study import read_study_files
        from waltz.reporting.progress import find_progress

        files = _find_files(study)
        plan = Plan.from_study(read_study_files(files, CONFIG))
        name = plan.study.study
        run = read_last_run(name)
        targets = list(run.targets) if run else []
        options = _name_study(name, files)
        summary = _read_summary([*options, "--summary", "--", *targets])
        progress = find_progress(summary, Path(plan.results), Path("logs") / name, run)
        _print_run(f"{name} ({', '.join([*map(str, files), *targets])})", progress, run)
        _print_progress(progress, plan.skipped)
        _print_advice(name, shlex.join(["snakemake", "--cores", "all", *options]), targets, progress, run)


def _find_files(study: str | None) -> list[Path]:
    """Return the files of a study: one that is named, those of its last run, or that of its name."""
    from waltz.core.run_lock import find_last_study, read_last_run

    if study and Path(study).suffix in STUDY_SUFFIXES:
        return [Path(study)]
    name = study or find_last_study() or find_newest_study(RESULTS)
    run = read_last_run(name)
    for files in ([Path(file) for file in run.files] if run else [], [CONFIG / f"{name}.yaml"]):
        if files and all(file.is_file() for file in files):
            return [file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file for file in files]
    raise UserError(f"study {name!r} has no file in config/ and was not run here{suggest_run(name, RESULTS)}")


def _name_study(name: str, files: list[Path]) -> list[str]:
    """Return the options that name a study to Snakemake."""
    is_named = [file.resolve() for file in files] == [(CONFIG / f"{name}.yaml").resolve()]
    return ["--config", f"study={name}"] if is_named else ["--configfile", *map(str, files)]


def _read_summary(arguments: list[str]) -> str:
    """Return the files of a study as Snakemake sees them."""
    result = start_snakemake(arguments, Path.cwd(), quiet=True)
    if result.returncode:
        lines = [line.strip() for line in result.stderr.splitlines() if line.strip()]
        raise UserError(f"{shlex.join(['snakemake', *arguments])}: failed: {lines[-1] if lines else 'no message'}")
    return result.stdout


def _print_run(title: str, progress: Progress, run: StudyRun | None) -> None:
    if run and run.goes_on:
        state = f"running ({run.owner})"
    elif all(stage.done == stage.files for stage in progress.stages):
        state = "done"
    else:
        state = f"not done; its last run ended ({run.owner})" if run else "not run yet"
    typer.echo(f"study {title}: {state}")


def _print_progress(progress: Progress, skipped: Mapping[str, str]) -> None:
    from rich.table import Table

    table = Table("stage", "files done", "of")
    for stage in progress.stages:
        table.add_row(stage.stage, str(stage.done), str(stage.files))
    create_console().print(table)
    for job in progress.running:
        typer.echo(f"running  {job.name} ({job.log})")
    for job in progress.failed:
        typer.echo(f"failed   {job.name}: {job.line} ({job.log})")
    for name, reason in skipped.items():
        typer.echo(f"skipped  {name}: {reason}")


def _print_advice(name: str, command: str, targets: list[str], progress: Progress, run: StudyRun | None) -> None:
    """Print how to see the results of a study that is done, or the command that continues it."""
    if all(stage.done == stage.files for stage in progress.stages):
        if targets:
            typer.echo(f"next     {command} (all tables and the report)")
        else:
            typer.echo(f"next     waltz report {name} --open; waltz tables --study {name}")
    elif run is None or not run.goes_on:
        unlock = "snakemake --unlock && " if any(Path(".snakemake/locks").glob("*.lock")) else ""
        typer.echo(f"next     {unlock}{command}{' '.join(['', '--', *targets]) if targets else ''}")
