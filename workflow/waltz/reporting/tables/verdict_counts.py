"""Counts of verdicts over the cells of all tables: how many paper values a study reproduces."""

import csv
import io
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from waltz.reporting.tables.cells import CHANCE, COMPARED_PROFILE, Cell
from waltz.reporting.tables.verdicts import COMPATIBLE, DIFFERS, EQUAL

NO_VERDICT = "no verdict"
"""A number of ours without a paper value to compare it with, or a chance level."""
NO_VALUE = "no value"
KINDS = (EQUAL, COMPATIBLE, DIFFERS, NO_VERDICT, NO_VALUE)
SUMMARY_COLUMNS = ("by", "name", "printed", *(kind.replace(" ", "_") for kind in KINDS))


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


def count_cells_by(cells: Sequence[Cell], get_name: Callable[[Cell], str]) -> list[VerdictCounts]:
    """Count the cells of each table or model by kind, in the order of the cells.

    Args:
        cells: Cells of one profile.
        get_name: Returns the name of the group that a cell is counted in.
    """
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(get_name(cell), []).append(cell)
    return [count_cells(name, members) for name, members in groups.items()]


def count_reasons(cells: Sequence[Cell]) -> list[tuple[str, int]]:
    """Count the reasons why cells have no value, the most frequent first."""
    return Counter(cell.reason or "no reason given" for cell in cells if classify_cell(cell) == NO_VALUE).most_common()


def summarize_verdicts(cells: Sequence[Cell]) -> list[dict[str, str | int]]:
    """Count the cells with a paper value by verdict: over all tables, by table, by model.

    Args:
        cells: Cells of all tables; those of profiles that are not compared and those without a paper value are skipped.
    Returns:
        Rows of `SUMMARY_COLUMNS`, `by` being all, table or model.
    """
    compared = [cell for cell in select_compared(cells) if cell.published_text]
    groups = [
        ("all", [count_cells("all", compared)]),
        ("table", count_cells_by(compared, lambda cell: cell.table)),
        ("model", count_cells_by(compared, lambda cell: cell.model or "(no model)")),
    ]
    return [
        dict(
            zip(
                SUMMARY_COLUMNS,
                (by, counts.name, counts.cells, *(counts.kinds[kind] for kind in KINDS)),
                strict=True,
            )
        )
        for by, members in groups
        for counts in members
    ]


def format_summary_csv(rows: Sequence[dict[str, str | int]]) -> str:
    """Format the rows of `summarize_verdicts` as CSV."""
    text = io.StringIO()
    writer = csv.DictWriter(text, SUMMARY_COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def format_summary_markdown(rows: Sequence[dict[str, str | int]]) -> str:
    """Format the rows of `summarize_verdicts` as a Markdown table."""
    names = ["", "paper values", *KINDS]
    lines = ["# Reproduction of the paper values\n", "| " + " | ".join(names) + " |", "| --- " * len(names) + "|"]
    lines += ["| " + " | ".join(str(row[name]) for name in SUMMARY_COLUMNS[1:]) + " |" for row in rows]
    return "\n".join(lines) + "\n"
