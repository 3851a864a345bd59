"""The text tasks of CC-SHAP: e-SNLI, ComVE (subtask A), and three tasks of BIG-Bench Hard."""

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from string import ascii_uppercase

from waltz.core.errors import UserError
from waltz.sources.raw_files import (
    check_unique,
    find_empty,
    join_lines,
    read_csv_records,
    read_objects,
    read_text_lines,
)
from waltz.sources.records import TextRecord

ESNLI_LABELS = ("entailment", "contradiction", "neutral")
"""Labels in the order of the published prompt: (A) yes, (B) no, (C) maybe."""
ESNLI_COLUMNS = ("gold_label", "Sentence1", "Sentence2")
COMVE_GOLD = {"0": 0, "1": 1}
"""Index of the sentence against common sense, by the answer in the file."""

LETTERED = re.compile(r"^\(([A-Z])\) ?(.*)$", re.MULTILINE)
DASHED = re.compile(r"^- (.+)$", re.MULTILINE)
CHOICES_HEADER = "\n\nAnswer choices:\n"
OPTIONS_HEADER = "\nOptions:\n"


def read_esnli(
    path: str | Path, source: str, split: str | None
) -> Iterator[TextRecord]:
    """Yield pairs of a CSV file in file order.

    `source_id` is the `pairID`, or the position in the file from 0 where there is none: such a file
    is not the original, and its rows are marked in `reconstructed`. Pairs with an empty sentence,
    and with a label that is none of the three (SNLI marks pairs without majority by `-`), are
    rejected.

    Args:
        path: CSV with the columns gold_label, Sentence1 and Sentence2, and Explanation_1 to _3
            where it has them.
    """
    seen_ids: set[str] = set()
    for position, (line, cells) in enumerate(
        read_csv_records(path, required=ESNLI_COLUMNS)
    ):
        pair_id = cells.get("pairID", str(position))
        if not pair_id:
            raise UserError(f"{path}: line {line}: 'pairID' is empty")
        check_unique(seen_ids, pair_id, f"{path}: line {line}: pair {pair_id}")
        # Each pair has up to three explanations by people.
        explanations = [
            join_lines(cells.get(f"Explanation_{number}", "")) for number in (1, 2, 3)
        ]
        pair = _build_esnli_pair(
            cells["Sentence1"], cells["Sentence2"], cells["gold_label"], source, split
        )
        yield replace(
            pair,
            source_id=pair_id,
            explanations=tuple(filter(None, explanations)),
            reconstructed="pairID" not in cells,
        )


def read_esnli_lines(
    premises: str | Path,
    hypotheses: str | Path,
    labels: str | Path,
    source: str,
    split: str | None = "test",
) -> Iterator[TextRecord]:
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
        pair = _build_esnli_pair(premise, hypothesis, label.strip(), source, split)
        yield replace(pair, source_id=str(position), reconstructed=True)


def _build_esnli_pair(
    first: str, second: str, label: str, source: str, split: str | None
) -> TextRecord:
    """Return a pair of e-SNLI whose id is still empty."""
    premise = join_lines(first)
    hypothesis = join_lines(second)
    rejected = find_empty(premise=premise, hypothesis=hypothesis)
    gold = None
    if label in ESNLI_LABELS:
        gold = ESNLI_LABELS.index(label)
    elif rejected is None:
        rejected = f"label {label!r} is none of {', '.join(ESNLI_LABELS)}"
    return TextRecord(
        source=source,
        source_id="",
        split=split,
        task="esnli",
        premise=premise,
        hypothesis=hypothesis,
        choices=ESNLI_LABELS,
        gold=gold,
        rejected=rejected,
    )


def read_comve(
    sentences: str | Path,
    answers: str | Path,
    source: str,
    split: str | None = "test",
) -> Iterator[TextRecord]:
    """Yield pairs in the order of the sentences file.

    `choices` are both sentences, and `gold` is the index of the one AGAINST common sense: a prompt
    that asks for the sensible sentence takes 1 - gold. Pairs with an empty sentence or without the
    answer 0 or 1 are rejected.

    Args:
        sentences: CSV with the header id,sent0,sent1.
        answers: CSV without header: id, and 0 or 1 for the nonsensical sentence.
    """
    gold_answers = _read_comve_answers(answers)
    seen_ids: set[str] = set()
    for line, cells in read_csv_records(sentences, required=("id", "sent0", "sent1")):
        pair_id = cells["id"]
        check_unique(seen_ids, pair_id, f"{sentences}: line {line}: pair {pair_id}")
        choices = [join_lines(cells["sent0"]), join_lines(cells["sent1"])]
        # Answers that remain at the end belong to no pair.
        answer = gold_answers.pop(pair_id, None)
        yield TextRecord(
            source=source,
            source_id=pair_id,
            split=split,
            task="comve",
            choices=choices,
            gold=COMVE_GOLD.get(answer or ""),
            rejected=_find_comve_fault(choices, answer),
        )
    if gold_answers:
        raise UserError(
            f"{answers}: pair {next(iter(gold_answers))} is not in {sentences}; use two files of one release"
        )


