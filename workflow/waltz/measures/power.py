"""Power of paired comparisons: the smallest difference between two models that a test on the same
items can show.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations

import numpy as np

from waltz.core.intervals import PERCENT, Resampling
from waltz.core.measure import Measure
from waltz.core.schema import MeasurementRecord
from waltz.evaluation.metrics.pair_metrics import ScoredPairs, compute_hits
from waltz.evaluation.metrics.power import (
    align_items,
    compute_design_effect,
    compute_detectable,
    compute_power,
)
from waltz.measures.rows import average, build_row
from waltz.valse_release import PUBLISHED_VALID_ITEMS

MEASUREMENT = "power"
METRICS = ("acc_r", "acc")
COMPARISONS = (1, 10, 100)
"""Numbers of comparisons that Holm's correction covers."""
TOO_FEW = "too few items: even a model that wins each item on which the two differ would not be found better"


@dataclass(frozen=True, slots=True)
class PowerSettings:
    """Settings of the measurement of power.

    Attributes:
        power: Probability that the test shows a difference.
        alpha: Level of the two-sided test.
        items: Further numbers of items for which the smallest difference is computed, at the
            observed discordance.
    """

    power: float
    alpha: float
    items: Sequence[int]


def measure_power(
    scores: Mapping[tuple[str, str], ScoredPairs],
    settings: PowerSettings,
    resampling: Resampling,
) -> list[MeasurementRecord]:
    """Return the smallest difference that a test can show between each pair of models on each data
    set.

    Args:
        scores: Scored items by model and data set; two models are compared on the items that both
            could score.
        settings: Power and level of the test, and numbers of items.
        resampling: Resampling of images, for the interval of the discordance.
    Returns:
        For acc_r the share of discordant items and the design effect of images; for acc_r and acc
        the observed and the smallest difference that can be shown, in percentage points, by the
        number of items: the scored items, the items of VALSE as released, and `items` of the
        settings; and the probability, in percent, with which the test shows the smallest difference
        on the scored items after Holm's correction, by the number of comparisons.
    """
    scores_of: dict[str, dict[str, ScoredPairs]] = {}
    for (model, dataset), scored in scores.items():
        scores_of.setdefault(dataset, {})[model] = scored

    rows: list[MeasurementRecord] = []
    for dataset, scored_models in scores_of.items():
        for first, second in combinations(scored_models, 2):
            aligned = align_items(scored_models[first], scored_models[second])
            # Models without a common item cannot be compared.
            if aligned[0].items:
                rows += _compare_models(
                    f"{first} / {second}", dataset, aligned, settings, resampling
                )
    return rows


def _compare_models(
    pair: str,
    dataset: str,
    aligned: Sequence[ScoredPairs],
    settings: PowerSettings,
    resampling: Resampling,
) -> list[MeasurementRecord]:
    """Return the rows of two models on one data set, from their scores of the same items."""
    images = aligned[0].images
    n_items = len(aligned[0].items)
    # Numbers of items for which the detectable difference is computed.
    counts = {n_items, *settings.items}
    if dataset in PUBLISHED_VALID_ITEMS:
        counts.add(PUBLISHED_VALID_ITEMS[dataset])

    build_pair_row = partial(build_row, MEASUREMENT, model=pair, dataset=dataset)
    rows: list[MeasurementRecord] = []
    for metric in METRICS:
        # Only models with a threshold or labels say of each text whether it matches, which acc asks
        # for.
        if metric == "acc" and any(scored.right is None for scored in aligned):
            continue
        first, second = (compute_hits(scored, metric) for scored in aligned)
        differences = first - second
        mean = Measure(100 * float(differences.mean()), n_items)
        rows.append(build_pair_row(f"{metric} difference", mean))
        if metric == "acc_r":
            # Only items that one model ranks rightly and the other one wrongly say which model is
            # better.
            is_discordant = (100.0 * (first != second)).tolist()
            label = f"{MEASUREMENT}:{dataset}"
            discordant = average(is_discordant, images, label, resampling, PERCENT)
            rows.append(build_pair_row("discordant", discordant))
            effect = Measure(compute_design_effect(differences, images), n_items)
            rows.append(build_pair_row("design effect", effect))
        for count in sorted(counts):
            detectable = _measure_detectable(
                metric, differences, images, count, settings
            )
            row = build_pair_row(
                f"{metric} detectable", detectable, "items", str(count)
            )
            rows.append(row)
        for comparisons in COMPARISONS:
            shown = _measure_power(metric, differences, images, comparisons, settings)
            row = build_pair_row(
                f"{metric} power", shown, "comparisons", str(comparisons)
            )
            rows.append(row)
    return rows


def _measure_detectable(
    metric: str,
    differences: np.ndarray,
    images: Sequence[str],
    items: int,
    settings: PowerSettings,
) -> Measure:
    value = compute_detectable(
        metric, differences, images, items, settings.power, settings.alpha
    )
    if value is None:
        return Measure(
            None,
            items,
            reason=TOO_FEW if metric == "acc_r" else "one item has no deviation",
        )
    return Measure(100 * value, items)


def _measure_power(
    metric: str,
    differences: np.ndarray,
    images: Sequence[str],
    comparisons: int,
    settings: PowerSettings,
) -> Measure:
    """Return the power of the test of today at the detectable difference, after Holm's correction."""
    items = len(differences)
    detectable = _measure_detectable(metric, differences, images, items, settings)
    if detectable.value is None:
        return detectable
    # The deviation of the differences if their mean were the detectable one.
    squares = float((differences**2).mean())
    deviation = math.sqrt(squares - (detectable.value / 100) ** 2)
    independent = items / compute_design_effect(differences, images)
    effect = detectable.value / 100 / deviation * math.sqrt(independent)
    power = compute_power(effect, len(set(images)), settings.alpha / comparisons)
    return Measure(100 * power, items)
