"""Estimators by name: against closed forms, shap, brute force, and on rulers whose share of text is
known.
"""

from itertools import pairwise
from itertools import permutations as orders
from math import factorial

import numpy as np
import pytest
import shap
import shapiq
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from stand_ins.games import additive, play, random_terms, unanimity, unanimity_phi
from waltz.attribution.published import count_published_evaluations
from waltz.attribution.shapley.estimate import AttributionSettings
from waltz.attribution.shapley.estimators import (
    MIN_SHAPIQ_EVALUATIONS,
    begin_estimation,
    begin_exact,
    begin_permutations,
    begin_shapiq,
    choose_sampler,
)
from waltz.attribution.t_shap import compute_t_shap_error, measure_t_shap
from waltz.core.errors import UserError
from waltz.core.jobs.devices import Device
from waltz.fidelity import EQUATIONS, PUBLISHED, get_fidelity
from waltz.model_registry import ModelSpec
from waltz.models.encoders.coalitions import PROFILES, EncoderCoalitions
from waltz.models.encoders.kinds import ruler

SHORT, LONG = "a dog", "there are two dogs on the green sofa"
"""With 4 and 16 patches: 6 or 8 players, and 24 or 26."""


def estimate_ruler(name, text, profile, share, evaluations=None):
    """T-SHAP of a ruler."""
    spec = ModelSpec("ruler", "ruler", weights=f"share:{share}", revision="0")
    encoder = ruler.load_ruler(spec, Device("cpu", threads=1, reason="test"))
    image = encoder.prepare_image(Image.new("RGB", (90, 60), (10, 200, 90)))
    game = PROFILES[profile](encoder, encoder.tokenize(text), image)
    table = EncoderCoalitions(encoder, image, [game], lambda logits: logits)
    estimation = begin_estimation(
        name,
        len(game),
        game.n_text_players,
        AttributionSettings(
            get_fidelity(profile), name, evaluations=evaluations, seed=3
        ),
    )
    estimate, _ = play(estimation, lambda masks: table.values([masks])[0])
    return estimate, measure_t_shap(estimate, game.n_text_players)


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 1.0])
@pytest.mark.parametrize("profile", ["published", "equations"])
@pytest.mark.parametrize(("name", "text"), [("permutation", LONG), ("exact", SHORT)])
def test_rulers_get_their_share(name, text, profile, share):
    estimate, share_of_text = estimate_ruler(name, text, profile, share)
    assert share_of_text.value == pytest.approx(share, abs=1e-6)
    assert share_of_text.standard_error == pytest.approx(0, abs=1e-6)
    assert estimate.residual <= 1e-5 * abs(estimate.value - estimate.base_value).max()


@pytest.mark.parametrize("name", MIN_SHAPIQ_EVALUATIONS)
def test_rulers_get_their_share_from_shapiq(name):
    # SVARM and unbiased KernelSHAP are not exact on additive games before they have all coalitions
    slow = name in ("SVARM", "UnbiasedKernelSHAP")
    evaluations = None if slow else max(150, MIN_SHAPIQ_EVALUATIONS[name](24))
    estimate, share_of_text = estimate_ruler(
        name, SHORT if slow else LONG, "equations", 0.25, evaluations
    )
    assert share_of_text.value == pytest.approx(0.25, abs=0.02)
    assert np.isnan(share_of_text.standard_error) != estimate.exact


def test_a_name_that_is_none_lists_those_that_are():
    with pytest.raises(
        UserError,
        match=r"got 'magic'\); take one of auto, permutation, exact, regression, KernelSHAP",
    ):
        begin_estimation("magic", 4, 2, AttributionSettings(EQUATIONS))


def test_evaluations_default_to_what_the_released_scripts_ask():
    estimate, coalitions = play(
        begin_estimation("permutation", 26, 10, AttributionSettings(PUBLISHED)),
        additive(np.arange(26.0)),
    )
    assert (estimate.requested, len(coalitions)) == (530, 10)
    _, of_seed_0 = play(begin_permutations(26, 530, 0), additive(np.arange(26.0)))
    np.testing.assert_array_equal(coalitions, of_seed_0)


