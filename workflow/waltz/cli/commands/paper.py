"""The command `waltz paper`: the values in a table of the papers, and our numbers next to them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from waltz.cli.output import create_console, suggest_run
from waltz.cli.run.checkout import DEFAULT_RESULTS, find_results
from waltz.core.errors import UserError, build_name_error, list_names, suggest_name

if TYPE_CHECKING:
    from waltz.reporting.tables.cells import Cell
    from waltz.reporting.tables.declaration import Declaration
    from waltz.reporting.tables.paper_values import PaperKey, PaperValue

app = typer.Typer(add_completion=False, rich_markup_mode=None)

DOCUMENTS = {
    "thesis": "thesis",
    "valse-paper": "VALSE paper",
    "decoders-paper": "VL decoders paper",
    "cv-probes": "CV-Probes paper",
}
"""Document of each table by the beginning of the table's id."""
TABLE_NUMBER = re.compile(r"(?:[a-c]\.)?\d+(?:\.\d+)?$")
"""Pattern of the number of a table, such as 4.2, c.25 or 10, at the end of its lower-case name."""
OPTIONS = {"model": "--model", "dataset": "--data", "metric": "--metric"}
"""Option that selects cells by each field."""
MOST_BLOCKS = 12
"""Largest number of values that are printed one below the other; more are printed as a table."""


@dataclass(frozen=True)
class OurNumber:
    """Our number for one value of a paper.

    Attributes:
        profile: Fidelity profile.
        value: The number, in the unit of the paper value; None without one.
        text: A text in place of the number.
        n: Number of items.
        ci_low: Lower end of the interval.
        ci_high: Upper end of the interval.
        verdict: `equal to the paper`, `equivalent`, `compatible`, `differs`, or empty.
        reason: Reason why the number or the verdict is missing.
        file: The table of the study that holds it.
    """

    profile: str
    value: float | None
    text: str
    n: int | None
    ci_low: float | None
    ci_high: float | None
    verdict: str
    reason: str
    file: str


@dataclass(frozen=True)
class PaperCell:
    """One value of a paper, with our numbers.

    Attributes:
        table: Id of the table; metric, model, data set and setting are named as in the CSV.
        metric: The metric.
        model: The model.
        dataset: The data set.
        setting: The setting.
        value: The value with the digits of the paper; empty where the paper has none.
        sd: Standard deviation in the paper; empty without one.
        unit: Unit of the value.
        note: Known error in the paper, or the reason why `value` is empty.
        ours: Our numbers, one a profile; empty if no study has built the table.
    """

    table: str
    metric: str
    model: str
    dataset: str
    setting: str
    value: str
    sd: str
    unit: str
    note: str
    ours: tuple[OurNumber, ...]


@app.command()
def paper_command(
    table: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TABLE",
            help="A table, such as 4.2, 'thesis C.25', 'decoders 2' or 'CV-Probes 4'.",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Model of the paper, or ours that stands for it.")
    ] = None,
    data: Annotated[str | None, typer.Option(help="Data set or instrument.")] = None,
    metric: Annotated[str | None, typer.Option(help="Metric.")] = None,
    study: Annotated[
        str | None,
        typer.Option(
            help="Study whose numbers stand next to the paper's; the newest with this table if none is given."
        ),
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option(help="Folder of results.", show_default=DEFAULT_RESULTS),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the values as JSON.")
    ] = False,
) -> None:
    """Print values of a table of the papers, with their source, our numbers and verdicts; nothing
    is run.

    Without a table, list all tables that have paper values.
    """
    if not table:
        _list_paper_tables()
        return
    declaration = find_paper_table(" ".join(table))
    file = _find_our_table(declaration.id, study, find_results(results))
    cells = read_paper_cells(declaration, file)
    wanted_names = {"model": model, "dataset": data, "metric": metric}
    for field, wanted in wanted_names.items():
        if wanted is not None:
            cells = select_cells(cells, field, wanted, declaration)
    if as_json:
        typer.echo(json.dumps([asdict(cell) for cell in cells], indent=2))
        return
    _print_source(declaration.id, declaration.title, file)
    # A few values have room for their notes and reasons.
    if len(cells) <= MOST_BLOCKS:
        _print_blocks(cells, has_ours=file is not None)
    else:
        _print_rows(cells)
    _print_verdicts(cells)
    for note in declaration.notes:
        typer.echo(note)


