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
    """An annotation of a question; equal texts are one object, because all annotations may have to wait in memory.

    Attributes:
        image_id: Its image; None where the annotation does not name it.
        answer: The agreed answer.
        answers: Answer of each annotator.
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
    """Yield questions in file order with their answers.

    Both files are read in parallel; annotations wait in memory only as far as their order differs.

    Args:
        questions: v2_OpenEnded_mscoco_*_questions.json; its `data_subtype` is the split.
        annotations: v2_mscoco_*_annotations.json, or None where the answers are withheld.
        source: Name of the source.
        names: File names of the images.
    Yields:
        Rows of the layout `QUESTIONS`. `answer` is `multiple_choice_answer`; where annotations lack it, it is the most
        frequent answer, the earliest of equally frequent ones. Questions that are empty, have an empty answer or have
        no annotation are rejected.
    Raises:
        UserError: Truncated or malformed JSON, a missing or mistyped field, a repeated id, an annotation without
            question or of another image, an image id without image.
    """
    split = read_value(questions, "data_subtype", str)
    take_annotation, check_none_left = _match_annotations(annotations, questions)
    seen_ids: set[str] = set()
    for number, record in enumerate(read_list_entries(questions, "questions", dict)):
        question_id = read_identifier(record, "question_id", f"{questions}: question {number}")
        where = f"{questions}: question {question_id}"
        check_unique(seen_ids, question_id, where)
        image_id = read_identifier(record, "image_id", where)
        question = join_lines(read_field(record, "question", str, where))
        row: dict[str, Any] = {
            "source": source,
            "source_id": question_id,
            "split": split,
            "image": build_image_name(image_id, names, split, where),
            "question": question,
            "answer": None,
            "answers": [],
            "choices": [],
            "rejected": None if question else "the question is empty",
        }
        if annotations is not None:
            annotation = take_annotation(question_id)
            if annotation is None:
                row["rejected"] = "the question has no annotation"
            elif annotation.image_id not in (None, image_id):
                raise UserError(
                    f"{annotations}: question {question_id}: image_id {annotation.image_id} is not the question's,"
                    f" {image_id}"
                )
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


def _match_annotations(
    path: str | Path | None, questions: str | Path
) -> tuple[Callable[[str], Annotation | None], Callable[[], None]]:
    """Return a look-up of annotations that reads only as far as necessary, and a check that all were used."""
    waiting: dict[str, Annotation] = {}
    seen_ids: set[str] = set()

    def read_annotations() -> Iterator[tuple[str, Annotation]]:
        for number, entry in enumerate(read_list_entries(path, "annotations", dict) if path is not None else ()):
            question_id = read_identifier(entry, "question_id", f"{path}: annotation {number}")
            where = f"{path}: question {question_id}"
            check_unique(seen_ids, question_id, where)
            yield question_id, _build_annotation(entry, where)

    annotations = read_annotations()

    def take_annotation(question_id: str) -> Annotation | None:
        if question_id in waiting:
            return waiting.pop(question_id)
        for annotated_id, annotation in annotations:
            if annotated_id == question_id:
                return annotation
            waiting[annotated_id] = annotation
        return None

    def check_none_left() -> None:
        unused_id = next(iter(waiting), None) or next((annotated_id for annotated_id, _ in annotations), None)
        if unused_id is not None:
            raise UserError(f"{path}: question {unused_id} is not in {questions}; use two files of one release")

    return take_annotation, check_none_left


def _build_annotation(entry: Mapping[str, Any], where: str) -> Annotation:
    answers = []
    for number, answer in enumerate(read_field(entry, "answers", list, where)):
        if not isinstance(answer, dict):
            raise UserError(f"{where}: answer {number} is {describe_type(answer)}, not an object")
        answers.append(intern(join_lines(read_field(answer, "answer", str, f"{where}: answer {number}"))))
    agreed_answer = read_optional_field(entry, "multiple_choice_answer", str, where)
    if agreed_answer is None:
        agreed_answer = Counter(answers).most_common(1)[0][0] if answers else ""
    kinds = (read_optional_field(entry, name, str, where) for name in ("question_type", "answer_type"))
    return Annotation(
        read_identifier(entry, "image_id", where) if "image_id" in entry else None,
        intern(join_lines(agreed_answer)),
        tuple(answers),
        *(None if kind is None else intern(kind) for kind in kinds),
    )
