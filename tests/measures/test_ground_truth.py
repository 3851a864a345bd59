"""Ground truth of T-SHAP, against games that are worked by hand."""

import math

import numpy as np
import pytest

from waltz.core.intervals import Resampling
from waltz.measures.ground_truth import (
    EnumeratedGame,
    build_games,
    compute_game_t_shap,
    compute_range_share,
    measure_games,
)
from waltz.measures.rows import average


def test_t_shap_of_an_additive_game_is_its_range_share():
    # text moves the score by 1 + 2, image by 4 + 1
    game = EnumeratedGame(
        "own", 2, 2, lambda text, image: text @ [1.0, -2.0] + image @ [4.0, 1.0]
    )
    assert compute_game_t_shap(game) == pytest.approx(3 / 8)
    assert compute_range_share(game) == pytest.approx(3 / 8)


def test_t_shap_misses_a_parity_and_a_disjunction():
    games = {game.name: game for game in build_games(2, 4)}
    # a xor b of two tokens: each adds 1 as the first and takes 1 as the second, so that phi is 0
    assert compute_game_t_shap(games["parity of text"]) == 0
    assert compute_range_share(games["parity of text"]) == 1 / 2
    # any of six players suffices, so that each has phi 1 / 6, though either modality suffices alone
    assert compute_game_t_shap(games["disjunction"]) == pytest.approx(2 / 6)
    assert compute_range_share(games["disjunction"]) == 1 / 2
    # one player a side: phi of an exclusive or is 0 for both
    assert math.isnan(
        compute_game_t_shap(
            EnumeratedGame("xor", 1, 1, lambda text, image: text[:, 0] ^ image[:, 0])
        )
    )


@pytest.mark.parametrize(("tokens", "t_shap"), [(1, 1 / 2), (2, 0), (3, 1 / 2), (4, 0)])
def test_parity_is_missed_for_an_even_number_of_tokens(tokens, t_shap):
    # a token adds 1 after an even number of others and takes 1 after an odd one: of odd tokens, one
    # more even places
    game = next(
        game for game in build_games(tokens, 2) if game.name == "parity of text"
    )
    assert compute_game_t_shap(game) == pytest.approx(t_shap)


@pytest.mark.parametrize(
    "name", ["additive", "cancelling", "saturated text", "product"]
)
def test_t_shap_is_right_in_games_without_fault(name):
    game = next(game for game in build_games(4, 4) if game.name == name)
    assert (
        compute_game_t_shap(game)
        == pytest.approx(compute_range_share(game))
        == pytest.approx(1 / 2)
    )


@pytest.mark.parametrize(
    ("name", "t_shap"),
    [
        # v = u(S) w(T) with w = t of 8 patches. A first token gains w(T) in a random order with the
        # share of patches before it, 1/5 on average over the first of 4 tokens; the rest is the image's.
        ("saturated product", 1 / 5),
        ("conjunctive product", 4 / 5),
        ("cubic product", 11 / 16),
    ],
)
def test_t_shap_is_off_in_products_of_unlike_sides(name, t_shap):
    game = next(game for game in build_games(4, 8) if game.name == name)
    assert compute_game_t_shap(game) == pytest.approx(t_shap)


def test_text_and_image_of_every_built_game_change_the_score_alike():
    for tokens in (3, 4):
        assert [
            compute_range_share(game) for game in build_games(tokens, 2)
        ] == pytest.approx([1 / 2] * 11)


def test_rows_state_the_error_and_why_a_share_is_undefined():
    rows = {(row.model, row.quantity): row for row in measure_games([(2, 4)])}
    assert rows["disjunction", "t_shap_difference"].measure.value == pytest.approx(
        100 * (2 / 6 - 1 / 2)
    )
    assert rows["additive", "t_shap_difference"].measure.value == pytest.approx(0)
    undefined = [row for row in rows.values() if row.measure.value is None]
    assert all(
        row.measure.reason == "every Shapley value is 0, so no share is defined"
        for row in undefined
    )
    assert np.isfinite(
        [row.measure.value for row in rows.values() if row.measure.reason is None]
    ).all()


def test_an_item_without_a_value_spoils_no_mean():
    how = Resampling(resamples=50, confidence=0.95, seed=0)
    values, scenes = [1.0, math.nan, 3.0], ["a", "b", "c"]
    assert average(values, scenes, "own", how) == average(
        [1.0, 3.0], ["a", "c"], "own", how
    )
    assert average([math.nan], ["a"], "own", how).reason == "no item has a value"
