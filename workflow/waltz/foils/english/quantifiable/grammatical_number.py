"""Grammatical number: determiners that disagree with a noun, and nouns without the other number."""

from lemminflect import getAllLemmas

from waltz.core.number_words import NUMBER_WORDS
from waltz.foils.english.noun_phrases import NounPhrase
from waltz.foils.english.nouns import PLURAL_QUANTITIES, TENS, pluralize, singularize
from waltz.foils.english.patterns import TokenPattern
from waltz.foils.english.quantifiable.quantities import FEW
from waltz.foils.english.quantifiable.syntax import (
    SINGULAR_STARTS,
    is_plural,
    is_singular,
)

SINGULAR_DETERMINER = TokenPattern(
    words=SINGULAR_STARTS | {"this", "that", "each", "every"}
)
PLURAL_DETERMINER = TokenPattern(
    words=frozenset({*PLURAL_QUANTITIES, *NUMBER_WORDS[2:], *TENS})
)


def has_singular_determiner(phrase: NounPhrase) -> bool:
    """Return True for a plural behind a determiner of the singular ("an angler fishes")."""
    if not is_plural(phrase.head):
        return False
    # "a few dogs"
    if FEW.matches_any(phrase.determiners):
        return False
    return SINGULAR_DETERMINER.matches_any(phrase.determiners)


def has_plural_determiner(phrase: NounPhrase) -> bool:
    """Return True for a singular behind a determiner of the plural ("two dog")."""
    if not is_singular(phrase.head):
        return False
    return PLURAL_DETERMINER.matches_any(phrase.determiners)


def has_plural_form(phrase: NounPhrase) -> bool:
    """Return True for a singular by its tag whose form is a plural alone ("contours")."""
    if not is_singular(phrase.head):
        return False
    word = phrase.head.lower_
    lemmas: tuple[str, ...] = getAllLemmas(word).get("NOUN", ())
    return lemmas == (singularize(word),) and word not in lemmas


def lacks_singular(phrase: NounPhrase) -> bool:
    """Return True for a plural without a known singular that leads back to it ("busses")."""
    if not is_plural(phrase.head):
        return False
    word = phrase.head.lower_
    singular = singularize(word)
    if singular == word:
        return True
    return word not in {pluralize(singular), f"{singular}s"}


def lacks_plural(phrase: NounPhrase) -> bool:
    """Return True for a singular that is its plural, too ("graffiti")."""
    if not is_singular(phrase.head):
        return False
    word = str(phrase.head.lower_)
    return pluralize(word) == word
