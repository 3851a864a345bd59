"""Nouns of the COCO categories that the captions of an image mention, and nouns that none of them
mentions.

Source:
    FOIL-it (Shekhar et al., ACL 2017, section 3). Only the captions say which objects are in the
    image.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

import yaml
from spacy.tokens import Doc, Token

from waltz.foils.english.nouns import pluralize, singularize
from waltz.foils.english.patterns import TokenPattern

MENTIONS = 2
"""Number of captions of an image that must mention a noun; FOIL-it takes such a noun as salient. Of
an image with a single caption, this caption must mention it.
"""
NOUN = TokenPattern(tags=("NN", "NNS"))
COMPOUND = TokenPattern(relations=("compound",))
HOT_DOG = TokenPattern(words=("dog", "dogs"), before=TokenPattern(words=("hot",)))
HYPHEN = TokenPattern(words=("-",))
NO_NOUN = "the caption has no noun of a category of COCO with others of its kind"
NOT_SALIENT = "no other caption of the image mentions the noun"


@cache
def read_categories() -> Mapping[str, tuple[str, ...]]:
    """Return for each COCO category of one word all such categories of its supercategory."""
    text = files("waltz.foils").joinpath("coco_nouns.yaml").read_text(encoding="utf-8")
    categories: dict[str, tuple[str, ...]] = {}
    for names in yaml.safe_load(text).values():
        categories |= dict.fromkeys(names, tuple(names))
    return categories


def collect_words(doc: Doc) -> set[str]:
    """Return the lower-cased words of a caption."""
    return {token.lower_ for token in doc}


def find_category_nouns(doc: Doc) -> dict[str, list[Token]]:
    """Return the nouns of a caption that name a COCO category, by category; compounds ("bus stop")
    are skipped.
    """
    tokens: dict[str, list[Token]] = {}
    for token in filter(_is_noun_alone, doc):
        singular = _read_singular(token)
        if singular in read_categories():
            tokens.setdefault(singular, []).append(token)
    return tokens


def is_salient(noun: str, captions: Sequence[set[str]]) -> bool:
    """Return True where enough captions of an image mention a noun.

    Args:
        captions: Lower-cased words of each caption of the image.
    """
    forms = {noun, pluralize(noun)}
    n_mentions = sum(not forms.isdisjoint(words) for words in captions)
    return n_mentions >= min(MENTIONS, len(captions))


def list_absent_nouns(noun: str, captions: Sequence[set[str]]) -> list[str]:
    """Return the other categories of the noun's supercategory that no caption of the image
    mentions.

    Args:
        captions: Lower-cased words of each caption of the image.
    """
    present_words = {noun}.union(*captions)
    return [
        category
        for category in read_categories()[noun]
        if present_words.isdisjoint({category, pluralize(category)})
    ]


def _is_noun_alone(token: Token) -> bool:
    """Return True for a noun that is part of neither a compound, a hot dog, nor a hyphened word."""
    if HOT_DOG.matches(token):
        return False
    if not NOUN.matches(token) or COMPOUND.matches_any((token, *token.children)):
        return False
    # The parser splits hyphened words at their hyphens.
    neighbors = token.doc[max(token.i - 1, 0) : token.i + 2]
    return not HYPHEN.matches_any(neighbors)


def _read_singular(token: Token) -> str:
    """Return the lower-cased singular of a noun; the tag of the parser tells plurals."""
    if token.tag_ == "NNS":
        return singularize(token.lower_)
    return str(token.lower_)
