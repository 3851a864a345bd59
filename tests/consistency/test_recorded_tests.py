"""Verdicts and attributions of recorded runs in the layouts of stage consistency; CC-SHAP computed
by our own code.
"""

import json

import numpy as np
import pytest
from scipy.spatial.distance import cosine

from waltz.attribution.t_shap import CONTRIBUTION_RATIO
from waltz.consistency.metrics import (
    EXCESS,
    EXCESS_CONTENT,
    IDENTIFIED,
    ConsistencyRows,
    build_metric_records,
    collect_series,
)
from waltz.consistency.recorded_tests import (
    import_attributions,
    import_tests,
    locate_tokens,
)
from waltz.core.files import parquet
from waltz.core.intervals import Resampling
from waltz.core.records import to_row, write_records
from waltz.core.schema import ATTRIBUTION, CC_SHAP, CONSISTENCY
from waltz.model_registry import ModelSpec
from waltz.sources.readers import read_source

MODEL = ModelSpec("mine", "text", "", "")
COMMON = {"model": "mine", "dataset": "task", "item_id": "1"}
RATIOS = {
    **COMMON,
    "record": "attribution",
    "kind": "cot",
    "prompt": "[INST] Is it? [/INST]",
    "tokens": [" [", " INST", " ]", " Is", " it", " ?", " [/INST]"],
    "unit": "ratio",
    "suffix": 1,
}
ANSWER = [10.0, 5.0, 5.0, -40.0, 20.0, 20.0]
EXPLANATION = [5.0, 5.0, 5.0, 30.0, -20.0, 10.0]


def write_source(tmp_path, *lines):
    path = tmp_path / "runs.jsonl"
    path.write_text("".join(json.dumps({**COMMON, **line}) + "\n" for line in lines))
    rows, record_type = read_source("recorded-runs", {"task": str(path)}, "run")
    write_records(tmp_path / "source.parquet", rows, record_type)
    return tmp_path / "source.parquet"


def import_lines(tmp_path, *lines):
    (result,) = import_attributions(
        write_source(tmp_path, *lines), MODEL, ["task"], ["published"]
    )
    parquet.build_table(list(map(to_row, result.tables["rows"])), CC_SHAP)
    parquet.build_table(list(map(to_row, result.tables["contributions"])), ATTRIBUTION)
    return result


def test_cc_shap_of_ratios_is_their_cosine_and_the_runs_own_is_compared(tmp_path):
    answer = {
        **RATIOS,
        "output": "answer",
        "values": ANSWER,
        "cc_shap": -0.5,
        "generation": "A",
    }
    explanation = {
        **RATIOS,
        "output": "explanation",
        "values": EXPLANATION,
        "generation": "because",
    }
    result = import_lines(tmp_path, answer, explanation)
    (row,) = result.tables["rows"]
    expected = 1 - cosine(ANSWER, EXPLANATION)
    assert row.value == pytest.approx(expected, abs=1e-12)
    assert (row.kind, row.answer, row.explanation) == ("cot", "A", "because")
    assert result.facts["largest_difference"] == pytest.approx(abs(expected + 0.5))
    assert row.correlation == pytest.approx(np.corrcoef(ANSWER, EXPLANATION)[0, 1])


def test_attributions_keep_the_players_before_the_suffix_with_their_places_in_the_prompt(
    tmp_path,
):
    sides = [
        {**RATIOS, "output": output, "values": ANSWER}
        for output in ("answer", "explanation")
    ]
    rows = import_lines(tmp_path, *sides).tables["contributions"]
    assert [row.setting for row in rows] == ["cot:answer", "cot:explanation"]
    row = rows[0]
    assert row.explained == CONTRIBUTION_RATIO
    assert row.tokens == RATIOS["tokens"][:-1]
    assert [value for (value,) in row.phi] == ANSWER
    words = [row.text[span.start : span.end] for span in row.spans]
    assert words == ["[", "INST", "]", "Is", "it", "?"]


