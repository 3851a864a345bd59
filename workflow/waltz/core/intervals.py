"""Measured numbers with bootstrap confidence intervals, or the reason why there is none."""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Bounds = tuple[float, float]
"""Smallest and largest possible value of a number."""
PERCENT: Bounds = (0.0, 100.0)
EQUALITY_TOLERANCE = 1e-9
"""Draws that differ by less than this share of the distance of the bounds are equal up to rounding."""


@dataclass(frozen=True)
class Measure:
    """One measured number.

    Attributes:
        value: Value in the unit of the metric; None with a reason.
        n: Number of items that it was measured on (annotated items for agreement).
        ci_low: Lower end of the interval; None if no sampling is behind the number.
        ci_high: Upper end.
        reason: Reason why there is no value.
    """

    value: float | None
    n: int
    ci_low: float | None = None
    ci_high: float | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Resampling:
    """Number of bootstrap resamples, coverage of the intervals (a share), and seed of the draws."""

    resamples: int
    confidence: float
    seed: int


@dataclass(frozen=True, eq=False)
class Resamples:
    """Resamples of a data set that draw whole clusters with replacement.

    Attributes:
        cluster: Number of each item's cluster, int64 of shape (items,).
        counts: Number of times that each resample drew each cluster, float64 of shape (resamples, clusters).
    """

    cluster: np.ndarray
    counts: np.ndarray

    @property
    def clusters(self) -> int:
        """Number of clusters."""
        return int(self.counts.shape[1])

    def compute_means(self, values: Sequence[float] | np.ndarray, where: np.ndarray | None = None) -> np.ndarray:
        """Compute the mean of each resample.

        Args:
            values: One number per item.
            where: Bool of shape (items,): the items that the mean is taken over; None for all.
        Returns:
            float64 of shape (resamples,), in the unit of `values`; NaN if a resample contains none of the
            items, or if there is only one cluster.
        """
        index = self.cluster if where is None else self.cluster[where]
        numbers = np.asarray(values, dtype=np.float64)
        sums = np.bincount(index, weights=numbers if where is None else numbers[where], minlength=self.clusters)
        sizes = np.bincount(index, minlength=self.clusters).astype(np.float64)
        if self.clusters == 1:
            return np.full(len(self.counts), np.nan)
        with np.errstate(invalid="ignore"):
            means: np.ndarray = (self.counts @ sums) / (self.counts @ sizes)
        return means


def resample(clusters: Sequence[str], *, resamples: int, seed: int, label: str) -> Resamples:
    """Draw clusters with replacement, as many as there are.

    Items that share an image are not independent, so images are drawn, not items. The same clusters, seed and label
    give the same draws, so that numbers measured on them are paired.

    Args:
        clusters: The image of each item.
        resamples: Number of resamples.
        seed: Seed of the draws.
        label: Name of the resampled data; other labels give independent draws.
    """
    names, index = np.unique(np.asarray(clusters), return_inverse=True)
    entropy = int.from_bytes(hashlib.sha256(f"{seed}:{label}".encode()).digest()[:8], "big")
    generator = np.random.Generator(np.random.PCG64(entropy))
    counts = generator.multinomial(len(names), np.full(len(names), 1 / len(names)), size=resamples)
    return Resamples(index, counts.astype(np.float64))


def bootstrap_means(
    values: Sequence[float], clusters: Sequence[str], *, resamples: int, seed: int, label: str
) -> np.ndarray:
    """Compute the means of one number per item over resamples; other arguments as of `resample`.

    Returns:
        float64 of shape (resamples,), in the unit of `values`.
    """
    if not values or len(values) != len(clusters):
        raise ValueError(f"cannot resample {len(values)} values in {len(clusters)} clusters")
    return resample(clusters, resamples=resamples, seed=seed, label=label).compute_means(values)


def compute_mean(
    values: Sequence[float],
    clusters: Sequence[str],
    label: str,
    resampling: Resampling,
    bounds: Bounds | None = PERCENT,
) -> Measure:
    """Compute the mean of one number per item with its interval; arguments as of `resample` and `compute_interval`."""
    draws = bootstrap_means(values, clusters, resamples=resampling.resamples, seed=resampling.seed, label=label)
    ends = compute_interval(draws, resampling.confidence, len(set(clusters)), bounds)
    return Measure(float(np.mean(values)), len(values), *ends)


def compute_interval(
    draws: np.ndarray, confidence: float, clusters: int, bounds: Bounds | None
) -> tuple[float | None, float | None]:
    """Compute the percentile interval of bootstrap draws.

    Resamples without a number are ignored. If more than `1 - confidence` of them have none, there is no interval: the
    other resamples are then those that happen to contain the few items for which the number is defined.

    If all clusters have the same value, so have all resamples, which does not make the value certain. By the exact
    binomial, the share of such clusters is then at least `((1 - confidence) / 2) ** (1 / clusters)`; all others may
    lie at either bound. For a share of 0 or 100 percent this is the interval of Clopper and Pearson.

    Args:
        draws: float64 of shape (resamples,), NaN for a resample without a number.
        confidence: Coverage, a share.
        clusters: Number of clusters that were drawn from.
        bounds: Bounds of the number in its unit; None if it has none: clusters that agree then have no interval.
    Source:
        Clopper & Pearson (Biometrika 26, 1934).
    """
    finite = draws[np.isfinite(draws)]
    if not finite.size or finite.size < confidence * draws.size:
        return None, None
    tail = (1 - confidence) / 2
    low, high = (float(end) for end in np.quantile(finite, [tail, 1 - tail]))
    if np.ptp(finite) > EQUALITY_TOLERANCE * (bounds[1] - bounds[0] if bounds else np.abs(finite).max()):
        return low, high
    if bounds is None:
        return None, None
    agreeing = tail ** (1 / clusters)
    return agreeing * low + (1 - agreeing) * bounds[0], agreeing * high + (1 - agreeing) * bounds[1]


def compute_interval_of_mean(parts: Sequence[Measure]) -> tuple[float | None, float | None]:
    """Compute the interval of the unweighted mean of independent numbers: the squares of half widths add up.

    Args:
        parts: At least one number; there is no interval if one of them has none.
    Source:
        Zou & Donner (Statistics in Medicine 27, 2008), on confidence limits of sums.
    """
    bounds = [(part.value, part.ci_low, part.ci_high) for part in parts]
    widths = [
        (value - low, high - value)
        for value, low, high in bounds
        if value is not None and low is not None and high is not None
    ]
    if len(widths) < len(parts):
        return None, None
    middle = math.fsum(value for value, *_ in bounds if value is not None) / len(parts)
    below, above = (math.hypot(*side) / len(parts) for side in zip(*widths, strict=True))
    return middle - below, middle + above
