"""Paired tests of models on the same items, corrected for the number of tests.

- McNemar's exact test for acc_r, p_c, p_f: of the items on which exactly one of the two is right, is each right on
  half? It takes items as independent; where many share an image, the interval of the difference is more reliable.
- A paired bootstrap for acc, min(p_c, p_f) and AUROC: both models on the same resamples of images, the difference over
  its bootstrap standard error against the normal distribution. Counting resamples beyond zero could give no p below
  2 / resamples, which a correction for many tests would always reject.

Holm's correction covers all data sets and pairs of models of one profile, setting and metric. Models are compared on
the items that both could score.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import scipy

from waltz.core.intervals import Resampling, compute_interval, resample
from waltz.evaluation.metrics.pair_metrics import (
    METRICS,
    NOT_APPLICABLE,
    ScoredPairs,
    compute_hits,
    compute_metric_draws,
)
from waltz.evaluation.metrics.power import align_items

MCNEMAR, BOOTSTRAP = "McNemar", "bootstrap"
COMPARED_METRICS = tuple(metric for metric in METRICS if metric != "ties")
"""Metrics in which one model can be better than another."""
TESTS = {metric: MCNEMAR if metric in ("acc_r", "p_c", "p_f") else BOOTSTRAP for metric in COMPARED_METRICS}
"""The test of each metric."""

Draws = dict[str, tuple[float, np.ndarray]]


def compare_models(
    scores: Mapping[tuple[str, str], ScoredPairs], resampling: Resampling, metrics: Sequence[str] = COMPARED_METRICS
) -> list[dict[str, Any]]:
    """Compare each pair of models on each data set that both were run on, in each metric.

    Args:
        scores: Scored items of one profile, by model and data set, in order.
        metrics: Some of `COMPARED_METRICS`.
    Returns:
        Rows of dataset, metric, model_a, model_b, test (`McNemar` or `bootstrap`), difference (a minus b, in percentage
        points) with ci_low and ci_high, p of no difference, p_holm (after Holm's correction over the table), n (items
        that both models could score), and the reason where there is no difference.
    """
    compared = []
    for dataset in dict.fromkeys(dataset for _, dataset in scores):
        draws_of_model: dict[tuple[str, tuple[str, ...]], Draws] = {}
        models = [model for model, scored_dataset in scores if scored_dataset == dataset]
        for pair in combinations(models, 2):
            a, b = align_items(*(scores[model, dataset] for model in pair))
            for model, scored in zip(pair, (a, b), strict=True):
                if scored.items and (model, scored.items) not in draws_of_model:
                    resamples = resample(
                        scored.images, resamples=resampling.resamples, seed=resampling.seed, label=dataset
                    )
                    draws_of_model[model, scored.items] = compute_metric_draws(scored, resamples)
            draws_a, draws_b = (draws_of_model.get((model, a.items), {}) for model in pair)
            compared += [_compare(dataset, metric, pair, (a, b), (draws_a, draws_b), resampling) for metric in metrics]
    return _correct_by_metric(compared)


def compute_mcnemar_p(right_a: np.ndarray, right_b: np.ndarray) -> float:
    """Return the p-value of McNemar's exact test, 1 where the models agree on all items.

    Args:
        right_a: Whether model a is right, bool or 0 and 1, of shape (items,).
        right_b: The same for model b.
    """
    only_a = int(np.sum((right_a > 0) & (right_b == 0)))
    only_b = int(np.sum((right_b > 0) & (right_a == 0)))
    return float(scipy.stats.binomtest(only_a, only_a + only_b).pvalue) if only_a + only_b else 1.0


def compute_bootstrap_p(difference: float, draws: np.ndarray, clusters: int) -> float:
    """Return the two-sided p-value of no difference.

    Args:
        draws: Differences of the resamples.
        clusters: Number of images. Where no resample differs, since all images agree, p is that of a sign test over the
            images.
    """
    error = float(np.std(draws, ddof=1))
    if error > 0:
        return float(2 * scipy.stats.norm.sf(abs(difference) / error))
    return min(1.0, 2 * 0.5**clusters) if difference else 1.0


def correct_by_holm(p: Sequence[float]) -> list[float]:
    """Return p-values after Holm's step-down correction, in the same order."""
    corrected = np.empty(len(p))
    order = np.argsort(p, kind="stable")
    steps = np.asarray(p, dtype=np.float64)[order] * np.arange(len(p), 0, -1)
    corrected[order] = np.minimum(1, np.maximum.accumulate(steps)) if len(p) else steps
    return [float(value) for value in corrected]


def _compare(
    dataset: str,
    metric: str,
    models: tuple[str, str],
    scored: tuple[ScoredPairs, ScoredPairs],
    draws: tuple[Draws, Draws],
    resampling: Resampling,
) -> dict[str, Any]:
    n, test = len(scored[0].items), TESTS[metric]
    row: dict[str, Any] = {
        "dataset": dataset,
        "metric": metric,
        "model_a": models[0],
        "model_b": models[1],
        "test": test,
    }
    row |= dict.fromkeys(("difference", "ci_low", "ci_high", "p", "p_holm"))
    lacking = [model for model, model_draws in zip(models, draws, strict=True) if metric not in model_draws]
    if not n:
        return {**row, "n": 0, "reason": "no item could be scored by both models"}
    if lacking:
        return {**row, "n": n, "reason": f"{NOT_APPLICABLE} ({', '.join(lacking)})"}
    (value_a, draws_a), (value_b, draws_b) = (model_draws[metric] for model_draws in draws)
    difference, images = draws_a - draws_b, len(set(scored[0].images))
    p = (
        compute_mcnemar_p(compute_hits(scored[0], metric), compute_hits(scored[1], metric))
        if test == MCNEMAR
        else compute_bootstrap_p(value_a - value_b, difference, images)
    )
    low, high = compute_interval(difference, resampling.confidence, images, (-100.0, 100.0))
    return {**row, "difference": value_a - value_b, "ci_low": low, "ci_high": high, "p": p, "n": n, "reason": None}


def _correct_by_metric(compared: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows with Holm's correction of each metric's p-values."""
    corrected: dict[int, float] = {}
    for metric in COMPARED_METRICS:
        indices = [index for index, row in enumerate(compared) if row["metric"] == metric and row["p"] is not None]
        corrected |= dict(zip(indices, correct_by_holm([compared[index]["p"] for index in indices]), strict=True))
    return [{**row, "p_holm": corrected.get(index)} for index, row in enumerate(compared)]
