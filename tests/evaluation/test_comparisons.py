import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waltz.core.intervals import Resampling
from waltz.evaluation.metrics.comparisons import (
    compare_models,
    correct_by_holm,
)
from waltz.evaluation.metrics.pair_metrics import ScoredPairs

HOW = Resampling(1000, 0.95, 2)
MANY = Resampling(20_000, 0.95, 2)


def scored(logits, with_probability=True, items=None, images=None):
    numbers = np.asarray(logits, dtype=np.float64)
    names = items or [f"i{place:03}" for place in range(len(numbers))]
    right = (
        np.stack([numbers[:, 0] > 0, numbers[:, 1] < 0], axis=1)
        if with_probability
        else None
    )
    return ScoredPairs(
        tuple(names), tuple(images or names), numbers[:, 0], numbers[:, 1], right
    )


def compare(scores, *arguments):
    return compare_models(scores, "equations", "single", *arguments)


def by_metric(rows):
    return {(row.dataset, row.metric): row for row in rows}


def test_no_p_ignores_the_images():
    # 30 items: a right on all, b on none. Of 1, 2 and 5 images no test can show that
    for images, least in ((1, 1.0), (2, 0.5), (5, 0.0625), (30, 2**-29)):
        names = [f"v{place % images}" for place in range(30)]
        a, b = (
            scored([(2, -1)] * 30, images=names),
            scored([(-1, 2)] * 30, images=names),
        )
        rows = by_metric(compare({("a", "d"): a, ("b", "d"): b}, HOW))
        for metric in ("acc_r", "p_c", "p_f", "acc", "min_pc_pf", "auroc"):
            assert rows["d", metric].p == pytest.approx(least), metric


def test_models_of_one_part_are_not_compared_again():
    scores = {(model, "d"): scored([(1, 0), (0, 1)]) for model in "abc"}
    parts = {("a", "d"): "scores", ("b", "d"): "scores", ("c", "d"): "vision"}
    rows = compare(scores, HOW, ("acc_r",), (), parts)
    assert [(row.model_a, row.model_b) for row in rows] == [
        ("a", "c"),
        ("b", "c"),
    ]


def test_holm_worked_by_hand():
    assert correct_by_holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert correct_by_holm([0.5, 0.9]) == [1, 1]
    assert correct_by_holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_lies_between_the_value_and_bonferroni_and_keeps_the_order(values):
    corrected = correct_by_holm(values)
    for value, more in zip(values, corrected, strict=True):
        assert value <= more <= min(1, value * len(values)) + 1e-12
    order = np.argsort(values, kind="stable")
    assert (np.diff(np.array(corrected)[order]) >= 0).all()


def test_differences_of_two_models_worked_by_hand():
    # a: right, right, wrong, right; b: right, wrong, wrong, wrong (each by acc_r)
    a = scored([(2, 1), (2, -1), (-1, 1), (3, -3)])
    b = scored([(2, 1), (1, 2), (1, 2), (-1, 1)])
    metrics = by_metric(compare({("a", "d"): a, ("b", "d"): b}, MANY))
    acc_r = metrics["d", "acc_r"]
    assert (acc_r.difference, acc_r.n) == (50, 4)
    # Differences of 0, 100, 0, 100 have a standard error of 28.9; the logit of 50, at 3/4 of the way from
    # -100 to 100, is ln 3, and its slope 1 / (200 * 3/4 * 1/4). Student's t has 3 degrees of freedom.
    assert acc_r.p == pytest.approx(0.249, abs=0.01)
    assert acc_r.p == acc_r.p_holm
    assert acc_r.ci_low <= 50 <= acc_r.ci_high
    assert metrics["d", "p_c"].difference == 0  # each 3 of 4
    assert metrics["d", "p_f"].difference == 50  # 2 of 4 against none
    assert metrics["d", "acc"].difference == 25


def test_a_difference_on_every_image_has_the_interval_of_clusters_that_agree():
    # 2.5 % of draws of six images of which this share agrees have no other; all others may lie at -100
    a, b = scored([(2, 1)] * 6), scored([(1, 2)] * 6)
    agreeing = 0.025 ** (1 / 6)
    ahead = by_metric(compare({("a", "d"): a, ("b", "d"): b}, HOW))["d", "acc_r"]
    assert (ahead.difference, ahead.ci_low, ahead.ci_high) == pytest.approx(
        (100, 200 * agreeing - 100, 100)
    )
    behind = by_metric(compare({("b", "d"): b, ("a", "d"): a}, HOW))["d", "acc_r"]
    assert (behind.difference, behind.ci_low, behind.ci_high) == pytest.approx(
        (-100, -100, 100 - 200 * agreeing)
    )


