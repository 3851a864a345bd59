"""Noun phrases: foils of FOIL-it with the captions that they were made from (thesis 3.3, A.1)."""

import re
from collections.abc import Sequence

from waltz.core.text_diff import slice_span
from waltz.foils.candidates import MakerOptions, Outcome, Refusal, Row, SourceOutcomes, build_candidate

AN = re.compile(r"\ban\b")


def build_candidates(rows: Sequence[Row], _: MakerOptions, __: str) -> SourceOutcomes:
    """Yield a candidate, or the reason why there is none, for each annotation of FOIL-it."""
    for row in rows:
        yield row, build_noun_foil(row["caption"], row["foil"], row["target_word"], row["foil_word"])


def build_noun_foil(caption: str, foil: str, target_word: str, foil_word: str) -> Outcome:
    """Return a caption with the foil that was made of it, both in lower case, as the released benchmark writes them.

    The foil has the noun replaced as often as it occurs, and its article may change; spans reach from the first to the
    last changed word. Pairs that differ otherwise are refused.
    """
    candidate = build_candidate(caption.strip().lower(), foil.strip().lower(), target_word, foil_word, "noun")
    caption_part = slice_span(candidate.caption, candidate.caption_span)
    foil_part = slice_span(candidate.foil, candidate.foil_span)
    if candidate.caption == candidate.foil:
        return Refusal("caption and foil are alike")
    if AN.sub("a", caption_part.replace(target_word.lower(), foil_word.lower())) != AN.sub("a", foil_part):
        return Refusal("caption and foil differ in more than the word")
    return candidate
