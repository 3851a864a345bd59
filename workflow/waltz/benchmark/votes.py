"""Answers of annotators about the two texts of an item: votes, agreement, and the quality of
annotators.

An annotator sees the image and two numbered texts, the caption first or second, and answers which
of them describes the image: `first`, `second`, `both`, `neither` or `cannot tell`.
"""

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import krippendorff
import pandas as pd

from waltz.core.errors import UserError
from waltz.core.measure import Measure
from waltz.core.schema import AnnotationRecord
from waltz.sources.raw_files import read_csv_records

ANSWERS = ("first", "second", "both", "neither", "cannot tell")
POSITIONS = ("first", "second")
"""Answers that prefer one of the texts; also the positions that the caption can have."""
ANNOTATION_COLUMNS = ("item_id", "annotator", "answer", "caption_position")
NO_PAIR = "no item has two annotations"
ONE_ANSWER = "every annotation is the same, so alpha is undefined"


@dataclass(frozen=True, slots=True)
class ItemVotes:
    """The votes on an item.

    Attributes:
        caption: Number of votes for the caption.
        foil: Number of votes for the foil.
        other: Number of votes for neither of them.
        valid: Whether enough votes are for the caption.
    """

    caption: int
    foil: int
    other: int
    valid: bool


@dataclass(frozen=True, slots=True)
class SkippedAnswer:
    """An answer that does not count.

    Attributes:
        item_id: Name of the item.
        annotator: Name of the annotator.
        reason: Why the answer does not count.
    """

    item_id: str
    annotator: str
    reason: str


def read_annotations(
    path: str | Path, item_ids: Iterable[str]
) -> list[AnnotationRecord]:
    """Read the annotations of a CSV file with the columns `ANNOTATION_COLUMNS`.

    Args:
        item_ids: Ids of all items of the data set.
    """
    known_ids = set(item_ids)
    first_answers: dict[tuple[str, str], AnnotationRecord] = {}
    names: dict[str, str] = {}  # first spelling of each annotator
    for line, record in read_csv_records(path, required=ANNOTATION_COLUMNS):
        columns = {name: record[name].strip() for name in ANNOTATION_COLUMNS}
        spelling = columns["annotator"]
        annotation = AnnotationRecord(
            item_id=columns["item_id"],
            annotator=names.setdefault(fold_annotator(spelling), spelling),
            answer=fold_answer(columns["answer"]),
            caption_position=fold_answer(columns["caption_position"]),
        )
        fault = _find_fault(annotation, known_ids)
        if fault is not None:
            raise UserError(f"{path}: line {line}: {fault}")
        pair = (annotation.item_id, annotation.annotator)
        # A second answer of one person would count as a second vote; a repeated line is the same one.
        if first_answers.setdefault(pair, annotation) != annotation:
            raise UserError(
                f"{path}: line {line}: annotator {annotation.annotator!r} answered item {annotation.item_id!r} twice;"
                " remove one of the answers"
            )
    return list(first_answers.values())


def _find_fault(annotation: AnnotationRecord, known_ids: Collection[str]) -> str | None:
    """Return why an annotation cannot be used; None where it can."""
    answer = annotation.answer
    if answer not in ANSWERS:
        return f"answer {answer!r} is none of {', '.join(ANSWERS)}; correct it"
    position = annotation.caption_position
    if position not in POSITIONS:
        return f"caption_position {position!r} is not first or second; correct it"
    # All answers without a name would count as those of one person.
    if not annotation.annotator:
        return "no annotator; name each person, with a number if need be"
    item_id = annotation.item_id
    if item_id not in known_ids:
        return f"item {item_id!r} is not in the data set; correct it, or give the annotations of this data set"
    return None


def fold_answer(answer: str) -> str:
    """Return an answer in small letters, with spaces in place of underscores."""
    return " ".join(answer.replace("_", " ").lower().split())


def fold_annotator(name: str) -> str:
    """Return what the spellings of an annotator's name have in common: letters in one case and
    Unicode form, and a whole number without the `.0` that tables with gaps add.
    """
    folded = unicodedata.normalize("NFC", name).casefold().strip()
    number = folded.removesuffix(".0")
    return number if number.isdecimal() else folded


def count_votes(
    annotations: Sequence[AnnotationRecord], valid_votes: int
) -> dict[str, ItemVotes]:
    """Count the votes on each item; return them by item id.

    The answers `first` and `second` are votes for caption or foil, by the position of the caption;
    all else is other.

    Args:
        valid_votes: Lowest number of votes for the caption that makes an item valid.
    """
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for annotation in annotations:
        counts[annotation.item_id][_find_vote(annotation)] += 1
    votes = {}
    for item_id, count in counts.items():
        # With few required votes, a caption could have enough and still have no more than its foil.
        has_enough = count["caption"] >= valid_votes
        votes[item_id] = ItemVotes(
            caption=count["caption"],
            foil=count["foil"],
            other=count["other"],
            valid=has_enough and count["caption"] > count["foil"],
        )
    return votes


