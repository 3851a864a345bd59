"""Variance components: published ratings, hand-worked nested numbers, and designs drawn with known
variances.
"""

import math

import numpy as np
import pytest

from waltz.core.variance_components import (
    compute_coefficient,
    count_levels_needed,
    estimate_components,
    truncate_components,
)

ITEM, SEED = frozenset({"item"}), frozenset({"seed"})


def test_ratings_of_shrout_and_fleiss_have_the_published_coefficients():
    # Six targets by four judges: ICC(2,1) = .29, ICC(3,1) = .71, ICC(2,4) = .62, ICC(3,4) = .91.
    ratings = np.array(
        [
            [9, 2, 5, 8],
            [6, 1, 3, 2],
            [8, 4, 6, 8],
            [7, 1, 2, 6],
            [10, 5, 6, 9],
            [6, 2, 4, 7],
        ]
    )
    components = estimate_components(ratings, ["item", "seed"])
    # (BMS - EMS) / 4 and (JMS - EMS) / 6 with mean squares 11.24, 32.49 and 1.02
    assert components[ITEM] == pytest.approx((11.24 - 1.02) / 4, abs=0.01)
    assert components[SEED] == pytest.approx((32.49 - 1.02) / 6, abs=0.01)
    assert components[ITEM | SEED] == pytest.approx(1.02, abs=0.01)
    four = {"seed": 4}
    coefficients = [
        compute_coefficient(components, "item", absolute=True),
        compute_coefficient(components, "item"),
        compute_coefficient(components, "item", counts=four, absolute=True),
        compute_coefficient(components, "item", counts=four),
    ]
    assert coefficients == pytest.approx([0.29, 0.71, 0.62, 0.91], abs=0.005)
    # A fixed judge makes no error: what is measured includes the interaction.
    assert compute_coefficient(components, "item", SEED) == 1


def test_items_within_data_sets_worked_by_hand():
    # Means 2 and 6: MS between = 2 * (2**2 + 2**2) = 16 with 1 degree of freedom, MS within = (1 +
    # 1 + 4 + 4) / 2 = 5.
    values = np.array([[1.0, 3.0], [4.0, 8.0]])
    components = estimate_components(values, ["dataset", "item"], {"item": "dataset"})
    assert components == {
        frozenset({"dataset", "item"}): 5,
        frozenset({"dataset"}): (16 - 5) / 2,
    }
    # 5.5 / (5.5 + 5 / n) >= .8 from n = 3.64 on
    assert count_levels_needed(components, "dataset", "item", 0.8) == 4
    reliabilities = [
        compute_coefficient(components, "dataset", counts={"item": n}) for n in (3, 4)
    ]
    assert reliabilities[0] < 0.8 < reliabilities[1]


def test_components_of_drawn_designs_are_the_variances_that_they_were_drawn_with():
    generator = np.random.default_rng(0)
    sizes = {"dataset": 6, "item": 4, "seed": 3, "mask": 3}
    axes = list(sizes)
    variances = {
        ("dataset",): 4.0,
        ("dataset", "item"): 9.0,
        ("mask",): 2.0,
        ("dataset", "mask"): 1.0,
        ("dataset", "item", "mask"): 3.0,
        ("dataset", "item", "seed", "mask"): 5.0,
    }
    estimates = []
    for _ in range(150):
        values = np.zeros(tuple(sizes.values()))
        for effect, variance in variances.items():
            shape = [sizes[axis] if axis in effect else 1 for axis in axes]
            values = values + generator.normal(0, math.sqrt(variance), shape)
        estimates.append(estimate_components(values, axes, {"item": "dataset"}))
    for effect in estimates[0]:
        drawn = np.array([components[effect] for components in estimates])
        expected = variances.get(tuple(axis for axis in axes if axis in effect), 0.0)
        error = drawn.std(ddof=1) / math.sqrt(len(drawn))
        assert abs(drawn.mean() - expected) < 4 * error, effect


def test_levels_that_no_number_suffices_for():
    components = {
        ITEM: 4.0,
        frozenset({"item", "mask"}): 1.0,
        frozenset({"item", "seed"}): 3.0,
    }
    # 4 / (4 + 1) = .8 leaves nothing for seeds; with the mask fixed 5 / (5 + 3 / n) >= .8 from n = 3
    assert count_levels_needed(components, "item", "seed", 0.8) is None
    mask = frozenset({"mask"})
    assert count_levels_needed(components, "item", "seed", 0.8, mask) == 3
    assert count_levels_needed(components, "item", "seed", 0.5) == 1


def test_negative_estimates_become_0_after_they_have_entered_the_others():
    # Rows and columns have equal means, and the residual has the mean square 4 with 1 degree of
    # freedom: (0 - 4) / 2.
    values = np.array([[1.0, -1.0], [-1.0, 1.0]])
    components = estimate_components(values, ["item", "seed"])
    assert components[ITEM] == components[SEED] == -2
    assert truncate_components(components)[ITEM] == 0
    with pytest.raises(ValueError, match="two levels"):
        estimate_components(values[:1], ["item", "seed"])
