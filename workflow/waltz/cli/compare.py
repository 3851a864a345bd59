"""The command `waltz compare`: two runs, cell by cell."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from waltz.cli.output import create_console, report_errors, write_csv

if TYPE_CHECKING:
    from waltz.reporting.compare_runs import Change, Run

app = typer.Typer(add_completion=False, rich_markup_mode=None)
KEY_COLUMNS = ("metric", "model", "dataset", "setting")


@app.command()
def compare_command(
    first: Annotated[str, typer.Argument(help="A study that was run, or its folder results/<study> in any checkout.")],
    second: Annotated[str, typer.Argument(help="The other run: a study, or a folder.")],
    results: Annotated[Path, typer.Option(help="Folder of results, for studies that are named.")] = Path("results"),
    every: Annotated[bool, typer.Option("--all", help="List the cells that are the same as well.")] = False,
    as_csv: Annotated[Path | None, typer.Option("--csv", help="Write all cells here.")] = None,
) -> None:
    """Compare the tables of two runs cell by cell: two studies, or one study at two commits."""
    from waltz.reporting.compare_runs import SAME, compare_cells, count_verdicts, read_run

    with report_errors():
        runs = [read_run(_get_folder(name, results)) for name in (first, second)]
        all_changes = compare_cells(runs[0].cells, runs[1].cells)
        if as_csv:
            _write_changes(as_csv, all_changes)
    for name, run in zip((first, second), runs, strict=True):
        typer.echo(f"{name}: {len(run.cells)} cells; {_render_commits(run)}")
    listed = [change for change in all_changes if every or change.verdict != SAME]
    if listed:
        _print_changes(listed)
    typer.echo(", ".join(f"{verdict}: {count}" for verdict, count in count_verdicts(all_changes).items()))


def _get_folder(name: str, results: Path) -> Path:
    """Return the folder of a run: the folder `name` if it is one of results, else that of the study `name`."""
    return Path(name) if (Path(name) / "reporting").is_dir() else results / name


def _render_commits(run: Run) -> str:
    if not run.commits:
        return "no run records"
    short = ((commit[:12] + commit[40:], count) for commit, count in run.commits.most_common())
    return "commits " + ", ".join(f"{commit} ({count} records)" for commit, count in short)


def _print_changes(changes: list[Change]) -> None:
    from rich.table import Table

    table = Table("table", "profile", *KEY_COLUMNS, "first", "second", "difference", "verdict")
    for change in changes:
        numbers = (change.first, change.second, change.difference)
        rendered = ["–" if number is None else f"{number:.4g}" for number in numbers]
        reason = f" ({change.reason})" if change.reason else ""
        table.add_row(change.table, change.profile, *change.key, *rendered, change.verdict + reason)
    create_console().print(table)


def _write_changes(path: Path, changes: list[Change]) -> None:
    columns = ["table", "profile", *KEY_COLUMNS, "first", "second", "difference", "verdict", "reason"]
    write_csv(path, columns, [asdict(change) | dict(zip(KEY_COLUMNS, change.key, strict=True)) for change in changes])
