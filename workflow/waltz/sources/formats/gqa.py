"""GQA: an object of question id to question, all or balanced, and a JSON-lines layout without answers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from waltz.sources.fields import (
    ImageNames,
    build_image_name,
    check_unique,
    join_lines,
    read_field,
    read_identifier,
    read_optional_field,
)
from waltz.sources.raw_files import read_json_lines, read_object_entries

IMAGE_NAMES = "{id}.jpg"
INSTRUCTION = "\nAnswer the question using a single word or phrase."
"""Ends every question of the JSON-lines layout; it belongs to a prompt and is taken off."""


def read_questions(
    path: str | Path, source: str, split: str | None, names: ImageNames = IMAGE_NAMES
) -> Iterator[dict[str, Any]]:
    """Questions in file order.

    Args:
        path: {train,val,testdev,...}_{all,balanced}_questions.json; `balanced` tells the sets apart in an `all` file.
        source: Name of the source.
        split: Name of the split.
        names: File names of the images.
    Yields:
        Rows of the layout `QUESTIONS`; `type` is the structural type (query, verify, choose, compare, logical) and
        `answer` is null where it is withheld. An empty question or answer is rejected.
    Raises:
        UserError: Truncated or malformed JSON, a missing or mistyped field, a repeated id, an image id without image.
    """
    seen: set[str] = set()
    for question_id, record in read_object_entries(path, ""):
        place = f"{path}: question {question_id}"
        check_unique(seen, question_id, place)
        question = join_lines(read_field(record, "question", str, place))
        answer = read_optional_field(record, "answer", str, place)
        reason = None if question else "the question is empty"
        yield {
            "source": source,
            "source_id": question_id,
            "split": split,
            "image": build_image_name(read_identifier(record, "imageId", place), names, split, place),
            "question": question,
            "answer": answer,
            "answers": [],
            "choices": [],
            "type": read_optional_field(
                read_optional_field(record, "types", dict, place) or {}, "structural", str, place
            ),
            "full_answer": read_optional_field(record, "fullAnswer", str, place),
            "balanced": read_optional_field(record, "isBalanced", bool, place),
            "rejected": reason or ("the answer is empty" if answer == "" else None),
        }


def read_lines(path: str | Path, source: str, split: str | None) -> Iterator[dict[str, Any]]:
    """Questions of a JSON-lines file of question_id, image and text, as it is used to query models.

    Yields:
        Rows of the layout `QUESTIONS` without answers; an empty question is rejected.
    Raises:
        UserError: Malformed JSON, a missing or mistyped field, a repeated id; the message names the line.
    """
    seen: set[str] = set()
    for number, record in read_json_lines(path):
        place = f"{path}: line {number}"
        question_id = read_identifier(record, "question_id", place)
        check_unique(seen, question_id, f"{place}: question {question_id}")
        question = join_lines(read_field(record, "text", str, place).removesuffix(INSTRUCTION))
        yield {
            "source": source,
            "source_id": question_id,
            "split": split,
            "image": read_field(record, "image", str, place),
            "question": question,
            "answer": None,
            "answers": [],
            "choices": [],
            "rejected": None if question else "the question is empty",
        }
