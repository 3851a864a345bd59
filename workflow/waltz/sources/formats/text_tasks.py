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
COMVE_ANSWERS = ("0", "1")

LETTERED = re.compile(r"^\(([A-Z])\) ?(.*)$", re.MULTILINE)
DASHED = re.compile(r"^- (.+)$", re.MULTILINE)
CHOICES_HEADER = "\n\nAnswer choices:\n"
OPTIONS_HEADER = "\nOptions:\n"


def read_esnli(
    path: str | Path, source: str, split: str | None
) -> Iterator[dict[str, Any]]:
    """Yield pairs of a CSV file in file order, as rows of the layout `TEXTS`.

    `source_id` is the `pairID`, or the position in the file from 0 where there is none: such a file
    is not the original, and its rows are marked in `reconstructed`. Pairs with an empty sentence,
    and with a label that is none of the three (SNLI marks pairs without majority by `-`), are
    rejected.

    Args:
        path: CSV with the columns gold_label, Sentence1 and Sentence2, and Explanation_1 to _3
            where it has them.
    """
    seen_ids: set[str] = set()
    for position, (line, record) in enumerate(
        read_csv_records(path, required=ESNLI_COLUMNS)
    ):
        pair_id = record.get("pairID", str(position))
        if not pair_id:
            raise UserError(f"{path}: line {line}: 'pairID' is empty")
        check_unique(seen_ids, pair_id, f"{path}: line {line}: pair {pair_id}")
        # Each pair has up to three explanations by people.
        explanations = [
            join_lines(record.get(f"Explanation_{number}", "")) for number in (1, 2, 3)
        ]
        yield {
            **_build_row(source, split, pair_id, "esnli"),
            **_build_esnli_pair(
                record["Sentence1"], record["Sentence2"], record["gold_label"]
            ),
            "explanations": [text for text in explanations if text],
            "reconstructed": "pairID" not in record,
        }


def read_esnli_lines(
    premises: str | Path,
    hypotheses: str | Path,
    labels: str | Path,
    source: str,
    split: str | None,
) -> Iterator[dict[str, Any]]:
    """Yield pairs of the line-by-line release (s1.test, s2.test, labels.test) like those of
    `read_esnli`.

    Line i of each file belongs to pair i, from 0. The files are not the original: they are
    tokenised, with spaces before punctuation. Their order appears to be the original's: the items
    0, 1 and 4 that a public output of the released script shows after its seeded shuffle are the
    rows 6913, 9372 and 360 that the same shuffle draws here.
    """
    files = (premises, hypotheses, labels)
    for position, parts in enumerate(zip_longest(*map(read_text_lines, files))):
        if None in parts:
            # A shorter file would assign wrong labels.
            short_file = files[parts.index(None)]
            raise UserError(
                f"{short_file}: it ends after line {position}, the other files do not; get them again"
            )
        premise, hypothesis, label = parts
        yield {
            **_build_row(source, split, str(position), "esnli"),
            **_build_esnli_pair(premise, hypothesis, label.strip()),
            "reconstructed": True,
        }


def read_comve(
    sentences: str | Path, answers: str | Path, source: str, split: str | None
) -> Iterator[dict[str, Any]]:
    """Yield pairs in the order of the sentences file, as rows of the layout `TEXTS`.

    `choices` are both sentences, and `gold` is the index of the one AGAINST common sense: a prompt
    that asks for the sensible sentence takes 1 - gold. Pairs with an empty sentence or without the
    answer 0 or 1 are rejected.

    Args:
        sentences: CSV with the header id,sent0,sent1.
        answers: CSV without header: id, and 0 or 1 for the nonsensical sentence.
    """
    gold = _read_comve_answers(answers)
    seen_ids: set[str] = set()
    for line, record in read_csv_records(sentences, required=("id", "sent0", "sent1")):
        pair_id = record["id"]
        check_unique(seen_ids, pair_id, f"{sentences}: line {line}: pair {pair_id}")
        choices = [join_lines(record["sent0"]), join_lines(record["sent1"])]
        # Answers that remain at the end belong to no pair.
        answer = gold.pop(pair_id, None)
        if not all(choices):
            reason: str | None = f"sentence {choices.index('')} is empty"
        elif answer is None:
            reason = "the pair has no answer"
        else:
            reason = (
                None
                if answer in COMVE_ANSWERS
                else f"answer {answer!r} is neither 0 nor 1"
            )
        yield {
            **_build_row(source, split, pair_id, "comve"),
            "choices": choices,
            "gold": COMVE_ANSWERS.index(answer) if answer in COMVE_ANSWERS else None,
            "rejected": reason,
        }
    if gold:
        raise UserError(
            f"{answers}: pair {next(iter(gold))} is not in {sentences}; use two files of one release"
        )


