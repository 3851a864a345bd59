"""e-SNLI: premise, hypothesis, gold label and human explanations, as CSV or as the release's line-by-line files.

A file without `pairID` is no original, nor are the line-by-line files, from which the CSV at hand was put together: the
release tokenised them, with blanks before punctuation and lower-cased explanations, and named no pairs. Their rows say
so in `reconstructed`. Their order is the original's as far as could be seen: the items 0, 1 and 4 that a public output
of the released script shows after its seeded shuffle are the rows 6913, 9372 and 360 that the same shuffle draws here.
"""

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

from waltz.core.errors import UserError
from waltz.sources.fields import check_unique, join_lines
from waltz.sources.raw_files import read_csv_records, read_text_lines

LABELS = ("entailment", "contradiction", "neutral")
"""In the order in which the published prompt offers them: (A) yes, (B) no, (C) maybe."""

COLUMNS = ("gold_label", "Sentence1", "Sentence2")


def read_pairs(path: str | Path, source: str, split: str | None) -> Iterator[dict[str, Any]]:
    """Pairs in file order; `source_id` is the `pairID`, or the place in the file from 0 where there is none.

    Args:
        path: CSV with the columns gold_label, Sentence1 and Sentence2, and Explanation_1 to _3 where it has them.
        source: Name of the source.
        split: Name of the split.
    Yields:
        Rows of the layout `TEXTS` with `choices` = `LABELS`. Rejected are an empty sentence and a label that is none
        of the three (SNLI marks pairs without majority by `-`).
    Raises:
        UserError: A missing column, a malformed line or a repeated pairID.
    """
    seen: set[str] = set()
    for place, (line, record) in enumerate(read_csv_records(path, required=COLUMNS)):
        pair_id = record.get("pairID", str(place))
        if not pair_id:
            raise UserError(f"{path}: line {line}: 'pairID' is empty")
        check_unique(seen, pair_id, f"{path}: line {line}: pair {pair_id}")
        explanations = [join_lines(record.get(f"Explanation_{number}", "")) for number in (1, 2, 3)]
        yield {
            "source": source,
            "source_id": pair_id,
            "split": split,
            **_pair(record["Sentence1"], record["Sentence2"], record["gold_label"]),
            "explanations": [text for text in explanations if text],
            "reconstructed": "pairID" not in record,
        }


def read_lines(
    premises: str | Path, hypotheses: str | Path, labels: str | Path, source: str, split: str | None
) -> Iterator[dict[str, Any]]:
    """Pairs of the line-by-line release: line i of each file belongs to pair i, `source_id` is its place from 0.

    Args:
        premises: Text file of premises (s1.test).
        hypotheses: Of hypotheses (s2.test).
        labels: Of gold labels (labels.test).
        source: Name of the source.
        split: Name of the split.
    Yields:
        Rows of the layout `TEXTS` as those of `read_pairs`, without explanations.
    Raises:
        UserError: A file is missing or not UTF-8, or the files differ in length.
    """
    for place, parts in enumerate(
        zip_longest(read_text_lines(premises), read_text_lines(hypotheses), read_text_lines(labels))
    ):
        if None in parts:
            short = (premises, hypotheses, labels)[parts.index(None)]
            raise UserError(f"{short}: it ends after line {place}, the files beside it do not; get them again")
        premise, hypothesis, label = parts
        yield {
            "source": source,
            "source_id": str(place),
            "split": split,
            **_pair(premise, hypothesis, label.strip()),
            "explanations": [],
            "reconstructed": True,
        }


def _pair(first: str, second: str, label: str) -> dict[str, Any]:
    """The columns that both forms of the data have in common."""
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