def find_paper_table(name: str) -> Declaration:
    """Return the table with paper values that a person names.

    Args:
        name: Its id, or its number after the name of its document: `thesis-4.2`, `4.2`,
            `Table C.25`, `decoders 2`.
    Raises:
        UserError: No table, or more than one, has this name.
    """
    tables = _find_paper_tables()
    matches = []
    for table in tables:
        if _is_named(table, name):
            matches.append(table)
    if len(matches) == 1:
        return tables[matches[0]]
    if matches:
        # Several documents have a table of this number.
        raise UserError(
            f"TABLE: {name!r} is the number of several tables: {list_names(matches, 'and')}; name the document as well"
        )
    raise UserError(
        f"TABLE: {name!r} is no table with paper values{suggest_paper_table(name)}; `waltz paper` lists them"
    )


def suggest_paper_table(name: str) -> str:
    """Return the end of a message about an unknown table: the tables of a figure, or a similar name."""
    from waltz.plan.table_entries import find_figure_table
    from waltz.reporting.tables.declarations import TABLES

    number = _split_name(name)[1].upper()
    figure = find_figure_table(number, TABLES)
    if figure:
        tables = list_names(TABLES[figure].paper_tables, "and")
        return f" (the numbers of Figure {number} are computed from {tables})"
    known = _find_paper_tables()
    # "42" and "4-2" are closest to no id, and mean thesis-4.2.
    compact = re.sub("[^a-z0-9]", "", name.casefold().removeprefix("table"))
    for table in known:
        if compact == _split_name(table)[1].replace(".", ""):
            return f" (did you mean {table!r}?)"
    return suggest_name(name, known)


def _find_paper_tables() -> dict[str, Declaration]:
    """Return the tables whose id is that of a file of paper values, in the order of the report."""
    from waltz.reporting.tables.declarations import TABLES

    tables = {}
    for table, declaration in TABLES.items():
        # A table may also be compared with the values of other tables, as Figure C.1 is.
        if table in declaration.paper_tables:
            tables[table] = declaration
    return tables


def _is_named(table: str, name: str) -> bool:
    """Return whether a person's name of a table fits its id."""
    if name == table:
        return True
    words, number = _split_name(name)
    # "decoders 2" and "VL decoders 2" both name a table of the VL decoders paper.
    words_of_table, number_of_table = _split_name(table)
    known_words = words_of_table | _split_name(_name_document(table))[0]
    return number == number_of_table and words <= known_words


def _split_name(name: str) -> tuple[set[str], str]:
    """Return the words of a table's name, and its number; `table` is not one of the words."""
    # `table_A_2` is a target of Snakemake.
    lower = re.sub(r"(?<=[\da-c])_(?=\d)", ".", name.casefold().strip())
    number = ""
    match = TABLE_NUMBER.search(lower)
    if match is not None:
        number = match[0]
    words = set(re.findall("[a-z]+|[0-9]+", lower.removesuffix(number)))
    return words - {"table", "tab"}, number


def _find_our_table(table: str, study: str | None, results: Path) -> Path | None:
    """Return the CSV of a table in a study; None if no study is named and none has the table.

    Raises:
        UserError: The study that is named has not built the table.
    """
    if study is not None:
        file = results / study / "reporting" / "tables" / f"{table}.csv"
        if not file.is_file():
            raise UserError(f"{file}: no such table{suggest_run(study, results)}")
        return file
    built = results.glob(f"*/reporting/tables/{table}.csv")
    return max(built, key=lambda file: file.stat().st_mtime, default=None)


def read_paper_cells(declaration: Declaration, file: Path | None) -> list[PaperCell]:
    """Return all values of a paper's table with our numbers.

    Args:
        declaration: The table.
        file: CSV of the table in a study; None for no numbers of ours.
    """
    from waltz.reporting.tables.cells import read_cells
    from waltz.reporting.tables.declaration import PUBLISHED
    from waltz.reporting.tables.paper_values import PaperKey, read_paper_values

    ours: dict[PaperKey, list[Cell]] = {}
    if file is not None:
        for cell in read_cells([file]):
            key = PaperKey(cell.metric, cell.model, cell.dataset, cell.setting)
            ours.setdefault(key, []).append(cell)
    paper_values = read_paper_values(PUBLISHED / f"{declaration.id}.csv")
    return [
        _join_cell(declaration.id, paper, ours, file) for paper in paper_values.values()
    ]


