"""Permutation sampling: as shap draws and averages, for any number of players, without side effects."""

from itertools import pairwise

import numpy as np
import pytest
import shap

from stand_ins.games import additive, play, random_terms, unanimity, unanimity_phi
from waltz.attribution.shapley.permutations import begin_permutations, count_published_evaluations
from waltz.attribution.t_shap import compute_t_shap_error, measure_t_shap
from waltz.core.errors import UserError


def row_by_row(game, players, seed, evaluations):
    """The pattern of the released code: a masker that multiplies, a function that takes one row after the other."""

    def masker(mask, x):
        return (np.where(mask, x, 0).reshape(1, -1),)

    def predict(rows):
        return np.array([game(row.reshape(1, -1) > 0)[0, 0] for row in rows])

    explainer = shap.PermutationExplainer(predict, masker, seed=seed)
    found = explainer(np.ones((1, players)), max_evals=evaluations, silent=True)
    return found.values[0]


@pytest.mark.parametrize(("players", "seed"), [(2, 0), (7, 3), (26, 11)])
def test_the_values_are_those_of_shap_driven_row_by_row(players, seed):
    game = unanimity(random_terms(players, seed, longest=min(5, players)))
    found, asked = play(begin_permutations(players, count_published_evaluations(players), seed), game)
    expected = row_by_row(game, players, seed, 10 * (2 * players + 1))
    np.testing.assert_allclose(found.phi[:, 0], expected, rtol=0, atol=1e-12)
    assert [len(masks) for masks in asked] == [2 * players + 1] * 10
    assert found.requested == 10 * (2 * players + 1)


def test_permutations_are_drawn_as_the_published_code_draws_them():
    # one shuffle of the same array after another, from numpy's global generator as the seed leaves it
    np.random.seed(5)
    order = np.arange(6)
    drawn = []
    for _ in range(10):
        np.random.shuffle(order)
        drawn.append(order.copy())
    _, asked = play(begin_permutations(6, count_published_evaluations(6), 5), additive(np.ones(6)))
    for masks, expected in zip(asked, drawn, strict=True):
        assert not masks[0].any()
        assert not masks[12].any()
        assert masks[6].all()
        changed = [np.flatnonzero(after ^ before).tolist() for before, after in pairwise(masks)]
        assert changed == [[player] for player in [*expected, *expected]]


def test_each_output_is_attributed_on_its_own():
    first, second = (unanimity(random_terms(8, seed)) for seed in (1, 2))
    together, _ = play(begin_permutations(8, 51, 4), lambda masks: np.hstack([first(masks), second(masks)]))
    alone = [play(begin_permutations(8, 51, 4), game)[0].phi for game in (first, second)]
    np.testing.assert_array_equal(together.phi, np.hstack(alone))
    assert together.parts.shape == (3, 8, 2)


def test_interactions_of_two_are_exact_and_those_of_three_are_not():
    pairs = {(0, 1): 2.0, (1, 4): -1.5, (2,): 1.0, (3, 5): 0.25}
    found, _ = play(begin_permutations(6, 13, 0), unanimity(pairs))
    np.testing.assert_allclose(found.phi, unanimity_phi(6, pairs), atol=1e-12)
    triple = {**pairs, (0, 2, 5): 1.0}
    found, _ = play(begin_permutations(6, 13, 0), unanimity(triple))
    assert np.abs(found.phi - unanimity_phi(6, triple)).max() > 0.1


def test_parts_are_unbiased_and_their_mean_is_phi():
    terms = random_terms(7, 9)
    found, _ = play(begin_permutations(7, 15 * 1000, 1), unanimity(terms))
    assert found.parts.shape == (1000, 7, 1)
    np.testing.assert_allclose(found.parts.mean(axis=0), found.phi, atol=1e-12)
    error = found.parts.std(axis=0, ddof=1) / np.sqrt(1000)
    assert (np.abs(found.phi - unanimity_phi(7, terms)) <= 4 * error + 1e-12).all()
    span = found.value - found.base_value
    np.testing.assert_allclose(found.parts.sum(axis=1), np.tile(span, (1000, 1)), atol=1e-12)  # each is efficient


