"""Cells of tables in tidy form: our number and the paper value, with a verdict or the reason why there is none."""

import csv
import io
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from typing import Any

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
        metric: Metric, named as in `resources/published`, like the next three.
        model: The paper's model, or one of ours that the paper lacks; empty in tables without models.
        dataset: The data set.
        setting: The setting.
        value: Our number; None with a reason or a text.
        n: Items that it was measured on.
        ci_low: Lower end of its interval.
        ci_high: Upper end.
        published: The paper value.
        difference: Our number minus the paper value.
        verdict: `equal to the paper`, `compatible`, `differs`, or empty.
        reason: Why something is missing, or a known error in the paper.
        unit: Unit of both numbers.
        sd: Standard deviation of our number: over data sets of an average, over items, or over seeds.
        published_sd: Standard deviation in the paper.
        chance: Chance level, where the paper gives it.
        text: Text in place of our number: a category, a caption, nan.
        published_text: The paper value, digit by digit.
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
    published: float | None
    difference: float | None
    verdict: str
    reason: str
    unit: str = ""
    sd: float | None = None
    published_sd: float | None = None
    chance: float | None = None
    text: str = ""
    published_text: str = ""


COLUMNS = [field.name for field in fields(Cell)]
NUMBERS = ("value", "ci_low", "ci_high", "published", "difference", "sd", "published_sd", "chance")


def format_csv(cells: Iterable[Cell]) -> str:
    """Format cells as CSV, numbers in full precision."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _format_value(value) for name, value in asdict(cell).items()} for cell in cells)
    return text.getvalue()


def parse_csv(text: str) -> list[Cell]:
    """Parse the cells of a table's CSV."""
    return [
        Cell(**{name: _parse_value(name, value) for name, value in row.items()})
        for row in csv.DictReader(io.StringIO(text))
    ]


def _format_value(value: Any) -> Any:
    """Return a value as CSV holds it: empty for None, whole numbers without a decimal point."""
    if value is None:
        return ""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _parse_value(name: str, value: str) -> Any:
    """Return the value of a field of `Cell` from its text."""
    if name == "n":
        return int(value) if value else None
    if name in NUMBERS:
        return float(value) if value else None
    return value
