"""Seeds of items: what they leave of the estimator's noise in a mean over items."""

import numpy as np
import pytest

from waltz.attribution.shapley.estimate import AttributionSettings, estimate_in_step
from waltz.attribution.shapley.estimators import begin_permutations
from waltz.attribution.stored_rows import set_item_seed
from waltz.attribution.t_shap import measure_t_shap
from waltz.fidelity import EQUATIONS, PUBLISHED

ITEMS, RUNS = 16, 200


def is_any_visible(coalitions):
    return [masks.any(axis=1, keepdims=True).astype(float) for masks in coalitions]


def compute_mean_t_shap(settings):
    """The mean over items of one permutation's T-SHAP of the game that any player decides."""
    estimations = []
    for item in range(ITEMS):
        seed = set_item_seed(settings, "own", f"own:{item}").seed
        estimations.append(begin_permutations(4, 9, seed, 2))
    estimates = estimate_in_step(estimations, is_any_visible)
    return np.mean([measure_t_shap(estimate, 2).value for estimate in estimates])


@pytest.mark.parametrize(("fidelity", "draws"), [(EQUATIONS, ITEMS), (PUBLISHED, 1)])
def test_the_noise_of_a_mean_falls_with_the_items_if_each_has_its_seed(fidelity, draws):
    # The first player of the permutation and the first of its reverse share the value. They are
    # texts with 1/2 each and both with 1/6, so that the variance of T-SHAP is (1/2 - 1/6) / 4.
    means = [
        compute_mean_t_shap(AttributionSettings(fidelity, seed=seed))
        for seed in range(RUNS)
    ]
    assert np.mean(means) == pytest.approx(0.5, abs=0.06)
    # The variance over runs has a relative standard error of 10 %.
    assert np.var(means) == pytest.approx(1 / 12 / draws, rel=0.35)
