"""BIG-Bench Hard: disambiguation QA, causal judgement, logical deduction of five objects, in two layouts.

`data` (the layout that the published runs read): `parsed_inputs` with lettered choices, `multiple_choice_targets`, and
`multiple_choice_scores` whose single 1 marks the answer. `examples` (the benchmark's own release): `input` with its
options and `target`, a letter in brackets or, for causal judgement, a word.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from waltz.sources.fields import read_field, read_strings
from waltz.sources.raw_files import read_list_entries

LETTERED = re.compile(r"^\(([A-Z])\) ?(.*)$", re.MULTILINE)
DASHED = re.compile(r"^- (.+)$", re.MULTILINE)
CHOICES_HEADER = "\n\nAnswer choices:\n"
OPTIONS_HEADER = "\nOptions:\n"


def read_data(path: str | Path, task: str, source: str, split: str | None) -> Iterator[dict[str, Any]]:
    """Items of a val_data.json in file order; `source_id` is the place in the file, from 0.

    Args:
        path: JSON of canary and `data`.
        task: Name of the task.
        source: Name of the source.
        split: Name of the split.
    Yields:
        Rows of the layout `TEXTS`; `text` is `parsed_inputs`. Rejected are items without exactly one right choice, and
        items whose lettered choices are not their targets.
    Raises:
        UserError: Truncated or malformed JSON, a missing or mistyped field.
    """
    for number, record in enumerate(read_list_entries(path, "data", dict)):
        place = f"{path}: item {number}"
        text = read_field(record, "parsed_inputs", str, place)
        choices = read_strings(record, "multiple_choice_targets", place)
        scores = read_field(record, "multiple_choice_scores", list, place)
        lettered = _lettered(text.rpartition(CHOICES_HEADER)[2])
        if len(scores) != len(choices) or scores.count(1) != 1:
            gold, reason = None, f"its scores {scores} do not mark one of {len(choices)} choices"
        elif lettered != choices:
            gold, reason = scores.index(1), "its lettered choices are not its targets"
        else:
            gold, reason = scores.index(1), None
        yield _row(source, split, task, number, text) | {"choices": choices, "gold": gold, "rejected": reason}


def read_examples(path: str | Path, task: str, source: str, split: str | None) -> Iterator[dict[str, Any]]:
    """Items of a file of the benchmark's own release in file order; `source_id` is the place in the file, from 0.

    Args:
        path: JSON of canary and `examples`.
        task: Name of the task.
        source: Name of the source.
        split: Name of the split.
    Yields:
        Rows of the layout `TEXTS`; `text` is `input`. Rejected are items without options and items whose target is
        none of their options.
    Raises:
        UserError: Truncated or malformed JSON, a missing or mistyped field.
    """
    for number, record in enumerate(read_list_entries(path, "examples", dict)):
        place = f"{path}: item {number}"
        text = read_field(record, "input", str, place)
        target = read_field(record, "target", str, place).strip()
        options = text.rpartition(OPTIONS_HEADER)[2] if OPTIONS_HEADER in text else ""
        lettered = _lettered(options)
        choices = lettered or [choice.strip() for choice in DASHED.findall(options)]
        names = [f"({_letter(place)})" for place in range(len(choices))] if lettered else choices
        gold = names.index(target) if target in names else None
        reason = None if gold is not None else f"target {target!r} is none of {len(choices)} options"
        yield _row(source, split, task, number, text) | {"choices": choices, "gold": gold, "rejected": reason}


def _row(source: str, split: str | None, task: str, number: int, text: str) -> dict[str, Any]:
    return {
        "source": source,
        "source_id": str(number),
        "split": split,
        "image": None,
        "task": task,
        "text": text,
        "explanations": [],
        "reconstructed": False,
    }


def _lettered(options: str) -> list[str]:
    """Choices behind the letters (A), (B), … in order; none where the letters are not in order."""
    found = LETTERED.findall(options)
    in_order = [letter for letter, _ in found] == [_letter(place) for place in range(len(found))]
    return [choice.strip() for _, choice in found] if in_order else []


def _letter(place: int) -> str:
    return chr(ord("A") + place)
