"""Ratios per output token, T-SHAP, its standard error and the skew."""

import csv
import math
from dataclasses import replace

import numpy as np
import pytest

from stand_ins.games import play, random_terms, unanimity, unanimity_phi
from waltz.attribution.shapley.estimate import Estimate
from waltz.attribution.shapley.estimators import begin_exact, begin_permutations
from waltz.attribution.t_shap import (
    MIN_CONTRIBUTION,
    ROUNDING,
    TShap,
    classify_skew,
    compute_contribution_ratios,
    compute_t_shap,
    compute_t_shap_error,
    compute_t_shap_of_outputs,
    count_evaluations_for_point,
    find_contributing_outputs,
    measure_t_shap,
    measure_t_shap_of_outputs,
)
from waltz.core.files.resources import RESOURCES
from waltz.fidelity import get_fidelity

PHI = np.array([[1.0, 8.0], [-1.0, 0.0], [2.0, -8.0]])


def build_estimate(phi, parts=None, exact=False):
    phi = np.asarray(phi, dtype=np.float64)
    parts = None if parts is None else np.asarray(parts, dtype=np.float64)
    return Estimate(phi, np.zeros(phi.shape[1]), phi.sum(axis=0), 1, parts, exact)


def t_shap_of_outputs(phi, text, profile, min_contribution=MIN_CONTRIBUTION):
    return compute_t_shap_of_outputs(
        phi,
        text,
        get_fidelity(profile),
        find_contributing_outputs(phi, min_contribution),
    )


def test_ratios_worked_by_hand():
    np.testing.assert_array_equal(
        compute_contribution_ratios(PHI), [[1 / 4, 1 / 2], [-1 / 4, 0], [1 / 2, -1 / 2]]
    )
    assert np.isnan(compute_contribution_ratios(np.zeros((2, 1)))).all()
    np.testing.assert_array_equal(
        compute_contribution_ratios(np.stack([PHI, 2 * PHI])),
        np.stack([compute_contribution_ratios(PHI)] * 2),
    )


def test_what_contributes_next_to_nothing():
    phi = np.array([[1.0, 0.004, 0.0, 1.0], [0.0, -0.004, ROUNDING, 1.0]])
    # sums 1, 0.008, rounding, 2: the mean of all that is no rounding is 3.008 / 3
    np.testing.assert_array_equal(
        find_contributing_outputs(phi), [True, False, False, True]
    )
    np.testing.assert_array_equal(
        find_contributing_outputs(phi, 0), [True, True, False, True]
    )
    np.testing.assert_array_equal(
        find_contributing_outputs(phi, 0.005), [True, True, False, True]
    )
    assert not find_contributing_outputs(np.zeros((2, 3))).any()


def test_t_shap_of_two_tokens_worked_by_hand():
    # mean ratios 3/8, -1/8, 0: the third player cancels
    assert t_shap_of_outputs(PHI, slice(0, 1), "equations") == pytest.approx(3 / 4)
    # sums of magnitudes 9, 1, 10
    assert t_shap_of_outputs(PHI, slice(0, 1), "published") == pytest.approx(9 / 20)
    assert t_shap_of_outputs(PHI, slice(0, 1), "published") == compute_t_shap(PHI, 1)
    assert t_shap_of_outputs(PHI, slice(1, None), "equations") == pytest.approx(1 / 4)
    assert t_shap_of_outputs(PHI, np.array([0, 2]), "published") == pytest.approx(
        19 / 20
    )


def test_a_single_token_has_the_t_shap_of_both_profiles():
    for profile in ("equations", "published"):
        assert t_shap_of_outputs(PHI[:, :1], slice(0, 2), profile) == pytest.approx(
            compute_t_shap(PHI[:, :1], 2)
        )


def test_a_weak_token_counts_in_full_unless_left_out():
    phi = np.hstack([PHI[:, :1], 1e-5 * np.array([[0.0], [0.0], [1.0]])])
    assert t_shap_of_outputs(phi, slice(0, 2), "equations") == pytest.approx(1 / 2)
    assert t_shap_of_outputs(phi, slice(0, 2), "equations", 0) == pytest.approx(1 / 4)


def test_nothing_has_no_share():
    for profile in ("equations", "published"):
        assert math.isnan(t_shap_of_outputs(np.zeros((3, 2)), slice(0, 1), profile))
        t_shap = measure_t_shap_of_outputs(
            build_estimate(np.zeros((3, 2)), exact=True),
            slice(0, 1),
            get_fidelity(profile),
        )
        assert "no share" in t_shap.reason


