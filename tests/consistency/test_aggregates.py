"""Shares, correlations, rescaled averages and deviations, by hand and on the tables of the paper."""

import csv
import math

import numpy as np
import pytest

from waltz.consistency.aggregates import (
    ItemNumber,
    compute_correlation,
    compute_mean_over_seeds,
    compute_seed_spread,
)
from waltz.consistency.metrics import compute_rescaled_average
from waltz.core.files.resources import RESOURCES
from waltz.core.intervals import Resampling
from waltz.core.measure import Measure

PUBLISHED = RESOURCES / "published"


def test_a_point_biserial_correlation_by_hand():
    # means 0.5 (verdict 1) and 0.1 (verdict 0), population deviation of 0.2 0.8 0 0.2 is
    # sqrt(0.09), p = q = 1/2
    correlation = compute_correlation(
        np.array([1, 1, 0, 0]), np.array([0.2, 0.8, 0.0, 0.2])
    )
    assert correlation.n == 4
    assert correlation.value == pytest.approx((0.5 - 0.1) / math.sqrt(0.09) * 0.5)


@pytest.mark.parametrize(
    ("verdicts", "scores", "n", "reason"),
    [
        (
            [1, 1],
            [0.1, 0.2],
            2,
            "the test is constant: all 2 verdicts are 1",
        ),
        ([1, 0], [0.1 + 0.2, 0.3], 2, "CC-SHAP is constant"),
        ([1], [0.1], 1, "1 items have both"),
        ([], [], 0, "0 items have both"),
    ],
)
def test_an_undefined_correlation_says_why(verdicts, scores, n: int, reason: str):
    correlation = compute_correlation(np.array(verdicts), np.array(scores))
    assert (correlation.value, correlation.n) == (None, n)
    assert correlation.reason is not None
    assert reason in correlation.reason


PAPER_VALUES = {
    "llama2-7b": 43.9,
    "llama2-7b-chat": 45.9,
    "llama2-13b-chat": 46.9,
    "mistral-7b-chat": 47.4,
    "gpt2": 48.1,
    "falcon-7b": 36.3,
}
"""What averaging thesis Tables 5.2 and C.2 as C.1 describes gives (reference tables, known
inconsistency 17).
"""


def test_rescaled_averages_match_the_paper_tables():
    for model, expected in PAPER_VALUES.items():
        cells = {}
        for table in ("thesis-5.2", "thesis-C.2"):
            for row in csv.DictReader(
                (PUBLISHED / f"{table}.csv").open(encoding="utf-8")
            ):
                if row["model"] == model and not row["metric"].startswith("accuracy"):
                    cells[row["dataset"], row["metric"]] = Measure(
                        float(row["value"]), 100
                    )
        average = compute_rescaled_average(cells, ["cc_shap_posthoc", "cc_shap_cot"])
        assert average.n == len(cells) == 41
        assert average.value == pytest.approx(expected, abs=0.06)


def test_an_average_with_a_cell_missing_names_it():
    cells = {
        ("comve", "paraphrasing"): Measure(None, 0, reason="x"),
        ("comve", "cc"): Measure(0.5, 1),
    }
    assert (
        compute_rescaled_average(cells, ["cc"]).reason
        == "no value for paraphrasing on comve"
    )
    assert (
        compute_rescaled_average({("comve", "cc"): Measure(0.5, 1)}, ["cc"]).value
        == 75.0
    )
    assert compute_rescaled_average({}, []).value is None


def test_the_deviation_over_seeds_is_that_of_a_sample():
    spread = compute_seed_spread({2: 3.0, 0: 1.0, 1: 2.0})
    assert (spread.mean.value, spread.deviation.value, spread.deviation.n) == (
        2.0,
        1.0,
        3,
    )
    assert compute_seed_spread({0: 1.0}).mean.value == 1.0
    assert (
        compute_seed_spread({0: 1.0}).deviation.reason
        == "one run; a standard deviation needs two"
    )
    assert (
        compute_seed_spread({0: 1.0, 1: None}).mean.reason
        == "1 of 2 seeds have no value"
    )


def count_coverage(seeds, stated_error):
    """Return how many of 100 intervals hold the mean 0.2 of numbers with the noise of common seeds."""
    random = np.random.default_rng(4)
    resampling = Resampling(resamples=200, confidence=0.95, seed=1)
    covered = 0
    for _ in range(100):
        means = random.normal(0.2, 0.05, size=12)
        numbers = []
        for seed in range(seeds):
            # Items of either number of players have the same permutations, hence the same noise.
            noise = random.normal(0, 0.04, size=2)
            numbers += [
                ItemNumber(
                    str(item),
                    str(item),
                    seed,
                    mean + noise[item % 2],
                    None,
                    stated_error,
                    item % 2,
                )
                for item, mean in enumerate(means)
            ]
        average, _ = compute_mean_over_seeds(numbers, "d", resampling, (-1.0, 1.0))
        measure = average.measure
        covered += measure.ci_low <= 0.2 <= measure.ci_high
    return covered


@pytest.mark.parametrize("seeds", [1, 3])
def test_intervals_hold_the_noise_of_a_common_seed(seeds):
    # 95 of 100, with a standard deviation of 2.
    assert count_coverage(seeds, stated_error=0.04) >= 90
    assert count_coverage(seeds, stated_error=0.0) < 88
