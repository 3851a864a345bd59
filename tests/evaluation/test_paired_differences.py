from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waltz.core.intervals import Resampling, bound_common_error
from waltz.evaluation.metrics.paired_differences import (
    DifferenceKey,
    PairedItem,
    build_difference_records,
    compute_paired_difference,
)
from waltz.evaluation.settings import ALL_DATA_SETS

HOW = Resampling(500, 0.95, 3)


def build_items(first, second, dataset="d", clusters=None):
    clusters = clusters or [f"{dataset}{place}" for place in range(len(first))]
    return [
        PairedItem(f"i{place}", dataset, cluster, a, b)
        for place, (a, b, cluster) in enumerate(
            zip(first, second, clusters, strict=True)
        )
    ]


def test_means_and_difference_are_those_worked_by_hand():
    # 90 - 80, 70 - 75, 50 - 30: mean 70 less mean 185 / 3, (10 - 5 + 20) / 3
    result = compute_paired_difference(
        build_items([90, 70, 50], [80, 75, 30]), "d", HOW
    )
    assert result.first.value == pytest.approx(70)
    assert result.second.value == pytest.approx(185 / 3)
    assert result.difference.value == pytest.approx(25 / 3)
    assert (result.difference.n, result.difference.images) == (3, 3)
    # standard deviation 12.58, error 7.26, t = 1.147 with 2 degrees of freedom
    assert result.p == pytest.approx(0.37, abs=0.02)


@given(
    st.lists(
        st.tuples(st.floats(0, 100), st.floats(0, 100), st.integers(0, 4)),
        min_size=1,
        max_size=12,
    )
)
def test_swapping_the_sides_flips_the_sign(numbers):
    first, second, clusters = zip(*numbers, strict=True)
    names = [str(cluster) for cluster in clusters]
    there = compute_paired_difference(
        build_items(first, second, clusters=names), "d", HOW
    )
    back = compute_paired_difference(
        build_items(second, first, clusters=names), "d", HOW
    )
    assert back.difference.value == pytest.approx(-there.difference.value, abs=1e-9)
    assert back.p == pytest.approx(there.p, abs=1e-9)
    if there.difference.ci_low is not None:
        assert back.difference.ci_low == pytest.approx(
            -there.difference.ci_high, abs=1e-6
        )


def test_a_constant_shift_is_found_exactly():
    answers = np.random.default_rng(1).uniform(40, 90, 30)
    result = compute_paired_difference(build_items(answers - 7.5, answers), "d", HOW)
    assert result.difference.value == pytest.approx(-7.5)
    assert result.difference.ci_low <= -7.5 <= result.difference.ci_high
    assert result.p < 0.001
    # the same shift on data sets of other sizes, and with other means
    pooled = [
        *build_items(answers - 7.5, answers),
        *build_items(answers[:4] / 2 - 7.5, answers[:4] / 2, "e"),
    ]
    assert compute_paired_difference(pooled, ALL_DATA_SETS, HOW).difference.value == (
        pytest.approx(-7.5)
    )


def test_items_missing_on_one_side_are_left_out_and_counted():
    items = build_items([90, None, 50, None], [80, 75, None, None])
    result = compute_paired_difference(items, "d", HOW)
    assert result.difference.value == pytest.approx(10)
    assert (result.difference.n, result.unpaired) == (1, 3)
    # one image has no interval and no p below 1
    assert (result.difference.ci_low, result.p) == (None, 1.0)
    nothing = compute_paired_difference(items[1:], "d", HOW)
    assert (nothing.difference.value, nothing.p, nothing.unpaired) == (None, None, 3)
    assert nothing.difference.reason == "none of 3 items has a number on both sides"


def test_data_sets_weigh_the_same_and_share_images():
    # mean difference 10 on two items and 40 on one: (10 + 40) / 2, not (10 + 10 + 40) / 3
    items = [
        *build_items([20, 20], [10, 10], "d", ["a", "b"]),
        *build_items([50], [10], "e", ["a"]),
    ]
    result = compute_paired_difference(items, ALL_DATA_SETS, HOW)
    assert result.difference.value == pytest.approx(25)
    assert (result.difference.n, result.difference.images) == (3, 2)
    assert result.p > 0.2


