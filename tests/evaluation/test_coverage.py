"""Coverage of the intervals that `waltz eval` prints, on simulated models whose accuracy is known.

Items that share an image, and the answers of two models to one item, are correlated.
"""

import numpy as np
import pytest
from scipy.stats import norm

from waltz.core.intervals import Resampling, compute_mean
from waltz.core.schema import ComparisonRecord
from waltz.evaluation.metrics.comparisons import compare_models
from waltz.evaluation.metrics.pair_metrics import ScoredPairs
from waltz.evaluation.metrics.paired_differences import (
    ClusteredNumber,
    compare_item_numbers,
)

REPETITIONS = 400
IMAGES, MOST_ITEMS = 100, 4
IMAGE_SD, ITEM_SD = 0.8, 0.5
"""Deviations of how easy an image is, and an item of it, for both models alike."""
STRENGTHS = {"a": 0.9, "b": 0.5}
"""How strong each model is, in units of the noise of its scores."""


def compute_accuracy(model):
    """True accuracy in percent: the probability that strength, image, item and noise are positive."""
    return 100 * norm.cdf(STRENGTHS[model] / np.hypot(1, np.hypot(IMAGE_SD, ITEM_SD)))


def simulate(seed, label=""):
    """Scores of both models on the items of one data set; an image has one to four items."""
    rng = np.random.default_rng([seed, *label.encode()])
    sizes = np.random.default_rng(seed).integers(1, MOST_ITEMS + 1, IMAGES)
    # Images are as easy in every data set that shares them.
    easy = np.random.default_rng([seed, 1]).normal(0, IMAGE_SD, IMAGES)
    image = np.repeat(np.arange(IMAGES), sizes)
    shared = easy[image] + rng.normal(0, ITEM_SD, len(image))
    items = tuple(f"i{place:03}" for place in range(len(image)))
    images = tuple(f"m{place}" for place in image)
    scores = {}
    for model, strength in STRENGTHS.items():
        score = strength + shared + rng.normal(0, 1, len(image))
        scores[model] = ScoredPairs(items, images, score, np.zeros(len(image)), None)
    return scores


def measure_accuracy(seed):
    scored = simulate(seed)["a"]
    hits = 100.0 * (scored.caption > 0)
    measure = compute_mean(hits.tolist(), scored.images, "d", resample(seed))
    return measure.ci_low, measure.ci_high


def measure_difference(seed):
    scores = {(model, "d"): scored for model, scored in simulate(seed).items()}
    (record,) = compare_models(
        scores, "equations", "single", resample(seed), ("acc_r",)
    )
    return record.ci_low, record.ci_high


def measure_pooled_difference(seed):
    numbers = {}
    for dataset in ("d", "e"):
        for model, scored in simulate(seed, dataset).items():
            hits = (100.0 * (scored.caption > 0)).tolist()
            clustered = map(ClusteredNumber, scored.images, hits)
            numbers[model, dataset] = dict(zip(scored.items, clustered, strict=True))
    names = ComparisonRecord(
        **{"profile": "equations", "dataset": "", "setting": "", "metric": "acc_r"},
        **{"model_a": "a", "model_b": "b", "n": 0},
    )
    record = compare_item_numbers(names, ["d", "e"], numbers, resample(seed))
    return record.ci_low, record.ci_high


def resample(seed):
    return Resampling(200, 0.95, seed)


@pytest.mark.parametrize(
    ("measure", "true_value"),
    [
        (measure_accuracy, compute_accuracy("a")),
        (measure_difference, compute_accuracy("a") - compute_accuracy("b")),
        (measure_pooled_difference, compute_accuracy("a") - compute_accuracy("b")),
    ],
)
def test_intervals_hold_the_true_value_as_often_as_they_say(measure, true_value):
    covered = 0
    for seed in range(REPETITIONS):
        low, high = measure(seed)
        covered += low <= true_value <= high
    assert 0.93 <= covered / REPETITIONS <= 0.97
