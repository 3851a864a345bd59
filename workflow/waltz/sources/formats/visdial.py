"""VisDial v1.0: dialogues of ten rounds; questions and answers are indices into two pools."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

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

IMAGE_NAMES = "VisualDialog_{split}_{id:012d}.jpg"
"""File names of images of val2018 and test2018. Images of train are COCO's train2014 and val2014: pass names by id."""


def read_turns(path: str | Path, source: str, names: ImageNames = IMAGE_NAMES) -> Iterator[dict[str, Any]]:
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
