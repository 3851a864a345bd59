"""Questions about images and their answers, from VQA v2, GQA, Visual7W (telling) and the dialogues
of VisDial v1.0.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from sys import intern
from typing import Any

from waltz.core.errors import UserError
from waltz.sources.raw_files import (
    ImageNames,
    build_image_name,
    check_unique,
    join_lines,
    read_field,
    read_identifier,
    read_json_lines,
    read_list_entries,
    read_object_entries,
    read_objects,
    read_optional_field,
    read_strings,
    read_value,
)

VQA_IMAGE_NAMES = "COCO_{split}_{id:012d}.jpg"


GQA_IMAGE_NAMES = "{id}.jpg"
GQA_INSTRUCTION = "\nAnswer the question using a single word or phrase."
"""End of every question of the JSON-lines layout; it belongs to a prompt and is removed."""
VISDIAL_IMAGE_NAMES = "VisualDialog_{split}_{id:012d}.jpg"
"""File names of images of val2018 and test2018. Images of train are COCO's train2014 and val2014:
pass names by id.
"""


def read_vqa(
    questions: str | Path,
    annotations: str | Path | None,
    source: str,
    names: ImageNames = VQA_IMAGE_NAMES,
) -> Iterator[dict[str, Any]]:
    """Yield the questions of VQA v2 in file order with their answers, as rows of the layout
    `QUESTIONS`.

    `answer` is `multiple_choice_answer`; where annotations lack it, it is the most frequent answer,
    the earliest of equally frequent ones. Questions that are empty, have an empty answer or have no
    annotation are rejected.

    Args:
        questions: v2_OpenEnded_mscoco_*_questions.json; its `data_subtype` is the split.
        annotations: v2_mscoco_*_annotations.json, or None where the answers are withheld.
    """
    split = read_value(questions, "data_subtype", str)
    answered = {} if annotations is None else _read_vqa_annotations(annotations)
    seen_ids: set[str] = set()
    for number, record in enumerate(read_list_entries(questions, "questions", dict)):
        question_id = read_identifier(
            record, "question_id", f"{questions}: question {number}"
        )
        location = f"{questions}: question {question_id}"
        check_unique(seen_ids, question_id, location)
        image_id = read_identifier(record, "image_id", location)
        question = join_lines(read_field(record, "question", str, location))
        row: dict[str, Any] = {
            "source": source,
            "source_id": question_id,
            "split": split,
            "image": build_image_name(image_id, names, split, location),
            "question": question,
            "answer": None,
            "answers": [],
            "choices": [],
            "rejected": None if question else "the question is empty",
        }
        # Join the annotation of the question; annotations that remain at the end belong to no
        # question.
        if question_id in answered:
            annotated_image, answers = answered.pop(question_id)
            if annotated_image not in (None, image_id):
                location = f"{annotations}: question {question_id}"
                raise UserError(
                    f"{location}: image_id {annotated_image} is not the question's, {image_id}"
                )
            row |= answers
            row["rejected"] = row["rejected"] or (
                None if row["answer"] else "the answer is empty"
            )
        elif annotations is not None:
            row["rejected"] = "the question has no annotation"
        yield row
    if answered:
        first_id = next(iter(answered))
        raise UserError(
            f"{annotations}: question {first_id} is not in {questions}; use two files of one release"
        )


def _read_vqa_annotations(
    path: str | Path,
) -> dict[str, tuple[str | None, dict[str, Any]]]:
    """Return for each question its image (None where it is not named) and its answer columns."""
    annotations: dict[str, tuple[str | None, dict[str, Any]]] = {}
    for number, entry in enumerate(read_list_entries(path, "annotations", dict)):
        question_id = read_identifier(
            entry, "question_id", f"{path}: annotation {number}"
        )
        location = f"{path}: question {question_id}"
        if question_id in annotations:
            raise UserError(f"{location}: duplicate id in the file")
        answers = []
        for index, answer in enumerate(read_objects(entry, "answers", location)):
            answers.append(
                intern(
                    join_lines(
                        read_field(answer, "answer", str, f"{location}: answer {index}")
                    )
                )
            )
        agreed_answer = read_optional_field(
            entry, "multiple_choice_answer", str, location
        )
        if agreed_answer is None:
            # `most_common` keeps the order of first occurrence among equally frequent answers.
            agreed_answer = Counter(answers).most_common(1)[0][0] if answers else ""
        # `intern` stores equal texts once, which many questions share.
        kinds = [
            read_optional_field(entry, name, str, location)
            for name in ("question_type", "answer_type")
        ]
        question_type, answer_type = (
            None if kind is None else intern(kind) for kind in kinds
        )
        annotations[question_id] = (
            read_identifier(entry, "image_id", location)
            if "image_id" in entry
            else None,
            {
                "answer": intern(join_lines(agreed_answer)),
                "answers": answers,
                "type": question_type,
                "answer_type": answer_type,
            },
        )
    return annotations


def read_gqa(
    path: str | Path,
    source: str,
    split: str | None,
    names: ImageNames = GQA_IMAGE_NAMES,
) -> Iterator[dict[str, Any]]:
    """Yield the questions of GQA in file order, as rows of the layout `QUESTIONS`.

    `type` is the structural type (query, verify, choose, compare, logical) and `answer` is null
    where it is withheld. An empty question or answer is rejected.

    Args:
        path: {train,val,testdev,...}_{all,balanced}_questions.json; `balanced` distinguishes the
            sets in an `all` file.
    """
    for question_id, record in read_object_entries(path, ""):
        location = f"{path}: question {question_id}"
        question = join_lines(read_field(record, "question", str, location))
        answer = read_optional_field(record, "answer", str, location)
        types = read_optional_field(record, "types", dict, location) or {}
        reason = None if question else "the question is empty"
        yield {
            "source": source,
            "source_id": question_id,
            "split": split,
            "image": build_image_name(
                read_identifier(record, "imageId", location), names, split, location
            ),
            "question": question,
            "answer": answer,
            "answers": [],
            "choices": [],
            "type": read_optional_field(types, "structural", str, location),
            "full_answer": read_optional_field(record, "fullAnswer", str, location),
            "balanced": read_optional_field(record, "isBalanced", bool, location),
            "rejected": reason or ("the answer is empty" if answer == "" else None),
        }


def read_gqa_lines(
    path: str | Path, source: str, split: str | None
) -> Iterator[dict[str, Any]]:
    """Yield questions of a JSON-lines file of question_id, image and text, as it is used to query
    models.

    Rows of the layout `QUESTIONS` have no answers; an empty question is rejected.
    """
    seen_ids: set[str] = set()
    for number, record in read_json_lines(path):
        location = f"{path}: line {number}"
        question_id = read_identifier(record, "question_id", location)
        check_unique(seen_ids, question_id, f"{location}: question {question_id}")
        question = join_lines(
            read_field(record, "text", str, location).removesuffix(GQA_INSTRUCTION)
        )
        yield {
            "source": source,
            "source_id": question_id,
            "split": split,
            "image": read_field(record, "image", str, location),
            "question": question,
            "answer": None,
            "answers": [],
            "choices": [],
            "rejected": None if question else "the question is empty",
        }


def read_visual7w(path: str | Path, source: str) -> Iterator[dict[str, Any]]:
    """Yield the questions of a dataset_v7w_telling.json in file order, as rows of the layout
    `QUESTIONS`.

    Questions with an empty question or answer, or with the right answer among the wrong ones, are
    rejected.
    """
    images: set[str] = set()
    seen_ids: set[str] = set()
    for number, image in enumerate(read_list_entries(path, "images", dict)):
        image_id = read_identifier(image, "image_id", f"{path}: image {number}")
        location = f"{path}: image {image_id}"
        check_unique(images, image_id, location)
        name, split = (
            read_field(image, "filename", str, location),
            read_field(image, "split", str, location),
        )
        for pair in read_objects(image, "qa_pairs", location):
            question_id = read_identifier(pair, "qa_id", location)
            check_unique(seen_ids, question_id, f"{path}: question {question_id}")
            yield {
                "source": source,
                "source_id": question_id,
                "split": split,
                "image": name,
                **_read_visual7w_pair(
                    pair, image_id, f"{path}: question {question_id}"
                ),
            }


def _read_visual7w_pair(
    pair: Mapping[str, Any], image_id: str, location: str
) -> dict[str, Any]:
    if "image_id" in pair and read_identifier(pair, "image_id", location) != image_id:
        raise UserError(
            f"{location}: image_id {pair['image_id']} is not the image that lists it, {image_id}"
        )
    question = join_lines(read_field(pair, "question", str, location))
    answer = join_lines(read_field(pair, "answer", str, location))
    choices = [
        join_lines(choice)
        for choice in read_strings(pair, "multiple_choices", location)
    ]
    reason = "the answer stands among the wrong ones" if answer in choices else None
    if not question or not answer:
        reason = "the answer is empty" if question else "the question is empty"
    return {
        "question": question,
        "answer": answer,
        "answers": [],
        "choices": choices,
        "type": read_optional_field(pair, "type", str, location),
        "rejected": reason,
    }


def read_visdial(
    path: str | Path, source: str, names: ImageNames = VISDIAL_IMAGE_NAMES
) -> Iterator[dict[str, Any]]:
    """Yield the rounds of all dialogues of a visdial_1.0_{train,val,test}.json, as rows of the
    layout `TURNS`.

    `source_id` is image id, `#` and the round from 1. Rounds with an index outside its pool, or
    without question or answer (the last one of each dialogue of the test split), are rejected, as
    are later rounds of that dialogue, because their history has a gap. Memory holds the pools and
    one dialogue.
    """
    split = read_value(path, "split", str)
    questions = list(read_list_entries(path, "data.questions", str))
    answers = list(read_list_entries(path, "data.answers", str))
    seen_ids: set[str] = set()
    for number, dialogue in enumerate(read_list_entries(path, "data.dialogs", dict)):
        image_id = read_identifier(dialogue, "image_id", f"{path}: dialogue {number}")
        location = f"{path}: dialogue of image {image_id}"
        check_unique(seen_ids, image_id, location)
        image = build_image_name(image_id, names, split, location)
        caption = join_lines(read_field(dialogue, "caption", str, location))
        history: list[dict[str, str]] = []
        dialogue_fault: str | None = None if caption else "the caption is empty"
        for turn, record in enumerate(read_objects(dialogue, "dialog", location), 1):
            question, question_fault = _read_from_pool(
                record, "question", questions, f"{location}: round {turn}"
            )
            answer, answer_fault = _read_from_pool(
                record, "answer", answers, f"{location}: round {turn}"
            )
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
            # The history of the next round; after a fault it has a gap, and the rest of the
            # dialogue is rejected.
            if question is not None and answer is not None:
                history.append({"question": question, "answer": answer})
            if fault and not dialogue_fault:
                dialogue_fault = f"round {turn}: {fault}"


def _read_from_pool(
    record: Mapping[str, Any], name: str, pool: list[str], location: str
) -> tuple[str | None, str | None]:
    """Return a question or answer from its pool and None; or None and the reason why there is no
    text.
    """
    index = read_optional_field(record, name, int, location)
    if index is None:
        return None, f"the round has no {name}"
    # Dialogues refer to questions and answers by their index in lists for the whole file.
    if not 0 <= index < len(pool):
        return None, f"{name} {index} is outside its pool of {len(pool)}"
    text = join_lines(pool[index])
    return (text, None) if text else (None, f"the {name} is empty")
