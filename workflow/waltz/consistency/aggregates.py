"""Correlations, means and seed spreads of tests and CC-SHAP (thesis 5.2, C.1, C.2 and C.3)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy

from waltz.core.intervals import Bounds, Measure, Resamples, Resampling, compute_interval, resample

Row = Mapping[str, Any]

CONSTANT_RANGE = 1e-12
"""Values within this range differ at most by rounding."""
LEAST_VARIANCE = 1e-18
"""A resample whose variance is below this is constant up to rounding."""
DEVIATION = "sd"
"""Suffix of the sample standard deviation over seeds (`paraphrasing:sd`); `paraphrasing:seed=3` is one seed."""
HUNDREDTHS: Bounds = (-100.0, 100.0)
"""Bounds of a correlation times 100."""


def compute_correlation(verdicts: Mapping[str, int | None], scores: Mapping[str, float | None]) -> Measure:
    """Return the point-biserial correlation of a test's verdicts with CC-SHAP (thesis C.3).

    Only items that have both are used.

    Args:
        verdicts: By item; 1, 0 or None.
        scores: CC-SHAP by item, None or NaN where it is undefined.
    Returns:
        In -1 to 1; n is the number of items. The value is missing (nan in the thesis) with fewer than
        two items, or where one of the two is constant.
    """
    pairs = [
        (verdict, score)
        for item_id, verdict in sorted(verdicts.items())
        if verdict is not None and (score := scores.get(item_id)) is not None and not math.isnan(score)
    ]
    n = len(pairs)
    if n < 2:
        return Measure(None, n, reason=f"{n} items have both a verdict and CC-SHAP; a correlation needs two")
    values = {verdict for verdict, _ in pairs}
    if len(values) == 1:
        return Measure(None, n, reason=f"the test is constant: all {n} verdicts are {values.pop()}")
    if np.ptp([score for _, score in pairs]) <= CONSTANT_RANGE:
        return Measure(None, n, reason=f"CC-SHAP is constant: {pairs[0][1]} for all {n} items")
    result = scipy.stats.pointbiserialr([verdict for verdict, _ in pairs], [score for _, score in pairs])
    return Measure(float(result.statistic), n)


@dataclass(frozen=True)
class SeedSpread:
    """A number over several seeds.

    Attributes:
        deviation: Its sample standard deviation (n - 1), without a value below two seeds; n counts seeds.
    """

    mean: Measure
    deviation: Measure


def compute_seed_spread(values: Mapping[int, float | None]) -> SeedSpread:
    """Return mean and standard deviation of a number over seeds (figures of thesis C.2, C.4, C.5).

    Args:
        values: By seed; None where it is undefined.
    """
    defined_values = [value for _, value in sorted(values.items()) if value is not None]
    n = len(defined_values)
    if n < len(values) or not n:
        undefined = Measure(None, n, reason=f"{len(values) - n} of {len(values)} seeds have no value")
        return SeedSpread(undefined, undefined)
    mean = Measure(float(np.mean(defined_values)), n)
    if n == 1:
        return SeedSpread(mean, Measure(None, n, reason="one seed; a standard deviation needs two"))
    return SeedSpread(mean, Measure(float(np.std(defined_values, ddof=1)), n))


@dataclass(frozen=True)
class SampledMeasure:
    """A measure with the bootstrap draws behind its interval, for averages over seeds, tests and data sets.

    Attributes:
        draws: float64 of shape (resamples,), in the measure's unit; empty where it has no value.
    """

    measure: Measure
    draws: np.ndarray


def compute_mean_over_seeds(
    rows: Sequence[Row], label: str, how: Resampling, bounds: Bounds | None
) -> tuple[SampledMeasure, list[tuple[str, Measure]]]:
    """Compute a mean over items, for each seed and over seeds.

    Args:
        rows: item_id, cluster (the image, or the item where there is none), seed, value (None where there is none) and
            reason of each item.
        label: Name of the data set, which separates its bootstrap draws from others'.
        how: Resamples, coverage, seed; clusters are drawn, the same for all seeds.
        bounds: Least and greatest value of an item.
    Returns:
        The mean over seeds with its draws; and numbers by the suffix of the metric's name: the mean, its deviation,
        each seed.
    """
    defined_rows = sorted((row for row in rows if row["value"] is not None), key=_get_sort_key)
    resamples = _resample_clusters(defined_rows, label, how)
    by_seed = {}
    for seed in sorted({row["seed"] for row in rows}):
        seed_rows = [row for row in defined_rows if row["seed"] == seed]
        if resamples is None or not seed_rows:
            why = next((f": {row['reason']}" for row in rows if row["seed"] == seed and row["reason"]), "")
            count = sum(row["seed"] == seed for row in rows)
            by_seed[seed] = SampledMeasure(Measure(None, 0, reason=f"none of {count} items has one{why}"), np.empty(0))
            continue
        values = np.array([row["value"] for row in defined_rows])
        draws = resamples.compute_means(values, np.array([row["seed"] == seed for row in defined_rows]))
        measure = build_measure(
            float(np.mean([row["value"] for row in seed_rows])),
            len(seed_rows),
            draws,
            how,
            _count_clusters(seed_rows),
            bounds,
        )
        by_seed[seed] = SampledMeasure(measure, draws)
    return _average_over_seeds(by_seed, defined_rows, how, bounds)


def compute_correlations_over_seeds(
    tests: Sequence[Row], scores: Sequence[Row], label: str, how: Resampling
) -> list[tuple[str, Measure]]:
    """Compute the correlation of one test with CC-SHAP, times 100, for each seed and over seeds.

    Args:
        tests: Verdicts, 0 or 100, as rows of `compute_mean_over_seeds`.
    Returns:
        By the suffix of the metric's name, as in `compute_mean_over_seeds`.
    """
    by_item = {(row["item_id"], row["seed"]): row["value"] for row in scores}
    pairs = [
        {**row, "score": by_item[row["item_id"], row["seed"]]}
        for row in sorted(tests, key=_get_sort_key)
        if row["value"] is not None and by_item.get((row["item_id"], row["seed"])) is not None
    ]
    resamples = _resample_clusters(pairs, label, how)
    by_seed = {}
    for seed in sorted({row["seed"] for row in tests}):
        correlation = compute_correlation(
            {
                row["item_id"]: None if row["value"] is None else int(row["value"] > 0)
                for row in tests
                if row["seed"] == seed
            },
            {row["item_id"]: row["value"] for row in scores if row["seed"] == seed},
        )
        if correlation.value is None or resamples is None:
            by_seed[seed] = SampledMeasure(correlation, np.empty(0))
            continue
        draws = 100 * _compute_pearson(pairs, resamples, np.array([row["seed"] == seed for row in pairs]))
        clusters = _count_clusters([row for row in pairs if row["seed"] == seed])
        by_seed[seed] = SampledMeasure(
            build_measure(100 * correlation.value, correlation.n, draws, how, clusters, HUNDREDTHS), draws
        )
    return _average_over_seeds(by_seed, pairs, how, HUNDREDTHS)[1]


def _compute_pearson(pairs: Sequence[Row], resamples: Resamples, where: np.ndarray) -> np.ndarray:
    """Return Pearson's correlation of value and score in each resample, NaN where one of them is constant."""
    sides = [np.array([row[name] for row in pairs], dtype=np.float64) for name in ("value", "score")]
    x, y = ((side - side[where].mean()) / (np.ptp(side[where]) or 1.0) for side in sides)
    mean_x, mean_y = resamples.compute_means(x, where), resamples.compute_means(y, where)
    covariance = resamples.compute_means(x * y, where) - mean_x * mean_y
    variances = (resamples.compute_means(x * x, where) - mean_x**2) * (
        resamples.compute_means(y * y, where) - mean_y**2
    )
    defined = variances > LEAST_VARIANCE
    correlations: np.ndarray = np.where(defined, covariance / np.sqrt(np.where(defined, variances, 1.0)), np.nan)
    return correlations


