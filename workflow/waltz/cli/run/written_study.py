"""Studies that a command writes into the checkout, shows, and runs with Snakemake."""

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from waltz.cli.run.checkout import CONFIG, start_snakemake
from waltz.core.errors import UserError
from waltz.core.files.resources import shorten_path

if TYPE_CHECKING:
    from waltz.plan.study import Settings


def shorten(path: Path, checkout: Path) -> str:
    """Return a path as a study of the checkout names it: relative if it lies in the checkout, else
    absolute.
    """
    return str(shorten_path(path.resolve(), checkout))


def check_lock(name: str, checkout: Path) -> None:
    """Refuse the name of a study whose lock another run holds, before the file of that study is
    overwritten.
    """
    from waltz.core.run_lock import SNAKEMAKE_FOLDER, check_study_is_free

    try:
        check_study_is_free(name, checkout / SNAKEMAKE_FOLDER)
    except UserError as error:
        raise UserError(f"{error}; or give this one another name with --name") from None


def run_written_study(
    study: "Settings",
    targets: Sequence[str],
    checkout: Path,
    *,
    cores: int | None,
    variables: Mapping[str, str],
    notes: Mapping[str, str],
    dry_run: bool,
) -> bool:
    """Write a study, show its file and the command that runs it, and run it.

    Args:
        study: The study.
        targets: Rules or files that Snakemake is asked for.
        checkout: The checkout, in whose folder of studies the file is written.
        cores: CPU cores; None takes all.
        variables: Environment variables of the run.
        notes: Further lines that are shown, by their first words.
        dry_run: Whether the study is shown alone, and nothing is written or run.
    Returns:
        Whether the study was run.
    Raises:
        UserError: The study is running, its file was edited or has other data, or the run failed.
    """
    from waltz.plan.foil_study import render_study, write_study

    name = study["study"]
    # A run in progress must keep the file that it was started with.
    if not dry_run:
        check_lock(name, checkout)
    text = render_study(study, shlex.join(["waltz", *sys.argv[1:]]))
    file = checkout / CONFIG / f"{name}.yaml"
    verdict = "not written" if dry_run else write_study(file, text)
    # The same command is shown and run, so that the user can repeat it.
    arguments = ["--cores", str(cores or "all"), "--config", f"study={name}"]
    arguments += ["--", *targets]
    settings = (f"{key}={value}" for key, value in variables.items())
    lines = {
        "study": f"{file} ({verdict})",
        "command": " ".join([*settings, "snakemake", *arguments]),
        **notes,
    }
    for key, line in lines.items():
        typer.echo(f"{f'{key}:':<8} {line}", err=True)
    if dry_run:
        typer.echo(f"\n{text}", nl=False)
        return False
    if start_snakemake(arguments, checkout, variables).returncode:
        raise UserError(f"study {name} did not end: {file}; see: waltz status {name}")
    return True
