"""CV-Probes: accuracy of a model that should match image and caption, except where the image lacks
the action.

A model is right if p(match) > p(no match) on the three conditions that match, and if p(no match) >
p(match) on a plain image with a contextual caption. Equal probabilities are wrong. The result of a
form is the harmonic mean of its four accuracies.

The paper has no model without a probability of a match. For such models there are two comparisons
that need no threshold; they are not in the paper, and are defined for every model. On the plain
image the plain caption should score higher than the contextual caption. The contextual caption
should score higher on the image with the action than on the plain image. A tie counts half.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from waltz.core.intervals import PERCENT, Resamples, Resampling, build_measure, resample
from waltz.core.measure import Measure
from waltz.core.schema import (
    PROBE_CONDITIONS,
    EvaluationRecord,
    MetricRecord,
    ProbeRecord,
)
from waltz.evaluation.metrics.pair_metrics import (
    NOT_APPLICABLE,
    compare_texts,
    refuse_nan_score,
)

CV_PROBES = "cv-probes"
HARMONIC_MEAN = "harmonic-mean"


@dataclass(frozen=True)
class ScoreComparison:
    """Rule of a comparison of the scores of items and their counterparts.

    Attributes:
        condition: Condition of the items.
        counterpart: Condition of their counterparts.
        get_shared: Returns what an item and its counterpart share in addition to the group.
        sign: 1 if an item should score higher than its counterpart, -1 if it should score lower.
    """

    condition: str
    counterpart: str
    get_shared: Callable[[ProbeRecord], str]
    sign: int


SCORE_COMPARISONS = {
    "captions": ScoreComparison("-img-cap", "-img+cap", attrgetter("image"), 1),
    "images": ScoreComparison("-img+cap", "+img+cap", attrgetter("caption"), -1),
}
"""Rules of the comparisons by name."""


@dataclass(frozen=True)
class ScoredForm:
    """Hold the items of one form with their scores.

    Attributes:
        items: Items of CV-Probes.
        records: Record of each item.
        resamples: Resamples of the images with the action.
        resampling: Settings of the resamples, and coverage of the intervals.
    """

    items: Sequence[ProbeRecord]
    records: Sequence[EvaluationRecord]
    resamples: Resamples
    resampling: Resampling

    def measure_share(
        self, right: np.ndarray, mask: np.ndarray
    ) -> tuple[Measure, np.ndarray]:
        """Return the mean over the items of a mask with its interval, and the mean in each
        resample.

        Args:
            right: Percent of each item, float64 of shape (items,).
            mask: The items that the mean is taken over, bool of shape (items,).
        """
        draws = self.resamples.compute_means(right, mask)
        n_groups = len(np.unique(self.resamples.cluster[mask]))
        measure = build_measure(
            float(right[mask].mean()),
            int(mask.sum()),
            draws,
            self.resampling,
            n_groups,
            PERCENT,
        )
        return measure, draws


def compute_probe_metrics(
    model: str,
    items: Sequence[ProbeRecord],
    records: Iterable[EvaluationRecord],
    profile: str,
    resampling: Resampling,
) -> list[MetricRecord]:
    """Compute the accuracy of each condition, their harmonic mean, and the two comparisons, by
    form.

    Intervals resample the images with the action (`group`), each with all items derived from it.
    The harmonic mean is computed from the accuracies of each resample; it is 0 if one of them is 0.

    Args:
        model: Name of the model.
        items: Items of CV-Probes.
        records: Records of `alignment.score_items`.
        profile: Profile of the records that are used.
        resampling: Resamples and coverage of the intervals.
    Returns:
        Records whose data set is `cv-probes:` and the condition, and whose setting is the form.
    Raises:
        UserError: A score is not a number.
    """
    scores: dict[str, EvaluationRecord] = {}
    for record in records:
        if record.profile == profile:
            refuse_nan_score(record)
            scores[record.item_id] = record
    items_by_form: dict[str, list[ProbeRecord]] = defaultdict(list)
    for item in items:
        items_by_form[item.form].append(item)

    metrics = []
    for form, form_items in items_by_form.items():
        # Items of one group are derived from one image, so that groups are resampled.
        resamples = resample(
            [item.group for item in form_items],
            resamples=resampling.resamples,
            seed=resampling.seed,
            label=f"{CV_PROBES} {form}",
        )
        form_records = [scores[item.item_id] for item in form_items]
        scored = ScoredForm(form_items, form_records, resamples, resampling)
        measures = [*_compute_accuracies(scored), *_compare_scores(scored)]
        for dataset, metric, measure in measures:
            metrics.append(
                MetricRecord(
                    model=model,
                    dataset=f"{CV_PROBES}:{dataset}",
                    profile=profile,
                    setting=form,
                    metric=metric,
                    measure=measure,
                )
            )
    return metrics


def _compute_accuracies(scored: ScoredForm) -> list[tuple[str, str, Measure]]:
    """Compute the accuracy of each condition and their harmonic mean."""
    # All arrays below have shape (items,); masks select the items of a condition.
    conditions = np.array([item.condition for item in scored.items])
    is_scored = np.array([record.score is not None for record in scored.records])
    has_verdict = np.array([record.correct is not None for record in scored.records])
    right = np.array([100.0 * bool(record.correct) for record in scored.records])

    measures: dict[str, Measure] = {}
    draws: list[np.ndarray] = []  # (resamples,) for each condition with a value
    for condition in PROBE_CONDITIONS:
        in_condition = conditions == condition
        is_judged = in_condition & has_verdict
        if is_judged.any():
            measures[condition], condition_draws = scored.measure_share(
                right, is_judged
            )
            draws.append(condition_draws)
            continue
        n = int(in_condition.sum())
        reason = f"none of {n} items could be scored"
        if (in_condition & is_scored).any():
            reason = NOT_APPLICABLE
        measures[condition] = Measure(None, n, reason=reason)
    measures[HARMONIC_MEAN] = _average_conditions(
        list(measures.values()), draws, scored
    )
    return [(name, "accuracy", measure) for name, measure in measures.items()]


def _average_conditions(
    measures: Sequence[Measure], draws: Sequence[np.ndarray], scored: ScoredForm
) -> Measure:
    """Compute the harmonic mean of the accuracies of all conditions.

    Args:
        measures: The accuracy of each condition.
        draws: The accuracy in each resample, (resamples,), of each condition with a value.
    """
    total = sum(measure.n for measure in measures)
    # The harmonic mean needs the accuracy of every condition.
    for measure in measures:
        if measure.value is None:
            return Measure(None, total, reason=measure.reason)
    values = np.array([measure.value for measure in measures])
    # In each resample, the harmonic mean of its four accuracies: over the first axis.
    return build_measure(
        float(compute_harmonic_mean(values)),
        total,
        compute_harmonic_mean(np.array(draws)),
        scored.resampling,
        scored.resamples.clusters,
        PERCENT,
    )


def _compare_scores(scored: ScoredForm) -> list[tuple[str, str, Measure]]:
    """Compute, for each comparison, how often an item and its counterpart score in the right order."""
    measures = []
    for name, comparison in SCORE_COMPARISONS.items():
        credits = _compute_credits(comparison, scored)
        has_value = ~np.isnan(credits)
        if has_value.any():
            measure, _ = scored.measure_share(100.0 * credits, has_value)
        else:
            measure = Measure(
                None, 0, reason="no two scored items of one group to compare"
            )
        measures.append((name, "acc_r", measure))
    return measures


def _compute_credits(comparison: ScoreComparison, scored: ScoredForm) -> np.ndarray:
    """Return the credit of each item in a comparison: float64 of shape (items,), NaN without a
    counterpart.
    """
    # A counterpart has the same group, and the same image or the same caption.
    counterparts: dict[tuple[str, str], EvaluationRecord] = {}
    for item, record in zip(scored.items, scored.records, strict=True):
        if item.condition == comparison.counterpart and record.score is not None:
            counterparts[item.group, comparison.get_shared(item)] = record

    credits = np.full(len(scored.items), np.nan)
    for position, item in enumerate(scored.items):
        counterpart = counterparts.get((item.group, comparison.get_shared(item)))
        if item.condition != comparison.condition or counterpart is None:
            continue
        order = compare_texts(scored.records[position], counterpart)
        if order is not None:
            # 1 for the right order, 0 for the wrong one, and 0.5 for a tie.
            credits[position] = (1 + comparison.sign * order) / 2
    return credits


def compute_harmonic_mean(accuracies: np.ndarray) -> np.ndarray:
    """Return the harmonic mean over the first axis; it is 0 where an accuracy is 0."""
    # 1 / 0 is infinite, and n / infinity is 0, the harmonic mean of accuracies with a 0 among them.
    with np.errstate(divide="ignore"):
        mean: np.ndarray = len(accuracies) / (1 / accuracies).sum(axis=0)
    return mean
