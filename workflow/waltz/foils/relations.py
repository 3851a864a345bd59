"""Relations: prepositions of a COCO caption are exchanged for other prepositions of the captions
(thesis 3.3, A.1).

A slot is a sequence of consecutive prepositions, or a part of such a sequence. A masked language
model proposes spans of one to three tokens for it. Of each length, the best proposal is used that
the captions attest as prepositions.

With a causal language model instead, a preposition of place is exchanged for those that contradict
it (`CONTRARY`), and the model ranks the foils by their likelihood.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby

from spacy.tokens import Doc, Token

from waltz.core.text_diff import Span
from waltz.foils.candidates import (
    Candidate,
    MakerOptions,
    Outcome,
    Proposal,
    Refusal,
    ScoreTexts,
    Slot,
    SourceOutcomes,
    attach_row,
    replace_span,
    split_readable,
)
from waltz.foils.english.parsing import parse_rows
from waltz.foils.english.patterns import TokenPattern, matches_one_of
from waltz.foils.english.prepositions import CONTRARY, find_prepositions
from waltz.sources.records import CaptionRecord

LONGEST = 3
"""Highest number of words of a slot."""
PLACE_WORDS = {
    "aboard", "above", "across", "alongside", "along", "around", "atop", "back", "behind", "below", "beneath", "beside",
    "by", "down", "in", "inside", "near", "off", "on", "onto", "out", "outside", "over", "past", "through", "toward",
    "towards", "under", "underneath", "up",
}  # fmt: skip
"""Words for places that count as prepositions even where the parser tags them as adverbs ("a horse
stands outside").
"""
PREPOSITIONS = (
    TokenPattern(parts_of_speech={"ADP"}),
    TokenPattern(parts_of_speech={"ADV", "SCONJ"}, words=PLACE_WORDS),
)
NO_PREPOSITION = "the caption has no preposition"
NO_PLACE = "the caption has no preposition of place that another could contradict"
NOT_ATTESTED = "not attested in the captions"
SAME_WORDS = "the same words"
NOT_BEST = "a better proposal of as many tokens is used"


@dataclass(frozen=True)
class PrepositionSlot:
    """A sequence of prepositions in a caption that can be exchanged.

    Attributes:
        text: The words in lower case, separated by one space.
        span: Characters of the words in the caption.
    """

    text: str
    span: Span


def build_candidates(
    rows: Sequence[CaptionRecord], options: MakerOptions, _: str
) -> SourceOutcomes:
    """Yield candidates for each slot of each COCO caption that is short enough, in the order of the
    rows.

    The refusals of long captions come first. One of the models `options.propose_spans` and
    `options.score_texts` must be set.
    """
    rows, refused_rows = split_readable(rows, options)
    yield from refused_rows
    if options.score_texts is not None:
        yield from _build_contrary_candidates(rows, options.score_texts)
        return
    assert options.propose_spans is not None

    # First all slots of all captions: the attested sequences depend on all, and the model fills
    # many slots at once.
    captions: list[tuple[CaptionRecord, str, list[PrepositionSlot]]] = []
    all_slots: list[PrepositionSlot] = []
    masked_slots: set[Slot] = set()
    for row, doc in parse_rows(rows):
        slots = list(find_slots(doc))
        captions.append((row, doc.text, slots))
        all_slots += slots
        masked_slots.update(Slot(doc.text, **slot.span) for slot in slots)
    sequences = count_attested(all_slots)
    proposals = options.propose_spans(sorted(masked_slots))

    for row, text, slots in captions:
        if not slots:
            yield row, Refusal(NO_PREPOSITION)
        for slot in slots:
            slot_proposals = proposals[Slot(text, **slot.span)]
            candidates = build_relation_foils(text, slot, slot_proposals, sequences)
            yield from attach_row(row, candidates)


def _build_contrary_candidates(
    rows: Sequence[CaptionRecord], score_texts: ScoreTexts
) -> SourceOutcomes:
    """Yield the candidates with contrary prepositions, in the order of the rows."""
    captions = list(parse_rows(rows))
    # The model scores all foils together.
    candidates = [build_contrary_foils(doc) for _, doc in captions]
    scores = score_texts([candidate.foil for candidate in chain(*candidates)])
    for (row, _), caption_candidates in zip(captions, candidates, strict=True):
        yield from attach_row(row, rank_contrary_foils(caption_candidates, scores))


def build_contrary_foils(doc: Doc) -> list[Candidate]:
    """Return a candidate for each preposition of place of a caption and each that contradicts it."""
    candidates: list[Candidate] = []
    for preposition in find_prepositions(doc):
        text = preposition.text.lower()
        span = Span(start=preposition.start_char, end=preposition.end_char)
        slot = PrepositionSlot(text, span)
        candidates += build_attested_foils(doc.text, slot, CONTRARY[text])
    return candidates


def rank_contrary_foils(
    candidates: Iterable[Candidate], scores: Mapping[str, float]
) -> Iterator[Outcome]:
    """Yield the candidates of a caption with their ranks, best first for each preposition, or a
    refusal where there is none.

    Of each number of words, the best candidate is used; all others are rejected.

    Args:
        scores: Score of each foil, higher is better.
    """
    slots: dict[int, list[Candidate]] = {}
    for candidate in candidates:
        slots.setdefault(candidate.caption_span["start"], []).append(candidate)
    if not slots:
        yield Refusal(NO_PLACE)
    for slot_candidates in slots.values():
        slot_candidates.sort(key=lambda candidate: -scores[candidate.foil])
        used_lengths: set[int] = set()
        for rank, candidate in enumerate(slot_candidates):
            (words,) = candidate.foil_phrases
            length = len(words.split())
            reason = NOT_BEST if length in used_lengths else None
            used_lengths.add(length)
            yield replace(
                candidate,
                proposal_rank=rank,
                proposal_score=scores[candidate.foil],
                rejected=reason,
            )


def find_slots(doc: Doc) -> Iterator[PrepositionSlot]:
    """Yield all sequences of one to three consecutive prepositions of a caption, by their start,
    shorter ones first.
    """
    for is_preposition, group in groupby(doc, key=_is_preposition):
        if not is_preposition:
            continue
        tokens = list(group)
        # Every part of a run of consecutive prepositions is a slot.
        for first in range(len(tokens)):
            longest_end = min(first + LONGEST, len(tokens))
            for end in range(first + 1, longest_end + 1):
                yield _build_slot(tokens[first:end])


def _build_slot(tokens: Sequence[Token]) -> PrepositionSlot:
    text = " ".join(token.lower_ for token in tokens)
    return PrepositionSlot(
        text, Span(start=tokens[0].idx, end=tokens[-1].idx + len(tokens[-1]))
    )


def count_attested(slots: Iterable[PrepositionSlot]) -> dict[str, int]:
    """Return the number of slots with each sequence of prepositions, the most frequent first."""
    counts = Counter(slot.text for slot in slots)
    return dict(sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])))


def build_relation_foils(
    caption: str,
    slot: PrepositionSlot,
    proposals: Iterable[Proposal],
    sequences: Collection[str],
) -> Iterator[Candidate]:
    """Yield a candidate for each proposal for one slot of a caption, in the order of the proposals.

    The direction of a candidate names the exchange, such as "on>under". Of each number of tokens,
    the best proposal is used that is an attested sequence and differs from the words of the
    caption; all others are rejected.

    Args:
        proposals: Proposals for the slot, best first.
        sequences: Attested sequences of prepositions.
    Source:
        Thesis A.1.4: "in each case retaining only the best prediction out of the top k which
        matches".
    """
    # Numbers of tokens for which a better proposal is used already.
    used_lengths: set[int] = set()
    for proposal in proposals:
        words = " ".join(proposal.phrase.lower().split())
        length = len(proposal.pieces)
        reason = None
        if words == slot.text:
            reason = SAME_WORDS
        elif words not in sequences:
            reason = NOT_ATTESTED
        elif length in used_lengths:
            reason = NOT_BEST
        else:
            used_lengths.add(length)
        candidate = _exchange(caption, slot, words)
        yield replace(
            candidate,
            proposal_rank=proposal.rank,
            proposal_score=proposal.score,
            rejected=reason,
        )


def build_attested_foils(
    caption: str, slot: PrepositionSlot, sequences: Iterable[str]
) -> Iterator[Candidate]:
    """Yield candidates without a proposer: one for each attested sequence that differs from the
    words of the slot.
    """
    for words in sequences:
        if words != slot.text:
            yield _exchange(caption, slot, words)


def _exchange(caption: str, slot: PrepositionSlot, words: str) -> Candidate:
    """Return the candidate that exchanges the words of a slot; a capital at the start of the
    caption stays.
    """
    start = slot.span["start"]
    has_capital = start == 0 and caption[start].isupper()
    # The proposals and attested sequences are in lower case.
    replacement = words.capitalize() if has_capital else words
    foil, foil_span = replace_span(caption, slot.span, replacement)
    return Candidate(
        caption,
        foil,
        slot.span,
        foil_span,
        (slot.text,),
        (words,),
        f"{slot.text}>{words}",
    )


def _is_preposition(token: Token) -> bool:
    """Return True for a word of letters that is one of `PREPOSITIONS`."""
    return bool(token.is_alpha) and matches_one_of(token, PREPOSITIONS)
