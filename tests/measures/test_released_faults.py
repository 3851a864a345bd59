"""Released faults one by one: which rules a switch changes, what masks cover, and differences
worked by hand.
"""

from functools import partial

import numpy as np
import pytest
import torch
from PIL import Image

from waltz.attribution.custom_players import number_encoder_pixels
from waltz.attribution.shapley.estimate import AttributionSettings
from waltz.core.intervals import Resampling
from waltz.core.jobs.devices import Device
from waltz.fidelity import EQUATIONS, PUBLISHED
from waltz.measures.items import Item
from waltz.measures.released_faults import (
    FAULTS,
    NONE,
    Fault,
    ItemKey,
    build_faulty_fidelity,
    compare_faults,
    compute_encoder_quantities,
    compute_old_t_shap,
    cut_corner,
    mask_with_fault,
)
from waltz.model_registry import resolve_model
from waltz.models.encoders import load_encoder
from waltz.models.encoders.coalitions import build_equations_players


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_changes_its_fields_alone(name):
    faulty = build_faulty_fidelity(FAULTS[name].fields)
    changed = {
        field
        for field in vars(EQUATIONS)
        if getattr(faulty, field) != getattr(EQUATIONS, field)
    }
    assert changed == set(FAULTS[name].fields)
    assert all(getattr(faulty, field) == getattr(PUBLISHED, field) for field in changed)


def mask(fault, size):
    """Return players of a ruler, whose network reads 120 pixels a side, before and after a fault."""
    ruler = load_encoder(resolve_model("ruler-50", {}), Device("cpu", 1, "test"))
    image = Image.new("RGB", size, "white")
    players = build_equations_players(
        ruler, ruler.tokenize("Two dogs sleep."), ruler.prepare_image(image)
    )
    return players, mask_with_fault(
        players, fault, image, 120, partial(number_encoder_pixels, ruler, image)
    )


def test_the_first_patch_stays_with_the_index_slip():
    plain, faulty = mask(Fault(shows_first_patch=True), (240, 240))
    assert (faulty.always_visible != plain.always_visible).nonzero()[0].tolist() == [
        plain.n_text_players
    ]
    hidden = faulty.mask_image(torch.ones(3, 120, 120), np.zeros((1, 4), dtype=bool))[
        0, 0
    ]
    assert hidden[:60, :60].all()
    assert not hidden[60:].any()


def test_patches_cover_a_quarter_of_an_image_of_twice_the_side():
    plain, faulty = mask(Fault(masks_corner=True), (240, 240))
    assert (plain.cells == 4).sum() == 0
    # squares of 60 raw pixels are of 30 after resizing to 120; edges may move by a pixel
    assert (faulty.cells != 4).float().mean() == pytest.approx(1 / 4, abs=0.02)
    assert faulty.cells[10, 10] == 0
    assert faulty.cells[40, 10] == 2
    assert faulty.cells[70, 70] == 4
    assert not faulty.always_visible.any()


def test_another_seed_changes_the_draws_alone():
    ruler = load_encoder(resolve_model("ruler-50", {}), Device("cpu", 1, "test"))
    items = [
        Item(
            "1",
            "d",
            "v7w_7.png",
            Image.new("RGB", (240, 240), "white"),
            "Two dogs sleep.",
            "A dog sleeps.",
        )
    ]
    settings = [AttributionSettings(EQUATIONS, "SVARM", 60, seed) for seed in (1, 2)]
    plain, following = (
        compute_encoder_quantities(ruler, items, FAULTS[NONE], own) for own in settings
    )
    assert (
        compute_encoder_quantities(ruler, items, FAULTS["another seed"], settings[0])
        == following
        != plain
    )
    assert list(plain) == [("d", "1", "", "7")]


def test_squares_from_the_corner_of_an_image_worked_by_hand():
    squares = cut_corner(3, 5, 1, 2)
    assert squares.sum() == 4
    assert [tuple(np.argwhere(square)[0]) for square in squares] == [
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
    ]


def test_the_old_split_counts_the_last_patches_as_text():
    phi = np.array([1.0, 2.0, 3.0, 4.0, 5.0])[:, None]  # two tokens, then three patches
    assert compute_old_t_shap(phi, slice(0, 2), slice(2, 5)) == pytest.approx(
        (5 + 1 + 2) / 15
    )
    assert compute_old_t_shap(phi, slice(3, 5), slice(0, 3)) == pytest.approx(
        (3 + 4 + 5) / 15
    )


def test_differences_are_of_items_that_have_both_values():
    plain = {
        ItemKey("d", "1", "cot", "a"): {"cc_shap": 0.5},
        ItemKey("d", "2", "cot", "b"): {"cc_shap": 0.1},
    }
    switched = {
        ItemKey("d", "1", "cot", "a"): {"cc_shap": 0.2},
        ItemKey("d", "2", "cot", "b"): {"cc_shap": 0.3},
        ItemKey("e", "3", "cot", "b"): {"cc_shap": 1.0},
    }
    rows = compare_faults(
        "m", {NONE: plain, "x": switched}, ["d", "e"], Resampling(100, 0.95, 1)
    )
    values = {
        (row.dataset, row.level, row.quantity): (row.measure.value, row.measure.n)
        for row in rows
    }
    assert values["all", "x", "cc_shap"] == (0.5, 3)
    assert values["all", "x", "cc_shap_difference"] == (pytest.approx(-0.05), 2)
    assert values["all", "x", "cc_shap_absolute_difference"] == (pytest.approx(0.25), 2)
    assert values["d", "x", "cc_shap"] == (0.25, 2)
    assert values["e", "x", "cc_shap_difference"] == (None, 0)
    assert ("all", NONE, "cc_shap_difference") not in values
