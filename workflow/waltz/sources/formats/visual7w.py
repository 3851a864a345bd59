"""Visual7W, telling: `images` of filename, split and qa_pairs, each with question, answer and three wrong answers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from waltz.core.errors import UserError
from waltz.sources.fields import field, identifier, kind_of, once, one_line, optional, texts
from waltz.sources.stream import list_entries


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
    for number, image in enumerate(list_entries(path, "images", dict)):
        image_id = identifier(image, "image_id", f"{path}: image {number}")
        place = f"{path}: image {image_id}"
        once(images, image_id, place)
        name, split = field(image, "filename", str, place), field(image, "split", str, place)
        for entry, pair in enumerate(field(image, "qa_pairs", list, place)):
            if not isinstance(pair, dict):
                raise UserError(f"{place}: qa_pairs: entry {entry} is {kind_of(pair)}, not an object")
            yield {"source": source, "split": split, "image": name} | _row(path, pair, image_id, place, seen)


def _row(path: str | Path, pair: dict[str, Any], image_id: str, place: str, seen: set[str]) -> dict[str, Any]:
    question_id = identifier(pair, "qa_id", place)
    place = f"{path}: question {question_id}"
    once(seen, question_id, place)
    if "image_id" in pair and identifier(pair, "image_id", place) != image_id:
        raise UserError(f"{place}: image_id {pair['image_id']} is not that of its image, {image_id}")
    question = one_line(field(pair, "question", str, place))
    answer = one_line(field(pair, "answer", str, place))
    choices = [one_line(choice) for choice in texts(pair, "multiple_choices", place)]
    return {
        "source_id": question_id,
        "question": question,
        "answer": answer,
        "answers": [],
        "choices": choices,
        "type": optional(pair, "type", str, place),
        "rejected": _reason(question, answer, choices),
    }


def _reason(question: str, answer: str, choices: list[str]) -> str | None:
    if not question:
        return "the question is empty"
    if not answer:
        return "the answer is empty"
    return "the answer stands among the wrong ones" if answer in choices else None
