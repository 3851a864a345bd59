"""Distributive readings: each of several things may have what the phrase names."""

from functools import lru_cache

from spacy.tokens import Doc, Token

from waltz.foils.english.noun_phrases import NounPhrase
from waltz.foils.english.patterns import TokenPattern, contains_one_of
from waltz.foils.english.quantifiable.doubtful_verbs import POSSESSIVE_VERBS
from waltz.foils.english.quantifiable.noun_kinds import PICTURES, is_picture
from waltz.foils.english.quantifiable.syntax import (
    NOUN,
    NUMERAL,
    OF,
    SINGULAR_STARTS,
    SUBJECT,
    VERB,
    can_be_plural,
    find_subject,
    get_next_word,
    get_words_after,
)

DISTRIBUTORS = (
    TokenPattern(
        words={"each", "every"},
        head=TokenPattern(relations={"nsubj", "nsubjpass"}, excluded_words=PICTURES),
    ),
    TokenPattern(words={"all", "both"}, head=SUBJECT),
    TokenPattern(words={"everybody", "everyone"}),
)
"""Words of subjects of whom each may have one thing; each image of a pair is one image."""
EACH = TokenPattern(
    words={"each", "either", "every"},
    relations={"det"},
    head=TokenPattern(relations={"dobj", "pobj"}, excluded_words={"other"}),
)
FLOATING_QUANTIFIER = TokenPattern(words={"all", "both", "each"})
"""Words that speak of each of the things directly before them."""
AT_LEAST = TokenPattern(words={"least"}, before=TokenPattern(words={"at"}))
ONE = TokenPattern(words={"one"})
COUNTERPART = TokenPattern(words={"other"}, before=TokenPattern(words={"the"}))
POSSESSION = TokenPattern(
    relations={"pobj"},
    head=TokenPattern(words={"in", "on", "with", "of", "at", "by"}),
)
OBJECT_OR_CONJUNCT = TokenPattern(relations={"dobj", "conj"})
NAMING = TokenPattern(parts_of_speech={"NOUN", "PROPN", "PRON"})
SEVERAL = TokenPattern(words={"all", "both", "they", "we", "people"})


def follows_distributor(phrase: NounPhrase) -> bool:
    """Return True behind a subject with "each" or the like ("every cook needs a knife")."""
    sentence_start = phrase.head.sent.start
    words_before = phrase.head.doc[sentence_start : phrase.start]
    return contains_one_of(words_before, DISTRIBUTORS)


def precedes_each(phrase: NounPhrase) -> bool:
    """Return True for several things before "each" ("lamps in the middle of each room", "two pizzas
    each have a box").
    """
    if not can_be_plural(phrase.head):
        return False
    if FLOATING_QUANTIFIER.matches_any(get_words_after(phrase)):
        return True
    later_words = phrase.head.doc[phrase.head.i + 1 : phrase.head.sent.end]
    return EACH.matches_any(later_words)


def belongs_to_several(phrase: NounPhrase) -> bool:
    """Return True for things of which each of several owners may have one ("men wear hats")."""
    if not can_be_plural(phrase.head):
        return False
    owner = _find_owner(phrase.head)
    if owner is None or owner == phrase.head:
        return False
    # "two wearing scarves"
    if NUMERAL.matches(owner):
        return owner.lower_ not in SINGULAR_STARTS
    if not NAMING.matches(owner):
        return False
    return SEVERAL.matches(owner) or can_be_plural(owner)


def follows_picked_thing(phrase: NounPhrase) -> bool:
    """Return True for what one of several things has ("one of the dogs has a ball"), since the foil
    may be true of another one.
    """
    pickers = _list_pickers(phrase.head)
    return any(picker.i < phrase.start for picker in pickers)


def precedes_picked_image(phrase: NounPhrase) -> bool:
    """Return True for what one of several images has ("a dog is in at least one of the images")."""
    later_pickers = (
        word for word in _list_pickers(phrase.head) if word.i > phrase.head.i
    )
    return any(map(_precedes_image, later_pickers))


def precedes_counterpart(phrase: NounPhrase) -> bool:
    """Return True for one of two things of which "the other" names the second ("one image shows a
    dog, the other a cat").
    """
    for word in _find_counterparts(phrase.head.doc):
        is_later = word.i > phrase.head.i and word.sent == phrase.head.sent
        if is_later and _is_counterpart(word, phrase):
            return True
    return False


def _is_counterpart(word: Token, phrase: NounPhrase) -> bool:
    """Return True where "other" stands before the noun of a phrase, or without a noun for "one"."""
    next_word = get_next_word(word)
    if any(token.lower_ == phrase.head.lower_ for token in next_word):
        return True
    return ONE.matches_any(phrase.determiners) and not NOUN.matches_any(next_word)


def _find_owner(noun: Token) -> Token | None:
    """Return the word for what has, holds or wears a thing; None where no word says this."""
    # "men wear hats"
    if OBJECT_OR_CONJUNCT.matches(noun) and noun.head.lemma_ in POSSESSIVE_VERBS:
        return find_subject(noun.head)
    if not POSSESSION.matches(noun):
        return None
    # "men with hats", "men walk with dogs"
    owner = noun.head.head
    if VERB.matches(owner):
        return find_subject(owner)
    return owner


def _list_pickers(noun: Token) -> list[Token]:
    """Return the words of the sentence of a noun that pick one or more of several things."""
    return [word for word in _find_pickers(noun.doc) if word.sent == noun.sent]


@lru_cache(maxsize=8)
def _find_pickers(doc: Doc) -> tuple[Token, ...]:
    """Return the words of a text that pick one or more of several things ("at least", "one of")."""
    return tuple(filter(_picks_some, doc))


def _picks_some(token: Token) -> bool:
    """Return True for "at least", and for "one" before "of" or a picture ("one image")."""
    if AT_LEAST.matches(token):
        return True
    if not ONE.matches(token):
        return False
    next_word = get_next_word(token)
    return OF.matches_any(next_word) or any(
        is_picture(word.lower_) for word in next_word
    )


@lru_cache(maxsize=8)
def _find_counterparts(doc: Doc) -> list[Token]:
    """Return the words of a text that name the second of two things."""
    return COUNTERPART.select(doc)


def _precedes_image(token: Token) -> bool:
    """Return True where one of the next four words is a picture."""
    next_words = token.doc[token.i + 1 : token.i + 5]
    return any(is_picture(word.lower_) for word in next_words)
