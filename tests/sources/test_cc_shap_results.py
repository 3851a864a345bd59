"""Results of the released CC-SHAP code: generated files in its three forms, and recorded ones if
present.
"""

import json
import re
from collections import Counter
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stand_ins import recorded_results as written
from waltz.core.errors import UserError
from waltz.core.records import write_records
from waltz.sources.formats.cc_shap_results import (
    find_inserted_word,
    read_recorded_results,
    split_notes,
)
from waltz.sources.readers import read_source
from waltz.sources.records import RecordedRecord

ROOT = Path(__file__).parents[2]
TEST_NAMES = {
    "atanasova_counterfact": "counterfactual_edits",
    "turpin": "biasing_features",
    "lanham_early": "early_answering",
    "lanham_mistake": "adding_mistakes",
    "lanham_paraphrase": "paraphrasing",
    "lanham_filler": "filler_tokens",
}
BIT = st.integers(0, 1)
LETTERS = st.sampled_from("ABCDE")
WORDS = st.text(
    st.characters(
        codec="utf-8",
        exclude_characters="\r\x85\u2028\u2029",
        exclude_categories=("Cs", "Cc"),
    )
)
"""Texts without line breaks other than those that are put between them."""


@st.composite
def build_items(draw, min_ratios=2):
    items = []
    for _ in range(draw(st.integers(1, 5))):
        count = draw(st.integers(min_ratios, 6))
        ratios = st.lists(
            st.decimals(-99, 99, places=2).map(float), min_size=count, max_size=count
        )
        text = (
            "\n".join(draw(st.lists(WORDS, min_size=1, max_size=3))).strip()
            or "a question"
        )
        cot = "\n".join(
            [
                "",
                *draw(st.lists(WORDS, max_size=3)),
                "accuracy: ",
                "### a title",
                "Done.",
            ]
        )
        labels = draw(st.tuples(LETTERS, LETTERS))
        verdicts = {name: draw(BIT) for name in written.TESTS}
        items.append(
            written.build_item(
                text,
                draw(LETTERS),
                labels,
                cot,
                verdicts,
                draw(st.tuples(*[ratios] * 4)),
            )
        )
    return items


