"""What a foiling function yields: a caption beside a foil, or the reason why there is none."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from waltz.core.text_diff import Span, find_changed_spans


@dataclass(frozen=True)
class Candidate:
    """A caption and a false text that differs from it in one place.

    Attributes:
        caption: The true text, as an item shows it.
        foil: The false text.
        caption_span: Characters of the caption that the foil replaces.
        foil_span: Characters of the foil that replace them.
        caption_phrases: What was exchanged, lower-cased: the words whose frequencies are balanced.
        foil_phrases: The same of the foil.
        direction: Kind of exchange within its instrument ("sg2pl", "yes2no").
        proposal_rank: Place among what a model proposed for this span, from 0; None where none was asked.
        proposal_score: The proposing model's score, higher is better; None where none was asked.
        rejected: Why the rules of the instrument cannot use it; None where they can.
    """

    caption: str
    foil: str
    caption_span: Span
    foil_span: Span
    caption_phrases: tuple[str, ...]
    foil_phrases: tuple[str, ...]
    direction: str
    proposal_rank: int | None = None
    proposal_score: float | None = None
    rejected: str | None = None


@dataclass(frozen=True)
class Refused:
    """A source row that gives no candidate.

    Attributes:
        reason: Why, in words that repeat from row to row, so that they can be counted.
    """

    reason: str


Found = Candidate | Refused


@dataclass
class Tally:
    """How many source rows were read, and how many were refused for which reason."""

    rows: int = 0
    refused: dict[str, int] = field(default_factory=dict)

    def count(self, reason: str) -> None:
        """One more row refused."""
        self.refused[reason] = self.refused.get(reason, 0) + 1


def exchanged(
    caption: str,
    foil: str,
    caption_phrase: str | tuple[str, ...],
    foil_phrase: str | tuple[str, ...],
    direction: str,
) -> Candidate:
    """A candidate whose spans are where the two texts differ."""
    caption_span, foil_span = find_changed_spans(caption, foil)
    return Candidate(caption, foil, caption_span, foil_span, _phrases(caption_phrase), _phrases(foil_phrase), direction)


def replaced(text: str, span: Span, new: str) -> tuple[str, Span]:
    """A text with the characters of a span replaced, and the span of the replacement."""
    start, end = span["start"], span["end"]
    return text[:start] + new + text[end:], Span(start=start, end=start + len(new))


def candidate_row(found: Candidate, row: Mapping[str, Any], number: int, instrument: str, piece: str) -> dict[str, Any]:
    """A row of the candidates layout.

    Args:
        found: The candidate.
        row: The source row that it came from, with source, source_id, split and image.
        number: Its place among the candidates of that row, from 0.
        instrument: Name of the instrument.
        piece: Name of the piece that the instrument belongs to.
    """
    return {
        "item_id": f"{instrument}:{row['source']}:{row['source_id']}:{number}",
        "instrument": instrument,
        "piece": piece,
        **{name: row[name] for name in ("source", "source_id", "split", "image")},
        **{name: getattr(found, name) for name in ("caption", "foil", "caption_span", "foil_span", "direction")},
        "caption_phrases": list(found.caption_phrases),
        "foil_phrases": list(found.foil_phrases),
        "proposal_rank": found.proposal_rank,
        "proposal_score": found.proposal_score,
        "rejected": found.rejected,
    }


def _phrases(given: str | tuple[str, ...]) -> tuple[str, ...]:
    return tuple(phrase.lower() for phrase in ((given,) if isinstance(given, str) else given))
