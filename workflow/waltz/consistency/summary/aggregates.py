"""From the rows of tests and CC-SHAP to the numbers of thesis 5.2, C.1, C.2 and C.3."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import stats

from waltz.core.intervals import Bounds, Measure, Resamples, Resampling, compute_interval, resample

Row = Mapping[str, Any]

CONSTANT_RANGE = 1e-12
"""Values that lie no further apart than this are the same but for rounding."""
LEAST_VARIANCE = 1e-18
"""Below it what was drawn is constant but for rounding."""
DEVIATION = "sd"
"""Ends a metric (`paraphrasing:sd`): sample standard deviation over seeds. `paraphrasing:seed=3` is one seed's."""
HUNDREDTHS: Bounds = (-100.0, 100.0)
"""Of a correlation times 100."""


def compute_correlation(verdicts: Mapping[str, int | None], scores: Mapping[str, float | None]) -> Measure:
    """Point-biserial correlation of a test's verdicts with CC-SHAP, over the items that have both (thesis C.3).

    Args:
        verdicts: By item; 1, 0 or None.
        scores: CC-SHAP by item, None or NaN where it is undefined.
    Returns:
        In -1 to 1; n is the number of items. Without a value, which the thesis prints as nan, where there are fewer
        than two items, or one of the two is constant.
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
    found = stats.pointbiserialr([verdict for verdict, _ in pairs], [score for _, score in pairs])
    return Measure(float(found.statistic), n)


@dataclass(frozen=True)
class SeedSpread:
    """A number over several seeds.

    Attributes:
        mean: Its mean.
        deviation: Its sample standard deviation (n - 1), without a value below two seeds; n counts seeds.
    """

    mean: Measure
    deviation: Measure


def compute_seed_spread(values: Mapping[int, float | None]) -> SeedSpread:
    """Mean and standard deviation of a number over seeds (figures of thesis C.2, C.4, C.5).

    Args:
        values: By seed; None where it is undefined.
    """
    known = [value for _, value in sorted(values.items()) if value is not None]
    n = len(known)
    if n < len(values) or not n:
        undefined = Measure(None, n, reason=f"{len(values) - n} of {len(values)} seeds have no value")
        return SeedSpread(undefined, undefined)
    mean = Measure(float(np.mean(known)), n)
    if n == 1:
        return SeedSpread(mean, Measure(None, n, reason="one seed; a standard deviation needs two"))
    return SeedSpread(mean, Measure(float(np.std(known, ddof=1)), n))


@dataclass(frozen=True)
class SampledMeasure:
    """A measure with the bootstrap draws behind its interval, for averages over seeds, tests and data sets.

    Attributes:
        measure: The number.
        draws: float64 of shape (resamples,), in the measure's unit; empty where it has no value.
    """

    measure: Measure
    draws: np.ndarray


def compute_mean_over_seeds(
    rows: Sequence[Row], label: str, how: Resampling, bounds: Bounds | None
) -> tuple[SampledMeasure, list[tuple[str, Measure]]]:
    """A mean over items, of each seed and over seeds.

    Args:
        rows: item_id, cluster (the image, or the item where there is none), seed, value (None where there is none) and
            reason of each item.
        label: Name of the data set, which separates its bootstrap draws from others'.
        how: Resamples, coverage, seed; clusters are drawn, the same for all seeds.
        bounds: Least and greatest value of an item.
    Returns:
        The mean over seeds with its draws; and numbers by what ends the metric's name: the mean, its deviation, each
        seed.
    """
    known = sorted((row for row in rows if row["value"] is not None), key=_get_sort_key)
    drawn = _resample_clusters(known, label, how)
    by_seed = {}
    for seed in sorted({row["seed"] for row in rows}):
        of = [row for row in known if row["seed"] == seed]
        if drawn is None or not of:
            why = next((f": {row['reason']}" for row in rows if row["seed"] == seed and row["reason"]), "")
            count = sum(row["seed"] == seed for row in rows)
            by_seed[seed] = SampledMeasure(Measure(None, 0, reason=f"none of {count} items has one{why}"), np.empty(0))
            continue
        values = np.array([row["value"] for row in known])
        draws = drawn.compute_means(values, np.array([row["seed"] == seed for row in known]))
        measure = build_measure(
            float(np.mean([row["value"] for row in of])), len(of), draws, how, _count_clusters(of), bounds
        )
        by_seed[seed] = SampledMeasure(measure, draws)
    return _average_over_seeds(by_seed, known, how, bounds)


def compute_correlations_over_seeds(
    tests: Sequence[Row], scores: Sequence[Row], label: str, how: Resampling
) -> list[tuple[str, Measure]]:
    """Correlation of one test with CC-SHAP, times 100, of each seed and over seeds.

    Args:
        tests: Verdicts, 0 or 100, as rows of `mean_of`.
        scores: CC-SHAP as such rows.
        label: As of `mean_of`.
        how: As of `mean_of`.
    Returns:
        By what ends the metric's name, as of `mean_of`.
    """
    by_item = {(row["item_id"], row["seed"]): row["value"] for row in scores}
    pairs = [
        {**row, "score": by_item[row["item_id"], row["seed"]]}
        for row in sorted(tests, key=_get_sort_key)
        if row["value"] is not None and by_item.get((row["item_id"], row["seed"])) is not None
    ]
    drawn = _resample_clusters(pairs, label, how)
    by_seed = {}
    for seed in sorted({row["seed"] for row in tests}):
        found = compute_correlation(
            {
                row["item_id"]: None if row["value"] is None else int(row["value"] > 0)
                for row in tests
                if row["seed"] == seed
            },
            {row["item_id"]: row["value"] for row in scores if row["seed"] == seed},
        )
        if found.value is None or drawn is None:
            by_seed[seed] = SampledMeasure(found, np.empty(0))
            continue
        draws = 100 * _compute_pearson(pairs, drawn, np.array([row["seed"] == seed for row in pairs]))
        clusters = _count_clusters([row for row in pairs if row["seed"] == seed])
        by_seed[seed] = SampledMeasure(
            build_measure(100 * found.value, found.n, draws, how, clusters, HUNDREDTHS), draws
        )
    return _average_over_seeds(by_seed, pairs, how, HUNDREDTHS)[1]


def _compute_pearson(pairs: Sequence[Row], drawn: Resamples, where: np.ndarray) -> np.ndarray:
    """Pearson's correlation of value and score in each resample, NaN where one of them is constant."""
    sides = [np.array([row[name] for row in pairs], dtype=np.float64) for name in ("value", "score")]
    x, y = ((side - side[where].mean()) / (np.ptp(side[where]) or 1.0) for side in sides)
    mean_x, mean_y = drawn.compute_means(x, where), drawn.compute_means(y, where)
    covariance = drawn.compute_means(x * y, where) - mean_x * mean_y
    variances = (drawn.compute_means(x * x, where) - mean_x**2) * (drawn.compute_means(y * y, where) - mean_y**2)
    defined = variances > LEAST_VARIANCE
    found: np.ndarray = np.where(defined, covariance / np.sqrt(np.where(defined, variances, 1.0)), np.nan)
    return found


