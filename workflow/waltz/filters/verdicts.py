"""Which candidates the filters keep, and why not the others."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from waltz.filters.nli import Inference

CLOSE = 1e-4
"""Scores this near to a threshold may fall on its other side on another machine."""
NO_CONTRADICTION = "no contradiction"
UNGRAMMATICAL = "grammaticality below"


@dataclass(frozen=True)
class Thresholds:
    """What an instrument's candidates must reach.

    Attributes:
        grammaticality: Lowest GRUEN grammaticality that is kept; None where the score is recorded only.
        contradiction: Whether contradiction must be the most probable relation of caption to foil.
    """

    grammaticality: float | None = None
    contradiction: bool = False

    @property
    def ungrammatical(self) -> str:
        """The reason of a candidate that is not grammatical enough: one for all, so that it can be counted."""
        return f"{UNGRAMMATICAL} {self.grammaticality:g}"


def judged(
    rows: Iterable[Mapping[str, Any]],
    thresholds: Thresholds,
    grammaticality: Mapping[str, float] | None = None,
    inferences: "Mapping[tuple[str, str], Inference] | None" = None,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Candidates with their scores and verdicts, and those whose verdict hangs on the last digits.

    A candidate that was rejected before keeps its reason. The first filter that rejects gives the reason:
    grammaticality, then contradiction.

    Args:
        rows: Rows of candidates with item_id, caption, foil, rejected.
        thresholds: What the instrument asks for.
        grammaticality: Score by foil; None where that filter did not run.
        inferences: Relation of caption to foil by both; None where that filter did not run. A pair that is
            rejected already may be absent.
    Returns:
        All rows in their order with grammaticality, nli_entailment, nli_neutral, nli_contradiction, kept and
        rejected; and for each filter and undecided candidate nearer than 1e-4 to a threshold a dict of
        item_id, filter, value, threshold.
    Raises:
        ValueError: A filter is asked for, and the score of a candidate that reached it is missing.
    """
    found: list[dict[str, Any]] = []
    close: list[dict[str, Any]] = []
    for row in rows:
        score = None if grammaticality is None else grammaticality.get(row["foil"])
        relation = None if inferences is None else inferences.get((row["caption"], row["foil"]))
        reason = row["rejected"]
        for name, value, threshold, why in _asked(thresholds, score, relation):
            if reason is not None:
                break
            if value is None:
                raise ValueError(f"{row['item_id']}: no {name} for {row['foil']!r}")
            if abs(value - threshold) < CLOSE:
                close.append({"item_id": row["item_id"], "filter": name, "value": value, "threshold": threshold})
            if value < threshold or (name == "contradiction" and value == threshold):
                reason = why
        found.append(
            {
                **row,
                "grammaticality": score,
                "nli_entailment": None if relation is None else relation.entailment,
                "nli_neutral": None if relation is None else relation.neutral,
                "nli_contradiction": None if relation is None else relation.contradiction,
                "kept": reason is None,
                "rejected": reason,
            }
        )
    return found, close


def _asked(
    thresholds: Thresholds, score: float | None, relation: "Inference | None"
) -> Iterable[tuple[str, float | None, float, str]]:
    """Filter, value, threshold and reason of every filter that is asked for, in order."""
    if thresholds.grammaticality is not None:
        yield "grammaticality", score, thresholds.grammaticality, thresholds.ungrammatical
    if thresholds.contradiction:
        yield "contradiction", None if relation is None else relation.margin, 0.0, NO_CONTRADICTION
