"""Exact values against closed forms, Shapley's axioms, the definition and another library."""

from itertools import permutations as orders
from math import factorial

import numpy as np
import pytest
import shapiq
from hypothesis import given, settings
from hypothesis import strategies as st

from stand_ins.games import additive, play, random_terms, unanimity, unanimity_phi
from waltz.attribution.shapley.exact import begin_exact
from waltz.attribution.shapley.permutations import begin_permutations
from waltz.core.errors import UserError


def table_game(values):
    """A game by its table; coalition number = sum of 2**player."""
    values = np.asarray(values, dtype=np.float64)
    return lambda masks: values[masks @ (1 << np.arange(masks.shape[1]))].reshape(-1, 1)


def by_orders(players, game):
    """The mean over all orders, another form of the definition."""
    phi = np.zeros(players)
    for order in orders(range(players)):
        masks = np.tri(players + 1, players, -1, dtype=bool)[:, np.argsort(order)]
        phi[list(order)] += np.diff(game(masks)[:, 0])
    return phi / factorial(players)


def test_two_players_worked_by_hand():
    # v() = 1, v(a) = 3, v(b) = 2, v(ab) = 8: a adds 2 to nobody and 6 to b, b adds 1 and 5
    found, asked = play(begin_exact(2), table_game([1, 3, 2, 8]))
    np.testing.assert_allclose(found.phi, [[4.0], [3.0]])
    assert (found.base_value.item(), found.value.item(), found.requested, found.exact) == (1.0, 8.0, 4, True)
    assert len(asked) == 1


@pytest.mark.parametrize("players", [0, 1, 5, 12])
def test_additive_games_give_their_weights(players):
    weights = np.random.default_rng(players).normal(size=(players, 2))
    found, _ = play(begin_exact(players), additive(weights) if players else lambda masks: np.ones((len(masks), 2)))
    np.testing.assert_allclose(found.phi, weights, atol=1e-13)
    assert found.residual <= 1e-12


def test_unanimity_games_share_equally_in_the_team():
    terms = random_terms(10, 4, longest=10)
    found, _ = play(begin_exact(10), unanimity(terms))
    np.testing.assert_allclose(found.phi, unanimity_phi(10, terms), atol=1e-12)


def test_symmetric_games_give_equal_values():
    found, _ = play(begin_exact(9), lambda masks: np.sqrt(masks.sum(axis=1, keepdims=True)))
    np.testing.assert_allclose(found.phi, np.full((9, 1), 3 / 9), atol=1e-14)


def test_a_glove_market():
    # one left glove, two right ones, a pair is worth 1: 2/3 to the left glove, 1/6 to each right one
    found, _ = play(
        begin_exact(3), lambda masks: (masks[:, :1] & masks[:, 1:].any(axis=1, keepdims=True)).astype(float)
    )
    np.testing.assert_allclose(found.phi[:, 0], [2 / 3, 1 / 6, 1 / 6])


tables = st.integers(1, 5).flatmap(
    lambda players: st.lists(st.floats(-1e3, 1e3), min_size=2**players, max_size=2**players)
)


@given(tables)
@settings(max_examples=60, deadline=None)
def test_random_games_agree_with_all_orders(values):
    players = len(values).bit_length() - 1
    found, _ = play(begin_exact(players), table_game(values))
    np.testing.assert_allclose(found.phi[:, 0], by_orders(players, table_game(values)), atol=1e-9)
    assert found.residual <= 1e-9
    assert found.residual <= 1e-5 * max(1e-3, np.abs(found.value - found.base_value).max())


@given(tables, st.floats(-10, 10))
@settings(max_examples=40, deadline=None)
def test_a_dummy_gets_its_own_worth_and_changes_nobody_else(values, worth):
    players = len(values).bit_length() - 1
    alone, _ = play(begin_exact(players), table_game(values))
    found, _ = play(begin_exact(players + 1), table_game([*values, *(value + worth for value in values)]))
    np.testing.assert_allclose(found.phi[:players], alone.phi, atol=1e-9)
    assert found.phi[players].item() == pytest.approx(worth, abs=1e-9)


@given(st.integers(2, 4).flatmap(lambda n: st.tuples(*[st.lists(st.floats(-9, 9), min_size=2**n, max_size=2**n)] * 2)))
@settings(max_examples=30, deadline=None)
def test_values_of_a_sum_are_the_sum_of_values(both):
    first, second = both
    players = len(first).bit_length() - 1
    summed, _ = play(begin_exact(players), table_game(np.add(first, second)))
    parts = [play(begin_exact(players), table_game(values))[0].phi for values in both]
    np.testing.assert_allclose(summed.phi, sum(parts), atol=1e-11)
    swapped = np.array(second).reshape((2,) * players).transpose().ravel()  # players in reverse order
    reverse, _ = play(begin_exact(players), table_game(swapped))
    np.testing.assert_allclose(reverse.phi[::-1], parts[1], atol=1e-11)


def test_it_agrees_with_shapiq_and_with_all_permutations_of_the_sampler():
    values = np.random.default_rng(0).normal(size=2**6)
    found, _ = play(begin_exact(6), table_game(values))
    other = shapiq.ExactComputer(n_players=6, game=lambda masks: table_game(values)(masks.astype(bool))[:, 0])("SV")
    np.testing.assert_allclose(found.phi[:, 0], [other[(player,)] for player in range(6)], atol=1e-12)
    sampled, _ = play(begin_permutations(6, 13 * 800, 0), table_game(values))
    assert np.abs(sampled.phi - found.phi).max() < 0.08


def test_thirteen_players_are_refused():
    with pytest.raises(UserError, match=r"got 13 players, expected at most 12"):
        begin_exact(13)
