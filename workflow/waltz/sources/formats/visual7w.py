"""Visual7W, telling: `images` of filename, split and qa_pairs, each with question, answer and three wrong answers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from waltz.core.errors import UserError
from waltz.sources.fields import (
    check_unique,
    describe_type,
    join_lines,
    read_field,
    read_identifier,
    read_optional_field,
    read_strings,
)
from waltz.sources.raw_files import read_list_entries


def read_questions(path: str | Path, source: str) -> Iterator[dict[str, Any]]:
    """Yield questions in file order.

    Args:
        path: dataset_v7w_telling.json, or a file of its form.
        source: Name of the source.
    Yields:
        Rows of the layout `QUESTIONS`; questions with an empty question or answer, or with the right answer among
        the wrong ones, are rejected.
    Raises:
        UserError: Truncated or malformed JSON, a missing or mistyped field, a repeated id, a question under the wrong
            image.
    """
    images: set[str] = set()
    seen_ids: set[str] = set()
    for number, image in enumerate(read_list_entries(path, "images", dict)):
        image_id = read_identifier(image, "image_id", f"{path}: image {number}")
        where = f"{path}: image {image_id}"
        check_unique(images, image_id, where)
        name, split = read_field(image, "filename", str, where), read_field(image, "split", str, where)
        for entry, pair in enumerate(read_field(image, "qa_pairs", list, where)):
            if not isinstance(pair, dict):
                raise UserError(f"{where}: qa_pairs: entry {entry} is {describe_type(pair)}, not an object")
            yield {"source": source, "split": split, "image": name} | _build_row(path, pair, image_id, where, seen_ids)


def _build_row(path: str | Path, pair: dict[str, Any], image_id: str, where: str, seen_ids: set[str]) -> dict[str, Any]:
    question_id = read_identifier(pair, "qa_id", where)
    where = f"{path}: question {question_id}"
    check_unique(seen_ids, question_id, where)
    if "image_id" in pair and read_identifier(pair, "image_id", where) != image_id:
        raise UserError(f"{where}: image_id {pair['image_id']} is not the image that lists it, {image_id}")
    question = join_lines(read_field(pair, "question", str, where))
    answer = join_lines(read_field(pair, "answer", str, where))
    choices = [join_lines(choice) for choice in read_strings(pair, "multiple_choices", where)]
    return {
        "source_id": question_id,
        "question": question,
        "answer": answer,
        "answers": [],
        "choices": choices,
        "type": read_optional_field(pair, "type", str, where),
        "rejected": _find_rejection(question, answer, choices),
    }


def _find_rejection(question: str, answer: str, choices: list[str]) -> str | None:
    if not question:
        return "the question is empty"
    if not answer:
        return "the answer is empty"
    return "the answer stands among the wrong ones" if answer in choices else None
