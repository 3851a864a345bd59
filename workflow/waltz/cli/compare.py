"""The command `waltz compare`: two runs, cell by cell."""

import csv
import io
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from waltz.cli.people import refused
from waltz.core.errors import UserError
from waltz.core.files.atomic import write_text
from waltz.reporting.compare_runs import SAME, Change, Run, compare_cells, count_verdicts, read_run

NAMES = ("metric", "model", "dataset", "setting")


def compare_command(
    first: Annotated[str, typer.Argument(help="A study that was run, or its folder results/<study> in any checkout.")],
    second: Annotated[str, typer.Argument(help="The other run: a study, or a folder.")],
    results: Annotated[Path, typer.Option(help="Folder of results, for studies that are named.")] = Path("results"),
    every: Annotated[bool, typer.Option("--all", help="List the cells that are the same as well.")] = False,
    as_csv: Annotated[Path | None, typer.Option("--csv", help="Write all cells here.")] = None,
) -> None:
    """Compare the tables of two runs cell by cell: two studies, or one study at two commits."""
    try:
        runs = [read_run(_folder(name, results)) for name in (first, second)]
        found = compare_cells(runs[0].cells, runs[1].cells)
        if as_csv:
            write_text(as_csv, _csv(found))
    except UserError as error:
        raise refused(error) from None
    except OSError as error:
        raise refused(UserError(f"{error.filename or 'output'}: cannot be written: {error.strerror}")) from None
    for name, run in zip((first, second), runs, strict=True):
        typer.echo(f"{name}: {len(run.cells)} cells; {_commits(run)}")
    listed = [change for change in found if every or change.verdict != SAME]
    if listed:
        _print(listed)
    typer.echo(", ".join(f"{verdict}: {count}" for verdict, count in count_verdicts(found).items()))


def _folder(name: str, results: Path) -> Path:
    """The folder of a run: a study's by its name, where there is no folder of that name."""
    return Path(name) if (Path(name) / "reporting").is_dir() else results / name


def _commits(run: Run) -> str:
    if not run.commits:
        return "no run records"
    short = ((commit[:12] + commit[40:], count) for commit, count in run.commits.most_common())
    return "commits " + ", ".join(f"{commit} ({count} records)" for commit, count in short)


def _print(found: list[Change]) -> None:
    table = Table("table", "profile", *NAMES, "first", "second", "difference", "verdict")
    for change in found:
        numbers = (change.first, change.second, change.difference)
        shown = ["–" if number is None else f"{number:.4g}" for number in numbers]
        why = f" ({change.reason})" if change.reason else ""
        table.add_row(change.table, change.profile, *change.key, *shown, change.verdict + why)
    console = Console()
    (console if console.is_terminal else Console(width=240)).print(table)


def _csv(found: list[Change]) -> str:
    text = io.StringIO()
    fields = ["table", "profile", *NAMES, "first", "second", "difference", "verdict", "reason"]
    writer = csv.DictWriter(text, fields, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    writer.writerows({**asdict(change), **dict(zip(NAMES, change.key, strict=True))} for change in found)
    return text.getvalue()
