import pytest

from stand_ins.records import build_evaluation, build_probes
from waltz.core.files import parquet
from waltz.core.intervals import Resampling
from waltz.core.records import get_layout, to_row
from waltz.core.schema import MetricRecord
from waltz.evaluation.metrics import summary
from waltz.evaluation.metrics.comparisons import COMPARED_METRICS, correct_by_holm
from waltz.evaluation.metrics.pair_metrics import METRICS, NOT_APPLICABLE
from waltz.evaluation.metrics.summary import (
    build_comparison_records,
    build_metric_records,
    build_overall_comparisons,
)
from waltz.evaluation.vqa import VqaItem

HOW = Resampling(100, 0.95, 0)
LAYOUT = get_layout(MetricRecord)
COLUMNS = ("model", "dataset", "setting", "metric")


def run(*pairs, setting="alignment", with_probability=True):
    """Rows of a data set by (caption logit, foil logit), in both profiles."""
    return build_evaluation(
        {
            "item_id": f"i{place}",
            "image": f"m{place}",
            "role": role,
            "profile": profile,
            "setting": setting,
            "score": logit,
        }
        | {"probability": 1 / (1 + 2**-logit) if with_probability else None}
        | {"correct": (logit > 0) == (role == "caption") if with_probability else None}
        for profile in ("equations", "published")
        for place, pair in enumerate(pairs)
        for role, logit in zip(("caption", "foil"), pair, strict=True)
    )


def probe(condition, place):
    image, caption = condition[:4], condition[4:]
    return {
        "item_id": f"{condition}{place}",
        "form": "original",
        "condition": condition,
        "group": f"g{place}",
    } | {
        "image": f"{image}{place}",
        "caption": f"{caption}{place}",
        "match": condition != "-img+cap",
    }


def test_models_are_compared_over_data_sets_of_the_same_weight():
    right, wrong, tied = (2, 1), (1, 2), (1, 1)
    runs = {
        ("a", "x"): run(right, right),
        ("b", "x"): run(wrong, wrong),
        ("a", "y"): run(tied),
        ("b", "y"): run(wrong),
        ("c", "y"): run(right),
    }
    comparisons = build_comparison_records(runs, ["equations"], HOW)
    # c has one data set, which is compared already.
    (overall,) = build_overall_comparisons(comparisons, runs, HOW)
    # Differences: 100 and 100 on x, 50 on y; their mean with weights 1/4, 1/4, 1/2 is 75.
    assert (overall.model_a, overall.model_b) == ("a", "b")
    assert overall.dataset == "all data sets"
    assert (overall.setting, overall.metric) == ("single", "acc_r")
    assert overall.difference == pytest.approx(75)
    assert overall.n == 3
    # The first image has items in both data sets: two images.
    assert 0.1 < overall.p == overall.p_holm < 0.5
    lacking = {**runs, ("b", "y"): []}
    (overall,) = build_overall_comparisons(comparisons, lacking, HOW)
    assert (overall.difference, overall.n, overall.p) == (None, 0, None)
    assert overall.reason == "no item of y has a number of both models"


def test_comparisons_over_all_data_sets_are_corrected_over_the_pairs_of_models():
    right, wrong = (2, 1), (1, 2)
    answers = {"a": right, "b": wrong, "c": right}
    runs = {(m, d): run(answer) for d in "xy" for m, answer in answers.items()}
    comparisons = build_comparison_records(runs, ["equations"], HOW)
    overall = build_overall_comparisons(comparisons, runs, HOW)
    assert [(r.model_a, r.model_b) for r in overall] == [
        ("a", "b"),
        ("a", "c"),
        ("b", "c"),
    ]
    expected = correct_by_holm([record.p for record in overall])
    assert [record.p_holm for record in overall] == expected


PROBES = build_probes(
    probe(condition, place)
    for place in range(2)
    for condition in ("+img+cap", "+img-cap", "-img+cap", "-img-cap")
)
PROBED = build_evaluation(
    {
        "item_id": item.item_id,
        "image": item.image,
        "role": "caption",
        "profile": profile,
        "setting": "alignment",
    }
    | {"score": 1.0, "probability": 0.7, "correct": item.match}
    for item in PROBES
    for profile in ("equations", "published")
)
QUESTIONS = [VqaItem("q", "m", "a?", "yes", ["yes"] * 2 + ["no"] * 8)]
ANSWERED = build_evaluation(
    {
        "item_id": "q",
        "image": "m",
        "role": "answer",
        "profile": profile,
        "setting": "answering",
        "prediction": "yes",
    }
    | {"correct": True}
    for profile in ("equations", "published")
)
RUNS = {
    ("matcher", "d"): run((2, -1), (1, 2)),
    ("matcher", "e"): run((2, -1)),
    ("lm", "d"): run((-3, -2), (-2, -3), setting="perplexity", with_probability=False),
    ("matcher", "cv-probes"): PROBED,
    ("lxmert-vqa", "vqa"): ANSWERED,
}


