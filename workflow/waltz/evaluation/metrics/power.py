"""Power of paired comparisons: the smallest difference between two models that a test on the same
items can show.
"""

import math
from collections.abc import Sequence

import numpy as np
from scipy.stats import nct, norm
from scipy.stats import t as student_t

from waltz.core.intervals import compute_least_p
from waltz.evaluation.metrics.pair_metrics import ScoredPairs

POWER = 0.8
"""Probability with which a test shows the smallest detectable difference."""
SHARES = ("acc_r", "p_c", "p_f")
"""Names of the metrics that are shares of items, which McNemar's test compares."""


def compute_design_effect(values: np.ndarray, images: Sequence[str]) -> float:
    """Return the factor by which the variance of a mean is larger because items share images; it is
    at least 1.

    Let e be the deviations of n items from their mean, and S the sums of e over the items of each
    of m images. The variance of the mean is then m / (m - 1) sum(S^2) / n^2. For independent items
    it would be sum(e^2) / (n (n - 1)). The n items are worth as much as n divided by this ratio
    independent items.

    Args:
        values: One number for each item, float64 of shape (n,).
        images: Image of each item.
    Returns:
        The ratio; n if all items share one image. If all values are equal, nothing says how alike
        the items of an image are. The items of an image then count as one, which gives the sum over
        images of (number of items)^2 over n.
    Source:
        Kish (Survey Sampling, Wiley 1965).
    """
    deviations = values - values.mean()
    # index: image of each item, (n,); sizes: number of items of each image, (m,).
    _, index, sizes = np.unique(
        np.asarray(images), return_inverse=True, return_counts=True
    )
    # S of the formula above, (m,): large where the items of an image deviate to the same side.
    sums = np.bincount(index, weights=deviations)
    n, m = len(values), len(sums)
    squares = float((deviations**2).sum())
    if m == 1 or not squares:
        return float((sizes**2).sum()) / n
    return max(1.0, m / (m - 1) * (n - 1) / n * float((sums**2).sum()) / squares)


def compute_detectable_accuracy(
    discordance: float, items: float, power: float, alpha: float
) -> float | None:
    """Return the smallest difference of two accuracies, a share, that McNemar's test can show.

    The difference D solves sqrt(n) D = z(1 - alpha / 2) sqrt(p) + z(power) sqrt(p - D^2), with p
    the share of items on which exactly one model is right.

    Args:
        discordance: The share p, between 0 and 1.
        items: Number n of independent items; for items that share images, the number of independent
            items that they are worth.
        power: Probability with which the test shows the difference.
        alpha: Level of the two-sided test.
    Returns:
        The difference D; None if it would exceed the share of discordant items, which limits the
        difference.
    Source:
        Connor (Biometrics 43, 1987).
    """
    level, chance = norm.ppf(1 - alpha / 2), norm.ppf(power)
    # (n + b^2) D^2 - 2 a sqrt(n p) D + (a^2 - b^2) p = 0, with a and b the quantiles, has the roots
    # D = (a sqrt(n p) +- b sqrt(p (n + b^2 - a^2))) / (n + b^2). The root with minus came in by
    # squaring.
    spare_items = items + chance**2 - level**2
    if spare_items < 0:
        return None
    first = level * math.sqrt(items * discordance)
    second = chance * math.sqrt(discordance * spare_items)
    difference = float(first + second) / float(items + chance**2)
    return difference if 0 < difference <= discordance else None


def compute_detectable_mean(
    deviation: float, items: float, power: float, alpha: float
) -> float:
    """Return the smallest mean of paired differences that a normal test can show, in the unit of
    their deviation.

    Args:
        deviation: Standard deviation of the paired differences.
        items: Number of independent pairs.
        power: Probability with which the test shows the difference.
        alpha: Level of the two-sided test.
    """
    # The z test: mean / (deviation / sqrt(n)) must exceed z(1 - alpha / 2) with the wanted
    # probability.
    return float(
        (norm.ppf(1 - alpha / 2) + norm.ppf(power)) * deviation / math.sqrt(items)
    )


def compute_detectable(
    metric: str,
    differences: np.ndarray,
    images: Sequence[str],
    items: int,
    power: float,
    alpha: float,
) -> float | None:
    """Return the smallest difference of two models in a metric, a share, that a paired test can
    show.

    Items of one image are not independent. They count as their number divided by the design effect
    of the differences.

    Args:
        metric: One of `SHARES`, or acc.
        differences: Difference of the two models' hits on each known item, float64 of shape (k,).
        images: Image of each of these items.
        items: Number of items that the test would have, with as many items for each image as the
            known ones.
        power: Probability with which the test shows the difference.
        alpha: Level of the two-sided test.
    Returns:
        The difference; None if no difference could be shown, or if there is a single item, which
        has no deviation. If all items have the same difference in acc, they are treated as the
        discordant items of McNemar's test.
    """
    # Items that share images are worth this number of independent items.
    independent = items / compute_design_effect(differences, images)
    # Share of the items on which exactly one model is right.
    discordance = float((differences != 0).mean())
    if compute_least_p(independent * discordance) > alpha:
        return None  # even a model that wins every item on which the two differ is not better by the exact test
    if metric in SHARES:
        return compute_detectable_accuracy(discordance, independent, power, alpha)
    if len(differences) < 2:
        return None
    deviation = float(differences.std(ddof=1))
    if not deviation:
        return compute_detectable_accuracy(discordance, independent, power, alpha)
    return compute_detectable_mean(deviation, independent, power, alpha)


def compute_power(effect: float, images: int, alpha: float) -> float:
    """Return the probability with which Student's t test over images shows a true difference.

    Args:
        effect: The true difference in units of its standard error.
        images: Number m of images; the test has m - 1 degrees of freedom.
        alpha: Level of the two-sided test. Holm's correction for k comparisons is at least as strict
            as the level alpha / k.
    """
    freedom = images - 1
    critical = student_t.ppf(1 - alpha / 2, freedom)
    above = nct.sf(critical, freedom, effect)
    below = nct.cdf(-critical, freedom, effect)
    return float(above + below)


def align_items(
    first: ScoredPairs, second: ScoredPairs
) -> tuple[ScoredPairs, ScoredPairs]:
    """Return the scores of both models on the items that both could score, sorted by id."""
    if first.items == second.items and first.has_sorted_items:
        return first, second
    common = sorted(set(first.items) & set(second.items))
    return _take_items(first, common), _take_items(second, common)


def _take_items(scored: ScoredPairs, items: Sequence[str]) -> ScoredPairs:
    """Return the scores of some items, given by id, in this order."""
    positions = {item: position for position, item in enumerate(scored.items)}
    return scored.take([positions[item] for item in items])
