"""CV-Probes: accuracy of a model that should match image and caption, except where the image lacks the action.

A model is right where p(match) > p(no match) on the three conditions that match, and where p(no match) > p(match) on a
plain image with a contextual caption. Equal probabilities are wrong. The number of a form is the harmonic mean of its
four accuracies.

The paper has no model without a probability of a match. For such models two comparisons need no threshold (not in the
paper, and defined for every model): on the plain image the plain caption should score above the contextual one, and the
contextual caption should score higher with the image with the action than with the plain one.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from waltz.core.intervals import PERCENT, Measure, Resamples, Resampling, compute_interval, resample
from waltz.core.schema import PROBE_CONDITIONS
from waltz.evaluation.metrics.pair_metrics import NOT_APPLICABLE

Row = Mapping[str, Any]

CV_PROBES = "cv-probes"
HARMONIC_MEAN = "harmonic-mean"
SCORE_COMPARISONS = {
    "captions": ("-img-cap", "-img+cap", "image", 1),
    "images": ("-img+cap", "+img+cap", "caption", -1),
}
"""By comparison: the condition of its items, the condition of their counterparts, the column that both share in
addition to the group, and whether the first should score higher (1) or lower (-1)."""


def compute_probe_metrics(
    items: Sequence[Row], rows: Iterable[Row], profile: str, resampling: Resampling
) -> list[dict[str, Any]]:
    """Compute the accuracy of each condition, their harmonic mean, and the two comparisons, by form.

    Intervals resample the images with the action (`group`), each with all items derived from it. The harmonic mean is
    taken of each resample's accuracies, 0 where one of them is 0.

    Args:
        items: Rows of the layout `CONDITIONS`.
        rows: Rows of `alignment.score_items`.
        profile: Profile of the rows to use.
    Returns:
        Rows of dataset (`cv-probes:` and the condition), setting (the form), metric and the fields of a measure.
    """
    scores = {row["item_id"]: row for row in rows if row["profile"] == profile}
    metric_rows = []
    for form in dict.fromkeys(item["form"] for item in items):
        form_items = [item for item in items if item["form"] == form]
        resamples = resample(
            [item["group"] for item in form_items],
            resamples=resampling.resamples,
            seed=resampling.seed,
            label=f"{CV_PROBES} {form}",
        )
        accuracies = _compute_accuracies(form_items, scores, resamples, resampling)
        comparisons = _compare_scores(form_items, scores, resamples, resampling)
        for dataset, metric, measure in [*accuracies, *comparisons]:
            entry = {"dataset": f"{CV_PROBES}:{dataset}", "setting": form, "metric": metric}
            metric_rows.append({**entry, **vars(measure)})
    return metric_rows


def _compute_accuracies(
    items: Sequence[Row], scores: Mapping[str, Row], resamples: Resamples, resampling: Resampling
) -> list[tuple[str, str, Measure]]:
    """Compute the accuracy of each condition and their harmonic mean."""
    rows = [scores[item["item_id"]] for item in items]
    conditions = np.array([item["condition"] for item in items])
    is_scored = np.array([row["score"] is not None for row in rows])
    has_verdict = np.array([row["correct"] is not None for row in rows])
    right = np.array([100.0 * bool(row["correct"]) for row in rows])
    measures, draws = [], []
    for condition in PROBE_CONDITIONS:
        in_condition = conditions == condition
        if (in_condition & has_verdict).any():
            measure, condition_draws = _measure_share(right, in_condition & has_verdict, resamples, resampling)
            draws.append(condition_draws)
        else:
            n = int(in_condition.sum())
            unscored = not (in_condition & is_scored).any()
            reason = f"none of {n} items could be scored" if unscored else NOT_APPLICABLE
            measure = Measure(None, n, reason=reason)
        measures.append((condition, "accuracy", measure))
    total = sum(measure.n for _, _, measure in measures)
    if len(draws) == len(PROBE_CONDITIONS):
        value = float(compute_harmonic_mean(np.array([measure.value for _, _, measure in measures])))
        mean_draws = compute_harmonic_mean(np.array(draws))
        ends = compute_interval(mean_draws, resampling.confidence, resamples.clusters, PERCENT)
        mean = Measure(value, total, *ends)
    else:
        reason = next(measure.reason for _, _, measure in measures if measure.reason)
        mean = Measure(None, total, reason=reason)
    return [*measures, (HARMONIC_MEAN, "accuracy", mean)]


def _compare_scores(
    items: Sequence[Row], scores: Mapping[str, Row], resamples: Resamples, resampling: Resampling
) -> list[tuple[str, str, Measure]]:
    """Compute how often an item and its counterpart of the same group score in the right order."""
    measures = []
    logits = np.array([scores[item["item_id"]]["score"] for item in items], dtype=np.float64)
    for name, (condition, counterpart, shared, sign) in SCORE_COMPARISONS.items():
        counterparts = {
            (item["group"], item[shared]): logit
            for item, logit in zip(items, logits, strict=True)
            if item["condition"] == counterpart
        }
        margins = np.array(
            [
                sign * (logit - counterparts.get((item["group"], item[shared]), np.nan))
                if item["condition"] == condition
                else np.nan
                for item, logit in zip(items, logits, strict=True)
            ]
        )
        has_value = ~np.isnan(margins)
        if has_value.any():
            measure, _ = _measure_share(100.0 * (margins > 0), has_value, resamples, resampling)
        else:
            measure = Measure(None, 0, reason="no two scored items of one group to compare")
        measures.append((name, "acc_r", measure))
    return measures


def _measure_share(
    right: np.ndarray, where: np.ndarray, resamples: Resamples, resampling: Resampling
) -> tuple[Measure, np.ndarray]:
    """Return the mean of some of the items, and the means of its resamples."""
    draws = resamples.compute_means(right, where)
    groups = len(np.unique(resamples.cluster[where]))
    ends = compute_interval(draws, resampling.confidence, groups, PERCENT)
    return Measure(float(right[where].mean()), int(where.sum()), *ends), draws


def compute_harmonic_mean(accuracies: np.ndarray) -> np.ndarray:
    """Return the harmonic mean over the first axis, 0 where an accuracy is 0."""
    with np.errstate(divide="ignore"):
        mean: np.ndarray = len(accuracies) / (1 / accuracies).sum(axis=0)
    return mean
