"""Tables as tidy cells: ours beside the printed ones, with a verdict or the reason why there is none."""

import csv
import io
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from typing import Any

COMPARED_PROFILE = "published"
"""The one profile that is compared with print."""


@dataclass(frozen=True)
class Cell:
    """One cell of a table; `None` and empty texts are blank in the CSV.

    Attributes:
        table: Id of the table.
        profile: Fidelity profile of our number.
        metric: In the names of `resources/published`, as the three after it.
        model: The printed model, or ours that print has not; empty in tables without models.
        dataset: The data set.
        setting: The setting.
        value: Our number, None with a reason or a text.
        n: Items that it was measured on.
        ci_low: Lower end of its interval.
        ci_high: Upper end.
        published: The printed number.
        difference: Ours less the printed one.
        verdict: `equal to print`, `compatible`, `differs`, or empty.
        reason: Why something is missing, or what is known of an error in print.
        unit: Of both numbers.
        sd: Deviation of ours: over data sets of an average, over items, over seeds.
        published_sd: The printed deviation.
        chance: What guessing gives, where print says so.
        text: What stands in place of a number of ours: a category, a caption, nan.
        published_text: What is printed, digit by digit.
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
    """Cells as CSV, numbers in full precision."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _format_value(value) for name, value in asdict(cell).items()} for cell in cells)
    return text.getvalue()


def parse_csv(text: str) -> list[Cell]:
    """Cells of a table's CSV."""
    return [
        Cell(**{name: _parse_value(name, value) for name, value in row.items()})
        for row in csv.DictReader(io.StringIO(text))
    ]


def _format_value(value: Any) -> Any:
    """Nothing for None, whole numbers without a point."""
    if value is None:
        return ""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _parse_value(name: str, value: str) -> Any:
    if name == "n":
        return int(value) if value else None
    if name in NUMBERS:
        return float(value) if value else None
    return value
