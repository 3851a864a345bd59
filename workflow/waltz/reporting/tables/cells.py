"""Cells of tables, each with our number, the paper value and a verdict; CSVs of cells, and counts
of verdicts.
"""

import csv
import io
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from waltz.reporting.tables.declaration import COMPARED_PROFILE
from waltz.reporting.tables.paper_values import COMPATIBLE, DIFFERS, EQUAL, EQUIVALENT

CHANCE = "chance by definition, not a measurement"
NOT_RUN = "not run in this study"
SMALLEST_N, FEWEST_IMAGES = 30, 8
"""Numbers of items and of images from which on a number says something.

Intervals of 95 % hold the mean in 93 to 98 % of samples from this number of images on, but in as
few as 90 % of samples of ten skewed numbers, such as T-SHAP near 100.
"""
SMALL_MARK = "†"
"""Sign after a number that is from too few items or images."""
SYNTHETIC_DATA = "the study's data are synthetic: not compared with the paper"
ONLY_PUBLISHED = f"only the profile {COMPARED_PROFILE} is compared with the paper"


@dataclass(frozen=True)
class Cell:
    """One cell of a table; the CSV has an empty field for None and for an empty text.

    Attributes:
        table: Id of the table.
        profile: Fidelity profile of our number.
        metric: Metric; metric, model, data set and setting have their names in
            `waltz/resources/published`.
        model: Model of the paper, or a model that only the study has; empty in tables without
            models.
        dataset: Data set.
        setting: Setting.
        value: Our number; None where there is a text or a reason instead.
        n: Number of items that our number was measured on.
        ci_low: Lower end of the interval of our number.
        ci_high: Upper end of the interval of our number.
        paper_value: The paper value.
        difference: Our number minus the paper value.
        verdict: `equal to the paper`, `equivalent`, `compatible`, `differs`, or empty.
        reason: Reason why the value or verdict is missing, or a known error in the paper.
        unit: Unit of both numbers.
        sd: Standard deviation of our number: over the data sets of an average, over items, or over
            seeds.
        paper_sd: Standard deviation in the paper.
        chance: Chance level; None where the paper does not give it.
        text: Text in place of our number: a category, a caption, or nan.
        paper_text: The paper value, with the digits of the paper.
        images: Number of images that our number was measured on, or of items if they have no
            images; None if our number comes from no sample.
        tolerance: Largest difference to the paper that would be compatible: the verdict cannot find
            a smaller deviation. None without a verdict, and where only equal numbers agree.
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
    images: int | None = None
    tolerance: float | None = None

    @property
    def is_filled(self) -> bool:
        """True if the cell has a number of ours or a text."""
        return self.value is not None or bool(self.text)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Lower and upper end of the interval of our number; None without an interval."""
        if self.ci_low is None or self.ci_high is None:
            return None
        return self.ci_low, self.ci_high


COLUMNS = [field.name for field in fields(Cell)]
NUMBERS = (
    "value",
    "ci_low",
    "ci_high",
    "paper_value",
    "difference",
    "sd",
    "paper_sd",
    "chance",
    "tolerance",
)
COUNTS = ("n", "images")
TEXTS = frozenset(COLUMNS) - {*NUMBERS, *COUNTS}


def format_csv(cells: Iterable[Cell]) -> str:
    """Format cells as CSV: numbers in full precision, and an empty field for None."""
    rows = []
    for cell in cells:
        fields_of_cell = asdict(cell)
        # Whole numbers are written without a decimal point: 50, not 50.0.
        for name in NUMBERS:
            value = fields_of_cell[name]
            if value is not None and float(value).is_integer():
                fields_of_cell[name] = int(value)
        rows.append(fields_of_cell)
    return _write_csv(COLUMNS, rows)


def parse_csv(text: str) -> list[Cell]:
    """Return the cells in the CSV of a table."""
    cells = []
    for row in csv.DictReader(io.StringIO(text)):
        fields_of_cell = {name: _parse_field(name, row[name]) for name in row}
        cells.append(Cell(**fields_of_cell))
    return cells


def is_small(n: int | None, images: int | None) -> bool:
    """Return whether a number is from too few items or images to say something.

    The number itself does not matter: its interval says how exact it is.

    Args:
        n: Number of items; None for a number that was not measured.
        images: Number of images; None where it is unknown, or the number comes from no sample.
    """
    has_few_items = n is not None and n < SMALLEST_N
    has_few_images = images is not None and images < FEWEST_IMAGES
    return has_few_items or has_few_images


def read_cells(files: Iterable[str | Path]) -> list[Cell]:
    """Return the cells in the CSVs of several tables, table by table."""
    cells = []
    for file in files:
        cells += parse_csv(Path(file).read_text(encoding="utf-8"))
    return cells


def group_cells(cells: Iterable[Cell], field: str) -> dict[str, list[Cell]]:
    """Group cells by the value of a field; groups are in order of appearance."""
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(getattr(cell, field), []).append(cell)
    return groups


def _write_csv(
    columns: Sequence[str], rows: Iterable[Mapping[str, str | float | None]]
) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _parse_field(name: str, value: str) -> Any:
    """Return the value of a field of `Cell` from its text in a CSV; None for an empty number."""
    if name in TEXTS:
        return value
    if not value:
        return None
    if name in COUNTS:
        return int(value)
    return float(value)


# Counts of verdicts: how many paper values a study reproduces

