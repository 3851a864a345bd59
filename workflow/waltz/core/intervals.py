"""Numbers with their intervals, or the reason why there is none."""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Bounds = tuple[float, float]
"""Least and greatest value that a number can have."""
PERCENT: Bounds = (0.0, 100.0)
EQUALITY_TOLERANCE = 1e-9
"""Draws that lie no further apart than this, as a share of the bounds' distance, are one number but for rounding."""


@dataclass(frozen=True)
class Measure:
    """One measured number.

    Attributes:
        value: In the metric's own unit; None with a reason.
        n: What it was measured on, in items (or annotated items, for agreement).
        ci_low: Lower end of the interval; None where no sampling is behind the number.
        ci_high: Upper end.
        reason: Why there is no value.
    """

    value: float | None
    n: int
    ci_low: float | None = None
    ci_high: float | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Resampling:
    """How intervals are made.

    Attributes:
        resamples: Bootstrap resamples.
        confidence: Coverage, a share.
        seed: Seed of the draws.
    """

    resamples: int
    confidence: float
    seed: int


@dataclass(frozen=True, eq=False)
class Resamples:
    """Resamples of a data set that draw whole clusters with replacement.

    Attributes:
        cluster: Number of each item's cluster, int64 of shape (items,).
        counts: How often each resample drew each cluster, float64 of shape (resamples, clusters).
    """

    cluster: np.ndarray
    counts: np.ndarray

    @property
    def clusters(self) -> int:
        """How many clusters there are."""
        return int(self.counts.shape[1])

    def means(self, values: Sequence[float] | np.ndarray, where: np.ndarray | None = None) -> np.ndarray:
        """Mean of each resample.

        Args:
            values: One number an item.
            where: Bool of shape (items,): the items that the mean is taken over; all of them where None.
        Returns:
            float64 of shape (resamples,), in the unit of `values`; NaN where a resample holds none of the items, and
            of a single cluster, which says nothing of how clusters differ.
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
    give the same draws, so that what is measured on them is paired.

    Args:
        clusters: The image of each item.
        resamples: How many resamples.
        seed: Seed; together with `label` it makes the draws of two data sets independent.
        label: Name of what is resampled.
    """
    names, index = np.unique(np.asarray(clusters), return_inverse=True)
    entropy = int.from_bytes(hashlib.sha256(f"{seed}:{label}".encode()).digest()[:8], "big")
    generator = np.random.Generator(np.random.PCG64(entropy))
    drawn = generator.multinomial(len(names), np.full(len(names), 1 / len(names)), size=resamples)
    return Resamples(index, drawn.astype(np.float64))


def bootstrap_means(
    values: Sequence[float], clusters: Sequence[str], *, resamples: int, seed: int, label: str
) -> np.ndarray:
    """Means of resamples that draw whole clusters with replacement; see `resample`.

    Args:
        values: One number an item.
        clusters: The image of each item.
        resamples: How many means.
        seed: Seed of the draws.
        label: Name of what is resampled.
    Returns:
        float64 of shape (resamples,), in the unit of `values`.
    Raises:
        ValueError: There is nothing to resample, or lengths differ.
    """
    if not values or len(values) != len(clusters):
        raise ValueError(f"cannot resample {len(values)} values in {len(clusters)} clusters")
    return resample(clusters, resamples=resamples, seed=seed, label=label).means(values)


def compute_mean(
    values: Sequence[float], clusters: Sequence[str], label: str, how: Resampling, bounds: Bounds | None = PERCENT
) -> Measure:
    """Mean of numbers with the interval of resampled clusters.

    Args:
        values: One number an item.
        clusters: The image of each item.
        label: Name of what is resampled, which separates its draws from others'.
        how: Resamples, coverage, seed.
        bounds: As of `interval`.
    Raises:
        ValueError: There is nothing to resample, or lengths differ.
    """
    draws = bootstrap_means(values, clusters, resamples=how.resamples, seed=how.seed, label=label)
    ends = compute_interval(draws, how.confidence, len(set(clusters)), bounds)
    return Measure(float(np.mean(values)), len(values), *ends)


def compute_interval(
    draws: np.ndarray, confidence: float, clusters: int, bounds: Bounds | None
) -> tuple[float | None, float | None]:
    """Percentile interval of bootstrap draws.

    Resamples without a number are left out. Where more than `1 - confidence` of them have none there is no interval:
    the others are those that happen to hold the few items which make the number defined.

    Where all clusters say the same, so do all resamples, which is no certainty. Of clusters like these there are then
    at least `((1 - confidence) / 2) ** (1 / clusters)`, by the exact binomial; all others may lie at either bound. For
    a share of 0 or 100 percent that is the interval of Clopper and Pearson.

    Args:
        draws: float64 of shape (resamples,), NaN where a resample has no number, as of a single cluster.
        confidence: Coverage, a share.
        clusters: How many clusters were drawn from.
        bounds: Of what was drawn, in its unit; None where it has none, which leaves clusters that agree without an
            interval.
    Source:
        Clopper & Pearson (Biometrika 26, 1934).
    """
    known = draws[np.isfinite(draws)]
    if not known.size or known.size < confidence * draws.size:
        return None, None
    tail = (1 - confidence) / 2
    low, high = (float(end) for end in np.quantile(known, [tail, 1 - tail]))
    if np.ptp(known) > EQUALITY_TOLERANCE * (bounds[1] - bounds[0] if bounds else np.abs(known).max()):
        return low, high
    if bounds is None:
        return None, None
    like = tail ** (1 / clusters)
    return like * low + (1 - like) * bounds[0], like * high + (1 - like) * bounds[1]


def compute_interval_of_mean(parts: Sequence[Measure]) -> tuple[float | None, float | None]:
    """Interval of the mean of independent numbers, each weighing the same: the squares of half widths add up.

    Args:
        parts: At least one; without an interval where one of them has none.
    Source:
        Zou & Donner (Statistics in Medicine 27, 2008), on confidence limits of sums.
    """
    known = [(part.value, part.ci_low, part.ci_high) for part in parts]
    widths = [
        (value - low, high - value)
        for value, low, high in known
        if value is not None and low is not None and high is not None
    ]
    if len(widths) < len(parts):
        return None, None
    middle = math.fsum(value for value, *_ in known if value is not None) / len(parts)
    below, above = (math.hypot(*side) / len(parts) for side in zip(*widths, strict=True))
    return middle - below, middle + above
