"""Quality of annotators on gold items, and agreement between annotators."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from waltz.benchmark.votes import compute_alpha, count_votes

MIN_PREFERRED_SHARE = 0.7
"""Lowest acceptable share of gold items on which an annotator prefers the caption."""


@dataclass(frozen=True)
class AnnotatorQuality:
    """Quality of one annotator.

    Attributes:
        annotator: Name of the annotator.
        answers: Number of answers.
        gold_answers: Number of answers to gold items.
        share: Share of those that prefer the caption, in [0, 1]; None where there are none.
        reliable: Whether the share reaches the threshold; None where there is no share.
    """

    annotator: str
    answers: int
    gold_answers: int
    share: float | None
    reliable: bool | None


@dataclass(frozen=True)
class Agreement:
    """Agreement between annotators.

    Attributes:
        items: Items with an answer.
        unanimous: Items of which every annotator preferred the caption.
        alpha: Krippendorff's alpha over the answers as presented; None where it is undefined.
        reason: Why alpha is undefined, else None.
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
        annotations: Rows of the annotations layout.
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
