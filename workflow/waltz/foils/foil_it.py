"""Noun phrases: foils of FOIL-it with the captions that they were made from (thesis 3.3, A.1), or made as those were.

Without FOIL-it's annotations, foils are made of COCO captions by its construction: the noun of a category of COCO is
replaced by another one of the same supercategory that no caption of the image mentions (Shekhar et al., ACL 2017,
section 3). No captioning model chooses the hardest foil.
"""

import re
from collections.abc import Iterator, Sequence

from spacy.tokens import Doc, Token

from waltz.core.text_diff import slice_span
from waltz.foils.candidates import MakerOptions, Outcome, Refusal, Row, SourceOutcomes, build_candidate
from waltz.foils.english.coco_nouns import (
    NO_NOUN,
    NOT_SALIENT,
    find_category_nouns,
    is_salient,
    list_absent_nouns,
    list_words,
)
from waltz.foils.english.nouns import pluralise
from waltz.foils.english.parsing import parse_captions

AN = re.compile(r"\ban\b")
VOWELS = "aeiou"


def build_candidates(rows: Sequence[Row], _: MakerOptions, __: str) -> SourceOutcomes:
    """Yield candidates, or the reason why there is none, for each annotation of FOIL-it or each COCO caption."""
    if not rows or "foil" in rows[0]:
        for row in rows:
            yield row, build_noun_foil(row["caption"], row["foil"], row["target_word"], row["foil_word"])
        return
    docs = list(parse_captions(row["caption"] for row in rows))
    captions: dict[str, list[set[str]]] = {}
    for row, doc in zip(rows, docs, strict=True):
        captions.setdefault(row["image"], []).append(list_words(doc))
    for row, doc in zip(rows, docs, strict=True):
        yield from ((row, outcome) for outcome in build_category_foils(doc, captions[row["image"]]))


def build_category_foils(doc: Doc, captions: Sequence[set[str]]) -> Iterator[Outcome]:
    """Yield a caption with each of its nouns of a category of COCO replaced by each other one of its supercategory.

    All mentions of the noun are replaced, in their number, with the article before them. Nouns that are a part of a
    compound are left alone.

    Args:
        doc: The parsed caption.
        captions: Lower-cased words of each caption of the image.
    """
    tokens = find_category_nouns(doc)
    if not tokens:
        yield Refusal(NO_NOUN)
    for target, places in tokens.items():
        if not is_salient(target, captions):
            yield Refusal(NOT_SALIENT)
            continue
        for foil in list_absent_nouns(target, captions):
            yield build_candidate(doc.text, _replace_nouns(doc, places, foil), target, foil, "noun")


def _replace_nouns(doc: Doc, places: Sequence[Token], foil: str) -> str:
    words = [token.text_with_ws for token in doc]
    for token in places:
        noun = pluralise(foil) if token.tag_ == "NNS" else foil
        words[token.i] = (noun.capitalize() if token.text[0].isupper() else noun) + token.whitespace_
        before = doc[token.i - 1] if token.i else None
        if before is not None and before.lower_ in ("a", "an"):
            article = before.text[0] + "n" * (foil[0] in VOWELS)
            words[before.i] = article + before.whitespace_
    return "".join(words)


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
