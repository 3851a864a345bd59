"""VQA v2."""

from pathlib import Path
from typing import Any

import pytest

from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.sources.formats.vqa import read_questions
from waltz.sources.layouts import QUESTIONS


def question(question_id: int, **changes: Any) -> dict[str, Any]:
    return {"question_id": question_id, "image_id": 4, "question": "What is it?"} | changes


def annotation(question_id: int, answers: str = "net net mesh", **changes: Any) -> dict[str, Any]:
    records = [{"answer": word, "answer_id": number} for number, word in enumerate(answers.split(), 1)]
    return {"question_id": question_id, "answers": records} | changes


def read(write_json: Any, questions: list[Any], annotations: list[Any] | None) -> list[dict[str, Any]]:
    path = write_json({"data_subtype": "val2014", "questions": questions}, "questions.json")
    answers = None if annotations is None else write_json({"annotations": annotations}, "annotations.json")
    return list(read_questions(path, answers, "vqa"))


def test_questions_are_joined_with_their_answers(write_json: Any, tmp_path: Path) -> None:
    full = annotation(40, image_id=4, multiple_choice_answer="mesh", question_type="what is", answer_type="other")
    rows = read(write_json, [question(40), question(41)], [annotation(41, "dog cat cat dog"), full])
    assert rows[0] == {
        "source": "vqa",
        "source_id": "40",
        "split": "val2014",
        "image": "COCO_val2014_000000000004.jpg",
        "question": "What is it?",
        "answer": "mesh",
        "answers": ["net", "net", "mesh"],
        "choices": [],
        "type": "what is",
        "answer_type": "other",
        "rejected": None,
    }
    assert rows[1]["answer"] == "dog"
    assert (rows[1]["type"], rows[1]["answer_type"]) == (None, None)
    assert parquet.write_rows(tmp_path / "rows.parquet", rows, QUESTIONS) == (2, 0)


def test_withheld_answers_are_no_reason_to_reject(write_json: Any) -> None:
    (row,) = read(write_json, [question(40)], None)
    assert (row["answer"], row["rejected"]) == (None, None)


def test_unusable_questions_stay_with_their_reason(write_json: Any) -> None:
    questions = [question(40), question(41, question="\n"), question(42), question(43)]
    annotations = [annotation(42, ""), annotation(43, "x", multiple_choice_answer=""), annotation(41)]
    assert [row["rejected"] for row in read(write_json, questions, annotations)] == [
        "the question has no annotation",
        "the question is empty",
        "the answer is empty",
        "the answer is empty",
    ]


@pytest.mark.parametrize(
    ("questions", "annotations", "message"),
    [
        ([question(40), question(40)], [], r"questions\.json: question 40: duplicate id"),
        ([question(40)], [annotation(40), annotation(40)], r"annotations\.json: question 40: duplicate id"),
        ([question(40)], [annotation(40), annotation(41)], "question 41 is not in .*questions.json; use two files"),
        ([question(40)], [annotation(41), annotation(40)], "question 41 is not in .*questions.json; use two files"),
        ([question(40)], [annotation(40, image_id=5)], "question 40: image_id 5 is not the question's, 4"),
        ([question(40)], [annotation(40) | {"answers": ["net"]}], "question 40: answer 0 is a text, not an object"),
        ([question(40)], [annotation(40) | {"answers": [{}]}], "question 40: answer 0: field 'answer' is missing"),
        ([question(40, question=3)], [], "question 40: field 'question' is a whole number, not a text"),
        ([question(40, image_id=None)], [], "question 40: field 'image_id' is null, not a whole number"),
    ],
)
def test_broken_files_are_named(write_json: Any, questions: Any, annotations: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read(write_json, questions, annotations)


def test_the_real_questions(shared_data: Path) -> None:
    folder = shared_data / "vqa_v2"
    rows = list(read_questions(folder / "questions.json", folder / "annotations.json", "vqa"))
    assert [row["source_id"] for row in rows] == ["458752000", "458752001", "458752002"]
    assert {row["image"] for row in rows} == {"COCO_train2014_000000458752.jpg"}
    assert [len(row["answers"]) for row in rows] == [10, 10, 10]
    assert rows[0]["answer"] == "net"
