"""VQA v2: questions in one file, ten answers to each in another, joined by question id."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from sys import intern
from typing import Any, NamedTuple

from waltz.core.errors import UserError
from waltz.sources.fields import (
    ImageNames,
    build_image_name,
    check_unique,
    describe_type,
    join_lines,
    read_field,
    read_identifier,
    read_optional_field,
)
from waltz.sources.raw_files import read_list_entries, read_value

IMAGE_NAMES = "COCO_{split}_{id:012d}.jpg"


class Annotation(NamedTuple):
    """What is kept of an annotation; equal texts are one object, because all may have to wait in memory.

    Attributes:
        image_id: Its image, where the annotation says so.
        answer: The agreed answer.
        answers: What each annotator said.
        type: First words of the question.
        answer_type: yes/no, number or other.
    """

    image_id: str | None
    answer: str
    answers: tuple[str, ...]
    type: str | None
    answer_type: str | None


def read_questions(
    questions: str | Path, annotations: str | Path | None, source: str, names: ImageNames = IMAGE_NAMES
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
    split = read_value(questions, "data_subtype", str)
    take, check_none_left = _annotations(annotations, questions)
    seen: set[str] = set()
    for number, record in enumerate(read_list_entries(questions, "questions", dict)):
        question_id = read_identifier(record, "question_id", f"{questions}: question {number}")
        place = f"{questions}: question {question_id}"
        check_unique(seen, question_id, place)
        image_id = read_identifier(record, "image_id", place)
        question = join_lines(read_field(record, "question", str, place))
        row: dict[str, Any] = {
            "source": source,
            "source_id": question_id,
            "split": split,
            "image": build_image_name(image_id, names, split, place),
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
            elif annotation.image_id not in (None, image_id):
                other = f"{annotations}: question {question_id}: image_id {annotation.image_id}"
                raise UserError(f"{other} is not the question's, {image_id}")
            else:
                row |= {
                    "answer": annotation.answer,
                    "answers": list(annotation.answers),
                    "type": annotation.type,
                    "answer_type": annotation.answer_type,
                }
                row["rejected"] = row["rejected"] or (None if annotation.answer else "the answer is empty")
        yield row
    check_none_left()


def _annotations(
    path: str | Path | None, questions: str | Path
) -> tuple[Callable[[str], Annotation | None], Callable[[], None]]:
    """A look-up of annotations that reads on only as far as it must, and a check that every one was taken."""
    waiting: dict[str, Annotation] = {}
    seen: set[str] = set()

    def by_id() -> Iterator[tuple[str, Annotation]]:
        for number, entry in enumerate(read_list_entries(path, "annotations", dict) if path is not None else ()):
            question_id = read_identifier(entry, "question_id", f"{path}: annotation {number}")
            place = f"{path}: question {question_id}"
            check_unique(seen, question_id, place)
            yield question_id, _annotation(entry, place)

    rest = by_id()

    def take(question_id: str) -> Annotation | None:
        if question_id in waiting:
            return waiting.pop(question_id)
        for found, annotation in rest:
            if found == question_id:
                return annotation
            waiting[found] = annotation
        return None

    def check_none_left() -> None:
        left = next(iter(waiting), None) or next((found for found, _ in rest), None)
        if left is not None:
            raise UserError(f"{path}: question {left} is not in {questions}; do the two files belong together?")

    return take, check_none_left


def _annotation(entry: Mapping[str, Any], place: str) -> Annotation:
    answers = []
    for number, given in enumerate(read_field(entry, "answers", list, place)):
        if not isinstance(given, dict):
            raise UserError(f"{place}: answer {number} is {describe_type(given)}, not an object")
        answers.append(intern(join_lines(read_field(given, "answer", str, f"{place}: answer {number}"))))
    agreed = read_optional_field(entry, "multiple_choice_answer", str, place)
    if agreed is None:
        agreed = Counter(answers).most_common(1)[0][0] if answers else ""
    kinds = (read_optional_field(entry, name, str, place) for name in ("question_type", "answer_type"))
    return Annotation(
        read_identifier(entry, "image_id", place) if "image_id" in entry else None,
        intern(join_lines(agreed)),
        tuple(answers),
        *(None if kind is None else intern(kind) for kind in kinds),
    )
