"""Noun phrases: foils of FOIL-it with the captions that they were made from (thesis 3.3, A.1), or made as those were.

Without FOIL-it's annotations, foils are made of COCO captions by its construction: the noun of a category of COCO is
replaced by another one of the same supercategory that no caption of the image mentions (Shekhar et al., ACL 2017,
section 3). Which objects are in the image beyond its captions is not known, and no captioning model chooses the hardest
foil.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files

import yaml
from spacy.tokens import Doc, Token

from waltz.core.text_diff import slice_span
from waltz.foils.candidates import MakerOptions, Outcome, Refusal, Row, SourceOutcomes, build_candidate
from waltz.foils.english.nouns import pluralise, singularise
from waltz.foils.english.parsing import parse_captions

AN = re.compile(r"\ban\b")
VOWELS = "aeiou"
MENTIONS = 2
"""Captions of an image that must mention a noun, which FOIL-it takes as a sign that it is salient."""
NO_NOUN = "the caption has no noun of a category of COCO with others of its kind"
NOT_SALIENT = "no other caption of the image mentions the noun"


def build_candidates(rows: Sequence[Row], _: MakerOptions, __: str) -> SourceOutcomes:
    """Yield candidates, or the reason why there is none, for each annotation of FOIL-it or each COCO caption."""
    if not rows or "foil" in rows[0]:
        for row in rows:
            yield row, build_noun_foil(row["caption"], row["foil"], row["target_word"], row["foil_word"])
        return
    docs = list(parse_captions(row["caption"] for row in rows))
    mentions: dict[str, list[set[str]]] = {}
    for row, doc in zip(rows, docs, strict=True):
        mentions.setdefault(row["image"], []).append({token.lower_ for token in doc})
    for row, doc in zip(rows, docs, strict=True):
        yield from ((row, outcome) for outcome in build_category_foils(doc, mentions[row["image"]]))


def build_category_foils(doc: Doc, mentions: Sequence[set[str]]) -> Iterator[Outcome]:
    """Yield a caption with each of its nouns of a category of COCO replaced by each other one of its supercategory.

    All mentions of the noun are replaced, in their number, with the article before them. Nouns that are a part of a
    compound are left alone.

    Args:
        doc: The parsed caption.
        mentions: Lower-cased words of each caption of the image.
    """
    tokens: dict[str, list[Token]] = {}
    for token in doc:
        if _is_noun_alone(token) and _read_singular(token) in read_categories():
            tokens.setdefault(_read_singular(token), []).append(token)
    if not tokens:
        yield Refusal(NO_NOUN)
    for target, places in tokens.items():
        if sum(_mentions(words, target) for words in mentions) < MENTIONS:
            yield Refusal(NOT_SALIENT)
            continue
        for foil in read_categories()[target]:
            if foil != target and not any(_mentions(words, foil) for words in mentions):
                yield build_candidate(doc.text, _replace_nouns(doc, places, foil), target, foil, "noun")


@cache
def read_categories() -> Mapping[str, tuple[str, ...]]:
    """Return all categories of its supercategory for each category of COCO that has one word."""
    text = files("waltz.foils").joinpath("foil_it_nouns.yaml").read_text(encoding="utf-8")
    return {name: tuple(names) for names in yaml.safe_load(text).values() for name in names}


def _mentions(words: set[str], noun: str) -> bool:
    return noun in words or pluralise(noun) in words


def _is_noun_alone(token: Token) -> bool:
    compound = token.dep_ == "compound" or any(child.dep_ == "compound" for child in token.children)
    hyphened = any(doc_token.text == "-" for doc_token in token.doc[max(token.i - 1, 0) : token.i + 2])
    return token.tag_ in ("NN", "NNS") and not compound and not hyphened


def _read_singular(token: Token) -> str:
    return singularise(token.lower_) if token.tag_ == "NNS" else token.lower_


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
