"""e-SNLI: premise, hypothesis, gold label and human explanations, as CSV.

A file without `pairID` is no original: the one at hand was put together line by line from the tokenised release, has
blanks before punctuation and lower-cased explanations, and names no pairs. Its rows say so in `reconstructed`. Its
order is the original's as far as could be seen: the items 0, 1 and 4 that a public output of the released script shows
after its seeded shuffle are the rows 6913, 9372 and 360 that the same shuffle draws here.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from waltz.core.errors import UserError
from waltz.sources.fields import once, one_line
from waltz.sources.stream import csv_records

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
    for place, (line, record) in enumerate(csv_records(path, required=COLUMNS)):
        pair_id = record.get("pairID", str(place))
        if not pair_id:
            raise UserError(f"{path}: line {line}: 'pairID' is empty")
        once(seen, pair_id, f"{path}: line {line}: pair {pair_id}")
        premise, hypothesis = one_line(record["Sentence1"]), one_line(record["Sentence2"])
        label = record["gold_label"]
        if not premise or not hypothesis:
            reason: str | None = f"the {'hypothesis' if premise else 'premise'} is empty"
        else:
            reason = None if label in LABELS else f"label {label!r} is none of {', '.join(LABELS)}"
        explanations = [one_line(record.get(f"Explanation_{number}", "")) for number in (1, 2, 3)]
        yield {
            "source": source,
            "source_id": pair_id,
            "split": split,
            "image": None,
            "task": "esnli",
            "premise": premise,
            "hypothesis": hypothesis,
            "choices": list(LABELS),
            "gold": LABELS.index(label) if label in LABELS else None,
            "explanations": [text for text in explanations if text],
            "reconstructed": "pairID" not in record,
            "rejected": reason,
        }