def _resample_clusters(rows: Sequence[Row], label: str, how: Resampling) -> Resamples | None:
    """Draw the same resamples of clusters for all seeds, so that their draws can be averaged."""
    if not rows:
        return None
    return resample([row["cluster"] for row in rows], resamples=how.resamples, seed=how.seed, label=label)


def _count_clusters(rows: Sequence[Row]) -> int:
    return len({row["cluster"] for row in rows})


def build_measure(
    value: float, n: int, draws: np.ndarray, how: Resampling, clusters: int, bounds: Bounds | None
) -> Measure:
    """Build a measure with the interval of its draws; arguments as in `core.intervals.compute_interval`."""
    return Measure(value, n, *compute_interval(draws, how.confidence, clusters, bounds))


def _average_over_seeds(
    by_seed: Mapping[int, SampledMeasure], defined_rows: Sequence[Row], how: Resampling, bounds: Bounds | None
) -> tuple[SampledMeasure, list[tuple[str, Measure]]]:
    """Return the mean over seeds, and by the suffix of the metric's name: the mean, its deviation, each seed."""
    items = len({row["item_id"] for row in defined_rows})
    spread = compute_seed_spread({seed: sampled.measure.value for seed, sampled in by_seed.items()})
    each = [(f":seed={seed}", sampled.measure) for seed, sampled in by_seed.items()]
    if spread.mean.value is None:
        why = next(sampled.measure.reason for sampled in by_seed.values() if sampled.measure.value is None)
        reason = why if len(by_seed) == 1 else f"{spread.mean.reason}: {why}"
        average = SampledMeasure(Measure(None, items, reason=reason), np.empty(0))
        return average, [("", average.measure), (f":{DEVIATION}", replace(spread.deviation, reason=reason)), *each]
    draws = np.mean([sampled.draws for sampled in by_seed.values()], axis=0)
    average = SampledMeasure(
        build_measure(spread.mean.value, items, draws, how, _count_clusters(defined_rows), bounds), draws
    )
    return average, [("", average.measure), (f":{DEVIATION}", spread.deviation), *each]


def _get_sort_key(row: Row) -> tuple[int, str]:
    return row["seed"], row["item_id"]
