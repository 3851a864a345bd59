"""Verdicts of the filters on candidates: kept, or rejected with a reason."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from waltz.filters.nli import Inference

CLOSE = 1e-4
"""Distance from a threshold at which a score may fall on the other side on another machine."""
NO_CONTRADICTION = "no contradiction"
UNGRAMMATICAL = "grammaticality below"


@dataclass(frozen=True)
class Thresholds:
    """Thresholds for the candidates of an instrument.

    Attributes:
        grammaticality: Lowest GRUEN grammaticality that is kept; None where the score is only recorded.
        contradiction: True where contradiction must be the most probable relation of caption to foil.
    """

    grammaticality: float | None = None
    contradiction: bool = False

    @property
    def ungrammatical(self) -> str:
        """Reason of a candidate that is not grammatical enough: one for all, so that it can be counted."""
        return f"{UNGRAMMATICAL} {self.grammaticality:g}"


def apply_thresholds(
    rows: Iterable[Mapping[str, Any]],
    thresholds: Thresholds,
    grammaticality: Mapping[str, float] | None = None,
    inferences: "Mapping[tuple[str, str], Inference] | None" = None,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return candidates with their scores and verdicts, and those whose verdict depends on the last digits.

    A candidate that was rejected before keeps its reason. The first filter that rejects gives the reason:
    grammaticality, then contradiction.

    Args:
        rows: Rows of candidates with item_id, caption, foil, rejected.
        thresholds: Those of the instrument.
        grammaticality: Score by foil; None where that filter did not run.
        inferences: Relation of caption to foil by both; None where that filter did not run. A pair that is
            rejected already may be absent.
    Returns:
        All rows in their order with grammaticality, nli_entailment, nli_neutral, nli_contradiction, kept and
        rejected; and for each filter and undecided candidate nearer than 1e-4 to a threshold a dict of
        item_id, filter, value, threshold.
    Raises:
        ValueError: A filter is active, and the score of a candidate that reached it is missing.
    """
    judged_rows: list[dict[str, Any]] = []
    close: list[dict[str, Any]] = []
    for row in rows:
        score = None if grammaticality is None else grammaticality.get(row["foil"])
        inference = None if inferences is None else inferences.get((row["caption"], row["foil"]))
        reason = row["rejected"]
        for name, value, threshold, failure in _list_checks(thresholds, score, inference):
            if reason is not None:
                break
            if value is None:
                raise ValueError(f"{row['item_id']}: no {name} for {row['foil']!r}")
            if abs(value - threshold) < CLOSE:
                close.append({"item_id": row["item_id"], "filter": name, "value": value, "threshold": threshold})
            if value < threshold or (name == "contradiction" and value == threshold):
                reason = failure
        judged_rows.append(
            {
                **row,
                "grammaticality": score,
                "nli_entailment": None if inference is None else inference.entailment,
                "nli_neutral": None if inference is None else inference.neutral,
                "nli_contradiction": None if inference is None else inference.contradiction,
                "kept": reason is None,
                "rejected": reason,
            }
        )
    return judged_rows, close


def _list_checks(
    thresholds: Thresholds, score: float | None, inference: "Inference | None"
) -> Iterable[tuple[str, float | None, float, str]]:
    """Yield filter, value, threshold and reason of every active filter, in order."""
    if thresholds.grammaticality is not None:
        yield "grammaticality", score, thresholds.grammaticality, thresholds.ungrammatical
    if thresholds.contradiction:
        yield "contradiction", None if inference is None else inference.margin, 0.0, NO_CONTRADICTION
