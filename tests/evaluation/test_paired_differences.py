from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waltz.core.intervals import Resampling
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
