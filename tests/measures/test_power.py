"""The smallest difference that a paired test can show, against formulas worked by hand and
simulated tests.
"""

import math

import numpy as np
import pytest
from scipy.stats import binom, binomtest, norm

from waltz.core.intervals import Resampling, compute_difference_p
from waltz.evaluation.metrics.comparisons import DIFFERENCE_BOUNDS
from waltz.evaluation.metrics.pair_metrics import ScoredPairs
from waltz.evaluation.metrics.power import (
    compute_design_effect,
    compute_detectable,
    compute_detectable_accuracy,
    compute_detectable_mean,
    compute_least_p,
    compute_power,
)
from waltz.measures.power import TOO_FEW, PowerSettings, measure_power


def test_detectable_accuracy_solves_connors_formula():
    difference = compute_detectable_accuracy(0.3, 400, 0.8, 0.05)
    # n = (1.95996 sqrt(p) + 0.84162 sqrt(p - D^2))^2 / D^2
    n = (
        1.959964 * math.sqrt(0.3) + 0.841621 * math.sqrt(0.3 - difference**2)
    ) ** 2 / difference**2
    assert n == pytest.approx(400, rel=1e-4)
    assert difference == pytest.approx(0.0765, abs=1e-4)


@pytest.mark.parametrize("power", [0.3, 0.5, 0.9])
@pytest.mark.parametrize("discordance", [0.2, 0.7, 1.0])
def test_a_test_shows_the_difference_with_the_power_asked_for(power, discordance):
    # sqrt(n) D = z(1 - alpha / 2) sqrt(p) + z(power) sqrt(p - D^2), solved for the power; at 1/2
    # the last term is 0
    for items in (50, 51, 400):
        difference = compute_detectable_accuracy(discordance, items, power, 0.05)
        level = norm.ppf(0.975) * math.sqrt(discordance)
        shown = norm.cdf(
            (math.sqrt(items) * difference - level)
            / math.sqrt(discordance - difference**2)
        )
        assert shown == pytest.approx(power)


def test_no_difference_can_be_shown_where_few_items_differ():
    assert compute_detectable_accuracy(0.1, 30, 0.8, 0.05) is None
    assert compute_detectable_accuracy(0.0, 1000, 0.8, 0.05) is None


def test_mcnemars_test_shows_this_difference_in_four_of_five_samples():
    discordance, items = 0.3, 400
    difference = compute_detectable_accuracy(discordance, items, 0.8, 0.05)
    generator = np.random.default_rng(0)
    shares = [
        (discordance + difference) / 2,
        (discordance - difference) / 2,
        1 - discordance,
    ]
    wins = generator.multinomial(items, shares, size=600)
    shown = [binomtest(int(a), int(a + b)).pvalue < 0.05 for a, b, _ in wins]
    # The exact test is a little more careful than its normal approximation.
    assert 0.72 < np.mean(shown) < 0.84


def test_students_test_on_the_bootstrap_error_has_this_power():
    discordance, items = 0.3, 200
    difference = compute_detectable_accuracy(discordance, items, 0.8, 0.05)
    generator = np.random.default_rng(1)
    shares = [
        (discordance + difference) / 2,
        1 - discordance,
        (discordance - difference) / 2,
    ]
    # 400 samples of paired differences, (items, samples), and their means in 150 resamples.
    samples = 100 * generator.choice([1, 0, -1], size=(items, 400), p=shares)
    weights = generator.multinomial(items, np.full(items, 1 / items), size=150)
    draws = weights @ samples / items
    p = [
        compute_difference_p(mean, draws[:, position], items, DIFFERENCE_BOUNDS)
        for position, mean in enumerate(samples.mean(axis=0))
    ]
    effect = difference * math.sqrt(items / (discordance - difference**2))
    for alpha, power in ((0.05, 0.81), (0.005, 0.52)):
        assert compute_power(effect, items, alpha) == pytest.approx(power, abs=0.02)
        assert np.mean(np.array(p) <= alpha) == pytest.approx(power, abs=0.06)


def test_power_is_the_level_without_a_difference_and_falls_with_few_images():
    assert compute_power(0.0, 5, 0.05) == pytest.approx(0.05)
    powers = [compute_power(2.8, images, 0.05) for images in (3, 10, 100)]
    assert powers == sorted(powers)
    # z(0.975) + z(0.8) of many images: 80 %.
    assert compute_power(2.801585, 10**6, 0.05) == pytest.approx(0.8, abs=1e-3)