def _join_cell(
    table: str,
    paper: PaperValue,
    ours: Mapping[PaperKey, list[Cell]],
    file: Path | None,
) -> PaperCell:
    """Return a paper value with our numbers."""
    numbers = []
    for cell in ours.get(paper.key, ()):
        number = OurNumber(
            profile=cell.profile,
            value=cell.value,
            text=cell.text,
            n=cell.n,
            ci_low=cell.ci_low,
            ci_high=cell.ci_high,
            verdict=cell.verdict,
            reason=cell.reason,
            file=str(file),
        )
        numbers.append(number)
    return PaperCell(
        table,
        *paper.key,
        value=paper.value,
        sd=paper.sd,
        unit=paper.unit,
        note=paper.note,
        ours=tuple(numbers),
    )


def select_cells(
    cells: list[PaperCell], field: str, wanted: str, declaration: Declaration
) -> list[PaperCell]:
    """Return the cells with a model, data set or metric that a person names.

    Case, spaces, hyphens and underscores do not count. A name that is part of several names selects
    all of them, unless it is one of them.

    Args:
        cells: The cells.
        field: `model`, `dataset` or `metric`.
        wanted: The name.
        declaration: Their table, for our names of models and data sets.
    Raises:
        UserError: No cell has such a name.
    """
    cells_by_name: dict[str, list[PaperCell]] = {}
    for cell in cells:
        cells_by_name.setdefault(getattr(cell, field), []).append(cell)
    # "CLIP" is the model clip alone; "albef" is all models with this word.
    plain = _simplify(wanted)
    equal: list[PaperCell] = []
    similar: list[PaperCell] = []
    for name, cells_of_name in cells_by_name.items():
        spellings = _list_spellings(field, name, declaration)
        if plain in spellings:
            equal += cells_of_name
        # A separator keeps the end of one spelling apart from the beginning of the next.
        if plain in "\n".join(spellings):
            similar += cells_of_name
    if not similar:
        option = OPTIONS[field]
        names = filter(None, cells_by_name)
        error = build_name_error(
            option, f"name in table {declaration.id}", wanted, names
        )
        raise UserError(f"{error}{_list_tables_with(field, plain)}")
    return equal or similar


def _list_tables_with(field: str, plain: str) -> str:
    """Return the end of a message about a name that a table lacks: the other tables that have it."""
    tables = []
    for table, declaration in _find_paper_tables().items():
        names = {getattr(cell, field) for cell in read_paper_cells(declaration, None)}
        spellings = {
            spelling
            for name in names
            for spelling in _list_spellings(field, name, declaration)
        }
        if plain in spellings:
            tables.append(table)
    if not tables:
        return ""
    return f"; this name is in {list_names(tables, 'and')}"


def _list_spellings(field: str, name: str, declaration: Declaration) -> list[str]:
    """Return the simplified names by which a person may name a model, data set or metric."""
    from waltz.reporting.tables.declarations import get_style

    names: Iterable[str] = ()
    if field == "model":
        names = declaration.list_our_models(name)
    elif field == "dataset":
        names = declaration.find_dataset_aliases(name, "")
    elif field == "metric":
        names = (get_style(name).heading,)
    return [_simplify(text) for text in (name, *names)]


def _simplify(name: str) -> str:
    """Return a name in lower case, without the signs between its words."""
    # A sign before a word stays: `-img+cap` is not `+img+cap`.
    return re.sub(r"(?<=\w)[-_ ]+(?=\w)", "", name.casefold().strip())


def _list_paper_tables() -> None:
    """Print the tables with paper values."""
    from rich.table import Table

    listing = Table("table", "title", "paper values")
    for table, declaration in _find_paper_tables().items():
        # The paper has no value in some cells; their notes say why.
        cells = read_paper_cells(declaration, None)
        count = sum(bool(cell.value) for cell in cells)
        listing.add_row(table, declaration.title, str(count))
    create_console().print(listing)
    typer.echo("print one with: waltz paper TABLE [--model MODEL] [--data DATA SET]")


