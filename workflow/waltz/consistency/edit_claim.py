"""The claim that edits move attributions of explanations more than of answers (thesis 5.4), judged
from records.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from waltz.core.intervals import Bounds, Resampling, build_measure, resample
from waltz.core.measure import Measure
from waltz.core.schema import EditedRecord

Verdict = Literal["supports", "refutes", "undecided"]
MIN_DIFFERENCE = 0.05
"""Difference of the cosine distances of explanations and of answers above which the claim is
supported.
"""
MIN_CLUSTERS = 5
"""Minimum number of clusters for a verdict; an interval over fewer clusters is too uncertain."""


@dataclass(frozen=True)
class Claim:
    """Hold the evidence for the claim that edits change attributions of explanations, but not of
    answers.

    Attributes:
        answer: Mean cosine distance by which edits move the attributions of answers.
        explanation: Mean cosine distance by which edits move the attributions of explanations.
        difference: Mean of explanation minus answer, item by item.
        verdict: `supports` if the interval of the difference is above `MIN_DIFFERENCE`, `refutes`
            if it is below; else `undecided`, also with fewer clusters than `MIN_CLUSTERS`. None
            without items.
    """

    answer: Measure
    explanation: Measure
    difference: Measure
    verdict: Verdict | None


def judge_claim(
    records: Sequence[EditedRecord], label: str, resampling: Resampling
) -> Claim:
    """Judge whether edits move the attributions of explanations more than the attributions of
    answers.

    The noise of the permutations moves both. It moves the answer more, since an answer is a single
    token. With few permutations the difference is therefore too low.

    Args:
        records: Records of one model, data set, profile and seed, or of several seeds. Records of
            one image, or of one item of text, are resampled together; records without distances are
            skipped.
        label: Name that separates the bootstrap draws of these records from other draws.
        resampling: Resamples, coverage and seed; clusters are resampled.
    """
    # Only items with both distances count, so that the difference is taken item by item.
    answers: list[float] = []
    explanations: list[float] = []
    clusters: list[str] = []
    for record in records:
        if record.answer is not None and record.explanation is not None:
            answers.append(record.answer)
            explanations.append(record.explanation)
            clusters.append(record.image or record.item_id)
    if not clusters:
        no_measure = Measure(
            None,
            0,
            reason=f"none of {len(records)} items has contributions before and after an edit",
        )
        return Claim(no_measure, no_measure, no_measure, None)
    draws = resample(
        clusters, resamples=resampling.resamples, seed=resampling.seed, label=label
    )
    answer_shifts = np.array(answers, dtype=np.float64)
    explanation_shifts = np.array(explanations, dtype=np.float64)

    def measure_shift(values: np.ndarray, bounds: Bounds) -> Measure:
        means = draws.compute_means(values)
        return build_measure(
            float(values.mean()), len(values), means, resampling, draws.clusters, bounds
        )

    # Cosine distances lie in [0, 2], their differences in [-2, 2].
    difference = measure_shift(explanation_shifts - answer_shifts, (-2.0, 2.0))
    verdict: Verdict = "undecided"
    if draws.clusters >= MIN_CLUSTERS:
        verdict = _choose_verdict(difference.ci_low, difference.ci_high)
    return Claim(
        answer=measure_shift(answer_shifts, (0.0, 2.0)),
        explanation=measure_shift(explanation_shifts, (0.0, 2.0)),
        difference=difference,
        verdict=verdict,
    )


def _choose_verdict(low: float | None, high: float | None) -> Verdict:
    """Return the verdict that the interval of the difference allows."""
    if low is None or high is None:
        return "undecided"
    if low > MIN_DIFFERENCE:
        return "supports"
    if high < MIN_DIFFERENCE:
        return "refutes"
    return "undecided"
