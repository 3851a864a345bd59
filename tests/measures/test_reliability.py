"""Reliability of items, data sets and models, worked by hand, and the tables that it is made from."""

import numpy as np
import pytest
from PIL import Image

from waltz.core.intervals import Resampling
from waltz.core.jobs.devices import Device
from waltz.evaluation.prompting.prompt_files import read_prompt_file
from waltz.evaluation.prompting.prompts import PromptTemplate
from waltz.fidelity import EQUATIONS
from waltz.measures.items import Item
from waltz.measures.reliability import (
    CrossedItems,
    cross_encoder_choices,
    reword_template,
    summarize_items,
    summarize_models,
)
from waltz.model_registry import resolve_model
from waltz.models.encoders import load_encoder

RESAMPLING = Resampling(100, 0.95, 1)


def cross(values, datasets="aabb"):
    scenes = [str(number) for number in range(len(values))]
    return CrossedItems(np.array(values), ("seed", "mask"), list(datasets), scenes)


def collect(rows):
    return {(row.quantity, row.factor, row.level): row.measure for row in rows}


def test_components_and_coefficients_of_items_worked_by_hand():
    bases = np.array([0.0, 10, 20])[:, None, None]
    shifts = np.array([1.0, -1])[None, None, :]
    interaction = np.array([1.0, 1, -2])[:, None, None] * shifts
    values = np.broadcast_to(bases + 3 * shifts + interaction, (3, 2, 2))
    measures = collect(summarize_items("t_shap", "m", cross(values, "aab"), RESAMPLING))
    # Deviations of item x mask are (1, 1, -2) of either sign: mean square 2 * 12 / 2 over 2 seeds
    assert measures["variance", "t_shap, items", "item × mask"].value == 6
    # masks: 3 above and below the mean, 6 cells each; (12 * 9 - 12) / 6
    assert measures["variance", "t_shap, items", "mask"].value == 16
    # items: mean square 4 * 200 / 2 = 400, so (400 - 12) / 4
    assert measures["variance", "t_shap, items", "item"].value == 97
    assert measures["variance", "t_shap, items", "item × seed"].value == 0
    share = measures["variance_share", "t_shap, items", "items × setups"].value
    assert share == pytest.approx(100 * 6 / (97 + 16 + 6))
    # One setup has no noise at all; any setup has item x mask, and the shift by the mask in phi.
    coefficients = {
        (quantity, scope): measures[quantity, "t_shap, items", scope].value
        for quantity in ("g", "phi")
        for scope in ("one setup", "any setup")
    }
    assert coefficients == {
        ("g", "one setup"): 1,
        ("phi", "one setup"): 1,
        ("g", "any setup"): pytest.approx(97 / 103),
        ("phi", "any setup"): pytest.approx(97 / 119),
    }
    assert measures["seeds_needed", "t_shap, items", "any setup"].value == 1


def test_an_order_that_masks_change_is_not_reached_with_any_number_of_seeds():
    generator = np.random.default_rng(0)
    values = generator.normal(size=(8, 1, 2)) + 0.1 * generator.normal(size=(8, 2, 2))
    rows = summarize_items("cc_shap", "m", cross(values, "a" * 8), RESAMPLING)
    measures = collect(rows)
    needed = measures["seeds_needed", "cc_shap, items", "any setup"]
    assert (needed.value, needed.reason) == (
        None,
        "not reached with any number of seeds",
    )
    assert measures["g_limit", "cc_shap, items", "any setup"].value < 0.8
    assert measures["seeds_needed", "cc_shap, items", "one setup"].value == 1
    for measure in measures.values():
        if measure.ci_low is not None:
            assert 0 <= measure.ci_low <= measure.value <= measure.ci_high


def test_an_order_of_data_sets_needs_more_items_the_more_they_differ():
    # Data sets of means 1 and 7; items 2 apart within them: mean squares 36 * 4 and 2 * 4 over 4
    # cells an item, so that variances are 2 within and (144 - 8) / 8 = 17 between.
    values = np.broadcast_to(np.array([0.0, 2, 6, 8])[:, None, None], (4, 2, 2))
    measures = collect(summarize_items("t_shap", "m", cross(values), RESAMPLING))
    order = measures["g", "t_shap, data sets", "one setup"].value
    assert order == pytest.approx(17 / (17 + 2 / 2))
    assert measures["items_needed", "t_shap, data sets", "one setup"].value == 1
    # Means that are 1 apart vary less than those of two items would by chance.
    closer = values - np.array([0.0, 0, 5, 5])[:, None, None]
    measures = collect(summarize_items("t_shap", "m", cross(closer), RESAMPLING))
    needed = measures["items_needed", "t_shap, data sets", "one setup"]
    assert needed.reason == "not reached with any number of items"


def test_data_sets_have_as_many_items_as_the_smallest():
    values = np.arange(20.0).reshape(5, 2, 2)
    nested, names = cross(values, "aaabb").nest_items()
    assert names == ["a", "b"]
    assert nested[:, :, 0, 0].tolist() == [[0, 4], [12, 16]]


def test_models_are_put_in_order_by_the_items_that_both_scored():
    # b is 8 and 12 above a: model x item deviates by 1 in all 16 cells, models by 5, so that the mean
    # squares are 16 and 400, and the variances 16 / 4 = 4 and (400 - 16) / 8 = 48.
    a = np.zeros((2, 2, 2))
    b = a + np.array([8.0, 12])[:, None, None]
    rows = summarize_models(
        "t_shap", {"a": cross(a, "xy"), "b": cross(b, "xy")}, RESAMPLING
    )
    measures = collect(rows)
    order = measures["g", "t_shap, models", "one setup"].value
    assert order == pytest.approx(48 / (48 + 4 / 2))
    assert measures["items_needed", "t_shap, models", "one setup"].value == 1


def test_captions_are_crossed_with_seeds_masks_and_grids():
    ruler = load_encoder(resolve_model("ruler-50", {}), Device("cpu", 1, "test"))
    picture = Image.new("RGB", (40, 40), "white")
    items = [
        Item(str(number), "d", "i_1", picture, "Two dogs sleep.", "")
        for number in (1, 2)
    ]
    crossed = cross_encoder_choices(ruler, items, 2, 7)
    assert crossed.values.shape == (2, 2, 2, 2)
    assert (crossed.datasets, crossed.scenes) == (["d", "d"], ["1", "1"])
    # Permutations leave no error for a sum. A ruler takes black patches for visible ones.
    assert crossed.values[:, :, 0] == pytest.approx(50)
    assert crossed.values[:, :, 1] == pytest.approx(100)


def test_another_wording_changes_the_question_alone():
    template = PromptTemplate(read_prompt_file(EQUATIONS))
    reworded = reword_template(template, "{first} or {second}?")
    assert reworded.prompt_file.forms["pairwise"].text == "{first} or {second}?"
    assert reword_template(template, None) is template
    changed = reworded.prompt_file.model_dump(exclude={"forms": {"pairwise": {"text"}}})
    plain = template.prompt_file.model_dump(exclude={"forms": {"pairwise": {"text"}}})
    assert changed == plain