def read(tmp_path, text, name="results.json"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8", newline="\n")
    return list(read_recorded_results(path, "task", "run"))


def check_rows(items, rows):
    """Compare the rows of a file with the items that it was written from."""
    assert {row.rejected for row in rows} == {None}
    for number, item in enumerate(items):
        of_item = [row for row in rows if row.item_id == str(number)]
        first, second = (row for row in of_item if row.record == "answer")
        assert [first.label, second.label] == [
            item["model_prediction"],
            item["model_prediction_cot"],
        ]
        assert first.gold == second.gold == [item["correct_answer"]]
        assert first.input == item["input"]
        verdicts = {row.test: row.verdict for row in of_item if row.record == "test"}
        assert verdicts == {TEST_NAMES[name]: item[name] for name in written.TESTS}
        attributions = {
            (row.kind, row.output): row
            for row in of_item
            if row.record == "attribution"
        }
        for kind, plot in (
            ("post-hoc", "shap_plot_info_post_hoc"),
            ("cot", "shap_plot_info_cot"),
        ):
            for output, key in (
                ("answer", "ratios_prediction"),
                ("explanation", "ratios_explanation"),
            ):
                row = attributions[kind, output]
                assert [value for (value,) in row.values] == [
                    float(ratio) for ratio in item[plot][key]
                ]
                assert row.suffix == {"answer": 3, "explanation": 2}[output]
                assert len(row.tokens) == len(row.values) + row.suffix


@settings(max_examples=25, deadline=None)
@given(
    items=build_items(),
    task=st.sampled_from(["causal_judgment", "disambiguation_qa", "esnli"]),
)
def test_generated_files_of_language_models_are_read_back_in_both_forms(
    items, task, tmp_path_factory
):
    folder = tmp_path_factory.mktemp("files")
    check_rows(items, read(folder, written.write_language_json(task, items)))
    check_rows(items, read(folder, written.write_markdown(task, items)))


@settings(max_examples=15, deadline=None)
@given(items=build_items(min_ratios=6), grid=st.integers(1, 2))
def test_generated_files_of_vl_decoders_are_read_back(items, grid, tmp_path_factory):
    rows = read(
        tmp_path_factory.mktemp("files"),
        written.write_vision_json("existence", items, grid),
    )
    for number, item in enumerate(items):
        of_item = [row for row in rows if row.item_id == str(number)]
        assert {row.image for row in of_item} == {f"images/{number}.jpg"}
        assert {row.setting for row in of_item} == {
            "pairwise" if item["correct_answer"] in "AB" else "open"
        }
        answer = next(row for row in of_item if row.output == "answer")
        ratios = [
            float(ratio)
            for ratio in item["shap_plot_info_post_hoc"]["ratios_prediction"]
        ]
        assert [value for (value,) in answer.patches] == ratios[: grid**2]
        assert [value for (value,) in answer.values] == ratios[grid**2 :]
        assert (answer.t_shap, answer.suffix, answer.rejected) == (
            0.81,
            2,
            None,
        )
        tests = {row.test: row for row in of_item if row.record == "test"}
        assert tests["counterfactual_edits"].reason == "the run did not run this test"
        assert tests["counterfactual_edits"].verdict is None
        assert tests["biasing_features"].verdict == item["turpin"]
        assert tests["biasing_features"].edited_answer == "A"


@settings(max_examples=20, deadline=None)
@given(verdicts=st.lists(BIT, min_size=1, max_size=8))
def test_verdicts_of_input_from_explanation_are_differences_of_the_running_total(
    verdicts, tmp_path_factory
):
    items = [one_item() for _ in verdicts]
    for write in (written.write_language_json, written.write_markdown):
        rows = read(tmp_path_factory.mktemp("files"), write("comve", items, verdicts))
        found = [row.verdict for row in rows if row.test == "input_from_explanation"]
        assert found == verdicts
    assert list(accumulate(verdicts)) == [
        item["atanasova_input_from_expl"]
        for item in json.loads(
            written.write_language_json("comve", items, verdicts)
        ).values()
    ]


def one_item(**changes):
    verdicts = dict.fromkeys(written.TESTS, 1)
    ratios = [(60.0, -40.0), (30.0, 20.5), (60.0, -40.0), (-10.0, 5.25)]
    return {
        **written.build_item(
            "Which?", "A", ("A", "B"), "\nOne.\nTwo", verdicts, ratios
        ),
        **changes,
    }


def drop(text, *numbers):
    """Leave items out of a JSON file."""
    return json.dumps(
        {
            key: item
            for key, item in json.loads(text).items()
            if int(key[-1]) not in numbers
        }
    )


def test_a_gap_in_the_running_total_leaves_only_what_it_decides(tmp_path):
    text = written.write_language_json(
        "comve", [one_item() for _ in range(6)], [1, 1, 0, 0, 0, 1]
    )
    rows = read(tmp_path, drop(text, 1, 3))  # totals 1, 2, 2, 3 of items 0, 2, 4, 5
    tests = {row.item_id: row for row in rows if row.test == "input_from_explanation"}
    assert {number: row.verdict for number, row in tests.items()} == {
        "0": 1,
        "2": None,
        "4": 0,
        "5": 1,
    }
    assert tests["2"].reason == "1 items before it are missing from the running total"


def test_a_file_with_verdicts_in_the_place_of_totals_is_read_as_such(tmp_path):
    text = written.write_language_json(
        "comve", [one_item() for _ in range(3)], [0, 0, 0]
    )
    content = json.loads(text)
    for item, verdict in zip(content.values(), (0, 1, 0), strict=True):
        item["atanasova_input_from_expl"] = verdict
    rows = read(tmp_path, json.dumps(content))
    assert [row.verdict for row in rows if row.test == "input_from_explanation"] == [
        0,
        1,
        0,
    ]


def test_other_tasks_have_no_input_from_explanation(tmp_path):
    rows = read(tmp_path, written.write_language_json("causal_judgment", [one_item()]))
    assert "input_from_explanation" not in {row.test for row in rows}


@pytest.mark.parametrize(
    ("changes", "record", "reason"),
    [
        ({"model_prediction": None}, "answer", "field 'model_prediction' is missing"),
        ({"lanham_filler": 3}, "test", "verdict 3 is neither 0 nor 1"),
        (
            {"shap_plot_info_cot": "cut o"},
            "attribution",
            "contribution ratios cannot be read",
        ),
        (
            {"shap_plot_info_cot": {"input_tokens": ["a"]}},
            "attribution",
            "contribution ratios cannot be read (KeyError",
        ),
    ],
)
def test_what_cannot_be_used_stays_with_file_item_and_reason(
    changes, record, reason, tmp_path
):
    # The second item is complete: a file without any such item is refused.
    items = [one_item(**changes), one_item()]
    rows = read(tmp_path, written.write_language_json("esnli", items))
    faults = [row for row in rows if row.record == record and row.rejected]
    assert faults
    assert all(
        reason in row.rejected and "results.json: item 'esnli_mist" in row.rejected
        for row in faults
    )


def test_a_fault_in_markdown_names_line_and_field(tmp_path):
    text = written.write_markdown(
        "esnli", [one_item(), one_item(shap_plot_info_post_hoc="{'ratios")]
    )
    line = (
        1
        + [
            n
            for n, line in enumerate(text.splitlines())
            if line.strip() == "shap_plot_info_post_hoc:"
        ][1]
    )
    rows = read(tmp_path, text, "run.md")
    (fault, _) = (row.rejected for row in rows if row.rejected)
    assert fault.startswith(
        f"{tmp_path / 'run.md'}: line {line}: field 'shap_plot_info_post_hoc': contribution"
    )


def test_ratios_that_do_not_fit_their_tokens_are_rejected(tmp_path):
    item = one_item()
    item["shap_plot_info_cot"]["len_marg_pred"] = 4
    rows = read(tmp_path, written.write_language_json("esnli", [item]))
    (fault,) = (row.rejected for row in rows if row.rejected)
    assert fault.endswith("2 ratios for 5 tokens, of which 4 are the query suffix")


def test_cc_shap_that_was_not_computed_has_no_rows(tmp_path):
    rows = read(
        tmp_path, written.write_language_json("esnli", [one_item(shap_plot_info_cot=0)])
    )
    assert Counter((row.record, row.kind) for row in rows)["attribution", "cot"] == 0


def test_an_item_that_occurs_twice_is_rejected_the_second_time(tmp_path):
    text = written.write_markdown("esnli", [one_item()])
    rows = read(tmp_path, text + text)
    assert Counter(row.rejected is None for row in rows) == {
        True: len(rows) // 2,
        False: len(rows) // 2,
    }
    assert len({row.source_id for row in rows}) == len(rows)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: no item: got ''"),
        ("# Results\n", "line 1: no item: got '# Results'"),
        ('{"comve": {}}', "item 'comve': got no number"),
        ('{"comve_0": {', "truncated: the file ends at byte 13"),
        ('{"comve_0": 3}', "is a whole number, not an object"),
        (
            '{"comve_0": {"model_prediction": ["A"]}}',
            "item 'comve_0': field 'model_prediction' is a list, not a text",
        ),
        (
            '{"vqa_0": {"post-hoc": {"prediction": 5}}}',
            "item 'vqa_0': field 'prediction' is a whole number, not a text",
        ),
    ],
)
def test_a_file_that_is_no_results_file_is_refused_in_one_line(text, message, tmp_path):
    with pytest.raises(UserError, match=re.escape(message)) as refused:
        read(tmp_path, text)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "### comve_m_0\ninput: words\n\ncorrect_answer: A\nmodel_prediction: A\n",
            "run: line 4: 'correct_answer' begins no field; write 'correct_answer:' alone on a line after an empty"
            " line, and its value below it (none of 1 items can be used)",
        ),
        (
            "### comve_m_0\n\ncorrect_answer:\nA\n\n**model_prediction:** A\n",
            "run: line 6: 'model_prediction' begins no field",
        ),
        (
            "### comve_m_0\n\ninput:\nwords\n\ngold:\nA\n",
            "run: line 1: field 'correct_answer' is missing (got input, gold); name the fields as in docs/",
        ),
        (
            "### comve_m_0\n### comve_m_1\n",
            "run: line 1: field 'correct_answer' is missing (got no field)",
        ),
        (
            '{"comve_m_0": {"answer": "A", "pred": null}}',
            "run: item 'comve_m_0': field 'correct_answer' is missing (got answer);",
        ),
        (
            '{"vqa_m_0": {"correct_answer": "A", "post-hoc": {"pred": "A"}}}',
            "field 'prediction' is missing (got correct_answer, post-hoc, pred);",
        ),
        (
            '{"comve_m_0": {"a": 1, "b": 1, "c": 1, "d": 1, "e": 1, "f": 1, "g": 1}}',
            "(got a, b, c, d, e, f, …);",
        ),
        (
            '{"comve_m_0": {"correct_answer": {"A": 1}, "model_prediction": "A"}}',
            "field 'correct_answer' is an object, not a text or a list of texts",
        ),
        (
            '{"comve_m_0": {"post-hoc": 3}}',
            "field 'post-hoc' is a whole number, not an object",
        ),
    ],
)
def test_a_file_of_malformed_records_is_refused_with_line_and_remedy(
    text, message, tmp_path
):
    with pytest.raises(UserError) as refused:
        read(tmp_path, text, "run")
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("block", "counts"),
    [
        (0, {"answer": 1, "test": 1, "attribution": 2}),
        (1, {"answer": 1, "test": 1}),
        (2, {"answer": 2, "test": 1, "attribution": 2}),
    ],
)
def test_the_examples_of_the_documentation_are_read(block, counts, tmp_path):
    page = (ROOT / "docs/reference/recorded-runs.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(?:json|markdown)\n(.*?)^```$", page, re.M | re.S)
    rows = read(tmp_path, blocks[block], "run")
    used = [row for row in rows if not row.rejected]
    assert Counter(row.record for row in used) == counts
    # Only the chain of thought, which an example may lack, is rejected.
    assert {row.kind for row in rows if row.rejected} <= {"cot"}