def test_detectable_mean_by_hand():
    assert compute_detectable_mean(0.5, 100, 0.8, 0.05) == pytest.approx(
        (1.959964 + 0.841621) * 0.05
    )


def test_rows_of_two_models():
    items = tuple(f"i{number}" for number in range(40))
    caption = np.ones(40)
    first = ScoredPairs(
        items, items, caption, np.where(np.arange(40) < 30, 0.0, 2.0), None
    )
    second = ScoredPairs(
        items, items, caption, np.where(np.arange(40) < 10, 0.0, 2.0), None
    )
    scores = {("a", "existence"): first, ("b", "existence"): second}
    rows = measure_power(
        scores, PowerSettings(0.8, 0.05, [5]), Resampling(100, 0.95, 0)
    )
    values = {(row.quantity, row.level): row for row in rows}
    assert values["acc_r difference", ""].measure.value == 50
    assert values["discordant", ""].measure.value == 50
    assert values["acc_r detectable", "40"].measure.value == pytest.approx(
        100 * compute_detectable_accuracy(0.5, 40, 0.8, 0.05)
    )
    assert values["acc_r detectable", "5"].measure.reason == TOO_FEW
    assert ("acc_r detectable", "505") in values  # existence as released
    assert values["design effect", ""].measure.value == 1
    powers = [
        values["acc_r power", level].measure.value for level in ("1", "10", "100")
    ]
    assert powers == sorted(powers, reverse=True)
    assert powers[0] == pytest.approx(80, abs=5)


def test_items_of_an_image_are_not_independent():
    images = tuple(f"v{number // 4}" for number in range(40))
    items, caption = tuple(f"i{number:02}" for number in range(40)), np.ones(40)
    first = ScoredPairs(
        items, images, caption, np.where(np.arange(40) < 24, 0.0, 2.0), None
    )
    second = ScoredPairs(
        items, images, caption, np.where(np.arange(40) < 4, 0.0, 2.0), None
    )
    rows = measure_power(
        {("a", "d"): first, ("b", "d"): second},
        PowerSettings(0.8, 0.05, [400]),
        Resampling(100, 0.95, 0),
    )
    values = {(row.quantity, row.level): row for row in rows}
    # ten images, five of them won in all four items: 10/9 * 39/40 * 4
    assert values["design effect", ""].measure.value == pytest.approx(13 / 3)
    assert values["acc_r detectable", "400"].measure.value == pytest.approx(
        100 * compute_detectable_accuracy(0.5, 400 * 3 / 13, 0.8, 0.05)
    )
    assert (
        values["discordant", ""].measure.ci_high
        - values["discordant", ""].measure.ci_low
        > 50
    )
    # As of about nine independent items.
    assert values["acc_r detectable", "40"].measure.value is None


def test_two_models_are_compared_on_their_common_items():
    items = tuple(f"i{number:03}" for number in range(400))
    caption = np.ones(400)
    first = ScoredPairs(
        items, items, caption, np.where(np.arange(400) < 300, 0.0, 2.0), None
    )
    second = ScoredPairs(
        items[::-1],
        items,
        caption,
        np.where(np.arange(400) < 180, 0.0, 2.0)[::-1],
        None,
    )
    rows = measure_power(
        {("a", "d"): first, ("b", "d"): second},
        PowerSettings(0.8, 0.05, []),
        Resampling(100, 0.95, 0),
    )
    values = {row.quantity: row for row in rows}
    # 120 of 400 items, all of them won by a.
    assert values["acc_r difference"].measure.value == pytest.approx(30)
    assert values["acc_r detectable"].measure.n == 400
    assert values["acc_r detectable"].measure.value == pytest.approx(7.65, abs=0.01)


def test_the_least_p_is_that_of_items_that_all_agree():
    assert [compute_least_p(items) for items in (6, 1, 0.5, 0)] == [1 / 32, 1, 1, 1]


def test_the_same_difference_on_all_items_is_that_of_discordant_items():
    halves, images = np.full(400, 0.5), [f"i{number}" for number in range(400)]
    assert compute_detectable(
        "acc", halves, images, 400, 0.8, 0.05
    ) == compute_detectable_accuracy(1.0, 400, 0.8, 0.05)
    assert compute_detectable("acc", 0 * halves, images, 400, 0.8, 0.05) is None


