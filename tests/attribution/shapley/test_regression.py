"""Regressions on coalitions: closed forms against enumeration, what is left out against refits,
honest intervals.
"""

from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import binom, t

from stand_ins.games import additive, play, predict_part, random_terms, unanimity
from waltz.attribution.shapley.estimate import AttributionSettings
from waltz.attribution.shapley.estimators import (
    begin_estimation,
    begin_exact,
    begin_permutations,
)
from waltz.attribution.shapley.regression import (
    CORRELATIONS,
    NUGGET,
    _choose_correlation,
    _draw_phi,
    _estimate_bias,
    _fit_part,
    begin_regression,
    choose_design_correlation,
    count_fixed_subsets,
    draw_subsets,
    fit_subsets,
)
from waltz.attribution.t_shap import compute_t_shap, compute_t_shap_error
from waltz.core.errors import UserError
from waltz.fidelity import EQUATIONS


def list_coalitions(players):
    return (np.arange(2**players)[:, None] >> np.arange(players) & 1).astype(bool)


def saturating_game(players, seed):
    """A game like a score: a squashed sum with some interactions."""
    generator = np.random.default_rng(seed)
    weights, pairs = (
        generator.normal(0.3, 0.5, players),
        generator.normal(0, 0.1, (players, players)),
    )
    return lambda masks: np.tanh(
        masks @ weights + np.einsum("ki,ij,kj->k", masks, pairs, masks)
    )[:, None]


def play_table(players, table):
    """Return the exact Shapley values of a game, from the values of all coalitions in order."""
    numbers = 1 << np.arange(players)
    return play(begin_exact(players), lambda masks: table[masks @ numbers])[0].phi


@pytest.mark.parametrize(("players", "count"), [(4, 12), (5, 20), (7, 16), (7, 40)])
def test_the_values_are_those_of_the_predicted_game(players, count):
    game, every = saturating_game(players, count), list_coalitions(players)
    masks = draw_subsets(players, count, (3,))
    odd, even = (predict_part(masks, game(masks), sign)[0] for sign in (-1, 1))
    predicted = game(masks[:2]).mean() + odd + even
    fit = fit_subsets(masks, game(masks))
    np.testing.assert_allclose(
        fit.gains.sum(axis=1), play_table(players, predicted), atol=1e-7
    )
    sizes = every.sum(axis=1)
    means = [predicted[sizes == size].mean(axis=0) for size in range(players + 1)]
    np.testing.assert_allclose(fit.means, means, atol=2e-5)


@pytest.mark.parametrize(("players", "count"), [(2, 4), (4, 12), (5, 12), (6, 30)])
def test_draws_have_the_posterior_covariance_and_sizes_of_the_misses(players, count):
    masks = draw_subsets(players, count, (1,))
    values = np.hstack([saturating_game(players, seed)(masks) for seed in (1, 2)])
    _, covariance, misses = predict_part(masks, values, -1)
    # phi is linear in the table of all values.
    weights = play_table(players, np.eye(2**players))
    scale = misses.T @ misses / len(misses)
    expected = np.einsum("is,st,jt,de->idje", weights, covariance, weights, scale)
    odd = _fit_part(masks, values, -1)
    errors = np.array([_draw_phi(odd, 0, seed) for seed in range(200)]).reshape(
        -1, players, 2
    )
    errors -= odd.gains.sum(axis=1)
    np.testing.assert_allclose(errors.mean(axis=0), 0, atol=1e-12)
    found = np.einsum("kid,kje->idje", errors, errors) / len(errors)
    np.testing.assert_allclose(found, expected, atol=0.05 * expected.max() + 1e-9)


@pytest.mark.parametrize("count", [24, 50, 64])
def test_bias_is_what_the_change_since_half_of_the_chosen_pairs_leaves(count):
    masks = draw_subsets(6, count, (1,))
    values = np.hstack([saturating_game(6, seed)(masks) for seed in (1, 2)])
    half = 14 + (count - 14) // 4 * 2
    weights = play_table(6, np.eye(64))
    estimates, deviations = [], []
    for known in (half, count):
        table, covariance, misses = predict_part(masks[:known], values[:known], -1)
        variance = np.trace(weights @ covariance @ weights.T)
        estimates.append(weights @ table)
        deviations.append(np.sqrt(max(variance, 0) * (misses**2).mean(axis=0)))
    decrease = deviations[1] / deviations[0]
    remaining = np.minimum(1, decrease / np.maximum(1 - decrease, 1e-9))
    expected = (estimates[1] - estimates[0]) * remaining
    bias = _estimate_bias(_fit_part(masks, values, -1), masks, values)
    np.testing.assert_allclose(bias, expected, atol=1e-5)
    assert (np.abs(bias).max() < 1e-3) == (count == 64)
    draws = _draw_phi(_fit_part(masks, values, -1), 100 + bias)
    errors = np.abs(draws - draws.mean(axis=0))
    np.testing.assert_allclose(errors.mean(axis=0), 100 + bias, atol=0.2)


