"""The command `waltz`; the module of a subcommand is imported when the subcommand is called."""

import importlib
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

COMMANDS = ("people", "models", "tables", "foil", "explain", "compare", "regions", "score")
"""Subcommands, each in the module of its name: its Typer app `app`."""


class LazyGroup(TyperGroup):
    """Group of subcommands that imports the module of a subcommand when it is needed."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the subcommands."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the subcommand of a name, or None if there is none."""
        if cmd_name not in COMMANDS:
            return None
        command = get_command(importlib.import_module(f"waltz.cli.{cmd_name}").app)
        command.name = cmd_name
        return command


app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    add_completion=False,
    help="Measure how much vision, and how much text, a vision-language model uses.",
    epilog="A study is run with snakemake: snakemake --cores 8 --config study=valse",
)


@app.callback()
def main() -> None:
    """Keep `waltz` a group of commands."""
