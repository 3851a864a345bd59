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
    # Characters are compared before words, up to the spaces around the first and last difference, so that few words of
    # a long text are read. If the first difference is one of spaces, words behind it may still be common first words.
    shorter = min(len(caption), len(foil))
    alike = _count_common(caption, foil, shorter)
    differ_in_spaces = any(text[alike : alike + 1].isspace() for text in (caption, foil))
    alike_at_end = 0 if differ_in_spaces else _count_common(caption[::-1], foil[::-1], shorter - alike)
    start = next((index + 1 for index in range(alike - 1, -1, -1) if caption[index].isspace()), 0)
    first_end = len(caption) - alike_at_end
    caption_end = next((index for index in range(first_end, len(caption)) if caption[index].isspace()), len(caption))
    foil_end = caption_end - len(caption) + len(foil)
    caption_words = list(WORD.finditer(caption, start, caption_end))
    foil_words = list(WORD.finditer(foil, start, foil_end))
    fewer = min(len(caption_words), len(foil_words))
    begin = 0
    while begin < fewer and caption_words[begin].group() == foil_words[begin].group():
        begin += 1
    end = 0
    while end < fewer - begin and caption_words[-1 - end].group() == foil_words[-1 - end].group():
        end += 1
    common_end = len(caption[:start].rstrip())
    return _span(caption_words, begin, end, common_end), _span(foil_words, begin, end, common_end)


def _count_common(first: str, second: str, most: int) -> int:
    """Return the number of characters, at most `most`, that two texts have in common at their starts."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if first[low:middle] == second[low:middle] else (low, middle - 1)
    return low


def _span(words: list[re.Match[str]], begin: int, end: int, common_end: int) -> Span:
    """Return the span of words but `begin` first and `end` last ones; an empty one behind those if none is left.

    Args:
        common_end: End of the text before `words`.
    """
    if begin + end < len(words):
        return Span(start=words[begin].start(), end=words[-1 - end].end())
    position = words[begin - 1].end() if begin else common_end
    return Span(start=position, end=position)


def slice_span(text: str, span: Span) -> str:
    """Return the characters of a span."""
    return text[span["start"] : span["end"]]
