"""Rules that every built pair of a caption and a foil meets, whatever instrument built it."""

import re
from collections.abc import Collection
from functools import lru_cache

from waltz.core.text_diff import TYPOGRAPHY, fold_text

TRUE_FOIL = "the foil would be the caption itself"
OTHER_CAPTION = "the foil would be another caption of the image"
TORN_WORD = "a word of the text would be torn at a hyphen"
CHANGED_QUOTATION = "the quoted words would change"

HYPHENATED = re.compile(r"[\w']*(?:-[\w']+)+-?|[\w']+-(?!\w)")
"""A word with hyphens, also one that begins or ends with a hyphen."""
QUOTATION = re.compile(r"\"([^\"]+)\"|«([^»]+)»|(?<!\w)'([^']+)'(?!\w)")
"""Words in quotation marks; an apostrophe behind a letter opens no quotation."""


def find_broken_invariant(
    caption: str,
    foil: str,
    source_text: str | None,
    other_captions: Collection[str] = (),
) -> str | None:
    """Return the reason why two texts are no caption with a foil; None where they meet all rules.

    Args:
        source_text: The true text from which both are built; None where there is none, and the
            caption takes its place.
        other_captions: The true texts of the image, as `fold_case` folds them.
    """
    source = source_text or caption
    # The caption may differ from the source text, so both are compared.
    folded = fold_case(foil)
    if folded in {fold_case(caption), fold_case(source)}:
        return TRUE_FOIL
    if folded in other_captions:
        return OTHER_CAPTION
    if _tears_word(source, caption) or _tears_word(source, foil):
        return TORN_WORD
    if _list_quotations(caption) != _list_quotations(foil):
        return CHANGED_QUOTATION
    return None


@lru_cache(maxsize=64)  # the source text and the caption come again with each foil
def fold_case(text: str) -> str:
    """Return a text without what makes no difference to its truth: case, whitespace and a final
    full stop.
    """
    return fold_text(text.casefold()).rstrip(".")


def _tears_word(source: str, text: str) -> bool:
    """Return True for a text with a part of a hyphenated word of its source: "-old" or "year-old"
    of "6-year-old".
    """
    words = _list_hyphenated(source)
    parts = [word for word in _list_hyphenated(text) if word not in words]
    return any(_is_part(part, word) for part in parts for word in words)


def _is_part(part: str, word: str) -> bool:
    stem = part.strip("-")
    return word.endswith(f"-{stem}") or word.startswith(f"{stem}-")


@lru_cache(maxsize=64)
def _list_hyphenated(text: str) -> list[str]:
    plain = text.translate(TYPOGRAPHY)
    return HYPHENATED.findall(plain.casefold()) if "-" in plain else []


@lru_cache(maxsize=64)
def _list_quotations(text: str) -> list[tuple[str, ...]]:
    quotations: list[tuple[str, ...]] = QUOTATION.findall(text.translate(TYPOGRAPHY))
    return [tuple(map(str.casefold, quotation)) for quotation in quotations]
