"""The command `waltz report`: the page of a study that was run."""

from pathlib import Path
from typing import Annotated

import typer

from waltz.cli.output import find_newest_study, report_errors, suggest_run
from waltz.core.errors import UserError

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def report_command(
    study: Annotated[
        str | None, typer.Argument(help="Name of a study that was run; the newest run's if none is given.")
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    results: Annotated[Path, typer.Option(help="Folder of results.")] = Path("results"),
) -> None:
    """Print the path of a study's page, or open it."""
    with report_errors():
        study = study or find_newest_study(results)
        page = results / study / "reporting" / "report.html"
        if not page.is_file():
            raise UserError(f"{page}: no such page{suggest_run(study, results)}")
    typer.echo(page)
    if show:
        typer.launch(page.resolve().as_uri())
