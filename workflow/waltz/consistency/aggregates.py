"""Correlations, means and seed spreads of tests and CC-SHAP (thesis 5.2, C.1, C.2 and C.3)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

import numpy as np
import pandas as pd
import scipy

from waltz.core.intervals import (
    Bounds,
    Resamples,
    Resampling,
    add_common_error,
    bound_common_error,
    build_measure,
    resample,
)
from waltz.core.measure import Measure

CONSTANT_RANGE = 1e-12
"""Scores count as constant if the largest and the smallest differ by at most this, which is
rounding.
"""
LEAST_VARIANCE = 1e-18
"""A resample counts as constant if its variance is below this, which is rounding."""
DEVIATION = "sd"
"""Suffix of the metric for the standard deviation over seeds (`paraphrasing:sd`); one seed is
`paraphrasing:seed=3`.
"""
ONE_RUN = "one run; a standard deviation needs two"
"""Reason why one run has no standard deviation over seeds."""
HUNDREDTHS: Bounds = (-100.0, 100.0)
"""Smallest and largest value of a correlation times 100."""


def compute_correlation(verdicts: np.ndarray, scores: np.ndarray) -> Measure:
    """Return the point-biserial correlation of a test's verdicts with CC-SHAP (thesis C.3).

    Args:
        verdicts: Verdict of each item that has CC-SHAP too, 1 or 0, int64 of shape (items,).
        scores: CC-SHAP of these items, float64 of shape (items,).
    Returns:
        Correlation from -1 to 1; n is the number of items. The value is missing (nan in the thesis)
        with fewer than two items, or if all verdicts or all scores are equal.
    """
    n = len(verdicts)
    if n < 2:
        reason = f"{n} items have both a verdict and CC-SHAP; a correlation needs two"
        return Measure(None, n, reason=reason)
    if np.ptp(verdicts) == 0:
        reason = f"the test is constant: all {n} verdicts are {verdicts[0]}"
        return Measure(None, n, reason=reason)
    if np.ptp(scores) <= CONSTANT_RANGE:
        reason = f"CC-SHAP is constant: {scores[0]} for all {n} items"
        return Measure(None, n, reason=reason)
    # The point-biserial correlation is Pearson's correlation with a variable that is 0 or 1.
    result = scipy.stats.pointbiserialr(verdicts, scores)
    return Measure(float(result.statistic), n)


@dataclass(frozen=True, slots=True)
class ItemNumber:
    """Hold a number of one item and seed.

    Attributes:
        item_id: Name of the item.
        cluster: Unit that the bootstrap resamples: the image, or the item if it has no image.
        seed: Seed of the run.
        value: The number; None where it is undefined.
        reason: Why it is undefined.
        common_error: Standard error by an estimator that draws with the seed of the run, in the unit
            of the number; 0 for other numbers.
        players: Number of shared players: items with as many have the same permutations.
    """

    item_id: str
    cluster: str
    seed: int
    value: float | None
    reason: str | None
    common_error: float = 0.0
    players: int = 0


@dataclass(frozen=True)
class SeedSpread:
    """Hold the mean and the standard deviation of a number over several seeds.

    Attributes:
        mean: Mean over the seeds; n counts seeds.
        deviation: Sample standard deviation (n - 1) over the seeds; it has no value with fewer than
            two seeds.
    """

    mean: Measure
    deviation: Measure


def compute_seed_spread(
    values: Mapping[int, float | None], one_run: str = ONE_RUN
) -> SeedSpread:
    """Return mean and standard deviation of a number over seeds (figures of thesis C.2, C.4, C.5).

    Args:
        values: The number of each seed; None where it is undefined.
        one_run: Reason why there is a single run, if there is one.
    """
    defined_values = [value for _, value in sorted(values.items()) if value is not None]
    n = len(defined_values)
    # A mean over some of the seeds is not comparable with a mean over all, so that one undefined
    # seed makes the mean undefined.
    if n < len(values) or not n:
        reason = f"{len(values) - n} of {len(values)} seeds have no value"
        undefined = Measure(None, n, reason=reason)
        return SeedSpread(undefined, undefined)
    mean = Measure(float(np.mean(defined_values)), n)
    if n == 1:
        return SeedSpread(mean, Measure(None, n, reason=one_run))
    return SeedSpread(mean, Measure(float(np.std(defined_values, ddof=1)), n))


@dataclass(frozen=True)
class SampledMeasure:
    """Hold a measure with the bootstrap draws behind its interval, from which averages of measures
    are drawn.

    Attributes:
        measure: The measure with its interval.
        draws: Its value in each resample, float64 of shape (resamples,), in the unit of the
            measure; empty without a value.
    """

    measure: Measure
    draws: np.ndarray


def compute_mean_over_seeds(
    numbers: Sequence[ItemNumber],
    label: str,
    resampling: Resampling,
    bounds: Bounds | None,
    one_run: str = ONE_RUN,
) -> tuple[SampledMeasure, list[tuple[str, Measure]]]:
    """Compute the mean over items for each seed, and the mean of these means over seeds.

    Args:
        numbers: A number of each item and seed.
        label: Name of the data set, which separates its bootstrap draws from the draws of other
            data sets.
        resampling: Resamples, coverage, seed; clusters are resampled, in the same way for all
            seeds.
        bounds: Lowest and highest possible value of an item.
        one_run: Reason why there is a single run, if there is one.
    Returns:
        The mean over seeds with its draws; and all measures, each with the suffix of the metric's
        name: the mean, its standard deviation, the mean of each seed.
    """
    frame = _build_frame(numbers)
    # All seeds share the resamples of clusters; a mask keeps the numbers of one seed.
    defined = frame.dropna(subset="value")
    values = defined["value"].to_numpy(np.float64)  # (numbers,)
    resamples = _resample_clusters(defined, label, resampling)
    by_seed = {}
    common_errors: list[float] = []
    for seed in frame["seed"].unique().tolist():
        is_of_seed = (defined["seed"] == seed).to_numpy()
        if resamples is None or not is_of_seed.any():
            reason = _explain_missing_mean(numbers, seed)
            by_seed[seed] = SampledMeasure(Measure(None, 0, reason=reason), np.empty(0))
            continue
        items = defined[is_of_seed]
        common_errors.append(
            bound_common_error(
                items["common_error"].to_numpy(np.float64), items["players"].to_numpy()
            )
        )
        by_seed[seed] = _build_sampled_measure(
            float(items["value"].mean()),
            len(items),
            resamples.compute_means(values, is_of_seed),
            items["cluster"],
            resampling,
            bounds,
            common_errors[-1],
        )
    # The permutations of another seed are independent.
    common_error = math.hypot(*common_errors) / max(1, len(common_errors))
    return _average_over_seeds(
        by_seed, defined, resampling, bounds, one_run, common_error
    )


def _build_frame(numbers: Sequence[ItemNumber]) -> pd.DataFrame:
    """Return a frame with a row for each number, sorted by seed and item, so that sums do not
    depend on the order of the numbers.
    """
    columns = ["item_id", "cluster", "seed", "value", "common_error", "players"]
    rows = map(attrgetter(*columns), numbers)
    return pd.DataFrame(list(rows), columns=columns).sort_values(["seed", "item_id"])


def _build_sampled_measure(
    value: float,
    n: int,
    draws: np.ndarray,
    clusters: pd.Series,
    resampling: Resampling,
    bounds: Bounds | None,
    common_error: float = 0.0,
) -> SampledMeasure:
    """Return a measure over n items, whose interval holds a common error, with draws that do not."""
    n_clusters = clusters.nunique()
    widened = add_common_error(draws, common_error, n_clusters)
    measure = build_measure(value, n, widened, resampling, n_clusters, bounds)
    return SampledMeasure(measure, draws)


def _explain_missing_mean(numbers: Sequence[ItemNumber], seed: int) -> str:
    """Return why a seed has no mean, with the first reason of its items."""
    seed_numbers = [number for number in numbers if number.seed == seed]
    explanation = f"none of {len(seed_numbers)} items has one"
    for number in seed_numbers:
        if number.reason:
            return f"{explanation}: {number.reason}"
    return explanation


def compute_correlations_over_seeds(
    tests: Sequence[ItemNumber],
    scores: Sequence[ItemNumber],
    label: str,
    resampling: Resampling,
    one_run: str = ONE_RUN,
) -> list[tuple[str, Measure]]:
    """Compute the correlation of one test with CC-SHAP, times 100, for each seed and over seeds.

    Args:
        tests: Verdicts, 0 or 100.
        scores: CC-SHAP.
        label: Name of the data set, as in `compute_mean_over_seeds`.
        resampling: Resamples, coverage, seed, as in `compute_mean_over_seeds`.
        one_run: Reason why there is a single run, if there is one.
    Returns:
        Measures with the suffix of the metric's name, as in `compute_mean_over_seeds`.
    """
    # Pair the verdict and CC-SHAP of each item and seed; the bootstrap draws these pairs together.
    scores_of_items = _build_frame(scores)[["item_id", "seed", "value"]]
    paired = _build_frame(tests).merge(
        scores_of_items, on=["item_id", "seed"], suffixes=("", "_score")
    )
    paired = paired.dropna(subset=["value", "value_score"])
    test_values = paired["value"].to_numpy(np.float64)  # (pairs,): 0 or 100
    score_values = paired["value_score"].to_numpy(np.float64)  # (pairs,)
    resamples = _resample_clusters(paired, label, resampling)

    by_seed = {}
    for seed in sorted({test.seed for test in tests}):
        is_of_seed = (paired["seed"] == seed).to_numpy()
        verdicts = (test_values[is_of_seed] > 0).astype(np.int64)
        # The value comes from all items of the seed, the interval from resamples of the same items.
        correlation = compute_correlation(verdicts, score_values[is_of_seed])
        if correlation.value is None or resamples is None:
            by_seed[seed] = SampledMeasure(correlation, np.empty(0))
            continue
        by_seed[seed] = _build_sampled_measure(
            100 * correlation.value,
            correlation.n,
            100 * _compute_pearson(test_values, score_values, resamples, is_of_seed),
            paired.loc[is_of_seed, "cluster"],
            resampling,
            HUNDREDTHS,
        )
    return _average_over_seeds(by_seed, paired, resampling, HUNDREDTHS, one_run)[1]


def _compute_pearson(
    first: np.ndarray, second: np.ndarray, resamples: Resamples, selection: np.ndarray
) -> np.ndarray:
    """Return Pearson's correlation of two vectors in each resample: float64 of shape (resamples,).

    It is NaN in a resample in which a vector is constant.

    Args:
        first: First vector, float64 of shape (items,).
        second: Second vector, float64 of shape (items,).
        resamples: Resamples of the items.
        selection: The items that count, bool of shape (items,).
    """
    # A correlation does not depend on location and scale. Centered values of range 1 lose the
    # fewest digits when the square of a mean is subtracted from a mean of squares.
    x, y = _standardize(first, selection), _standardize(second, selection)
    # r = (E[xy] - E[x]E[y]) / sqrt((E[x^2] - E[x]^2) (E[y^2] - E[y]^2)), with the means of each
    # resample
    mean_x = resamples.compute_means(x, selection)
    mean_y = resamples.compute_means(y, selection)
    covariance = resamples.compute_means(x * y, selection) - mean_x * mean_y
    variance_x = resamples.compute_means(x * x, selection) - mean_x**2
    variance_y = resamples.compute_means(y * y, selection) - mean_y**2
    variances = variance_x * variance_y
    is_defined = variances > LEAST_VARIANCE
    scale = np.sqrt(np.where(is_defined, variances, 1.0))
    correlations: np.ndarray = np.where(is_defined, covariance / scale, np.nan)
    return correlations


def _standardize(values: np.ndarray, selection: np.ndarray) -> np.ndarray:
    """Center and scale values by the mean and the range of the selected items."""
    # A constant vector keeps its scale.
    value_range = np.ptp(values[selection]) or 1.0
    standardized: np.ndarray = (values - values[selection].mean()) / value_range
    return standardized


def _resample_clusters(
    defined: pd.DataFrame, label: str, resampling: Resampling
) -> Resamples | None:
    """Draw resamples of clusters, the same for all seeds, so that the draws of seeds can be
    averaged; None if empty.
    """
    if defined.empty:
        return None
    return resample(
        defined["cluster"].tolist(),
        resamples=resampling.resamples,
        seed=resampling.seed,
        label=label,
    )


def _average_over_seeds(
    by_seed: Mapping[int, SampledMeasure],
    defined: pd.DataFrame,
    resampling: Resampling,
    bounds: Bounds | None,
    one_run: str,
    common_error: float = 0.0,
) -> tuple[SampledMeasure, list[tuple[str, Measure]]]:
    """Return the mean over seeds with its draws, and all measures with their suffixes.

    The measures are the mean, its standard deviation, and the value of each seed.

    Args:
        by_seed: The measure of each seed.
        defined: All numbers that have a value.
        one_run: Reason why there is a single run, if there is one.
        common_error: Standard error of the mean over seeds that resamples do not show.
    """
    n_items = defined["item_id"].nunique()
    spread = compute_seed_spread(
        {seed: sampled.measure.value for seed, sampled in by_seed.items()}, one_run
    )
    if spread.mean.value is None:
        reason = _explain_missing_average(by_seed, spread)
        average = SampledMeasure(Measure(None, n_items, reason=reason), np.empty(0))
        deviation = replace(spread.deviation, reason=reason)
    else:
        # Draw k of each seed has the same clusters, so that the mean over seeds of draw k is a draw
        # of the average.
        draws = np.mean([sampled.draws for sampled in by_seed.values()], axis=0)
        average = _build_sampled_measure(
            spread.mean.value,
            n_items,
            draws,
            defined["cluster"],
            resampling,
            bounds,
            common_error,
        )
        deviation = spread.deviation

    measures = [("", average.measure), (f":{DEVIATION}", deviation)]
    for seed, sampled in by_seed.items():
        measures.append((f":seed={seed}", sampled.measure))
    return average, measures


def _explain_missing_average(
    by_seed: Mapping[int, SampledMeasure], spread: SeedSpread
) -> str | None:
    """Return why an average over seeds is undefined: the number of seeds without a value, and the
    first reason.
    """
    first_reason = None
    for sampled in by_seed.values():
        if sampled.measure.value is None:
            first_reason = sampled.measure.reason
            break
    if len(by_seed) == 1:
        return first_reason
    return f"{spread.mean.reason}: {first_reason}"
