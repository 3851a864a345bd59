"""Paired tests of models on the same items, corrected for the number of tests.

- McNemar's exact test for acc_r, p_c, p_f: among the items on which exactly one model is right, is each model right on
  half? In acc_r a tie is worse than a right ranking and better than a wrong one. Items that share an image are not
  independent, so that the models are exchanged on whole images.
- A paired bootstrap for acc, min(p_c, p_f) and AUROC: both models have the same resamples of images, and the difference
  over its bootstrap standard error is compared with the normal distribution. The share of resamples beyond zero cannot
  give a p below 2 / resamples, which a correction for many tests would always reject. No p is smaller than the p of a
  sign test over images.

Holm's correction covers all data sets of a group and all pairs of models of one profile, setting
and metric: encoders and language models with each other, decoders with each other, and the former
with the latter. Models are compared on the items that both could score.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TypeVar

import numpy as np
import scipy

from waltz.core.files.group_files import Run
from waltz.core.intervals import Resampling, compute_interval, resample
from waltz.core.schema import ComparisonRecord, DifferenceRecord
from waltz.evaluation.metrics.pair_metrics import (
    METRICS,
    NOT_APPLICABLE,
    ScoredPairs,
    compute_hits,
    compute_metric_draws,
)
from waltz.evaluation.metrics.power import align_items, compute_least_p

MCNEMAR, BOOTSTRAP = "McNemar", "bootstrap"
COMPARED_METRICS = tuple(
    metric for metric in METRICS if metric not in ("acc_r_paper", "ties")
)
"""Names of the metrics in which one model can be better than another."""
TESTS = {
    metric: MCNEMAR if metric in ("acc_r", "p_c", "p_f") else BOOTSTRAP
    for metric in COMPARED_METRICS
}
"""Name of the test for each metric."""

Tested = TypeVar("Tested", ComparisonRecord, DifferenceRecord)
"""A record with the p value of a test."""
Draws = dict[str, tuple[float, np.ndarray]]
"""Value of each metric, and its value in each resample."""


def compare_models(
    scores: Mapping[Run, ScoredPairs],
    profile: str,
    setting: str,
    resampling: Resampling,
    metrics: Sequence[str] = COMPARED_METRICS,
    parts: Mapping[Run, str] | None = None,
    required: Collection[Run] = (),
) -> list[ComparisonRecord]:
    """Compare each pair of models on each data set that both were run on, in each metric.

    Args:
        scores: Scored items of one profile, by model and data set, in order.
        profile: The profile.
        setting: Setting of the comparisons.
        resampling: Resamples and coverage of the intervals.
        metrics: Names among `COMPARED_METRICS`.
        parts: Part of each run; models of the same part are not compared. None compares all models.
        required: Runs of which each comparison has at least one; empty for all comparisons.
    Returns:
        Comparisons with Holm's correction over the table.
    """
    comparisons: list[ComparisonRecord] = []
    for dataset in dict.fromkeys(dataset for _, dataset in scores):
        models = [
            model for model, scored_dataset in scores if scored_dataset == dataset
        ]
        # Draws of a model depend on the items that it shares with the other model. Most pairs share
        # the same items, so that the draws are kept.
        draws_of_model: dict[tuple[str, tuple[str, ...]], Draws] = {}
        for model_a, model_b in combinations(models, 2):
            run_a, run_b = (model_a, dataset), (model_b, dataset)
            if parts and parts.get(run_a) == parts.get(run_b):
                continue
            if required and run_a not in required and run_b not in required:
                continue
            aligned = align_items(scores[run_a], scores[run_b])
            draws_pair: list[Draws] = []
            for model, scored in zip((model_a, model_b), aligned, strict=True):
                key = (model, scored.items)
                if scored.items and key not in draws_of_model:
                    draws_of_model[key] = _draw_metrics(scored, dataset, resampling)
                draws_pair.append(draws_of_model.get(key, {}))
            for metric in metrics:
                comparison = ComparisonRecord(
                    profile=profile,
                    dataset=dataset,
                    setting=setting,
                    metric=metric,
                    model_a=model_a,
                    model_b=model_b,
                    test=TESTS[metric],
                    n=len(aligned[0].items),
                )
                comparisons.append(
                    _compare(comparison, aligned, draws_pair, resampling)
                )
    return correct_families(comparisons, lambda comparison: comparison.metric)


def _draw_metrics(scored: ScoredPairs, dataset: str, resampling: Resampling) -> Draws:
    """Return the value and the draws of each metric.

    Two models with the same items have the same resamples, since these depend on data set, images
    and seed alone.
    """
    resamples = resample(
        scored.images,
        resamples=resampling.resamples,
        seed=resampling.seed,
        label=dataset,
    )
    return compute_metric_draws(scored, resamples)


def compute_mcnemar_p(
    right_a: np.ndarray, right_b: np.ndarray, images: Sequence[str]
) -> float:
    """Return the p-value of McNemar's exact test; it is 1 if the models agree on all items.

    If the models are equally good, they can be exchanged on each image: model a is as likely to
    lead by a number of items as model b. p is the probability that random exchanges, with a fair
    coin for each image, give a total lead that is at least as large as the observed lead. With one
    item for each image this is McNemar's test. m images give no p below 2 / 2^m.

    Args:
        right_a: Contribution of each item to the metric of model a, 0 (wrong) to 1 (right), of
            shape (items,).
        right_b: Contribution of each item to the metric of model b.
        images: Image of each item.
    Source:
        McNemar (Psychometrika 12, 1947); Fisher (The Design of Experiments, 1935), section 21.
    """
    # For each item 1 if only model a is right, -1 if only model b is right, 0 if both are alike.
    differences = (right_a > right_b).astype(np.int64) - (right_b > right_a)
    _, index = np.unique(np.asarray(images), return_inverse=True)
    # By image: number of items by which a leads.
    leads = np.zeros(index.max(initial=-1) + 1, dtype=np.int64)
    np.add.at(leads, index, differences)

    # distribution[k] is the probability of a lead of k - total: images with the same lead are
    # binomial, others add up.
    distribution = np.ones(1)
    for lead, count in zip(
        *np.unique(np.abs(leads[leads != 0]), return_counts=True), strict=True
    ):
        # j of `count` images turned to a give a lead of (2 j - count) * lead, at index 2 * lead *
        # j.
        exchanged = np.zeros(2 * lead * count + 1)
        exchanged[:: 2 * lead] = scipy.stats.binom.pmf(np.arange(count + 1), count, 0.5)
        distribution = np.convolve(distribution, exchanged)
    total = len(distribution) // 2
    # Two-sided: leads of either model that are at least as large as the observed lead.
    is_as_large = np.abs(np.arange(len(distribution)) - total) >= abs(leads.sum())
    return min(1.0, float(distribution[is_as_large].sum()))


def compute_bootstrap_p(difference: float, draws: np.ndarray, clusters: int) -> float:
    """Return the two-sided p-value of the hypothesis that two models do not differ in a metric.

    Args:
        difference: Difference of the metric of the two models.
        draws: Difference in each resample.
        clusters: Number of images. p is at least the p of a sign test over the images, and equals
            it if the resamples do not vary.
    """
    if not difference:
        return 1.0
    least_p = compute_least_p(clusters)
    error = float(np.std(draws, ddof=1))
    if not error > 0:  # all resamples are equal, or a single image gives NaN
        return least_p
    # z test of the difference over its bootstrap standard error.
    p = float(2 * scipy.stats.norm.sf(abs(difference) / error))
    return max(p, least_p)


def correct_by_holm(p: Sequence[float]) -> list[float]:
    """Return p-values after Holm's step-down correction, in the same order."""
    # The smallest of m p-values is multiplied by m, the next by m - 1, and so on; each is at least
    # the value before it.
    order = np.argsort(p, kind="stable")
    steps = np.asarray(p, dtype=np.float64)[order] * np.arange(len(p), 0, -1)
    corrected = np.empty(len(p))
    corrected[order] = np.minimum(1, np.maximum.accumulate(steps))
    return [float(value) for value in corrected]