def test_a_standard_error_can_stop_permutations_only():
    attribution_settings = AttributionSettings(
        EQUATIONS, evaluations=900, standard_error=0.01
    )
    estimate, _ = play(
        begin_estimation("permutation", 4, 2, attribution_settings),
        additive(np.arange(4.0)),
    )
    assert estimate.stopped_by == "standard error"
    assert play(
        begin_estimation("exact", 4, 2, attribution_settings), additive(np.arange(4.0))
    )[0].exact
    with pytest.raises(UserError, match="SVARM has no standard error"):
        begin_estimation("SVARM", 4, 2, attribution_settings)


@pytest.mark.parametrize("name", ["permutation", "exact", *MIN_SHAPIQ_EVALUATIONS])
def test_estimations_that_advance_in_step_do_not_mind_each_other(name):
    games = [unanimity(random_terms(players, players)) for players in (6, 9)]
    attribution_settings = AttributionSettings(EQUATIONS, evaluations=200, seed=5)
    alone = [
        play(begin_estimation(name, players, 3, attribution_settings), game)[0]
        for players, game in zip((6, 9), games, strict=True)
    ]
    running = {
        players: begin_estimation(name, players, 3, attribution_settings)
        for players in (9, 6)
    }
    coalitions = {players: next(estimation) for players, estimation in running.items()}
    together = {}
    while running:
        np.random.random()
        for (players, game), estimation in [
            ((6, games[0]), running.get(6)),
            ((9, games[1]), running.get(9)),
        ]:
            if estimation is not None:
                try:
                    coalitions[players] = estimation.send(game(coalitions[players]))
                except StopIteration as finished:
                    together[players] = finished.value
                    del running[players]
    for players, estimate in zip((6, 9), alone, strict=True):
        np.testing.assert_array_equal(together[players].phi, estimate.phi)


@pytest.mark.parametrize("name", ["permutation", *MIN_SHAPIQ_EVALUATIONS])
def test_the_seed_and_the_evaluations_are_those_of_the_settings(name):
    coalitions = {
        (seed, evaluations): np.concatenate(
            play(
                begin_estimation(
                    name, 9, 3, AttributionSettings(EQUATIONS, name, evaluations, seed)
                ),
                additive(np.ones(9)),
            )[1]
        )
        for seed in (1, 2)
        for evaluations in (200, 260)
    }
    assert not np.array_equal(coalitions[1, 200], coalitions[2, 200])
    assert len(coalitions[1, 200]) <= 200 < len(coalitions[1, 260]) <= 260


def row_by_row(game, players, seed, evaluations):
    """The pattern of the released code: a masker that multiplies, a function that takes one row
    after the other.
    """

    def masker(mask, x):
        return (np.where(mask, x, 0).reshape(1, -1),)

    def predict(rows):
        return np.array([game(row.reshape(1, -1) > 0)[0, 0] for row in rows])

    explainer = shap.PermutationExplainer(predict, masker, seed=seed)
    explanation = explainer(np.ones((1, players)), max_evals=evaluations, silent=True)
    return explanation.values[0]


@pytest.mark.parametrize(("players", "seed"), [(2, 0), (7, 3), (26, 11)])
def test_the_values_are_those_of_shap_driven_row_by_row(players, seed):
    game = unanimity(random_terms(players, seed, longest=min(5, players)))
    estimate, coalitions = play(
        begin_permutations(players, count_published_evaluations(players), seed), game
    )
    expected = row_by_row(game, players, seed, 10 * (2 * players + 1))
    np.testing.assert_allclose(estimate.phi[:, 0], expected, rtol=0, atol=1e-12)
    assert [len(masks) for masks in coalitions] == [2 * players + 1] * 10
    assert estimate.requested == 10 * (2 * players + 1)


