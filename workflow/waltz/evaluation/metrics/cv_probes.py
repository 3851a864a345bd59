"""CV-Probes: does a model match image and caption where it should, and refuse where the image lacks the action?

A model is right where p(match) > p(no match) on the three conditions that match, and where p(no match) > p(match) on a
plain image beside a contextual caption. Equal ones are wrong. The number of a form is the harmonic mean of its four
accuracies.

The paper has no model without a probability of a match. For those two comparisons are left that need no threshold (not
in the paper, and defined for every model): on the plain image the plain caption shall score above the contextual one,
and the contextual caption shall score higher beside the image with the action than beside the plain one.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from waltz.core.intervals import PERCENT, Measure, Resamples, Resampling, compute_interval, resample
from waltz.core.schema import PROBE_CONDITIONS
from waltz.evaluation.metrics.predictions import NOT_APPLICABLE

Row = Mapping[str, Any]

NAME = "cv-probes"
HARMONIC = "harmonic-mean"
ORDERS = {
    "captions": ("-img-cap", "-img+cap", "image", 1),
    "images": ("-img+cap", "+img+cap", "caption", -1),
}
"""By comparison: the condition of its items, the one that each is compared with, what both share beside the group, and
whether the first shall score higher (1) or lower (-1)."""


def probe_measures(items: Sequence[Row], rows: Iterable[Row], profile: str, how: Resampling) -> list[dict[str, Any]]:
    """Accuracy of each condition, their harmonic mean, and the two comparisons, by form.

    Intervals resample the images with the action (`group`), each with all that goes back to it. A harmonic mean is that
    of each resample's accuracies, 0 where one of them is.

    Args:
        items: Rows of the layout `CONDITIONS`.
        rows: What `alignment.score_probes` made of them.
        profile: Whose rows are taken.
        how: How intervals are made.
    Returns:
        Rows of dataset (`cv-probes:` and the condition), setting (the form), metric and the fields of a measure.
    """
    scores = {row["item_id"]: row for row in rows if row["profile"] == profile}
    found = []
    for form in dict.fromkeys(item["form"] for item in items):
        ours = [item for item in items if item["form"] == form]
        drawn = resample(
            [item["group"] for item in ours], resamples=how.resamples, seed=how.seed, label=f"{NAME} {form}"
        )
        for dataset, metric, measure in [*_accuracies(ours, scores, drawn, how), *_orders(ours, scores, drawn, how)]:
            entry = {"dataset": f"{NAME}:{dataset}", "setting": form, "metric": metric}
            found.append({**entry, **vars(measure)})
    return found


def _accuracies(
    items: Sequence[Row], scores: Mapping[str, Row], drawn: Resamples, how: Resampling
) -> list[tuple[str, str, Measure]]:
    values, draws, found = [], [], []
    for condition in PROBE_CONDITIONS:
        ours = np.array([item["condition"] == condition for item in items])
        known = ours & np.array([scores[item["item_id"]]["correct"] is not None for item in items])
        right = np.array([100.0 * bool(scores[item["item_id"]]["correct"]) for item in items])
        if not known.any():
            unscored = all(scores[item["item_id"]]["score"] is None for item in items if item["condition"] == condition)
            reason = f"none of {ours.sum()} items could be scored" if unscored else NOT_APPLICABLE
            found.append((condition, "accuracy", Measure(None, int(ours.sum()), reason=reason)))
            continue
        values.append(float(right[known].mean()))
        draws.append(drawn.compute_means(right, known))
        groups = len(np.unique(drawn.cluster[known]))
        found.append((condition, "accuracy", _measure(values[-1], int(known.sum()), draws[-1], groups, how)))
    total = sum(measure.n for _, _, measure in found)
    if len(values) == len(PROBE_CONDITIONS):
        mean = _measure(float(harmonic(np.array(values))), total, harmonic(np.array(draws)), drawn.clusters, how)
    else:
        reasons = list(dict.fromkeys(measure.reason for _, _, measure in found if measure.reason))
        mean = Measure(None, total, reason=reasons[0])
    return [*found, (HARMONIC, "accuracy", mean)]


def _orders(
    items: Sequence[Row], scores: Mapping[str, Row], drawn: Resamples, how: Resampling
) -> list[tuple[str, str, Measure]]:
    """Of each item of the comparisons, whether it and its counterpart of the same group score in the right order."""
    found = []
    logits = np.array([scores[item["item_id"]]["score"] for item in items], dtype=np.float64)
    for name, (condition, other, shared, sign) in ORDERS.items():
        counterparts = {
            (item["group"], item[shared]): logit
            for item, logit in zip(items, logits, strict=True)
            if item["condition"] == other
        }
        margins = np.array(
            [
                sign * (logit - counterparts.get((item["group"], item[shared]), np.nan))
                if item["condition"] == condition
                else np.nan
                for item, logit in zip(items, logits, strict=True)
            ]
        )
        known = ~np.isnan(margins)
        if known.any():
            right = 100.0 * (margins > 0)
            groups = len(np.unique(drawn.cluster[known]))
            measure = _measure(
                float(right[known].mean()), int(known.sum()), drawn.compute_means(right, known), groups, how
            )
        else:
            measure = Measure(None, 0, reason="no two scored items of one group to compare")
        found.append((name, "acc_r", measure))
    return found


def harmonic(accuracies: np.ndarray) -> np.ndarray:
    """Harmonic mean over the first axis, 0 where an accuracy is 0."""
    with np.errstate(divide="ignore"):
        mean: np.ndarray = len(accuracies) / (1 / accuracies).sum(axis=0)
    return mean


def _measure(value: float, n: int, draws: np.ndarray, groups: int, how: Resampling) -> Measure:
    return Measure(value, n, *compute_interval(draws, how.confidence, groups, PERCENT))
