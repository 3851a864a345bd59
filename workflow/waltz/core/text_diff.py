"""Where two texts differ."""

import re
from typing import TypedDict

WORD = re.compile(r"\w+(?:['’-]\w+)*|[^\w\s]")
"""A word (apostrophes and hyphens inside it included) or a punctuation mark."""


class Span(TypedDict):
    """Half-open range of characters."""

    start: int
    end: int


def find_changed_spans(caption: str, foil: str) -> tuple[Span, Span]:
    """What is left of two texts when the words that they begin and end with alike are taken away.

    Returns:
        Character ranges in caption and foil; empty ones (start = end) where the texts say the same.
    """
    left, right = list(WORD.finditer(caption)), list(WORD.finditer(foil))
    shorter = min(len(left), len(right))
    begin = 0
    while begin < shorter and left[begin].group() == right[begin].group():
        begin += 1
    end = 0
    while end < shorter - begin and left[-1 - end].group() == right[-1 - end].group():
        end += 1
    return _span(left[begin : len(left) - end], caption, left[:begin]), _span(
        right[begin : len(right) - end], foil, right[:begin]
    )


def _span(changed: list[re.Match[str]], text: str, before: list[re.Match[str]]) -> Span:
    if changed:
        return Span(start=changed[0].start(), end=changed[-1].end())
    place = before[-1].end() if before else 0
    return Span(start=place, end=place)


def slice_span(text: str, span: Span) -> str:
    """The characters of a span."""
    return text[span["start"] : span["end"]]