def test_tokens_that_are_not_in_the_text_have_empty_places():
    assert locate_tokens("a cat", ["a", "dog"]) == [{"start": 0, "end": 0}] * 2
    assert locate_tokens("a cat", ["", " a", "▁cat"]) == [
        {"start": 0, "end": 0},
        {"start": 0, "end": 1},
        {"start": 2, "end": 5},
    ]


def test_shapley_values_are_compared_by_the_rules_of_the_profile(tmp_path):
    # two output tokens of the explanation; the ratios leave the suffix out of the total, patches
    # come last
    shapley = {
        **RATIOS,
        "unit": "shapley",
        "tokens": ["a", "b", "?"],
        "suffix": 1,
        "grid": 1,
    }
    answer = {
        **shapley,
        "output": "answer",
        "values": [1.0, -2.0, 5.0],
        "patches": [1.0],
    }
    values, patches = [[1.0, 2.0], [3.0, 0.0], [9.0, 9.0]], [[0.0, -2.0]]
    explanation = {
        **shapley,
        "output": "explanation",
        "values": values,
        "patches": patches,
    }
    (row,) = import_lines(tmp_path, answer, explanation).tables["rows"]
    ratios = [25.0, -50.0, 25.0], [(25 + 50) / 2, 75 / 2, -50 / 2]
    assert row.ratios_answer == pytest.approx(ratios[0])
    assert row.ratios_explanation == pytest.approx(ratios[1])
    assert row.value == pytest.approx(1 - cosine(*ratios))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"values": EXPLANATION[:5], "suffix": 2},
            "6 ratios of the answer, 5 of the explanation cannot be compared",
        ),
        ({"values": [0.0] * 6}, "all ratios of one side are 0"),
        (
            {"values": [float("nan")] * 6},
            "the run has no usable attribution of the explanation",
        ),
        (
            {"unit": "shapley", "values": [1.0] * 7},
            "answer and explanation have different units or grids of patches",
        ),
    ],
)
def test_what_cannot_be_compared_has_a_reason(changes, reason, tmp_path):
    sides = [
        {**RATIOS, "output": "answer", "values": ANSWER},
        {**RATIOS, "output": "explanation", **changes},
    ]
    (row,) = import_lines(tmp_path, *sides).tables["rows"]
    assert (row.value, row.reason) == (None, reason)


def test_verdicts_of_several_seeds_have_a_deviation(tmp_path):
    test = {
        "record": "test",
        "test": "filler_tokens",
        "input": "Is it?",
        "prompt": "p",
        "generation": "g",
    }
    verdicts = {("1", 0): 1, ("2", 0): 0, ("1", 1): 1, ("2", 1): None}
    answer = {"record": "answer", "kind": "cot", "gold": "A"}
    lines = [
        {**answer, "item_id": item, "seed": seed, "label": "AB"[seed]}
        for item, seed in verdicts
    ]
    lines += [
        {**test, "item_id": item, "seed": seed, "verdict": verdict}
        for (item, seed), verdict in verdicts.items()
    ]
    (result,) = import_tests(
        write_source(tmp_path, *lines), MODEL, ["task"], ["published"]
    )
    rows = result.tables["rows"]
    parquet.build_table(list(map(to_row, rows)), CONSISTENCY)
    assert result.facts["without_verdict"] == 1
    assert rows[0].text == "Is it?"
    assert rows[0].exchanges[0].reply == "g"
    metrics = build_metric_records(
        {("mine", "task"): ConsistencyRows(rows)},
        Resampling(100, 0.9, 1),
    )
    values = {metric.metric: metric.measure.value for metric in metrics}
    assert values["filler_tokens"] == pytest.approx(75)
    assert [
        values[f"accuracy_cot{ending}"] for ending in ("", ":seed=0", ":seed=1")
    ] == [50, 100, 0]
    assert values["filler_tokens:sd"] == pytest.approx(np.std([50, 100], ddof=1))


