"""Null controls: what is exchanged, and floors of CC-SHAP worked by hand."""

import numpy as np
import pytest
import torch

from waltz.core.intervals import Resampling
from waltz.core.schema import CcShapRecord
from waltz.measures.controls import (
    correlate,
    measure_answer_differences,
    measure_shuffled_explanations,
    randomize_weights,
    shift_images,
    summarize_random_decoders,
    summarize_random_networks,
)
from waltz.measures.random_decoders import NetworkDifferences, initialize_weights
from waltz.models.encoders.base import pack_linear_layers

HOW = Resampling(100, 0.95, 1)


def test_every_item_gets_the_next_image_of_another_scene():
    assert shift_images(["a", "a", "b", "c"]) == [2, 2, 3, 0]
    with pytest.raises(ValueError, match="one scene"):
        shift_images(["a", "a"])


def test_random_weights_keep_their_scale_and_follow_the_seed():
    class Encoder:
        network = torch.nn.Linear(200, 200)

    before = Encoder.network.weight.detach().clone()
    randomize_weights(Encoder, 1)
    first = Encoder.network.weight.detach().clone()
    assert (
        abs(torch.corrcoef(torch.stack([before.flatten(), first.flatten()]))[0, 1])
        < 0.05
    )
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


def test_matrices_of_random_decoders_follow_the_seed_and_vectors_stay():
    network = torch.nn.Sequential(torch.nn.Linear(200, 200), torch.nn.LayerNorm(200))
    biases = network[0].bias.detach().clone()
    initialize_weights(network, 1)
    first = network[0].weight.detach().clone()
    assert float(first.std()) == pytest.approx(0.1, rel=0.02)
    assert torch.equal(network[0].bias, biases)
    assert torch.equal(network[1].weight, torch.ones(200))
    initialize_weights(network, 2)
    assert not torch.equal(network[0].weight, first)


def test_random_networks_worked_by_hand():
    # networks differ by 20 points, scenes by 2: the error is 10 of the networks, and Student's t has one
    # degree of freedom
    values = np.array([[40.0, 42.0], [60.0, 62.0]])
    rows = {
        row.quantity: row
        for row in summarize_random_networks(
            "m", values, np.array([50.0, 60.0]), ["a", "b"], HOW
        )
    }
    assert (rows["t_shap"].measure.value, rows["t_shap_difference"].measure.value) == (
        51,
        -4,
    )
    assert rows["t_shap_sd_networks"].measure.value == pytest.approx(20 / np.sqrt(2))
    half_width = rows["t_shap"].measure.ci_high - 51
    assert half_width == pytest.approx(12.706 * 10, rel=0.1)


def test_a_correlation_is_that_of_numpy_and_of_perfect_pairs_certain():
    first, second = np.array([1.0, 2.0, 4.0, 8.0]), np.array([2.0, 1.0, 5.0, 3.0])
    found = correlate(first, second, list("abcd"), "m", HOW)
    assert found.value == pytest.approx(np.corrcoef(first, second)[0, 1])
    assert -1 <= found.ci_low < found.value < found.ci_high <= 1
    assert correlate(
        first, 3 - 2 * first, list("abcd"), "m", HOW
    ).value == pytest.approx(-1)


def build_record(name, answer, explanation, scene=None, **columns):
    return CcShapRecord(
        item_id=f"d/{name}",
        profile="equations",
        setting="pairwise",
        kind="post-hoc",
        seed=1,
        image=scene or name,
        value=1.0,
        ratios_answer=answer,
        ratios_explanation=explanation,
        **columns,
    )


def test_an_explanation_of_another_item_is_compared_where_it_has_as_many_players():
    items = [
        build_record("1", [1.0, 0.0], [1.0, 0.0]),
        build_record("2", [0.0, 1.0], [0.0, 1.0]),
        build_record("3", [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]),
    ]
    every = measure_shuffled_explanations("m", items, 1, HOW)
    found = {row.level: row for row in every if row.quantity == "cc_shap"}
    assert (found["none"].measure.value, found["none"].measure.n) == (1.0, 3)
    assert (
        found["other explanation"].measure.value,
        found["other explanation"].measure.n,
    ) == (0.0, 2)
    assert 0 <= found["shuffled players"].measure.value <= 1
    excess = {row.level: row for row in every if row.quantity == "cc_shap_excess"}
    assert (
        excess["other explanation"].measure.value,
        excess["other explanation"].measure.n,
    ) == (1.0, 2)
    assert excess["shuffled players"].measure.value == pytest.approx(
        1 - found["shuffled players"].measure.value
    )
    assert "none" not in excess


def test_an_explanation_of_the_same_scene_is_not_exchanged():
    items = [build_record(name, [1.0, 0.0], [1.0, 0.0], "5") for name in "12"]
    found = {
        row.level: row for row in measure_shuffled_explanations("m", items, 1, HOW)
    }
    assert (found["other explanation"].measure.value, found["none"].measure.n) == (
        None,
        2,
    )


def test_an_explanation_is_compared_with_its_answer_in_the_same_items_of_each_control():
    def build_run(**differences):
        return [
            build_record(
                name, [1.0], [1.0], t_shap_answer=0.5, t_shap_explanation=0.5 + points
            )
            for name, points in differences.items()
        ]

    runs = {
        "none": build_run(a=0.1, b=0.3),
        "other image": build_run(a=0.3),
    }
    rows = measure_answer_differences("m", runs, HOW)
    measures = {(row.quantity, row.level): row.measure for row in rows}
    difference = "t_shap_explanation_less_answer"
    assert measures[difference, "none"].value == pytest.approx(20)
    assert measures[difference, "other image"].value == pytest.approx(30)
    excess = measures[f"{difference}_excess", "other image"]
    assert (excess.value, excess.n) == (pytest.approx(-20), 1)


def test_an_excess_over_random_decoders_is_over_items_that_the_trained_one_has():
    random = NetworkDifferences(
        ["d/a", "d/b", "d/c"],
        ["1", "2", "3"],
        np.array([[2.0, 6.0, 90.0], [4.0, 8.0, 90.0]]),
    )
    trained = {"d/a": 10.0, "d/b": 20.0}
    rows = summarize_random_decoders("m", "cot", random, trained, HOW)
    measures = {row.quantity: row.measure for row in rows}
    floor = measures["t_shap_explanation_less_answer"]
    # 2, 4, 6 and 8; and 10 and 20 less the means 3 and 7 of both networks.
    assert (floor.value, floor.n) == (pytest.approx(5), 2)
    assert measures["t_shap_explanation_less_answer_excess"].value == pytest.approx(10)
    assert {(row.factor, row.level) for row in rows} == {
        ("control, cot", "random weights")
    }
    nothing = summarize_random_decoders("m", "cot", random, {}, HOW)
    assert {row.measure.value for row in nothing} == {None}
