"""How much of print is reproduced: verdicts counted over the cells of all tables."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from waltz.reporting.tables.cells import COMPARED_PROFILE, Cell
from waltz.reporting.tables.verdicts import COMPATIBLE, DIFFERS, EQUAL

NO_COUNTERPART = "ours alone"
"""A number of ours without a verdict, because print has none."""
ABSENT = "no value"
KINDS = (EQUAL, COMPATIBLE, DIFFERS, NO_COUNTERPART, ABSENT)


@dataclass(frozen=True)
class Counts:
    """Cells of one table, one model or all by kind.

    Attributes:
        name: Of the table or model.
        cells: How many.
        kinds: How many of each kind, in the order of `KINDS`, other verdicts after them.
    """

    name: str
    cells: int
    kinds: dict[str, int]

    @property
    def compared(self) -> int:
        """How many have a verdict."""
        return self.cells - self.kinds[NO_COUNTERPART] - self.kinds[ABSENT]

    def share(self, kind: str) -> float:
        """Share of a kind in all cells, between 0 and 1."""
        return self.kinds.get(kind, 0) / self.cells if self.cells else 0.0


def select_compared(cells: Sequence[Cell]) -> list[Cell]:
    """The cells of the profile that is compared with print."""
    return [cell for cell in cells if cell.profile == COMPARED_PROFILE]


def classify_cell(cell: Cell) -> str:
    """The verdict, or what stands in its place."""
    return cell.verdict or (NO_COUNTERPART if _has_value(cell) else ABSENT)


def count_cells(name: str, cells: Sequence[Cell]) -> Counts:
    """Cells by kind."""
    found = Counter(map(classify_cell, cells))
    kinds = {kind: found.pop(kind, 0) for kind in KINDS}
    return Counts(name, len(cells), kinds | dict(sorted(found.items())))


def count_cells_by(cells: Sequence[Cell], name: Callable[[Cell], str]) -> list[Counts]:
    """Counts of each table or model, in the order of the cells.

    Args:
        cells: Of one profile.
        name: What a cell is counted under.
    """
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(name(cell), []).append(cell)
    return [count_cells(group, of) for group, of in groups.items()]


def count_reasons(cells: Sequence[Cell]) -> list[tuple[str, int]]:
    """Why cells have no value, the most frequent reason first."""
    return Counter(cell.reason or "no reason given" for cell in cells if not _has_value(cell)).most_common()


def _has_value(cell: Cell) -> bool:
    return cell.value is not None or bool(cell.text)
