"""Comparison of two texts: the character spans in which they differ, and whether readers see the
same text.
"""

import re
import unicodedata
from typing import TypedDict

WORD = re.compile(r"\w+(?:['’-]\w+)*|[^\w\s]")
"""Pattern of a word (with apostrophes and hyphens inside it) or a punctuation mark."""


INVISIBLE_CATEGORIES = ("Cc", "Cf")
"""Unicode categories of control and format characters: zero-width, joining, directions, soft
hyphens.
"""
ASCII_INVISIBLE = re.compile(r"[\x00-\x20\x7f]+")
"""Pattern of the whitespace and control characters of ASCII."""
INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Pattern of other characters that show nothing: fillers, variation selectors, the empty Braille
pattern.
"""
TYPOGRAPHY = str.maketrans(
    {
        **dict.fromkeys("‘’‚‛′ʼ`´", "'"),
        **dict.fromkeys("“”„‟″", '"'),
        **dict.fromkeys("‐‒–—―−", "-"),
    }
)
"""Plain ASCII character for each typographic quotation mark and dash, and for accents that are
typed instead.
"""
SAME_TEXT = "caption and foil are the same text up to whitespace and Unicode form, so that neither can be preferred"
"""Reason why a pair cannot be an item."""


class Span(TypedDict):
    """Half-open range of characters."""

    start: int
    end: int


def find_changed_spans(caption: str, foil: str) -> tuple[Span, Span]:
    """Return the parts in which two texts differ: their spans without the common first and last
    words.

    Returns:
        Character ranges in caption and foil; empty spans (start = end) if the texts have the same
        words.
    """
    # Characters are compared before words, up to the spaces around the first and last difference,
    # so that few words of a long text are read.
    start, caption_end, foil_end = _find_changed_characters(caption, foil)
    caption_words = list(WORD.finditer(caption, start, caption_end))
    foil_words = list(WORD.finditer(foil, start, foil_end))

    # Common first words, then common last words of what is left.
    fewer = min(len(caption_words), len(foil_words))
    begin = 0
    while begin < fewer and caption_words[begin].group() == foil_words[begin].group():
        begin += 1
    end = 0
    while (
        end < fewer - begin
        and caption_words[-1 - end].group() == foil_words[-1 - end].group()
    ):
        end += 1
    common_end = len(caption[:start].rstrip())
    return _span(caption_words, begin, end, common_end), _span(
        foil_words, begin, end, common_end
    )


def _find_changed_characters(caption: str, foil: str) -> tuple[int, int, int]:
    """Return the range of characters in which two texts differ, extended to the spaces around it.

    Returns:
        Start in both texts, end in the caption, and end in the foil.
    """
    shorter = min(len(caption), len(foil))
    # Number of first characters that both texts share.
    alike = _count_common(caption, foil, shorter)

    # If the first difference is one of spaces, words behind it may still be common first words: the
    # ends are then left to the comparison of words.
    alike_at_end = 0
    differ_in_spaces = (
        caption[alike : alike + 1].isspace() or foil[alike : alike + 1].isspace()
    )
    if not differ_in_spaces:
        alike_at_end = _count_common(caption[::-1], foil[::-1], shorter - alike)

    # Extend the range to whole words in both directions.
    start = alike
    while start > 0 and not caption[start - 1].isspace():
        start -= 1
    caption_end = len(caption) - alike_at_end
    while caption_end < len(caption) and not caption[caption_end].isspace():
        caption_end += 1
    foil_end = caption_end - len(caption) + len(foil)
    return start, caption_end, foil_end


def are_same_text(first: str, second: str) -> bool:
    """Return whether two texts are equal apart from whitespace, invisible characters and Unicode
    form (NFKC).
    """
    return first == second or fold_text(first) == fold_text(second)


def fold_text(text: str) -> str:
    """Return a text without whitespace and invisible characters, in Unicode form NFKC, with plain
    quotation marks.
    """
    if text.isascii():  # a long text has many candidates
        return ASCII_INVISIBLE.sub("", text).replace("`", "'")
    # NFKC would put an acute accent that stands alone onto the letter before it.
    text = text.translate(TYPOGRAPHY)
    # Twice: characters without a shape may stand between a letter and its accent, and NFKC gives
    # spaces.
    for _ in range(2):
        visible = filter(_is_visible, INVISIBLE.sub("", text))
        text = unicodedata.normalize("NFKC", "".join(visible)).translate(TYPOGRAPHY)
    return text


def _is_visible(character: str) -> bool:
    """Return whether a character is neither whitespace nor a control or format character."""
    return (
        not character.isspace()
        and unicodedata.category(character) not in INVISIBLE_CATEGORIES
    )


def _count_common(first: str, second: str, limit: int) -> int:
    """Return the length of the common start of two texts, at most `limit` characters."""
    # Bisection: the first `low` characters are equal, and at most `high` can be.
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _span(words: list[re.Match[str]], begin: int, end: int, common_end: int) -> Span:
    """Return the span of words without the `begin` first and `end` last ones.

    If no word is left, the span is empty and lies behind the first words.

    Args:
        words: Matches of the words of one text.
        begin: Number of common first words.
        end: Number of common last words.
        common_end: End of the text before `words`.
    """
    # Words remain: the span goes from the first to the last of them.
    if begin + end < len(words):
        return Span(start=words[begin].start(), end=words[-1 - end].end())
    position = words[begin - 1].end() if begin else common_end
    return Span(start=position, end=position)


def slice_span(text: str, span: Span) -> str:
    """Return the characters of a span."""
    return text[span["start"] : span["end"]]