NO_VERDICT = "no verdict"
"""Kind of a cell that has a number of ours but no paper value to compare it with, or that is a
chance level.
"""
NO_VALUE = "no value"
KINDS = (EQUAL, EQUIVALENT, COMPATIBLE, DIFFERS, NO_VERDICT, NO_VALUE)


@dataclass(frozen=True)
class VerdictCounts:
    """Numbers of cells of each kind, in one table, of one model, or in all tables.

    Attributes:
        name: Name of the table or model.
        cells: Number of all cells.
        kinds: Number of cells of each kind: the kinds of `KINDS` in their order, then other
            verdicts.
    """

    name: str
    cells: int
    kinds: dict[str, int]

    @property
    def compared(self) -> int:
        """Number of cells with a verdict."""
        return self.cells - self.kinds[NO_VERDICT] - self.kinds[NO_VALUE]

    @property
    def named_kinds(self) -> list[str]:
        """Kinds that the page names: all but `EQUIVALENT` where no number is shown to be it."""
        kinds = list(self.kinds)
        if not self.kinds[EQUIVALENT]:
            kinds.remove(EQUIVALENT)
        return kinds

    def describe(self) -> str:
        """Return the numbers of equal, equivalent, compatible and different cells in words."""
        n_equal, n_compatible = self.kinds[EQUAL], self.kinds[COMPATIBLE]
        n_equivalent = self.kinds[EQUIVALENT]
        n_different = self.compared - n_equal - n_equivalent - n_compatible
        clauses = [f"{n_equal} are equal"]
        # Without a margin, nothing is shown to be equivalent.
        if n_equivalent:
            clauses.append(f"{n_equivalent} equivalent")
        clauses.append(f"{n_compatible} compatible and {n_different} different")
        return ", ".join(clauses)

    def share(self, kind: str) -> float:
        """Return the share of cells of a kind in all cells, between 0 and 1; 0 without cells."""
        if not self.cells:
            return 0.0
        return self.kinds.get(kind, 0) / self.cells


def select_compared(cells: Sequence[Cell]) -> list[Cell]:
    """Return the cells of the profile that is compared with the papers."""
    return [cell for cell in cells if cell.profile == COMPARED_PROFILE]


def classify_cell(cell: Cell) -> str:
    """Return the kind of a cell: its verdict if it has one, else `NO_VERDICT` or `NO_VALUE`."""
    if cell.verdict:
        return cell.verdict
    if cell.is_filled:
        return NO_VERDICT
    # A chance level follows from the task, so it has a number without a measurement.
    if cell.reason.startswith(CHANCE):
        return NO_VERDICT
    return NO_VALUE


def count_cells(name: str, cells: Sequence[Cell]) -> VerdictCounts:
    """Count cells by kind; `name` is the name of their table or model."""
    counter = Counter(map(classify_cell, cells))
    # All kinds get an entry, so that counts of several tables have the same columns.
    kinds = {kind: counter.pop(kind, 0) for kind in KINDS}
    return VerdictCounts(name, len(cells), kinds | dict(sorted(counter.items())))


def count_cells_by(cells: Sequence[Cell], field: str) -> list[VerdictCounts]:
    """Count the cells of each `table` or `model` by kind, in the order of the cells."""
    return [
        count_cells(name or f"(no {field})", members)
        for name, members in group_cells(cells, field).items()
    ]


def count_reasons(cells: Sequence[Cell]) -> list[tuple[str, int]]:
    """Return the reasons why cells have no value, each with its number of cells, the most frequent
    first.
    """
    without_value = [cell for cell in cells if classify_cell(cell) == NO_VALUE]
    reasons = Counter(cell.reason or "no reason given" for cell in without_value)
    return reasons.most_common()


def summarize_verdicts(cells: Sequence[Cell]) -> list[dict[str, str | int]]:
    """Count the cells with a paper value by verdict: over all tables, by table, by model.

    Args:
        cells: Cells of all tables. Cells without a paper value, and cells of profiles that are not
            compared with the papers, are skipped.
    Returns:
        Rows with `by` (all, table or model), `name`, number of paper values (`printed`), and number
        of cells of each kind.
    """
    compared = [cell for cell in select_compared(cells) if cell.paper_text]
    groups = {
        "all": [count_cells("all", compared)],
        "table": count_cells_by(compared, "table"),
        "model": count_cells_by(compared, "model"),
    }
    rows = []
    for by, members in groups.items():
        for counts in members:
            row: dict[str, str | int] = {
                "by": by,
                "name": counts.name,
                "printed": counts.cells,
            }
            row.update({kind.replace(" ", "_"): counts.kinds[kind] for kind in KINDS})
            rows.append(row)
    return rows


def format_summary_csv(rows: Sequence[dict[str, str | int]]) -> str:
    """Format the rows of `summarize_verdicts` as CSV."""
    return _write_csv(list(rows[0]), rows)


def format_summary_markdown(rows: Sequence[dict[str, str | int]]) -> str:
    """Format the rows of `summarize_verdicts` as a Markdown table."""
    names = ["", "paper values", *KINDS]
    lines = [
        "# Reproduction of the paper values\n",
        "| " + " | ".join(names) + " |",
        "| --- " * len(names) + "|",
    ]
    # The first column, `by`, is not shown: the names tell tables and models apart.
    lines += [
        "| " + " | ".join(map(str, list(row.values())[1:])) + " |" for row in rows
    ]
    return "\n".join(lines) + "\n"