def test_permutations_are_drawn_as_the_published_code_draws_them():
    # one shuffle of the same array after another, from numpy's global generator as the seed leaves
    # it
    np.random.seed(5)
    order = np.arange(6)
    drawn = []
    for _ in range(10):
        np.random.shuffle(order)
        drawn.append(order.copy())
    _, coalitions = play(
        begin_permutations(6, count_published_evaluations(6), 5), additive(np.ones(6))
    )
    for masks, expected in zip(coalitions, drawn, strict=True):
        assert not masks[0].any()
        assert not masks[12].any()
        assert masks[6].all()
        changed = [
            np.flatnonzero(after ^ before).tolist() for before, after in pairwise(masks)
        ]
        assert changed == [[player] for player in [*expected, *expected]]


def test_each_output_is_attributed_on_its_own():
    first, second = (unanimity(random_terms(8, seed)) for seed in (1, 2))
    together, _ = play(
        begin_permutations(8, 51, 4),
        lambda masks: np.hstack([first(masks), second(masks)]),
    )
    alone = [
        play(begin_permutations(8, 51, 4), game)[0].phi for game in (first, second)
    ]
    np.testing.assert_array_equal(together.phi, np.hstack(alone))
    assert together.parts.shape == (3, 8, 2)


def test_interactions_of_two_are_exact_and_those_of_three_are_not():
    pairs = {(0, 1): 2.0, (1, 4): -1.5, (2,): 1.0, (3, 5): 0.25}
    estimate, _ = play(begin_permutations(6, 13, 0), unanimity(pairs))
    np.testing.assert_allclose(estimate.phi, unanimity_phi(6, pairs), atol=1e-12)
    triple = {**pairs, (0, 2, 5): 1.0}
    estimate, _ = play(begin_permutations(6, 13, 0), unanimity(triple))
    assert np.abs(estimate.phi - unanimity_phi(6, triple)).max() > 0.1


def test_parts_are_unbiased_and_their_mean_is_phi():
    terms = random_terms(7, 9)
    estimate, _ = play(begin_permutations(7, 15 * 1000, 1), unanimity(terms))
    assert estimate.parts.shape == (1000, 7, 1)
    np.testing.assert_allclose(estimate.parts.mean(axis=0), estimate.phi, atol=1e-12)
    error = estimate.parts.std(axis=0, ddof=1) / np.sqrt(1000)
    assert (np.abs(estimate.phi - unanimity_phi(7, terms)) <= 4 * error + 1e-12).all()
    span = estimate.value - estimate.base_value
    # Each is efficient.
    np.testing.assert_allclose(
        estimate.parts.sum(axis=1), np.tile(span, (1000, 1)), atol=1e-12
    )


def test_a_larger_budget_begins_with_the_rounds_of_a_smaller_one():
    game = unanimity(random_terms(9, 0))
    few, few_coalitions = play(begin_permutations(9, 19 * 4 + 18, 7), game)
    more, more_coalitions = play(begin_permutations(9, 19 * 80, 7), game)
    assert (len(few_coalitions), len(more_coalitions)) == (4, 80)
    np.testing.assert_allclose(
        more.phi[:, 0], row_by_row(game, 9, 7, 19 * 80), rtol=0, atol=1e-12
    )
    for first, again in zip(few_coalitions, more_coalitions, strict=False):
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
    one, coalitions = play(begin_permutations(1, 7, 0), additive(np.array([3.0])))
    assert (one.phi.item(), one.base_value.item(), one.value.item()) == (3.0, 0.5, 3.5)
    assert [masks[:, 0].tolist() for masks in coalitions] == [[False, True, False]] * 2
    nobody, coalitions = play(
        begin_permutations(0, 7, 0), lambda masks: np.full((len(masks), 2), 4.0)
    )
    assert (nobody.exact, nobody.requested) == (True, 1)
    assert nobody.phi.shape == (0, 2)
    assert nobody.residual == 0.0
    assert [masks.shape for masks in coalitions] == [(1, 0)]


def test_the_values_sum_to_what_all_add_to_nobody():
    for players in (3, 26):
        game = unanimity(random_terms(players, players, longest=3))
        estimate, _ = play(begin_permutations(players, 5 * (2 * players + 1), 0), game)
        assert (
            estimate.residual <= 1e-5 * abs(estimate.value - estimate.base_value).max()
        )