def test_a_larger_budget_begins_with_the_rounds_of_a_smaller_one():
    game = unanimity(random_terms(9, 0))
    few, asked_first = play(begin_permutations(9, 19 * 4 + 18, 7), game)
    more, asked_next = play(begin_permutations(9, 19 * 80, 7), game)
    assert (len(asked_first), len(asked_next)) == (4, 80)
    np.testing.assert_allclose(more.phi[:, 0], row_by_row(game, 9, 7, 19 * 80), rtol=0, atol=1e-12)
    for first, again in zip(asked_first, asked_next, strict=False):
        np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(few.parts, more.parts[:4])


def test_numpys_global_generator_is_left_as_it_was():
    game = additive(np.arange(5.0))
    np.random.seed(99)
    expected = np.random.random(5)
    np.random.seed(99)
    drawn = [np.random.random()]

    def drawing(masks):
        drawn.append(np.random.random())
        return game(masks)

    play(begin_permutations(5, 33, 3), drawing)
    drawn.append(np.random.random())
    np.testing.assert_array_equal(drawn, expected)


def test_what_numpys_generator_holds_does_not_matter():
    game = unanimity(random_terms(6, 2))
    np.random.seed(0)
    one, _ = play(begin_permutations(6, 39, 8), game)
    np.random.seed(12345)
    two, _ = play(begin_permutations(6, 39, 8), game)
    np.testing.assert_array_equal(one.phi, two.phi)


def test_one_player_gets_everything_and_none_get_nothing():
    one, asked = play(begin_permutations(1, 7, 0), additive(np.array([3.0])))
    assert (one.phi.item(), one.base_value.item(), one.value.item()) == (3.0, 0.5, 3.5)
    assert [masks[:, 0].tolist() for masks in asked] == [[False, True, False]] * 2
    nobody, asked = play(begin_permutations(0, 1, 0), lambda masks: np.full((len(masks), 2), 4.0))
    assert nobody.phi.shape == (0, 2)
    assert nobody.residual == 0.0
    assert [masks.shape for masks in asked] == [(1, 0)]


def test_the_values_sum_to_what_all_add_to_nobody():
    for players in (3, 26):
        game = unanimity(random_terms(players, players, longest=3))
        found, _ = play(begin_permutations(players, 5 * (2 * players + 1), 0), game)
        assert found.residual <= 1e-5 * abs(found.value - found.base_value).max()


def test_too_few_evaluations_and_a_bad_seed_say_what_to_do():
    with pytest.raises(
        UserError, match=r"evaluations: too small for one permutation of 26 players .got 52, expected at least 53."
    ):
        begin_permutations(26, 52, 0)
    with pytest.raises(UserError, match=r"seed: -1"):
        begin_permutations(3, 70, -1)


def test_sampling_stops_at_the_wanted_standard_error():
    game = unanimity(random_terms(12, 3, longest=6))
    loose, _ = play(begin_permutations(12, 25 * 400, 1, 4, 0.02), game)
    assert loose.stopped_by == "standard error"
    assert 5 <= len(loose.parts) < 400
    assert measure_t_shap(loose, 4).standard_error <= 0.02
    assert all(compute_t_shap_error(loose.parts[:count], 4) > 0.02 for count in range(5, len(loose.parts)))
    tight, _ = play(begin_permutations(12, 25 * 12, 1, 4, 1e-6), game)
    assert (tight.stopped_by, len(tight.parts)) == ("evaluations", 12)
    sure, _ = play(begin_permutations(12, 25 * 12, 1, 4, 1e-6), additive(np.arange(12.0)))
    assert (sure.stopped_by, len(sure.parts)) == ("standard error", 5)
    free, _ = play(begin_permutations(12, 25 * 12, 1), game)
    assert (free.stopped_by, len(free.parts)) == (None, 12)
    np.testing.assert_array_equal(loose.phi, play(begin_permutations(12, 25 * len(loose.parts), 1), game)[0].phi)
