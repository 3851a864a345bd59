"""Relations: prepositions of a COCO caption exchanged for others that its captions use (thesis 3.3, A.1).

A slot is a sequence of consecutive prepositions, or a part of one. A masked language model proposes spans of one to
three tokens for it; of each length, the best that the same captions attest is used.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from spacy.tokens import Doc, Token

from waltz.core.text_diff import Span
from waltz.foils.candidates import (
    TOO_LONG,
    Candidate,
    MakerOptions,
    Proposal,
    Refusal,
    Row,
    Slot,
    SourceOutcomes,
    replace_span,
    split_by_length,
)
from waltz.foils.english.parsing import parse_captions

LONGEST = 3
"""Words of the longest slot: the most that a proposer replaces."""
PLACES = {
    "aboard", "above", "across", "alongside", "along", "around", "atop", "back", "behind", "below", "beneath", "beside",
    "by", "down", "in", "inside", "near", "off", "on", "onto", "out", "outside", "over", "past", "through", "toward",
    "towards", "under", "underneath", "up",
}  # fmt: skip
"""Words for places that are prepositions also where the parser calls them adverbs ("a horse stands outside")."""
NO_PREPOSITION = "the caption has no preposition"
NOT_ATTESTED = "not attested in the captions"
SAME_WORDS = "the same words"
NOT_BEST = "a better proposal of as many tokens is used"


@dataclass(frozen=True)
class PrepositionSlot:
    """Prepositions of a caption that can be exchanged.

    Attributes:
        text: The words, lower-cased, with one space between them.
        span: Their characters in the caption.
    """

    text: str
    span: Span


def build_candidates(rows: Sequence[Row], options: MakerOptions, _: str) -> SourceOutcomes:
    """Yield candidates for each slot of each COCO caption that is short enough, in the order of the rows.

    Refusals of others come first. Needs `options.propose_spans`.
    """
    assert options.propose_spans is not None
    rows, long_rows = split_by_length(rows, options)
    yield from ((row, Refusal(TOO_LONG)) for row in long_rows)
    captions = [(doc.text, list(find_slots(doc))) for doc in parse_captions(row["caption"] for row in rows)]
    sequences = count_attested(slot for _, slots in captions for slot in slots)
    proposals = options.propose_spans(sorted({Slot(text, **slot.span) for text, slots in captions for slot in slots}))
    for row, (text, slots) in zip(rows, captions, strict=True):
        if not slots:
            yield row, Refusal(NO_PREPOSITION)
        for slot in slots:
            foils = build_relation_foils(text, slot, proposals[Slot(text, **slot.span)], sequences)
            yield from ((row, candidate) for candidate in foils)


def find_slots(doc: Doc) -> Iterator[PrepositionSlot]:
    """Yield every sequence of up to three consecutive prepositions of a caption, in order, the shorter first."""
    for is_preposition, group in groupby(doc, key=_is_preposition):
        tokens = list(group) if is_preposition else []
        for first in range(len(tokens)):
            for end in range(first + 1, min(first + LONGEST, len(tokens)) + 1):
                part = tokens[first:end]
                span = Span(start=part[0].idx, end=part[-1].idx + len(part[-1]))
                yield PrepositionSlot(" ".join(token.lower_ for token in part), span)


def count_attested(slots: Iterable[PrepositionSlot]) -> dict[str, int]:
    """Return how often captions have each sequence of prepositions, the most frequent first."""
    counts = Counter(slot.text for slot in slots)
    return dict(sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])))


def build_relation_foils(
    caption: str, slot: PrepositionSlot, proposals: Iterable[Proposal], sequences: Collection[str]
) -> Iterator[Candidate]:
    """Yield the foils that proposals for one slot of a caption give, in the order of the proposals.

    The direction of a candidate is the kind of exchange, as "on>under". Of each number of tokens, the best proposal is
    used that is among the attested sequences and differs from the words of the caption; the others are rejected.

    Args:
        proposals: Those of one slot, best first.
    Source:
        Thesis A.1.4: "in each case retaining only the best prediction out of the top k which matches".
    """
    used_lengths: set[int] = set()
    for proposal in proposals:
        candidate = _exchange(caption, slot, " ".join(proposal.phrase.lower().split()))
        length, reason = len(proposal.pieces), None
        if candidate.foil_phrases == candidate.caption_phrases:
            reason = SAME_WORDS
        elif candidate.foil_phrases[0] not in sequences:
            reason = NOT_ATTESTED
        elif length in used_lengths:
            reason = NOT_BEST
        else:
            used_lengths.add(length)
        yield replace(candidate, proposal_rank=proposal.rank, proposal_score=proposal.score, rejected=reason)


def build_attested_foils(caption: str, slot: PrepositionSlot, sequences: Iterable[str]) -> Iterator[Candidate]:
    """Yield a slot with each attested sequence that it does not have, in their order: candidates without a proposer."""
    for words in sequences:
        if words != slot.text:
            yield _exchange(caption, slot, words)


def _exchange(caption: str, slot: PrepositionSlot, words: str) -> Candidate:
    at_start = caption[slot.span["start"]].isupper() and slot.span["start"] == 0
    foil, span = replace_span(caption, slot.span, words.capitalize() if at_start else words)
    return Candidate(caption, foil, slot.span, span, (slot.text,), (words,), f"{slot.text}>{words}")


def _is_preposition(token: Token) -> bool:
    if not token.is_alpha:
        return False
    return token.pos_ == "ADP" or (token.lower_ in PLACES and token.pos_ in {"ADV", "SCONJ"})
