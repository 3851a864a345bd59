"""Rank correlation of correctness with T-SHAP (thesis B.2.1)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from waltz.core.intervals import Measure, Resampling, compute_interval, resample

DECIMALS = 9
"""Decimal places of T-SHAP that are ranked."""
MOST_WEIGHTS = 1 << 22
"""Largest number of weights in memory at once."""


@dataclass(frozen=True)
class RankCorrelation:
    """A rank correlation.

    Attributes:
        rho: Spearman's rho, -1 to 1, on items that have both numbers.
        p: Two-sided p value for no correlation (Student's t, items taken as independent); None without a rho.
    """

    rho: Measure
    p: float | None


def correlate_correctness_with_t_shap(
    rows: Sequence[Mapping[str, Any]], label: str, how: Resampling
) -> RankCorrelation:
    """Compute Spearman's correlation of correctness and T-SHAP over the items of one role.

    The interval draws images and ranks each resample anew; resamples in which all items are right, wrong or equal have
    no correlation.

    Args:
        rows: `correct`, `t_shap` and `image` of each item; those where one of the two is null are skipped.
        label: Name of the data set, which separates its bootstrap draws from others'.
        how: Resamples, coverage, seed.
    Returns:
        The correlation, or the reason why there is none.
    Source:
        Thesis B.2.1.
    """
    complete_rows = [row for row in rows if row["correct"] is not None and row["t_shap"] is not None]
    correct = np.array([bool(row["correct"]) for row in complete_rows])
    # Shares that differ by rounding alone tie.
    shares = np.round(np.array([row["t_shap"] for row in complete_rows], dtype=np.float64), DECIMALS)
    reason = _explain_undefined(correct, shares, len(rows))
    if reason:
        return RankCorrelation(Measure(None, len(complete_rows), reason=reason), None)
    correlation = spearmanr(correct, shares)
    images = [str(row["image"]) for row in complete_rows]
    draws = np.concatenate([_compute_rho(correct, shares, counts) for counts in _draw_resamples(images, label, how)])
    ends = compute_interval(draws, how.confidence, len(set(images)), (-1.0, 1.0))
    return RankCorrelation(Measure(float(correlation.statistic), len(complete_rows), *ends), float(correlation.pvalue))


def _explain_undefined(correct: np.ndarray, shares: np.ndarray, item_count: int) -> str | None:
    if len(correct) < 3:
        return f"{len(correct)} of {item_count} items have both correctness and T-SHAP; three are needed"
    if correct.all() or not correct.any():
        return f"all {len(correct)} items are {'right' if correct.all() else 'wrong'}"
    if np.all(shares == shares[0]):
        return f"all {len(correct)} items have the same T-SHAP"
    return None


def _draw_resamples(images: Sequence[str], label: str, how: Resampling) -> Iterator[np.ndarray]:
    """Yield the number of times that each item is in each resample of images, float64 of shape (batch, n)."""
    resamples = resample(images, resamples=how.resamples, seed=how.seed, label=label)
    size = max(1, MOST_WEIGHTS // len(images))
    for first in range(0, how.resamples, size):
        yield resamples.counts[first : first + size][:, resamples.cluster]


def _compute_rho(correct: np.ndarray, shares: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Compute Spearman's rho of each resample: Pearson's of middle ranks, each item weighted by its count."""
    order = np.argsort(shares, kind="stable")
    _, firsts = np.unique(shares[order], return_index=True)
    weights = np.add.reduceat(counts[:, order], firsts, axis=1)
    right = np.add.reduceat(counts[:, order] * correct[order], firsts, axis=1)
    ranks = np.cumsum(weights, axis=1) - weights / 2
    total, hits = weights.sum(axis=1), right.sum(axis=1)
    mean_rank = (weights * ranks).sum(axis=1) / total
    deviations = ranks - mean_rank[:, None]
    covariance = (right * deviations).sum(axis=1)
    variance = (weights * deviations**2).sum(axis=1) * hits * (total - hits) / total
    defined = variance > 0
    rho: np.ndarray = np.full(len(counts), np.nan)
    rho[defined] = covariance[defined] / np.sqrt(variance[defined])
    return rho
