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


def bootstrap(values: Sequence[float], clusters: Sequence[str], *, resamples: int, seed: int, label: str) -> np.ndarray:
    """Means of resamples that draw whole clusters with replacement.

    Items that share an image are not independent, so images are drawn, not items.

    Args:
        values: One number an item.
        clusters: The image of each item.
        resamples: How many means.
        seed: Seed; together with `label` it makes the draws of two data sets independent.
        label: Name of what is resampled.
    Returns:
        float64 of shape (resamples,), in the unit of `values`.
    Raises:
        ValueError: There is nothing to resample, or lengths differ.
    """
    if not values or len(values) != len(clusters):
        raise ValueError(f"cannot resample {len(values)} values in {len(clusters)} clusters")
    _, index = np.unique(np.asarray(clusters), return_inverse=True)
    sums = np.bincount(index, weights=np.asarray(values, dtype=np.float64))
    sizes = np.bincount(index).astype(np.float64)
    entropy = int.from_bytes(hashlib.sha256(f"{seed}:{label}".encode()).digest()[:8], "big")
    generator = np.random.Generator(np.random.PCG64(entropy))
    drawn = generator.multinomial(len(sums), np.full(len(sums), 1 / len(sums)), size=resamples).astype(np.float64)
    means: np.ndarray = (drawn @ sums) / (drawn @ sizes)
    return means


def interval(draws: np.ndarray, confidence: float) -> tuple[float, float]:
    """Percentile interval of bootstrap draws.

    Args:
        draws: float64 of shape (resamples,).
        confidence: Coverage, a share.
    """
    tail = (1 - confidence) / 2
    low, high = np.quantile(draws, [tail, 1 - tail])
    return float(low), float(high)
