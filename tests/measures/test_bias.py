"""Bias of T-SHAP from few permutations, in games whose coalitions are a table."""

from functools import partial

import numpy as np
import pytest
from PIL import Image

from waltz.attribution.mm_shap import attribute_texts
from waltz.attribution.shapley.estimate import AttributionSettings, estimate_in_step
from waltz.attribution.shapley.estimators import begin_exact
from waltz.attribution.t_shap import (
    TShap,
    compute_t_shap,
    correct_t_shap,
    measure_t_shap,
)
from waltz.core.intervals import Resampling
from waltz.core.jobs.devices import Device
from waltz.fidelity import EQUATIONS
from waltz.measures.bias import (
    Table,
    compute_exact_t_shap,
    draw_permutations,
    measure_estimators,
    measure_permutations,
    summarize_shares,
    tabulate,
    tabulate_random_networks,
)
from waltz.measures.items import Item
from waltz.model_registry import ModelSpec
from waltz.models.encoders import load_encoder


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


def test_the_bias_of_permutations_worked_by_hand():
    # One token adds 2 / 3. Three patches add 1 together and take 1 / 3 each, so that their phi is 0:
    # T-SHAP is 100. A permutation and its reverse give the middle patch -1 / 3, the others 1 / 6.
    # Two permutations have the same middle patch in 1 of 3 cases: T-SHAP is then 1 / 2, else 2 / 3.
    patches = np.array([mask.bit_count() for mask in range(8)])
    values = np.add.outer([0, 2 / 3], (patches == 3) - patches / 3)
    game = Table(values, compute_exact_t_shap(values), "")
    assert game.t_shap == pytest.approx(100)

    rows = measure_permutations(
        "game", [game], [2], repeats=300, seed=1, resampling=Resampling(100, 0.95, 1)
    )
    measured = {row.quantity: row.measure.value for row in rows if row.level == "2"}
    # T-SHAP of one permutation is always 1 / 2: the jackknife makes 1 / 2 and 2 / 3 to 1 / 2 and 5 / 6.
    for suffix, share in (("", 11 / 18), ("_corrected", 13 / 18)):
        bias = 100 * (share - 1)
        assert measured[f"bias{suffix}"] == pytest.approx(bias, abs=2)
        assert measured[f"bias_towards_players{suffix}"] == pytest.approx(-bias, abs=2)
    assert measured["evaluations"] == 2 * (2 * 4 + 1)
    # The budget of ten permutations suffices for all 16 coalitions.
    rows = measure_estimators(
        "game", [game], ["regression"], 2, 1, Resampling(100, 0.95, 1)
    )
    measured = {row.quantity: row.measure.value for row in rows}
    assert measured["error"] == pytest.approx(0)
    assert (measured["covered"], measured["interval_width"]) == (100, 0)


def test_intervals_that_hold_the_exact_value_are_those_of_students_t():
    # Student's t with one degree of freedom is 12.706.
    share = TShap(0.25, 0.0125, parts=2)
    for t_shap, covered in (
        (25 + 12.70 * 1.25, 100),
        (25 + 12.72 * 1.25, 0),
    ):
        summary = summarize_shares(Table(np.zeros((2, 2)), t_shap, ""), [share])
        assert summary["covered"] == covered
        assert summary["interval_width"] == pytest.approx(2 * 12.706 * 1.25, rel=1e-4)


def test_an_estimator_without_error_and_correction_has_none():
    share = TShap(0.25, np.nan)
    assert set(summarize_shares(Table(np.zeros((2, 2)), 30, ""), [share])) == {
        *("t_shap", "bias", "bias_towards_players", "error"),
    }


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
        summarize_shares(
            game, [measure_t_shap(draw_permutations(game, 2, seed), 2) for seed in own]
        )["error"]
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


def test_tables_of_encoders_have_the_exact_values_of_what_is_explained_by_default():
    picture = Image.fromarray(
        np.random.default_rng(0).integers(0, 255, (90, 120, 3), dtype=np.uint8)
    )
    items = [
        Item(str(number), "pairs", f"scene_{number}.png", picture, caption, "")
        for number, caption in enumerate(("two red cats", "a dog", "cats"))
    ]
    load = partial(
        load_encoder,
        ModelSpec("matcher", "blip", "resources/scenes/models/matcher", "local"),
        Device("cpu", 1, "test"),
    )
    encoder = load()
    assert not encoder.late
    trained = [tabulate(encoder, item) for item in items]
    for table, item in zip(trained, items, strict=True):
        (exact,) = attribute_texts(
            encoder, picture, [item.caption], AttributionSettings(EQUATIONS, "exact")
        )
        assert table.t_shap == pytest.approx(100 * exact.t_shap.value, rel=1e-4)
    assert trained[0].tokens == 3

    random = tabulate_random_networks(load, items, networks=2, seed=1)
    assert [table.cluster for table in random] == ["0", "0", "1"]
    # Items 0 and 2, then item 1, have these shapes.
    assert [table.values.shape for table in random] == [
        trained[number].values.shape for number in (0, 2, 1)
    ]
    assert not np.allclose(random[0].values, trained[0].values, atol=1e-3)