def _resample_clusters(rows: Sequence[Row], label: str, how: Resampling) -> Resamples | None:
    """The same resamples of clusters for all seeds, so that their draws can be averaged."""
    if not rows:
        return None
    return resample([row["cluster"] for row in rows], resamples=how.resamples, seed=how.seed, label=label)


def _count_clusters(rows: Sequence[Row]) -> int:
    return len({row["cluster"] for row in rows})


def build_measure(
    value: float, n: int, draws: np.ndarray, how: Resampling, clusters: int, bounds: Bounds | None
) -> Measure:
    """A number with the interval of its draws; arguments as of `core.measure.interval`."""
    return Measure(value, n, *compute_interval(draws, how.confidence, clusters, bounds))


def _average_over_seeds(
    by_seed: Mapping[int, SampledMeasure], known: Sequence[Row], how: Resampling, bounds: Bounds | None
) -> tuple[SampledMeasure, list[tuple[str, Measure]]]:
    """The mean over seeds of known numbers, and by what ends the metric's name: the mean, its deviation, each seed."""
    items = len({row["item_id"] for row in known})
    spread = compute_seed_spread({seed: sampled.measure.value for seed, sampled in by_seed.items()})
    each = [(f":seed={seed}", sampled.measure) for seed, sampled in by_seed.items()]
    if spread.mean.value is None:
        why = next(sampled.measure.reason for sampled in by_seed.values() if sampled.measure.value is None)
        reason = why if len(by_seed) == 1 else f"{spread.mean.reason}: {why}"
        whole = SampledMeasure(Measure(None, items, reason=reason), np.empty(0))
        return whole, [("", whole.measure), (f":{DEVIATION}", replace(spread.deviation, reason=reason)), *each]
    draws = np.mean([sampled.draws for sampled in by_seed.values()], axis=0)
    whole = SampledMeasure(build_measure(spread.mean.value, items, draws, how, _count_clusters(known), bounds), draws)
    return whole, [("", whole.measure), (f":{DEVIATION}", spread.deviation), *each]


def _get_sort_key(row: Row) -> tuple[int, str]:
    return row["seed"], row["item_id"]
