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

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from waltz.core.intervals import PERCENT, Resamples, Resampling, build_measure, resample
from waltz.core.measure import Measure
from waltz.core.schema import PROBE_CONDITIONS
from waltz.evaluation.metrics.pair_metrics import NOT_APPLICABLE, is_tied_pair

Row = Mapping[str, Any]

CV_PROBES = "cv-probes"
HARMONIC_MEAN = "harmonic-mean"
SCORE_COMPARISONS = {
    "captions": ("-img-cap", "-img+cap", "image", 1),
    "images": ("-img+cap", "+img+cap", "caption", -1),
}
"""Rule of each comparison: the condition of the items, the condition of their counterparts, the
column that both share in addition to the group, and whether the item should score higher (1) or
lower (-1) than its counterpart.
"""


def compute_probe_metrics(
    items: Sequence[Row], rows: Iterable[Row], profile: str, resampling: Resampling
) -> list[dict[str, Any]]:
    """Compute the accuracy of each condition, their harmonic mean, and the two comparisons, by
    form.

    Intervals resample the images with the action (`group`), each with all items derived from it.
    The harmonic mean is computed from the accuracies of each resample; it is 0 if one of them is 0.

    Args:
        items: Rows of the layout `CONDITIONS`.
        rows: Rows of `alignment.score_items`.
        profile: Profile of the rows that are used.
        resampling: Resamples and coverage of the intervals.
    Returns:
        Rows of dataset (`cv-probes:` and the condition), setting (the form), metric and the fields
        of a measure.
    """
    scores = {row["item_id"]: row for row in rows if row["profile"] == profile}
    items_by_form: dict[str, list[Row]] = {}
    for item in items:
        items_by_form.setdefault(item["form"], []).append(item)

    metric_rows = []
    for form, form_items in items_by_form.items():
        # Items of one group are derived from one image, so that groups are resampled.
        resamples = resample(
            [item["group"] for item in form_items],
            resamples=resampling.resamples,
            seed=resampling.seed,
            label=f"{CV_PROBES} {form}",
        )
        accuracies = _compute_accuracies(form_items, scores, resamples, resampling)
        comparisons = _compare_scores(form_items, scores, resamples, resampling)
        for dataset, metric, measure in [*accuracies, *comparisons]:
            entry = {
                "dataset": f"{CV_PROBES}:{dataset}",
                "setting": form,
                "metric": metric,
            }
            metric_rows.append({**entry, **asdict(measure)})
    return metric_rows


def _compute_accuracies(
    items: Sequence[Row],
    scores: Mapping[str, Row],
    resamples: Resamples,
    resampling: Resampling,
) -> list[tuple[str, str, Measure]]:
    """Compute the accuracy of each condition and their harmonic mean."""
    # All arrays below have shape (items,); masks select the items of a condition.
    rows = [scores[item["item_id"]] for item in items]
    conditions = np.array([item["condition"] for item in items])
    is_scored = np.array([row["score"] is not None for row in rows])
    has_verdict = np.array([row["correct"] is not None for row in rows])
    right = np.array([100.0 * bool(row["correct"]) for row in rows])

    measures: list[Measure] = []
    # Of shape (resamples,) for each condition with a value.
    draws: list[np.ndarray] = []
    for condition in PROBE_CONDITIONS:
        in_condition = conditions == condition
        is_judged = in_condition & has_verdict
        if is_judged.any():
            measure, condition_draws = _measure_share(
                right, is_judged, resamples, resampling
            )
            draws.append(condition_draws)
        else:
            n = int(in_condition.sum())
            is_any_scored = bool((in_condition & is_scored).any())
            reason = (
                NOT_APPLICABLE
                if is_any_scored
                else f"none of {n} items could be scored"
            )
            measure = Measure(None, n, reason=reason)
        measures.append(measure)

    accuracies = [
        (condition, "accuracy", part)
        for condition, part in zip(PROBE_CONDITIONS, measures, strict=True)
    ]
    total = sum(measure.n for measure in measures)
    # The harmonic mean needs the accuracy of every condition.
    if len(draws) < len(PROBE_CONDITIONS):
        reason = next(str(measure.reason) for measure in measures if measure.reason)
        return [
            *accuracies,
            (HARMONIC_MEAN, "accuracy", Measure(None, total, reason=reason)),
        ]
    value = float(
        compute_harmonic_mean(np.array([measure.value for measure in measures]))
    )
    # In each resample, the harmonic mean of its four accuracies.
    # Over the first axis: conditions.
    mean_draws = compute_harmonic_mean(np.array(draws))
    mean = build_measure(
        value, total, mean_draws, resampling, resamples.clusters, PERCENT
    )
    return [*accuracies, (HARMONIC_MEAN, "accuracy", mean)]


