"""Questions about images and their answers, from VQA v2, GQA, Visual7W (telling) and the dialogues of VisDial v1.0."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from sys import intern
from typing import Any, NamedTuple

from waltz.core.errors import UserError
from waltz.sources.raw_files import (
    ImageNames,
    build_image_name,
    check_unique,
    describe_type,
    join_lines,
    read_field,
    read_identifier,
    read_json_lines,
    read_list_entries,
    read_object_entries,
    read_optional_field,
    read_strings,
    read_value,
)

VQA_IMAGE_NAMES = "COCO_{split}_{id:012d}.jpg"


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


def read_vqa(
    questions: str | Path, annotations: str | Path | None, source: str, names: ImageNames = VQA_IMAGE_NAMES
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


GQA_IMAGE_NAMES = "{id}.jpg"
INSTRUCTION = "\nAnswer the question using a single word or phrase."
"""End of every question of the JSON-lines layout; it belongs to a prompt and is removed."""


def read_gqa(
    path: str | Path, source: str, split: str | None, names: ImageNames = GQA_IMAGE_NAMES
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


def read_gqa_lines(path: str | Path, source: str, split: str | None) -> Iterator[dict[str, Any]]:
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


def read_visual7w(path: str | Path, source: str) -> Iterator[dict[str, Any]]:
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
            yield {"source": source, "split": split, "image": name} | _build_visual7w_row(
                path, pair, image_id, where, seen_ids
            )


def _build_visual7w_row(
    path: str | Path, pair: dict[str, Any], image_id: str, where: str, seen_ids: set[str]
) -> dict[str, Any]:
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
        "rejected": _find_visual7w_rejection(question, answer, choices),
    }


def _find_visual7w_rejection(question: str, answer: str, choices: list[str]) -> str | None:
    if not question:
        return "the question is empty"
    if not answer:
        return "the answer is empty"
    return "the answer stands among the wrong ones" if answer in choices else None


VISDIAL_IMAGE_NAMES = "VisualDialog_{split}_{id:012d}.jpg"
"""File names of images of val2018 and test2018. Images of train are COCO's train2014 and val2014: pass names by id."""


def read_visdial(path: str | Path, source: str, names: ImageNames = VISDIAL_IMAGE_NAMES) -> Iterator[dict[str, Any]]:
    """Yield the rounds of all dialogues in file order; `source_id` is image id, `#` and the round from 1.

    The file is read once for each pool and once for the dialogues, so memory holds the pools and one dialogue.

    Args:
        path: visdial_1.0_{train,val,test}.json.
        source: Name of the source.
        names: File names of the images.
    Yields:
        Rows of the layout `TURNS`. Rounds with an index outside its pool, and without question or
        answer (the last one of each dialogue of the test split); later rounds of that dialogue are rejected too,
        because their history has a gap.
    Raises:
        UserError: Truncated or malformed JSON, a missing or mistyped field, a duplicate image id, or one without
            image.
    """
    split = read_value(path, "split", str)
    questions = list(read_list_entries(path, "data.questions", str))
    answers = list(read_list_entries(path, "data.answers", str))
    seen_ids: set[str] = set()
    for number, dialogue in enumerate(read_list_entries(path, "data.dialogs", dict)):
        image_id = read_identifier(dialogue, "image_id", f"{path}: dialogue {number}")
        where = f"{path}: dialogue of image {image_id}"
        check_unique(seen_ids, image_id, where)
        image = build_image_name(image_id, names, split, where)
        caption = join_lines(read_field(dialogue, "caption", str, where))
        history: list[dict[str, str]] = []
        dialogue_fault: str | None = None if caption else "the caption is empty"
        for turn, record in enumerate(read_field(dialogue, "dialog", list, where), 1):
            if not isinstance(record, dict):
                raise UserError(f"{where}: round {turn} is {describe_type(record)}, not an object")
            question, question_fault = _read_from_pool(record, "question", questions, f"{where}: round {turn}")
            answer, answer_fault = _read_from_pool(record, "answer", answers, f"{where}: round {turn}")
            fault = question_fault or answer_fault
            yield {
                "source": source,
                "source_id": f"{image_id}#{turn}",
                "split": split,
                "image": image,
                "caption": caption,
                "round": turn,
                "question": question,
                "answer": answer,
                "history": list(history),
                "rejected": dialogue_fault or fault,
            }
            if question is not None and answer is not None:
                history.append({"question": question, "answer": answer})
            if fault and not dialogue_fault:
                dialogue_fault = f"round {turn}: {fault}"


def _read_from_pool(record: Mapping[str, Any], name: str, pool: list[str], where: str) -> tuple[str | None, str | None]:
    """Return the text at an index of its pool and None, or None and the reason why there is none."""
    index = read_optional_field(record, name, int, where)
    if index is None:
        return None, f"the round has no {name}"
    if not 0 <= index < len(pool):
        return None, f"{name} {index} is outside its pool of {len(pool)}"
    text = join_lines(pool[index])
    return (text, None) if text else (None, f"the {name} is empty")
