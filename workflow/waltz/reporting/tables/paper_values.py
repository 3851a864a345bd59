"""Paper values: the numbers of the thesis and the papers (resources/published)."""

import csv
from dataclasses import dataclass
from pathlib import Path

from waltz.core.errors import UserError

Key = tuple[str, str, str, str]
"""metric, model, dataset, setting."""
RANDOM, EVERY_METRIC = "random", "all"
"""Model and metric of paper rows that give the chance level."""


@dataclass(frozen=True)
class PaperValue:
    """One cell of a paper's table.

    Attributes:
        key: metric, model, dataset, setting, as in the CSV; unique in a table.
        value: The digits in the paper; empty where the paper has none or they are illegible.
        unit: percent, ratio, count, correlation-x100, category, flag or text.
        note: Known errors in the paper, or why `value` is empty.
        sd: The digits of the standard deviation given with an average, else empty.
    """

    key: Key
    value: str
    unit: str
    note: str
    sd: str = ""


def read_paper_values(path: str | Path) -> dict[Key, PaperValue]:
    """Read the cells of one paper table, in its order.

    Raises:
        UserError: The file is missing or a cell occurs twice.
    """
    path = Path(path)
    if not path.is_file():
        raise UserError(f"{path}: no such paper table; see resources/published/README.md")
    cells: dict[Key, PaperValue] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for line, row in enumerate(csv.DictReader(file), 2):
            key = (row["metric"], row["model"], row["dataset"], row["setting"])
            if key in cells:
                raise UserError(f"{path}: line {line}: {key} occurs twice; delete one of them")
            cells[key] = PaperValue(key, row["value"], row["unit"], row["note"], row["sd"])
    return cells
