"""Is one model better than another on the same items? Paired tests, corrected for how many are made.

- McNemar's exact test for acc_r, p_c, p_f: of the items on which just one of the two is right, is each right on half?
  It takes items as independent; where many share an image, the interval of the difference is the one to trust.
- A paired bootstrap for acc, min(p_c, p_f) and AUROC: both models on the same resamples of images, the difference over
  its bootstrap standard error against the normal distribution. Counting resamples beyond zero instead could give no p
  below 2 / resamples, which no correction for many tests would let through.

Holm's correction is over all data sets and pairs of models of one profile, setting and metric. Models are compared on
the items that both could score.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np
from scipy import stats

from waltz.core.intervals import Resampling, compute_interval, resample
from waltz.evaluation.metrics.pair_metrics import METRICS, hits, sampled
from waltz.evaluation.metrics.predictions import NOT_APPLICABLE
from waltz.evaluation.metrics.scored_pairs import Pairs

MCNEMAR, BOOTSTRAP = "McNemar", "bootstrap"
TESTS = {metric: MCNEMAR if metric in ("acc_r", "p_c", "p_f") else BOOTSTRAP for metric in METRICS}
"""The test of each metric."""

Draws = dict[str, tuple[float, np.ndarray]]


@dataclass(frozen=True)
class Comparison:
    """Two models on one data set.

    Attributes:
        dataset: The data set.
        metric: One of `metrics.METRICS`.
        model_a: A model.
        model_b: Another one.
        test: `McNemar` or `bootstrap`.
        difference: a minus b, in percentage points; None with a reason.
        ci_low: Lower end of its interval.
        ci_high: Upper end.
        p: p-value of no difference.
        p_holm: The same after Holm's correction over the table.
        n: Items that both models could score.
        reason: Why there is no difference.
    """

    dataset: str
    metric: str
    model_a: str
    model_b: str
    test: str
    difference: float | None
    ci_low: float | None
    ci_high: float | None
    p: float | None
    p_holm: float | None
    n: int
    reason: str | None = None


def comparisons(
    scores: Mapping[tuple[str, str], Pairs], how: Resampling, metrics: Sequence[str] = METRICS
) -> list[dict[str, Any]]:
    """Every pair of models on every data set that both were run on, in each metric.

    Args:
        scores: Scored items of one profile, by model and data set, in order.
        how: How intervals are made.
        metrics: Which of `metrics.METRICS`.
    Returns:
        Rows of the fields of `Comparison`.
    """
    found = []
    for dataset in dict.fromkeys(dataset for _, dataset in scores):
        known: dict[tuple[str, tuple[str, ...]], Draws] = {}
        models = [model for model, of in scores if of == dataset]
        for pair in combinations(models, 2):
            common = set(scores[pair[0], dataset].items) & set(scores[pair[1], dataset].items)
            a, b = (_in_order(scores[model, dataset], common) for model in pair)
            for model, scored in zip(pair, (a, b), strict=True):
                if scored.items and (model, scored.items) not in known:
                    drawn = resample(scored.images, resamples=how.resamples, seed=how.seed, label=dataset)
                    known[model, scored.items] = sampled(scored, drawn)
            drawn_a, drawn_b = (known.get((model, a.items), {}) for model in pair)
            found += [_compared(dataset, metric, pair, (a, b), (drawn_a, drawn_b), how) for metric in metrics]
    return _corrected(found)


def mcnemar(right_a: np.ndarray, right_b: np.ndarray) -> float:
    """p-value of McNemar's exact test, 1 where the models differ nowhere.

    Args:
        right_a: Whether model a is right, bool or 0 and 1, of shape (items,).
        right_b: The same of model b.
    """
    only_a = int(np.sum((right_a > 0) & (right_b == 0)))
    only_b = int(np.sum((right_b > 0) & (right_a == 0)))
    return float(stats.binomtest(only_a, only_a + only_b).pvalue) if only_a + only_b else 1.0


def bootstrap_p(difference: float, draws: np.ndarray, clusters: int) -> float:
    """p-value of no difference, two-sided.

    Args:
        difference: The difference found.
        draws: Differences of the resamples.
        clusters: How many images were resampled. Where all of them say the same, so that no resample differs, p is that
            of a sign test over the images.
    """
    error = float(np.std(draws, ddof=1))
    if error > 0:
        return float(2 * stats.norm.sf(abs(difference) / error))
    return min(1.0, 2 * 0.5**clusters) if difference else 1.0


def holm(p: Sequence[float]) -> list[float]:
    """Holm's step-down correction of p-values, in the order given."""
    corrected = np.empty(len(p))
    order = np.argsort(p, kind="stable")
    steps = np.asarray(p, dtype=np.float64)[order] * np.arange(len(p), 0, -1)
    corrected[order] = np.minimum(1, np.maximum.accumulate(steps)) if len(p) else steps
    return [float(value) for value in corrected]


def _compared(
    dataset: str,
    metric: str,
    models: tuple[str, str],
    scored: tuple[Pairs, Pairs],
    drawn: tuple[Draws, Draws],
    how: Resampling,
) -> Comparison:
    n = len(scored[0].items)
    names = (dataset, metric, *models, TESTS[metric])
    if not n:
        return Comparison(*names, None, None, None, None, None, 0, "no item could be scored by both models")
    if any(metric not in draws for draws in drawn):
        lacking = [model for model, draws in zip(models, drawn, strict=True) if metric not in draws]
        return Comparison(*names, None, None, None, None, None, n, f"{NOT_APPLICABLE} ({', '.join(lacking)})")
    (value_a, draws_a), (value_b, draws_b) = (draws[metric] for draws in drawn)
    difference, images = draws_a - draws_b, len(set(scored[0].images))
    p = (
        mcnemar(hits(scored[0], metric), hits(scored[1], metric))
        if TESTS[metric] == MCNEMAR
        else bootstrap_p(value_a - value_b, difference, images)
    )
    ends = compute_interval(difference, how.confidence, images, (-100.0, 100.0))
    return Comparison(*names, value_a - value_b, *ends, p, None, n)


def _corrected(found: Sequence[Comparison]) -> list[dict[str, Any]]:
    """The rows, with Holm's correction of each metric's p-values."""
    corrected: dict[int, float] = {}
    for metric in METRICS:
        places = [place for place, row in enumerate(found) if row.metric == metric and row.p is not None]
        corrected |= dict(zip(places, holm([found[place].p or 0.0 for place in places]), strict=True))
    return [{**asdict(row), "p_holm": corrected.get(place)} for place, row in enumerate(found)]


def _in_order(scored: Pairs, items: set[str]) -> Pairs:
    """Some of the items, by id, so that two models' stand side by side."""
    places = [place for place, item in sorted(enumerate(scored.items), key=lambda entry: entry[1]) if item in items]
    return scored.take(places)
