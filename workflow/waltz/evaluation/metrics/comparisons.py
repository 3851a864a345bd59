"""Paired comparisons of models on the same items, corrected for the number of comparisons.

Both models have the same resamples of images, so that the difference of a metric has an interval
and a p value of its own (`compute_interval`, `compute_difference_p`).

Holm's correction covers all data sets of a group and all pairs of models, without rulers, of one profile, setting
and metric: encoders and language models with each other, decoders with each other, and the former
with the latter. Models are compared on the items that both could score.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TypeVar

import numpy as np

from waltz.core.files.group_files import Run
from waltz.core.intervals import (
    Bounds,
    Resampling,
    compute_difference_p,
    compute_interval,
    resample,
)
from waltz.core.schema import ComparisonRecord, DifferenceRecord
from waltz.evaluation.metrics.pair_metrics import (
    METRICS,
    NOT_APPLICABLE,
    ScoredPairs,
    compute_hits,
    compute_metric_draws,
)
from waltz.evaluation.metrics.power import align_items
from waltz.evaluation.settings import ALL_DATA_SETS

DIFFERENCE_BOUNDS: Bounds = (-100.0, 100.0)
"""Smallest and largest difference of two percentages."""
COMPARED_METRICS = tuple(
    metric for metric in METRICS if metric not in ("acc_r_paper", "ties")
)
"""Names of the metrics in which one model can be better than another."""
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
    controls: Collection[str] = (),
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
        controls: Models whose comparisons are corrected apart from those of other models.
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
                    n=len(aligned[0].items),
                )
                n_images = aligned[0].count_images()
                comparisons.append(
                    _compare(comparison, draws_pair, n_images, resampling)
                )
    return correct_metrics(comparisons, controls)


def compare_over_datasets(
    scores: Mapping[Run, ScoredPairs],
    datasets_of_pair: Mapping[tuple[str, str], Sequence[str]],
    profile: str,
    setting: str,
    resampling: Resampling,
    controls: Collection[str] = (),
) -> list[ComparisonRecord]:
    """Compare pairs of models in acc_r over several data sets, all of the same weight.

    The bootstrap draws images over all data sets, since data sets share images.

    Args:
        scores: Scored items of one profile, by model and data set, sorted by id.
        datasets_of_pair: Data sets of each pair of models.
        profile: The profile.
        setting: Setting of the comparisons.
        resampling: Resamples and coverage of the intervals.
        controls: Models whose comparisons are corrected apart from those of other models.
    Returns:
        Comparisons on `ALL_DATA_SETS` with Holm's correction. One has a reason instead of numbers
        if the models have no common item on a data set.
    """
    comparisons: list[ComparisonRecord] = []
    # Draws of a model on its items of each data set; most pairs share the same items.
    draws_of_model: dict[tuple[str, tuple[tuple[str, ...], ...]], Draws] = {}
    for (model_a, model_b), datasets in datasets_of_pair.items():
        # Scored items of either model on each data set; the items of both are the same.
        pooled_a: list[ScoredPairs] = []
        pooled_b: list[ScoredPairs] = []
        empty: list[str] = []
        images: set[str] = set()
        for dataset in datasets:
            part_a, part_b = align_items(
                scores[model_a, dataset], scores[model_b, dataset]
            )
            pooled_a.append(part_a)
            pooled_b.append(part_b)
            images.update(part_a.images)
            if not part_a.items:
                empty.append(dataset)
        comparison = ComparisonRecord(
            profile=profile,
            dataset=ALL_DATA_SETS,
            setting=setting,
            metric="acc_r",
            model_a=model_a,
            model_b=model_b,
            n=sum(len(part.items) for part in pooled_a),
        )
        # Without one of the data sets, the mean would be over others than the name says.
        if empty:
            reason = f"no item of {empty[0]} has a number of both models"
            comparisons.append(replace(comparison, n=0, reason=reason))
            continue

        draws_pair: list[Draws] = []
        for model, pooled in ((model_a, pooled_a), (model_b, pooled_b)):
            key = (model, tuple(part.items for part in pooled))
            if key not in draws_of_model:
                draws_of_model[key] = _draw_overall_accuracy(pooled, resampling)
            draws_pair.append(draws_of_model[key])
        comparisons.append(_compare(comparison, draws_pair, len(images), resampling))
    return correct_metrics(comparisons, controls)


def _draw_overall_accuracy(
    datasets: Sequence[ScoredPairs], resampling: Resampling
) -> Draws:
    """Return the mean of acc_r over data sets in percent, and its value in each resample."""
    # Each of D data sets has the weight 1 / D, and each of its n items 1 / (D n).
    hits: list[np.ndarray] = []
    weights: list[np.ndarray] = []
    images: list[str] = []
    for scored in datasets:
        n = len(scored.items)
        hits.append(100 * compute_hits(scored, "acc_r"))
        weights.append(np.full(n, 1 / (len(datasets) * n)))
        images.extend(scored.images)
    all_hits, all_weights = np.concatenate(hits), np.concatenate(weights)  # (items,)
    resamples = resample(
        images,
        resamples=resampling.resamples,
        seed=resampling.seed,
        label=ALL_DATA_SETS,
    )
    # A resample may draw more images of one data set, so that its weights do not sum to 1.
    weight_draws = resamples.compute_means(all_weights)
    draws = resamples.compute_means(all_weights * all_hits) / weight_draws
    return {"acc_r": (float(all_weights @ all_hits), draws)}


def correct_metrics(
    comparisons: Sequence[ComparisonRecord], controls: Collection[str]
) -> list[ComparisonRecord]:
    """Return comparisons with Holm's correction over those of each metric.

    Args:
        comparisons: Comparisons of one profile and setting.
        controls: Models such as rulers, whose comparisons answer no question about other models: they
            are corrected apart, so that they make no other p larger.
    """

    def name_family(comparison: ComparisonRecord) -> tuple[str, bool]:
        models = (comparison.model_a, comparison.model_b)
        has_control = any(model in controls for model in models)
        return comparison.metric, has_control

    return correct_families(comparisons, name_family)


def _draw_metrics(scored: ScoredPairs, dataset: str, resampling: Resampling) -> Draws:
    """Return the value and the draws of each metric.

    Two models with the same items have the same resamples, since these depend on data set, images
    and seed alone.
    """
    resamples = resample(
        scored.cluster,
        resamples=resampling.resamples,
        seed=resampling.seed,
        label=dataset,
    )
    return compute_metric_draws(scored, resamples)


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
    draws: Sequence[Draws],
    n_images: int,
    resampling: Resampling,
) -> ComparisonRecord:
    """Return a comparison with difference, interval and p, or with the reason why it has none;
    p_holm is still null.

    Args:
        comparison: Names and number of items.
        draws: Draws of both models on these items.
        n_images: Number of images of these items.
        resampling: Resamples and coverage of the interval.
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
    # p and interval are of one test, so that they say the same of a difference of 0.
    p = compute_difference_p(difference, difference_draws, n_images, DIFFERENCE_BOUNDS)
    low, high, _ = compute_interval(
        difference, difference_draws, resampling.confidence, n_images, DIFFERENCE_BOUNDS
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
