"""The command `waltz`; the module of a subcommand is imported when the subcommand is called."""

import errno
import importlib
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from waltz import __version__

COMMANDS = {
    "eval": "Score models on foils: accuracy and T-SHAP by data set.",
    "build": "Build a benchmark of captions and foils from captions.",
    "explain": "Explain what a model's score or answer rests on.",
    "explain-prompts": "Explain a decoder's answer to ready prompts.",
    "foil": "Print the foils of a text.",
    "models": "List the models that a study can name.",
    "preflight": "Check what a study needs before anything big is downloaded.",
    "plan": "Print the runs that a study plans, with their files.",
    "tables": "Print the tables of a study that was run.",
    "paper": "Print values of a paper's table, and ours next to them.",
    "report": "Print the path of a study's page, or open it.",
    "status": "Print what of a study is done, runs, is skipped, or failed.",
    "compare": "Compare the tables of two runs cell by cell.",
    "people": "Let people validate a benchmark.",
    "regions": "Store regions of images for encoders that read them.",
    "score": "Score prepared inputs with an original checkpoint.",
}
"""Each subcommand with its line in the help of `waltz`.

The module of a subcommand has its name, with `_` for `-`, and holds it as `app`.
"""

UNDECODED = re.compile("[\udc80-\udcff]")
"""Pattern of a byte that is not UTF-8, in the form in which Python keeps it in an argument."""
HOME = re.compile(r"(?P<option>(?:--[\w-]+=)?)~(?:/|$)")
"""Pattern of the start of a path in the home folder, alone or behind the name of its option."""
UsageError: Any = typer.BadParameter.__base__
"""Class of errors about an option or argument, from the copy of click that typer uses."""


def name_module(command: str) -> str:
    """Return the name of the module of a subcommand."""
    return f"waltz.cli.commands.{command.replace('-', '_')}"


class LazyCommand(TyperCommand):
    """Subcommand whose module is imported only when it is called, so that the help of `waltz` needs
    no module.
    """

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """Import the subcommand and return its context.

        Raises:
            typer.BadParameter: An argument is not UTF-8, and is not a path; or a path is empty.
        """
        command = get_command(importlib.import_module(name_module(str(self.name))).app)
        command.name = self.name
        args = list(map(_expand_home, args))
        context = command.make_context(info_name, list(args), parent, **extra)
        _refuse_empty_paths(command, args, context)
        parameters: list[Any] = list(command.params)
        # Texts are printed and stored later, which a byte that is not UTF-8 would break; only paths
        # may hold such bytes.
        for parameter in parameters:
            value = context.params.get(parameter.name)
            # An option that may be repeated has a list of values.
            for text in value if isinstance(value, (list, tuple)) else [value]:
                if isinstance(text, str) and UNDECODED.search(text):
                    escaped = text.encode("utf-8", "surrogateescape").decode(
                        "utf-8", "backslashreplace"
                    )
                    raise typer.BadParameter(
                        f"'{escaped}' is not UTF-8; write it in UTF-8",
                        context,
                        parameter,
                    )
        return context


def _expand_home(argument: str) -> str:
    """Return an argument with the home folder for `~`, which shells leave behind `=` and within quotes."""
    match = HOME.match(argument)
    if match is None:
        return argument
    option = match["option"]
    return f"{option}{Path(argument.removeprefix(option)).expanduser()}"


def _refuse_empty_paths(command: Any, args: list[str], context: Any) -> None:
    """Refuse options with an empty path, which Python would take for the current folder.

    Raises:
        typer.BadParameter: The value of an option that is a path is empty.
    """
    # Such as `--images ''` and `--images=`.
    empty_options = {name for name, value in pairwise(args) if not value}
    empty_options |= {arg.removesuffix("=") for arg in args if arg.endswith("=")}
    # The command `people` has subcommands of its own.
    command = getattr(command, "commands", {}).get(next(iter(args), ""), command)
    for parameter in command.params:
        if empty_options.isdisjoint(parameter.opts):
            continue
        hint = get_type_hints(command.callback)[parameter.name]
        # `Path`, `Path | None` or `list[Path]`.
        if Path in (hint, *get_args(hint)):
            raise typer.BadParameter(
                "'' is an empty path; name a file or folder, or . for the current folder",
                context,
                parameter,
            )


class LazyGroup(TyperGroup):
    """Group of all subcommands in `COMMANDS`."""

    def __init__(self, **attributes: Any) -> None:
        """Create the group with a command for each name; no module of a subcommand is imported."""
        super().__init__(**attributes)
        self.commands = {
            name: LazyCommand(name, help=line, rich_markup_mode=None)
            for name, line in COMMANDS.items()
        }

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """Return the context of `waltz` itself."""
        # Parsing and running are both covered: click parses before it runs.
        with show_errors():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: Any) -> Any:
        """Run the subcommand."""
        with show_errors():
            return super().invoke(ctx)


@contextmanager
def show_errors() -> Iterator[None]:
    """Show errors of the block as the user should see them, and exit.

    A wrong option or argument is shown in one line, with exit status 2. A UserError or an error of
    the system is shown in one line, with exit status 1. Any other error is shown with its
    traceback, without secrets, and with exit status 1.
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
    # Errors and exits of click itself are handled by click.
    except (UsageError.__base__, typer.Exit, typer.Abort):
        raise
    except Exception as error:
        # The reader has ended, as `head` does; click ends without a word.
        if isinstance(error, OSError) and error.errno == errno.EPIPE:
            raise
        # Imported here, so that a command without an error starts faster.
        from waltz.cli.output import describe_error

        typer.echo(describe_error(error), err=True)
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
        bool,
        typer.Option(
            "--version",
            help="Print the version and exit.",
            callback=_print_version,
            is_eager=True,
        ),
    ] = False,
) -> None:
    """Show the warnings of all libraries without secrets."""
    from waltz.core.redaction import RedactingFormatter

    # Warnings of libraries that set no handler go through Python's handler of last resort.
    if logging.lastResort:
        logging.lastResort.setFormatter(RedactingFormatter())
