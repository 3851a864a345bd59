"""Shifts of attributions with counterfactual edits, and the claim that explanations shift more than answers.

Thesis 5.3, 5.4 and C.13 to C.22 show single items and say that a word inserted into the input leaves the attributions
of the answer nearly as they were, while those of the explanation change. Here this is measured.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from waltz.attribution.shapley.estimate import to_null
from waltz.attribution.t_shap import MIN_CONTRIBUTION
from waltz.consistency.cc_shap.measure import (
    SharedEstimate,
    SharedPlayers,
    compute_cosine,
    compute_mean_ratios,
    find_unchanged_players,
)
from waltz.fidelity import Profile


@dataclass(frozen=True, eq=False)
class ExplainedItem:
    """An item with attributions of its answer and of the explanation.

    Attributes:
        players: Identities of the shared players: token ids or pieces; (row, column) of patches.
    """

    answer: SharedEstimate
    explanation: SharedEstimate
    players: Sequence[Hashable]


@dataclass(frozen=True, eq=False)
class EditShift:
    """Shift of one item's attributions with an edit, over the players that both inputs share.

    Attributes:
        answer: Cosine distance between the mean ratios of the answer before and after, in [0, 2]; None with a reason.
        explanation: That of the explanation.
        inserted_answer: Share of the answer's attribution, after the edit, that the inserted players carry, in [0, 1].
        inserted_explanation: Share of the explanation's.
        unchanged: The unchanged players among the shared ones before and after.
    """

    answer: float | None
    explanation: float | None
    inserted_answer: float | None
    inserted_explanation: float | None
    unchanged: SharedPlayers
    reason: str | None = None


def compute_edit_shift(
    before: ExplainedItem,
    after: ExplainedItem,
    profile: Profile = "equations",
    min_contribution: float = MIN_CONTRIBUTION,
) -> EditShift:
    """Compare attributions before and after an edit.

    Ratios are taken over the unchanged players, so that the attribution of an inserted word does not count as a shift.
    """
    unchanged = find_unchanged_players(before.players, after.players)
    undefined = EditShift(None, None, None, None, unchanged)
    if not len(unchanged[0]):
        return replace(undefined, reason="no player stayed")
    reasons = []
    distances: dict[str, float | None] = {}
    shares: dict[str, float | None] = {}
    for name, sides in (
        ("answer", (before.answer, after.answer)),
        ("explanation", (before.explanation, after.explanation)),
    ):
        means = [
            compute_mean_ratios(replace(side, shared=side.shared[players]), profile, min_contribution)
            for side, players in zip(sides, unchanged, strict=True)
        ]
        distances[name] = to_null(float(1 - compute_cosine(*means)))
        magnitudes = np.abs(compute_mean_ratios(sides[1], profile, min_contribution))
        shares[name] = to_null(1 - magnitudes[unchanged[1]].sum() / magnitudes.sum()) if magnitudes.any() else None
        if distances[name] is None:
            reasons.append(f"nothing contributes to the {name} before or after the edit")
    return replace(
        undefined,
        answer=distances["answer"],
        explanation=distances["explanation"],
        inserted_answer=shares["answer"],
        inserted_explanation=shares["explanation"],
        reason="; ".join(reasons) or None,
    )
