"""ComVE, subtask A: two sentences, one of them against common sense, and the answers in a second CSV file.

The answer is the index of the sentence that is AGAINST common sense. A prompt that asks which sentence is against
common sense takes `gold` as it is, and one that asks for the sensible sentence takes 1 - gold.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from waltz.core.errors import UserError
from waltz.sources.fields import check_unique, join_lines
from waltz.sources.raw_files import read_csv_records

ANSWERS = ("0", "1")


def read_pairs(sentences: str | Path, answers: str | Path, source: str, split: str | None) -> Iterator[dict[str, Any]]:
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
    gold = _read_answers(answers)
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
            reason = None if answer in ANSWERS else f"answer {answer!r} is neither 0 nor 1"
        yield {
            "source": source,
            "source_id": pair_id,
            "split": split,
            "image": None,
            "task": "comve",
            "choices": choices,
            "gold": ANSWERS.index(answer) if answer in ANSWERS else None,
            "explanations": [],
            "reconstructed": False,
            "rejected": reason,
        }
    if gold:
        raise UserError(f"{answers}: pair {next(iter(gold))} is not in {sentences}; use two files of one release")


def _read_answers(path: str | Path) -> dict[str, str]:
    """Return the answers by pair id."""
    answers: dict[str, str] = {}
    for line, record in read_csv_records(path, columns=("id", "answer")):
        if record["id"] in answers:
            raise UserError(f"{path}: line {line}: pair {record['id']}: duplicate id in the file")
        answers[record["id"]] = record["answer"]
    return answers
