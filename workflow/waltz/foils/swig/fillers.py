"""Noun phrases for the fillers of SWiG's roles: article, number and preposition of place by rule.

The released actions say "a man", "the people", "water"; nouns are the first gloss of a WordNet synset, in the singular
unless they have none. `swig_nouns.yaml` lists the exceptions to the rules.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import inflect
import yaml


@dataclass(frozen=True)
class Filler:
    """The person or thing that fills a role.

    Attributes:
        noun: Its first gloss.
        plural: True where a verb agrees with it in the plural.
        bare: True where it takes no article: a mass noun or a name.
        synset: Its WordNet synset, in imSitu's spelling; None where that is not known.
    """

    noun: str
    plural: bool
    bare: bool
    synset: str | None = None

    @property
    def subject(self) -> str:
        """The phrase at the beginning: "a man", "the people", "water"; an office is definite."""
        if self.bare:
            return self.noun
        return self.definite if self.plural or " of the " in self.noun else add_article(self.noun)

    @property
    def definite(self) -> str:
        """The phrase with `the`; a name takes no article."""
        return self.noun if is_name(self.noun) else f"the {self.noun}"

    @property
    def possessive(self) -> str | None:
        """`his`, `her` or `their`; None where the noun does not decide it."""
        if self.plural:
            return "their"
        nouns = {self.noun, get_head(self.noun)}
        if self.noun.startswith("female"):
            return "her"
        return next((word for word in ("her", "his") if nouns & _read_nouns()[word]), None)

    @property
    def place(self) -> str:
        """The phrase as a place: "outdoors", "at night", "on a street", "in the snow", "at a casino"."""
        if self.noun in _read_nouns()["adverbs"]:
            return self.noun
        if self.noun in _read_nouns()["times"]:
            return f"at {self.noun}"
        head = get_head(self.noun)
        preposition = next((word for word in ("on", "in") if head in _read_nouns()[word]), "at")
        return f"{preposition} {self.definite if self.bare else self.subject}"


@cache
def get_filler(noun: str, synset: str | None = None) -> Filler:
    """Return a filler by its gloss and, where it is known, its synset."""
    head = get_head(noun)
    return Filler(noun, _is_plural(head), head in _read_nouns()["mass"] or is_name(noun), synset)


def is_name(noun: str) -> bool:
    """Return True where every word begins with a capital, as in "Santa Claus"; an acronym (SUV) is no name."""
    is_common = noun in _read_nouns()["common"]
    return all(word[0].isupper() for word in noun.split()) and not noun.isupper() and not is_common


def get_head(noun: str) -> str:
    """Return the word of a gloss that a verb agrees with: `body` of "body of water"."""
    words = noun.split()
    end = next(
        (index for index, word in enumerate(words) if index and word in ("of", "on", "for", "in", "and")), len(words)
    )
    return words[end - 1] if words else ""


@cache
def add_article(noun: str) -> str:
    """Return the noun with `a` or `an`, by its sound."""
    return str(_load_inflect().a(noun))


def _is_plural(head: str) -> bool:
    nouns = _read_nouns()
    if head in nouns["plurals"]:
        return True
    return head.endswith("s") and head not in nouns["singulars"] and not head.endswith(tuple(nouns["singular_endings"]))


@cache
def _load_inflect() -> Any:
    return inflect.engine()


@cache
def _read_nouns() -> Mapping[str, frozenset[str]]:
    text = files("waltz.foils").joinpath("swig_nouns.yaml").read_text(encoding="utf-8")
    return {name: frozenset(words) for name, words in yaml.safe_load(text).items()}