def test_an_edit_of_an_item_without_words_is_not_found(tmp_path):
    item = one_item(input="", atanasova_counterfact_exp="prompt_explanation: x")
    rows = read(tmp_path, written.write_language_json("esnli", [item]))
    (row,) = (row for row in rows if row.test == "counterfactual_edits")
    assert (row.flipped, row.edited_input) == (True, None)


def test_notes_of_tests_are_split_at_their_own_names():
    note = "prompt: a\nb: c, \n  label: B,     \n  explanation: it is B."
    assert split_notes(note, ("prompt", "label", "explanation")) == {
        "prompt": "a\nb: c",
        "label": "B",
        "explanation": "it is B.",
    }
    assert split_notes("nothing of this kind", ("prompt", "label")) == {}


def test_the_inserted_word_is_what_an_edited_text_has_more():
    assert find_inserted_word("A dog runs.", "A dog wildly runs .") == "wildly"
    assert find_inserted_word("A dog runs.", "A cat runs .") is None


# Recorded files, where they are present


@pytest.fixture(scope="module")
def recorded(shared_data):
    files = {
        name: shared_data / f"cc_shap_recorded/{file}_100.md"
        for name, file in (("comve", "comve"), ("e-snli", "esnli"))
    }
    if not all(file.is_file() for file in files.values()):
        pytest.skip(
            "the recorded runs are not here: set WALTZ_DATA with cc_shap_recorded/"
        )
    return files


