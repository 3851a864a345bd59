"""Shifts of attributions with counterfactual edits, and the claim that explanations shift more than
answers.

Thesis 5.3, 5.4 and C.13 to C.22 show single items and say that a word inserted into the input
leaves the attributions of the answer nearly unchanged, while the attributions of the explanation
change. Here this is measured.
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
from waltz.fidelity import EQUATIONS, Fidelity


@dataclass(frozen=True, eq=False)
class ExplainedAnswer:
    """Hold the attributions of one item's answer and explanation.

    Attributes:
        answer: Shapley values of the answer.
        explanation: Shapley values of the explanation.
        players: Identities of the shared players: token ids or pieces of text; (row, column) for
            patches.
    """

    answer: SharedEstimate
    explanation: SharedEstimate
    players: Sequence[Hashable]


@dataclass(frozen=True, eq=False)
class EditShift:
    """Hold how far an edit shifts the attributions of one item, over the players that both inputs
    share.

    Attributes:
        answer: Cosine distance between the mean ratios of the answer before and after the edit, in
            [0, 2]; None with a reason.
        explanation: The same distance for the explanation.
        inserted_answer: Share of the answer's attribution after the edit that belongs to inserted
            players, in [0, 1].
        inserted_explanation: The same share for the explanation.
        unchanged: The unchanged players among the shared ones, before and after the edit.
        reason: Why a distance is None.
    """

    answer: float | None
    explanation: float | None
    inserted_answer: float | None
    inserted_explanation: float | None
    unchanged: SharedPlayers
    reason: str | None = None


def compute_edit_shift(
    before: ExplainedAnswer,
    after: ExplainedAnswer,
    fidelity: Fidelity = EQUATIONS,
    min_contribution: float = MIN_CONTRIBUTION,
) -> EditShift:
    """Compare the attributions of an item before and after an edit, and return how far they
    shifted.

    Ratios are taken over the unchanged players, so that the attribution of an inserted word does
    not count as a shift.

    Args:
        before: Attributions of the unedited item.
        after: Attributions of the edited item.
        fidelity: Rules of the ratios.
        min_contribution: For `equations`, the share of an average token's contribution below which
            a token is skipped.
    """
    unchanged = find_unchanged_players(before.players, after.players)
    undefined = EditShift(None, None, None, None, unchanged)
    if not len(unchanged[0]):
        return replace(undefined, reason="no player stayed")
    answer, inserted_answer = _measure_shift(
        before.answer, after.answer, unchanged, fidelity, min_contribution
    )
    explanation, inserted_explanation = _measure_shift(
        before.explanation, after.explanation, unchanged, fidelity, min_contribution
    )
    # A distance is undefined where the ratios are, before or after the edit.
    reasons = []
    for name, distance in (("answer", answer), ("explanation", explanation)):
        if distance is None:
            reasons.append(
                f"nothing contributes to the {name} before or after the edit"
            )
    return replace(
        undefined,
        answer=answer,
        explanation=explanation,
        inserted_answer=inserted_answer,
        inserted_explanation=inserted_explanation,
        reason="; ".join(reasons) or None,
    )


def _measure_shift(
    before: SharedEstimate,
    after: SharedEstimate,
    unchanged: SharedPlayers,
    fidelity: Fidelity,
    min_contribution: float,
) -> tuple[float | None, float | None]:
    """Return the cosine distance between the ratios before and after an edit, and the inserted
    players' share after.
    """
    # Ratios over the unchanged players alone, so that the inserted word does not change their sum.
    before_players, after_players = unchanged
    before_means = compute_mean_ratios(
        replace(before, shared=before.shared[before_players]),
        fidelity,
        min_contribution,
    )
    after_means = compute_mean_ratios(
        replace(after, shared=after.shared[after_players]), fidelity, min_contribution
    )
    distance = to_null(float(1 - compute_cosine(before_means, after_means)))

    # Share of the inserted players: 1 minus the share of the unchanged players in all magnitudes
    # after the edit.
    magnitudes = np.abs(compute_mean_ratios(after, fidelity, min_contribution))
    if not magnitudes.any():
        return distance, None
    return distance, to_null(1 - magnitudes[after_players].sum() / magnitudes.sum())
