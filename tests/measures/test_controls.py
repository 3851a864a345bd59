"""Null controls: what is exchanged, and floors of CC-SHAP worked by hand."""

import pytest
import torch

from waltz.core.intervals import Resampling
from waltz.measures.controls import measure_shuffled_explanations, randomize_weights, shift_images
from waltz.models.encoders.base import pack_linear_layers

HOW = Resampling(100, 0.95, 1)


def test_every_item_gets_the_next_image_that_is_not_its_own():
    assert shift_images(["a", "a", "b", "c"]) == [2, 2, 3, 0]
    with pytest.raises(ValueError, match="one image"):
        shift_images(["a", "a"])


def test_random_weights_keep_their_scale_and_follow_the_seed():
    class Encoder:
        network = torch.nn.Linear(200, 200)

    before = Encoder.network.weight.detach().clone()
    randomize_weights(Encoder, 1)
    first = Encoder.network.weight.detach().clone()
    assert abs(torch.corrcoef(torch.stack([before.flatten(), first.flatten()]))[0, 1]) < 0.05
    assert first.std() == pytest.approx(float(before.std()), rel=0.05)
    randomize_weights(Encoder, 2)
    assert not torch.equal(first, Encoder.network.weight)


def test_packed_weights_are_drawn_anew_as_well():
    class Encoder:
        network = torch.nn.Sequential(torch.nn.Linear(20, 20))

    pack_linear_layers(Encoder.network)
    ones = torch.ones(1, 20)
    with torch.no_grad():
        before = Encoder.network(ones)
        randomize_weights(Encoder, 1)
        assert not torch.allclose(Encoder.network(ones), before, atol=0.1)


def build_row(item, answer, explanation, value):
    names = {"dataset": "d", "item_id": item, "kind": "post-hoc", "value": value}
    return {**names, "ratios_answer": answer, "ratios_explanation": explanation}


def test_an_explanation_of_another_item_is_compared_where_it_has_as_many_players():
    rows = [
        build_row("1", [1.0, 0.0], [1.0, 0.0], 1.0),
        build_row("2", [0.0, 1.0], [0.0, 1.0], 1.0),
        build_row("3", [1.0, 0.0, 0.0], [1.0, 0.0, 0.0], 1.0),
    ]
    found = {row["level"]: row for row in measure_shuffled_explanations("m", rows, 1, HOW)}
    assert (found["none"]["value"], found["none"]["n"]) == (1.0, 3)
    assert (found["other explanation"]["value"], found["other explanation"]["n"]) == (0.0, 2)
    assert 0 <= found["shuffled players"]["value"] <= 1