def test_models_are_compared_on_the_items_that_both_could_score_whatever_their_order():
    a = scored([(1, 0), (0, 1), (1, 0)], items=["x", "y", "z"])
    b = scored([(0, 1), (0, 1), (9, 0)], items=["y", "x", "w"])
    row = by_metric(compare({("a", "d"): a, ("b", "d"): b}, HOW))["d", "acc_r"]
    # x: a right, b wrong; y: both wrong.
    assert (row.n, row.difference) == (2, 50)
    assert row.p > 0.3
    none = compare({("a", "d"): a, ("b", "d"): scored([(1, 0)], items=["v"])}, HOW)
    assert {row.reason for row in none} == {"no item could be scored by both models"}


def test_a_model_without_probability_is_not_compared_where_a_threshold_is_needed():
    metrics = by_metric(
        compare(
            {("a", "d"): scored([(1, 0)]), ("clip", "d"): scored([(1, 0)], False)}, HOW
        )
    )
    assert (
        metrics["d", "acc"].p
        is metrics["d", "acc"].p_holm
        is metrics["d", "acc"].difference
        is None
    )
    assert metrics["d", "acc"].reason.startswith("not applicable")
    assert metrics["d", "acc"].reason.endswith("(clip)")
    assert metrics["d", "auroc"].difference == 0


def test_the_correction_is_over_data_sets_and_pairs_of_one_metric():
    rng = np.random.default_rng(5)
    scores = {
        (model, dataset): scored(rng.normal((0.3 * place, 0), 1, (40, 2)))
        for place, model in enumerate("abc")
        for dataset in ("d", "e")
    }
    rows = [row for row in compare(scores, HOW) if row.metric == "acc_r"]
    assert len(rows) == 6
    assert [row.p_holm for row in rows] == pytest.approx(
        correct_by_holm([row.p for row in rows])
    )


def test_pairs_with_a_control_are_corrected_apart():
    rng = np.random.default_rng(5)
    scores = {
        (model, "d"): scored(rng.normal((0.3 * place, 0), 1, (40, 2)))
        for place, model in enumerate(["a", "b", "c", "ruler"])
    }
    rows = compare(scores, HOW, ("acc_r",), ("ruler",))
    for has_ruler in (False, True):
        family = [row for row in rows if (row.model_b == "ruler") is has_ruler]
        corrected = correct_by_holm([row.p for row in family])
        assert [row.p_holm for row in family] == pytest.approx(corrected)


def test_the_paired_interval_is_narrower_than_that_of_models_that_err_independently():
    rng = np.random.default_rng(3)
    base = rng.normal(0.5, 1, (300, 2))
    alike, other = base + rng.normal(0, 0.1, (300, 2)), rng.normal(0.5, 1, (300, 2))
    widths = []
    for second in (alike, other):
        row = by_metric(
            compare({("a", "d"): scored(base), ("b", "d"): scored(second)}, HOW)
        )["d", "auroc"]
        widths.append(row.ci_high - row.ci_low)
    assert widths[0] < widths[1] / 3


def test_p_and_interval_of_equal_models_err_in_one_of_twenty_samples_of_few_images():
    rng = np.random.default_rng(4)
    images = [f"v{image}" for image in range(8) for _ in range(6)]
    rejections = []
    for _ in range(150):
        # Two models that find other images hard.
        hard = rng.normal(0, 0.7, (8, 4)).repeat(6, axis=0)
        logits = hard + rng.normal(0.3, 1, (48, 4))
        pair = {
            ("a", "d"): scored(logits[:, :2], images=images),
            ("b", "d"): scored(logits[:, 2:], images=images),
        }
        for row in compare(pair, Resampling(200, 0.95, 1)):
            excludes_0 = row.ci_low > 0 or row.ci_high < 0
            assert excludes_0 == (row.p <= 0.05), row
            rejections.append(excludes_0)
    # 900 dependent numbers; the standard error of the share is about 1 %.
    assert 0.02 < np.mean(rejections) < 0.08
