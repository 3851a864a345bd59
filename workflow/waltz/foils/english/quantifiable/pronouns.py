"""Pronouns: the nouns that they mean, and nouns that they may mean as well as others."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import filterfalse

from spacy.tokens import Doc, Token

from waltz.foils.english.noun_phrases import (
    PRONOUN,
    NounPhrase,
    find_noun_phrases,
    list_antecedents,
)
from waltz.foils.english.patterns import TokenPattern
from waltz.foils.english.quantifiable.noun_kinds import (
    PICTURES,
    is_being,
    looks_like_participle,
)
from waltz.foils.english.quantifiable.syntax import (
    NOUN,
    OBJECT_OF_PREPOSITION,
    OF,
    POSSESSIVE,
    PREPOSITION,
    SUBJECT,
    VERB,
    find_subject,
    get_next_word,
    get_words_after,
)

REFLEXIVE = TokenPattern(words={"herself", "himself", "itself", "themselves"})
PRONOUN_OF_BEINGS = TokenPattern(words={"he", "him", "his", "she", "her", "hers"})
IT = TokenPattern(words={"it"}, relations={"nsubj", "nsubjpass"})
IT_IS = TokenPattern(words={"'s", "’s"}, relations={"case"})
"""The end of "it's", written for "its"."""
ITS = TokenPattern(words={"its"}, head=TokenPattern(tags={"JJ", "VBG", "RB"}))
"""The word "its", written for "it's" ("its hard to see")."""
ADJECTIVE = TokenPattern(parts_of_speech={"ADJ"})
CLAUSE = TokenPattern(relations={"ccomp", "csubj", "xcomp"})
RELATIVE_CLAUSE = TokenPattern(relations={"relcl"})
PASSIVE_CLAUSE = TokenPattern(relations={"acl"}, tags={"VBN"})
RELATIVE_ADVERB = TokenPattern(words={"when", "where"})
OBJECT = TokenPattern(relations={"dobj"})
DIRECTION = TokenPattern(words={"left", "right"})
PICTURE = TokenPattern(words=PICTURES)


def is_stressed(phrase: NounPhrase) -> bool:
    """Return True before a pronoun that stresses the noun ("the works themselves")."""
    return REFLEXIVE.matches_any(get_words_after(phrase))


def has_unclear_pronoun(phrase: NounPhrase) -> bool:
    """Return True where a pronoun may refer to this noun and to others ("a man throws a ball after
    another man kicks his foot").
    """
    return phrase.head in _find_rivals(phrase.head.doc)


def resolve_pronouns(doc: Doc, nouns: Sequence[Token]) -> dict[Token, Token]:
    """Return for each pronoun the noun to which it refers; a pronoun without antecedent is absent."""
    antecedents = {}
    for pronoun in filterfalse(_is_expletive, PRONOUN.select(doc)):
        meant_nouns = _list_meant(pronoun, nouns)
        if meant_nouns:
            antecedents[pronoun] = meant_nouns[0]
    return antecedents


def is_possession(noun: Token) -> bool:
    """Return True for a noun behind "his" that is a thing, unlike the words in "to his left" and "to
    his right holding a cup".
    """
    return not DIRECTION.matches(noun) and not looks_like_participle(noun.lower_)


@lru_cache(maxsize=8)
def _find_rivals(doc: Doc) -> frozenset[Token]:
    """Return the nouns to which a pronoun may refer that may refer to others, too."""
    nouns = [phrase.head for phrase in find_noun_phrases(doc)]
    rivals: set[Token] = set()
    for pronoun in PRONOUN.select(doc):
        meant_nouns = _list_meant(pronoun, nouns)
        if _is_unclear(pronoun, meant_nouns):
            rivals.update(meant_nouns)
        # A subject takes up the first thing; of objects, things behind it may be meant as well.
        if not SUBJECT.matches(pronoun) and not any(map(is_being, meant_nouns)):
            rivals.update(_list_later_things(pronoun, nouns))
    return frozenset(rivals)


def _is_unclear(pronoun: Token, meant_nouns: Sequence[Token]) -> bool:
    """Return True for a pronoun that may mean several nouns, or does not fit its nouns ("he", a dish)."""
    if len(meant_nouns) > 1:
        return True
    if IT_IS.matches_any(get_next_word(pronoun)):
        return True
    return PRONOUN_OF_BEINGS.matches(pronoun) and not any(map(is_being, meant_nouns))


def _is_expletive(pronoun: Token) -> bool:
    """Return True for a subject that announces a clause ("it is obvious that", "its hard to see")."""
    if ITS.matches(pronoun):
        return True
    if not IT.matches(pronoun):
        return False
    siblings = list(pronoun.head.children)
    return ADJECTIVE.matches_any(siblings) and CLAUSE.matches_any(siblings)


def _list_meant(pronoun: Token, nouns: Sequence[Token]) -> list[Token]:
    """Return the nouns that a pronoun may mean.

    A pronoun means people or animals rather than things, and a thing rather than its picture.
    Among things, the first one is trusted.
    """
    possible_nouns = _list_possible(pronoun, nouns)
    described_nouns = _find_described(pronoun, possible_nouns)
    if described_nouns:
        return described_nouns
    beings = list(filter(is_being, possible_nouns))
    if beings:
        return beings
    things = _list_things(possible_nouns)
    if things:
        return things[:1]
    return possible_nouns[:1]


def _list_later_things(pronoun: Token, nouns: Sequence[Token]) -> list[Token]:
    """Return the things behind the first one that a pronoun may mean, unless its clause describes
    one of them.
    """
    possible_nouns = _list_possible(pronoun, nouns)
    if _find_described(pronoun, possible_nouns):
        return []
    return _list_things(possible_nouns)[1:]


def _list_possible(pronoun: Token, nouns: Sequence[Token]) -> list[Token]:
    """Return the nouns that order, number, gender and clause leave for a pronoun."""
    if _stresses_noun(pronoun):
        return [noun for noun in nouns if noun.i == pronoun.i - 1]
    excluded_nouns = (_find_actor(pronoun), _find_described_by_passive(pronoun))
    antecedents = list_antecedents(pronoun, nouns)
    return [noun for noun in antecedents if noun not in excluded_nouns]


def _stresses_noun(pronoun: Token) -> bool:
    """Return True for a reflexive pronoun directly behind its noun ("the table itself")."""
    word_before = pronoun.doc[max(pronoun.i - 1, 0) : pronoun.i]
    return REFLEXIVE.matches(pronoun) and NOUN.matches_any(word_before)


def _list_things(nouns: Sequence[Token]) -> list[Token]:
    """Return the nouns that do not name pictures."""
    return list(filterfalse(PICTURE.matches, nouns))


def _find_described_by_passive(pronoun: Token) -> Token | None:
    """Return the noun of a passive clause with a pronoun that means something else ("a design
    painted on it"); None without such a clause.
    """
    clause = pronoun.head.head
    if OBJECT_OF_PREPOSITION.matches(pronoun) and PASSIVE_CLAUSE.matches(clause):
        return clause.head
    return None


def _find_actor(pronoun: Token) -> Token | None:
    """Return the noun of whose action a pronoun is the object, or part of it ("a panda that chews a
    part of it"), so that the pronoun means something else; None without one.
    """
    if REFLEXIVE.matches(pronoun) or POSSESSIVE.matches(pronoun):
        return None
    object_ = _find_object(pronoun)
    if object_ == pronoun and not OBJECT.matches(pronoun):
        return None
    verb = object_.head
    # "chews on part of it"
    if object_ != pronoun and PREPOSITION.matches(verb):
        verb = verb.head
    if not VERB.matches(verb):
        return None
    return find_subject(verb)


def _find_object(pronoun: Token) -> Token:
    """Return the noun of which a pronoun names the owner ("part" in "a part of it"), or the pronoun
    where it stands behind no "of".
    """
    object_ = pronoun
    while OBJECT_OF_PREPOSITION.matches(object_) and OF.matches(object_.head):
        object_ = object_.head.head
    return object_


def _find_described(pronoun: Token, nouns: Sequence[Token]) -> list[Token]:
    """Return the noun of the clause in which a pronoun stands ("a bag that has a star on it"), but
    not of one that the noun does to it ("a frame that holds it") or with "where" or "when".
    """
    for clause in RELATIVE_CLAUSE.select(pronoun.ancestors):
        is_object = OBJECT.matches(pronoun) and pronoun.head == clause
        if not is_object and not RELATIVE_ADVERB.matches_any(clause.children):
            return [noun for noun in nouns if noun == clause.head]
    return []
