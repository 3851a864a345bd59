"""Reliability of one seed: published ratings, numbers worked by hand, and drawn designs."""

import math

import numpy as np
import pytest

from waltz.consistency.aggregates import ItemNumber
from waltz.consistency.seed_reliability import (
    NO_VARIANCE,
    NOT_REACHED,
    TOO_FEW,
    measure_seed_reliability,
)
from waltz.core.intervals import Resampling

RESAMPLING = Resampling(resamples=200, confidence=0.95, seed=1)


def measure(table):
    """Return the measures of numbers of shape (items, seeds); None is a missing number."""
    numbers = [
        ItemNumber(str(item), f"{item}.jpg", seed, value, None)
        for item, row in enumerate(table)
        for seed, value in enumerate(row)
    ]
    return measure_seed_reliability(numbers, "d", RESAMPLING)


def test_ratings_of_shrout_and_fleiss_have_the_published_coefficients():
    # Six targets by four judges: ICC(1,1) = .17, ICC(1,4) = .44, BMS = 11.24, WMS = 6.26.
    ratings = [
        [9, 2, 5, 8],
        [6, 1, 3, 2],
        [8, 4, 6, 8],
        [7, 1, 2, 6],
        [10, 5, 6, 9],
        [6, 2, 4, 7],
    ]
    measures = measure(ratings)
    assert measures[":reliability"].value == pytest.approx(0.17, abs=0.005)
    assert measures[":reliability_mean"].value == pytest.approx(0.44, abs=0.005)
    assert measures[":variance_items"].value == pytest.approx(
        (11.24 - 6.26) / 4, abs=0.01
    )
    assert measures[":variance_seeds"].value == pytest.approx(6.26, abs=0.01)


def test_two_items_of_two_seeds_worked_by_hand():
    # Means 2 and 6: MS between = 16; MS within = (1 + 1 + 4 + 4) / 2 = 5. Items have the variance
    # (16 - 5) / 2 = 5.5, and 5.5 / (5.5 + 5 / n) >= .8 from n = 3.64 on.
    measures = measure([[1.0, 3.0], [4.0, 8.0], [None, 9.0]])
    values = {suffix: found.value for suffix, found in measures.items()}
    assert values == {
        ":variance_items": 5.5,
        ":variance_seeds": 5,
        ":reliability": pytest.approx(5.5 / 10.5),
        ":reliability_mean": pytest.approx(5.5 / 8),
        ":seeds_needed": 4,
    }
    assert {found.n for found in measures.values()} == {2}


def test_designs_without_a_reliability_say_why():
    assert measure([[1.0], [2.0]]) == {}
    assert {found.reason for found in measure([[1.0, 2.0], [3.0, None]]).values()} == {
        TOO_FEW
    }
    # Items whose means are equal differ by less than their seeds.
    equal = measure([[1.0, 3.0], [3.0, 1.0], [0.0, 4.0]])
    assert equal[":reliability"].value == equal[":variance_items"].value == 0
    assert equal[":seeds_needed"].reason == NOT_REACHED
    exact = measure([[1.0, 1.0], [3.0, 3.0], [4.0, 4.0]])
    assert (exact[":reliability"].value, exact[":seeds_needed"].value) == (1, 1)
    assert measure([[2.0, 2.0]] * 3)[":reliability"].reason == NO_VARIANCE


@pytest.mark.parametrize("reliability", [0.0, 0.5])
def test_intervals_hold_the_reliability_of_drawn_items(reliability):
    random = np.random.default_rng(5)
    covered = 0
    for _ in range(100):
        items = random.normal(0, math.sqrt(reliability), size=(24, 1))
        noise = random.normal(0, math.sqrt(1 - reliability), size=(24, 3))
        found = measure((items + noise).tolist())[":reliability"]
        covered += found.ci_low <= reliability <= found.ci_high
    # 95 of 100, with a standard deviation of 2.
    assert covered >= 90
