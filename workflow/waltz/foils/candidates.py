"""Candidates: a caption with a foil, or the reason why a source row gives none."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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
        caption_phrases: Lower-cased words that were exchanged; their frequencies are balanced.
        foil_phrases: The words that replace them in the foil.
        direction: Kind of exchange within its instrument ("sg2pl", "yes2no").
        proposal_rank: Rank among a model's proposals for this span, from 0; None without a model.
        proposal_score: Score that the proposing model gives, higher is better; None without a model.
        rejected: Reason why the rules of the instrument cannot use it; None where they can.
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
class Refusal:
    """A source row that gives no candidate.

    Attributes:
        reason: Why, in the same words for every such row, so that reasons can be counted.
    """

    reason: str


Outcome = Candidate | Refusal
Row = Mapping[str, Any]
SourceOutcomes = Iterator[tuple[Row, Outcome]]
"""Source rows, each with one candidate or refusal; a row comes once for each of its candidates."""


def build_candidate(
    caption: str,
    foil: str,
    caption_phrase: str | tuple[str, ...],
    foil_phrase: str | tuple[str, ...],
    direction: str,
) -> Candidate:
    """Return a candidate whose spans are where the two texts differ."""
    caption_span, foil_span = find_changed_spans(caption, foil)
    return Candidate(caption, foil, caption_span, foil_span, _phrases(caption_phrase), _phrases(foil_phrase), direction)


def replace_span(text: str, span: Span, replacement: str) -> tuple[str, Span]:
    """Return a text with the characters of a span replaced, and the span of the replacement."""
    start, end = span["start"], span["end"]
    return text[:start] + replacement + text[end:], Span(start=start, end=start + len(replacement))


def build_candidate_row(candidate: Candidate, row: Row, number: int, instrument: str, piece: str) -> dict[str, Any]:
    """Return a row of the candidates layout.

    Args:
        candidate: The candidate.
        row: The source row that it comes from, with source, source_id, split and image.
        number: Index among the candidates of that row, from 0.
        instrument: Name of the instrument.
        piece: Name of the piece that the instrument belongs to.
    """
    return {
        "item_id": f"{instrument}:{row['source']}:{row['source_id']}:{number}",
        "instrument": instrument,
        "piece": piece,
        **{name: row[name] for name in ("source", "source_id", "split", "image")},
        **{name: getattr(candidate, name) for name in ("caption", "foil", "caption_span", "foil_span", "direction")},
        "caption_phrases": list(candidate.caption_phrases),
        "foil_phrases": list(candidate.foil_phrases),
        "proposal_rank": candidate.proposal_rank,
        "proposal_score": candidate.proposal_score,
        "rejected": candidate.rejected,
    }


def _phrases(phrases: str | tuple[str, ...]) -> tuple[str, ...]:
    return tuple(phrase.lower() for phrase in ((phrases,) if isinstance(phrases, str) else phrases))