def _compare(
    comparison: ComparisonRecord,
    scored: tuple[ScoredPairs, ScoredPairs],
    draws: Sequence[Draws],
    resampling: Resampling,
) -> ComparisonRecord:
    """Return a comparison with difference, interval and p, or with the reason why it has none;
    p_holm is still null.
    """
    metric = comparison.metric
    if not comparison.n:
        return replace(comparison, reason="no item could be scored by both models")
    models = (comparison.model_a, comparison.model_b)
    lacking = [
        model
        for model, model_draws in zip(models, draws, strict=True)
        if metric not in model_draws
    ]
    if lacking:
        reason = f"{NOT_APPLICABLE} ({', '.join(lacking)})"
        return replace(comparison, reason=reason)

    value_a, draws_a = draws[0][metric]
    value_b, draws_b = draws[1][metric]
    difference = value_a - value_b
    # Paired, (resamples,): draw k of both models has the same images.
    difference_draws = draws_a - draws_b
    images = scored[0].images
    n_images = len(set(images))
    if comparison.test == MCNEMAR:
        hits_a = compute_hits(scored[0], metric)
        hits_b = compute_hits(scored[1], metric)
        p = compute_mcnemar_p(hits_a, hits_b, images)
    else:
        p = compute_bootstrap_p(difference, difference_draws, n_images)
    low, high, _ = compute_interval(
        difference_draws, resampling.confidence, n_images, (-100.0, 100.0)
    )
    return replace(comparison, difference=difference, ci_low=low, ci_high=high, p=p)


def correct_families(
    records: Sequence[Tested], name_family: Callable[[Tested], Hashable]
) -> list[Tested]:
    """Return records with Holm's correction, which covers the p values of a family together.

    Args:
        records: Comparisons or differences; those without a p value stay as they are.
        name_family: Function that returns the family of a record.
    """
    # p values of each family, by the position of their record.
    families: dict[Hashable, dict[int, float]] = defaultdict(dict)
    for position, record in enumerate(records):
        if record.p is not None:
            families[name_family(record)][position] = record.p
    corrected = list(records)
    for p_values in families.values():
        p_holms = correct_by_holm(list(p_values.values()))
        for position, p_holm in zip(p_values, p_holms, strict=True):
            corrected[position] = replace(records[position], p_holm=p_holm)
    return corrected