def test_too_few_evaluations_and_a_bad_seed_say_what_to_do():
    with pytest.raises(
        UserError,
        match=r"evaluations: too small for one permutation of 26 players .got 52, expected at least 53.",
    ):
        next(begin_permutations(26, 52, 0))
    with pytest.raises(UserError, match=r"seed: -1"):
        next(begin_permutations(3, 70, -1))
    with pytest.raises(
        UserError, match=r"seed: 4294967296 is not a seed .* 0 to 4294967295"
    ):
        next(begin_permutations(3, 70, 2**32))
    assert next(begin_permutations(3, 70, 2**32 - 1)).shape == (7, 3)


@pytest.mark.parametrize("visible", [(0, 1, 2, 3), (0, 1, 3), (3,)])
def test_a_regression_of_few_free_players_is_exact(visible):
    # v is 2 where player 2 takes part, and 3 more with player 0 and 1; who is always visible is no
    # player
    game = unanimity({(2,): 2.0, (0, 1, 2): 3.0})
    always_visible = np.isin(np.arange(4), visible)
    free = int((~always_visible).sum())
    phi = {(0, 1, 2, 3): [0, 0, 0, 0], (0, 1, 3): [0, 0, 5, 0], (3,): [1, 1, 3, 0]}[
        visible
    ]
    # below two players no standard error is needed; with more it takes what a regression takes
    for standard_error in (None, 0.01)[: 2 if free < 2 else 1]:
        settings = AttributionSettings(
            EQUATIONS, evaluations=8, standard_error=standard_error
        )
        estimate, coalitions = play(
            begin_estimation("regression", 4, 2, settings, always_visible), game
        )
        np.testing.assert_allclose(estimate.phi[:, 0], phi, atol=1e-12)
        assert (estimate.exact, estimate.requested, sum(map(len, coalitions))) == (
            True,
            2**free,
            2**free,
        )


def test_a_regression_is_exact_up_to_twelve_players_where_all_coalitions_are_within_the_budget():
    def count_first_round(players, evaluations):
        settings = AttributionSettings(EQUATIONS, evaluations=evaluations)
        return len(next(begin_estimation("regression", players, 2, settings)))

    assert count_first_round(12, 4096) == 4096
    assert count_first_round(12, 4095) == 26
    assert count_first_round(13, 8192) == 28


def test_auto_takes_what_the_evaluations_allow_and_else_says_what_a_regression_needs():
    assert choose_sampler(27, 27, 56) == choose_sampler(27, 27, 4096) == "regression"
    assert choose_sampler(27, 27, 55) == choose_sampler(27, 27, 4097) == "permutation"
    assert choose_sampler(25, 27, 52) == "regression"  # permutations mask all 27
    settings = AttributionSettings(EQUATIONS, evaluations=50)
    with pytest.raises(
        UserError, match=r"regression with 27 players \(got 50, expected at least 56\)"
    ):
        next(begin_estimation(choose_sampler(27, 27, 50), 27, 5, settings))


def test_sampling_stops_at_the_requested_standard_error():
    game = unanimity(random_terms(12, 3, longest=6))
    loose, _ = play(begin_permutations(12, 25 * 400, 1, 4, 0.02), game)
    assert loose.stopped_by == "standard error"
    assert 10 <= len(loose.parts) < 400
    assert measure_t_shap(loose, 4).standard_error <= 0.02
    assert all(
        compute_t_shap_error(loose.parts[:count], 4) > 0.02
        for count in range(10, len(loose.parts))
    )
    tight, _ = play(begin_permutations(12, 25 * 12, 1, 4, 1e-6), game)
    assert (tight.stopped_by, len(tight.parts)) == ("evaluations", 12)
    sure, _ = play(
        begin_permutations(12, 25 * 12, 1, 4, 1e-6), additive(np.arange(12.0))
    )
    assert (sure.stopped_by, len(sure.parts)) == ("standard error", 10)
    free, _ = play(begin_permutations(12, 25 * 12, 1), game)
    assert (free.stopped_by, len(free.parts)) == (None, 12)
    np.testing.assert_array_equal(
        loose.phi, play(begin_permutations(12, 25 * len(loose.parts), 1), game)[0].phi
    )


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
    estimate, coalitions = play(begin_exact(2), table_game([1, 3, 2, 8]))
    np.testing.assert_allclose(estimate.phi, [[4.0], [3.0]])
    assert (
        estimate.base_value.item(),
        estimate.value.item(),
        estimate.requested,
        estimate.exact,
    ) == (
        1.0,
        8.0,
        4,
        True,
    )
    assert len(coalitions) == 1