def test_rounding_has_no_share_in_equations():
    for phi in (np.full((3, 2), 1e-9), PHI[:, :1] * [[1, -1]]):
        t_shap = measure_t_shap_of_outputs(
            build_estimate(phi, exact=True), slice(0, 1), get_fidelity("equations")
        )
        assert math.isnan(t_shap.value)
        assert (
            t_shap.reason
            == "Shapley values are rounding, or tokens' ratios cancel, so no share is defined"
        )


def test_the_standard_error_of_one_token_is_that_of_t_shap():
    parts = np.random.default_rng(0).normal(1, 0.3, (5, 4, 1))
    sampled = build_estimate(parts.mean(axis=0), parts)
    for profile in ("equations", "published"):
        t_shap, plain = (
            measure_t_shap_of_outputs(sampled, slice(0, 2), get_fidelity(profile)),
            measure_t_shap(sampled, 2),
        )
        assert t_shap.value == pytest.approx(plain.value)
        assert t_shap.standard_error == pytest.approx(plain.standard_error)


def test_a_jackknife_of_two_tokens_worked_by_hand():
    parts = np.array([[[1.0, 1.0], [1.0, 3.0]], [[3.0, 1.0], [1.0, 1.0]]])
    # Without the first, without the second.
    shares = np.array([(3 / 4 + 1 / 2) / 2, (1 / 2 + 1 / 4) / 2])
    t_shap = measure_t_shap_of_outputs(
        build_estimate(parts.mean(axis=0), parts),
        slice(0, 1),
        get_fidelity("equations"),
    )
    assert t_shap.standard_error == pytest.approx(
        math.sqrt(((shares - shares.mean()) ** 2).sum() / 2)
    )


def test_a_share_worked_by_hand():
    # text |1| + |-2| = 3, image |4| + |-1| = 5
    phi = np.array([[1.0], [-2.0], [4.0], [-1.0]])
    assert compute_t_shap(phi, 2) == 3 / 8
    assert compute_t_shap(np.hstack([phi, 2 * phi]), 2) == 9 / 24  # outputs are summed
    assert compute_t_shap(phi, 4) == 1
    assert compute_t_shap(phi, 0) == 0


def test_no_share_of_nothing():
    t_shap = measure_t_shap(build_estimate(np.zeros((3, 1)), exact=True), 1)
    assert math.isnan(t_shap.value)
    assert math.isnan(t_shap.standard_error)
    assert "every Shapley value is 0" in t_shap.reason


def test_a_jackknife_worked_by_hand():
    # three parts of two players; without one of them the means are (2, 2), (1.5, 3), (2.5, 1):
    # shares 1/2, 1/3, 5/7
    parts = np.array([[[2.0], [2.0]], [[3.0], [0.0]], [[1.0], [4.0]]])
    shares = np.array([1 / 2, 1 / 3, 5 / 7])
    by_hand = math.sqrt(2 / 3 * ((shares - shares.mean()) ** 2).sum())
    assert compute_t_shap_error(parts, 1) == pytest.approx(by_hand)


def test_the_error_of_a_regression_is_the_root_mean_square_change_over_its_draws():
    # shares 1/2 and 1/4 of the draws, 1/4 of the regression
    draws = np.array([[[2.0], [2.0]], [[1.0], [-3.0]]])
    phi = np.array([[1.0], [-3.0]])
    expected = math.sqrt((1 / 16 + 0) / 2)
    assert compute_t_shap_error(draws, 1, phi) == pytest.approx(expected)
    fitted = measure_t_shap(replace(build_estimate(phi, draws), pairs=5), 1)
    assert (fitted.value, fitted.standard_error, fitted.parts) == (
        1 / 4,
        pytest.approx(expected),
        5,
    )
    single = measure_t_shap(replace(build_estimate(phi, draws), pairs=1), 1)
    assert "two give an error" in single.reason


