"""Coordination: nouns or adjectives that share one determiner."""

from itertools import chain, pairwise, starmap

from spacy.tokens import Token

from waltz.foils.english.noun_phrases import NounPhrase
from waltz.foils.english.patterns import TokenPattern
from waltz.foils.english.quantifiable.countability import OPPOSITES
from waltz.foils.english.quantifiable.noun_kinds import is_being
from waltz.foils.english.quantifiable.syntax import (
    DEFINITE,
    DETERMINER,
    LINK,
    LIST_MEMBER,
    PLURAL,
    POSSESSIVE,
    get_words_after,
    is_singular,
)
from waltz.foils.english.wordnet import read_words

AND_OR = TokenPattern(words={"and", "or", "/", "&"})
AND_OR_COMMA = TokenPattern(words={"and", "or", "&", "/", ","})
MODIFIER = TokenPattern(relations={"amod", "compound"})
CONJUNCT = TokenPattern(relations={"conj"})
SINGULAR_CONJUNCT = TokenPattern(tags={"NN"}, relations={"conj"})


def has_opposite_adjectives(phrase: NounPhrase) -> bool:
    """Return True for adjectives of two things ("the left and right picture")."""
    modifiers = phrase.words[:-1]
    if not AND_OR.matches_any(modifiers):
        return False
    opposites = OPPOSITES.intersection(word.lower_ for word in modifiers)
    return len(opposites) > 1


def continues_possessions(phrase: NounPhrase) -> bool:
    """Return True for a later noun of a list behind one possessive ("her breasts, waist and hips")."""
    if phrase.determiners or not CONJUNCT.matches(phrase.head):
        return False
    words_of_list = chain.from_iterable(noun.lefts for noun in phrase.head.conjuncts)
    return POSSESSIVE.matches_any(words_of_list)


def holds_list(phrase: NounPhrase) -> bool:
    """Return True for a being or thing and a link before the noun ("a singer and actor", "a vest,
    and neck tie").
    """
    return any(starmap(_is_linked_noun, pairwise(phrase.words[:-1])))


def begins_definite_list(phrase: NounPhrase) -> bool:
    """Return True for the first of several nouns behind one "the" ("the hood, top and sides")."""
    if not DEFINITE.matches_any(phrase.determiners) or not is_singular(phrase.head):
        return False
    if not LINK.matches_any(get_words_after(phrase)):
        return False
    list_members = LIST_MEMBER.select(phrase.head.children)
    return any(map(_is_bare_singular, list_members))


def begins_list_of_singulars(phrase: NounPhrase) -> bool:
    """Return True for the first of two singulars with one determiner ("a lady and man")."""
    # "a bathtub, window and sink" is a list, whose later nouns need no article.
    is_first = phrase.determiners or phrase.start == 0
    if not is_first or not is_singular(phrase.head):
        return False
    conjunct = _find_adjacent_conjunct(phrase)
    if conjunct is None or conjunct.head != phrase.head:
        return False
    if not SINGULAR_CONJUNCT.matches(conjunct):
        return False
    return not DETERMINER.matches_any(conjunct.lefts)


def _is_linked_noun(word: Token, next_word: Token) -> bool:
    """Return True for a being or thing before a comma or conjunction."""
    if not LINK.matches(next_word):
        return False
    return is_being(word) or word.lower_ in read_words("things")


def _find_adjacent_conjunct(phrase: NounPhrase) -> Token | None:
    """Return the noun of a list whose words begin directly behind the conjunction or comma after a
    phrase; None where another word stands there.
    """
    words_after = get_words_after(phrase, 2)
    if len(words_after) < 2 or not AND_OR_COMMA.matches(words_after[0]):
        return None
    if MODIFIER.matches(words_after[1]):
        return words_after[1].head
    return words_after[1]


def _is_bare_singular(noun: Token) -> bool:
    return not PLURAL.matches(noun) and not DETERMINER.matches_any(noun.lefts)