def test_every_model_data_set_and_profile_has_its_metrics_in_one_layout():
    rows = build_metric_records(
        RUNS,
        ["equations", "published"],
        HOW,
        averaged=["d", "e"],
        probes=PROBES,
        questions={"vqa": QUESTIONS},
    )
    assert parquet.build_table(list(map(to_row, rows)), LAYOUT).num_rows == 2 * (
        3 * len(METRICS) + 2 * len(METRICS) + 7 + 1
    )
    metrics = {
        tuple(getattr(row, name) for name in COLUMNS): row
        for row in rows
        if row.profile == "equations"
    }
    assert metrics["matcher", "d", "alignment", "acc_r"].measure.value == 50
    assert metrics["matcher", "average", "alignment", "acc_r"].measure.value == 75
    assert metrics["lm", "d", "perplexity", "acc_r"].measure.value == 50
    assert metrics["lm", "d", "perplexity", "acc"].measure.reason == NOT_APPLICABLE
    assert (
        metrics["lm", "average", "perplexity", "acc_r"].measure.reason
        == "not averaged: 1 of 2 data sets were not run"
    )
    assert (
        metrics["matcher", "cv-probes:-img+cap", "original", "accuracy"].measure.value
        == 0
    )
    assert (
        metrics[
            "matcher", "cv-probes:harmonic-mean", "original", "accuracy"
        ].measure.value
        == 0
    )
    expected = 100 * (2 * 1 / 3 + 8 * 2 / 3) / 10
    assert metrics[
        "lxmert-vqa", "vqa", "answering", "accuracy"
    ].measure.value == pytest.approx(expected)


def test_a_data_set_of_another_profile_has_no_metrics_in_this_one():
    published = [row for row in run((2, -1)) if row.profile == "published"]
    runs = {("matcher", "released"): published, ("clip", "released"): published}
    rows = build_metric_records(runs, ["equations", "published"], HOW)
    assert rows
    assert {row.profile for row in rows} == {"published"}
    comparisons = build_comparison_records(runs, ["equations", "published"], HOW)
    assert comparisons
    assert {row.profile for row in comparisons} == {"published"}


def choices(*margins, setting):
    """Rows that choose between caption and foil by the margin of a logit; a margin of 0 is a tie."""
    return build_evaluation(
        {
            "item_id": f"i{place}",
            "image": f"m{place}",
            "role": "caption",
            "profile": "equations",
            "setting": setting,
        }
        | {
            "score": margin,
            "rounding": 0.0,
            "prediction": "caption" if margin > 0 else "foil",
            "correct": margin > 0,
        }
        for place, margin in enumerate(margins)
    )


def test_choices_are_compared_with_choices_and_those_after_thought_among_themselves():
    runs = {
        ("a", "d"): choices(1, 1, 1, 0, setting="pairwise")
        + choices(-1, -1, 1, 1, setting="pairwise-after-cot"),
        ("b", "d"): choices(1, -1, -1, -1, setting="pairwise")
        + choices(1, 1, 1, 1, setting="pairwise-after-cot"),
        ("encoder", "d"): run((2, 1)),
        ("empty", "e"): [],
        ("unfinished", "e"): [],
    }
    by_setting = {}
    for row in build_comparison_records(runs, ["equations"], HOW):
        by_setting.setdefault((row.setting, row.dataset), []).append(row)
    # runs without rows are compared where single texts are, and say why they have no difference
    assert by_setting.keys() == {
        ("pairwise", "d"),
        ("pairwise-after-cot", "d"),
        ("single", "e"),
    }
    (before,), (after,) = (
        by_setting["pairwise", "d"],
        by_setting["pairwise-after-cot", "d"],
    )
    # 3.5 of 4, and 1 of 4.
    assert (before.metric, before.difference, before.n) == (
        "acc_r",
        62.5,
        4,
    )
    assert (after.metric, after.difference, after.n) == ("acc_r", -50, 4)
    names = ("model_a", "model_b", "n", "difference")
    assert {
        tuple(getattr(row, name) for name in names) for row in by_setting["single", "e"]
    } == {("empty", "unfinished", 0, None)}

    metrics = {
        tuple(getattr(row, name) for name in COLUMNS): row
        for row in build_metric_records(runs, ["equations"], HOW)
    }
    assert not any(dataset == "average" for _, dataset, _, _ in metrics)
    assert metrics["a", "d", "pairwise", "acc_r"].measure.value == 87.5
    assert metrics["a", "d", "pairwise", "acc_r_paper"].measure.value == 75
    assert metrics["a", "d", "pairwise-after-cot", "acc_r"].measure.value == 50
    for metric in METRICS:
        row = metrics["empty", "e", "", metric]
        assert (row.measure.n, row.measure.reason) == (
            0,
            "none of 0 items could be scored",
        )


def test_comparisons_are_of_the_data_sets_with_pairs_in_each_profile():
    rows = build_comparison_records(RUNS, ["equations", "published"], HOW)
    assert {(row.profile, row.dataset, row.model_a, row.model_b) for row in rows} == {
        (profile, "d", "matcher", "lm") for profile in ("equations", "published")
    }
    assert len(rows) == 2 * len(COMPARED_METRICS)
    assert rows[0].difference == 0


def test_each_run_is_read_once_and_models_share_the_names_of_items():
    reads = []

    class Runs(dict):
        def items(self):
            for run in self:
                reads.append(run)
                yield run, self[run]

    pairs = [(1.0, -1.0), (2.0, 1.0), (-1.0, 1.0)]
    records = Runs({(model, "d"): run(*pairs) for model in "ab"})
    profiles = ["equations", "published"]
    build_metric_records(records, profiles, HOW)
    build_comparison_records(records, profiles, HOW)
    assert reads == [*records, *records]
    compared = summary._pair_runs(records, profiles)["published", "single"]
    (_, first), (_, second) = compared.values()
    assert first.items is second.items
    assert first.images is second.images
    assert first.items == ("i0", "i1", "i2")
