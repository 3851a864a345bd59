"""Relations: prepositions of a COCO caption exchanged for others that its captions use (thesis 3.3, A.1).

A slot is a sequence of consecutive prepositions, or a part of one. What a masked language model proposes for a slot is
used where the same captions attest it.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby

from spacy.tokens import Doc, Token

from waltz.core.text_diff import Span
from waltz.foils.candidates import Candidate, replaced

LONGEST = 3
"""Words of the longest slot: the most that a proposer replaces."""
PLACES = {
    "aboard", "above", "across", "alongside", "along", "around", "atop", "back", "behind", "below", "beneath", "beside",
    "by", "down", "in", "inside", "near", "off", "on", "onto", "out", "outside", "over", "past", "through", "toward",
    "towards", "under", "underneath", "up",
}  # fmt: skip
"""Words for places that are prepositions also where the parser calls them adverbs ("a horse stands outside")."""
NOT_ATTESTED = "not attested in the captions"
SAME_WORDS = "the same words"

Proposal = tuple[str, int, float]
"""What a model proposes for a slot: words, rank from 0, score (higher is better)."""


@dataclass(frozen=True)
class Slot:
    """Prepositions of a caption that can be exchanged.

    Attributes:
        text: The words, lower-cased, with one space between them.
        span: Their characters in the caption.
    """

    text: str
    span: Span


def slots(doc: Doc) -> Iterator[Slot]:
    """Every sequence of up to three consecutive prepositions of a caption, in order, the shorter first.

    Args:
        doc: Parse of one caption.
    """
    for is_preposition, run in groupby(doc, key=_is_preposition):
        tokens = list(run) if is_preposition else []
        for first in range(len(tokens)):
            for end in range(first + 1, min(first + LONGEST, len(tokens)) + 1):
                part = tokens[first:end]
                span = Span(start=part[0].idx, end=part[-1].idx + len(part[-1]))
                yield Slot(" ".join(token.lower_ for token in part), span)


def attested(found: Iterable[Slot]) -> dict[str, int]:
    """How often captions have each sequence of prepositions, the most frequent first."""
    counts = Counter(slot.text for slot in found)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def alternatives(slot: Slot, sequences: Iterable[str]) -> list[str]:
    """The attested sequences that could stand in a slot, in their order."""
    return [text for text in sequences if text != slot.text]


def relations(
    caption: str, slot: Slot, proposals: Iterable[Proposal], sequences: Collection[str]
) -> Iterator[Candidate]:
    """The foils that proposals for one slot give, in the order of the proposals.

    Args:
        caption: The caption that the slot is of.
        slot: One of its slots.
        proposals: What a model proposes for it, the best first.
        sequences: The attested sequences.
    Yields:
        A candidate for each proposal. Its direction is the kind of exchange, as "on>under"; it is rejected where the
        proposal is not attested, or is what the caption says.
    """
    for words, rank, score in proposals:
        candidate = _exchanged(caption, slot, " ".join(words.lower().split()))
        reason = None if candidate.foil_phrases[0] in sequences else NOT_ATTESTED
        if candidate.foil_phrases == candidate.caption_phrases:
            reason = SAME_WORDS
        yield replace(candidate, proposal_rank=rank, proposal_score=score, rejected=reason)


def attested_relations(caption: str, slot: Slot, sequences: Iterable[str]) -> Iterator[Candidate]:
    """A slot with each attested sequence that it does not have, in their order: the candidates without a proposer."""
    for words in alternatives(slot, sequences):
        yield _exchanged(caption, slot, words)


def _exchanged(caption: str, slot: Slot, words: str) -> Candidate:
    at_start = caption[slot.span["start"]].isupper() and slot.span["start"] == 0
    foil, span = replaced(caption, slot.span, words.capitalize() if at_start else words)
    return Candidate(caption, foil, slot.span, span, (slot.text,), (words,), f"{slot.text}>{words}")


def _is_preposition(token: Token) -> bool:
    if not token.is_alpha:
        return False
    return token.pos_ == "ADP" or (token.lower_ in PLACES and token.pos_ in {"ADV", "SCONJ"})