@pytest.mark.parametrize("players", [0, 1, 5, 12])
def test_additive_games_give_their_weights(players):
    weights = np.random.default_rng(players).normal(size=(players, 2))
    estimate, _ = play(
        begin_exact(players),
        additive(weights) if players else lambda masks: np.ones((len(masks), 2)),
    )
    np.testing.assert_allclose(estimate.phi, weights, atol=1e-13)
    assert estimate.residual <= 1e-12


def test_unanimity_games_share_equally_in_the_team():
    terms = random_terms(10, 4, longest=10)
    estimate, _ = play(begin_exact(10), unanimity(terms))
    np.testing.assert_allclose(estimate.phi, unanimity_phi(10, terms), atol=1e-12)


def test_symmetric_games_give_equal_values():
    estimate, _ = play(
        begin_exact(9), lambda masks: np.sqrt(masks.sum(axis=1, keepdims=True))
    )
    np.testing.assert_allclose(estimate.phi, np.full((9, 1), 3 / 9), atol=1e-14)


def test_a_glove_market():
    # one left glove, two right ones, a pair is worth 1: 2/3 to the left glove, 1/6 to each right
    # one
    estimate, _ = play(
        begin_exact(3),
        lambda masks: (masks[:, :1] & masks[:, 1:].any(axis=1, keepdims=True)).astype(
            float
        ),
    )
    np.testing.assert_allclose(estimate.phi[:, 0], [2 / 3, 1 / 6, 1 / 6])


tables = st.integers(1, 5).flatmap(
    lambda players: st.lists(
        st.floats(-1e3, 1e3), min_size=2**players, max_size=2**players
    )
)


@given(tables)
@settings(max_examples=60)
def test_random_games_agree_with_all_orders(values):
    players = len(values).bit_length() - 1
    estimate, _ = play(begin_exact(players), table_game(values))
    np.testing.assert_allclose(
        estimate.phi[:, 0], by_orders(players, table_game(values)), atol=1e-9
    )
    assert estimate.residual <= 1e-9
    assert estimate.residual <= 1e-5 * max(
        1e-3, np.abs(estimate.value - estimate.base_value).max()
    )


@given(tables, st.floats(-10, 10))
@settings(max_examples=40)
def test_a_dummy_gets_its_own_worth_and_changes_nobody_else(values, worth):
    players = len(values).bit_length() - 1
    alone, _ = play(begin_exact(players), table_game(values))
    estimate, _ = play(
        begin_exact(players + 1),
        table_game([*values, *(value + worth for value in values)]),
    )
    np.testing.assert_allclose(estimate.phi[:players], alone.phi, atol=1e-9)
    assert estimate.phi[players].item() == pytest.approx(worth, abs=1e-9)


@given(
    st.integers(2, 4).flatmap(
        lambda n: st.tuples(
            *[st.lists(st.floats(-9, 9), min_size=2**n, max_size=2**n)] * 2
        )
    )
)
@settings(max_examples=30)
def test_values_of_a_sum_are_the_sum_of_values(both):
    first, second = both
    players = len(first).bit_length() - 1
    summed, _ = play(begin_exact(players), table_game(np.add(first, second)))
    parts = [play(begin_exact(players), table_game(values))[0].phi for values in both]
    np.testing.assert_allclose(summed.phi, sum(parts), atol=1e-11)
    # Players in reverse order.
    swapped = np.array(second).reshape((2,) * players).transpose().ravel()
    reverse, _ = play(begin_exact(players), table_game(swapped))
    np.testing.assert_allclose(reverse.phi[::-1], parts[1], atol=1e-11)


