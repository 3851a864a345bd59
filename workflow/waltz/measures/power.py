"""Power of paired comparisons: the smallest difference between two models that a test on the same items can show."""

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
from scipy.stats import norm

from waltz.core.intervals import Measure, Resampling
from waltz.evaluation.metrics.pair_metrics import ScoredPairs, compute_hits
from waltz.instruments import INSTRUMENTS
from waltz.measures.calibration import measure_share
from waltz.measures.rows import Row, build_row

MEASUREMENT = "power"
METRICS = ("acc_r", "acc")
TOO_FEW = "too few items: even a model that wins each item on which the two differ would not be found better"


def compute_detectable_accuracy(discordance: float, items: int, power: float, alpha: float) -> float | None:
    """Return the smallest difference of two accuracies that McNemar's test shows, a share.

    The difference D solves sqrt(n) D = z(1 - alpha / 2) sqrt(p) + z(power) sqrt(p - D^2), with p the share of items on
    which exactly one model is right.

    Args:
        discordance: This share, between 0 and 1.
        items: Number of items n.
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


def compute_detectable_mean(deviation: float, items: int, power: float, alpha: float) -> float:
    """Return the smallest mean of paired differences that a normal test shows, in the unit of their deviation.

    Args:
        deviation: Standard deviation of the paired differences.
        items: Number of pairs.
        power: Probability that the test shows it.
        alpha: Level of the two-sided test.
    """
    return float((norm.ppf(1 - alpha / 2) + norm.ppf(power)) * deviation / math.sqrt(items))


def measure_power(
    scores: Mapping[tuple[str, str], ScoredPairs],
    power: float,
    alpha: float,
    items: Sequence[int],
    how: Resampling,
) -> list[Row]:
    """Measure which differences can be shown between each two models on each data set.

    Args:
        scores: Scored items by model and data set; two models are compared on the items that both could score.
        power: Probability that a difference is shown.
        alpha: Level of the two-sided test.
        items: Further numbers of items, with the discordance that was observed.
        how: Coverage of the interval of the discordance.
    Returns:
        For acc_r the share of discordant items; for acc_r and acc the observed and the smallest difference that can be
        shown, in percentage points, by the number of items: those at hand, those of VALSE as released, and `items`.
    """
    rows: list[Row] = []
    for dataset in dict.fromkeys(dataset for _, dataset in scores):
        models = [model for model, scored_dataset in scores if scored_dataset == dataset]
        for pair in combinations(models, 2):
            both = [scores[model, dataset] for model in pair]
            common = sorted(set(both[0].items) & set(both[1].items))
            if not common:
                continue
            aligned = [own.take([own.items.index(item) for item in common]) for own in both]
            released = INSTRUMENTS[dataset].released_items if dataset in INSTRUMENTS else 0
            counts = sorted({len(common), *items, *([released] if released else [])})
            place = {"model": " / ".join(pair), "dataset": dataset}
            for metric in METRICS:
                if metric == "acc" and any(own.right is None for own in aligned):
                    continue
                first, second = (compute_hits(own, metric) for own in aligned)
                difference = Measure(100 * float((first - second).mean()), len(common))
                rows.append(build_row(MEASUREMENT, f"{metric} difference", difference, **place))
                if metric == "acc_r":
                    discordant = measure_share((first != second).tolist(), how.confidence)
                    rows.append(build_row(MEASUREMENT, "discordant", discordant, **place))
                for count in counts:
                    detectable = _measure_detectable(metric, first - second, count, power, alpha)
                    rows.append(
                        build_row(
                            MEASUREMENT, f"{metric} detectable", detectable, factor="items", level=str(count), **place
                        )
                    )
    return rows


def _measure_detectable(metric: str, differences: np.ndarray, items: int, power: float, alpha: float) -> Measure:
    if metric == "acc_r":
        value = compute_detectable_accuracy(float((differences != 0).mean()), items, power, alpha)
        return Measure(None, items, reason=TOO_FEW) if value is None else Measure(100 * value, items)
    if len(differences) < 2:
        return Measure(None, items, reason="one item has no deviation")
    return Measure(100 * compute_detectable_mean(float(differences.std(ddof=1)), items, power, alpha), items)
