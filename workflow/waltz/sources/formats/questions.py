"""Questions about images and their answers, from VQA v2, GQA, Visual7W (telling) and the dialogues
of VisDial v1.0.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from sys import intern

from waltz.core.errors import UserError
from waltz.sources.raw_entry import RawEntry
from waltz.sources.raw_files import (
    ImageNames,
    build_image_name,
    check_unique,
    find_empty,
    join_lines,
    read_identified_objects,
    read_json_lines,
    read_list_entries,
    read_object_entries,
    read_value,
)
from waltz.sources.records import DialogueTurn, QuestionRecord, TurnRecord

VQA_IMAGE_NAMES = "COCO_{split}_{id:012d}.jpg"
GQA_IMAGE_NAMES = "{id}.jpg"
GQA_INSTRUCTION = "\nAnswer the question using a single word or phrase."
"""End of every question of the JSON-lines layout; it belongs to a prompt and is removed."""
VISDIAL_IMAGE_NAMES = "VisualDialog_{split}_{id:012d}.jpg"
"""File names of images of val2018 and test2018. Images of train are COCO's train2014 and val2014:
pass names by id.
"""


@dataclass(frozen=True, slots=True)
class VqaAnnotation:
    """Answers to a question of VQA.

    Attributes:
        image_id: Id of the image; None where the annotation does not name it.
        answer: The answer on which the annotators agree; None for a question without annotation.
        answers: Answers of all annotators.
        type: Kind of question.
        answer_type: Kind of answer.
    """

    image_id: str | None = None
    answer: str | None = None
    answers: Sequence[str] = ()
    type: str | None = None
    answer_type: str | None = None


UNANNOTATED = VqaAnnotation()
"""Stands for the annotation of a question that has none."""


def read_vqa(
    questions: str | Path,
    annotations: str | Path | None,
    source: str,
    names: ImageNames = VQA_IMAGE_NAMES,
) -> Iterator[QuestionRecord]:
    """Yield the questions of VQA v2 in file order with their answers.

    `answer` is `multiple_choice_answer`; where annotations lack it, it is the most frequent answer,
    the earliest of equally frequent ones. Questions that are empty, have an empty answer or have no
    annotation are rejected.

    Args:
        questions: v2_OpenEnded_mscoco_*_questions.json; its `data_subtype` is the split.
        annotations: v2_mscoco_*_annotations.json, or None where the answers are withheld.
    """
    split = read_value(questions, "data_subtype", str)
    annotated: dict[str, VqaAnnotation] = {}
    if annotations is not None:
        annotated = _read_vqa_annotations(annotations)
    for question_id, entry in read_identified_objects(
        questions, "questions", "question", "question_id"
    ):
        image_id = entry.read_identifier("image_id")
        question = join_lines(entry.read("question", str))
        image = build_image_name(image_id, names, split, entry.location)

        # Annotations that remain at the end belong to no question.
        annotation = annotated.pop(question_id, UNANNOTATED)
        if annotation.image_id not in (None, image_id):
            raise UserError(
                f"{annotations}: question {question_id}: image_id {annotation.image_id} is not the question's,"
                f" {image_id}"
            )
        rejected = find_empty(question=question, answer=annotation.answer)
        if annotations is not None and annotation is UNANNOTATED:
            rejected = "the question has no annotation"
        yield QuestionRecord(
            source=source,
            source_id=question_id,
            split=split,
            image=image,
            question=question,
            answer=annotation.answer,
            answers=annotation.answers,
            type=annotation.type,
            answer_type=annotation.answer_type,
            rejected=rejected,
        )
    if annotated:
        first_id = next(iter(annotated))
        raise UserError(
            f"{annotations}: question {first_id} is not in {questions}; use two files of one release"
        )


def _read_vqa_annotations(path: str | Path) -> dict[str, VqaAnnotation]:
    """Return the annotations by the id of their question."""
    annotations = read_identified_objects(
        path, "annotations", "annotation", "question_id", id_noun="question"
    )
    return {
        question_id: _read_vqa_annotation(entry) for question_id, entry in annotations
    }


def _read_vqa_annotation(entry: RawEntry) -> VqaAnnotation:
    """Return one annotation; the answer is the most frequent one where the file names none."""
    answers = [
        _intern_line(answer.read("answer", str))
        for answer in entry.read_objects("answers", "answer")
    ]
    answer = entry.read_optional("multiple_choice_answer", str)
    if answer is None:
        # `most_common` keeps the order of first occurrence among equally frequent answers.
        (answer, _), *_ = Counter(answers).most_common(1) or [("", 0)]
    question_type = _read_kind(entry, "question_type")
    answer_type = _read_kind(entry, "answer_type")
    image_id = None
    if "image_id" in entry.fields:
        image_id = entry.read_identifier("image_id")
    return VqaAnnotation(
        image_id, _intern_line(answer), answers, question_type, answer_type
    )


def _intern_line(text: str) -> str:
    """Return a text on one line; equal texts, which many questions share, are stored once."""
    return intern(join_lines(text))


def _read_kind(entry: RawEntry, name: str) -> str | None:
    """Return an optional field that many annotations share, stored once."""
    kind = entry.read_optional(name, str)
    return kind and intern(kind)


def read_gqa(
    path: str | Path,
    source: str,
    split: str | None,
    names: ImageNames = GQA_IMAGE_NAMES,
) -> Iterator[QuestionRecord]:
    """Yield the questions of GQA in file order.

    `type` is the structural type (query, verify, choose, compare, logical) and `answer` is null
    where it is withheld. An empty question or answer is rejected.

    Args:
        path: {train,val,testdev,...}_{all,balanced}_questions.json; `balanced` distinguishes the
            sets in an `all` file. A file that ends in `.jsonl` is read by `read_gqa_lines`.
    """
    if str(path).endswith(".jsonl"):
        yield from read_gqa_lines(path, source, split)
        return
    for question_id, fields in read_object_entries(path, ""):
        entry = RawEntry(fields, f"{path}: question {question_id}")
        question = join_lines(entry.read("question", str))
        answer = entry.read_optional("answer", str)
        types = entry.read_optional_object("types")
        image_id = entry.read_identifier("imageId")
        yield QuestionRecord(
            source=source,
            source_id=question_id,
            split=split,
            image=build_image_name(image_id, names, split, entry.location),
            question=question,
            answer=answer,
            type=types.read_optional("structural", str),
            full_answer=entry.read_optional("fullAnswer", str),
            balanced=entry.read_optional("isBalanced", bool),
            rejected=find_empty(question=question, answer=answer),
        )


def read_gqa_lines(
    path: str | Path, source: str, split: str | None
) -> Iterator[QuestionRecord]:
    """Yield questions of a JSON-lines file of question_id, image and text, as it is used to query
    models.

    The questions have no answers; an empty question is rejected.
    """
    seen_ids: set[str] = set()
    for number, fields in read_json_lines(path):
        entry = RawEntry(fields, f"{path}: line {number}")
        question_id = entry.read_identifier("question_id")
        check_unique(seen_ids, question_id, f"{entry.location}: question {question_id}")
        text = entry.read("text", str)
        question = join_lines(text.removesuffix(GQA_INSTRUCTION))
        yield QuestionRecord(
            source=source,
            source_id=question_id,
            split=split,
            image=entry.read("image", str),
            question=question,
            rejected=find_empty(question=question),
        )


def read_visual7w(path: str | Path, source: str) -> Iterator[QuestionRecord]:
    """Yield the questions of a dataset_v7w_telling.json in file order.

    Questions with an empty question or answer, or with the right answer among the wrong ones, are
    rejected.
    """
    seen_ids: set[str] = set()
    for image_id, image in read_identified_objects(path, "images", "image", "image_id"):
        name = image.read("filename", str)
        split = image.read("split", str)
        for pair in image.read_objects("qa_pairs"):
            question_id = pair.read_identifier("qa_id")
            pair = pair.at(f"{path}: question {question_id}")
            check_unique(seen_ids, question_id, pair.location)
            if (
                "image_id" in pair.fields
                and pair.read_identifier("image_id") != image_id
            ):
                raise UserError(
                    f"{pair.location}: image_id {pair.fields['image_id']} is not the image that lists it, {image_id}"
                )
            question = join_lines(pair.read("question", str))
            answer = join_lines(pair.read("answer", str))
            choices = list(map(join_lines, pair.read_strings("multiple_choices")))
            rejected = find_empty(question=question, answer=answer)
            if rejected is None and answer in choices:
                rejected = "the answer stands among the wrong ones"
            yield QuestionRecord(
                source=source,
                source_id=question_id,
                split=split,
                image=name,
                question=question,
                answer=answer,
                choices=choices,
                type=pair.read_optional("type", str),
                rejected=rejected,
            )


def read_visdial(
    path: str | Path, source: str, names: ImageNames = VISDIAL_IMAGE_NAMES
) -> Iterator[TurnRecord]:
    """Yield the rounds of all dialogues of a visdial_1.0_{train,val,test}.json.

    `source_id` is image id, `#` and the round from 1. Rounds with an index outside its pool, or
    without question or answer (the last one of each dialogue of the test split), are rejected, as
    are later rounds of that dialogue, because their history has a gap. Memory holds the pools and
    one dialogue.
    """
    split = read_value(path, "split", str)
    # Dialogues refer to questions and answers by their index in lists for the whole file.
    questions = list(read_list_entries(path, "data.questions", str))
    answers = list(read_list_entries(path, "data.answers", str))
    for image_id, dialogue in read_identified_objects(
        path, "data.dialogs", "dialogue", "image_id", id_noun="dialogue of image"
    ):
        image = build_image_name(image_id, names, split, dialogue.location)
        caption = join_lines(dialogue.read("caption", str))
        dialogue_fault = find_empty(caption=caption)
        history: list[DialogueTurn] = []
        for number, turn in enumerate(dialogue.read_objects("dialog", "round", 1), 1):
            question, question_fault = _read_from_pool(turn, "question", questions)
            answer, answer_fault = _read_from_pool(turn, "answer", answers)
            fault = question_fault or answer_fault
            yield TurnRecord(
                source=source,
                source_id=f"{image_id}#{number}",
                split=split,
                image=image,
                caption=caption,
                round=number,
                question=question,
                answer=answer,
                history=list(history),
                rejected=dialogue_fault or fault,
            )
            # The history of the next round; after a fault it has a gap, and the rest of the
            # dialogue is rejected.
            if question is not None and answer is not None:
                history.append(DialogueTurn(question, answer))
            if fault and not dialogue_fault:
                dialogue_fault = f"round {number}: {fault}"


def _read_from_pool(
    turn: RawEntry, name: str, pool: Sequence[str]
) -> tuple[str | None, str | None]:
    """Return a question or answer from its pool and None; or None and the reason why there is no
    text.
    """
    index = turn.read_optional(name, int)
    if index is None:
        return None, f"the round has no {name}"
    if not 0 <= index < len(pool):
        return None, f"{name} {index} is outside its pool of {len(pool)}"
    text = join_lines(pool[index])
    if not text:
        return None, f"the {name} is empty"
    return text, None