def _read_comve_answers(path: str | Path) -> dict[str, str]:
    answers: dict[str, str] = {}
    for line, cells in read_csv_records(path, columns=("id", "answer")):
        if cells["id"] in answers:
            raise UserError(
                f"{path}: line {line}: pair {cells['id']}: duplicate id in the file"
            )
        answers[cells["id"]] = cells["answer"]
    return answers


def _find_comve_fault(choices: list[str], answer: str | None) -> str | None:
    """Return the reason why a pair of ComVE cannot be used; None where it can."""
    if "" in choices:
        return f"sentence {choices.index('')} is empty"
    if answer is None:
        return "the pair has no answer"
    if answer not in COMVE_GOLD:
        return f"answer {answer!r} is neither 0 nor 1"
    return None


def read_bbh_data(
    path: str | Path, task: str, source: str, split: str | None = "val"
) -> Iterator[TextRecord]:
    """Yield the items of a val_data.json, the layout of the published runs.

    `source_id` is the position in the file, from 0. `text` is `parsed_inputs` with lettered
    choices; the single 1 of `multiple_choice_scores` marks the answer among
    `multiple_choice_targets`. Items without exactly one right choice and items whose lettered
    choices are not their targets are rejected.
    """
    for number, item in enumerate(read_objects(path, "data", "item")):
        text = item.read("parsed_inputs", str)
        choices = item.read_strings("multiple_choice_targets")
        scores = item.read("multiple_choice_scores", list)
        lettered_choices = _parse_lettered_choices(text.rpartition(CHOICES_HEADER)[2])
        gold = None
        rejected = None
        if len(scores) != len(choices) or scores.count(1) != 1:
            rejected = f"its scores {scores} do not mark one of {len(choices)} choices"
        else:
            gold = scores.index(1)
            # The text shows the choices with letters, so they must have the order of the targets.
            if lettered_choices != choices:
                rejected = "its lettered choices are not its targets"
        yield TextRecord(
            source=source,
            source_id=str(number),
            split=split,
            task=task,
            text=text,
            choices=choices,
            gold=gold,
            rejected=rejected,
        )


def read_bbh_examples(
    path: str | Path, task: str, source: str, split: str | None = "test"
) -> Iterator[TextRecord]:
    """Yield the items of a file of the benchmark's own release.

    `source_id` is the position in the file, from 0. `text` is `input` with its options; `target` is
    a letter in brackets or, for causal judgement, a word. Items without options and items whose
    target is none of their options are rejected.
    """
    for number, item in enumerate(read_objects(path, "examples", "item")):
        text = item.read("input", str)
        target = item.read("target", str).strip()
        _, header, options = text.rpartition(OPTIONS_HEADER)
        if not header:
            options = ""
        choices = _parse_lettered_choices(options)
        # The target of a lettered choice is its letter.
        targets = [f"({letter})" for letter in ascii_uppercase[: len(choices)]]
        if not choices:
            # Causal judgment lists words after dashes.
            choices = [choice.strip() for choice in DASHED.findall(options)]
            targets = choices
        gold = None
        rejected = None
        if target in targets:
            gold = targets.index(target)
        else:
            rejected = f"target {target!r} is none of {len(choices)} options"
        yield TextRecord(
            source=source,
            source_id=str(number),
            split=split,
            task=task,
            text=text,
            choices=choices,
            gold=gold,
            rejected=rejected,
        )


def _parse_lettered_choices(options: str) -> list[str]:
    """Return the choices after the letters (A), (B), … in order; none where the letters are not in
    order.
    """
    matches = LETTERED.findall(options)
    letters = "".join(letter for letter, _ in matches)
    if letters != ascii_uppercase[: len(letters)]:
        return []
    return [choice.strip() for _, choice in matches]
