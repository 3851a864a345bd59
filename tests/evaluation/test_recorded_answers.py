"""Answers of recorded runs in the evaluation layout: judged anew, scored where there are
log-probabilities.
"""

import json
import math
from dataclasses import replace

import pytest

from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.intervals import Resampling
from waltz.core.records import to_row, write_records
from waltz.core.schema import EVALUATION
from waltz.evaluation.metrics.summary import build_metric_records
from waltz.evaluation.recorded_answers import import_answers
from waltz.model_registry import ModelSpec
from waltz.sources.readers import read_source

MODEL = ModelSpec("mine", "text", "hub/mine", "main")
COMMON = {"record": "answer", "model": "mine", "dataset": "task"}


def import_lines(tmp_path, *lines, profiles=("published", "equations"), model=MODEL):
    path = tmp_path / "runs.jsonl"
    path.write_text("".join(json.dumps({**COMMON, **line}) + "\n" for line in lines))
    rows, record_type = read_source("recorded-runs", {"task": str(path)}, "run")
    write_records(tmp_path / "source.parquet", rows, record_type)
    (result,) = import_answers(tmp_path / "source.parquet", model, ["task"], profiles)
    parquet.build_table(list(map(to_row, result.tables["scores"])), EVALUATION)
    return result


def test_a_choice_is_scored_by_its_log_probabilities_and_judged_by_its_gold_label(
    tmp_path,
):
    scores = {"A": math.log(0.1), "B": math.log(0.3), "C": math.log(0.1)}
    result = import_lines(
        tmp_path,
        {"item_id": "1", "label_log_probabilities": scores, "gold": "B"},
        {"item_id": "1", "kind": "cot", "label": "A", "gold": "B", "reasoning": "so"},
    )
    first, second = result.tables["scores"]
    assert (first.setting, first.prediction, first.correct) == (
        "choice",
        "B",
        True,
    )
    assert first.score == pytest.approx(math.log(0.3))
    assert first.probability == pytest.approx(0.6)
    assert (second.setting, second.correct, second.score) == (
        "choice-after-cot",
        False,
        None,
    )
    assert second.reasoning == "so"


@pytest.mark.parametrize(
    ("gold", "order", "prediction"),
    [("A", "caption-first", "foil"), ("B", "foil-first", "caption")],
)
def test_a_choice_between_caption_and_foil_has_the_margin_of_the_caption(
    gold, order, prediction, tmp_path
):
    result = import_lines(
        tmp_path,
        {
            "item_id": "1",
            "setting": "pairwise",
            "image": "a.jpg",
            "gold": gold,
            "label_log_probabilities": {"A": -2.0, "B": -0.5},
        },
    )
    (row,) = result.tables["scores"]
    assert (row.role, row.order, row.prediction) == (
        "caption",
        order,
        prediction,
    )
    assert row.score == pytest.approx(-1.5 if gold == "A" else 1.5)
    assert row.correct is (gold == "B")


def test_single_texts_make_the_metrics_of_pairs(tmp_path):
    lines = [
        {
            "item_id": item,
            "setting": "single",
            "image": item,
            "role": role,
            "gold": "A" if role == "caption" else "B",
            "label_log_probabilities": {"A": score, "B": 0.0},
        }
        for item, scores in (("x", (1.0, -1.0)), ("y", (2.0, 0.5)))
        for role, score in zip(("caption", "foil"), scores, strict=True)
    ]
    rows = import_lines(tmp_path, *lines).tables["scores"]
    measures = build_metric_records(
        {("mine", "task"): rows}, ["published"], Resampling(100, 0.9, 1)
    )
    values = {row.metric: row.measure.value for row in measures}
    assert values["acc_r"] == 100
    assert (values["p_c"], values["p_f"]) == (100, 50)


@pytest.mark.parametrize(
    ("profile", "generation", "correct"),
    [
        ("published", "It is down.", True),
        ("published", "Downtown", True),
        ("equations", "It is down.", True),
        ("equations", "It is downtown.", False),
    ],
)
def test_open_answers_are_judged_by_the_rules_of_their_profile(
    profile, generation, correct, tmp_path
):
    line = {
        "item_id": 7,
        "setting": "open",
        "gold": ["Down", "up"],
        "generation": generation,
        "profile": profile,
    }
    rows = import_lines(tmp_path, line).tables["scores"]
    assert [(row.setting, row.correct) for row in rows] == [("answering", correct)]
    (measure,) = build_metric_records(
        {("mine", "task"): rows}, [profile], Resampling(100, 0.9, 1)
    )
    assert (measure.metric, measure.measure.value) == ("accuracy", 100 * correct)


def test_answers_are_those_of_the_lowest_seed_and_of_the_model(tmp_path):
    line = {"item_id": "1", "label": "A", "gold": "A"}
    others = {**line, "label": "B", "seed": 4}, {**line, "label": "B", "model": "other"}
    result = import_lines(
        tmp_path, {**line, "seed": 3, "model": "hub/mine", "commit": "abc"}, *others
    )
    assert [row.prediction for row in result.tables["scores"]] == ["A"]
    assert result.facts["other_models"] == {"other": 1}
    assert result.facts["commits"] == ["abc"]
    assert result.facts["seeds"] == [3, 4]


def test_rejected_rows_are_counted_by_reason(tmp_path):
    result = import_lines(
        tmp_path,
        {"item_id": "1", "label": "A", "gold": "A"},
        {"item_id": "2", "gold": "A"},
    )
    assert result.facts["unusable"] == {"neither label nor label_log_probabilities": 1}
    assert (result.rows_in, len(result.tables["scores"])) == (2, 1)


def test_a_source_without_the_model_is_refused(tmp_path):
    with pytest.raises(
        UserError,
        match=r"no records of other on task: .* \(got mine, expected other or hub/other\)",
    ):
        import_lines(
            tmp_path,
            {"item_id": "1", "label": "A", "gold": "A"},
            model=replace(MODEL, name="other", weights="hub/other"),
        )


def test_a_profile_that_the_study_lacks_is_refused(tmp_path):
    with pytest.raises(
        UserError, match="profiles: records of mine on task are of profile published"
    ):
        import_lines(
            tmp_path,
            {"item_id": "1", "label": "A", "gold": "A"},
            profiles=["equations"],
        )
