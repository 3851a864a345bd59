"""The text tasks of CC-SHAP: e-SNLI, ComVE (subtask A), and three tasks of BIG-Bench Hard."""

import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

from waltz.core.errors import UserError
from waltz.sources.raw_files import (
    check_unique,
    join_lines,
    read_csv_records,
    read_field,
    read_list_entries,
    read_strings,
    read_text_lines,
)

ESNLI_LABELS = ("entailment", "contradiction", "neutral")
"""Labels in the order of the published prompt: (A) yes, (B) no, (C) maybe."""

ESNLI_COLUMNS = ("gold_label", "Sentence1", "Sentence2")


def read_esnli(path: str | Path, source: str, split: str | None) -> Iterator[dict[str, Any]]:
    """Yield pairs in file order; `source_id` is the `pairID`, or the position in the file from 0 where there is none.

    Args:
        path: CSV with the columns gold_label, Sentence1 and Sentence2, and Explanation_1 to _3 where it has them.
        source: Name of the source.
        split: Name of the split.
    Yields:
        Rows of the layout `TEXTS` with `choices` = `LABELS`. Pairs with an empty sentence and with a label that is
        none of the three (SNLI marks pairs without majority by `-`) are rejected.
    Raises:
        UserError: A missing column, a malformed line or a repeated pairID.
    """
    seen_ids: set[str] = set()
    for position, (line, record) in enumerate(read_csv_records(path, required=ESNLI_COLUMNS)):
        pair_id = record.get("pairID", str(position))
        if not pair_id:
            raise UserError(f"{path}: line {line}: 'pairID' is empty")
        check_unique(seen_ids, pair_id, f"{path}: line {line}: pair {pair_id}")
        explanations = [join_lines(record.get(f"Explanation_{number}", "")) for number in (1, 2, 3)]
        yield {
            "source": source,
            "source_id": pair_id,
            "split": split,
            **_build_esnli_pair(record["Sentence1"], record["Sentence2"], record["gold_label"]),
            "explanations": [text for text in explanations if text],
            "reconstructed": "pairID" not in record,
        }


def read_esnli_lines(
    premises: str | Path, hypotheses: str | Path, labels: str | Path, source: str, split: str | None
) -> Iterator[dict[str, Any]]:
    """Yield pairs of the line-by-line release: line i of each file belongs to pair i, `source_id` is i from 0.

    Args:
        premises: Text file of premises (s1.test).
        hypotheses: Text file of hypotheses (s2.test).
        labels: Text file of gold labels (labels.test).
        source: Name of the source.
        split: Name of the split.
    Yields:
        Rows of the layout `TEXTS` like those of `read_pairs`, without explanations.
    Raises:
        UserError: A file is missing or not UTF-8, or the files differ in length.
    """
    for position, parts in enumerate(
        zip_longest(read_text_lines(premises), read_text_lines(hypotheses), read_text_lines(labels))
    ):
        if None in parts:
            short_file = (premises, hypotheses, labels)[parts.index(None)]
            raise UserError(f"{short_file}: it ends after line {position}, the other files do not; get them again")
        premise, hypothesis, label = parts
        yield {
            "source": source,
            "source_id": str(position),
            "split": split,
            **_build_esnli_pair(premise, hypothesis, label.strip()),
            "explanations": [],
            "reconstructed": True,
        }


def _build_esnli_pair(first: str, second: str, label: str) -> dict[str, Any]:
    """Return the columns that both forms of the data share."""
    premise, hypothesis = join_lines(first), join_lines(second)
    if not premise or not hypothesis:
        reason: str | None = f"the {'hypothesis' if premise else 'premise'} is empty"
    else:
        reason = None if label in ESNLI_LABELS else f"label {label!r} is none of {', '.join(ESNLI_LABELS)}"
    return {
        "image": None,
        "task": "esnli",
        "premise": premise,
        "hypothesis": hypothesis,
        "choices": list(ESNLI_LABELS),
        "gold": ESNLI_LABELS.index(label) if label in ESNLI_LABELS else None,
        "rejected": reason,
    }


COMVE_ANSWERS = ("0", "1")


def read_comve(sentences: str | Path, answers: str | Path, source: str, split: str | None) -> Iterator[dict[str, Any]]:
    """Yield pairs in the order of the sentences file.

    Args:
        sentences: CSV with the header id,sent0,sent1.
        answers: CSV without header: id, and 0 or 1 for the nonsensical sentence.
        source: Name of the source.
        split: Name of the split.
    Yields:
        Rows of the layout `TEXTS` with both sentences as `choices` and the index of the nonsensical one as `gold`.
        Pairs with an empty sentence, without answer, or with an answer that is neither 0 nor 1 are rejected.
    Raises:
        UserError: A missing column, a malformed line, a repeated id, or an answer without pair.
    """
    gold = _read_comve_answers(answers)
    seen_ids: set[str] = set()
    for line, record in read_csv_records(sentences, required=("id", "sent0", "sent1")):
        pair_id = record["id"]
        check_unique(seen_ids, pair_id, f"{sentences}: line {line}: pair {pair_id}")
        choices = [join_lines(record["sent0"]), join_lines(record["sent1"])]
        answer = gold.pop(pair_id, None)
        if not all(choices):
            reason: str | None = f"sentence {choices.index('')} is empty"
        elif answer is None:
            reason = "the pair has no answer"
        else:
            reason = None if answer in COMVE_ANSWERS else f"answer {answer!r} is neither 0 nor 1"
        yield {
            "source": source,
            "source_id": pair_id,
            "split": split,
            "image": None,
            "task": "comve",
            "choices": choices,
            "gold": COMVE_ANSWERS.index(answer) if answer in COMVE_ANSWERS else None,
            "explanations": [],
            "reconstructed": False,
            "rejected": reason,
        }
    if gold:
        raise UserError(f"{answers}: pair {next(iter(gold))} is not in {sentences}; use two files of one release")


def _read_comve_answers(path: str | Path) -> dict[str, str]:
    """Return the answers by pair id."""
    answers: dict[str, str] = {}
    for line, record in read_csv_records(path, columns=("id", "answer")):
        if record["id"] in answers:
            raise UserError(f"{path}: line {line}: pair {record['id']}: duplicate id in the file")
        answers[record["id"]] = record["answer"]
    return answers


LETTERED = re.compile(r"^\(([A-Z])\) ?(.*)$", re.MULTILINE)
DASHED = re.compile(r"^- (.+)$", re.MULTILINE)
CHOICES_HEADER = "\n\nAnswer choices:\n"
OPTIONS_HEADER = "\nOptions:\n"


def read_bbh_data(path: str | Path, task: str, source: str, split: str | None) -> Iterator[dict[str, Any]]:
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
        yield _build_bbh_row(source, split, task, number, text) | {"choices": choices, "gold": gold, "rejected": reason}


def read_bbh_examples(path: str | Path, task: str, source: str, split: str | None) -> Iterator[dict[str, Any]]:
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
        yield _build_bbh_row(source, split, task, number, text) | {"choices": choices, "gold": gold, "rejected": reason}


def _build_bbh_row(source: str, split: str | None, task: str, number: int, text: str) -> dict[str, Any]:
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
