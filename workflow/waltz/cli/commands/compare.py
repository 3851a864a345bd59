"""The command `waltz compare`: two runs, cell by cell."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from waltz.cli.output import create_console, write_csv
from waltz.cli.run.checkout import DEFAULT_RESULTS, find_results

if TYPE_CHECKING:
    from waltz.reporting.compare_runs import Change, StudyTables

app = typer.Typer(add_completion=False, rich_markup_mode=None)
KEY_COLUMNS = ("metric", "model", "dataset", "setting")


@app.command()
def compare_command(
    first: Annotated[
        str,
        typer.Argument(
            help="A study that was run, or its folder results/<study> in any checkout."
        ),
    ],
    second: Annotated[str, typer.Argument(help="The other run: a study, or a folder.")],
    results: Annotated[
        Path | None,
        typer.Option(
            help="Folder of results, for studies that are named.",
            show_default=DEFAULT_RESULTS,
        ),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="List the cells that are the same as well.")
    ] = False,
    as_csv: Annotated[
        Path | None, typer.Option("--csv", help="Write all cells here.")
    ] = None,
) -> None:
    """Compare the tables of two runs cell by cell: two studies, or one study at two commits."""
    from waltz.reporting.compare_runs import (
        SAME,
        compare_cells,
        count_verdicts,
        read_study_tables,
    )

    folder = find_results(results)
    # Both runs are read and compared before anything is printed, so that an error comes alone.
    runs = [read_study_tables(_get_folder(name, folder)) for name in (first, second)]
    all_changes = compare_cells(runs[0].cells, runs[1].cells)
    if as_csv:
        _write_changes(as_csv, all_changes)
    for name, run in zip((first, second), runs, strict=True):
        typer.echo(f"{name}: {len(run.cells)} cells; {_render_commits(run)}")
    # Equal cells are listed only on request.
    shown_changes = all_changes
    if not every:
        shown_changes = [change for change in all_changes if change.verdict != SAME]
    if shown_changes:
        _print_changes(shown_changes)
    counts = count_verdicts(all_changes)
    typer.echo(", ".join(f"{verdict}: {count}" for verdict, count in counts.items()))


def _get_folder(name: str, results: Path) -> Path:
    """Return the folder of a run: the folder `name` if it holds results, else the results of the
    study `name`.
    """
    folder = Path(name)
    is_run = (folder / "reporting").is_dir()
    return folder if is_run else results / name


def _render_commits(run: StudyTables) -> str:
    """Return the commits of a run's records, each with its number of records.

    A commit is shortened to 12 digits. A text that follows its 40 digits, which marks uncommitted
    edits, is kept.
    """
    if not run.commits:
        return "no run records"
    texts = []
    for commit, count in run.commits.most_common():
        texts.append(f"{commit[:12]}{commit[40:]} ({count} records)")
    return f"commits {', '.join(texts)}"


def _print_changes(changes: list[Change]) -> None:
    from rich.table import Table

    table = Table(
        "table", "profile", *KEY_COLUMNS, "first", "second", "difference", "verdict"
    )
    for change in changes:
        numbers = (change.first, change.second, change.difference)
        rendered = ["–" if number is None else f"{number:.4g}" for number in numbers]
        reason = f" ({change.reason})" if change.reason else ""
        table.add_row(
            change.table,
            change.profile,
            *change.key,
            *rendered,
            change.verdict + reason,
        )
    create_console().print(table)


def _write_changes(path: Path, changes: list[Change]) -> None:
    # The key of a change becomes four columns; other keys of the dictionary are ignored.
    columns = [
        "table",
        "profile",
        *KEY_COLUMNS,
        "first",
        "second",
        "difference",
        "verdict",
        "reason",
    ]
    write_csv(
        path,
        columns,
        [
            asdict(change) | dict(zip(KEY_COLUMNS, change.key, strict=True))
            for change in changes
        ],
    )
