"""The command `waltz`; the module of a subcommand is imported when the subcommand is called."""

import errno
import importlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from waltz import __version__

COMMANDS = {
    "eval": "Score models on foils: accuracy and T-SHAP by data set.",
    "explain": "Explain what a model's score, answer or explanation rests on.",
    "foil": "Print the foils of a text.",
    "models": "List the models that a study can name.",
    "preflight": "Check what a study needs before anything big is downloaded.",
    "tables": "Print the tables of a study that was run.",
    "report": "Print the path of a study's page, or open it.",
    "status": "Print what of a study is done, runs, is skipped, or failed.",
    "compare": "Compare the tables of two runs cell by cell.",
    "people": "Let people validate a benchmark.",
    "regions": "Store regions of images for encoders that read them.",
    "score": "Score prepared inputs with an original checkpoint.",
}
"""Subcommands with their line in the help of `waltz`; each in the module of its name, as its Typer app `app`."""

UNDECODED = re.compile("[\udc80-\udcff]")
"""Byte of an argument that is no UTF-8, as Python keeps it."""
UsageError: Any = typer.BadParameter.__base__
"""Error about an option or argument, of the click that typer uses."""


class LazyCommand(TyperCommand):
    """Subcommand whose module is imported when it is called, and not for the help of `waltz`."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Import the subcommand and return its context.

        Raises:
            typer.BadParameter: An argument that is no path is no UTF-8.
        """
        command = get_command(importlib.import_module(f"waltz.cli.{self.name}").app)
        command.name = self.name
        context = command.make_context(info_name, args, parent, **extra)
        parameters: list[Any] = list(command.params)
        for parameter in parameters:
            value = context.params.get(parameter.name)
            for text in value if isinstance(value, (list, tuple)) else [value]:
                if isinstance(text, str) and UNDECODED.search(text):
                    escaped = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
                    raise typer.BadParameter(f"'{escaped}' is no UTF-8; write it in UTF-8", context, parameter)
        return context


class LazyGroup(TyperGroup):
    """Group of the subcommands in `COMMANDS`."""

    def __init__(self, **attributes: Any) -> None:
        """Create the group with a command for each name, not yet imported."""
        super().__init__(**attributes)
        self.commands = {name: LazyCommand(name, help=line, rich_markup_mode=None) for name, line in COMMANDS.items()}

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Return the context of `waltz` itself."""
        with show_errors():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: Any) -> Any:
        """Run the subcommand."""
        with show_errors():
            return super().invoke(ctx)


@contextmanager
def show_errors() -> Iterator[None]:
    """Show a wrong option or argument, or that standard output cannot be written, in one line; exit with status 2 or 1.

    The errors of other files are shown by the commands that write them.
    """
    try:
        yield
    except UsageError as error:
        message = error.format_message()
        if "\n" in message:  # the help of a group that is called without a subcommand
            raise
        command = error.ctx.command_path if error.ctx else "waltz"
        typer.echo(f"waltz: {message.rstrip('.')}; see: {command} --help", err=True)
        raise typer.Exit(2) from None
    except OSError as error:
        if error.errno == errno.EPIPE:  # the reader has ended, as `head` does; click ends without a word
            raise
        typer.echo(f"waltz: standard output: cannot be written: {error.strerror}; write to another place", err=True)
        raise typer.Exit(1) from None


app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Measure how much vision, and how much text, a vision-language model uses.",
    epilog="A study is run with snakemake: snakemake --cores 8 --config study=valse",
)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"waltz {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Keep `waltz` a group of commands."""
