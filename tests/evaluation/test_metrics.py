import numpy as np
import pytest

from waltz.core.intervals import Resampling, bootstrap_means
from waltz.evaluation.metrics.pair_metrics import average_measures, compute_acc_r

HOW = Resampling(resamples=4000, confidence=0.95, seed=3)


def rows(verdicts, images=None):
    images = images or [str(place) for place in range(len(verdicts))]
    return [{"correct": correct, "image": image} for correct, image in zip(verdicts, images, strict=True)]


def test_acc_r_counts_unscored_items_neither_right_nor_wrong():
    measure = compute_acc_r(rows([True, False, True, None]), "d", HOW)
    assert measure.value == pytest.approx(200 / 3)
    assert measure.n == 3


def test_the_interval_of_independent_items_is_the_binomial_one():
    verdicts = [place % 4 != 0 for place in range(400)]  # 75 %
    measure = compute_acc_r(rows(verdicts), "d", HOW)
    half = 196 * np.sqrt(0.75 * 0.25 / 400)
    assert measure.ci_low == pytest.approx(75 - half, abs=0.5)
    assert measure.ci_high == pytest.approx(75 + half, abs=0.5)


def test_items_that_share_an_image_widen_the_interval():
    verdicts = [True] * 200 + [False] * 200
    alone = compute_acc_r(rows(verdicts), "d", HOW)
    shared = compute_acc_r(rows(verdicts, [f"image {place // 4}" for place in range(400)]), "d", HOW)
    widths = [measure.ci_high - measure.ci_low for measure in (shared, alone)]
    assert widths[0] / widths[1] == pytest.approx(2, rel=0.1)  # four items an image: the square root of four


def test_draws_are_the_same_again_and_others_for_another_data_set():
    values, clusters = [0.0, 1.0, 1.0, 0.0], ["a", "b", "c", "d"]
    again = [bootstrap_means(values, clusters, resamples=50, seed=1, label=label) for label in ("x", "x", "y")]
    assert np.array_equal(again[0], again[1])
    assert not np.array_equal(again[0], again[2])


def test_an_average_weighs_data_sets_alike_and_narrows():
    parts = [compute_acc_r(rows([True] * right + [False] * (100 - right)), f"d{right}", HOW) for right in (40, 60, 80)]
    mean = average_measures(parts)
    assert mean.value == pytest.approx(60)
    assert mean.n == 300
    assert mean.ci_high - mean.ci_low < parts[0].ci_high - parts[0].ci_low


def test_an_average_with_a_hole_has_a_reason():
    parts = [compute_acc_r(rows([True]), "a", HOW), compute_acc_r(rows([None]), "b", HOW)]
    assert parts[1].reason == "none of 1 items could be scored"
    assert average_measures(parts).reason == "1 of 2 data sets have no value"


def test_nothing_cannot_be_resampled():
    with pytest.raises(ValueError, match="cannot resample 0 values"):
        bootstrap_means([], [], resamples=10, seed=0, label="d")
