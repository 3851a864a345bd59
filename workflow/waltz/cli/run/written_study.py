"""Studies that a command writes into the checkout, shows, and runs with Snakemake."""

import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import chdir
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from waltz.cli.run.checkout import CONFIG, start_snakemake
from waltz.core.errors import UserError
from waltz.core.files.resources import shorten_path

if TYPE_CHECKING:
    from waltz.plan.plan import Plan
    from waltz.plan.study import Settings

INTERRUPTED = 130
"""Exit status of a command that Ctrl-C stopped."""


def shorten(path: Path, checkout: Path) -> str:
    """Return a path as a study of the checkout names it: relative if it lies in the checkout, else
    absolute.
    """
    return str(shorten_path(path.resolve(), checkout))


def check_images_exist(file: Path, names: Iterable[str], images: Path) -> None:
    """Refuse a file of captions or pairs that names images which do not exist.

    Args:
        file: The file.
        names: Names of images in the file; each is looked for once.
        images: Folder, zip or tar of the images.
    Raises:
        UserError: A path is absolute, or no image has such a name.
    """
    from waltz.sources.images import find_image_path, open_images

    with open_images(images) as source:
        for name in dict.fromkeys(names):
            if Path(name).is_absolute():
                raise UserError(
                    f"{file}: image {name!r}: the path is absolute; write it as below --images FOLDER"
                )
            try:
                find_image_path(source, name)
            except UserError as error:
                raise UserError(
                    f"{file}: {error}; name images by their paths below --images FOLDER"
                ) from None


def plan_study(study: "Settings", checkout: Path) -> "Plan":
    """Return the plan of a study before it is written.

    Raises:
        UserError: Snakemake would refuse the study, or a model lacks prompts.
    """
    from waltz.evaluation.prompting.prompt_files import check_prompts
    from waltz.plan.build_plan import build_plan
    from waltz.plan.read_study import merge_study, read_study

    # Paths of a study are relative to the checkout.
    with chdir(checkout):
        plan = build_plan(read_study(merge_study(study, CONFIG)))
        for model in dict.fromkeys(run.model for run in plan.decoded):
            check_prompts(plan.models[model], plan.study.profiles)
    return plan


def check_lock(name: str, checkout: Path) -> None:
    """Refuse the name of a study whose lock another run holds, before the file of that study is
    overwritten.
    """
    from waltz.core.jobs.run_lock import SNAKEMAKE_FOLDER, check_study_is_free

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
        typer.Exit: Ctrl-C stopped the run.
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
    try:
        run = start_snakemake(arguments, checkout, variables)
    except KeyboardInterrupt:
        typer.echo(
            f"waltz: study {name} was stopped; the same command continues it", err=True
        )
        raise typer.Exit(INTERRUPTED) from None
    if run.returncode:
        raise UserError(f"study {name} did not end: {file}; see: waltz status {name}")
    return True
