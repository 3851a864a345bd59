"""Regressions on coalitions: closed forms against enumeration, what is left out against refits, honest intervals."""

import numpy as np
import pytest
from scipy.stats import binom, t

from stand_ins.games import additive, play, random_terms, unanimity
from waltz.attribution.shapley.estimate import AttributionSettings
from waltz.attribution.shapley.estimators import begin_estimation, begin_exact, begin_permutations
from waltz.attribution.shapley.regression import (
    NUGGET,
    _choose_correlation,
    begin_regression,
    count_fixed_subsets,
    draw_subsets,
    fit_subsets,
)
from waltz.attribution.t_shap import compute_t_shap, compute_t_shap_error
from waltz.core.errors import UserError


def list_coalitions(players):
    return (np.arange(2**players)[:, None] >> np.arange(players) & 1).astype(bool)


def saturating_game(players, seed):
    """A game like a score: a squashed sum with some interactions."""
    generator = np.random.default_rng(seed)
    weights, pairs = generator.normal(0.3, 0.5, players), generator.normal(0, 0.1, (players, players))
    return lambda masks: np.tanh(masks @ weights + np.einsum("ki,ij,kj->k", masks, pairs, masks))[:, None]


def predict(masks, values, every):
    """The prediction of all coalitions, as the module's first lines define it."""
    distances = (masks[:, None] != masks[None]).sum(axis=2)
    centre = values[:2].mean(axis=0)
    correlation, _ = _choose_correlation(distances, values - centre)
    coefficients = np.linalg.solve(correlation**distances + NUGGET * np.eye(len(masks)), values - centre)
    return centre + correlation ** (every[:, None] != masks[None]).sum(axis=2) @ coefficients, correlation


@pytest.mark.parametrize(("players", "count"), [(4, 12), (5, 20), (7, 16), (7, 40)])
def test_the_values_are_those_of_the_predicted_game(players, count):
    game, every = saturating_game(players, count), list_coalitions(players)
    masks = draw_subsets(players, count, (3,))
    predicted, _ = predict(masks, game(masks), every)
    exact, _ = play(begin_exact(players), lambda coalitions: predicted[coalitions @ (1 << np.arange(players))])
    fit = fit_subsets(masks, game(masks))
    np.testing.assert_allclose(fit.gains.sum(axis=1), exact.phi, atol=1e-7)
    sizes = every.sum(axis=1)
    means = [predicted[sizes == size].mean(axis=0) for size in range(players + 1)]
    np.testing.assert_allclose(fit.means, means, atol=1e-7)


def test_residuals_are_those_of_a_fit_without_the_pair():
    masks = draw_subsets(7, 40, (1,))
    game = saturating_game(7, 1)
    fit = fit_subsets(masks, game(masks))
    distances = (masks[:, None] != masks[None]).sum(axis=2)
    centre = game(masks[:2]).mean()
    correlation, _ = _choose_correlation(distances, game(masks) - centre)
    pair, rest = [20, 21], np.r_[:20, 22:40]
    coefficients = np.linalg.solve(correlation ** distances[np.ix_(rest, rest)], game(masks[rest])[:, 0] - centre)
    predicted = centre + correlation ** distances[np.ix_(pair, rest)] @ coefficients
    np.testing.assert_allclose(fit.residuals[2, :, 0], game(masks[pair])[:, 0] - predicted, atol=1e-6)
    # its part is the game of that prediction, and the pair's residuals for all coalitions of their sizes
    others = np.linalg.solve(correlation ** distances[np.ix_(rest, rest)], np.eye(len(rest)))
    every = list_coalitions(7)
    table = centre + correlation ** (every[:, None] != masks[rest][None]).sum(axis=2) @ (others @ (
        game(masks[rest])[:, 0] - centre))  # fmt: skip
    without, _ = play(begin_exact(7), lambda coalitions: table[coalitions @ (1 << np.arange(7))][:, None])
    lower = masks[16:].reshape(-1, 2, 7).sum(axis=2).min(axis=1)
    size, drawn = lower[2], (lower == lower[2]).sum()
    possible = {2: 21, 3: 35}[size]
    weight = len(lower) / drawn * (possible - drawn + 1) / possible
    expected = without.phi[:, 0].copy()
    for half in (0, 1):
        mask, residual = masks[pair[half]], fit.residuals[2, half, 0]
        expected[mask] += weight * residual / mask.sum()
        expected[~mask] -= weight * residual / (~mask).sum()
    part = fit.gains.sum(axis=1) + np.einsum("his,hd->id", fit.gain_changes[2], fit.residuals[2])
    np.testing.assert_allclose(part[:, 0], expected, atol=1e-6)