def _compare_scores(
    items: Sequence[Row],
    scores: Mapping[str, Row],
    resamples: Resamples,
    resampling: Resampling,
) -> list[tuple[str, str, Measure]]:
    """Compute, for each comparison, how often an item and its counterpart score in the right order."""
    measures = []
    for name in SCORE_COMPARISONS:
        credits = _compute_credits(name, items, scores)
        has_value = ~np.isnan(credits)
        if has_value.any():
            measure, _ = _measure_share(
                100.0 * credits, has_value, resamples, resampling
            )
        else:
            measure = Measure(
                None, 0, reason="no two scored items of one group to compare"
            )
        measures.append((name, "acc_r", measure))
    return measures


def _compute_credits(
    comparison: str, items: Sequence[Row], scores: Mapping[str, Row]
) -> np.ndarray:
    """Return the credit of each item in a comparison: float64 of shape (items,), NaN without a
    counterpart.
    """
    # A counterpart has the same group, and the same image or the same caption.
    condition, counterpart_condition, shared_column, sign = SCORE_COMPARISONS[
        comparison
    ]
    counterparts: dict[tuple[str, str], Row] = {}
    for item in items:
        row = scores[item["item_id"]]
        if item["condition"] == counterpart_condition and row["score"] is not None:
            counterparts[item["group"], item[shared_column]] = row

    credits = np.full(len(items), np.nan)
    for position, item in enumerate(items):
        row = scores[item["item_id"]]
        counterpart = counterparts.get((item["group"], item[shared_column]))
        if (
            item["condition"] != condition
            or row["score"] is None
            or counterpart is None
        ):
            continue
        credits[position] = _compute_credit(row, counterpart, sign)
    return credits


def _compute_credit(row: Row, counterpart: Row, sign: int) -> float:
    """Return 1 if two scores are in the right order, 0 if they are not, 0.5 if they are tied.

    Args:
        sign: 1 if the row should score higher than its counterpart, -1 if it should score lower.
    """
    if is_tied_pair(row, counterpart):
        return 0.5
    return float(sign * (row["score"] - counterpart["score"]) > 0)


def _measure_share(
    right: np.ndarray, mask: np.ndarray, resamples: Resamples, resampling: Resampling
) -> tuple[Measure, np.ndarray]:
    """Return the mean over the items of a mask with its interval, and the mean in each resample."""
    draws = resamples.compute_means(right, mask)
    groups = len(np.unique(resamples.cluster[mask]))
    return build_measure(
        float(right[mask].mean()), int(mask.sum()), draws, resampling, groups, PERCENT
    ), draws


def compute_harmonic_mean(accuracies: np.ndarray) -> np.ndarray:
    """Return the harmonic mean over the first axis; it is 0 where an accuracy is 0."""
    # 1 / 0 is infinite, and n / infinity is 0, the harmonic mean of accuracies with a 0 among them.
    with np.errstate(divide="ignore"):
        mean: np.ndarray = len(accuracies) / (1 / accuracies).sum(axis=0)
    return mean