def read_bbh_data(
    path: str | Path, task: str, source: str, split: str | None
) -> Iterator[dict[str, Any]]:
    """Yield the items of a val_data.json, the layout of the published runs, as rows of the layout
    `TEXTS`.

    `source_id` is the position in the file, from 0. `text` is `parsed_inputs` with lettered
    choices; the single 1 of `multiple_choice_scores` marks the answer among
    `multiple_choice_targets`. Items without exactly one right choice and items whose lettered
    choices are not their targets are rejected.
    """
    for number, record in enumerate(read_list_entries(path, "data", dict)):
        location = f"{path}: item {number}"
        text = read_field(record, "parsed_inputs", str, location)
        choices = read_strings(record, "multiple_choice_targets", location)
        scores = read_field(record, "multiple_choice_scores", list, location)
        gold, reason = None, None
        # The text shows the choices with letters, so they must have the order of the targets.
        if len(scores) != len(choices) or scores.count(1) != 1:
            reason = f"its scores {scores} do not mark one of {len(choices)} choices"
        else:
            gold = scores.index(1)
            if _parse_lettered_choices(text.rpartition(CHOICES_HEADER)[2]) != choices:
                reason = "its lettered choices are not its targets"
        row = _build_row(source, split, str(number), task)
        yield row | {"text": text, "choices": choices, "gold": gold, "rejected": reason}


def read_bbh_examples(
    path: str | Path, task: str, source: str, split: str | None
) -> Iterator[dict[str, Any]]:
    """Yield the items of a file of the benchmark's own release as rows of the layout `TEXTS`.

    `source_id` is the position in the file, from 0. `text` is `input` with its options; `target` is
    a letter in brackets or, for causal judgement, a word. Items without options and items whose
    target is none of their options are rejected.
    """
    for number, record in enumerate(read_list_entries(path, "examples", dict)):
        location = f"{path}: item {number}"
        text = read_field(record, "input", str, location)
        target = read_field(record, "target", str, location).strip()
        options = text.rpartition(OPTIONS_HEADER)[2] if OPTIONS_HEADER in text else ""
        # Most tasks letter their options; causal judgment lists words after dashes.
        lettered_choices = _parse_lettered_choices(options)
        choices = lettered_choices or [
            choice.strip() for choice in DASHED.findall(options)
        ]
        names = (
            [f"({letter})" for letter in _list_letters(len(choices))]
            if lettered_choices
            else choices
        )
        gold = names.index(target) if target in names else None
        reason = (
            None
            if gold is not None
            else f"target {target!r} is none of {len(choices)} options"
        )
        row = _build_row(source, split, str(number), task)
        yield row | {"text": text, "choices": choices, "gold": gold, "rejected": reason}


def _build_row(
    source: str, split: str | None, source_id: str, task: str
) -> dict[str, Any]:
    return {
        "source": source,
        "source_id": source_id,
        "split": split,
        "image": None,
        "task": task,
        "explanations": [],
        "reconstructed": False,
    }


def _build_esnli_pair(first: str, second: str, label: str) -> dict[str, Any]:
    premise = join_lines(first)
    hypothesis = join_lines(second)
    reason: str | None = None
    if not premise:
        reason = "the premise is empty"
    elif not hypothesis:
        reason = "the hypothesis is empty"
    elif label not in ESNLI_LABELS:
        reason = f"label {label!r} is none of {', '.join(ESNLI_LABELS)}"
    return {
        "premise": premise,
        "hypothesis": hypothesis,
        "choices": list(ESNLI_LABELS),
        "gold": ESNLI_LABELS.index(label) if label in ESNLI_LABELS else None,
        "rejected": reason,
    }


def _read_comve_answers(path: str | Path) -> dict[str, str]:
    answers: dict[str, str] = {}
    for line, record in read_csv_records(path, columns=("id", "answer")):
        if record["id"] in answers:
            raise UserError(
                f"{path}: line {line}: pair {record['id']}: duplicate id in the file"
            )
        answers[record["id"]] = record["answer"]
    return answers


def _parse_lettered_choices(options: str) -> list[str]:
    """Return the choices after the letters (A), (B), … in order; none where the letters are not in
    order.
    """
    matches = LETTERED.findall(options)
    letters = [letter for letter, _ in matches]
    if letters != _list_letters(len(matches)):
        return []
    return [choice.strip() for _, choice in matches]


def _list_letters(count: int) -> list[str]:
    return [chr(ord("A") + index) for index in range(count)]
