import hashlib
import math

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from waltz.core import intervals
from waltz.core.intervals import (
    NO_INTERVAL,
    PERCENT,
    Resampling,
    bootstrap_means,
    compute_difference_p,
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
    measure = compute_mean([1.0, 0.0, 1.0], ["a", "a", "a"], "x", RESAMPLING, SHARE)
    assert (measure.ci_low, measure.ci_high) == (None, None)


def test_an_interval_is_students_t_of_the_bootstrap_error():
    # Half of the draws at 2, half at 4: a deviation of 1, times sqrt(5 / 4) for five clusters; t of four
    # degrees of freedom leaves 2.5 % above 2.7764.
    draws = np.tile([2.0, 4.0], 5000)
    half = 2.7764 * math.sqrt(5 / 4)
    low, high, method = compute_interval(3.0, draws, 0.95, 5, None)
    assert (low, high) == pytest.approx((3 - half, 3 + half), abs=1e-3)
    assert method == "bootstrap"


def test_a_bounded_number_has_its_interval_on_the_logit():
    # 90 of 0 to 100: the logit is ln 9, its slope 1 / (100 * 0.9 * 0.1) = 1 / 9.
    draws = np.tile([87.0, 93.0], 5000)
    half = 2.77645 * 3 * math.sqrt(5 / 4) / 9
    odds = [9 * math.exp(-half), 9 * math.exp(half)]
    low, high, _ = compute_interval(90.0, draws, 0.95, 5, PERCENT)
    assert [low, high] == pytest.approx([100 * o / (1 + o) for o in odds], abs=0.01)


@given(
    st.lists(st.floats(-50, 50), min_size=2, max_size=12),
    st.sampled_from([0.8, 0.95, 0.99]),
)
def test_p_is_small_exactly_where_the_interval_leaves_out_0(values, confidence):
    clusters = [str(place) for place in range(len(values))]
    draws = bootstrap_means(values, clusters, **DRAWS)
    mean, bounds = float(np.mean(values)), (-100.0, 100.0)
    low, high, method = compute_interval(mean, draws, confidence, len(values), bounds)
    p = compute_difference_p(mean, draws, len(values), bounds)
    assert 0 <= p <= 1
    if method == "bootstrap" and abs(p - (1 - confidence)) > 1e-9:
        assert (low > 0 or high < 0) == (p < 1 - confidence)


@pytest.mark.parametrize("shape", [(12, 12), (0.5, 4), (8, 0.4)])
def test_intervals_of_eight_images_hold_the_mean(shape):
    rng = np.random.default_rng(1)
    held = []
    for _ in range(400):
        # Ten items an image whose ranks have a correlation of .3.
        image = rng.normal(0, math.sqrt(0.3), (8, 1))
        ranks = scipy.stats.norm.cdf(image + rng.normal(0, math.sqrt(0.7), (8, 10)))
        values = 100 * scipy.stats.beta.ppf(ranks, *shape)
        images = np.arange(8).repeat(10).astype(str).tolist()
        mean = compute_mean(values.ravel().tolist(), images, "x", RESAMPLING)
        held.append(mean.ci_low <= 100 * shape[0] / sum(shape) <= mean.ci_high)
    # Percentiles of draws hold 84 to 88 %. The standard error of the share is 1.1 %.
    assert 0.915 < np.mean(held) < 0.985


def test_p_without_spread_is_that_of_a_sign_test():
    bounds = (-100.0, 100.0)
    assert compute_difference_p(0.0, np.zeros(50), 7, bounds) == 1
    assert compute_difference_p(100.0, np.full(50, np.nan), 1, bounds) == 1
    assert compute_difference_p(100.0, np.full(50, 100.0), 5, bounds) == 0.0625


@pytest.mark.parametrize(("right", "confidence"), [(0, 0.95), (7, 0.95), (7, 0.8)])
def test_clusters_that_agree_have_the_exact_interval_of_a_binomial(right, confidence):
    draws = bootstrap_means([float(right > 0)] * 7, list("abcdefg"), **DRAWS)
    exact = binomtest(right, 7).proportion_ci(confidence, method="exact")
    low, high, method = compute_interval(draws.mean(), draws, confidence, 7, SHARE)
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
    low, high, _ = compute_interval(70.0, draws, 0.95, 10, PERCENT)
    assert low < 69 < 71 < high


def test_numbers_without_bounds_that_agree_have_no_interval():
    assert compute_interval(0.3, np.full(10, 0.3), 0.95, 5, None) == NO_INTERVAL
    assert compute_interval(0.0, np.zeros(10), 0.95, 5, None) == NO_INTERVAL


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
    measure = compute_mean(values, ["a", "a", "b", "b"], "x", RESAMPLING, SHARE)
    assert (measure.value, measure.n) == (0.5, 4)
    # One degree of freedom leaves all values open.
    assert (measure.ci_low, measure.ci_high) == pytest.approx((0.0, 1.0), abs=1e-3)


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
    low, high, _ = compute_interval(50.0, draws, 0.95, 9, None)
    assert (low is not None, high is not None) == (has, has)
    assert not has or low < 50 < high


def test_blocks_give_the_draws_of_one_piece(monkeypatch):
    # 5 images of 7 items, each image drawn as NumPy draws all resamples at once
    images, values = list("abcdeba"), [1.0, 0.5, 3.0, 0.25, 7.0, 2.0, 4.0]
    entropy = int.from_bytes(hashlib.sha256(b"1:x").digest()[:8], "big")
    generator = np.random.Generator(np.random.PCG64(entropy))
    counts = generator.multinomial(5, np.full(5, 0.2), size=40)[
        :, [0, 1, 2, 3, 4, 1, 0]
    ]
    monkeypatch.setattr(intervals, "MAX_COUNTS", 21)
    intervals._draw_counts.cache_clear()
    draws = resample(images, resamples=40, seed=1, label="x")
    blocks = list(draws.iterate_item_counts())
    assert {block.shape for block in blocks} == {(3, 7), (1, 7)}
    assert np.concatenate(blocks).tolist() == counts.tolist()
    assert draws.count_items().tolist() == counts.tolist()
    assert draws.compute_means(values) == pytest.approx(
        counts @ values / counts.sum(axis=1), rel=1e-12
    )


def test_resamples_take_a_byte_a_cluster():
    draws = resample([f"{n}" for n in range(3000)], resamples=200, seed=0, label="x")
    assert draws.counts.nbytes == 3000 * 200
    assert draws.compute_means(np.ones(3000)).tolist() == [1.0] * 200
