"""Sentences about the share of text in answers and explanations."""

from dataclasses import replace

from waltz.consistency.differences import EXPLANATION_LESS_ANSWER, READS_NO_IMAGE
from waltz.core.measure import Measure
from waltz.core.schema import DifferenceRecord
from waltz.evaluation.settings import ALL_DATA_SETS
from waltz.reporting.page.share_changes import describe_share_changes


def change(
    model, value, low, high, p=0.001, n=90, dataset=ALL_DATA_SETS, profile="published"
):
    return DifferenceRecord(
        model=model,
        dataset=dataset,
        profile=profile,
        setting="post-hoc",
        metric=EXPLANATION_LESS_ANSWER,
        measure=Measure(value, n, low, high, images=n),
        p=p,
        p_holm=p,
    )


MISTRAL = change("mistral", -3.1, -5.2, -1.2)


def test_a_fall_is_told_with_interval_and_model():
    assert describe_share_changes([MISTRAL], 0.95) == [
        "From answer to post-hoc explanation, text's share falls by 3.1 points [1.2, 5.2] (mistral)."
    ]


def test_rises_and_changes_that_cannot_be_told_and_few_items_have_clauses():
    records = [
        MISTRAL,
        change("vicuna", 2.0, 1.0, 3.0),
        change("llava", -0.5, -2.0, 1.0, p=0.6),
        # the interval leaves out 0, but the test does not reject
        change("owl", -0.4, -0.7, -0.1, p=0.08),
        change("small", -9.0, -12.0, -5.0, n=12),
    ]
    assert describe_share_changes(records, 0.95) == [
        "From answer to post-hoc explanation, text's share falls by 3.1 points [1.2, 5.2] (mistral);"
        " rises by 2.0 points [1.0, 3.0] (vicuna);"
        " may be unchanged for owl (-0.4 points [-0.7, -0.1]) and llava (-0.5 points [-2.0, +1.0]);"
        " has too few items for small (n = 12)."
    ]


def test_a_difference_over_all_data_sets_takes_the_place_of_single_ones():
    single = [
        change("mistral", -9.0, -10.0, -8.0, dataset="vqa"),
        MISTRAL,
        change("mistral", 9.0, 8.0, 10.0, dataset="gqa"),
    ]
    assert describe_share_changes(single, 0.95) == describe_share_changes(
        [MISTRAL], 0.95
    )


def test_the_profile_of_the_papers_is_described_if_there_is_one():
    equations = replace(
        MISTRAL, profile="equations", measure=Measure(5.0, 90, 4.0, 6.0)
    )
    assert describe_share_changes([equations, MISTRAL], 0.95) == describe_share_changes(
        [MISTRAL], 0.95
    )
    assert "rises by 5.0" in describe_share_changes([equations], 0.95)[0]


def test_few_items_alone_are_named_once_for_all_kinds_of_explanation():
    few = replace(MISTRAL, measure=Measure(-3.0, 5))
    assert describe_share_changes([few, replace(few, setting="cot")], 0.95) == [
        "Too few items to say how text's share differs between answers and explanations: mistral (n = 5)."
    ]


def test_models_without_images_are_said_to_have_no_difference():
    blind = replace(MISTRAL, measure=Measure(None, 9, reason=READS_NO_IMAGE))
    assert describe_share_changes([blind], 0.95) == [
        "Text's share is not compared between answers and explanations: the models read no image, so that it is"
        " 100 % of both."
    ]
    assert describe_share_changes([], 0.95) == []
    # an undefined T-SHAP is not that of a model without images
    undefined = replace(MISTRAL, measure=Measure(None, 0, reason="none of 9 items"))
    assert describe_share_changes([undefined], 0.95) == []
