"""VQA v2: questions in one file, ten answers to each in another, joined by question id."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from waltz.core.errors import UserError
from waltz.sources.fields import field, identifier, kind_of, once, one_line, optional
from waltz.sources.names import ImageNames, image_name
from waltz.sources.stream import list_entries, value_at

NAMES = "COCO_{split}_{id:012d}.jpg"


def read_questions(
    questions: str | Path, annotations: str | Path | None, source: str, names: ImageNames = NAMES
) -> Iterator[dict[str, Any]]:
    """Questions in file order with their answers.

    Both files are read side by side; annotations wait in memory only as far as their order differs.

    Args:
        questions: v2_OpenEnded_mscoco_*_questions.json; its `data_subtype` is the split.
        annotations: v2_mscoco_*_annotations.json, or None where the answers are withheld.
        source: Name of the source.
        names: File names of the images.
    Yields:
        Rows of the layout `QUESTIONS`. `answer` is `multiple_choice_answer`; where annotations are trimmed of it, it is
        the most frequent of the answers, the earliest of equals. Rejected are an empty question or answer and a
        question without annotation.
    Raises:
        UserError: Truncated or malformed JSON, a missing or mistyped field, a repeated id, an annotation without
            question or of another image, an image id without image.
    """
    split = value_at(questions, "data_subtype", str)
    take, check_none_left = _annotations(annotations, questions)
    seen: set[str] = set()
    for number, record in enumerate(list_entries(questions, "questions", dict)):
        question_id = identifier(record, "question_id", f"{questions}: question {number}")
        place = f"{questions}: question {question_id}"
        once(seen, question_id, place)
        image_id = identifier(record, "image_id", place)
        question = one_line(field(record, "question", str, place))
        row: dict[str, Any] = {
            "source": source,
            "source_id": question_id,
            "split": split,
            "image": image_name(image_id, names, split, place),
            "question": question,
            "answer": None,
            "answers": [],
            "choices": [],
            "rejected": None if question else "the question is empty",
        }
        if annotations is not None:
            annotation = take(question_id)
            if annotation is None:
                row["rejected"] = "the question has no annotation"
            else:
                row |= _answered(annotation, image_id, f"{annotations}: question {question_id}")
                row["rejected"] = row["rejected"] or (None if row["answer"] else "the answer is empty")
        yield row
    check_none_left()


def _annotations(
    path: str | Path | None, questions: str | Path
) -> tuple[Callable[[str], dict[str, Any] | None], Callable[[], None]]:
    """A look-up of annotations that reads on only as far as it must, and a check that every one was taken."""
    waiting: dict[str, dict[str, Any]] = {}
    seen: set[str] = set()

    def by_id() -> Iterator[tuple[str, dict[str, Any]]]:
        for number, entry in enumerate(list_entries(path, "annotations", dict) if path is not None else ()):
            question_id = identifier(entry, "question_id", f"{path}: annotation {number}")
            once(seen, question_id, f"{path}: question {question_id}")
            yield question_id, entry

    rest = by_id()

    def take(question_id: str) -> dict[str, Any] | None:
        if question_id in waiting:
            return waiting.pop(question_id)
        for found, entry in rest:
            if found == question_id:
                return entry
            waiting[found] = entry
        return None

    def check_none_left() -> None:
        left = next(iter(waiting), None) or next((found for found, _ in rest), None)
        if left is not None:
            raise UserError(f"{path}: question {left} is not in {questions}; do the two files belong together?")

    return take, check_none_left


def _answered(annotation: Mapping[str, Any], image_id: str, place: str) -> dict[str, Any]:
    if "image_id" in annotation and identifier(annotation, "image_id", place) != image_id:
        raise UserError(f"{place}: image_id {annotation['image_id']} is not the question's, {image_id}")
    answers = []
    for number, entry in enumerate(field(annotation, "answers", list, place)):
        if not isinstance(entry, dict):
            raise UserError(f"{place}: answer {number} is {kind_of(entry)}, not an object")
        answers.append(one_line(field(entry, "answer", str, f"{place}: answer {number}")))
    agreed = optional(annotation, "multiple_choice_answer", str, place)
    if agreed is None:
        agreed = Counter(answers).most_common(1)[0][0] if answers else ""
    return {
        "answer": one_line(agreed),
        "answers": answers,
        "type": optional(annotation, "question_type", str, place),
        "answer_type": optional(annotation, "answer_type", str, place),
    }
