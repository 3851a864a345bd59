"""Output of the commands: errors in one line, consoles, CSV files."""

import csv
import errno
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from waltz.core.errors import UserError, find_closest
from waltz.core.files.atomic import write_text

if TYPE_CHECKING:
    from rich.console import Console

WIDTH = 240
"""Characters per line where the output is not a terminal."""


@contextmanager
def report_errors(output: str | Path = "standard output") -> Iterator[None]:
    """Show a UserError, or an error while a file is written, in one line and exit with status 1.

    Args:
        output: Name of the output, for errors that do not name a file.
    Raises:
        typer.Exit: The block raised such an error.
    """
    try:
        yield
    except UserError as error:
        show_error(error)
        raise typer.Exit(1) from None
    except OSError as error:
        if error.errno == errno.EPIPE:  # the reader has ended, as `head` does; click ends without a word
            raise
        show_error(f"{error.filename or output}: cannot be written: {error.strerror}")
        raise typer.Exit(1) from None


def check_outputs(**files: Path | None) -> None:
    """Refuse files that cannot be written, before anything is computed for them.

    Args:
        files: File of each option by its name; None where the option is absent.
    Raises:
        UserError: One is a folder, or the folder that it would be in is a file or cannot be written.
    """
    for name, file in files.items():
        if file is None:
            continue
        where = f"--{name} {file}"
        if file.is_dir():
            raise UserError(f"{where}: is a folder; name a file in it")
        parent = next(folder for folder in file.absolute().parents if folder.exists())
        if not parent.is_dir():
            raise UserError(f"{where}: {parent} is a file, not a folder; name another")
        if not os.access(parent, os.W_OK | os.X_OK):
            raise UserError(f"{where}: {parent} cannot be written; name a file in another folder")


def find_newest_study(results: Path) -> str:
    """Return the study in a folder of results whose report or tables were written last.

    Raises:
        UserError: The folder holds no study that has got so far.
    """
    built = [path for name in ("report.html", "tables") for path in results.glob(f"*/reporting/{name}")]
    if not built:
        raise UserError(f"{results}: no study has tables or a report yet; run: snakemake --cores 2")
    return max(built, key=lambda path: path.stat().st_mtime).parts[-3]


def suggest_run(study: str, results: Path) -> str:
    """Return the end of a message about a study without results: the study that is meant, and how to run it."""
    known = {path.stem for path in (results.parent / "config").glob("*.yaml")}
    known |= {path.parts[-2] for path in results.glob("*/reporting")}
    closest = study if study in known else find_closest(study, sorted(known))
    if not closest:
        return f"; there are {', '.join(sorted(known))}" if known else "; run: snakemake --cores 2"
    hint = "" if closest == study else f" (did you mean {closest!r}?)"
    return f"{hint}; run: snakemake --cores 2 --config study={closest}"


def show_error(message: object) -> None:
    """Show one line on stderr."""
    typer.echo(f"waltz: {message}", err=True)


def create_console() -> "Console":
    """Return a console that does not fold lines if its output is not a terminal."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=WIDTH)


def write_csv(path: Path, columns: Sequence[str], rows: Sequence[Mapping[str, object]]) -> None:
    """Write rows under a header."""
    write_text(path, render_csv(columns, rows))


def render_csv(columns: Sequence[str], rows: Sequence[Mapping[str, object]]) -> str:
    """Return rows under a header as CSV; keys that are not columns are ignored."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
