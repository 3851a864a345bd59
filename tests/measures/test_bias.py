"""Bias of T-SHAP from few permutations, in games whose coalitions are a table."""

import numpy as np
import pytest

from waltz.attribution.shapley.estimate import estimate_in_step
from waltz.attribution.shapley.estimators import begin_exact
from waltz.attribution.t_shap import compute_t_shap, correct_t_shap
from waltz.core.intervals import Resampling
from waltz.measures.bias import (
    Table,
    draw_parts,
    measure_estimators,
    measure_permutations,
    summarize_draws,
)


@pytest.fixture(scope="module")
def table():
    """A game of 2 tokens and 4 patches with interactions of all orders, its exact T-SHAP from all
    coalitions.
    """
    values = np.random.default_rng(7).normal(size=(4, 16)) + np.arange(16)
    (estimate,) = estimate_in_step(
        [begin_exact(6)], Table(values, 0.0, "").compute_values
    )
    return Table(values, 100 * float(compute_t_shap(estimate.phi, 2)), "image")


def test_values_of_coalitions_are_found_by_the_bits_of_their_masks():
    table = Table(np.arange(8.0).reshape(2, 4), 0.0, "")
    masks = np.array([[False, False, False], [True, False, True], [True, True, False]])
    assert (table.tokens, table.players) == (1, 3)
    assert table.compute_values([masks])[0][:, 0].tolist() == [0.0, 6.0, 5.0]


def test_a_corrected_share_worked_by_hand():
    # means of both: text 1, image 3, so 1/4; without one part: 2 / 4 and 0 / 4
    parts = np.array([[0.0, 4.0], [2.0, 2.0]])[:, :, None]
    assert correct_t_shap(parts, 1) == pytest.approx(2 * 1 / 4 - (1 / 2 + 0) / 2)


def test_the_correction_is_closer_than_the_raw_share_on_average():
    # text has phi 0 and noise of 1, image has phi 1 without noise: T-SHAP is 0
    generator = np.random.default_rng(3)
    draws = [
        np.stack([generator.normal(size=(10, 1)), np.ones((10, 1))], axis=1)
        for _ in range(400)
    ]
    found = summarize_draws(Table(np.zeros((2, 2)), 0.0, ""), draws)
    assert 0 < found["bias_corrected"] < 0.7 * found["bias"]
    for suffix in ("", "_corrected"):  # half of the players are text
        assert found[f"bias_towards_players{suffix}"] == pytest.approx(
            found[f"bias{suffix}"]
        )


def test_intervals_that_hold_the_exact_value_are_those_of_students_t():
    # shares 1 / 3.8 and 1 / 4.2 without one part, so a standard error of half their difference,
    # 1.2531 points
    draw = np.array([[1.0, 3.2], [1.0, 2.8]])[:, :, None]
    # T is 12.706.
    for t_shap, covered in (
        (25 + 12.70 * 1.2531, 100),
        (25 + 12.72 * 1.2531, 0),
    ):
        assert (
            summarize_draws(Table(np.zeros((2, 2)), t_shap, ""), [draw])["covered"]
            == covered
        )


def test_errors_of_games_are_pooled_as_squares(table):
    other = Table(table.values[::-1] * 3, table.t_shap + 5, "other")
    rows = measure_permutations(
        "game",
        [table, other],
        [2],
        repeats=5,
        seed=1,
        resampling=Resampling(100, 0.95, 1),
    )
    # None twice, so that the games' noise is independent.
    seeds = {
        table: range(1, 6),
        other: range(6, 11),
    }
    errors = [
        summarize_draws(game, [draw_parts(game, 2, seed) for seed in own])["error"]
        for game, own in seeds.items()
    ]
    (pooled,) = [row.measure.value for row in rows if row.quantity == "error"]
    assert pooled == pytest.approx(np.sqrt((errors[0] ** 2 + errors[1] ** 2) / 2))


def test_more_permutations_have_less_error_and_the_exact_value_is_reported(table):
    how = Resampling(100, 0.95, 1)
    rows = measure_permutations(
        "game", [table, table], [2, 50], repeats=20, seed=1, resampling=how
    )
    values = {(row.level, row.quantity): row.measure.value for row in rows}
    assert values["50", "error"] < values["2", "error"] / 2
    assert values["all", "t_shap"] == pytest.approx(table.t_shap)
    assert values["", "evaluations_for_1_point"] == pytest.approx(
        1.96**2 * 50 * values["50", "error"] ** 2 * 13
    )
    again = measure_permutations(
        "game", [table, table], [2], repeats=20, seed=1, resampling=how
    )
    assert {row.quantity: row.measure.value for row in again if row.level == "2"}[
        "error"
    ] == values["2", "error"]


def test_estimators_are_compared_at_one_budget(table):
    rows = measure_estimators(
        "game", [table], ["permutation", "exact"], 3, 1, Resampling(100, 0.95, 1)
    )
    assert {row.level for row in rows} == {"permutation", "exact"}
    errors = {row.level: row.measure.value for row in rows if row.quantity == "error"}
    assert errors["exact"] == pytest.approx(0) != errors["permutation"]
