"""GQA, official JSON and JSON lines."""

import json
from pathlib import Path
from typing import Any

import pytest

from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.sources.formats.gqa import read_lines, read_questions
from waltz.sources.layouts import QUESTIONS

RECORD = {
    "question": "Is it round?",
    "imageId": "n16",
    "answer": "yes",
    "fullAnswer": "Yes, it is.",
    "isBalanced": False,
    "types": {"structural": "verify", "semantic": "attr", "detailed": "verifyAttr"},
    "semantic": [{"operation": "select", "dependencies": [], "argument": "it"}],
}


def test_questions_become_rows(write_json: Any, tmp_path: Path) -> None:
    test_record = {"question": "Is it?", "imageId": 16, "isBalanced": True}
    rows = list(read_questions(write_json({"20": RECORD, "21": test_record}), "gqa", "val"))
    assert rows[0] == {
        "source": "gqa",
        "source_id": "20",
        "split": "val",
        "image": "n16.jpg",
        "question": "Is it round?",
        "answer": "yes",
        "answers": [],
        "choices": [],
        "type": "verify",
        "full_answer": "Yes, it is.",
        "balanced": False,
        "rejected": None,
    }
    assert rows[1]["image"] == "16.jpg"
    assert (rows[1]["answer"], rows[1]["type"], rows[1]["balanced"], rows[1]["rejected"]) == (None, None, True, None)
    assert parquet.write_rows(tmp_path / "rows.parquet", rows, QUESTIONS) == (2, 0)


def test_unusable_questions_stay_with_their_reason(write_json: Any) -> None:
    content = {"20": RECORD | {"question": ""}, "21": RECORD | {"answer": ""}}
    reasons = [row["rejected"] for row in read_questions(write_json(content), "gqa", None)]
    assert reasons == ["the question is empty", "the answer is empty"]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (RECORD | {"imageId": None}, "question 20: field 'imageId' is null"),
        (RECORD | {"isBalanced": "yes"}, "question 20: field 'isBalanced' is a text, not true or false"),
        (RECORD | {"types": ["verify"]}, "question 20: field 'types' is a list, not an object"),
        ([RECORD], "'20' of the root is a list, not an object"),
    ],
)
def test_broken_questions_are_named(write_json: Any, record: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        list(read_questions(write_json({"20": record}), "gqa", None))


def test_a_repeated_question_is_named(tmp_path: Path) -> None:
    path = tmp_path / "twice.json"
    path.write_text('{"20": {"question": "a", "imageId": "1"}, "20": {"question": "b", "imageId": "1"}}')
    with pytest.raises(UserError, match="question 20: duplicate id"):
        list(read_questions(path, "gqa", None))


def test_lines_lose_the_instruction(tmp_path: Path) -> None:
    path = tmp_path / "raw.jsonl"
    text = "Is it?\nAnswer the question using a single word or phrase."
    line = json.dumps({"question_id": "7", "image": "n1.jpg", "text": text}) + "\n"
    path.write_text(line)
    (row,) = read_lines(path, "gqa", "testdev")
    assert (row["question"], row["image"], row["answer"]) == ("Is it?", "n1.jpg", None)
    path.write_text(line * 2)
    with pytest.raises(UserError, match="line 2: question 7: duplicate id"):
        list(read_lines(path, "gqa", "testdev"))


def test_the_real_questions(shared_data: Path) -> None:
    lines = list(read_lines(shared_data / "gqa" / "llava_gqa_testdev_balanced.jsonl", "gqa", "testdev"))
    assert len(lines) == 12_578
    assert len({row["image"] for row in lines}) == 398
    assert not any("Answer the question" in row["question"] for row in lines)
    by_id = {row["source_id"]: row for row in lines}
    (question,) = read_questions(shared_data / "gqa" / "fixture_questions_a.json", "gqa", "testdev")
    assert question["answer"] == "picture"
    assert {name: by_id["202218649"][name] for name in ("question", "image")} == {
        name: question[name] for name in ("question", "image")
    }