def test_it_agrees_with_shapiq_and_with_all_permutations_of_the_sampler():
    values = np.random.default_rng(0).normal(size=2**6)
    estimate, _ = play(begin_exact(6), table_game(values))
    other = shapiq.ExactComputer(
        n_players=6, game=lambda masks: table_game(values)(masks.astype(bool))[:, 0]
    )("SV")
    np.testing.assert_allclose(
        estimate.phi[:, 0], [other[(player,)] for player in range(6)], atol=1e-12
    )
    sampled, _ = play(begin_permutations(6, 13 * 800, 0), table_game(values))
    assert np.abs(sampled.phi - estimate.phi).max() < 0.08


def test_thirteen_players_are_refused():
    with pytest.raises(UserError, match=r"got 13 players, expected at most 12"):
        next(begin_exact(13))


EXACT_IF_ADDITIVE = (
    "KernelSHAP",
    "PermutationSamplingSV",
    "StratifiedSamplingSV",
    "OwenSamplingSV",
)
EFFICIENT = ("KernelSHAP", "UnbiasedKernelSHAP", "PermutationSamplingSV")


@pytest.mark.parametrize("name", EXACT_IF_ADDITIVE)
@pytest.mark.parametrize("players", [2, 9, 26])
def test_additive_games_are_exact_with_few_evaluations(name, players):
    weights = np.random.default_rng(players).normal(size=(players, 2))
    least = MIN_SHAPIQ_EVALUATIONS[name](players)
    estimate, coalitions = play(
        begin_shapiq(name, players, least, 1), additive(weights)
    )
    # shapiq puts 1e8 for the infinite weights of KernelSHAP, so that it is right to about six
    # digits
    np.testing.assert_allclose(
        estimate.phi, weights, atol=1e-4 if name == "KernelSHAP" else 1e-12
    )
    assert estimate.residual <= 1e-9
    assert estimate.requested == sum(map(len, coalitions)) <= least
    np.testing.assert_allclose(estimate.base_value, [0.5, 0.5])
    np.testing.assert_allclose(estimate.value, weights.sum(axis=0) + 0.5)


@pytest.mark.parametrize(
    "name", [name for name in MIN_SHAPIQ_EVALUATIONS if name != "OwenSamplingSV"]
)
def test_the_mean_over_seeds_nears_the_truth(name):
    # OwenSamplingSV integrates at ten points, whose error does not go away with the mean
    terms = random_terms(6, 5, longest=4, count=12)
    budget = max(40, MIN_SHAPIQ_EVALUATIONS[name](6))
    estimates = np.stack(
        [
            play(begin_shapiq(name, 6, budget, seed), unanimity(terms))[0].phi[:, 0]
            for seed in range(60)
        ]
    )
    error = estimates.std(axis=0, ddof=1) / np.sqrt(len(estimates))
    # KernelSHAP's regression is biased a little
    assert (
        np.abs(estimates.mean(axis=0) - unanimity_phi(6, terms)[:, 0])
        <= 4 * error + 0.02
    ).all()
    assert estimates.std(axis=0).max() > 1e-3


@pytest.mark.parametrize("name", ["KernelSHAP", "UnbiasedKernelSHAP", "SVARM"])
def test_all_coalitions_give_exact_values(name):
    terms = random_terms(6, 2)
    estimate, _ = play(begin_shapiq(name, 6, 70, 0), unanimity(terms))
    np.testing.assert_allclose(estimate.phi, unanimity_phi(6, terms), atol=1e-5)
    assert estimate.exact
    assert estimate.requested == 64