@pytest.mark.parametrize("players", [1, 2, 3, 5, 8])
def test_coalitions_are_distinct_paired_and_nested(players):
    most = draw_subsets(players, 2**players, (0,))
    assert len(np.unique(most, axis=0)) == len(most) == 2**players
    fixed = count_fixed_subsets(players)
    np.testing.assert_array_equal(most[fixed::2], ~most[fixed + 1 :: 2])
    for count in range(fixed, 2**players):
        np.testing.assert_array_equal(draw_subsets(players, count, (0,)), most[: fixed + (count - fixed) // 2 * 2])


def test_all_coalitions_give_exact_values():
    game = saturating_game(6, 0)
    masks = draw_subsets(6, 64, (0,))
    np.testing.assert_allclose(
        fit_subsets(masks, game(masks)).gains.sum(axis=1), play(begin_exact(6), game)[0].phi, atol=1e-6
    )
    assert play(begin_estimation("regression", 6, 3, AttributionSettings("equations", evaluations=64)), game)[0].exact


@pytest.mark.parametrize(("players", "count"), [(8, 178), (8, 230), (8, 252), (10, 716), (10, 1020)])
def test_nearly_all_coalitions_keep_the_values_of_none_and_all(players, count):
    masks = draw_subsets(players, count, (2,))
    values = np.random.default_rng(2).normal(size=(len(masks), 3))
    fit = fit_subsets(masks, values)
    np.testing.assert_allclose(fit.means[[0, -1]], values[:2], atol=2e-4)
    np.testing.assert_allclose(fit.gains.sum(axis=(0, 1)), values[1] - values[0], atol=2e-4)


def test_additive_games_give_their_weights_from_the_fewest_coalitions():
    weights = np.random.default_rng(0).normal(size=15)
    estimate, coalitions = play(begin_regression(15, 32, 0), additive(weights))
    assert sum(map(len, coalitions)) == 32
    np.testing.assert_allclose(estimate.phi[:, 0], weights, atol=2e-3 * np.abs(weights).max())


def test_values_sum_to_what_all_add_and_outputs_share_coalitions():
    games = [saturating_game(13, seed) for seed in (1, 2)]
    estimate, _ = play(begin_regression(13, 80, 0), lambda masks: np.hstack([game(masks) for game in games]))
    assert estimate.phi.shape == (13, 2)
    assert estimate.residual < 1e-7


def test_it_needs_fewer_coalitions_than_permutations():
    ours, plain = [], []
    for seed in range(6):
        game = saturating_game(10, seed)
        exact = play(begin_exact(10), game)[0].phi
        plain.append(np.linalg.norm(play(begin_permutations(10, 210, seed), game)[0].phi - exact))
        ours.append(np.linalg.norm(play(begin_regression(10, 54, seed), game)[0].phi - exact))
    assert np.mean(ours) < np.mean(plain)


def test_intervals_of_t_shap_cover_the_truth():
    hits, trials = 0, 0
    for number in range(12):
        terms = random_terms(9, number)
        for game in (saturating_game(9, number), unanimity(terms)):
            truth = compute_t_shap(play(begin_exact(9), game)[0].phi, 4)
            for seed in range(5):
                estimate, _ = play(begin_regression(9, 60, seed), game)
                error = compute_t_shap_error(estimate.parts, 4, estimate.phi)
                hits += abs(compute_t_shap(estimate.phi, 4) - truth) <= t.ppf(0.975, len(estimate.parts) - 1) * error
                trials += 1
    assert hits >= binom.ppf(0.01, trials, 0.95)


def test_sampling_stops_at_the_requested_standard_error():
    game = saturating_game(12, 4)
    free, _ = play(begin_regression(12, 300, 1, 5), game)
    target = 2 * compute_t_shap_error(free.parts, 5, free.phi)
    stopped, rounds = play(begin_regression(12, 300, 1, 5, target), game)
    assert stopped.stopped_by == "standard error"
    assert compute_t_shap_error(stopped.parts, 5, stopped.phi) <= target
    assert stopped.requested < 300
    assert len(rounds) > 1
    again, first_rounds = play(begin_regression(12, stopped.requested + 15, 1, 5), game)
    np.testing.assert_array_equal(stopped.phi, again.phi)
    assert [len(coalitions) for coalitions in first_rounds] == [26] + [16] * (len(rounds) - 1)
    never, _ = play(begin_regression(12, 60, 1, 5, 1e-9), game)
    assert (never.stopped_by, never.requested) == ("evaluations", 58)


def test_players_that_are_always_visible_get_nothing():
    game = saturating_game(8, 0)
    fixed = np.isin(np.arange(8), (0, 5))
    settings = AttributionSettings("equations", evaluations=30, seed=2)
    estimate, coalitions = play(begin_estimation("regression", 8, 3, settings, fixed), game)
    assert np.concatenate(coalitions)[:, fixed].all()
    assert estimate.phi[fixed].tolist() == [[0.0], [0.0]]
    assert estimate.parts[:, fixed].tolist() == [[[0.0], [0.0]]] * len(estimate.parts)
    assert estimate.residual < 1e-7


def test_too_few_evaluations_say_what_to_do():
    with pytest.raises(UserError, match=r"too small for regression with 20 players \(got 41, expected at least 42\)"):
        next(begin_regression(20, 41, 0))


def test_a_game_of_nothing_has_no_values():
    estimate, _ = play(begin_regression(6, 40, 0), lambda masks: np.full((len(masks), 1), 2.5))
    np.testing.assert_allclose(estimate.phi, 0, atol=1e-12)
