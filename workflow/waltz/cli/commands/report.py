"""The command `waltz report`: the page of a study that was run."""

from pathlib import Path
from typing import Annotated

import typer

from waltz.cli.output import find_newest_study, suggest_run
from waltz.cli.run.checkout import DEFAULT_RESULTS, find_results
from waltz.core.errors import UserError

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def report_command(
    study: Annotated[
        str | None,
        typer.Argument(
            help="Name of a study that was run; the newest run's if none is given."
        ),
    ] = None,
    show: Annotated[
        bool, typer.Option("--open", help="Open the page in a browser.")
    ] = False,
    results: Annotated[
        Path | None,
        typer.Option(help="Folder of results.", show_default=DEFAULT_RESULTS),
    ] = None,
) -> None:
    """Print the path of a study's page, or open it."""
    folder = find_results(results)
    study = study or find_newest_study(folder)
    page = folder / study / "reporting" / "report.html"
    if not page.is_file():
        raise UserError(f"{page}: no such page{suggest_run(study, folder, page.name)}")
    typer.echo(page)
    # A browser opens the page by its URL, which needs the absolute path.
    if show:
        typer.launch(page.resolve().as_uri())
