"""Character spans in which two texts differ."""

import re
from typing import TypedDict

WORD = re.compile(r"\w+(?:['’-]\w+)*|[^\w\s]")
"""A word (apostrophes and hyphens inside it included) or a punctuation mark."""


class Span(TypedDict):
    """Half-open range of characters."""

    start: int
    end: int


def find_changed_spans(caption: str, foil: str) -> tuple[Span, Span]:
    """Return the spans of two texts without their common first and last words.

    Returns:
        Character ranges in caption and foil; empty spans (start = end) if the texts have the same words.
    """
    caption_words, foil_words = list(WORD.finditer(caption)), list(WORD.finditer(foil))
    shorter = min(len(caption_words), len(foil_words))
    begin = 0
    while begin < shorter and caption_words[begin].group() == foil_words[begin].group():
        begin += 1
    end = 0
    while end < shorter - begin and caption_words[-1 - end].group() == foil_words[-1 - end].group():
        end += 1
    return _span(caption_words[begin : len(caption_words) - end], caption, caption_words[:begin]), _span(
        foil_words[begin : len(foil_words) - end], foil, foil_words[:begin]
    )


def _span(changed: list[re.Match[str]], text: str, before: list[re.Match[str]]) -> Span:
    if changed:
        return Span(start=changed[0].start(), end=changed[-1].end())
    position = before[-1].end() if before else 0
    return Span(start=position, end=position)


def slice_span(text: str, span: Span) -> str:
    """Return the characters of a span."""
    return text[span["start"] : span["end"]]
