"""Syntax that several rules need: the words around a phrase, its number, and the subject of a verb."""

from spacy.tokens import Token

from waltz.foils.english.noun_phrases import NounPhrase, list_numbers
from waltz.foils.english.patterns import TokenPattern

NOUN = TokenPattern(tags={"NN", "NNS", "NNP", "NNPS"})
PLURAL = TokenPattern(tags={"NNS"})
NAME = TokenPattern(tags={"NNP"})
NUMERAL = TokenPattern(tags={"CD"})
VERB = TokenPattern(parts_of_speech={"VERB", "AUX"})
PREPOSITION = TokenPattern(parts_of_speech={"ADP"})
OF = TokenPattern(words={"of"})
SINGULAR_ARTICLE = TokenPattern(words={"a", "an"})
DETERMINER = TokenPattern(relations={"det", "poss"})
DEFINITES = frozenset(
    {
        "the", "this", "that", "his", "her", "its", "their", "my", "your", "our", "'s", "’s",
    }
)  # fmt: skip
DEFINITE = TokenPattern(words=DEFINITES)
SINGULAR_STARTS = frozenset({"a", "an", "another", "one"})
"""Determiners that only a countable noun in the singular can have."""
POSSESSIVE = TokenPattern(tags={"PRP$"})
SUBJECT = TokenPattern(relations={"nsubj", "nsubjpass"})
OBJECT_OF_PREPOSITION = TokenPattern(relations={"pobj"})
LINKS = frozenset({",", "and", "but", "or"})
LINK = TokenPattern(words=LINKS)
LIST_MEMBER = TokenPattern(relations={"appos", "conj"})
CLAUSE_OF_NOUN = TokenPattern(relations={"acl", "relcl"})
SUBORDINATE_VERB = TokenPattern(relations={"conj", "advcl", "xcomp"})


def get_words_before(phrase: NounPhrase, count: int = 1) -> list[Token]:
    """Return the words directly before a phrase, the nearest one last."""
    return list(phrase.head.doc[max(phrase.start - count, 0) : phrase.start])


def get_words_after(phrase: NounPhrase, count: int = 1) -> list[Token]:
    """Return the words directly after a phrase."""
    return list(phrase.head.doc[phrase.head.i + 1 : phrase.head.i + 1 + count])


def get_next_word(token: Token) -> list[Token]:
    """Return the word directly after a token, as a list that is empty at the end of the text."""
    return list(token.doc[token.i + 1 : token.i + 2])


def is_singular(noun: Token) -> bool:
    """Return True for a noun that can only be a singular."""
    return list_numbers(noun) == ("sg",)


def is_plural(noun: Token) -> bool:
    """Return True for a noun that can only be a plural."""
    return list_numbers(noun) == ("pl",)


def can_be_plural(noun: Token) -> bool:
    """Return True for a plural, and for a noun with one form for both numbers ("sheep")."""
    return "pl" in list_numbers(noun)


def find_subject(verb: Token) -> Token | None:
    """Return the subject of a verb, or the noun that a participle modifies; None without one."""
    subject = SUBJECT.find(verb.children)
    if subject is not None:
        return subject
    if CLAUSE_OF_NOUN.matches(verb):
        return verb.head
    if SUBORDINATE_VERB.matches(verb):
        return find_subject(verb.head)
    return None
