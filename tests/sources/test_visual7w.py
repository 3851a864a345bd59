"""Visual7W, telling."""

from pathlib import Path
from typing import Any

import pytest

from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.sources.formats.visual7w import read_questions
from waltz.sources.layouts import QUESTIONS


def pair(qa_id: int = 5, **changes: Any) -> dict[str, Any]:
    return {
        "qa_id": qa_id,
        "image_id": 1,
        "question": "How many dogs are there?",
        "answer": "Two.",
        "multiple_choices": ["One.", "Three.", "Four."],
        "type": "how",
    } | changes


def file(*pairs: Any) -> dict[str, Any]:
    image = {"image_id": 1, "filename": "v7w_1.jpg", "split": "test", "qa_pairs": list(pairs)}
    return {"dataset": "visual7w-telling", "images": [image]}


def test_questions_become_rows(write_json: Any, tmp_path: Path) -> None:
    rows = list(read_questions(write_json(file(pair(), pair(6, answer="One."), pair(7, question=" "))), "visual7w"))
    assert rows[0] == {
        "source": "visual7w",
        "source_id": "5",
        "split": "test",
        "image": "v7w_1.jpg",
        "question": "How many dogs are there?",
        "answer": "Two.",
        "answers": [],
        "choices": ["One.", "Three.", "Four."],
        "type": "how",
        "rejected": None,
    }
    assert [row["rejected"] for row in rows[1:]] == ["the answer stands among the wrong ones", "the question is empty"]
    assert parquet.write_rows(tmp_path / "rows.parquet", rows, QUESTIONS) == (3, 2)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (pair(), "question 5: duplicate id"),
        (pair(6, image_id=2), "question 6: image_id 2 is not the image that lists it, 1"),
        (pair(6, answer=3), "question 6: field 'answer' is a whole number, not a text"),
        (pair(6, multiple_choices=["One.", 2]), "question 6: field 'multiple_choices': entry 1 is a whole number"),
        (7, "image 1: qa_pairs: entry 1 is a whole number, not an object"),
    ],
)
def test_broken_pairs_are_named(write_json: Any, broken: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        list(read_questions(write_json(file(pair(), broken)), "visual7w"))


def test_a_repeated_image_is_named(write_json: Any) -> None:
    content = file(pair())
    content["images"] *= 2
    with pytest.raises(UserError, match="image 1: duplicate id"):
        list(read_questions(write_json(content), "visual7w"))