def test_intervals_cover_values_of_games_from_the_prior():
    players, every = 8, list_coalitions(8)
    distances = (every[:, None] != every[None]).sum(axis=2)
    factor = np.linalg.cholesky(0.8**distances + NUGGET * np.eye(2**players))
    table = factor @ np.random.default_rng(0).normal(size=(2**players, 60))
    truth = play_table(players, table)
    is_inside = []
    for number in range(60):
        values = table[:, [number]]
        estimate, _ = play(
            begin_regression(players, 50, number),
            lambda masks, values=values: values[masks @ (1 << np.arange(players))],
        )
        deviations = np.sqrt(((estimate.parts - estimate.phi) ** 2).mean(axis=0))
        quantile = t.ppf(0.975, estimate.pairs - 1)
        errors = np.abs(estimate.phi[:, 0] - truth[:, number])
        is_inside.append(errors <= quantile * deviations[:, 0])
    assert abs(np.mean(is_inside) - 0.95) < 0.03


@pytest.mark.parametrize("players", [1, 2, 3, 5, 8])
def test_coalitions_are_distinct_paired_and_nested(players):
    most = draw_subsets(players, 2**players, (0,))
    assert len(np.unique(most, axis=0)) == len(most) == 2**players
    fixed = count_fixed_subsets(players)
    np.testing.assert_array_equal(most[fixed::2], ~most[fixed + 1 :: 2])
    for count in range(fixed, 2**players):
        np.testing.assert_array_equal(
            draw_subsets(players, count, (0,)), most[: fixed + (count - fixed) // 2 * 2]
        )


def test_all_coalitions_give_exact_values():
    game = saturating_game(6, 0)
    masks = draw_subsets(6, 64, (0,))
    np.testing.assert_allclose(
        fit_subsets(masks, game(masks)).gains.sum(axis=1),
        play(begin_exact(6), game)[0].phi,
        atol=1e-6,
    )
    assert play(
        begin_estimation(
            "regression", 6, 3, AttributionSettings(EQUATIONS, evaluations=64)
        ),
        game,
    )[0].exact


@pytest.mark.parametrize(
    ("players", "count"), [(8, 178), (8, 230), (8, 252), (10, 716), (10, 1020)]
)
def test_nearly_all_coalitions_keep_the_values_of_none_and_all(players, count):
    masks = draw_subsets(players, count, (2,))
    values = np.random.default_rng(2).normal(size=(len(masks), 3))
    fit = fit_subsets(masks, values)
    np.testing.assert_allclose(fit.means[[0, -1]], values[:2], atol=2e-4)
    np.testing.assert_allclose(
        fit.gains.sum(axis=(0, 1)), values[1] - values[0], atol=2e-4
    )


def test_additive_games_give_their_weights_from_the_fewest_coalitions():
    weights = np.random.default_rng(0).normal(size=15)
    estimate, coalitions = play(begin_regression(15, 32, 0), additive(weights))
    assert sum(map(len, coalitions)) == 32
    np.testing.assert_allclose(
        estimate.phi[:, 0], weights, atol=1e-4 * np.abs(weights).max()
    )


def test_values_sum_to_what_all_add_and_outputs_share_coalitions():
    games = [saturating_game(13, seed) for seed in (1, 2)]
    estimate, _ = play(
        begin_regression(13, 80, 0),
        lambda masks: np.hstack([game(masks) for game in games]),
    )
    assert estimate.phi.shape == (13, 2)
    assert estimate.residual < 1e-7


def test_it_needs_fewer_coalitions_than_permutations():
    ours, plain = [], []
    for seed in range(6):
        game = saturating_game(10, seed)
        exact = play(begin_exact(10), game)[0].phi
        plain.append(
            np.linalg.norm(play(begin_permutations(10, 210, seed), game)[0].phi - exact)
        )
        ours.append(
            np.linalg.norm(play(begin_regression(10, 54, seed), game)[0].phi - exact)
        )
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
                hits += (
                    abs(compute_t_shap(estimate.phi, 4) - truth)
                    <= t.ppf(0.975, estimate.pairs - 1) * error
                )
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
    assert [len(coalitions) for coalitions in first_rounds] == [26] + [16] * (
        len(rounds) - 1
    )
    never, _ = play(begin_regression(12, 60, 1, 5, 1e-9), game)
    assert (never.stopped_by, never.requested) == ("evaluations", 58)


def test_checks_grow_by_a_tenth_and_two_that_follow_each_other_must_meet_the_standard_error():
    game = saturating_game(12, 4)
    # 26 coalitions and 10 pairs, in rounds of 16; 186 is less than 1.1 * 170
    checks = [58, 74, 90, 106, 122, 138, 154, 170, 202]
    free = [play(begin_regression(12, count, 1, 5), game)[0] for count in checks]
    errors = [
        compute_t_shap_error(estimate.parts, 5, estimate.phi) for estimate in free
    ]
    stops = set()
    for target in sorted(errors):
        stopped, _ = play(begin_regression(12, 217, 1, 5, target), game)
        met = [error <= target for error in errors]
        expected = next(
            (index + 1 for index, both in enumerate(pairwise(met)) if all(both)),
            len(free) - 1,
        )
        np.testing.assert_array_equal(stopped.phi, free[expected].phi)
        assert stopped.requested == checks[expected]
        stops.add(expected)
    assert len(stops) > 2


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("seed", range(2))
def test_the_correlation_predicts_each_value_best_from_all_others(seed, sign):
    game, masks = saturating_game(6, seed), draw_subsets(6, 30, (seed,))
    centered = game(masks) - game(masks[:2]).mean(axis=0)
    values = (centered[::2] + sign * centered[1::2]) / 2**0.5
    distances = (masks[::2, None] != masks[None, ::2]).sum(axis=2)

    def miss(correlation):
        missed = 0.0
        covariance = correlation**distances + sign * correlation ** (6 - distances)
        for index in range(len(values)):
            rest = np.delete(np.arange(len(values)), index)
            known = covariance[np.ix_(rest, rest)]
            predicted = covariance[index, rest] @ np.linalg.solve(known, values[rest])
            missed += float(((predicted - values[index]) ** 2).sum())
        return missed

    chosen, inverse = _choose_correlation(distances, 6, sign, values)
    assert chosen == min(CORRELATIONS, key=miss)
    covariance = chosen**distances + sign * chosen ** (6 - distances)
    np.testing.assert_allclose(inverse @ covariance, np.eye(len(values)), atol=1e-4)


def test_first_pairs_lower_the_variance_of_phi_most_and_later_ones_do_so_by_size():
    players, fixed = 7, 16
    masks = draw_subsets(players, 2**players, (5,))
    halves = masks[::2]
    correlation = choose_design_correlation(players)
    every = list_coalitions(players)
    weights = play_table(players, np.eye(2**players))

    def sum_variances(known):
        distances = (every[:, None] != every[None]).sum(axis=2)
        part = correlation**distances - correlation ** (players - distances)
        numbers = known @ (1 << np.arange(players))
        block = part[np.ix_(numbers, numbers)] + NUGGET * np.eye(len(known))
        posterior = part - part[:, numbers] @ np.linalg.solve(block, part[numbers])
        return np.trace(weights @ posterior @ weights.T)

    # Seven players have 56 pairs, which are all candidates.
    first, sizes = fixed // 2, halves.sum(axis=1)
    for position in (*range(first, first + players), 20, 21):
        candidates = halves[position:]
        if position >= first + players:
            candidates = candidates[sizes[position:] == sizes[position]]
        chosen, best = (
            min(sum_variances(np.vstack([halves[:position], half])) for half in some)
            for some in (candidates[:1], candidates)
        )
        assert chosen == pytest.approx(best, rel=1e-6)
    numbers = [np.bincount(sizes[first:end], minlength=4)[2:4] for end in (28, 29, 30)]
    assert all(np.ptp(counts) <= 1 for counts in numbers)


def test_players_that_are_always_visible_get_nothing():
    game = saturating_game(8, 0)
    fixed = np.isin(np.arange(8), (0, 5))
    settings = AttributionSettings(EQUATIONS, evaluations=30, seed=2)
    estimate, coalitions = play(
        begin_estimation("regression", 8, 3, settings, fixed), game
    )
    assert np.concatenate(coalitions)[:, fixed].all()
    assert estimate.phi[fixed].tolist() == [[0.0], [0.0]]
    assert estimate.parts[:, fixed].tolist() == [[[0.0], [0.0]]] * len(estimate.parts)
    assert estimate.residual < 1e-7


def test_too_few_evaluations_say_what_to_do():
    with pytest.raises(
        UserError,
        match=r"too small for regression with 20 players \(got 41, expected at least 42\)",
    ):
        next(begin_regression(20, 41, 0))


def test_a_game_of_nothing_has_no_values():
    estimate, _ = play(
        begin_regression(6, 40, 0), lambda masks: np.full((len(masks), 1), 2.5)
    )
    np.testing.assert_allclose(estimate.phi, 0, atol=1e-12)
