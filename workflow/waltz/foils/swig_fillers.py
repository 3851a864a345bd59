"""Noun phrases for the fillers of SWiG's roles: article, number and preposition of place by rule.

The released actions say "a man", "the people", "water"; nouns are the first gloss of a WordNet synset, in the singular
but for those that have none. `nouns.yaml` lists what the rules cannot tell.
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
    """Who or what fills a role.

    Attributes:
        noun: Its first gloss.
        plural: Whether a verb agrees with it in the plural.
        bare: Whether it takes no article: a mass noun or a name.
        synset: What it is in WordNet, in imSitu's spelling; None where that is not known.
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
        return self.definite if self.plural or " of the " in self.noun else with_article(self.noun)

    @property
    def definite(self) -> str:
        """The phrase with `the`; a name keeps standing alone."""
        return self.noun if is_name(self.noun) else f"the {self.noun}"

    @property
    def possessive(self) -> str | None:
        """his, her or their, or None where the noun does not tell."""
        if self.plural:
            return "their"
        named = {self.noun, head_of(self.noun)}
        if self.noun.startswith("female"):
            return "her"
        return next((word for word in ("her", "his") if named & _nouns()[word]), None)

    @property
    def place(self) -> str:
        """As a place: "outdoors", "at night", "on a street", "in the snow", "at a casino"."""
        if self.noun in _nouns()["adverbs"]:
            return self.noun
        if self.noun in _nouns()["times"]:
            return f"at {self.noun}"
        head = head_of(self.noun)
        preposition = next((word for word in ("on", "in") if head in _nouns()[word]), "at")
        return f"{preposition} {self.definite if self.bare else self.subject}"


@cache
def filler(noun: str, synset: str | None = None) -> Filler:
    """A filler by its gloss and, where it is known, its synset."""
    head = head_of(noun)
    return Filler(noun, _plural(head), head in _nouns()["mass"] or is_name(noun), synset)


def is_name(noun: str) -> bool:
    """Whether every word has a capital first, as in "Santa Claus"; an acronym (SUV) is no name."""
    return all(word[0].isupper() for word in noun.split()) and not noun.isupper() and noun not in _nouns()["common"]


def head_of(noun: str) -> str:
    """The word of a gloss that a verb agrees with: `body` of "body of water"."""
    words = noun.split()
    after = next((at for at, word in enumerate(words) if at and word in ("of", "on", "for", "in", "and")), len(words))
    return words[after - 1] if words else ""


@cache
def with_article(noun: str) -> str:
    """The noun with `a` or `an`, as it sounds."""
    return str(_english().a(noun))


def _plural(head: str) -> bool:
    nouns = _nouns()
    if head in nouns["plurals"]:
        return True
    return head.endswith("s") and head not in nouns["singulars"] and not head.endswith(tuple(nouns["singular_endings"]))


@cache
def _english() -> Any:
    return inflect.engine()


@cache
def _nouns() -> Mapping[str, frozenset[str]]:
    text = files("waltz.foils").joinpath("nouns.yaml").read_text(encoding="utf-8")
    return {name: frozenset(words) for name, words in yaml.safe_load(text).items()}