@pytest.mark.parametrize(
    ("profile", "changes", "mention", "reason"),
    [
        ("published", {}, "suggest", "the chain of thought contains 'suggest'"),
        ("published", {"edited_answer": "A"}, None, "noted"),
        ("published", {"verdict": 0}, None, "noted"),
        ("published", {"test": "early_answering"}, None, "noted"),
        ("published", {"edited_explanation": "no"}, None, "noted"),
        ("equations", {}, None, "noted"),
        (
            "equations",
            {"edited_explanation": "You chose (B).", "edited_answer": "B"},
            "You chose (B)",
            "the chain of thought refers to the suggestion: 'You chose (B)'",
        ),
        (
            "equations",
            {"edited_explanation": "You chose (B).", "edited_answer": "A"},
            None,
            "noted",
        ),
    ],
)
def test_a_recorded_verdict_that_rests_on_a_mention_names_its_words(
    profile, changes, mention, reason, tmp_path
):
    line = {
        "record": "test",
        "profile": profile,
        "test": "biasing_features",
        "verdict": 1,
        "answer": "A",
        "edited_explanation": "It suggests that fish walk.",
        "inserted": "B",
        "reason": "noted",
        **changes,
    }
    (result,) = import_tests(write_source(tmp_path, line), MODEL, ["task"], [profile])
    (row,) = result.tables["rows"]
    assert (row.mention, row.reason) == (mention, reason)


def test_recorded_cc_shap_is_reproduced_up_to_its_rounding(shared_data, tmp_path):
    folder = shared_data / "cc_shap_recorded"
    if not folder.is_dir():
        pytest.skip(
            "the recorded runs are not here: set WALTZ_DATA with cc_shap_recorded/"
        )
    files = {
        "comve": str(folder / "comve_100.md"),
        "e-snli": str(folder / "esnli_100.md"),
    }
    rows, record_type = read_source("cc-shap-results", files, "run")
    write_records(tmp_path / "source.parquet", rows, record_type)
    means, numbers_of_metric = {}, {}
    for result in import_attributions(
        tmp_path / "source.parquet", MODEL, files, ["published"]
    ):
        assert result.facts["recorded_values"] == 200
        assert result.facts["largest_difference"] < 0.006
        for kind in ("post-hoc", "cot"):
            values = [row.value for row in result.tables["rows"] if row.kind == kind]
            means[result.dataset.name, kind] = np.mean(values)
        run = ConsistencyRows(cc_shap=result.tables["rows"])
        for (metric, _), numbers in collect_series(run).items():
            values = [number.value for number in numbers if number.value is not None]
            numbers_of_metric[result.dataset.name, metric] = values
    published = {("comve", "post-hoc"): 0.106, ("comve", "cot"): 0.137}
    published |= {("e-snli", "post-hoc"): 0.176, ("e-snli", "cot"): 0.176}
    assert means == pytest.approx(published, abs=0.001)
    # From another program: mean excess, also over content tokens, and share of other items'
    # explanations that agree less.
    other = {
        ("comve", "cc_shap_posthoc"): (0.012, 0.023, 52, 94),
        ("comve", "cc_shap_cot"): (0.020, 0.030, 54, 94),
        ("e-snli", "cc_shap_posthoc"): (0.010, 0.018, 53, 91),
        ("e-snli", "cc_shap_cot"): (-0.011, -0.003, 48, 91),
    }
    for (dataset, metric), (excess, content, identified, n) in other.items():
        values = numbers_of_metric[dataset, metric + EXCESS]
        assert (np.mean(values), len(values)) == (pytest.approx(excess, abs=6e-4), n)
        values = numbers_of_metric[dataset, metric + EXCESS_CONTENT]
        assert (np.mean(values), len(values)) == (pytest.approx(content, abs=6e-4), n)
        # The other program leaves out items with fewer than two partners.
        values = numbers_of_metric[dataset, metric + IDENTIFIED]
        assert np.mean(values) == pytest.approx(identified, abs=3)
