"""Power of paired comparisons: the smallest difference between two models that a test on the same items can show."""

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from waltz.core.intervals import PERCENT, Measure, Resampling
from waltz.evaluation.metrics.pair_metrics import ScoredPairs, compute_hits
from waltz.evaluation.metrics.power import align_items, compute_design_effect, compute_detectable
from waltz.instruments import INSTRUMENTS
from waltz.measures.rows import Row, average, build_row

MEASUREMENT = "power"
METRICS = ("acc_r", "acc")
TOO_FEW = "too few items: even a model that wins each item on which the two differ would not be found better"


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
        how: Resampling of images, for the interval of the discordance.
    Returns:
        For acc_r the share of discordant items and the design effect of images; for acc_r and acc the observed and the
        smallest difference that can be shown, in percentage points, by the number of items: those at hand, those of
        VALSE as released, and `items`.
    """
    rows: list[Row] = []
    for dataset in dict.fromkeys(dataset for _, dataset in scores):
        models = [model for model, scored_dataset in scores if scored_dataset == dataset]
        for pair in combinations(models, 2):
            aligned = align_items(*(scores[model, dataset] for model in pair))
            common, images = aligned[0].items, aligned[0].images
            if not common:
                continue
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
                    is_discordant = (100.0 * (first != second)).tolist()
                    discordant = average(is_discordant, images, f"{MEASUREMENT}:{dataset}", how, PERCENT)
                    effect = Measure(compute_design_effect(first - second, images), len(common))
                    rows.append(build_row(MEASUREMENT, "discordant", discordant, **place))
                    rows.append(build_row(MEASUREMENT, "design effect", effect, **place))
                for count in counts:
                    detectable = _measure_detectable(metric, first - second, images, count, power, alpha)
                    rows.append(
                        build_row(
                            MEASUREMENT, f"{metric} detectable", detectable, factor="items", level=str(count), **place
                        )
                    )
    return rows


def _measure_detectable(
    metric: str, differences: np.ndarray, images: Sequence[str], items: int, power: float, alpha: float
) -> Measure:
    value = compute_detectable(metric, differences, images, items, power, alpha)
    if value is None:
        return Measure(None, items, reason=TOO_FEW if metric == "acc_r" else "one item has no deviation")
    return Measure(100 * value, items)
