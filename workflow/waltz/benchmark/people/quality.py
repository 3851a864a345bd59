"""How well the annotators answered, and what their answers are worth together."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from waltz.benchmark.votes import compute_alpha, count_votes

MIN_PREFERRED_SHARE = 0.7
"""Share of gold items on which an annotator has to prefer the caption."""


@dataclass(frozen=True)
class AnnotatorQuality:
    """One annotator's record.

    Attributes:
        annotator: Who.
        answered: Answers given.
        gold: Answers given to gold items.
        share: Share of those that prefer the caption, in [0, 1]; None where there are none.
        enough: Whether the share reaches the threshold; None where there is no share.
    """

    annotator: str
    answered: int
    gold: int
    share: float | None
    enough: bool | None


@dataclass(frozen=True)
class Agreement:
    """How far annotators agree.

    Attributes:
        items: Items with an answer.
        unanimous: Items of which every annotator preferred the caption.
        alpha: Krippendorff's alpha over the answers as presented; None where it is undefined.
        reason: Why it is.
    """

    items: int
    unanimous: int
    alpha: float | None
    reason: str | None


def compute_annotator_quality(
    annotations: Sequence[Mapping[str, str]], gold: Collection[str], threshold: float = MIN_PREFERRED_SHARE
) -> list[AnnotatorQuality]:
    """Record of each annotator, in the order of their names.

    Args:
        annotations: Rows of the annotations layout.
        gold: Ids of items whose caption is known to be true, and whose foil to be false.
        threshold: Least share of captions preferred.
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
        enough = None if share is None else share >= threshold
        records.append(AnnotatorQuality(annotator, answered[annotator], len(hits), share, enough))
    return records


def drop_annotators(
    annotations: Sequence[Mapping[str, str]], annotators: Collection[str], reason: str
) -> tuple[list[Mapping[str, str]], list[dict[str, str]]]:
    """Leave the answers of some annotators out.

    Returns:
        The other answers; and item_id, annotator and reason of each that was left out, as in `exchange.Imported`.
    """
    kept = [row for row in annotations if row["annotator"] not in annotators]
    left_out = [
        {"item_id": row["item_id"], "annotator": row["annotator"], "reason": reason}
        for row in annotations
        if row["annotator"] in annotators
    ]
    return kept, left_out


def compute_agreement(annotations: Sequence[Mapping[str, str]]) -> Agreement:
    """Unanimity and Krippendorff's alpha."""
    votes = count_votes(annotations, 1)
    unanimous = sum(not vote["votes_foil"] + vote["votes_other"] for vote in votes.values())
    value, reason = compute_alpha(annotations)
    return Agreement(len(votes), unanimous, value, reason)


def count_missing_answers(
    annotations: Sequence[Mapping[str, str]], item_ids: Collection[str], annotators: int
) -> dict[str, int]:
    """Answers that each item still lacks, of those that lack some."""
    answered = Counter(row["item_id"] for row in annotations)
    return {item_id: annotators - answered[item_id] for item_id in sorted(item_ids) if answered[item_id] < annotators}
