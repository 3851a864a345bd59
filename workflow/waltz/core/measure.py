"""Numbers with their intervals, or the reason why there is none."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


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


@dataclass(frozen=True, eq=False)
class Resamples:
    """Resamples of a data set that draw whole clusters with replacement.

    Attributes:
        cluster: Number of each item's cluster, int64 of shape (items,).
        counts: How often each resample drew each cluster, float64 of shape (resamples, clusters).
    """

    cluster: np.ndarray
    counts: np.ndarray

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
        clusters = self.counts.shape[1]
        sums = np.bincount(index, weights=numbers if where is None else numbers[where], minlength=clusters)
        sizes = np.bincount(index, minlength=clusters).astype(np.float64)
        if clusters == 1:
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


def bootstrap(values: Sequence[float], clusters: Sequence[str], *, resamples: int, seed: int, label: str) -> np.ndarray:
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


def interval(draws: np.ndarray, confidence: float) -> tuple[float | None, float | None]:
    """Percentile interval of bootstrap draws; none without draws, or where one is NaN, as of a single cluster.

    Args:
        draws: float64 of shape (resamples,).
        confidence: Coverage, a share.
    """
    if not draws.size or np.isnan(draws).any():
        return None, None
    tail = (1 - confidence) / 2
    low, high = np.quantile(draws, [tail, 1 - tail])
    return float(low), float(high)
