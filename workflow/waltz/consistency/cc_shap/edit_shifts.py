"""Shifts of attributions with counterfactual edits, and the claim that explanations shift more than answers.

Thesis 5.3, 5.4 and C.13 to C.22 show single items and say that a word inserted into the input leaves the attributions
of the answer nearly as they were, while those of the explanation change. Here this is measured.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

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
from waltz.core.intervals import Bounds, Measure, Resampling, compute_interval, resample
from waltz.fidelity import Profile

Verdict = Literal["supports", "refutes", "undecided"]
MIN_DIFFERENCE = 0.05
"""Cosine distance that explanations must shift further than answers, for the claim to be worth making."""
MIN_CLUSTERS = 5
"""Clusters below which an interval says too little for a verdict."""


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


@dataclass(frozen=True)
class Claim:
    """Evidence for the claim that edits leave attributions of answers while those of explanations change.

    Attributes:
        answer: Mean distance that attributions of answers moved.
        explanation: Mean distance of the explanations'.
        difference: Mean of explanation minus answer, item by item.
        verdict: `supports` where the interval of the difference lies above `MIN_DIFFERENCE`, `refutes` where it lies
            below; `undecided` else, and with fewer clusters than `MIN_CLUSTERS`; None without items.
    """

    answer: Measure
    explanation: Measure
    difference: Measure
    verdict: Verdict | None


def judge_claim(rows: Sequence[Mapping[str, Any]], label: str, resampling: Resampling) -> Claim:
    """Judge whether edits move attributions of explanations more than those of answers.

    Noise that permutations leave in the attributions moves both; the answer's, of a single token, more. So where few
    permutations are drawn the difference comes out too low.

    Args:
        rows: Rows of the layout `EDITED` of one model, data set, profile and seed, or of several seeds: those of one
            image, or of one item of text, are drawn together. Those without distances are skipped.
        label: Name of model and data set, which separates the bootstrap draws from others'.
        resampling: Resamples, coverage and seed; clusters are drawn.
    """
    pairs = [
        (row["answer"], row["explanation"], row["image"] or row["item_id"])
        for row in rows
        if row["answer"] is not None and row["explanation"] is not None
    ]
    if not pairs:
        no_measure = Measure(None, 0, reason=f"none of {len(rows)} items has contributions before and after an edit")
        return Claim(no_measure, no_measure, no_measure, None)
    draws = resample(
        [cluster for *_, cluster in pairs], resamples=resampling.resamples, seed=resampling.seed, label=label
    )
    answer, explanation = (np.array([pair[side] for pair in pairs], dtype=np.float64) for side in (0, 1))

    def measure_shift(values: np.ndarray, bounds: Bounds) -> Measure:
        ends = compute_interval(draws.compute_means(values), resampling.confidence, draws.clusters, bounds)
        return Measure(float(values.mean()), len(values), *ends)

    difference = measure_shift(explanation - answer, (-2.0, 2.0))
    verdict = _choose_verdict(difference.ci_low, difference.ci_high)
    return Claim(
        answer=measure_shift(answer, (0.0, 2.0)),
        explanation=measure_shift(explanation, (0.0, 2.0)),
        difference=difference,
        verdict=verdict if draws.clusters >= MIN_CLUSTERS else "undecided",
    )


def _choose_verdict(low: float | None, high: float | None) -> Verdict:
    """Return what the interval of the difference supports."""
    if low is None or high is None:
        return "undecided"
    if low > MIN_DIFFERENCE:
        return "supports"
    return "refutes" if high < MIN_DIFFERENCE else "undecided"
