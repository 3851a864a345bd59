"""Power of paired comparisons: the smallest difference between two models that a test on the same items can show."""

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from scipy.stats import norm

from waltz.evaluation.metrics.pair_metrics import ScoredPairs, compute_hits

POWER = 0.8
"""Probability that a test shows the smallest difference; bold in tables needs a difference as large."""
SHARES = ("acc_r", "p_c", "p_f")
"""Metrics that are shares of items, which McNemar's test compares."""


def compute_design_effect(values: np.ndarray, images: Sequence[str]) -> float:
    """Return how many times larger the variance of a mean is because items share images, at least 1.

    With e the deviations of n items from their mean and S their sums over each of m images, the variance of the mean is
    m / (m - 1) sum(S^2) / n^2, and that of independent items sum(e^2) / (n (n - 1)). n items tell as much as n over
    this ratio independent ones.

    Args:
        values: One number per item, float64 of shape (n,).
        images: Image of each item.
    Returns:
        1 where all values are equal; n where all items share one image.
    Source:
        Kish (Survey Sampling, Wiley 1965).
    """
    deviations = values - values.mean()
    _, index = np.unique(np.asarray(images), return_inverse=True)
    sums = np.bincount(index, weights=deviations)
    n, m = len(values), len(sums)
    squares = float((deviations**2).sum())
    if not squares:
        return 1.0
    return max(1.0, m / (m - 1) * (n - 1) / n * float((sums**2).sum()) / squares) if m > 1 else float(n)


def compute_detectable_accuracy(discordance: float, items: float, power: float, alpha: float) -> float | None:
    """Return the smallest difference of two accuracies that McNemar's test shows, a share.

    The difference D solves sqrt(n) D = z(1 - alpha / 2) sqrt(p) + z(power) sqrt(p - D^2), with p the share of items on
    which exactly one model is right.

    Args:
        discordance: This share, between 0 and 1.
        items: Number of independent items n, or as many as items that share images are worth.
        power: Probability that the test shows it.
        alpha: Level of the two-sided test.
    Returns:
        None where it would be more than the share of discordant items, which bounds the difference.
    Source:
        Connor (Biometrics 43, 1987).
    """
    level, chance = norm.ppf(1 - alpha / 2), norm.ppf(power)
    # the larger root of (n + b^2) D^2 - 2 a sqrt(n p) D + (a^2 - b^2) p = 0, a and b the quantiles
    half = level * math.sqrt(items * discordance)
    root = half**2 - (items + chance**2) * (level**2 - chance**2) * discordance
    difference = (half + math.sqrt(root)) / (items + chance**2) if root >= 0 else math.inf
    return difference if 0 < difference <= discordance else None


def compute_detectable_mean(deviation: float, items: float, power: float, alpha: float) -> float:
    """Return the smallest mean of paired differences that a normal test shows, in the unit of their deviation.

    Args:
        deviation: Standard deviation of the paired differences.
        items: Number of independent pairs.
        power: Probability that the test shows it.
        alpha: Level of the two-sided test.
    """
    return float((norm.ppf(1 - alpha / 2) + norm.ppf(power)) * deviation / math.sqrt(items))


def compute_detectable(
    metric: str, differences: np.ndarray, images: Sequence[str], items: int, power: float, alpha: float
) -> float | None:
    """Return the smallest difference in a metric of pairs that a paired test shows, a share.

    Items of an image are no independent ones: they count as their number over the design effect of the differences.

    Args:
        metric: One of `SHARES`, or acc.
        differences: Difference of the two models' hits on each item at hand, float64 of shape (k,).
        images: Image of each of these items.
        items: Number of items that the test would have, as many of an image as those at hand.
        power: Probability that the test shows it.
        alpha: Level of the two-sided test.
    Returns:
        None where no difference could be shown, or where a single item has no deviation. Where all items have the same
        difference in acc, they are the discordant items of McNemar's test.
    """
    independent = items / compute_design_effect(differences, images)
    if metric in SHARES:
        return compute_detectable_accuracy(float((differences != 0).mean()), independent, power, alpha)
    if len(differences) < 2:
        return None
    deviation = float(differences.std(ddof=1))
    if not deviation:
        return compute_detectable_accuracy(float(differences.any()), independent, power, alpha)
    return compute_detectable_mean(deviation, independent, power, alpha)


def align_items(first: ScoredPairs, second: ScoredPairs) -> tuple[ScoredPairs, ScoredPairs]:
    """Return the items that both models could score, sorted by id."""
    common = sorted(set(first.items) & set(second.items))
    positions = [{item: place for place, item in enumerate(own.items)} for own in (first, second)]
    a, b = (own.take([places[item] for item in common]) for own, places in zip((first, second), positions, strict=True))
    return a, b


def measure_detectable(
    scores: Mapping[tuple[str, str], ScoredPairs], alpha: float, power: float = POWER
) -> list[dict[str, Any]]:
    """Measure the smallest difference that a test shows of each two models, on each data set that both were run on.

    Args:
        scores: Scored items of one profile and setting, by model and data set.
        alpha: Level of the two-sided test.
    Returns:
        Rows of dataset, metric (acc_r; where both models have a probability of a match, acc, p_c and p_f as well),
        model_a, model_b, n (items that both could score), difference (a minus b), and detectable: the smallest one that
        can be shown, None where none can. Both are in percentage points.
    """
    rows = []
    for dataset in dict.fromkeys(dataset for _, dataset in scores):
        models = [model for model, scored_dataset in scores if scored_dataset == dataset]
        for pair in combinations(models, 2):
            first, second = align_items(*(scores[model, dataset] for model in pair))
            both_predict = first.right is not None and second.right is not None
            for metric in (*SHARES, "acc") if both_predict else ("acc_r",):
                if not first.items:
                    continue
                differences = compute_hits(first, metric) - compute_hits(second, metric)
                detectable = compute_detectable(metric, differences, first.images, len(differences), power, alpha)
                rows.append(
                    {
                        **{"dataset": dataset, "metric": metric, "model_a": pair[0], "model_b": pair[1]},
                        "difference": 100 * float(differences.mean()),
                        "detectable": None if detectable is None else 100 * detectable,
                        "n": len(differences),
                    }
                )
    return rows
