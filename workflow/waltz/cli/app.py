"""The command `waltz`: what can be named, and what was built."""

import difflib
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from waltz.cli.compare import compare_command
from waltz.cli.cv_probes import app as probes
from waltz.cli.explain import explain_command
from waltz.cli.people import app as people
from waltz.cli.regions import regions_command
from waltz.cli.score import score_command
from waltz.core.errors import UserError
from waltz.core.text_diff import Span, slice_span
from waltz.foils.candidates import Candidate, Refused
from waltz.foils.single_text import from_texts
from waltz.models.registry import ModelSpec, load_registry
from waltz.reporting.tables.cells import Cell, parse_csv
from waltz.reporting.tables.declarations import TABLES, Declaration
from waltz.reporting.tables.grid import lay_out_grid
from waltz.reporting.tables.layouts import LEGEND, list_reasons
from waltz.reporting.tables.layouts import format_cell as cell_text

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="How much vision, and how much text, does a vision-language model use?",
    epilog="A study is run with snakemake: snakemake --cores 8 --config study=valse",
)


people.add_typer(probes)
app.add_typer(people, name="people")
app.command("explain")(explain_command)
app.command("compare")(compare_command)
app.command("regions")(regions_command)
app.command("score")(score_command)


@app.callback()
def main() -> None:
    """Keep `waltz` a group of commands."""


@app.command()
def models() -> None:
    """List the models that a study can name."""
    table = Table("name", "kind", "parameters", "licence", "weights", "revision", "note")
    for spec in load_registry().values():
        table.add_row(spec.name, spec.kind, _size(spec), spec.licence, spec.weights, spec.revision[:12], spec.note)
    _console().print(table)


@app.command()
def tables(
    study: Annotated[str, typer.Option(help="Name of a study that was run.")] = "valse",
    profile: Annotated[str, typer.Option(help="Fidelity profile: published or equations.")] = "published",
    results: Annotated[Path, typer.Option(help="Folder of results.")] = Path("results"),
    why: Annotated[bool, typer.Option(help="List the reasons of cells without a value or verdict.")] = False,
) -> None:
    """Print the tables that a study built."""
    folder = results / study / "reporting" / "tables"
    files = [file for name in TABLES if (file := folder / f"{name}.csv").is_file()]
    if not files:
        built = sorted(path.parts[-3] for path in results.glob("*/reporting/tables"))
        raise _refusal(f"{folder} holds no tables", study, built, f"run: snakemake --cores 2 --config study={study}")
    for file in files:
        cells = parse_csv(file.read_text(encoding="utf-8"))
        profiles = list(dict.fromkeys(cell.profile for cell in cells))
        declaration = TABLES[file.stem]
        if not cells or (declaration.profile_independent and profile not in profiles):
            continue
        if profile not in profiles:
            raise _refusal(f"{file} has no profile {profile!r}", profile, profiles, f"it has {', '.join(profiles)}")
        part = [cell for cell in cells if cell.profile == profile]
        _print_table(declaration, part, why)
    typer.echo(LEGEND)


@app.command()
def foil(
    text: Annotated[str, typer.Argument(help="A text, or - for one text a line from standard input.")],
    instrument: Annotated[str, typer.Option(help="plurality, existence, counting-small, ...")] = "plurality",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a candidate and line.")] = False,
) -> None:
    """Print the candidates of a text: its caption and its foil, what was exchanged in [brackets]."""
    texts = (line.rstrip("\n") for line in sys.stdin if line.strip()) if text == "-" else [text]
    try:
        for source_text, found in from_texts(instrument, texts):
            for entry in found:
                if isinstance(entry, Refused):
                    typer.echo(f"waltz: {source_text!r}: {entry.reason}", err=True)
                elif as_json:
                    typer.echo(json.dumps({"source_text": source_text, **_shown(entry)}, ensure_ascii=False))
                else:
                    typer.echo(
                        f"{_marked(entry.caption, entry.caption_span)}\n{_marked(entry.foil, entry.foil_span)}\n"
                    )
    except UserError as error:
        typer.echo(f"waltz: {error}", err=True)
        raise typer.Exit(1) from None


def _shown(candidate: Candidate) -> dict[str, Any]:
    names = ("caption", "foil", "caption_span", "foil_span", "direction")
    return {name: getattr(candidate, name) for name in names}


def _marked(text: str, span: Span) -> str:
    return f"{text[: span['start']]}[{slice_span(text, span)}]{text[span['end'] :]}"


def _print_table(declaration: Declaration, cells: list[Cell], why: bool) -> None:
    """Data sets run down the page, because a terminal is narrow; models without a value stay in the files."""
    if declaration.columns == "metric":
        _print_grid(declaration, cells, declaration.title)
    else:
        down = replace(declaration, rows=("dataset", "setting"), columns="model", column_groups=(), side_metrics=())
        for metric, heading in declaration.metrics.items():
            part = [cell for cell in cells if cell.metric == metric]
            measured = {cell.model for cell in part if cell.value is not None}
            if measured:
                _print_grid(down, [cell for cell in part if cell.model in measured], f"{declaration.title}: {heading}")
    if why:
        for line in list_reasons(declaration, cells):
            typer.echo(f"  {line}")


def _print_grid(declaration: Declaration, cells: list[Cell], title: str) -> None:
    laid = lay_out_grid(declaration, cells)
    columns = (" ".join(filter(None, names)) for names in laid.columns)
    table = Table("", *columns, title=f"{declaration.id}: {title}", title_justify="left")
    whole = declaration.columns == "model"
    for names, row in laid.rows:
        table.add_row(" ".join(names), *("" if marked is None else cell_text(marked.cell, whole) for marked in row))
    _console().print(table)


def _console() -> Console:
    """A console that folds nothing where its output is not a terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=200)


def _size(spec: ModelSpec) -> str:
    return f"{spec.parameters / 1e6:,.0f} M" if spec.parameters else "unknown"


def _refusal(fault: str, given: str, known: list[str], advice: str) -> typer.Exit:
    close = difflib.get_close_matches(given, known, n=1, cutoff=0.5)
    nearest = f" (did you mean {close[0]!r}?)" if close and close[0] != given else ""
    typer.echo(f"waltz: {fault}{nearest}; {advice}", err=True)
    return typer.Exit(1)
