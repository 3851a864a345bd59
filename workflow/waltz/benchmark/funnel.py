"""Number of candidates of an instrument after each step of selection, and the reasons for the losses."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from waltz.benchmark.items import NOT_SELECTED
from waltz.filters.ranking import READS_WORSE, WORDED_WORSE
from waltz.filters.verdicts import NO_CONTRADICTION, UNGRAMMATICAL

Row = Mapping[str, Any]

SELECTION_STEPS = ("attested", "grammatical", "contradiction", "ranked", "balanced")
"""Steps that a candidate passes one after another; the first is that the rules of its instrument can use it."""
STEPS = ("candidates", *SELECTION_STEPS, "valid")
NO_VOTES = "nobody voted"
NOT_VALID = "too few votes for the caption"


def find_lost_step(rejected: str | None) -> str | None:
    """Return the step at which a candidate with this reason was lost; None where it is an item."""
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
    """Return whether a candidate passed a step."""
    lost_step = find_lost_step(row["rejected"])
    return lost_step is None or SELECTION_STEPS.index(lost_step) > SELECTION_STEPS.index(step)


def count_funnel(instrument: str, rows: Sequence[Row], items: Sequence[Row]) -> list[dict[str, Any]]:
    """Count the candidates after each step.

    Args:
        instrument: Name of the instrument.
        rows: Rows of the filtered layout after balancing.
        items: Rows of the benchmark layout.
    Returns:
        Rows of the funnel layout, in the order of `STEPS`; `lost` counts the reasons, the most frequent first.
    """
    funnel_rows = [_build_step(instrument, "candidates", len(rows), [])]
    for step in SELECTION_STEPS:
        reasons = [row["rejected"] for row in rows if find_lost_step(row["rejected"]) == step]
        funnel_rows.append(_build_step(instrument, step, sum(has_passed(row, step) for row in rows), reasons))
    invalid = [NO_VOTES if item["valid"] is None else NOT_VALID for item in items if not item["valid"]]
    return [*funnel_rows, _build_step(instrument, "valid", len(items) - len(invalid), invalid)]


def _build_step(instrument: str, step: str, count: int, reasons: Sequence[str]) -> dict[str, Any]:
    lost = sorted(Counter(reasons).items(), key=lambda pair: (-pair[1], pair[0]))
    return {
        "instrument": instrument,
        "step": step,
        "count": count,
        "lost": [{"reason": reason, "count": number} for reason, number in lost],
    }
