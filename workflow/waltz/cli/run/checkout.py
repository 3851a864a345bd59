"""The checkout in which commands run Snakemake."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import waltz
from waltz.core.errors import UserError, list_names, suggest_name
from waltz.core.jobs.interrupts import RUN_SNAKEMAKE, delay_interrupts

CONFIG = Path("config")
"""Folder of the studies in a checkout."""
STUDY_SUFFIXES = (".yaml", ".yml")
DEFAULT_RESULTS = "results here, else those of the checkout"
"""Text in the help about the folder that `find_results` returns by default."""


def find_checkout() -> Path:
    """Return the checkout around the current folder, or the one that waltz is installed from in
    editable mode.

    Raises:
        UserError: There is no checkout.
    """
    here = Path.cwd()
    # The nearest folder above the current one, then the installed package's own repository.
    for folder in (here, *here.parents, Path(waltz.__file__).resolve().parents[2]):
        if (folder / "Snakefile").is_file() and (
            folder / "workflow" / "waltz"
        ).is_dir():
            return folder
    raise UserError(
        f"no checkout of waltz: {here} is in none, and waltz is not installed from one; run this in a clone of its"
        " repository"
    )


def is_study_file(study: str) -> bool:
    """Return whether a study is given by its file, and not by the name of a study in config/."""
    return Path(study).suffix in STUDY_SUFFIXES


def locate_study(study: str) -> str:
    """Return the name of a study as it is, or its file as an absolute path, which is also valid in
    the checkout.
    """
    return str(Path(study).resolve()) if is_study_file(study) else study


def find_files_of_studies(studies: Sequence[str]) -> list[Path]:
    """Return the study files that studies are loaded from; later files replace keys of earlier
    ones.

    The current folder must be the checkout.

    Args:
        studies: Names of studies in config/, or files.
    Raises:
        UserError: No study has such a name.
    """
    from waltz.plan.read_study import find_study_files, list_studies

    known = list_studies(CONFIG)
    files: list[Path] = []
    for study in studies:
        if is_study_file(study):
            files.append(Path(study))
        elif study in known:
            files += find_study_files({"study": study}, [], CONFIG)
        else:
            raise UserError(
                f"study {study!r} is not in {CONFIG}/{suggest_name(study, known)}; a study is a file of this folder"
                f" ({list_names(known, 'and')}), or the path of another study file"
            )
    return files


def find_results(folder: Path | None) -> Path:
    """Return the folder of results: `folder` if it is named, else the current folder's, else the
    checkout's.
    """
    if folder is not None:
        return folder
    here = Path("results")
    if here.is_dir():
        return here
    # Without a checkout, a message about a missing study should name the folder `results` here.
    try:
        checkout = find_checkout()
    except UserError:
        return here
    return here if checkout == Path.cwd() else checkout / here


def find_fault(output: str) -> str:
    """Return the line with the fault in the output of a failed Snakemake: the last one of waltz,
    else the last one.
    """
    lines = list(filter(None, map(str.strip, output.splitlines())))
    # Lines of waltz are written for the user; Snakemake's own last line is second best.
    faults = [
        line.removeprefix("waltz: ") for line in lines if line.startswith("waltz: ")
    ]
    return (faults or lines or ["no message"])[-1]


def start_snakemake(
    arguments: Sequence[str],
    checkout: Path,
    environment: Mapping[str, str] | None = None,
    quiet: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run Snakemake in a checkout, wait for its end, and return its result.

    Args:
        arguments: Arguments of Snakemake.
        checkout: The checkout, in which it runs.
        environment: Environment variables that are set in addition to those of this process.
        quiet: Whether the output of Snakemake is captured in the result; otherwise it is shown.
    Raises:
        KeyboardInterrupt: Ctrl-C was pressed; Snakemake has ended, and holds no lock.
    """
    output = subprocess.PIPE if quiet else None
    with delay_interrupts():
        process = subprocess.Popen(
            [sys.executable, "-c", RUN_SNAKEMAKE, *arguments],
            cwd=checkout,
            env={**os.environ, **(environment or {})},
            stdout=output,
            stderr=output,
            text=True,
        )
    try:
        stdout, stderr = process.communicate()
    except KeyboardInterrupt:
        _await_end(process)
        raise
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


def _await_end(process: subprocess.Popen[str]) -> None:
    """Wait for a process that got Ctrl-C, too, however often it is pressed."""
    while process.poll() is None:
        # subprocess.run would kill Snakemake, which would leave its lock and half written files.
        with suppress(KeyboardInterrupt):
            process.communicate()
