"""The command `waltz status`: the parts of a study that are done, run, are skipped, or failed."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from contextlib import chdir
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from waltz.cli.output import create_console, find_newest_study
from waltz.cli.run.checkout import (
    CONFIG,
    find_checkout,
    find_fault,
    is_study_file,
    locate_study,
    start_snakemake,
)
from waltz.core.errors import UserError, suggest_or_list
from waltz.core.files.resources import shorten_path

if TYPE_CHECKING:
    from waltz.core.jobs.run_lock import StudyRun
    from waltz.reporting.progress import Progress

app = typer.Typer(add_completion=False, rich_markup_mode=None)
RESULTS = Path("results")
COPIED = (
    "copied   {} holds files that were made in another place, or by other files than those here: a run makes again what"
    " is not done; to take all as they are: snakemake --touch --cores 1 {}"
)
"""Line about results that no run here made."""
MINUTE = timedelta(minutes=1)
HOUR = 60
"""Minutes of an hour."""


@app.command()
def status_command(
    study: Annotated[
        str | None,
        typer.Argument(
            help="A study, or its file; the one that was run last if none is given."
        ),
    ] = None,
    brief: Annotated[
        bool,
        typer.Option(
            "--brief", help="Print one line about the last run, from its log."
        ),
    ] = False,
) -> None:
    """Print what of a study is done, runs, is skipped (and why), or failed (with the last line of
    its log).
    """
    if study:
        study = locate_study(study)
    if brief:
        _print_last_run(study)
        return
    with chdir(find_checkout()):
        from waltz.core.jobs.run_lock import read_last_run
        from waltz.plan.build_plan import build_plan
        from waltz.plan.read_study import read_study_files
        from waltz.reporting.progress import find_progress

        files = _find_files(study)
        plan = build_plan(read_study_files(files, CONFIG))
        name = plan.study.study
        run = read_last_run(name)
        # The last run may have been asked for a part of the study; its files are those that count.
        targets = list(run.targets) if run else []
        options = _name_study(name, files)
        # Snakemake decides which files are up to date; the logs say which jobs run or failed.
        summary = _read_summary([*options, "--summary", "--", *targets])
        progress = find_progress(summary, Path(plan.results), Path("logs") / name, run)
        origin = ", ".join([*map(str, files), *targets])
        typer.echo(f"study {name} ({origin}): {_describe_state(progress, run)}")
        _print_progress(progress, plan.skipped)
        has_other_maker = run is None or _was_copied(run)
        if has_other_maker and any(stage.outdated for stage in progress.stages):
            typer.echo(COPIED.format(plan.results, shlex.join(options)))
        _print_advice(
            name,
            shlex.join(["snakemake", "--cores", "all", *options]),
            targets,
            progress,
            run,
        )


def _print_last_run(study: str | None) -> None:
    """Print one line about the last run of a study, without reading its plan.

    Raises:
        UserError: The study was not run in this checkout.
    """
    from waltz.core.jobs.run_lock import (
        SNAKEMAKE_FOLDER,
        find_last_study,
        read_last_run,
    )

    folder = find_checkout() / SNAKEMAKE_FOLDER
    # The file of a study has its name.
    name = Path(study).stem if study else find_last_study(folder)
    run = read_last_run(name, folder)
    if run is None:
        raise UserError(
            f"study {name!r}: --brief finds no run of it here; leave out --brief"
        )
    state = "ended"
    if run.may_go_on:
        state = _describe_run(run)
    counts = _describe_jobs(run)
    typer.echo(f"{name}: {state}{counts} ({run.owner})")


def _describe_jobs(run: StudyRun) -> str:
    """Return the numbers of jobs of a run and the time left, from its log; empty without a log."""
    from waltz.snakemake_compat import read_logged_jobs

    log = Path(next(iter(run.logs), ""))
    if not log.is_file():
        return ""
    jobs = read_logged_jobs(log.read_text(encoding="utf-8", errors="replace"))
    text = f", {jobs.done} of {jobs.total} jobs done, {jobs.failed} failed"
    if not run.goes_on:
        return text
    rules = ", ".join(dict.fromkeys(jobs.running))
    text += f", {len(jobs.running)} running"
    if rules:
        text += f" ({rules})"
    if not jobs.done:
        return text
    # Elapsed time per finished job, which takes into account that several jobs run at once.
    elapsed = datetime.now() - run.since
    n_left = max(0, jobs.total - jobs.done - jobs.failed)
    minutes = round(elapsed / jobs.done * n_left / MINUTE)
    if minutes < HOUR:
        return f"{text}, about {minutes} min left"
    return f"{text}, about {minutes // HOUR} h {minutes % HOUR} min left"


def _find_files(study: str | None) -> list[Path]:
    """Return the files of a study.

    They are the file that is named, else the files of the study's last run, else the file of its
    name in config/.

    Args:
        study: Name or file of a study; None for the study that was run last.
    Raises:
        UserError: The study has no file.
    """
    from waltz.core.jobs.run_lock import find_last_study, read_last_run

    if study and is_study_file(study):
        return [Path(study)]
    name = study or find_last_study() or find_newest_study(RESULTS)
    named_file = CONFIG / f"{name}.yaml"
    run = read_last_run(name)
    is_from_here = run is not None and not _was_copied(run)
    if not is_from_here and named_file.is_file():
        return [named_file]
    run_files = _list_run_files(run)
    if run_files:
        return run_files
    if named_file.is_file():
        return [named_file]
    studies = sorted(file.stem for file in CONFIG.glob("*.yaml"))
    raise UserError(
        f"study {name!r} has no file in config/ and was not run here{suggest_or_list(name, studies)}"
    )


def _list_run_files(run: StudyRun | None) -> list[Path]:
    """Return the files of a study's last run; none if some were deleted or moved since."""
    if run is None:
        return []
    files = [Path(file) for file in run.files]
    if not all(map(Path.is_file, files)):
        return []
    return [shorten_path(file, Path.cwd()) for file in files]