@pytest.mark.parametrize("name", MIN_SHAPIQ_EVALUATIONS)
def test_the_residual_says_what_is_missing(name):
    game = unanimity(random_terms(10, 3))
    estimate, _ = play(
        begin_shapiq(name, 10, MIN_SHAPIQ_EVALUATIONS[name](10) + 20, 4), game
    )
    ends = game(np.array([[False] * 10, [True] * 10]))[:, 0]
    assert estimate.residual == pytest.approx(
        abs(estimate.phi.sum() - (ends[1] - ends[0])), abs=1e-12
    )
    assert (estimate.residual < 1e-6) == (name in EFFICIENT)
    assert estimate.parts is None
    assert not estimate.exact


@pytest.mark.parametrize("name", MIN_SHAPIQ_EVALUATIONS)
def test_it_is_shapiq_run_directly(name):
    game = unanimity(random_terms(8, 6))
    estimate, _ = play(begin_shapiq(name, 8, 165, 11), game)
    paired = {"pairing_trick": True} if name == "KernelSHAP" else {}
    budget = 164 if name == "OwenSamplingSV" else 165
    direct = getattr(shapiq, name)(n=8, random_state=11, **paired).approximate(
        budget, lambda masks: game(np.atleast_2d(masks))[:, 0]
    )
    np.testing.assert_array_equal(
        estimate.phi[:, 0], [direct[(player,)] for player in range(8)]
    )


@pytest.mark.parametrize("name", MIN_SHAPIQ_EVALUATIONS)
def test_no_global_generator_matters_or_is_touched(name):
    game = unanimity(random_terms(7, 1))
    np.random.seed(3)
    before = np.random.get_state()[1].copy()
    first, _ = play(begin_shapiq(name, 7, 142, 2), game)
    np.testing.assert_array_equal(np.random.get_state()[1], before)
    np.random.seed(4)
    again, _ = play(begin_shapiq(name, 7, 142, 2), game)
    np.testing.assert_array_equal(first.phi, again.phi)


def test_few_players_and_few_evaluations():
    one, _ = play(begin_shapiq("SVARM", 1, 2, 0), additive(np.array([2.0])))
    assert (one.phi.item(), one.exact) == (2.0, True)
    with pytest.raises(
        UserError,
        match=r"too small for KernelSHAP and 20 players \(got 79, expected at least 80\)",
    ):
        next(begin_shapiq("KernelSHAP", 20, 79, 0))
    with pytest.raises(
        UserError,
        match=r"StratifiedSamplingSV and 18 players \(got 370, expected at least 614\)",
    ):
        next(begin_shapiq("StratifiedSamplingSV", 18, 370, 0))


@pytest.mark.parametrize(
    ("name", "players", "least"),
    # four coalitions a player; all but one of 2 * 8 strata of each of 9 players, and both ends; ten
    # points of each
    [
        ("KernelSHAP", 9, 36),
        ("UnbiasedKernelSHAP", 9, 36),
        ("SVARM", 9, 36),
        ("PermutationSamplingSV", 9, 36),
        ("StratifiedSamplingSV", 9, 146),
        ("StratifiedSamplingSV", 2, 8),
        ("OwenSamplingSV", 9, 182),
    ],
)
def test_the_fewest_evaluations(name, players, least):
    _, coalitions = play(
        begin_shapiq(name, players, least, 0), additive(np.ones(players))
    )
    assert len(np.concatenate(coalitions)) <= least
    with pytest.raises(
        UserError, match=rf"\(got {least - 1}, expected at least {least}\)"
    ):
        next(begin_shapiq(name, players, least - 1, 0))


def test_a_regression_that_its_coalitions_do_not_determine_is_refused(monkeypatch):
    estimator = shapiq.KernelSHAP

    def all_or_nobody(*, n, **kwargs):
        approximator = estimator(n=n, **kwargs)
        return type(
            "Poor",
            (),
            {
                "approximate": lambda self, budget, value: approximator.approximate(
                    4, value
                )
            },
        )()

    monkeypatch.setattr("shapiq.KernelSHAP", all_or_nobody)
    with pytest.raises(UserError, match="do not determine 8 players"):
        next(begin_shapiq("KernelSHAP", 8, 40, 0))
