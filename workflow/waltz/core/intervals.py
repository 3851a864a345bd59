"""Bootstrap resamples over images, and confidence intervals of measured numbers."""

import functools
import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from waltz.core.measure import Measure

Bounds = tuple[float, float]
"""Smallest and largest possible value of a number; the largest may be infinite."""
PERCENT: Bounds = (0.0, 100.0)
NON_NEGATIVE: Bounds = (0.0, math.inf)
EQUALITY_TOLERANCE = 1e-9
"""Draws whose range is at most this share of the distance between the bounds are equal up to
rounding.
"""


BOOTSTRAP, CLOPPER_PEARSON = "bootstrap", "clopper-pearson"
"""Methods: Student's t of the standard error of bootstrap draws; exact binomial interval of clusters
that all agree on a bound.
"""
BINOMIAL_BOUND = "binomial-bound"
"""Method of an interval if all clusters agree on one value between the bounds."""
ZOU_DONNER = "zou-donner"
"""Method of an interval of a mean of independent numbers."""
WILSON = "wilson"
"""Method of an interval of a share by Wilson's score."""
MAX_COUNTS = 2_000_000
"""Largest number of counts of resamples that are in memory as float64 at once (16 MB)."""
Interval = tuple[float | None, float | None, str | None]
"""Lower end, upper end and method of an interval; None, None, None for no interval."""
NO_INTERVAL: Interval = (None, None, None)


@dataclass(frozen=True)
class Resampling:
    """Settings of bootstrap intervals.

    Attributes:
        resamples: Number of resamples.
        confidence: Coverage of the intervals, a share from 0 to 1.
        seed: Seed of the draws.
    """

    resamples: int
    confidence: float
    seed: int


@dataclass(frozen=True, eq=False)
class Resamples:
    """Resamples of a data set that draw whole clusters with replacement.

    Attributes:
        cluster: Index of each item's cluster, int64 of shape (items,).
        counts: Number of times that each resample drew each cluster, uint8 of shape (resamples,
            clusters); sums of it overflow, so that all uses go through the methods.
    """

    cluster: np.ndarray
    counts: np.ndarray

    @property
    def clusters(self) -> int:
        """Number of clusters."""
        return int(self.counts.shape[1])

    def iterate_item_counts(self) -> Iterator[np.ndarray]:
        """Yield, block by block, how often each resample drew each item with its cluster: float64
        of shape (block, items).
        """
        for counts in _split_into_blocks(self.counts, len(self.cluster)):
            yield counts.astype(np.float64)[:, self.cluster]

    def count_items(self) -> np.ndarray:
        """Return how often each resample drew each item, float64 of shape (resamples, items)."""
        counts: np.ndarray = self.counts.astype(np.float64)[:, self.cluster]
        return counts

    def compute_means(
        self, values: Sequence[float] | np.ndarray, mask: np.ndarray | None = None
    ) -> np.ndarray:
        """Return the mean of each resample.

        Args:
            values: One number per item.
            mask: Bool of shape (items,): the items that the mean is taken over; None for all.
        Returns:
            float64 of shape (resamples,), in the unit of `values`; NaN if a resample contains none
            of the items, or if there is only one cluster.
        """
        if self.clusters == 1:
            return np.full(len(self.counts), np.nan)  # one cluster has no variance
        index = self.cluster
        numbers = np.asarray(values, dtype=np.float64)
        if mask is not None:
            index = index[mask]
            numbers = numbers[mask]

        # Sum and number of the items of each cluster, both of shape (clusters,).
        sums = np.bincount(index, weights=numbers, minlength=self.clusters)
        sizes = np.bincount(index, minlength=self.clusters).astype(np.float64)
        # (block, clusters) @ (clusters,): a cluster that is drawn twice counts its items twice.
        means = []
        for block in _split_into_blocks(self.counts, self.clusters):
            counts = block.astype(np.float64)
            with np.errstate(invalid="ignore"):
                means.append((counts @ sums) / (counts @ sizes))
        return np.concatenate(means)