def _was_copied(run: StudyRun) -> bool:
    """Return whether a run was recorded in another checkout, and its record was copied to this one."""
    for file in map(Path, run.files):
        is_gone = not file.is_file()
        is_of_checkout = (file.absolute().parents[1] / "Snakefile").is_file()
        if not file.absolute().is_relative_to(Path.cwd()) and (
            is_gone or is_of_checkout
        ):
            return True
    return False


def _name_study(name: str, files: list[Path]) -> list[str]:
    """Return the options that name a study to Snakemake."""
    # A study with its own file in config/ can be named; others are passed as files.
    named_file = CONFIG / f"{name}.yaml"
    if list(map(Path.resolve, files)) == [named_file.resolve()]:
        return ["--config", f"study={name}"]
    return ["--configfile", *map(str, files)]


def _read_summary(arguments: list[str]) -> str:
    """Return the output of `snakemake --summary`, which lists the files of a study.

    Raises:
        UserError: Snakemake failed.
    """
    result = start_snakemake(arguments, Path.cwd(), quiet=True)
    if result.returncode:
        raise UserError(
            f"{shlex.join(['snakemake', *arguments])}: failed: {find_fault(result.stderr)}"
        )
    return result.stdout


def _describe_state(progress: Progress, run: StudyRun | None) -> str:
    if run is None:
        return "done" if _is_done(progress) else "not run yet"
    if run.may_go_on:
        return f"{_describe_run(run)} ({run.owner})"
    if _is_done(progress):
        return "done"
    return f"not done; its last run ended ({run.owner})"


def _describe_run(run: StudyRun) -> str:
    """Return the state of a run that goes on, or may go on."""
    if run.goes_on:
        return "running"
    # The lock of a run on another machine cannot be checked.
    return "running, or killed on its machine, which cannot be seen from here"


def _is_done(progress: Progress) -> bool:
    return all(stage.done == stage.files for stage in progress.stages)


def _print_progress(progress: Progress, skipped: Mapping[str, str]) -> None:
    from rich.table import Table

    table = Table("stage", "files done", "of")
    for stage in progress.stages:
        table.add_row(stage.stage, str(stage.done), str(stage.files))
    create_console().print(table)
    for job in progress.running:
        typer.echo(
            f"running  {': '.join(filter(None, [job.name, job.line]))} ({job.log})"
        )
    for job in progress.failed:
        typer.echo(f"failed   {job.name}: {job.line} ({job.log})")
    for name, reason in skipped.items():
        typer.echo(f"skipped  {name}: {reason}")


def _print_advice(
    name: str,
    command: str,
    targets: list[str],
    progress: Progress,
    run: StudyRun | None,
) -> None:
    """Print the next command: it shows the results of a study that is done, or continues a study
    that is not.
    """
    from waltz.core.jobs.run_lock import build_unlock_command

    if _is_done(progress):
        # Only the targets are done; the whole study may not be.
        if targets:
            typer.echo(f"next     {command} (all tables and the report)")
        else:
            typer.echo(
                f"next     waltz report {name} --open; waltz tables --study {name}"
            )
        return
    if run and run.goes_on:
        return  # it needs no command
    if run and run.may_go_on:
        typer.echo(f"next     {run.describe()}")
        return
    if targets:
        command = " ".join([command, "--", *targets])
    # A killed run leaves locks behind, which are removed before the study goes on.
    unlock = build_unlock_command(run) if run else ""
    if unlock:
        command = f"{unlock} && {command}"
    typer.echo(f"next     {command}")
