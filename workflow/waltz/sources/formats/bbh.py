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
    """Yield the items of a val_data.json in file order; `source_id` is the position in the file, from 0.

    Args:
        path: JSON of canary and `data`.
        task: Name of the task.
        source: Name of the source.
        split: Name of the split.
    Yields:
        Rows of the layout `TEXTS`; `text` is `parsed_inputs`. Items without exactly one right choice and
        items whose lettered choices are not their targets are rejected.
    Raises:
        UserError: Truncated or malformed JSON, a missing or mistyped field.
    """
    for number, record in enumerate(read_list_entries(path, "data", dict)):
        where = f"{path}: item {number}"
        text = read_field(record, "parsed_inputs", str, where)
        choices = read_strings(record, "multiple_choice_targets", where)
        scores = read_field(record, "multiple_choice_scores", list, where)
        lettered_choices = _parse_lettered_choices(text.rpartition(CHOICES_HEADER)[2])
        if len(scores) != len(choices) or scores.count(1) != 1:
            gold, reason = None, f"its scores {scores} do not mark one of {len(choices)} choices"
        elif lettered_choices != choices:
            gold, reason = scores.index(1), "its lettered choices are not its targets"
        else:
            gold, reason = scores.index(1), None
        yield _build_row(source, split, task, number, text) | {"choices": choices, "gold": gold, "rejected": reason}


def read_examples(path: str | Path, task: str, source: str, split: str | None) -> Iterator[dict[str, Any]]:
    """Yield the items of a file of the benchmark's own release in file order.

    `source_id` is the position in the file, from 0.

    Args:
        path: JSON of canary and `examples`.
        task: Name of the task.
        source: Name of the source.
        split: Name of the split.
    Yields:
        Rows of the layout `TEXTS`; `text` is `input`. Items without options and items whose target is none of
        their options are rejected.
    Raises:
        UserError: Truncated or malformed JSON, a missing or mistyped field.
    """
    for number, record in enumerate(read_list_entries(path, "examples", dict)):
        where = f"{path}: item {number}"
        text = read_field(record, "input", str, where)
        target = read_field(record, "target", str, where).strip()
        options = text.rpartition(OPTIONS_HEADER)[2] if OPTIONS_HEADER in text else ""
        lettered_choices = _parse_lettered_choices(options)
        choices = lettered_choices or [choice.strip() for choice in DASHED.findall(options)]
        names = [f"({_get_letter(index)})" for index in range(len(choices))] if lettered_choices else choices
        gold = names.index(target) if target in names else None
        reason = None if gold is not None else f"target {target!r} is none of {len(choices)} options"
        yield _build_row(source, split, task, number, text) | {"choices": choices, "gold": gold, "rejected": reason}


def _build_row(source: str, split: str | None, task: str, number: int, text: str) -> dict[str, Any]:
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


def _parse_lettered_choices(options: str) -> list[str]:
    """Return the choices after the letters (A), (B), … in order; none where the letters are not in order."""
    options_by_letter = LETTERED.findall(options)
    in_order = [letter for letter, _ in options_by_letter] == [
        _get_letter(index) for index in range(len(options_by_letter))
    ]
    return [choice.strip() for _, choice in options_by_letter] if in_order else []


def _get_letter(index: int) -> str:
    return chr(ord("A") + index)
