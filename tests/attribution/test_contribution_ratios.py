"""Ratios per output token, and T-SHAP of outputs of several tokens."""

import math

import numpy as np
import pytest

from waltz.attribution.contribution_ratios import ROUNDING, compute_contribution_ratios, find_contributing_outputs
from waltz.attribution.shapley.estimate import Estimate
from waltz.attribution.t_shap import (
    compute_t_shap,
    compute_t_shap_of_outputs,
    measure_t_shap,
    measure_t_shap_of_outputs,
)

PHI = np.array([[1.0, 8.0], [-1.0, 0.0], [2.0, -8.0]])


def estimate(phi, parts=None, exact=False):
    return Estimate(phi, np.zeros(phi.shape[1]), phi.sum(axis=0), 1, parts, exact)


def test_ratios_worked_by_hand():
    np.testing.assert_array_equal(compute_contribution_ratios(PHI), [[1 / 4, 1 / 2], [-1 / 4, 0], [1 / 2, -1 / 2]])
    assert np.isnan(compute_contribution_ratios(np.zeros((2, 1)))).all()
    np.testing.assert_array_equal(
        compute_contribution_ratios(np.stack([PHI, 2 * PHI])), np.stack([compute_contribution_ratios(PHI)] * 2)
    )


def test_what_contributes_next_to_nothing():
    phi = np.array([[1.0, 0.004, 0.0, 1.0], [0.0, -0.004, ROUNDING, 1.0]])
    # sums 1, 0.008, rounding, 2: the mean of all that is no rounding is 3.008 / 3
    np.testing.assert_array_equal(find_contributing_outputs(phi), [True, False, False, True])
    np.testing.assert_array_equal(find_contributing_outputs(phi, 0), [True, True, False, True])
    np.testing.assert_array_equal(find_contributing_outputs(phi, 0.005), [True, True, False, True])
    assert not find_contributing_outputs(np.zeros((2, 3))).any()


def test_t_shap_of_two_tokens_worked_by_hand():
    # mean ratios 3/8, -1/8, 0: the third player cancels
    assert compute_t_shap_of_outputs(PHI, slice(0, 1), "equations") == pytest.approx(3 / 4)
    # sums of magnitudes 9, 1, 10
    assert compute_t_shap_of_outputs(PHI, slice(0, 1), "published") == pytest.approx(9 / 20)
    assert compute_t_shap_of_outputs(PHI, slice(0, 1), "published") == compute_t_shap(PHI, 1)
    assert compute_t_shap_of_outputs(PHI, slice(1, None), "equations") == pytest.approx(1 / 4)
    assert compute_t_shap_of_outputs(PHI, np.array([0, 2]), "published") == pytest.approx(19 / 20)


def test_a_single_token_has_the_t_shap_of_both_profiles():
    for profile in ("equations", "published"):
        assert compute_t_shap_of_outputs(PHI[:, :1], slice(0, 2), profile) == pytest.approx(
            compute_t_shap(PHI[:, :1], 2)
        )


def test_a_weak_token_counts_in_full_unless_left_out():
    phi = np.hstack([PHI[:, :1], 1e-5 * np.array([[0.0], [0.0], [1.0]])])
    assert compute_t_shap_of_outputs(phi, slice(0, 2), "equations") == pytest.approx(1 / 2)
    assert compute_t_shap_of_outputs(phi, slice(0, 2), "equations", least=0) == pytest.approx(1 / 4)


def test_nothing_has_no_share():
    for profile in ("equations", "published"):
        assert math.isnan(compute_t_shap_of_outputs(np.zeros((3, 2)), slice(0, 1), profile))
        found = measure_t_shap_of_outputs(estimate(np.zeros((3, 2)), exact=True), slice(0, 1), profile)
        assert "no share" in found.reason


def test_rounding_has_no_share_in_equations():
    for phi in (np.full((3, 2), 1e-9), PHI[:, :1] * [[1, -1]]):
        found = measure_t_shap_of_outputs(estimate(phi, exact=True), slice(0, 1), "equations")
        assert math.isnan(found.value)
        assert found.reason == "Shapley values are rounding, or tokens' ratios cancel, so no share is defined"


def test_the_standard_error_of_one_token_is_that_of_t_shap():
    parts = np.random.default_rng(0).normal(1, 0.3, (5, 4, 1))
    sampled = estimate(parts.mean(axis=0), parts)
    for profile in ("equations", "published"):
        found, plain = measure_t_shap_of_outputs(sampled, slice(0, 2), profile), measure_t_shap(sampled, 2)
        assert found.value == pytest.approx(plain.value)
        assert found.standard_error == pytest.approx(plain.standard_error)


def test_a_jackknife_of_two_tokens_worked_by_hand():
    parts = np.array([[[1.0, 1.0], [1.0, 3.0]], [[3.0, 1.0], [1.0, 1.0]]])
    shares = np.array([(3 / 4 + 1 / 2) / 2, (1 / 2 + 1 / 4) / 2])  # without the first, without the second
    found = measure_t_shap_of_outputs(estimate(parts.mean(axis=0), parts), slice(0, 1), "equations")
    assert found.standard_error == pytest.approx(math.sqrt(((shares - shares.mean()) ** 2).sum() / 2))