def test_design_effect_by_hand():
    # mean 1/2; deviations 1/2, 1/2, -1/2, -1/2; sums of images 1 and -1: 2/1 * 3/4 * 2 / 1
    assert compute_design_effect(
        np.array([1.0, 1.0, 0.0, 0.0]), list("aabb")
    ) == pytest.approx(3)
    # sums of a, b, c are 1/2 + 1/2, -1/2 and -1/2: 3/2 * 3/4 * 3/2
    assert compute_design_effect(
        np.array([1.0, 0.0, 0.0, 1.0]), list("abca")
    ) == pytest.approx(27 / 16)
    # one item an image, images whose items even out, one image
    assert compute_design_effect(np.array([1.0, 0.0, 0.0, 1.0]), list("abcd")) == 1
    assert compute_design_effect(np.array([1.0, 0.0, 0.0, 1.0]), list("aabb")) == 1
    assert compute_design_effect(np.array([1.0, 0.0, 0.0, 1.0]), list("aaaa")) == 4


def test_items_that_are_all_equal_do_not_make_the_items_of_an_image_independent():
    assert compute_design_effect(np.ones(10), ["a"] * 10) == 10
    assert compute_design_effect(np.ones(4), list("abcd")) == 1
    assert compute_design_effect(np.ones(4), list("aabb")) == 2
    assert compute_design_effect(np.ones(4), list("aaab")) == 2.5  # (9 + 1) / 4


# all items are won by one model: six independent ones are the fewest whose exact test has p <= .05
@pytest.mark.parametrize(
    ("images", "is_detectable"),
    [
        ("a" * 10, False),
        ("a" * 15 + "b" * 15, False),
        ("abcd", False),
        ("abcde", False),
        ("abcdef", True),
    ],
)
@pytest.mark.parametrize("metric", ["acc_r", "p_c", "acc"])
def test_a_difference_that_no_test_can_show_is_not_detectable(
    metric, images, is_detectable
):
    differences = np.ones(len(images))
    detectable = compute_detectable(
        metric, differences, list(images), len(images), 0.8, 0.05
    )
    assert (detectable is not None) is is_detectable
    # five of five have p = 1/16, which is not above a level of 1/16
    at_level = compute_detectable(
        metric, differences, list(images), len(images), 0.8, 1 / 16
    )
    assert (at_level is not None) is (images in ("abcde", "abcdef"))


def test_items_of_an_image_that_are_all_alike_count_as_one():
    differences, images = (
        np.repeat([1.0, 0.0, -1.0, 0.0, 1.0] * 20, 3),
        np.repeat(np.arange(100), 3).astype(str),
    )
    # mean and its error are those of 100 images, whose sample variance is a little larger
    assert compute_design_effect(differences, images) == pytest.approx(3, rel=0.01)
    assert compute_detectable(
        "acc_r", differences, images, 300, 0.8, 0.05
    ) == pytest.approx(compute_detectable_accuracy(0.6, 100, 0.8, 0.05), rel=0.005)
    assert compute_detectable(
        "acc", differences, images, 300, 0.8, 0.05
    ) == pytest.approx(
        compute_detectable_mean(float(differences[::3].std(ddof=1)), 100, 0.8, 0.05)
    )


def test_a_test_of_images_shows_this_difference_in_four_of_five_samples():
    # in a third of 200 images all four items are one draw, else each is its own: the design effect
    # is 1 + 3 / 3
    generator, discordance = np.random.default_rng(2), 0.4
    difference = compute_detectable_accuracy(discordance, 400, 0.8, 0.05)
    shares = [
        (discordance + difference) / 2,
        (discordance - difference) / 2,
        1 - discordance,
    ]
    draws = generator.choice([1.0, -1.0, 0.0], size=(600, 200, 4), p=shares)
    is_one_draw = generator.random((600, 200, 1)) < 1 / 3
    draws = np.where(is_one_draw, draws[..., :1], draws)
    images = np.repeat(np.arange(200), 4).astype(str)
    effects = [compute_design_effect(own.ravel(), images) for own in draws]
    assert np.mean(effects) == pytest.approx(2, abs=0.05)
    means = draws.mean(axis=2)
    shown = np.abs(means.mean(axis=1)) > 1.959964 * means.std(
        axis=1, ddof=1
    ) / math.sqrt(200)
    assert binom.ppf(0.005, 600, 0.8) <= shown.sum() <= binom.ppf(0.995, 600, 0.8)
