"""Sentences about the differences between models."""

import pytest

from stand_ins.records import build_comparison
from waltz.reporting.page.findings import ModelFinding
from waltz.reporting.page.model_differences import (
    describe_difference,
    describe_model_differences,
)


@pytest.mark.parametrize(
    ("numbers", "sentence"),
    [
        (
            {},
            "clip is better than blip_2 on mine by 12.5 points [3.1, 21.9], p = 0.011",
        ),
        (
            {"difference": -5.0, "ci_low": -8.0, "ci_high": -1.0, "p_holm": 0.0001},
            "blip_2 is better than clip on mine by 5.0 points [1.0, 8.0], p < 0.001",
        ),
        (
            {"ci_low": -7.5, "ci_high": 4.0, "p_holm": 0.3},
            "clip and blip_2: no difference is shown on mine (p = 0.300); one of up to 7.5 points"
            " cannot be excluded",
        ),
        (
            {"ci_low": None, "ci_high": None, "p_holm": 1.0},
            "clip and blip_2: no difference is shown on mine (p = 1.000); too few images say how"
            " large one may be",
        ),
        (
            {"difference": None, "p_holm": None, "reason": "no item"},
            "clip and blip_2: no comparison on mine: no item",
        ),
        (
            {"metric": "t_shap"},
            "clip has a higher T-SHAP than blip_2 on mine by 12.5 points [3.1, 21.9], p = 0.011",
        ),
        (
            {"metric": "t_shap", "ci_low": -7.5, "ci_high": 4.0, "p_holm": 0.3},
            "clip and blip_2: no difference of T-SHAP is shown on mine (p = 0.300); one of up to 7.5 points cannot be"
            " excluded",
        ),
    ],
)
def test_a_sentence_says_who_is_better_or_what_cannot_be_excluded(numbers, sentence):
    assert describe_difference(build_comparison(**numbers)) == sentence


def test_the_page_compares_few_models_over_all_data_sets():
    findings = [
        ModelFinding("clip", "encoder", profile="equations"),
        ModelFinding("blip_2", "encoder", profile="equations"),
        ModelFinding("ruler", "ruler", profile="equations"),
    ]
    on_mine = build_comparison()
    overall = build_comparison(dataset="all data sets", difference=6.0)
    others = [
        build_comparison(metric="auroc"),
        build_comparison("clip", "ruler"),
        build_comparison(setting="single-after-cot"),
    ]
    assert describe_model_differences([on_mine, *others], findings) == [
        "clip is better than blip_2 on mine by 12.5 points [3.1, 21.9], p = 0.011."
    ]
    (sentence,) = describe_model_differences([on_mine, overall, *others], findings)
    assert sentence.startswith("clip is better than blip_2 on all data sets by 6.0")
    # Choices between both texts are what the page shows of decoders.
    choice = build_comparison(setting="pairwise", difference=3.0)
    (sentence,) = describe_model_differences([choice, on_mine], findings)
    assert "by 3.0 points" in sentence


def test_the_page_has_no_sentence_for_each_of_many_pairs():
    names = "abcd"
    findings = [ModelFinding(name, "encoder", profile="equations") for name in names]
    pairs = [build_comparison(a, b) for a in names for b in names if a < b]
    assert describe_model_differences(pairs, findings) == []
    assert len(describe_model_differences(pairs, findings[:3])) == 3
