"""e-SNLI: premise, hypothesis, gold label and human explanations, as CSV or as the release's line-by-line files.

A file without `pairID` is not the original, nor are the line-by-line files, from which such a CSV can be joined: they
are tokenised, with spaces before punctuation and lower-cased explanations, and have no pair ids. Their rows are marked
in `reconstructed`. Their order appears to be the original's: the items 0, 1 and 4 that a public output of the released
script shows after its seeded shuffle are the rows 6913, 9372 and 360 that the same shuffle draws here.
"""

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

from waltz.core.errors import UserError
from waltz.sources.fields import check_unique, join_lines
from waltz.sources.raw_files import read_csv_records, read_text_lines

LABELS = ("entailment", "contradiction", "neutral")
"""Labels in the order of the published prompt: (A) yes, (B) no, (C) maybe."""

COLUMNS = ("gold_label", "Sentence1", "Sentence2")


def read_pairs(path: str | Path, source: str, split: str | None) -> Iterator[dict[str, Any]]:
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
    for position, (line, record) in enumerate(read_csv_records(path, required=COLUMNS)):
        pair_id = record.get("pairID", str(position))
        if not pair_id:
            raise UserError(f"{path}: line {line}: 'pairID' is empty")
        check_unique(seen_ids, pair_id, f"{path}: line {line}: pair {pair_id}")
        explanations = [join_lines(record.get(f"Explanation_{number}", "")) for number in (1, 2, 3)]
        yield {
            "source": source,
            "source_id": pair_id,
            "split": split,
            **_build_pair(record["Sentence1"], record["Sentence2"], record["gold_label"]),
            "explanations": [text for text in explanations if text],
            "reconstructed": "pairID" not in record,
        }


def read_lines(
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
            **_build_pair(premise, hypothesis, label.strip()),
            "explanations": [],
            "reconstructed": True,
        }


def _build_pair(first: str, second: str, label: str) -> dict[str, Any]:
    """Return the columns that both forms of the data share."""
    premise, hypothesis = join_lines(first), join_lines(second)
    if not premise or not hypothesis:
        reason: str | None = f"the {'hypothesis' if premise else 'premise'} is empty"
    else:
        reason = None if label in LABELS else f"label {label!r} is none of {', '.join(LABELS)}"
    return {
        "image": None,
        "task": "esnli",
        "premise": premise,
        "hypothesis": hypothesis,
        "choices": list(LABELS),
        "gold": LABELS.index(label) if label in LABELS else None,
        "rejected": reason,
    }