def _split_into_blocks(counts: np.ndarray, columns: int) -> Iterator[np.ndarray]:
    """Yield the rows in blocks of at most `MAX_COUNTS` numbers if each row has some columns."""
    size = max(1, MAX_COUNTS // columns)
    for first in range(0, len(counts), size):
        yield counts[first : first + size]


def resample(
    clusters: Sequence[str] | np.ndarray, *, resamples: int, seed: int, label: str
) -> Resamples:
    """Draw bootstrap resamples of a data set: each resample draws as many clusters as there are,
    with replacement.

    Items that share an image are not independent, so images are drawn, not items. The same
    clusters, seed and label give the same draws, so that numbers measured on them are paired.

    Args:
        clusters: The image of each item, a name or a number.
        resamples: Number of resamples.
        seed: Seed of the draws.
        label: Name of the resampled data; different labels give independent draws.
    """
    # index: (items,), the cluster of each item as a number from 0.
    names, index = np.unique(np.asarray(clusters), return_inverse=True)
    return Resamples(index, _draw_counts(len(names), resamples, seed, label))


# Pairs of models are compared on the same clusters one after the other.
@functools.lru_cache(maxsize=1)
def _draw_counts(n_clusters: int, resamples: int, seed: int, label: str) -> np.ndarray:
    """Return how often each cluster is drawn, uint8 of shape (resamples, clusters)."""
    # 64 bits of a hash: the same draws on every machine, and others for another label.
    entropy = int.from_bytes(
        hashlib.sha256(f"{seed}:{label}".encode()).digest()[:8], "big"
    )
    generator = np.random.Generator(np.random.PCG64(entropy))
    shares = np.full(n_clusters, 1 / n_clusters)
    # One byte a count: a cluster is drawn more than 255 times with a probability below 1e-500.
    counts = np.empty((resamples, n_clusters), dtype=np.uint8)
    for block in _split_into_blocks(counts, n_clusters):
        # Drawing n of n clusters with replacement is one multinomial draw of how often each
        # cluster comes.
        block[:] = generator.multinomial(n_clusters, shares, size=len(block))
    counts.flags.writeable = False  # shared by all calls
    return counts


def bootstrap_means(
    values: Sequence[float],
    clusters: Sequence[str],
    *,
    resamples: int,
    seed: int,
    label: str,
) -> np.ndarray:
    """Return the mean over items in each resample; other arguments as of `resample`.

    Args:
        values: One number per item.
        clusters: The image of each item.

    Returns:
        float64 of shape (resamples,), in the unit of `values`.
    """
    if not values or len(values) != len(clusters):
        raise ValueError(
            f"cannot resample {len(values)} values in {len(clusters)} clusters"
        )
    return resample(
        clusters, resamples=resamples, seed=seed, label=label
    ).compute_means(values)


def compute_mean(
    values: Sequence[float],
    clusters: Sequence[str],
    label: str,
    resampling: Resampling,
    bounds: Bounds | None = PERCENT,
    common_error: float = 0.0,
) -> Measure:
    """Return the mean of one number per item with its interval; other arguments as of `resample`
    and `compute_interval`.

    Args:
        common_error: Standard error that all items have in common, which resamples do not show; its
            square is added to that of the bootstrap.
    """
    draws = bootstrap_means(
        values,
        clusters,
        resamples=resampling.resamples,
        seed=resampling.seed,
        label=label,
    )
    if common_error:
        draws = add_common_error(draws, common_error, len(set(clusters)))
    return build_measure(
        float(np.mean(values)),
        len(values),
        draws,
        resampling,
        len(set(clusters)),
        bounds,
    )


def bound_common_error(
    errors: np.ndarray, groups: np.ndarray, weights: np.ndarray | None = None
) -> float:
    """Return an upper bound of the standard error of a mean over items that the permutations of one
    seed leave, in the unit of the errors.

    Items with as many players have the same permutations, and their errors are at most fully
    correlated, of either sign. Other permutations are independent. A difference of means has the
    bound of their sum.

    Args:
        errors: Standard error of each item, float64 of shape (items,), at least one; NaN counts as
            exact.
        groups: A number or name that items with the same permutations share, of shape (items,).
        weights: Weight of each item in the mean, or its magnitude in a difference of means, float64
            of shape (items,); None for equal weights.
    """
    if weights is None:
        weights = np.full(len(errors), 1 / len(errors))
    _, index = np.unique(groups, return_inverse=True)
    # Within a group standard errors add up, and between groups their squares.
    sums = np.bincount(index, weights=weights * np.nan_to_num(errors))
    return float(np.sqrt((sums**2).sum()))


def add_common_error(
    draws: np.ndarray, common_error: float, clusters: int
) -> np.ndarray:
    """Return draws with a deviation that gives the bootstrap's standard error together with a
    common one; equal draws stay as they are.
    """
    finite = draws[np.isfinite(draws)]
    error = _compute_error(finite, clusters) if clusters > 1 and finite.size else 0.0
    if not error:
        return draws
    center = finite.mean()
    widened: np.ndarray = center + (draws - center) * math.hypot(
        1, common_error / error
    )
    return widened


def _compute_error(draws: np.ndarray, clusters: int) -> float:
    """Return the standard error of a number from its draws, all of them finite."""
    # Draws of m clusters out of m have the variance of a mean times (m - 1) / m.
    return float(np.std(draws, ddof=1)) * math.sqrt(clusters / (clusters - 1))


def build_measure(
    value: float,
    n: int,
    draws: np.ndarray,
    resampling: Resampling,
    clusters: int,
    bounds: Bounds | None,
) -> Measure:
    """Return a measure with its interval; other arguments as of `compute_interval`."""
    ends = compute_interval(value, draws, resampling.confidence, clusters, bounds)
    return Measure(value, n, *ends, images=clusters)


def compute_interval(
    value: float,
    draws: np.ndarray,
    confidence: float,
    clusters: int,
    bounds: Bounds | None,
) -> Interval:
    """Return the interval of a number by its bootstrap standard error, and the name of its method.

    The interval is Student's t with clusters - 1 degrees of freedom. A bounded number has it on the
    logit of its place between the bounds, and one with a lower bound alone on the logarithm, where
    it cannot leave them and is longer on the side of the farther bound, as the distributions of such
    numbers are.

    Resamples without a number are ignored. If more than `1 - confidence` of them have none, there
    is no interval: the remaining resamples are then a selection that happens to contain the few
    items for which the number is defined.

    If all clusters have the same value, all resamples have it too, but the value is not certain. By
    the exact binomial, the share of such clusters is then at least `((1 - confidence) / 2) ** (1 /
    clusters)`; all other clusters may lie at either bound. For a share of 0 or 100 percent this is
    the interval of Clopper and Pearson.

    Args:
        value: The number.
        draws: float64 of shape (resamples,), NaN for a resample without a number.
        confidence: Coverage, a share.
        clusters: Number of clusters that were drawn from.
        bounds: Bounds of the number in its unit; None if it has none. There is no interval without
            an upper bound if all clusters agree.
    Source:
        Clopper & Pearson (Biometrika 26, 1934); Cameron & Miller (Journal of Human Resources 50,
        2015, section VI) on t for few clusters.
    """
    # finite: (finite resamples,).
    finite = draws[np.isfinite(draws)]
    if clusters < 2 or not finite.size or finite.size < confidence * draws.size:
        return NO_INTERVAL
    scale = float(np.abs(finite).max())
    if bounds is not None and math.isfinite(bounds[1]):
        scale = bounds[1] - bounds[0]
    if np.ptp(finite) > EQUALITY_TOLERANCE * scale:
        quantile = scipy.stats.t.ppf((1 + confidence) / 2, clusters - 1)
        number = scale_number(value, finite, clusters, bounds)
        low = number.unscale(number.value - quantile * number.error)
        high = number.unscale(number.value + quantile * number.error)
        return low, high, BOOTSTRAP

    # All clusters agree on one value, so the draws say nothing about other values.
    if bounds is None or math.isinf(bounds[1]):
        return NO_INTERVAL
    lowest, highest = bounds
    agreed = float(finite[0])
    # Least share p of agreeing clusters that would still let all of them agree with probability
    # (1 - confidence) / 2: p ** clusters is this probability.
    agreeing = ((1 - confidence) / 2) ** (1 / clusters)
    is_at_bound = bool(
        np.isclose(
            bounds, agreed, rtol=0, atol=EQUALITY_TOLERANCE * (highest - lowest)
        ).any()
    )
    method = CLOPPER_PEARSON if is_at_bound else BINOMIAL_BOUND
    # The rest of the clusters, a share of 1 - p, may lie at either bound.
    return (
        agreeing * agreed + (1 - agreeing) * lowest,
        agreeing * agreed + (1 - agreeing) * highest,
        method,
    )


@dataclass(frozen=True)
class ScaledNumber:
    """Hold a number on the scale on which its error is symmetric.

    Attributes:
        value: The number on that scale: the logit of its place between its bounds, the logarithm of
            its distance to a lower bound alone, or the number itself if it has no bounds or lies at
            one.
        error: Its standard error on that scale.
        bounds: Bounds of the number in its own unit; None for the number itself.
    """

    value: float
    error: float
    bounds: Bounds | None

    def unscale(self, value: float) -> float:
        """Return a value of the scale in the unit of the number."""
        if self.bounds is None:
            return value
        lowest, highest = self.bounds
        if math.isinf(highest):
            return lowest + math.exp(value)
        return lowest + (highest - lowest) * float(scipy.special.expit(value))


def scale_number(
    value: float, draws: np.ndarray, clusters: int, bounds: Bounds | None
) -> ScaledNumber:
    """Return a number and its standard error on the scale of `ScaledNumber`.

    Args:
        value: The number.
        draws: The number in each resample, all of them finite.
        clusters: Number of clusters that were drawn from, at least 2.
        bounds: Bounds of the number in its unit; None if it has none.
    """
    error = _compute_error(draws, clusters)
    if bounds is None or not bounds[0] < value < bounds[1]:
        return ScaledNumber(value, error, None)
    lowest, highest = bounds
    if math.isinf(highest):
        # By the delta method: the derivative of the logarithm is the inverse.
        distance = value - lowest
        return ScaledNumber(math.log(distance), error / distance, bounds)
    share = (value - lowest) / (highest - lowest)
    # The derivative of the logit at p is 1 / (p (1 - p)).
    slope = 1 / ((highest - lowest) * share * (1 - share))
    return ScaledNumber(float(scipy.special.logit(share)), slope * error, bounds)


def compute_difference_p(
    difference: float, draws: np.ndarray, clusters: int, bounds: Bounds
) -> float:
    """Return the two-sided p value of the hypothesis that two sides do not differ.

    It is below 1 - confidence if and only if the interval of `compute_interval` leaves out 0.

    Args:
        difference: Difference of the two sides.
        draws: Difference in each resample, (resamples,).
        clusters: Number of clusters that were drawn from. If the draws do not vary, p is that of a
            sign test over the clusters.
        bounds: Smallest and largest difference, which are as far from 0.
    """
    finite = draws[np.isfinite(draws)]
    if not difference:
        return 1.0
    if clusters < 2 or not np.ptp(finite) > EQUALITY_TOLERANCE * (
        bounds[1] - bounds[0]
    ):
        return compute_least_p(clusters)
    number = scale_number(difference, finite, clusters, bounds)
    # A difference of 0 lies in the middle of the bounds, where the logit is 0.
    statistic = abs(number.value) / number.error
    return float(2 * scipy.stats.t.sf(statistic, clusters - 1))


def compute_least_p(independent: float) -> float:
    """Return the smallest p-value of a two-sided sign test, which it has if all items (or images)
    agree.

    Args:
        independent: Number of independent items or images.
    """
    return float(min(1.0, 2 * 0.5**independent))


def count_images(parts: Sequence[Measure]) -> int | None:
    """Return the sum of the numbers of images of several measures; None if a measure has no number
    of images.
    """
    total = 0
    for part in parts:
        if part.images is None:
            return None
        total += part.images
    return total


def compute_interval_of_mean(parts: Sequence[Measure]) -> Interval:
    """Return the interval of the unweighted mean of independent numbers, from the intervals of the
    numbers.

    The squares of the distances from each value to its lower end add up, and likewise to its upper
    end.

    Args:
        parts: At least one number; there is no interval if a number has no value or interval.
    Source:
        Zou & Donner (Statistics in Medicine 27, 2008), on confidence limits of sums.
    """
    # Distances from each value to the ends of its interval.
    values: list[float] = []
    widths_below: list[float] = []
    widths_above: list[float] = []
    for part in parts:
        if part.value is None or part.ci_low is None or part.ci_high is None:
            return NO_INTERVAL
        values.append(part.value)
        widths_below.append(part.value - part.ci_low)
        widths_above.append(part.ci_high - part.value)

    # Variances of independent numbers add up, and each half width stands for a standard deviation.
    # The mean divides the sum, and its half widths, by the number of parts.
    n = len(parts)
    mean = math.fsum(values) / n
    below = math.hypot(*widths_below) / n
    above = math.hypot(*widths_above) / n
    method = ZOU_DONNER if n > 1 else parts[0].ci_method
    return mean - below, mean + above, method
