"""Reliability of one seed: how much of the variance of a number between items is noise of the texts
and permutations that a seed draws.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from waltz.consistency.aggregates import ItemNumber
from waltz.core.intervals import (
    NON_NEGATIVE,
    Resampling,
    build_measure,
    resample,
)
from waltz.core.measure import Measure
from waltz.core.variance_components import (
    TARGET,
    build_component_measure,
    count_levels_needed,
    resample_components,
    truncate_components,
)

ITEM, SEED = "item", "seed"
NESTED = {SEED: ITEM}
"""Each item draws with seeds of its own."""
BETWEEN, WITHIN = frozenset({ITEM}), frozenset({ITEM, SEED})
"""Effects: of items, and of seeds within items, which holds the residual."""
VARIANCE_ITEMS, VARIANCE_SEEDS = ":variance_items", ":variance_seeds"
"""Suffixes of the components of variance, in the unit of the number squared."""
RELIABILITY, RELIABILITY_MEAN = ":reliability", ":reliability_mean"
"""Suffixes of the share of the variance between items that other seeds would show again: of numbers
of one seed, and of means over all seeds of the run.
"""
SEEDS_NEEDED = ":seeds_needed"
"""Suffix of the number of seeds whose mean reaches `TARGET`."""
SUFFIXES = (
    VARIANCE_ITEMS,
    VARIANCE_SEEDS,
    RELIABILITY,
    RELIABILITY_MEAN,
    SEEDS_NEEDED,
)
"""Suffixes of all these metrics."""
TOO_FEW = "fewer than two items have a number with every seed"
NO_VARIANCE = "neither items nor seeds differ"
NOT_REACHED = "items are not shown to differ by more than their seeds"


def measure_seed_reliability(
    numbers: Sequence[ItemNumber], label: str, resampling: Resampling
) -> dict[str, Measure]:
    """Measure the variance of a number between items and between the seeds of an item, and the
    reliability that follows.

    Items that lack a number with one seed are left out, so that the design is balanced. A seed of a
    run in `published` shifts all items alike; this shift counts as noise of seeds, too.

    Args:
        numbers: A number of each item and seed.
        label: Name of the data set, as in `compute_mean_over_seeds`.
        resampling: Resamples, coverage, seed; clusters are resampled.
    Returns:
        Measures by the suffix of the metric's name; none with a single seed.
    Source:
        ICC(1, 1) and ICC(1, k) of Shrout & Fleiss (Psychological Bulletin 86, 1979); the number of
        seeds by the formula of Spearman and Brown.
    """
    seeds = sorted({number.seed for number in numbers})
    if len(seeds) < 2:
        return {}
    values_of_items, clusters = _collect_complete_items(numbers, seeds)
    n_items = len(values_of_items)
    # One item has no variance between items.
    if n_items < 2:
        return dict.fromkeys(SUFFIXES, Measure(None, n_items, reason=TOO_FEW))

    # An image that is drawn twice has its items twice.
    draws = resample(
        clusters,
        resamples=resampling.resamples,
        seed=resampling.seed,
        label=label,
    )
    table = np.array(list(values_of_items.values()))  # (items, seeds)
    components = resample_components(table, (ITEM, SEED), draws, NESTED)
    between = np.array([component[BETWEEN] for component in components])
    within = np.array([component[WITHIN] for component in components])
    # A negative estimate says that chance makes items differ less than their seeds do.
    measures = {}
    for suffix, variances in ((VARIANCE_ITEMS, between), (VARIANCE_SEEDS, within)):
        measures[suffix] = build_component_measure(
            np.maximum(variances, 0).tolist(),
            n_items,
            draws.clusters,
            resampling,
            NON_NEGATIVE,
        )
    needed = count_levels_needed(truncate_components(components[0]), ITEM, SEED, TARGET)
    measures[SEEDS_NEEDED] = Measure(
        needed, n_items, reason=NOT_REACHED if needed is None else None
    )
    # Ratio of the mean squares, F = 1 + k var(items) / var(seeds), of the items and of each resample.
    n_seeds = len(seeds)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = 1 + n_seeds * between / within
    ratio = _measure_ratio(ratios, n_items, draws.clusters, resampling)
    # ICC(1, 1) = (F - 1) / (F + k - 1), and of the mean of k seeds ICC(1, k) = (F - 1) / F.
    measures[RELIABILITY] = _convert_ratio(ratio, n_seeds - 1)
    measures[RELIABILITY_MEAN] = _convert_ratio(ratio, 0)
    return measures


def _collect_complete_items(
    numbers: Sequence[ItemNumber], seeds: Sequence[int]
) -> tuple[dict[str, list[float]], list[str]]:
    """Return the numbers of each item that has one with every seed, by seed, and the items' clusters."""
    values: dict[str, dict[int, float]] = {}
    clusters = {}
    for number in numbers:
        if number.value is not None:
            values.setdefault(number.item_id, {})[number.seed] = number.value
            clusters[number.item_id] = number.cluster
    # A design with as many numbers of each item is balanced.
    complete = {}
    for item_id in sorted(values):
        if len(values[item_id]) == len(seeds):
            complete[item_id] = [values[item_id][seed] for seed in seeds]
    return complete, [clusters[item_id] for item_id in complete]


def _measure_ratio(
    ratios: np.ndarray, n_items: int, clusters: int, resampling: Resampling
) -> Measure:
    """Return the first ratio with its interval on the logarithm from the others, which are those of
    resamples; the logarithm serves where items hardly vary, too.
    """
    value = float(ratios[0])
    if math.isnan(value):
        return Measure(None, n_items, reason=NO_VARIANCE)
    if math.isinf(value):
        return Measure(value, n_items)  # no noise, whose error is not known
    return build_measure(value, n_items, ratios[1:], resampling, clusters, NON_NEGATIVE)


def _convert_ratio(ratio: Measure, added: int) -> Measure:
    """Return the reliability (F - 1) / (F + added) of a ratio F of mean squares, and of the ends of
    its interval; 0 where items differ by less than their seeds.
    """

    def convert(number: float | None) -> float | None:
        if number is None:
            return None
        if math.isinf(number):
            return 1.0
        if number <= 1:
            return 0.0
        return (number - 1) / (number + added)

    return replace(
        ratio,
        value=convert(ratio.value),
        ci_low=convert(ratio.ci_low),
        ci_high=convert(ratio.ci_high),
    )
