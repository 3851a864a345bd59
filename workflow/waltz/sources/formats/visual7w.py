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
    """Questions in file order.

    Args:
        path: dataset_v7w_telling.json, or a file of its form.
        source: Name of the source.
    Yields:
        Rows of the layout `QUESTIONS`; an empty question or answer is rejected, and so is a right answer among the
        wrong ones.
    Raises:
        UserError: Truncated or malformed JSON, a missing or mistyped field, a repeated id, a question under an image
            that is not its own.
    """
    images: set[str] = set()
    seen: set[str] = set()
    for number, image in enumerate(read_list_entries(path, "images", dict)):
        image_id = read_identifier(image, "image_id", f"{path}: image {number}")
        place = f"{path}: image {image_id}"
        check_unique(images, image_id, place)
        name, split = read_field(image, "filename", str, place), read_field(image, "split", str, place)
        for entry, pair in enumerate(read_field(image, "qa_pairs", list, place)):
            if not isinstance(pair, dict):
                raise UserError(f"{place}: qa_pairs: entry {entry} is {describe_type(pair)}, not an object")
            yield {"source": source, "split": split, "image": name} | _row(path, pair, image_id, place, seen)


def _row(path: str | Path, pair: dict[str, Any], image_id: str, place: str, seen: set[str]) -> dict[str, Any]:
    question_id = read_identifier(pair, "qa_id", place)
    place = f"{path}: question {question_id}"
    check_unique(seen, question_id, place)
    if "image_id" in pair and read_identifier(pair, "image_id", place) != image_id:
        raise UserError(f"{place}: image_id {pair['image_id']} is not that of its image, {image_id}")
    question = join_lines(read_field(pair, "question", str, place))
    answer = join_lines(read_field(pair, "answer", str, place))
    choices = [join_lines(choice) for choice in read_strings(pair, "multiple_choices", place)]
    return {
        "source_id": question_id,
        "question": question,
        "answer": answer,
        "answers": [],
        "choices": choices,
        "type": read_optional_field(pair, "type", str, place),
        "rejected": _reason(question, answer, choices),
    }


def _reason(question: str, answer: str, choices: list[str]) -> str | None:
    if not question:
        return "the question is empty"
    if not answer:
        return "the answer is empty"
    return "the answer stands among the wrong ones" if answer in choices else None
