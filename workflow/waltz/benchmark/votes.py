"""Answers of annotators about the two texts of an item: votes, agreement, and the quality of
annotators.

An annotator sees the image and two numbered texts, the caption first or second, and answers which
of them describes the image: `first`, `second`, `both`, `neither` or `cannot tell`.
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
"""Answers that prefer one of the texts; also the positions that the caption can have."""
ANNOTATION_COLUMNS = ("item_id", "annotator", "answer", "caption_position")


def read_annotations(path: str | Path, item_ids: Iterable[str]) -> list[dict[str, str]]:
    """Read the annotations of a CSV file with the columns `ANNOTATION_COLUMNS`."""
    known_ids = set(item_ids)
    answered_pairs: set[tuple[str, str]] = set()
    rows = []
    for line, record in read_csv_records(path, required=ANNOTATION_COLUMNS):
        row = {name: record[name].strip() for name in ANNOTATION_COLUMNS}
        fault = _find_fault(row, known_ids)
        if fault is not None:
            raise UserError(f"{path}: line {line}: {fault}")
        pair = (row["item_id"], row["annotator"])
        # A second answer of one person would count as a second vote.
        if pair in answered_pairs:
            raise UserError(
                f"{path}: line {line}: annotator {row['annotator']!r} answered item {row['item_id']!r} twice;"
                " remove one of the answers"
            )
        answered_pairs.add(pair)
        rows.append(row)
    return rows


def _find_fault(row: Mapping[str, str], known_ids: Collection[str]) -> str | None:
    """Return why an annotation cannot be used; None where it can."""
    if row["answer"] not in ANSWERS:
        return f"answer {row['answer']!r} is none of {', '.join(ANSWERS)}; correct it"
    if row["caption_position"] not in POSITIONS:
        return f"caption_position {row['caption_position']!r} is not first or second; correct it"
    if row["item_id"] not in known_ids:
        return f"item {row['item_id']!r} is not in the data set; correct it, or give the annotations of this data set"
    return None


def count_votes(
    annotations: Sequence[Mapping[str, str]], valid_votes: int
) -> dict[str, dict[str, Any]]:
    """Count the votes on each item.

    The answers `first` and `second` are votes for caption or foil, by the position of the caption;
    all else is other.

    Args:
        valid_votes: Lowest number of votes for the caption that makes an item valid.
    Returns:
        By item id: votes_caption, votes_foil, votes_other and valid.
    """
    votes: dict[str, Counter[str]] = defaultdict(Counter)
    for row in annotations:
        votes[row["item_id"]][_find_vote(row)] += 1
    columns = {}
    for item_id, count in votes.items():
        # With few required votes, a caption could have enough and still have no more than its foil.
        has_enough = count["caption"] >= valid_votes
        columns[item_id] = {
            "votes_caption": count["caption"],
            "votes_foil": count["foil"],
            "votes_other": count["other"],
            "valid": has_enough and count["caption"] > count["foil"],
        }
    return columns


def _find_vote(row: Mapping[str, str]) -> str:
    """Return the text for which an annotation votes: `caption` or `foil`; else `other`."""
    if row["answer"] not in POSITIONS:
        return "other"
    return "caption" if row["answer"] == row["caption_position"] else "foil"


def compute_alpha(
    annotations: Sequence[Mapping[str, str]],
) -> tuple[float | None, str | None]:
    """Compute Krippendorff's nominal alpha over the five answers, in the order of presentation.

    Returns:
        Alpha in [-1, 1] and None, or None and the reason why it is undefined.
    """
    import pandas as pd  # takes a second, which jobs that only count votes do not need

    frame = pd.DataFrame(list(annotations), columns=list(ANNOTATION_COLUMNS))
    codes = frame.assign(
        code=frame["answer"].map({answer: code for code, answer in enumerate(ANSWERS)})
    )
    # (annotators, items): the index of the answer, NaN where an annotator did not see the item.
    table = codes.pivot(index="annotator", columns="item_id", values="code")
    # Only items with at least two answers can show agreement.
    pairable = table.loc[:, table.notna().sum() > 1]
    if pairable.empty:
        return None, "no item has two annotations"
    # With a single value, the expected disagreement is 0 and alpha would divide by it.
    answers = pairable.melt()["value"].dropna()
    if answers.nunique() < 2:
        return None, "every annotation is the same, so alpha is undefined"
    return float(
        krippendorff.alpha(table.to_numpy(dtype=float), level_of_measurement="nominal")
    ), None


MIN_PREFERRED_SHARE = 0.7
"""Lowest share of gold items on which a reliable annotator prefers the caption."""


@dataclass(frozen=True)
class AnnotatorQuality:
    """The quality of an annotator on gold items, whose caption is known to be true and whose foil
    to be false.

    Attributes:
        annotator: Name of the annotator.
        answers: Number of all answers.
        gold_answers: Number of answers to gold items.
        share: Share of the gold answers that prefer the caption, from 0 to 1; None without gold
            answers.
        reliable: True where the share reaches the threshold; None without gold answers.
    """

    annotator: str
    answers: int
    gold_answers: int
    share: float | None
    reliable: bool | None


@dataclass(frozen=True)
class Agreement:
    """The agreement of annotators.

    Attributes:
        items: Number of items with an answer.
        unanimous: Number of items on which every annotator preferred the caption.
        alpha: Krippendorff's alpha over the answers as presented; None where it is undefined.
        reason: Why alpha is undefined, else None.
    """

    items: int
    unanimous: int
    alpha: float | None
    reason: str | None


def compute_annotator_quality(
    annotations: Sequence[Mapping[str, str]],
    gold: Collection[str],
    threshold: float = MIN_PREFERRED_SHARE,
) -> list[AnnotatorQuality]:
    """Compute the quality of each annotator on gold items, in the order of the names.

    Args:
        gold: Ids of items whose caption is known to be true, and whose foil to be false.
        threshold: Lowest share of gold items on which a reliable annotator prefers the caption.
    """
    # A hit is an answer to a gold item that prefers its caption.
    hits_by_annotator: dict[str, list[bool]] = defaultdict(list)
    for row in annotations:
        if row["item_id"] in gold:
            is_caption = row["answer"] == row["caption_position"]
            hits_by_annotator[row["annotator"]].append(is_caption)

    n_answers = Counter(row["annotator"] for row in annotations)
    records = []
    for annotator in sorted(n_answers):
        hits = hits_by_annotator[annotator]
        share: float | None = None
        reliable: bool | None = None
        if hits:
            share = sum(hits) / len(hits)
            reliable = share >= threshold
        records.append(
            AnnotatorQuality(
                annotator, n_answers[annotator], len(hits), share, reliable
            )
        )
    return records


def drop_annotators(
    annotations: Sequence[Mapping[str, str]], annotators: Collection[str], reason: str
) -> tuple[list[Mapping[str, str]], list[dict[str, str]]]:
    """Remove the answers of some annotators.

    Returns:
        The remaining answers; and item_id, annotator and reason of each removed answer.
    """
    remaining: list[Mapping[str, str]] = []
    skipped: list[dict[str, str]] = []
    for row in annotations:
        if row["annotator"] in annotators:
            skipped.append(
                {
                    "item_id": row["item_id"],
                    "annotator": row["annotator"],
                    "reason": reason,
                }
            )
        else:
            remaining.append(row)
    return remaining, skipped


def compute_agreement(annotations: Sequence[Mapping[str, str]]) -> Agreement:
    """Compute the number of unanimous items, and Krippendorff's alpha over all answers."""
    votes = count_votes(annotations, 1)
    # Unanimous: each answer is a vote for the caption.
    unanimous = sum(
        not vote["votes_foil"] + vote["votes_other"] for vote in votes.values()
    )
    value, reason = compute_alpha(annotations)
    return Agreement(len(votes), unanimous, value, reason)


def count_missing_answers(
    annotations: Sequence[Mapping[str, str]], item_ids: Collection[str], annotators: int
) -> dict[str, int]:
    """Return the number of missing answers by item id, for the items that have fewer answers than
    annotators.
    """
    n_answers = Counter(row["item_id"] for row in annotations)
    missing = {}
    for item_id in sorted(item_ids):
        if n_answers[item_id] < annotators:
            missing[item_id] = annotators - n_answers[item_id]
    return missing
