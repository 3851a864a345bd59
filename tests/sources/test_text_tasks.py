"""The text tasks: e-SNLI, ComVE and BIG-Bench Hard."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from waltz.core.errors import UserError
from waltz.core.records import to_row, write_records
from waltz.sources.formats import text_tasks
from waltz.sources.records import TextRecord

HEADER = "gold_label,Sentence1,Sentence2,Explanation_1\n"


def write_file(path: Path, text: str, name: str = "raw.csv") -> Path:
    (path / name).write_text(text, encoding="utf-8")
    return path / name


def test_esnli_pairs_become_rows(tmp_path: Path) -> None:
    text = (
        HEADER
        + 'neutral,"A dog, brown .",It barks .,may be silent\n-,A,B,\nentailment,,B,x\n'
    )
    rows = list(text_tasks.read_esnli(write_file(tmp_path, text), "esnli", "test"))
    assert to_row(rows[0]) == {
        "source": "esnli",
        "source_id": "0",
        "split": "test",
        "image": None,
        "task": "esnli",
        "text": None,
        "premise": "A dog, brown .",
        "hypothesis": "It barks .",
        "choices": ("entailment", "contradiction", "neutral"),
        "gold": 2,
        "explanations": ("may be silent",),
        "reconstructed": True,
        "rejected": None,
    }
    assert [row.rejected for row in rows[1:]] == [
        "label '-' is none of entailment, contradiction, neutral",
        "the premise is empty",
    ]
    assert write_records(tmp_path / "rows.parquet", rows, TextRecord) == (3, 2)


def test_an_original_esnli_file_is_recognized_by_its_pair_ids(tmp_path: Path) -> None:
    text = "pairID,gold_label,Sentence1,Sentence2\n27.jpg#1r1n,neutral,A,B\n"
    (row,) = text_tasks.read_esnli(write_file(tmp_path, text), "esnli", "test")
    assert (row.source_id, row.reconstructed, row.explanations) == (
        "27.jpg#1r1n",
        False,
        (),
    )
    with pytest.raises(UserError, match=r"line 3: pair 27\.jpg#1r1n: duplicate id"):
        list(
            text_tasks.read_esnli(
                write_file(tmp_path, text + text.splitlines()[1] + "\n"),
                "esnli",
                "test",
            )
        )
    with pytest.raises(UserError, match="column 'Sentence2' is missing"):
        list(
            text_tasks.read_esnli(
                write_file(tmp_path, "gold_label,Sentence1\n"), "esnli", "test"
            )
        )


def test_the_line_by_line_release_of_esnli_becomes_the_same_rows(
    tmp_path: Path,
) -> None:
    lines = [
        write_file(tmp_path, text, name)
        for name, text in (
            ("s1", "A dog .  \nA\n"),
            ("s2", "It\tbarks .\nB\n"),
            ("labels", "neutral\n-\n"),
        )
    ]
    rows = list(text_tasks.read_esnli_lines(*lines, "esnli", "test"))
    table = HEADER + "neutral,A dog .,It barks .,\n-,A,B,\n"
    assert rows == list(
        text_tasks.read_esnli(write_file(tmp_path, table), "esnli", "test")
    )
    short = write_file(tmp_path, "neutral\n", "short")
    with pytest.raises(UserError, match="short: it ends after line 1"):
        list(text_tasks.read_esnli_lines(*lines[:2], short, "esnli", "test"))


def test_the_real_esnli(shared_data: Path) -> None:
    folder = shared_data / "esnli"
    rows = list(
        text_tasks.read_esnli(folder / "esnli_test_rebuilt.csv", "esnli", "test")
    )
    lines = text_tasks.read_esnli_lines(
        folder / "s1.test", folder / "s2.test", folder / "labels.test", "esnli", "test"
    )
    assert [replace(row, explanations=()) for row in rows] == list(lines)
    assert len(rows) == 9824
    assert Counter(row.gold for row in rows) == {0: 3368, 1: 3237, 2: 3219}
    assert all(row.reconstructed and row.rejected is None for row in rows)


def test_comve_answers_name_the_nonsensical_sentence(tmp_path: Path) -> None:
    sentences = write_file(
        tmp_path,
        "id,sent0,sent1\n12,A cat reads,A cat eats\n5,,B\n6,C,D\n7,E,F\n",
        "sentences.csv",
    )
    answers = write_file(tmp_path, "5,1\n12,0\n7,2\n", "answers.csv")
    rows = list(text_tasks.read_comve(sentences, answers, "comve", "test"))
    assert to_row(rows[0]) == {
        "source": "comve",
        "source_id": "12",
        "split": "test",
        "image": None,
        "task": "comve",
        "text": None,
        "premise": None,
        "hypothesis": None,
        "choices": ["A cat reads", "A cat eats"],
        "gold": 0,
        "explanations": (),
        "reconstructed": False,
        "rejected": None,
    }
    assert [row.rejected for row in rows[1:]] == [
        "sentence 0 is empty",
        "the pair has no answer",
        "answer '2' is neither 0 nor 1",
    ]
    assert write_records(tmp_path / "rows.parquet", rows, TextRecord) == (4, 3)


@pytest.mark.parametrize(
    ("sentences", "answers", "message"),
    [
        ("id,sent0,sent1\n1,A,B\n1,C,D\n", "1,0\n", "line 3: pair 1: duplicate id"),
        ("id,sent0,sent1\n1,A,B\n", "1,0\n1,1\n", "line 2: pair 1: duplicate id"),
        (
            "id,sent0,sent1\n1,A,B\n",
            "1,0\n2,1\n",
            r"answers\.csv: pair 2 is not in .*sentences\.csv",
        ),
        ("id,sent0\n1,A\n", "1,0\n", "column 'sent1' is missing"),
        ("id,sent0,sent1\n1,A,B\n", "1\n", "line 1: 1 cells, not 2"),
    ],
)
def test_broken_comve_files_are_named(
    tmp_path: Path, sentences: str, answers: str, message: str
) -> None:
    files = (
        write_file(tmp_path, sentences, "sentences.csv"),
        write_file(tmp_path, answers, "answers.csv"),
    )
    with pytest.raises(UserError, match=message):
        list(text_tasks.read_comve(*files, "comve", "test"))


def test_the_real_comve(shared_data: Path) -> None:
    folder = shared_data / "comve"
    files = folder / "subtaskA_test_data.csv", folder / "subtaskA_gold_answers.csv"
    rows = list(text_tasks.read_comve(*files, "comve", "test"))
    assert len(rows) == 1000
    assert Counter(row.gold for row in rows) == {0: 508, 1: 492}
    assert (
        rows[0].choices[rows[0].gold] == "He loves to stroll at the park with his bed"
    )
    assert all(row.rejected is None for row in rows)


ITEM = {
    "inputs": "Q: Did it?\nA:",
    "parsed_inputs": "Q: Did it?\n\nAnswer choices:\n(A) No\n(B) Yes",
    "multiple_choice_targets": ["No", "Yes"],
    "multiple_choice_scores": [0, 1],
    "random_ans_idx": 0,
}


def test_bbh_data_becomes_rows(write_json: Any, tmp_path: Path) -> None:
    items = [
        ITEM,
        ITEM | {"multiple_choice_scores": [1, 1]},
        ITEM | {"multiple_choice_scores": [1]},
        ITEM | {"multiple_choice_targets": ["Yes", "No"]},
    ]
    rows = list(
        text_tasks.read_bbh_data(
            write_json({"canary": "c", "data": items}),
            "causal_judgment",
            "bbh",
            "validation",
        )
    )
    assert to_row(rows[0]) == {
        "source": "bbh",
        "source_id": "0",
        "split": "validation",
        "image": None,
        "task": "causal_judgment",
        "text": ITEM["parsed_inputs"],
        "premise": None,
        "hypothesis": None,
        "choices": ["No", "Yes"],
        "gold": 1,
        "explanations": (),
        "reconstructed": False,
        "rejected": None,
    }
    assert [row.rejected for row in rows[1:]] == [
        "its scores [1, 1] do not mark one of 2 choices",
        "its scores [1] do not mark one of 2 choices",
        "its lettered choices are not its targets",
    ]
    assert write_records(tmp_path / "rows.parquet", rows, TextRecord) == (4, 3)


def test_bbh_examples_become_rows(write_json: Any) -> None:
    examples = [
        {
            "input": "Who?\nOptions:\n(A) the cat\n(B) the dog\n(C) Ambiguous",
            "target": "(B)",
        },
        {"input": "Did it?\nOptions:\n- Yes\n- No", "target": "No"},
        {"input": "Who?\nOptions:\n(A) the cat\n(C) the dog", "target": "(C)"},
        {"input": "Who?", "target": "(A)"},
    ]
    rows = list(
        text_tasks.read_bbh_examples(
            write_json({"canary": "c", "examples": examples}), "any", "bbh", None
        )
    )
    assert [(row.choices, row.gold, row.rejected) for row in rows] == [
        (["the cat", "the dog", "Ambiguous"], 1, None),
        (["Yes", "No"], 1, None),
        ([], None, "target '(C)' is none of 0 options"),
        ([], None, "target '(A)' is none of 0 options"),
    ]


def test_broken_bbh_files_are_named(write_json: Any) -> None:
    with pytest.raises(UserError, match="item 0: field 'parsed_inputs' is missing"):
        list(text_tasks.read_bbh_data(write_json({"data": [{}]}), "any", "bbh", None))
    with pytest.raises(UserError, match=r"'data' is missing \(got examples\)"):
        list(text_tasks.read_bbh_data(write_json({"examples": []}), "any", "bbh", None))


@pytest.mark.parametrize(
    ("task", "data", "examples", "choices"),
    [
        ("causal_judgment", 160, 187, {2}),
        ("disambiguation_qa", 228, 250, {3, 4}),
        ("logical_deduction_five_objects", 220, 250, {5}),
    ],
)
def test_the_real_bbh(
    shared_data: Path, task: str, data: int, examples: int, choices: set[int]
) -> None:
    rows = list(
        text_tasks.read_bbh_data(
            shared_data / "bbh_val_data" / task / "val_data.json", task, "bbh", None
        )
    )
    name = task.replace("judgment", "judgement")
    released = list(
        text_tasks.read_bbh_examples(
            shared_data / "bbh" / f"{name}.json", task, "bbh", None
        )
    )
    assert (len(rows), len(released)) == (data, examples)
    assert {len(row.choices) for row in rows} == choices
    assert all(row.rejected is None for row in rows + released)