def _find_vote(annotation: AnnotationRecord) -> str:
    """Return the text for which an annotation votes: `caption` or `foil`; else `other`."""
    if annotation.answer not in POSITIONS:
        return "other"
    prefers_caption = annotation.answer == annotation.caption_position
    return "caption" if prefers_caption else "foil"


def compute_alpha(annotations: Sequence[AnnotationRecord]) -> Measure:
    """Compute Krippendorff's nominal alpha over the five answers, in the order of presentation: -1
    to 1, or the reason why it is undefined. n is the number of items with an answer.
    """
    rows = [asdict(annotation) for annotation in annotations]
    frame = pd.DataFrame(rows, columns=ANNOTATION_COLUMNS)
    frame["code"] = frame["answer"].map(ANSWERS.index)
    # (annotators, items): the index of the answer, NaN where an annotator did not see the item.
    table = frame.pivot(index="annotator", columns="item_id", values="code")
    n_items = table.shape[1]
    # Only items with at least two answers can show agreement.
    pairable = table.loc[:, table.notna().sum() > 1]
    if pairable.empty:
        return Measure(None, n_items, reason=NO_PAIR)
    # With a single value, the expected disagreement is 0 and alpha would divide by it.
    if pairable.stack().nunique() < 2:
        return Measure(None, n_items, reason=ONE_ANSWER)
    alpha = krippendorff.alpha(
        table.to_numpy(dtype=float), level_of_measurement="nominal"
    )
    return Measure(float(alpha), n_items)


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
        alpha: Krippendorff's alpha over the answers as presented.
    """

    items: int
    unanimous: int
    alpha: Measure


def compute_annotator_quality(
    annotations: Sequence[AnnotationRecord], gold: Collection[str]
) -> list[AnnotatorQuality]:
    """Compute the quality of each annotator on gold items, in the order of the names.

    Args:
        gold: Ids of items whose caption is known to be true, and whose foil to be false.
    """
    n_answers: Counter[str] = Counter()
    n_gold: Counter[str] = Counter()
    n_captions: Counter[str] = (
        Counter()
    )  # answers to gold items that prefer the caption
    for annotation in annotations:
        annotator = annotation.annotator
        n_answers[annotator] += 1
        if annotation.item_id in gold:
            n_gold[annotator] += 1
            n_captions[annotator] += _find_vote(annotation) == "caption"

    qualities = []
    for annotator in sorted(n_answers):
        share: float | None = None
        reliable: bool | None = None
        if n_gold[annotator]:
            share = n_captions[annotator] / n_gold[annotator]
            reliable = share >= MIN_PREFERRED_SHARE
        qualities.append(
            AnnotatorQuality(
                annotator, n_answers[annotator], n_gold[annotator], share, reliable
            )
        )
    return qualities


def drop_annotators(
    annotations: Sequence[AnnotationRecord], annotators: Collection[str], reason: str
) -> tuple[list[AnnotationRecord], list[SkippedAnswer]]:
    """Remove the answers of some annotators.

    Returns:
        The remaining answers, and the removed ones.
    """
    remaining: list[AnnotationRecord] = []
    skipped: list[SkippedAnswer] = []
    for annotation in annotations:
        if annotation.annotator in annotators:
            skipped.append(
                SkippedAnswer(annotation.item_id, annotation.annotator, reason)
            )
        else:
            remaining.append(annotation)
    return remaining, skipped


def compute_agreement(annotations: Sequence[AnnotationRecord]) -> Agreement:
    """Compute the number of unanimous items, and Krippendorff's alpha over all answers."""
    votes = count_votes(annotations, 1)
    # Unanimous: each answer is a vote for the caption.
    unanimous = sum(vote.foil + vote.other == 0 for vote in votes.values())
    return Agreement(len(votes), unanimous, compute_alpha(annotations))


def count_missing_answers(
    annotations: Sequence[AnnotationRecord], item_ids: Collection[str], annotators: int
) -> dict[str, int]:
    """Return the number of missing answers by item id, for the items that have fewer answers than
    annotators.
    """
    missing = Counter(dict.fromkeys(sorted(item_ids), annotators))
    missing.subtract(annotation.item_id for annotation in annotations)
    # `+` leaves out the items with enough answers, and answers to items that are not listed.
    return dict(+missing)
