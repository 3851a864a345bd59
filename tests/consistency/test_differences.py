"""Paired differences of decoders, by hand, from rows as the stage writes them."""

import pytest

from waltz.consistency.aggregates import ItemNumber
from waltz.consistency.differences import (
    COT_LESS_POST_HOC,
    EXPLANATION_LESS_ANSWER,
    READS_NO_IMAGE,
    average_over_seeds,
    build_chat_differences,
    build_explanation_differences,
    pair_numbers,
)
from waltz.consistency.metrics import ConsistencyRows
from waltz.core.intervals import Resampling
from waltz.core.schema import CcShapRecord, ConsistencyRecord
from waltz.evaluation.settings import ALL_DATA_SETS

HOW = Resampling(resamples=200, confidence=0.95, seed=1)


def cc_shap(item, kind, answer, explanation, profile="equations", seed=0, **more):
    return CcShapRecord(
        item_id=item,
        profile=profile,
        setting="open",
        kind=kind,
        seed=seed,
        **{
            "image": f"{item}.png",
            "t_shap_answer": answer,
            "t_shap_explanation": explanation,
            **more,
        },
    )


def verdict(item, value, seed=0):
    return ConsistencyRecord(
        item_id=item,
        profile="published",
        setting="choice",
        test="paraphrasing",
        seed=seed,
        text="?",
        verdict=value,
    )


def index(records):
    return {
        (record.model, record.dataset, record.setting, record.metric): record
        for record in records
    }


@pytest.mark.parametrize("profile", ["published", "equations"])
def test_explanations_are_compared_with_the_answers_of_their_items(profile):
    rows = [
        cc_shap("a", "post-hoc", 0.9, 0.7, profile),
        cc_shap("b", "post-hoc", 0.8, 0.75, profile),
        cc_shap("a", "cot", 0.9, 0.6, profile),
        cc_shap("b", "cot", 0.8, 0.65, profile),
    ]
    records = index(
        build_explanation_differences(
            {("m", "vqa"): ConsistencyRows(cc_shap=rows)}, HOW
        )
    )
    values = {
        key[2:]: pytest.approx(record.measure.value) for key, record in records.items()
    }
    # -20 and -5; -30 and -15; -10 and -10
    assert values["post-hoc", EXPLANATION_LESS_ANSWER] == -12.5
    assert values["cot", EXPLANATION_LESS_ANSWER] == -22.5
    assert values["cot", COT_LESS_POST_HOC] == -10
    assert values["post-hoc", f"{EXPLANATION_LESS_ANSWER}:first"] == 72.5
    assert values["post-hoc", f"{EXPLANATION_LESS_ANSWER}:second"] == 85
    assert {record.measure.n for record in records.values()} == {2}


def test_only_items_with_both_explanations_enter_the_difference_of_explanations():
    rows = [
        cc_shap("a", "post-hoc", 0.9, 0.7),
        cc_shap("a", "cot", 0.9, None),
        cc_shap("b", "post-hoc", 0.8, 0.7),
        cc_shap("b", "cot", 0.8, 0.4),
        cc_shap("c", "cot", 0.8, 0.1),
    ]
    records = index(
        build_explanation_differences(
            {("m", "vqa"): ConsistencyRows(cc_shap=rows)}, HOW
        )
    )
    record = records["m", "vqa", "cot", COT_LESS_POST_HOC]
    assert record.measure.value == pytest.approx(-30)
    assert (record.measure.n, record.unpaired) == (1, 2)


def test_data_sets_are_pooled_with_equal_weights():
    runs = {
        ("m", "vqa"): ConsistencyRows(
            cc_shap=[cc_shap(name, "cot", 0.9, 0.8) for name in "abc"]
        ),
        ("m", "gqa"): ConsistencyRows(cc_shap=[cc_shap("a", "cot", 0.9, 0.6)]),
    }
    records = index(build_explanation_differences(runs, HOW))
    record = records["m", ALL_DATA_SETS, "cot", EXPLANATION_LESS_ANSWER]
    assert record.measure.value == pytest.approx(-20)
    # item a of both data sets has the same image
    assert (record.measure.n, record.measure.images) == (4, 3)


def test_a_model_without_images_says_why_it_has_no_difference():
    rows = [cc_shap(name, "cot", None, None, image=None) for name in "ab"]
    records = build_explanation_differences(
        {("gpt2", "comve"): ConsistencyRows(cc_shap=rows)}, HOW
    )
    (record,) = records
    assert (record.measure.value, record.measure.n) == (None, 2)
    assert record.measure.reason == READS_NO_IMAGE
    assert (record.dataset, record.p) == ("comve", None)


def test_chat_models_are_compared_with_their_base_over_items_and_seeds():
    runs = {
        ("base", "comve"): ConsistencyRows([verdict("a", 0), verdict("b", 1)]),
        ("chat", "comve"): ConsistencyRows(
            [verdict("a", 1), verdict("b", 1), verdict("c", 0)]
        ),
        ("chat", "e-snli"): ConsistencyRows([verdict("a", 1)]),
    }
    records = index(build_chat_differences(runs, {"chat": "base"}, HOW))
    record = records["chat", "comve", "cot", "paraphrasing"]
    assert (record.measure.value, record.measure.n, record.unpaired) == (50, 2, 1)
    assert record.base_model == "base"
    # the base model was not run on e-SNLI, so there is one data set and nothing is pooled
    assert {key[1] for key in records} == {"comve"}


def test_an_item_of_a_chat_model_that_samples_is_averaged_over_its_seeds():
    numbers = [
        ItemNumber("a", "a", 1, 2.0, None),
        ItemNumber("a", "a", 2, 4.0, None),
        ItemNumber("a", "a", 3, None, "no verdict"),
        ItemNumber("b", "b", 1, None, "no verdict"),
    ]
    averages = average_over_seeds(numbers)
    assert [(number.item_id, number.value) for number in averages] == [
        ("a", 3.0),
        ("b", None),
    ]
    # A base model with one seed is paired with all runs of the chat model.
    (pair,) = pair_numbers("d", averages[:1], average_over_seeds(numbers[:1]))
    assert (pair.first, pair.second) == (3.0, 2.0)