def test_seeds_of_an_item_are_one_cluster_and_one_item():
    items = build_items([20, 20, 20], [10, 12, 14], clusters=["a", "a", "b"])
    items[1] = replace(items[1], item_id="i0")
    result = compute_paired_difference(items, "d", HOW)
    assert (result.difference.n, result.difference.images) == (2, 2)


def test_p_is_corrected_over_models_and_data_sets_but_pooled_numbers_apart():
    rows = {
        DifferenceKey(model, "equations", "cot", "t_shap"): {
            dataset: build_items([10.0] * size, [0.0] * size, dataset)
            for dataset, size in (("d", 5), ("e", 6))
        }
        for model in ("m", "n")
    }
    records = build_difference_records(rows, HOW, bounds={})
    differences = {
        (record.model, record.dataset): record
        for record in records
        if record.metric == "t_shap"
    }
    assert len(records) == 3 * len(differences) == 18
    # 2 / 2^6 twice and 2 / 2^5 twice, times 4, 3, 2, 1, each at least the one before
    assert differences["m", "e"].p_holm == pytest.approx(4 / 32)
    assert differences["n", "d"].p_holm == pytest.approx(2 / 16)
    assert differences["m", ALL_DATA_SETS].p_holm == pytest.approx(2 * 2 / 2**11)
    means = {record.metric: record.measure.value for record in records}
    assert (means["t_shap:first"], means["t_shap:second"]) == (10, 0)
    assert all(record.p is None for record in records if ":" in record.metric)


def count_coverage(same_draws, stated_error):
    """Return how many of 100 intervals hold the mean difference 5 of numbers with the noise of a
    common seed.
    """
    random = np.random.default_rng(6)
    resampling = Resampling(200, 0.95, 1)
    covered = 0
    for _ in range(100):
        # Items of either number of players have the same permutations, hence the same noise; where
        # both sides have as many, it has opposite signs, which is the worst case.
        noise = random.normal(0, 4, size=2)
        noise_of_second = -noise if same_draws else random.normal(0, 4, size=2)
        items = []
        for item in range(12):
            players = item % 2
            items.append(
                PairedItem(
                    item_id=str(item),
                    dataset="d",
                    cluster=str(item),
                    first=55 + random.normal(0, 5) + noise[players],
                    second=50 + random.normal(0, 5) + noise_of_second[players],
                    first_error=stated_error,
                    second_error=stated_error,
                    first_draws=str(players),
                    second_draws=str(players if same_draws else players + 2),
                )
            )
        result = compute_paired_difference(items, "d", resampling)
        measure = result.difference
        covers = measure.ci_low <= 5 <= measure.ci_high
        # p is of the same interval.
        assert (result.p < 0.05) != (measure.ci_low <= 0 <= measure.ci_high)
        covered += covers
    return covered


@pytest.mark.parametrize("same_draws", [True, False])
def test_intervals_of_differences_hold_the_noise_of_a_common_seed(same_draws):
    # 95 of 100, with a standard deviation of 2.
    assert count_coverage(same_draws, stated_error=4.0) >= 90
    assert count_coverage(same_draws, stated_error=0.0) < 80


def test_the_noise_of_data_sets_is_weighed_like_their_items():
    # Data set d has two items of weight 1/4, e one of weight 1/2; all have the same permutations:
    # (1 + 3) / 4 + 2 / 2 on the first side.
    errors = {"d": [1.0, 3.0], "e": [2.0]}
    items = []
    for dataset, of_dataset in errors.items():
        for number, error in enumerate(of_dataset):
            name = f"{dataset}{number}"
            items.append(
                PairedItem(name, dataset, name, 10.0 * number, 0.0, first_error=error)
            )
    weights = np.array([0.25, 0.25, 0.5])
    stated = np.array([error for of_dataset in errors.values() for error in of_dataset])
    assert bound_common_error(stated, np.zeros(3), weights) == pytest.approx(2)
    with_noise = compute_paired_difference(items, "d", HOW).difference
    items = [replace(item, first_error=0.0) for item in items]
    without = compute_paired_difference(items, "d", HOW).difference
    assert with_noise.ci_high - with_noise.ci_low > without.ci_high - without.ci_low
