import numpy as np
import pytest
from scipy.stats import spearmanr

from waltz.attribution.correlation import _compute_rho, _draw_resamples, correlate_correctness_with_t_shap
from waltz.core.intervals import Resampling, bootstrap_means

HOW = Resampling(resamples=2000, confidence=0.95, seed=3)


def rows(correct, shares, images=None):
    images = images or [str(place) for place in range(len(correct))]
    return [
        {"correct": right, "t_shap": share, "image": image}
        for right, share, image in zip(correct, shares, images, strict=True)
    ]


def random(count, effect, seed=0):
    noise = np.random.default_rng(seed)
    correct = noise.random(count) < 0.6
    return correct.tolist(), (0.5 + 0.1 * (noise.normal(size=count) + effect * correct)).tolist()


def test_four_items_worked_by_hand():
    # ranks of correctness 1.5 1.5 3.5 3.5, of T-SHAP 1 2 3 4: Pearson 4 / sqrt(4 x 5)
    found = correlate_correctness_with_t_shap(rows([False, False, True, True], [0.1, 0.2, 0.3, 0.9]), "d", HOW)
    assert found.rho.value == pytest.approx(4 / np.sqrt(20))
    assert found.rho.n == 4


def test_items_without_either_number_are_left_out():
    given = rows([True, False, True, None, False], [0.3, 0.1, 0.2, 0.9, None])
    found = correlate_correctness_with_t_shap(given, "d", HOW)
    assert found.rho.n == 3
    assert found.rho.value == pytest.approx(spearmanr([1, 0, 1], [0.3, 0.1, 0.2]).statistic)


@pytest.mark.parametrize(
    ("correct", "shares", "reason"),
    [
        ([True] * 4, [0.1, 0.2, 0.3, 0.4], "all 4 items are right"),
        ([False] * 4, [0.1, 0.2, 0.3, 0.4], "all 4 items are wrong"),
        ([True, False, True], [0.5, 0.5, 0.5], "the same T-SHAP"),
        ([True, False, None], [0.1, 0.2, 0.3], "2 of 3 items"),
        ([], [], "0 of 0 items"),
    ],
)
def test_what_is_undefined_says_why(correct, shares, reason):
    found = correlate_correctness_with_t_shap(rows(correct, shares), "d", HOW)
    assert found.rho.value is None
    assert found.rho.ci_low is None
    assert found.p is None
    assert reason in found.rho.reason


def test_each_resample_has_the_rho_of_its_items_written_out():
    correct, shares = random(30, 0.5)
    shares = np.round(shares, 1)  # many ties
    counts = np.random.default_rng(1).integers(0, 4, size=(20, 30)).astype(float)
    found = _compute_rho(np.array(correct), shares, counts)
    for draw, rho in zip(counts.astype(int), found, strict=True):
        assert rho == pytest.approx(spearmanr(np.repeat(correct, draw), np.repeat(shares, draw)).statistic)


def test_a_resample_without_a_correlation_is_not_a_number():
    counts = np.array([[2.0, 1.0, 0.0], [0.0, 0.0, 3.0], [1.0, 1.0, 1.0]])
    found = _compute_rho(np.array([True, True, False]), np.array([0.1, 0.2, 0.3]), counts)
    assert np.isnan(found).tolist() == [True, True, False]


def test_resamples_are_those_of_the_house():
    images, values = ["a", "a", "b", "c"], [1.0, 0.0, 1.0, 5.0]
    counts = np.concatenate(list(_draw_resamples(images, "d", HOW)))
    means = bootstrap_means(values, images, resamples=HOW.resamples, seed=HOW.seed, label="d")
    assert counts @ values / counts.sum(axis=1) == pytest.approx(means)


def test_the_interval_of_independent_items_is_that_of_fisher():
    correct, shares = random(400, 0)
    found = correlate_correctness_with_t_shap(rows(correct, shares), "d", HOW).rho
    assert (found.ci_high - found.ci_low) / 2 == pytest.approx(1.96 / np.sqrt(397), rel=0.1)
    assert found.ci_low < found.value < found.ci_high


def test_items_that_share_an_image_say_no_more_than_one_of_them():
    correct, shares = random(100, 0.3)
    alone = correlate_correctness_with_t_shap(rows(correct, shares), "d", HOW).rho
    images = [str(place // 4) for place in range(400)]
    shared = correlate_correctness_with_t_shap(
        rows(np.repeat(correct, 4).tolist(), np.repeat(shares, 4).tolist(), images), "d", HOW
    ).rho
    assert shared.value == pytest.approx(alone.value)
    assert shared.ci_high - shared.ci_low == pytest.approx(alone.ci_high - alone.ci_low, rel=0.1)


def test_p_is_that_of_scipy():
    correct, shares = random(80, 0.4)
    expected = spearmanr(correct, shares)
    found = correlate_correctness_with_t_shap(rows(correct, shares), "d", HOW)
    assert found.p == pytest.approx(expected.pvalue)
    assert 0 < found.p < 1
