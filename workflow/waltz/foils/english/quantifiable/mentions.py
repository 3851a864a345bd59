"""Later mentions of a thing: words that count it again, and "the" with the same noun."""

from collections import defaultdict
from functools import lru_cache

from spacy.tokens import Doc, Token

from waltz.core.number_words import NUMBER_WORDS
from waltz.foils.english.noun_phrases import NounPhrase
from waltz.foils.english.patterns import TokenPattern, contains_one_of
from waltz.foils.english.quantifiable.syntax import (
    DETERMINER,
    NOUN,
    OF,
    can_be_plural,
    get_next_word,
)

LATER_COUNTS = (
    # "two dogs, one all wet"
    TokenPattern(words={"one", "another", "half"}, relations={"appos"}),
    # "two cats, and both sleep"
    TokenPattern(
        words={
            *NUMBER_WORDS[1:], "all", "another", "both", "each", "either", "half", "most", "neither", "others", "some",
        },
        relations={"appos", "attr", "conj", "dobj", "npadvmod", "nsubj", "nsubjpass", "pobj", "ROOT"},
        before=TokenPattern(words={",", "and", "with"}),
    ),
    # "some of them"
    TokenPattern(words={"them", "which", "whom"}, before=OF),
)  # fmt: skip
"""Words that pick some of several things."""
COUNT_BEHIND_LINK = TokenPattern(
    words={*NUMBER_WORDS[1:], "all", "both", "each", "others", "some"},
    before=TokenPattern(words={",", "and", "as", "while", "with"}),
)
PREDICATION = TokenPattern(parts_of_speech={"ADP", "AUX", "VERB"})
DEFINITE_ARTICLE = TokenPattern(words={"the"}, relations={"det"})


def is_counted_again(phrase: NounPhrase) -> bool:
    """Return True for several things of which a later word picks some ("two dogs, one all wet")."""
    if not can_be_plural(phrase.head):
        return False
    later_words = phrase.head.doc[phrase.head.i + 1 :]
    if contains_one_of(later_words, LATER_COUNTS):
        return True
    return any(map(_counts_alone, later_words))


def is_mentioned_again(phrase: NounPhrase) -> bool:
    """Return True for a thing that a text mentions again with "the" ("A cow eats hay. The cow is
    brown.", "a bottle of pills falls, spilling the pills").
    """
    return phrase.head in _find_repeated(phrase.head.doc)


def _counts_alone(word: Token) -> bool:
    """Return True for a number behind a comma or "and" that stands before a verb or preposition
    instead of a noun ("two wearing hats").
    """
    if not COUNT_BEHIND_LINK.matches(word):
        return False
    return PREDICATION.matches_any(get_next_word(word))


@lru_cache(maxsize=8)
def _find_repeated(doc: Doc) -> frozenset[Token]:
    """Return the nouns that name a thing of which later words speak with the same noun."""
    mentions: dict[str, list[Token]] = defaultdict(list)
    for noun in NOUN.select(doc):
        mentions[noun.lower_].append(noun)
    repeated: set[Token] = set()
    for nouns in mentions.values():
        if _is_taken_up(nouns[0], nouns[-1]):
            repeated.update(nouns)
    return frozenset(repeated)


def _is_taken_up(first: Token, last: Token) -> bool:
    """Return True for a thing that a later noun mentions with "the"."""
    if first == last or not DEFINITE_ARTICLE.matches_any(last.lefts):
        return False
    if first.sent == last.sent:
        # "the left image and the right image" are two things.
        return _list_modifiers(last) <= _list_modifiers(first)
    return not DEFINITE_ARTICLE.matches_any(first.lefts)


def _list_modifiers(noun: Token) -> set[str]:
    """Return the words before a noun that modify it, without determiners."""
    return {word.lower_ for word in noun.lefts if not DETERMINER.matches(word)}