def test_reasons_stand_where_there_is_no_standard_error():
    phi = [[1.0], [1.0]]
    assert measure_t_shap(build_estimate(phi, exact=True), 1).standard_error == 0
    assert measure_t_shap(build_estimate(phi, parts=[phi, phi]), 1).standard_error == 0
    for poor, reason in (
        (build_estimate(phi), "no independent parts"),
        (build_estimate(phi, parts=[phi]), "needs two"),
    ):
        t_shap = measure_t_shap(poor, 1)
        assert t_shap.value == 0.5
        assert math.isnan(t_shap.standard_error)
        assert reason in t_shap.reason
    gone = measure_t_shap(
        build_estimate(phi, parts=[[[2.0], [2.0]], [[0.0], [0.0]]]), 1
    )
    assert math.isnan(gone.standard_error)
    assert "without one permutation" in gone.reason


def test_a_corrected_share_is_the_value_where_nothing_is_sampled_and_of_parts_alone():
    # the parts of the jackknife above: their mean is (2, 2), so 3 * 1/2 less 2 * the mean of the
    # three shares
    parts = [[[2.0], [2.0]], [[3.0], [0.0]], [[1.0], [4.0]]]
    estimate = build_estimate([[2.0], [2.0]], parts)
    assert measure_t_shap(estimate, 1).corrected == pytest.approx(
        3 / 2 - 2 * (1 / 2 + 1 / 3 + 5 / 7) / 3
    )
    assert (
        measure_t_shap(build_estimate([[1.0], [3.0]], exact=True), 1).corrected == 1 / 4
    )
    assert math.isnan(measure_t_shap(replace(estimate, pairs=2), 1).corrected)


def test_evaluations_for_a_point_grow_with_the_square_of_the_error():
    assert count_evaluations_for_point(100, 0.01 / 1.96) == pytest.approx(100)
    assert count_evaluations_for_point(100, 0.02 / 1.96) == pytest.approx(400)
    assert count_evaluations_for_point(100, 0.0) == 0


def test_the_skew_fits_print():
    cells = {}
    for table in ("4.2", "B.1"):
        with (RESOURCES / f"published/thesis-{table}.csv").open() as lines:
            for row in csv.DictReader(lines):
                if (
                    row["metric"] in ("mm_skew", "t_shap_c", "t_shap_f")
                    and row["dataset"] == "average"
                ):
                    metric = (
                        row["setting"] if row["metric"] == "mm_skew" else row["metric"]
                    )
                    cells.setdefault((table, row["model"], metric), {})[
                        row["metric"] == "mm_skew"
                    ] = row["value"]
    assert len(cells) == 18
    for cell, paper_value in cells.items():
        assert classify_skew(float(paper_value[False]) / 100) == paper_value[True], cell


def test_five_points_are_no_skew():
    assert [classify_skew(share) for share in (0.45, 0.55, 0.4499, 0.5501)] == [
        "balanced",
        "balanced",
        "visual",
        "textual",
    ]


def test_the_standard_error_covers():
    # T-SHAP within 1.96 (t for few parts: 2.26) standard errors of the exact one, over 200 draws of
    # ten permutations
    players, text = 12, 5
    terms = random_terms(players, 8, longest=6, count=60)
    game = unanimity(terms)
    truth = compute_t_shap(unanimity_phi(players, terms), text)
    assert compute_t_shap(
        play(begin_exact(players), game)[0].phi, text
    ) == pytest.approx(truth)
    drawn = [
        play(begin_permutations(players, 250, seed), game)[0] for seed in range(200)
    ]
    t_shap = [measure_t_shap(one, text) for one in drawn]
    off = np.array([one.value - truth for one in t_shap])
    errors = np.array([one.standard_error for one in t_shap])
    assert 0.9 <= np.mean(np.abs(off) <= 2.26 * errors) <= 0.99
    assert np.sqrt(np.mean(errors**2)) == pytest.approx(off.std(), rel=0.25)
    magnitude = np.mean([np.abs(one.phi).sum() for one in drawn])
    # Noise adds to |phi|.
    assert magnitude > np.abs(unanimity_phi(players, terms)).sum()


def test_the_interval_is_students_t_within_0_and_1():
    # t = 2.776 with 4 degrees of freedom, 12.706 with 1
    assert TShap(0.5, 0.01, None, 5).interval == pytest.approx(
        (0.5 - 0.02776, 0.5 + 0.02776), abs=1e-5
    )
    assert TShap(0.95, 0.05, None, 2).interval == pytest.approx(
        (0.95 - 0.6353, 1.0), abs=1e-4
    )
    assert TShap(0.4, 0.0).interval == (0.4, 0.4)
    assert all(map(math.isnan, TShap(0.4, math.nan, "no parts").interval))
