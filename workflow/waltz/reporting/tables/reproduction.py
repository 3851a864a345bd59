"""How much of print a study reproduces: all cells of all tables, counted."""

import csv
import io
from collections import Counter
from collections.abc import Sequence

from waltz.reporting.tables.cells import COMPARED_PROFILE, Cell
from waltz.reporting.tables.compare_to_paper import CHANCE
from waltz.reporting.tables.verdicts import COMPATIBLE, DIFFERS, EQUAL

NO_VERDICT = "no verdict"
ABSENT = "not run"
VERDICTS = (EQUAL, COMPATIBLE, DIFFERS, NO_VERDICT, ABSENT)
SUMMARY = ("by", "name", "printed", *(kind.replace(" ", "_") for kind in VERDICTS))


def classify_verdict(cell: Cell) -> str:
    """A cell's verdict; without one, whether something was there to run."""
    if cell.verdict:
        return cell.verdict
    unmeasured = cell.value is None and not cell.text and not cell.reason.startswith(CHANCE)
    return ABSENT if unmeasured else NO_VERDICT


def summarize_verdicts(cells: Sequence[Cell]) -> list[dict[str, str | int]]:
    """Cells that print has, counted by verdict: over all tables, by table, by model.

    Args:
        cells: Of all tables; those of profiles that are not compared are left out, as are those that print has not.
    Returns:
        Rows of `SUMMARY`, `by` being all, table or model.
    """
    printed = [cell for cell in cells if cell.profile == COMPARED_PROFILE and cell.published_text]
    groups = {("all", "all"): printed}
    for cell in printed:
        groups.setdefault(("table", cell.table), []).append(cell)
    for cell in printed:
        groups.setdefault(("model", cell.model or "(no model)"), []).append(cell)
    return [
        dict(
            zip(
                SUMMARY,
                (by, name, len(of), *(Counter(map(classify_verdict, of))[counted] for counted in VERDICTS)),
                strict=True,
            )
        )
        for (by, name), of in groups.items()
    ]


def format_summary_csv(rows: Sequence[dict[str, str | int]]) -> str:
    """The counts as CSV."""
    text = io.StringIO()
    writer = csv.DictWriter(text, SUMMARY, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def format_summary_markdown(rows: Sequence[dict[str, str | int]]) -> str:
    """The counts as a table to be read."""
    names = ["", *(name.replace("_", " ") for name in SUMMARY[2:])]
    lines = ["# How much of print is reproduced\n", "| " + " | ".join(names) + " |", "| --- " * len(names) + "|"]
    lines += ["| " + " | ".join(str(row[name]) for name in SUMMARY[1:]) + " |" for row in rows]
    return "\n".join(lines) + "\n"
