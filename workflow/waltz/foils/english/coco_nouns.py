"""Nouns of COCO's categories in the captions of an image: those that they mention, and those that none does.

Source:
    FOIL-it (Shekhar et al., ACL 2017, section 3). Which objects are in the image beyond its captions is not known.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

import yaml
from spacy.tokens import Doc, Token

from waltz.foils.english.nouns import pluralise, singularise

MENTIONS = 2
"""Captions of an image that must mention a noun, which FOIL-it takes as a sign that it is salient."""
NO_NOUN = "the caption has no noun of a category of COCO with others of its kind"
NOT_SALIENT = "no other caption of the image mentions the noun"


@cache
def read_categories() -> Mapping[str, tuple[str, ...]]:
    """Return all categories of its supercategory for each category of COCO that has one word."""
    text = files("waltz.foils").joinpath("coco_nouns.yaml").read_text(encoding="utf-8")
    return {name: tuple(names) for names in yaml.safe_load(text).values() for name in names}


def list_words(doc: Doc) -> set[str]:
    """Return the lower-cased words of a caption."""
    return {token.lower_ for token in doc}


def find_category_nouns(doc: Doc) -> dict[str, list[Token]]:
    """Return the nouns of a caption that name a category, by category; parts of compounds ("bus stop") are left out."""
    tokens: dict[str, list[Token]] = {}
    for token in doc:
        if _is_noun_alone(token) and _read_singular(token) in read_categories():
            tokens.setdefault(_read_singular(token), []).append(token)
    return tokens


def is_salient(noun: str, captions: Sequence[set[str]]) -> bool:
    """Return whether enough captions of an image mention a noun, given their words."""
    return sum(_mentions(words, noun) for words in captions) >= MENTIONS


def list_absent_nouns(noun: str, captions: Sequence[set[str]]) -> list[str]:
    """Return the other categories of a noun's supercategory that no caption of the image mentions."""
    others = [other for other in read_categories()[noun] if other != noun]
    return [other for other in others if not any(_mentions(words, other) for words in captions)]


def _mentions(words: set[str], noun: str) -> bool:
    return noun in words or pluralise(noun) in words


def _is_noun_alone(token: Token) -> bool:
    compound = token.dep_ == "compound" or any(child.dep_ == "compound" for child in token.children)
    hyphened = any(doc_token.text == "-" for doc_token in token.doc[max(token.i - 1, 0) : token.i + 2])
    return token.tag_ in ("NN", "NNS") and not compound and not hyphened


def _read_singular(token: Token) -> str:
    return singularise(token.lower_) if token.tag_ == "NNS" else token.lower_
