"""Statistics of a benchmark: validation (thesis Table A.2, figures 3.1, A.1, A.3, A.4), and losses
at each step.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Sequence

import scipy

from waltz.benchmark.items import NOT_SELECTED
from waltz.benchmark.votes import compute_alpha
from waltz.core.intervals import Resampling, compute_mean
from waltz.core.measure import Measure
from waltz.core.schema import (
    AnnotationRecord,
    FilteredRecord,
    FrequencyRecord,
    FunnelRecord,
    ItemRecord,
    PairRecord,
    ReasonCount,
)
from waltz.core.text_diff import WORD
from waltz.filters.pipeline import (
    NO_CONTRADICTION,
    READS_WORSE,
    UNGRAMMATICAL,
    WORDED_WORSE,
)
from waltz.foils import coreference

PRONOUNS = frozenset(
    (
        *coreference.PRONOUNS,
        "i",
        "me",
        "my",
        "mine",
        "you",
        "your",
        "yours",
        "we",
        "us",
        "our",
        "ours",
    )
)
"""Words that the figures of pronouns count: pronouns of the foiling rule, and of the first and
second person.
"""
LETTERS = re.compile(r"[a-z]+")
"""One word of a lower-cased text."""
NO_VOTES = "the data set holds no votes"
NO_ITEMS = "the data set has no items"
NO_VALID = "no item was found valid"
NO_ANNOTATIONS = "the data set holds no single annotations, which agreement needs"

SELECTION_STEPS = ("attested", "grammatical", "contradiction", "ranked", "balanced")
"""Steps of the selection, in order; a candidate is `attested` where the rules of its instrument can
use it.
"""
STEP_BY_REASON = {
    NO_CONTRADICTION: "contradiction",
    READS_WORSE: "ranked",
    WORDED_WORSE: "ranked",
    NOT_SELECTED: "balanced",
}
"""Step at which a candidate is lost, by the reason of its rejection."""
STEPS = ("candidates", *SELECTION_STEPS, "valid")
"""All steps of the funnel, from the first candidates to the items that people found valid."""
NOT_VOTED = "nobody voted"
NOT_VALID = "too few votes for the caption"


def compute_validation_statistics(
    dataset: str,
    items: Sequence[ItemRecord],
    annotations: Sequence[AnnotationRecord],
    resampling: Resampling,
) -> dict[str, Measure]:
    """Compute the columns of thesis Table A.2 for one data set.

    Args:
        annotations: The single answers; none where only votes are known.
    Returns:
        By metric: counts as numbers, shares in percent, Jensen-Shannon distances and alpha as
        ratios.
    """
    voted_items = [item for item in items if item.valid is not None]
    valid_items = [item for item in voted_items if item.valid]
    # A lexical item of the thesis is a phrase that is exchanged between caption and foil.
    caption_counts, foil_counts = _count_phrases(items)
    lexical_items = caption_counts.keys() | foil_counts.keys()

    js_valid = Measure(None, 0, reason=NO_VALID)
    if valid_items:
        js_valid = Measure(compute_jensen_shannon(valid_items), len(valid_items))
    measures = {
        "instances": Measure(len(items), len(items)),
        "lexical_items": Measure(len(lexical_items), len(items)),
        "js": Measure(compute_jensen_shannon(items), len(items)),
        "js_valid": js_valid,
    }

    # Shares of the items that were voted on: the count, and the percentage with an interval.
    images = [item.image for item in voted_items]
    hits_by_metric = {
        "valid": [bool(item.valid) for item in voted_items],
        "unanimous": [_is_unanimous(item) for item in voted_items],
    }
    for metric, hits in hits_by_metric.items():
        share = compute_share(hits, images, f"{dataset}:{metric}", resampling, NO_VOTES)
        measures[metric] = Measure(sum(hits), share.n) if hits else share
        measures[f"{metric}_percent"] = share

    # Alpha of all items, and of the items that the votes found valid.
    valid_ids = {item.item_id for item in valid_items}
    valid_annotations = [
        annotation for annotation in annotations if annotation.item_id in valid_ids
    ]
    measures["alpha"] = _measure_alpha(annotations)
    measures["alpha_valid"] = _measure_alpha(valid_annotations)
    return measures


def _is_unanimous(item: ItemRecord) -> bool:
    """Return whether an item has votes and all of them are for its caption."""
    return bool(item.votes_caption) and not (item.votes_foil or item.votes_other)


def compute_share(
    hits: Sequence[float],
    images: Sequence[str],
    label: str,
    resampling: Resampling,
    reason: str,
) -> Measure:
    """Return the mean of hits in percent, with the interval of a bootstrap of images.

    Args:
        hits: A value of each item, from 0 to 1.
        images: The image of each item; items of one image are resampled together.
        label: Name of the resampled data, which seeds the bootstrap.
        reason: Reason that the measure gives where `hits` is empty and there is no value.
    """
    if not hits:
        return Measure(None, 0, reason=reason)
    return compute_mean([100.0 * hit for hit in hits], images, label, resampling)


def compute_jensen_shannon(items: Sequence[PairRecord]) -> float:
    """Compute the Jensen-Shannon distance between the lexical items of captions and of foils.

    The distance is the square root of the divergence in base 2, as in the thesis: 0 where captions
    and foils use each lexical item equally often, 1 where they share none.
    """
    caption, foil = _count_phrases(items)
    if caption == foil:
        return 0.0
    # Both vectors count the same phrases in the same order; scipy divides them by their sums.
    phrases = sorted(caption.keys() | foil.keys())
    caption_counts = [caption[phrase] for phrase in phrases]
    foil_counts = [foil[phrase] for phrase in phrases]
    return float(
        scipy.spatial.distance.jensenshannon(caption_counts, foil_counts, base=2)
    )


def measure_telling_words(items: Sequence[PairRecord]) -> Measure:
    """Compute the percentage of pairs whose caption the exchanged words alone tell from the foil.

    A judge that sees no image adds the log odds of the words that one text has and the other lacks,
    and takes the text with the higher sum for the caption; ties count one half, so that 50 is
    chance. It has counted the words in the pairs that it judges, so the percentage is too high
    where most words are rare.
    """
    if not items:
        return Measure(None, 0, reason=NO_ITEMS)
    caption_counts: Counter[str] = Counter()
    foil_counts: Counter[str] = Counter()
    exchanges = []
    for item in items:
        caption = Counter(WORD.findall(item.caption.lower()))
        foil = Counter(WORD.findall(item.foil.lower()))
        removed, inserted = caption - foil, foil - caption
        caption_counts += removed
        foil_counts += inserted
        exchanges.append((removed, inserted))
    hits = 0.0
    for removed, inserted in exchanges:
        lead = 0.0
        # No word is on both sides; those of the foil speak against the caption.
        removed.subtract(inserted)
        for word, count in removed.items():
            # One is added, so that a word of one side alone has finite odds.
            odds = (caption_counts[word] + 1) / (foil_counts[word] + 1)
            lead += count * math.log(odds)
        if math.isclose(lead, 0, abs_tol=1e-9):
            hits += 0.5
        elif lead > 0:
            hits += 1
    return Measure(100 * hits / len(items), len(items))


def _count_phrases(items: Sequence[PairRecord]) -> tuple[Counter[str], Counter[str]]:
    """Return the number of times that each phrase is exchanged in the captions, and in the foils."""
    caption: Counter[str] = Counter()
    foil: Counter[str] = Counter()
    for item in items:
        caption.update(item.caption_phrases)
        foil.update(item.foil_phrases)
    return caption, foil


def count_frequencies(
    dataset: str, items: Sequence[ItemRecord]
) -> list[FrequencyRecord]:
    """Count each lexical item and each pronoun in captions and foils, of all items and of the valid
    items.

    In the piece coreference a text is "caption. question? answer.", and only the pronouns of its
    question count: each question must have a pronoun, and figure A.1 shows their frequencies
    (thesis A.1.6).
    """
    # The figures compare the frequencies before and after validation.
    subsets = {"all": items, "valid": [item for item in items if item.valid]}
    records = []
    for subset_name, subset in subsets.items():
        caption_phrases, foil_phrases = _count_phrases(subset)
        caption_pronouns, foil_pronouns = _count_pronouns(subset)
        for text_role, kind, counts in (
            ("caption", "lexical", caption_phrases),
            ("caption", "pronoun", caption_pronouns),
            ("foil", "lexical", foil_phrases),
            ("foil", "pronoun", foil_pronouns),
        ):
            for word, count in sorted(counts.items()):
                records.append(
                    FrequencyRecord(
                        dataset=dataset,
                        kind=kind,
                        items=subset_name,
                        side=text_role,
                        word=word,
                        count=count,
                    )
                )
    return records


def _count_pronouns(items: Sequence[PairRecord]) -> tuple[Counter[str], Counter[str]]:
    """Return the number of times that each pronoun occurs in the captions, and in the foils."""
    caption: Counter[str] = Counter()
    foil: Counter[str] = Counter()
    for item in items:
        caption.update(_list_pronouns(item.caption, item.piece))
        foil.update(_list_pronouns(item.foil, item.piece))
    return caption, foil


def _list_pronouns(text: str, piece: str) -> list[str]:
    """Return the pronouns of a text; for the piece coreference the pronouns of its question."""
    if piece == "coreference":
        text = coreference.find_question(text) or text
    words = LETTERS.findall(text.lower())
    return [word for word in words if word in PRONOUNS]


def _measure_alpha(annotations: Sequence[AnnotationRecord]) -> Measure:
    if not annotations:
        return Measure(None, 0, reason=NO_ANNOTATIONS)
    return compute_alpha(annotations)


def find_lost_step(rejected: str | None) -> str | None:
    """Return the step at which a candidate with this reason of rejection was lost; None where it is
    an item.
    """
    if rejected is None:
        return None
    # This reason ends with the threshold of the study, so it is no key of `STEP_BY_REASON`.
    if rejected.startswith(UNGRAMMATICAL):
        return "grammatical"
    # All other reasons come from the rules of the instrument.
    return STEP_BY_REASON.get(rejected, "attested")


def has_passed(rejected: str | None, step: str) -> bool:
    """Return whether a candidate passed a step, whatever happened to it later.

    Args:
        rejected: Reason of rejection of the candidate; None for an item.
    """
    lost_step = find_lost_step(rejected)
    if lost_step is None:
        return True
    return SELECTION_STEPS.index(lost_step) > SELECTION_STEPS.index(step)


def count_funnel(
    instrument: str,
    candidates: Sequence[FilteredRecord],
    items: Sequence[ItemRecord],
) -> list[FunnelRecord]:
    """Count the candidates after each step, in the order of `STEPS`.

    The column `lost` counts the reasons of rejection at the step, the most frequent first.

    Args:
        candidates: All candidates after balancing.
        items: The items with their votes.
    """
    reasons_by_step: dict[str, Counter[str]] = defaultdict(Counter)
    for candidate in candidates:
        lost_step = find_lost_step(candidate.rejected)
        if lost_step is not None:
            reasons_by_step[lost_step][str(candidate.rejected)] += 1

    # Each step loses some of the candidates that the step before it left.
    count = len(candidates)
    records = [_build_step(instrument, "candidates", count, Counter())]
    for step in SELECTION_STEPS:
        reasons = reasons_by_step[step]
        count -= reasons.total()
        records.append(_build_step(instrument, step, count, reasons))

    # The last step is the validation by people, on the items.
    validity = Counter(item.valid for item in items)
    # `+` leaves out reasons that no item has.
    reasons = +Counter({NOT_VOTED: validity[None], NOT_VALID: validity[False]})
    records.append(_build_step(instrument, "valid", validity[True], reasons))
    return records


def _build_step(
    instrument: str, step: str, count: int, reasons: Counter[str]
) -> FunnelRecord:
    # The most frequent reason first, equally frequent ones by their letters.
    lost = sorted(reasons.items(), key=lambda pair: (-pair[1], pair[0]))
    reason_counts = [ReasonCount(reason, number) for reason, number in lost]
    return FunnelRecord(
        instrument=instrument, step=step, count=count, lost=reason_counts
    )