def test_recorded_runs_are_read_without_a_rejected_row(recorded, tmp_path):
    rows, record_type = read_source(
        "cc-shap-results", {name: str(path) for name, path in recorded.items()}, "run"
    )
    rows = list(rows)
    assert record_type is RecordedRecord
    assert write_records(tmp_path / "rows.parquet", rows, record_type) == (2500, 0)
    means = {}
    for row in rows:
        if row.record == "test":
            means.setdefault((row.dataset, row.test), []).append(row.verdict)
        elif row.record == "answer":
            means.setdefault((row.dataset, row.kind), []).append(row.label in row.gold)
    assert {
        key: 100 * np.mean(values) for key, values in means.items()
    } == pytest.approx(
        {
            ("comve", "post-hoc"): 94,
            ("comve", "cot"): 62,
            ("comve", "counterfactual_edits"): 79,
            ("comve", "input_from_explanation"): 84,
            ("comve", "biasing_features"): 60,
            ("comve", "early_answering"): 28,
            ("comve", "filler_tokens"): 27,
            ("comve", "adding_mistakes"): 28,
            ("comve", "paraphrasing"): 76,
            ("e-snli", "post-hoc"): 54,
            ("e-snli", "cot"): 41,
            ("e-snli", "counterfactual_edits"): 56,
            ("e-snli", "biasing_features"): 48,
            ("e-snli", "early_answering"): 29,
            ("e-snli", "filler_tokens"): 38,
            ("e-snli", "adding_mistakes"): 28,
            ("e-snli", "paraphrasing"): 59,
        }
    )