def _print_source(table: str, title: str, file: Path | None) -> None:
    """Print the title of a table, and the sources of its values and of our numbers."""
    from waltz.reporting.tables.declaration import PUBLISHED

    document = _name_document(table)
    typer.echo(f"{_name_table(table)}: {title}")
    typer.echo(f"  paper values  retyped from the {document} ({PUBLISHED / table}.csv)")
    typer.echo(f"  our numbers   {file or 'none: no study with this table was run'}")


def _name_document(table: str) -> str:
    """Return the name of the document that a table is in."""
    for start, document in DOCUMENTS.items():
        if table.startswith(start):
            return document
    return "running text of the thesis and the papers"


def _name_table(table: str) -> str:
    """Return the name of a table as people write it."""
    number = _split_name(table)[1]
    if not number:
        return table
    return f"Table {number.upper()} of the {_name_document(table)}"


def _print_blocks(cells: list[PaperCell], has_ours: bool) -> None:
    """Print one value below the other, with everything that is known of it.

    Args:
        cells: The values.
        has_ours: Whether a study has built the table.
    """
    from waltz.reporting.tables.declarations import get_style

    for cell in cells:
        names = [get_style(cell.metric).heading, cell.model, cell.dataset, cell.setting]
        typer.echo("\n" + ", ".join(filter(None, names)))
        typer.echo(f"  paper         {_format_paper_value(cell)} {cell.unit}".rstrip())
        if cell.note:
            typer.echo(f"  note          {cell.note}")
        for number in cell.ours:
            # The reason says why there is no number, or no verdict on it.
            typer.echo(f"  {number.profile:<13} {_format_our_number(cell, number)}")
            if number.reason:
                typer.echo(f"                {number.reason}")
        if has_ours and not cell.ours:
            typer.echo(f"  ours          none: the study has no {cell.model} here")


def _print_rows(cells: list[PaperCell]) -> None:
    """Print values as rows of a table; only columns that tell them apart are shown."""
    from rich.table import Table

    from waltz.reporting.tables.declarations import get_style

    fields = _list_shown_fields(cells)
    profiles = _list_profiles(cells)
    listing = Table(*fields, "paper", *profiles)
    for cell in cells:
        names = asdict(cell)
        names["metric"] = get_style(cell.metric).heading
        row = [names[field] for field in fields]
        row.append(_format_paper_value(cell))
        # A cell that a study has not built has no number of a profile.
        ours = {number.profile: number for number in cell.ours}
        for profile in profiles:
            number = ours.get(profile)
            row.append("" if number is None else _format_our_number(cell, number))
        listing.add_row(*row)
    create_console().print(listing)


def _list_shown_fields(cells: list[PaperCell]) -> list[str]:
    """Return the fields that name a cell, without those that are empty in all cells."""
    fields = []
    for field in ("metric", "model", "dataset", "setting"):
        if any(getattr(cell, field) for cell in cells):
            fields.append(field)
    return fields


def _list_profiles(cells: list[PaperCell]) -> list[str]:
    """Return the profiles of our numbers, each once."""
    profiles: dict[str, None] = {}
    for cell in cells:
        for number in cell.ours:
            profiles[number.profile] = None
    return list(profiles)


def _format_paper_value(cell: PaperCell) -> str:
    """Return a paper value with its standard deviation, or a dash."""
    if cell.sd:
        return f"{cell.value} ± {cell.sd}"
    return cell.value or "–"


def _format_our_number(cell: PaperCell, number: OurNumber) -> str:
    """Return our number with its interval, number of items and verdict, or a dash."""
    from waltz.reporting.tables.declarations import get_style

    if number.value is None:
        return number.text or "–"
    decimals = get_style(cell.metric).decimals
    text = f"{number.value:.{decimals}f}"
    if number.ci_low is not None and number.ci_high is not None:
        text += f" [{number.ci_low:.{decimals}f}, {number.ci_high:.{decimals}f}]"
    if number.n:
        text += f" n {number.n}"
    if number.verdict:
        text += f": {number.verdict}"
    return text


def _print_verdicts(cells: list[PaperCell]) -> None:
    """Print what the verdicts of the printed numbers mean."""
    from waltz.reporting.tables.paper_values import VERDICT_DEFINITIONS

    verdicts = set()
    for cell in cells:
        for number in cell.ours:
            verdicts.add(number.verdict)
    typer.echo("")
    for verdict, definition in VERDICT_DEFINITIONS.items():
        if verdict in verdicts:
            typer.echo(f"{verdict}: {definition}.")
