"""The claim that edits move attributions of explanations more than those of answers (thesis 5.4), judged from rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from waltz.core.intervals import Bounds, Measure, Resampling, compute_interval, resample

Verdict = Literal["supports", "refutes", "undecided"]
MIN_DIFFERENCE = 0.05
"""Cosine distance that explanations must shift further than answers, for the claim to be worth making."""
MIN_CLUSTERS = 5
"""Clusters below which an interval says too little for a verdict."""


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
