"""Cells of tables, each with our number, the paper value and a verdict; their CSV, and counts of verdicts."""

import csv
import io
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from waltz.reporting.tables.paper_values import COMPATIBLE, DIFFERS, EQUAL

COMPARED_PROFILE = "published"
"""The profile that is compared with the papers."""
CHANCE = "chance by definition, not a measurement"
NOT_RUN = "not run in this study"
SYNTHETIC_DATA = "the study's data are synthetic: not compared with the paper"
ONLY_PUBLISHED = f"only the profile {COMPARED_PROFILE} is compared with the paper"


@dataclass(frozen=True)
class Cell:
    """One cell of a table; `None` and empty texts are blank in the CSV.

    Attributes:
        table: Id of the table.
        profile: Fidelity profile of our number.
        metric: Metric, named as in `waltz/resources/published`, like the next three.
        model: The paper's model, or one of ours that the paper lacks; empty in tables without models.
        dataset: The data set.
        setting: The setting.
        value: Our number; None with a reason or a text.
        n: Items that it was measured on.
        ci_low: Lower end of its interval.
        ci_high: Upper end.
        paper_value: The paper value.
        difference: Our number minus the paper value.
        verdict: `equal to the paper`, `compatible`, `differs`, or empty.
        reason: Why something is missing, or a known error in the paper.
        unit: Unit of both numbers.
        sd: Standard deviation of our number: over data sets of an average, over items, or over seeds.
        paper_sd: Standard deviation in the paper.
        chance: Chance level, where the paper gives it.
        text: Text in place of our number: a category, a caption, nan.
        paper_text: The paper value, digit by digit.
    """

    table: str
    profile: str
    metric: str
    model: str
    dataset: str
    setting: str
    value: float | None
    n: int | None
    ci_low: float | None
    ci_high: float | None
    paper_value: float | None
    difference: float | None
    verdict: str
    reason: str
    unit: str = ""
    sd: float | None = None
    paper_sd: float | None = None
    chance: float | None = None
    text: str = ""
    paper_text: str = ""


COLUMNS = [field.name for field in fields(Cell)]
NUMBERS = ("value", "ci_low", "ci_high", "paper_value", "difference", "sd", "paper_sd", "chance")


def format_csv(cells: Iterable[Cell]) -> str:
    """Format cells as CSV, numbers in full precision, empty for None."""
    return _write_csv(
        COLUMNS,
        (
            {
                name: int(value) if isinstance(value, float) and value.is_integer() else value
                for name, value in asdict(cell).items()
            }
            for cell in cells
        ),
    )


def parse_csv(text: str) -> list[Cell]:
    """Parse the cells of a table's CSV."""
    return [
        Cell(**{name: _parse_value(name, value) for name, value in row.items()})
        for row in csv.DictReader(io.StringIO(text))
    ]


def read_cells(files: Iterable[str | Path]) -> list[Cell]:
    """Read the cells of tables' CSVs."""
    return [cell for file in files for cell in parse_csv(Path(file).read_text(encoding="utf-8"))]


def group_cells(cells: Iterable[Cell], field: str) -> dict[str, list[Cell]]:
    """Group cells by a field, in order of appearance."""
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(getattr(cell, field), []).append(cell)
    return groups


def _write_csv(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _parse_value(name: str, value: str) -> Any:
    """Return the value of a field of `Cell` from its text."""
    if name == "n":
        return int(value) if value else None
    if name in NUMBERS:
        return float(value) if value else None
    return value


# Counts of verdicts: how many paper values a study reproduces

NO_VERDICT = "no verdict"
"""A number of ours without a paper value to compare it with, or a chance level."""
NO_VALUE = "no value"
KINDS = (EQUAL, COMPATIBLE, DIFFERS, NO_VERDICT, NO_VALUE)


@dataclass(frozen=True)
class VerdictCounts:
    """Cells of one table, of one model, or of all tables, counted by kind.

    Attributes:
        name: Name of the table or model.
        cells: Number of cells.
        kinds: Number of cells of each kind, in the order of `KINDS`, other verdicts after them.
    """

    name: str
    cells: int
    kinds: dict[str, int]

    @property
    def compared(self) -> int:
        """Number of cells with a verdict."""
        return self.cells - self.kinds[NO_VERDICT] - self.kinds[NO_VALUE]

    def share(self, kind: str) -> float:
        """Return the share of a kind in all cells, between 0 and 1."""
        return self.kinds.get(kind, 0) / self.cells if self.cells else 0.0


def select_compared(cells: Sequence[Cell]) -> list[Cell]:
    """Return the cells of the profile that is compared with the papers."""
    return [cell for cell in cells if cell.profile == COMPARED_PROFILE]


def classify_cell(cell: Cell) -> str:
    """Return a cell's verdict; without one, `NO_VERDICT` or `NO_VALUE`."""
    if cell.verdict:
        return cell.verdict
    measured = cell.value is not None or cell.text or cell.reason.startswith(CHANCE)
    return NO_VERDICT if measured else NO_VALUE


def count_cells(name: str, cells: Sequence[Cell]) -> VerdictCounts:
    """Count cells by kind."""
    counter = Counter(map(classify_cell, cells))
    kinds = {kind: counter.pop(kind, 0) for kind in KINDS}
    return VerdictCounts(name, len(cells), kinds | dict(sorted(counter.items())))


def count_cells_by(cells: Sequence[Cell], field: str) -> list[VerdictCounts]:
    """Count the cells of each `table` or `model` by kind, in the order of the cells."""
    return [count_cells(name or f"(no {field})", members) for name, members in group_cells(cells, field).items()]


def count_reasons(cells: Sequence[Cell]) -> list[tuple[str, int]]:
    """Count the reasons why cells have no value, the most frequent first."""
    return Counter(cell.reason or "no reason given" for cell in cells if classify_cell(cell) == NO_VALUE).most_common()


def summarize_verdicts(cells: Sequence[Cell]) -> list[dict[str, str | int]]:
    """Count the cells with a paper value by verdict: over all tables, by table, by model.

    Args:
        cells: Cells of all tables; those of profiles that are not compared and those without a paper value are skipped.
    Returns:
        Rows with `by` (all, table or model), name, paper values (`printed`), and cells of each kind.
    """
    compared = [cell for cell in select_compared(cells) if cell.paper_text]
    groups = {
        "all": [count_cells("all", compared)],
        "table": count_cells_by(compared, "table"),
        "model": count_cells_by(compared, "model"),
    }
    return [
        {
            "by": by,
            "name": counts.name,
            "printed": counts.cells,
            **{kind.replace(" ", "_"): counts.kinds[kind] for kind in KINDS},
        }
        for by, members in groups.items()
        for counts in members
    ]


def format_summary_csv(rows: Sequence[dict[str, str | int]]) -> str:
    """Format the rows of `summarize_verdicts` as CSV."""
    return _write_csv(list(rows[0]), rows)


def format_summary_markdown(rows: Sequence[dict[str, str | int]]) -> str:
    """Format the rows of `summarize_verdicts` as a Markdown table."""
    names = ["", "paper values", *KINDS]
    lines = ["# Reproduction of the paper values\n", "| " + " | ".join(names) + " |", "| --- " * len(names) + "|"]
    lines += ["| " + " | ".join(map(str, list(row.values())[1:])) + " |" for row in rows]
    return "\n".join(lines) + "\n"
