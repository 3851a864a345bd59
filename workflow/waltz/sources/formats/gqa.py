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
"""End of every question of the JSON-lines layout; it belongs to a prompt and is removed."""


def read_questions(
    path: str | Path, source: str, split: str | None, names: ImageNames = IMAGE_NAMES
) -> Iterator[dict[str, Any]]:
    """Yield questions in file order.

    Args:
        path: {train,val,testdev,...}_{all,balanced}_questions.json; `balanced` distinguishes the sets in an `all` file.
        source: Name of the source.
        split: Name of the split.
        names: File names of the images.
    Yields:
        Rows of the layout `QUESTIONS`; `type` is the structural type (query, verify, choose, compare, logical) and
        `answer` is null where it is withheld. An empty question or answer is rejected.
    Raises:
        UserError: Truncated or malformed JSON, a missing or mistyped field, a repeated id, an image id without image.
    """
    seen_ids: set[str] = set()
    for question_id, record in read_object_entries(path, ""):
        where = f"{path}: question {question_id}"
        check_unique(seen_ids, question_id, where)
        question = join_lines(read_field(record, "question", str, where))
        answer = read_optional_field(record, "answer", str, where)
        reason = None if question else "the question is empty"
        yield {
            "source": source,
            "source_id": question_id,
            "split": split,
            "image": build_image_name(read_identifier(record, "imageId", where), names, split, where),
            "question": question,
            "answer": answer,
            "answers": [],
            "choices": [],
            "type": read_optional_field(
                read_optional_field(record, "types", dict, where) or {}, "structural", str, where
            ),
            "full_answer": read_optional_field(record, "fullAnswer", str, where),
            "balanced": read_optional_field(record, "isBalanced", bool, where),
            "rejected": reason or ("the answer is empty" if answer == "" else None),
        }


def read_lines(path: str | Path, source: str, split: str | None) -> Iterator[dict[str, Any]]:
    """Yield questions of a JSON-lines file of question_id, image and text, as it is used to query models.

    Yields:
        Rows of the layout `QUESTIONS` without answers; an empty question is rejected.
    Raises:
        UserError: Malformed JSON, a missing or mistyped field, a repeated id; the message names the line.
    """
    seen_ids: set[str] = set()
    for number, record in read_json_lines(path):
        where = f"{path}: line {number}"
        question_id = read_identifier(record, "question_id", where)
        check_unique(seen_ids, question_id, f"{where}: question {question_id}")
        question = join_lines(read_field(record, "text", str, where).removesuffix(INSTRUCTION))
        yield {
            "source": source,
            "source_id": question_id,
            "split": split,
            "image": read_field(record, "image", str, where),
            "question": question,
            "answer": None,
            "answers": [],
            "choices": [],
            "rejected": None if question else "the question is empty",
        }
