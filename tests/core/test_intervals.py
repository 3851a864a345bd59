import numpy as np
import pytest
from scipy.stats import binomtest

from waltz.core.intervals import (
    NO_INTERVAL,
    PERCENT,
    Resampling,
    bootstrap_means,
    compute_interval,
    compute_interval_of_mean,
    compute_mean,
    count_images,
    resample,
)
from waltz.core.measure import Measure

DRAWS = {"resamples": 500, "seed": 3, "label": "x"}
RESAMPLING = Resampling(resamples=500, confidence=0.95, seed=3)
SHARE = (0.0, 1.0)


def test_a_single_cluster_has_no_interval():
    assert (
        compute_interval(
            bootstrap_means([1.0, 0.0, 1.0], ["a", "a", "a"], **DRAWS), 0.95, 1, SHARE
        )
        == NO_INTERVAL
    )
    low, high, _ = compute_interval(
        bootstrap_means([1.0, 0.0, 1.0], ["a", "b", "c"], **DRAWS), 0.95, 3, SHARE
    )
    assert (low, high) == (0.0, 1.0)


def test_an_interval_contains_its_share_of_the_draws():
    low, high, method = compute_interval(np.arange(101.0), 0.9, 101, None)
    assert (low, high) == pytest.approx((5.0, 95.0))
    assert method == "bootstrap"


@pytest.mark.parametrize(("right", "confidence"), [(0, 0.95), (7, 0.95), (7, 0.8)])
def test_clusters_that_agree_have_the_exact_interval_of_a_binomial(right, confidence):
    draws = bootstrap_means([float(right > 0)] * 7, list("abcdefg"), **DRAWS)
    exact = binomtest(right, 7).proportion_ci(confidence, method="exact")
    low, high, method = compute_interval(draws, confidence, 7, SHARE)
    assert (low, high) == pytest.approx((exact.low, exact.high))
    assert method == "clopper-pearson"


def test_clusters_that_agree_between_the_bounds_have_an_interval_on_both_sides():
    # The model calls both texts of all images a match: p_c is 100, p_f is 0, acc is their mean.
    agreeing = 100 * 0.025 ** (1 / 4)
    measure = compute_mean([50.0] * 4, list("abcd"), "x", RESAMPLING)
    assert (measure.ci_low, measure.ci_high) == pytest.approx(
        (agreeing / 2, 50 + (100 - agreeing) / 2)
    )
    assert measure.ci_method == "binomial-bound"


def test_draws_that_differ_by_rounding_count_as_equal():
    draws = np.array([70.0, 70.0 + 1e-12, 70.0])
    low, high, _ = compute_interval(draws, 0.95, 10, PERCENT)
    assert low < 69 < 71 < high


def test_numbers_without_bounds_that_agree_have_no_interval():
    assert compute_interval(np.full(10, 0.3), 0.95, 5, None) == NO_INTERVAL
    assert compute_interval(np.zeros(10), 0.95, 5, None) == NO_INTERVAL


def test_draws_stay_those_of_earlier_versions():
    draws = resample(list("abcdeba"), resamples=3, seed=1, label="x")
    assert draws.counts.tolist() == [[1, 1, 1, 1, 1], [0, 2, 1, 1, 1], [0, 0, 2, 2, 1]]
    assert draws.cluster.tolist() == [0, 1, 2, 3, 4, 1, 0]


def test_images_are_resampled_not_their_items():
    values = [1.0, 1.0, 0.0, 0.0]
    assert set(bootstrap_means(values, ["a", "a", "b", "b"], **DRAWS)) == {
        0.0,
        0.5,
        1.0,
    }
    assert len(set(bootstrap_means(values, ["a", "b", "c", "d"], **DRAWS))) == 5
    measure = compute_mean(values, ["a", "a", "b", "b"], "x", RESAMPLING)
    assert (measure.value, measure.n, measure.ci_low, measure.ci_high) == (
        0.5,
        4,
        0.0,
        1.0,
    )


def test_squares_of_half_widths_add_up_on_each_side_of_a_mean():
    parts = [Measure(10.0, 5, 7.0, 11.0), Measure(20.0, 5, 16.0, 20.0)]
    low, high, method = compute_interval_of_mean(parts)
    assert (low, high) == pytest.approx((15 - 5 / 2, 15 + 1 / 2))
    assert method == "zou-donner"
    assert (
        compute_interval_of_mean([Measure(10.0, 5, 7.0, 11.0, "bootstrap")])[2]
        == "bootstrap"
    )
    assert compute_interval_of_mean([*parts, Measure(1.0, 1)]) == NO_INTERVAL


def test_images_of_several_numbers_add_up_where_each_has_some():
    assert count_images([Measure(1.0, 5, images=3), Measure(2.0, 5, images=4)]) == 7
    assert count_images([Measure(1.0, 5, images=3), Measure(2.0, 5)]) is None


@pytest.mark.parametrize(("undefined", "has"), [(5, True), (6, False)])
def test_a_number_defined_in_few_resamples_has_no_interval(undefined, has):
    draws = np.where(np.arange(100) < undefined, np.nan, np.arange(100.0))
    low, high, _ = compute_interval(draws, 0.95, 9, None)
    assert (low is not None, high is not None) == (has, has)
    assert not has or undefined <= low < high
