"""Published numbers, as printed (resources/published)."""

import csv
from dataclasses import dataclass
from pathlib import Path

from waltz.core.errors import UserError

Key = tuple[str, str, str, str]
"""metric, model, dataset, setting."""


@dataclass(frozen=True)
class PaperValue:
    """One printed cell.

    Attributes:
        key: metric, model, dataset, setting, as in the CSV; unique in a table.
        value: The printed digits; empty where the print is blank or illegible.
        unit: percent, ratio, count, correlation-x100, category, flag or text.
        note: Known errors in print, or why `value` is empty.
        sd: The digits of the deviation that is printed beside an average, else empty.
    """

    key: Key
    value: str
    unit: str
    note: str
    sd: str = ""


def read_paper_values(path: str | Path) -> dict[Key, PaperValue]:
    """Cells of one published table, in print order.

    Raises:
        UserError: The file is missing or a cell stands twice.
    """
    path = Path(path)
    if not path.is_file():
        raise UserError(f"{path}: no such published table; see resources/published/README.md")
    cells: dict[Key, PaperValue] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for line, row in enumerate(csv.DictReader(file), 2):
            key = (row["metric"], row["model"], row["dataset"], row["setting"])
            if key in cells:
                raise UserError(f"{path}: line {line}: {key} stands twice")
            cells[key] = PaperValue(key, row["value"], row["unit"], row["note"], row["sd"])
    return cells
