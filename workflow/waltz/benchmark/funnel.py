"""How many candidates of an instrument are left after each step, and why the others are not."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from waltz.benchmark.items import NOT_SELECTED
from waltz.filters.ranking import READS_WORSE, WORDED_WORSE
from waltz.filters.verdicts import NO_CONTRADICTION, UNGRAMMATICAL

Row = Mapping[str, Any]

SELECTION_STEPS = ("attested", "grammatical", "contradiction", "ranked", "balanced")
"""Steps that a candidate passes one after the other; the first is that the rules of its instrument can use it."""
STEPS = ("candidates", *SELECTION_STEPS, "valid")
NO_VOTES = "nobody voted"
NOT_VALID = "too few votes for the caption"


def find_lost_step(rejected: str | None) -> str | None:
    """The step at which a candidate with this reason was lost; None where it is an item."""
    if rejected is None:
        return None
    if rejected.startswith(UNGRAMMATICAL):
        return "grammatical"
    steps = {
        NO_CONTRADICTION: "contradiction",
        READS_WORSE: "ranked",
        WORDED_WORSE: "ranked",
        NOT_SELECTED: "balanced",
    }
    return steps.get(rejected, "attested")


def has_passed(row: Row, step: str) -> bool:
    """Whether a candidate passed a step."""
    lost = find_lost_step(row["rejected"])
    return lost is None or SELECTION_STEPS.index(lost) > SELECTION_STEPS.index(step)


def count_funnel(instrument: str, rows: Sequence[Row], items: Sequence[Row]) -> list[dict[str, Any]]:
    """The count after each step.

    Args:
        instrument: Name of the instrument.
        rows: Rows of the filtered layout after balancing.
        items: Rows of the benchmark layout.
    Returns:
        Rows of the funnel layout, in the order of `STEPS`; `lost` counts the reasons, the commonest first.
    """
    found = [_step(instrument, "candidates", len(rows), [])]
    for step in SELECTION_STEPS:
        reasons = [row["rejected"] for row in rows if find_lost_step(row["rejected"]) == step]
        found.append(_step(instrument, step, sum(has_passed(row, step) for row in rows), reasons))
    invalid = [NO_VOTES if item["valid"] is None else NOT_VALID for item in items if not item["valid"]]
    return [*found, _step(instrument, "valid", len(items) - len(invalid), invalid)]


def _step(instrument: str, step: str, count: int, reasons: Sequence[str]) -> dict[str, Any]:
    lost = sorted(Counter(reasons).items(), key=lambda pair: (-pair[1], pair[0]))
    return {
        "instrument": instrument,
        "step": step,
        "count": count,
        "lost": [{"reason": reason, "count": number} for reason, number in lost],
    }
