"""Noun phrases: foils of FOIL-it beside the captions that they were made from (thesis 3.3, A.1)."""

import re

from waltz.core.text_diff import slice_span
from waltz.foils.candidates import Found, Refused, exchanged

AN = re.compile(r"\ban\b")


def foil_it(caption: str, foil: str, target_word: str, foil_word: str) -> Found:
    """A caption beside the foil that was made of it, both in lower case, as the released benchmark writes them.

    Args:
        caption: The correct COCO caption.
        foil: The same with a noun replaced, more than once where it stands more than once; its article may follow.
        target_word: The noun that was replaced.
        foil_word: What replaced it.
    Returns:
        The pair, its spans from the first to the last changed word; or why there is none.
    """
    found = exchanged(caption.strip().lower(), foil.strip().lower(), target_word, foil_word, "noun")
    before, after = slice_span(found.caption, found.caption_span), slice_span(found.foil, found.foil_span)
    if found.caption == found.foil:
        return Refused("caption and foil are alike")
    if AN.sub("a", before.replace(target_word.lower(), foil_word.lower())) != AN.sub("a", after):
        return Refused("caption and foil differ in more than the word")
    return found
