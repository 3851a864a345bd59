"""Output of commands: errors in one line, consoles, CSV files."""

import csv
import errno
import io
import os
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from waltz.core.errors import (
    UserError,
    advise_on_missing_file,
    find_closest,
    get_first_line,
    list_names,
    suggest_name,
)
from waltz.core.files.atomic import write_text
from waltz.core.redaction import hide_secrets

if TYPE_CHECKING:
    from rich.console import Console

WRITING_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
"""Numbers of errors that occur while a file is written, and do not name the file."""
WIDTH = 240
"""Number of characters in a line if the output is not a terminal."""


def describe_error(error: Exception) -> str:
    """Return one line about an error that the user can correct, or about an error of the system;
    the traceback of any other error, without secrets.
    """
    if isinstance(error, UserError):
        return f"waltz: {error}"
    if isinstance(error, OSError):
        return f"waltz: {_describe_system_error(error, 'standard output')}"
    return hide_secrets("".join(traceback.format_exception(error))).rstrip()


@contextmanager
def name_output(output: Path) -> Iterator[None]:
    """Turn an error of the system in the block into a UserError, which names the output if the
    error names no file.
    """
    try:
        yield
    except OSError as error:
        raise UserError(_describe_system_error(error, output)) from None


def _describe_system_error(error: OSError, output: str | Path) -> str:
    """Return one line about an error of the system.

    Args:
        error: The error.
        output: Name of the command's output, for an error of writing that does not name a file.
    """
    if error.filename is not None:
        name = error.filename
        if isinstance(name, bytes):
            name = os.fsdecode(name)
        return f"{name}: cannot be read or written: {error.strerror}; check the path, its permissions and its disk"
    if error.errno in WRITING_ERRORS:
        return f"{output}: cannot be written: {error.strerror}; write to another place"
    return f"{type(error).__name__}: {get_first_line(error)}"


def check_inputs(*files: Path | None) -> None:
    """Refuse files and folders that do not exist, before torch is imported, which takes seconds.

    Args:
        *files: Files and folders; None for an absent option.
    Raises:
        UserError: A file or folder does not exist.
    """
    for file in filter(None, files):
        if not file.exists():
            raise UserError(
                f"{file}: no such file or folder; {advise_on_missing_file(file)}"
            )


def check_outputs(**files: Path | None) -> None:
    """Refuse output files that cannot be written, before their content is computed.

    Args:
        **files: File of each option, by the option's name; None if the option is absent.
    Raises:
        UserError: A file is a folder, or its folder is a file or cannot be written.
    """
    for name, file in files.items():
        if file is not None:
            _check_output(f"--{name} {file}", file)


def _check_output(option: str, file: Path) -> None:
    if file.is_dir():
        raise UserError(f"{option}: is a folder; name a file in it")
    # Missing folders are created later, so the nearest existing one decides.
    folder = next(folder for folder in file.absolute().parents if folder.exists())
    if not folder.is_dir():
        raise UserError(f"{option}: {folder} is a file, not a folder; name another")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UserError(
            f"{option}: {folder} cannot be written; name a file in another folder"
        )


def find_newest_study(results: Path) -> str:
    """Return the study in a folder of results whose report or tables were written last.

    Raises:
        UserError: No study in the folder has a report or tables.
    """
    built = [
        *results.glob("*/reporting/report.html"),
        *results.glob("*/reporting/tables"),
    ]
    if not built:
        raise UserError(
            f"{results}: no study has tables or a report yet; run: snakemake --cores 2"
        )
    newest = max(built, key=lambda path: path.stat().st_mtime)
    return newest.parts[-3]  # results/<study>/reporting/<file>


def suggest_run(study: str, results: Path, built: str = "tables") -> str:
    """Return the end of a message about a study without a result: the study that was probably
    meant, and the action.

    Args:
        study: Name of the study.
        results: Folder of results.
        built: Name of the missing result, `tables` or `report.html`.
    """
    with_result = sorted(
        path.parts[-3] for path in results.glob(f"*/reporting/{built}")
    )
    # Known studies: those with a file in config/, and those that were run.
    studies = {path.stem for path in (results.parent / "config").glob("*.yaml")}
    studies |= {path.parts[-2] for path in results.glob("*/reporting")}
    known = sorted(studies)
    closest, hint = study, ""
    if study not in known:
        closest, hint = find_closest(study, known), suggest_name(study, known)
    # Four endings: the study meant has the result, it is to be run, others have the result, none
    # has.
    if closest in with_result:
        return hint
    if closest:
        return f"{hint}; run: snakemake --cores 2 --config study={closest}"
    if with_result:
        return f"; there is one of {list_names(with_result, 'and')}"
    return "; no study has one yet; run: snakemake --cores 2"


def show_error(message: object) -> None:
    """Show one line on stderr."""
    typer.echo(f"waltz: {message}", err=True)


def create_console(stderr: bool = False) -> "Console":
    """Return a console that shows texts as they are, and does not fold lines if its output is not a
    terminal.

    The texts are names, paths and messages. In these, `[gpu]` or `:key:` is not markup of rich.

    Args:
        stderr: Whether it writes to standard error, and never folds lines.
    """
    from rich.console import Console

    console = Console(
        stderr=stderr, soft_wrap=stderr, markup=False, emoji=False, highlight=False
    )
    if not stderr and not console.is_terminal:
        console.width = WIDTH
    return console


def write_csv(
    path: Path, columns: Sequence[str], rows: Sequence[Mapping[str, object]]
) -> None:
    """Write rows to a CSV file under a header; keys that are not columns are ignored."""
    write_text(path, render_csv(columns, rows))


def render_csv(columns: Sequence[str], rows: Sequence[Mapping[str, object]]) -> str:
    """Return rows as CSV under a header; keys that are not columns are ignored."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
