"""Multiverse of T-SHAP: changes of players, and agreement of rankings worked by hand."""

import numpy as np
import pytest
import torch
from PIL import Image

from waltz.core.intervals import Resampling
from waltz.core.jobs.devices import Device
from waltz.measures.items import Item
from waltz.measures.multiverse import (
    NO_MEANING,
    Choice,
    add_special_tokens,
    build_choice_rows,
    change_grid,
    compare_halves,
    compute_choice_t_shap,
    compute_kendall_tau,
    cross_choices,
    fill_patches,
    mask_by_id_0,
    spread_items,
    summarize_rankings,
)
from waltz.model_registry import resolve_model
from waltz.models.encoders import load_encoder
from waltz.models.encoders.coalitions import build_equations_players

PICTURE = Image.new("RGB", (40, 40), "white")


@pytest.fixture(scope="module")
def players():
    ruler = load_encoder(resolve_model("ruler-50", {}), Device("cpu", 1, "test"))
    return build_equations_players(
        ruler, ruler.tokenize("Two dogs sleep."), ruler.prepare_image(PICTURE)
    )


def test_grids_have_as_many_patches_as_they_say(players):
    assert (
        players.grid,
        change_grid(players, "", step=1).n_image_players,
        change_grid(players, "", patches=5).n_image_players,
    ) == (
        2,
        9,
        25,
    )
    # 120 pixels in 7 patches of 17: the last pixel is in no patch
    left_over = change_grid(players, "", patches=7, floor=True)
    assert (left_over.cells == 49).sum() == 120 + 119
    assert not (change_grid(players, "", patches=7).cells == 49).any()


def test_masked_patches_and_tokens_have_the_value_that_was_chosen(players):
    image = torch.arange(3.0)[:, None, None] + torch.ones(3, 120, 120)
    hidden = np.zeros((1, 4), dtype=bool)
    assert (fill_patches(players, "", fill=7.0).mask_image(image, hidden) == 7).all()
    assert (
        fill_patches(players, "", fill="mean").mask_image(image, hidden)[0] == image
    ).all()
    assert (
        fill_patches(players, "", fill=7.0).mask_image(image, ~hidden)[0] == image
    ).all()
    assert mask_by_id_0(players, "").masked_id == 0
    assert add_special_tokens(players, "").n_text_players == players.n_text_players + 2


def test_kendalls_tau_worked_by_hand():
    assert compute_kendall_tau([1, 2, 3], [1, 2, 3]) == 1
    assert compute_kendall_tau([1, 2, 3], [1, 3, 2]) == pytest.approx(1 / 3)
    assert compute_kendall_tau([1, 2], [2, 1]) == -1


def test_the_mean_agreement_of_choices_with_the_reference():
    items = {name: [Item(name, name, name, PICTURE, "", "")] for name in "ab"}
    plain = {"one": {"a": [10.0], "b": [20.0]}, "two": {"a": [30.0], "b": [40.0]}}
    swapped = {"one": {"a": [60.0], "b": [70.0]}, "two": {"a": [40.0], "b": [30.0]}}
    found = {
        ("reference", "equations"): plain,
        ("grid", "same"): plain,
        ("grid", "other"): swapped,
    }
    reference, *others = found
    rows = build_choice_rows(found, items, reference, Resampling(100, 0.95, 1))
    rows += summarize_rankings(
        found, reference, {("all", "all"): others, ("all", "other"): others[1:]}
    )
    values = {
        (row.model, row.factor, row.level, row.quantity): row.measure.value
        for row in rows
    }
    # Models change places under one choice of two.
    assert values["", "all", "all", "kendall_tau"] == 0
    assert values["", "all", "other", "kendall_tau"] == -1
    assert values["one", "all", "all", "kendall_tau"] == 1
    assert values["two", "all", "all", "kendall_tau"] == 0
    assert values["one", "grid", "other", "t_shap_difference"] == 50
    assert values["two", "grid", "other", "kendall_tau"] == -1


def test_halves_of_the_items_agree_as_far_as_the_items_do():
    # Data set c has too few items to be split.
    shares = {
        "apart": {"a": [1.0, 2], "b": [8.0, 9], "c": [5.0]},
        "mixed": {"a": [0.0, 3], "b": [1.0, 2], "c": [5.0]},
    }
    rows = {row.model: row for row in compare_halves(shares, "cross", 1)}
    assert rows["apart"].measure.value == 1
    # One half has 0 before 1 or 2, the other 3 after the other: the halves never agree.
    assert rows["mixed"].measure.value == -1
    # Means of models: the mixed ones are below the others, whichever items a half has.
    assert rows[""].measure.value == 1
    assert {row.factor for row in rows.values()} == {"other items"}
    # One data set with two items has no ranking, and so no agreement of rankings.
    single = {"apart": {"a": [1.0, 2], "c": [5.0]}}
    assert compare_halves(single, "cross", 1) == []


def test_every_combination_is_crossed_once_and_the_reference_is_first():
    crossed = cross_choices()
    # 2^7 with equations and published; published fixes two factors, of which three of four combinations go
    assert len(crossed) == 2**6 + 2**4
    first = next(iter(crossed.values()))
    assert (first.changes, first.fidelity.name, first.estimator, first.outcome) == (
        (),
        "equations",
        "auto",
        "logit",
    )
    assert len(
        {
            (own.changes, own.fidelity.name, own.estimator, own.outcome)
            for own in crossed.values()
        }
    ) == len(crossed)
    assert {
        levels[1] for levels, own in crossed.items() if own.fidelity.name == "published"
    } == {NO_MEANING}


def test_another_seed_is_the_reference_with_the_next_seed():
    ruler = load_encoder(resolve_model("ruler-50", {}), Device("cpu", 1, "test"))
    item = Item("1", "d", "i", PICTURE, "Two dogs sleep.", "")
    plain, again = (Choice(estimator="SVARM", seed_step=step) for step in (0, 1))
    shares = [
        compute_choice_t_shap(ruler, item, choice, 60, seed, {})
        for choice, seed in ((again, 1), (plain, 2), (plain, 1))
    ]
    assert shares[0] == pytest.approx(shares[1])
    assert shares[0] != pytest.approx(shares[2])


def test_items_are_spread_over_data_sets():
    items = {
        name: [Item(f"{name}{place}", name, "", PICTURE, "", "") for place in range(3)]
        for name in "abc"
    }
    few = spread_items(items, 5)
    assert {name: [item.item_id for item in own] for name, own in few.items()} == {
        "a": ["a0", "a1"],
        "b": ["b0", "b1"],
        "c": ["c0"],
    }
    assert list(spread_items(items, 2)) == ["a", "b"]


@pytest.mark.parametrize("estimator", ["auto", "permutation"])
def test_known_logits_give_the_probability_that_a_run_of_its_own_gives(estimator):
    ruler = load_encoder(resolve_model("ruler-50", {}), Device("cpu", 1, "test"))
    item = Item("1", "d", "i", PICTURE, "Two dogs sleep.", "")
    logit, probability = (
        Choice(outcome=outcome, estimator=estimator)
        for outcome in ("logit", "probability")
    )
    logits = {}
    of_logits = compute_choice_t_shap(ruler, item, logit, 300, 1, logits)
    alone = compute_choice_t_shap(ruler, item, probability, 300, 1, {})
    assert compute_choice_t_shap(
        ruler, item, probability, 300, 1, logits
    ) == pytest.approx(alone, abs=1e-4)
    assert logits
    assert alone != pytest.approx(of_logits, abs=1e-3)
