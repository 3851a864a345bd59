"""Answers of people about the two texts in the order of presentation, their votes, agreement and quality.

An annotator sees the image and two numbered texts, the caption first or second, and answers which of them
describes the image: `first`, `second`, `both`, `neither` or `cannot tell`.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import krippendorff

from waltz.core.errors import UserError
from waltz.sources.raw_files import read_csv_records

ANSWERS = ("first", "second", "both", "neither", "cannot tell")
POSITIONS = ("first", "second")
ANNOTATION_COLUMNS = ("item_id", "annotator", "answer", "caption_position")


def read_annotations(path: str | Path, item_ids: Iterable[str]) -> list[dict[str, str]]:
    """Read the annotations of a CSV file with the columns `COLUMNS`."""
    known_ids = set(item_ids)
    answered_pairs: set[tuple[str, str]] = set()
    rows = []
    for line, record in read_csv_records(path, required=ANNOTATION_COLUMNS):
        row = {name: record[name].strip() for name in ANNOTATION_COLUMNS}
        if row["answer"] not in ANSWERS:
            raise UserError(f"{path}: line {line}: answer {row['answer']!r} is none of {', '.join(ANSWERS)}")
        if row["caption_position"] not in POSITIONS:
            raise UserError(f"{path}: line {line}: caption_position {row['caption_position']!r} is not first or second")
        if row["item_id"] not in known_ids:
            raise UserError(f"{path}: line {line}: item {row['item_id']!r} is not in the data set")
        if (row["item_id"], row["annotator"]) in answered_pairs:
            raise UserError(
                f"{path}: line {line}: annotator {row['annotator']!r} answered item {row['item_id']!r} twice"
            )
        answered_pairs.add((row["item_id"], row["annotator"]))
        rows.append(row)
    return rows


def count_votes(annotations: Sequence[Mapping[str, str]], valid_votes: int) -> dict[str, dict[str, Any]]:
    """Return votes and validity by item id; `first` or `second` is a vote for caption or foil, all else is other."""
    votes: dict[str, Counter[str]] = defaultdict(Counter)
    for row in annotations:
        if row["answer"] not in POSITIONS:
            side = "other"
        else:
            side = "caption" if row["answer"] == row["caption_position"] else "foil"
        votes[row["item_id"]][side] += 1
    return {
        item_id: {
            "votes_caption": count["caption"],
            "votes_foil": count["foil"],
            "votes_other": count["other"],
            "valid": count["caption"] >= valid_votes and count["caption"] > count["foil"],
        }
        for item_id, count in votes.items()
    }


def compute_alpha(annotations: Sequence[Mapping[str, str]]) -> tuple[float | None, str | None]:
    """Compute Krippendorff's nominal alpha over the five answers as presented.

    Returns:
        Alpha in [-1, 1] and None, or None and the reason why it is undefined.
    """
    import pandas as pd  # takes a second, which jobs that only count votes do not need

    frame = pd.DataFrame(list(annotations), columns=list(ANNOTATION_COLUMNS))
    codes = frame.assign(code=frame["answer"].map({answer: code for code, answer in enumerate(ANSWERS)}))
    table = codes.pivot(index="annotator", columns="item_id", values="code")
    pairable = table.loc[:, table.notna().sum() > 1]
    if pairable.empty:
        return None, "no item has two annotations"
    if len(set(pairable.stack())) < 2:
        return None, "every annotation is the same, so alpha is undefined"
    return float(krippendorff.alpha(table.to_numpy(dtype=float), level_of_measurement="nominal")), None


MIN_PREFERRED_SHARE = 0.7
"""Lowest acceptable share of gold items on which an annotator prefers the caption."""


@dataclass(frozen=True)
class AnnotatorQuality:
    """Number of answers of an annotator, and the share of gold items on which the caption is preferred, if any."""

    annotator: str
    answers: int
    gold_answers: int
    share: float | None
    reliable: bool | None


@dataclass(frozen=True)
class Agreement:
    """Number of items with an answer, and of those whose caption every annotator preferred; Krippendorff's alpha.

    `alpha` is over the answers as presented; `reason` says why it is undefined.
    """

    items: int
    unanimous: int
    alpha: float | None
    reason: str | None


def compute_annotator_quality(
    annotations: Sequence[Mapping[str, str]], gold: Collection[str], threshold: float = MIN_PREFERRED_SHARE
) -> list[AnnotatorQuality]:
    """Compute the quality of each annotator, in the order of their names.

    Args:
        gold: Ids of items whose caption is known to be true, and whose foil to be false.
        threshold: Lowest acceptable share of preferred captions.
    """
    preferred: dict[str, list[bool]] = defaultdict(list)
    answered = Counter(row["annotator"] for row in annotations)
    for row in annotations:
        if row["item_id"] in gold:
            preferred[row["annotator"]].append(row["answer"] == row["caption_position"])
    records = []
    for annotator in sorted(answered):
        hits = preferred[annotator]
        share = sum(hits) / len(hits) if hits else None
        reliable = None if share is None else share >= threshold
        records.append(AnnotatorQuality(annotator, answered[annotator], len(hits), share, reliable))
    return records


def drop_annotators(
    annotations: Sequence[Mapping[str, str]], annotators: Collection[str], reason: str
) -> tuple[list[Mapping[str, str]], list[dict[str, str]]]:
    """Remove the answers of some annotators.

    Returns:
        The other answers; and item_id, annotator and reason of each removed answer.
    """
    remaining = [row for row in annotations if row["annotator"] not in annotators]
    skipped = [
        {"item_id": row["item_id"], "annotator": row["annotator"], "reason": reason}
        for row in annotations
        if row["annotator"] in annotators
    ]
    return remaining, skipped


def compute_agreement(annotations: Sequence[Mapping[str, str]]) -> Agreement:
    """Compute unanimity and Krippendorff's alpha."""
    votes = count_votes(annotations, 1)
    unanimous = sum(not vote["votes_foil"] + vote["votes_other"] for vote in votes.values())
    value, reason = compute_alpha(annotations)
    return Agreement(len(votes), unanimous, value, reason)


def count_missing_answers(
    annotations: Sequence[Mapping[str, str]], item_ids: Collection[str], annotators: int
) -> dict[str, int]:
    """Count the missing answers of each item that lacks some."""
    answered = Counter(row["item_id"] for row in annotations)
    return {item_id: annotators - answered[item_id] for item_id in sorted(item_ids) if answered[item_id] < annotators}
