"""Sample logs of lm-eval and lmms-eval as rows of recorded runs."""

import json

import pytest

from waltz.core.errors import UserError
from waltz.core.records import read_records, write_records
from waltz.evaluation.recorded_answers import build_answer_record
from waltz.sources.readers import read_source

PAIR = {
    "item_id": "existence:7",
    "caption": "There are dogs.",
    "foil": "There are no dogs.",
    "image_file": "7.jpg",
}
CHOICE = {
    "doc_id": 3,
    "doc": {"question": "Which?"},
    "target": "1",
    "arguments": {
        "gen_args_0": {"arg_0": "Which?", "arg_1": " a"},
        "gen_args_1": {"arg_0": "Which?", "arg_1": " b"},
        "gen_args_2": {"arg_0": "Which?", "arg_1": " c"},
    },
    "filtered_resps": [["-3.5", "False"], ["-1.25", "True"], ["-9.0", "False"]],
}
OF_PAIR = {
    **CHOICE,
    "doc": PAIR,
    "filtered_resps": [["-3.5", "False"], ["-4.0", "False"]],
}
OPEN = {
    "doc_id": 4,
    "doc": {},
    "target": "two",
    "input": "How many?",
    "filtered_resps": ["Two."],
}
LABELLED = {
    **OPEN,
    "doc": PAIR,
    "target": "A",
    "filtered_resps": ["(B)"],
    "acc": 0.0,
    "answered": 1.0,
}


@pytest.fixture
def read(tmp_path):
    def read_lines(*samples):
        path = tmp_path / "samples_task_now.jsonl"
        path.write_text("".join(json.dumps(sample) + "\n" for sample in samples))
        rows, record_type = read_source(
            "harness-samples", {"existence": str(path)}, "run"
        )
        write_records(tmp_path / "rows.parquet", rows, record_type)
        return read_records(tmp_path / "rows.parquet", record_type)

    return read_lines


def test_a_multiple_choice_has_log_probabilities_of_its_options(read):
    (row,) = read(CHOICE)
    assert (row.item_id, row.setting, row.labels, row.gold) == (
        "3",
        "choice",
        ["A", "B", "C"],
        ["B"],
    )
    assert (row.label, row.prompt, row.rejected, row.model) == (
        "B",
        "Which?",
        None,
        None,
    )
    answer = build_answer_record(row)
    assert (answer.score, answer.correct) == (-1.25, True)


def test_likelihoods_of_caption_and_foil_are_a_pairwise_answer(read):
    (row,) = read(OF_PAIR)
    assert (row.item_id, row.image, row.setting, row.gold) == (
        "existence:7",
        "7.jpg",
        "pairwise",
        ["B"],
    )
    answer = build_answer_record(row)
    assert (answer.prediction, answer.correct, answer.score) == (
        "foil",
        False,
        -0.5,
    )


def test_a_pair_of_one_text_is_rejected(read):
    (row,) = read({**OF_PAIR, "doc": {**PAIR, "foil": "There  are\u00a0dogs."}})
    assert row.rejected.startswith("caption and foil are the same text")


def test_a_generated_answer_is_an_open_one(read):
    (row,) = read(OPEN)
    assert (row.setting, row.generation, row.gold, row.prompt) == (
        "open",
        "Two.",
        ["two"],
        "How many?",
    )


@pytest.mark.parametrize(
    ("metrics", "label", "correct"),
    [
        ({"acc": 0.0}, "B", False),
        ({"acc": 1.0}, "A", True),
        ({"acc": 0.0, "answered": 0.0}, None, None),
    ],
)
def test_the_label_of_an_exported_task_is_read_from_its_metrics(
    metrics, label, correct, read
):
    (row,) = read(LABELLED | metrics)
    assert row.label == label
    if label is None:
        assert row.rejected == "neither label nor label_log_probabilities"
    else:
        assert build_answer_record(row).correct is correct


def test_the_first_of_several_filters_counts(read):
    first, second = read({**OPEN, "filter": "strict"}, {**OPEN, "filter": "flexible"})
    assert (first.rejected, second.rejected) == (
        None,
        "line 1 holds the same item, by another filter",
    )


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        ({"doc_id": 1}, "line 1: field 'filtered_resps' is missing"),
        (
            {**OPEN, "filtered_resps": []},
            "line 1: is not a sample of lm-eval or lmms-eval",
        ),
        ({**CHOICE, "target": "7"}, "line 1: is not a sample"),
        ({**CHOICE, "filtered_resps": [["-inf?", "True"]]}, "line 1: is not a sample"),
        ({**OPEN, "doc": "text"}, "line 1: is not a sample"),
        ({**OPEN, "target": {"a": 1}}, "line 1: is not a sample"),
        ({**OPEN, "target": []}, "line 1: is not a sample"),
        ({**OPEN, "filtered_resps": "Two."}, "line 1: is not a sample"),
        ({**OPEN, "arguments": "Two?"}, "line 1: is not a sample"),
        ({**OPEN, "arguments": {"gen_args_0": {}}}, "line 1: is not a sample"),
        (
            {**OPEN, "arguments": {"gen_args_0": {"arg_0": "Two?"}, "gen_args_1": 2}},
            "line 1: is not a sample",
        ),
        *(
            ({**CHOICE, "target": target}, "line 1: is not a sample")
            for target in (-1, "-1", 1.5, True, 3, None, "nan")
        ),
        ({**CHOICE, "filtered_resps": [[10**400, "True"]]}, "line 1: is not a sample"),
        *(
            ({**LABELLED, "answered": answered}, "line 1: is not a sample")
            for answered in ("no", 2, None)
        ),
        ({**LABELLED, "acc": "no"}, "line 1: is not a sample"),
        ({**LABELLED, "target": "C"}, "line 1: is not a sample"),
    ],
)
def test_a_line_that_is_no_sample_is_refused_in_one_line(sample, message, read):
    with pytest.raises(UserError, match=message) as refused:
        read(sample)
    assert "\n" not in str(refused.value)
