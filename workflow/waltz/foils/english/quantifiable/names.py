"""Names and quotations: what they name is one thing, whatever its number."""

from spacy.tokens import Doc, Token

from waltz.foils.english.noun_phrases import NounPhrase
from waltz.foils.english.patterns import TokenPattern
from waltz.foils.english.quantifiable.noun_kinds import is_in_wordnet
from waltz.foils.english.quantifiable.syntax import (
    NAME,
    OF,
    get_words_after,
    is_singular,
)

QUOTATION_MARKS = frozenset({'"', "“", "”", "«", "»", "``", "''", "‘"})
QUOTATION_MARK = TokenPattern(words=QUOTATION_MARKS)
POSSESSIVE_ENDING = TokenPattern(tags={"POS"})
NUMBER_SIGN = TokenPattern(words={"no", "nr", "nos"})
THE = TokenPattern(words={"the"})
PROPER_NOUN = TokenPattern(tags={"NNP", "NNPS"})
PLURAL_NAME = TokenPattern(tags={"NNPS"})
NAME_BEHIND_OF = TokenPattern(tags={"NNP"}, before=OF)


def is_in_quotation_marks(phrase: NounPhrase) -> bool:
    """Return True for quoted words ('a shirt says "I love dogs"')."""
    doc, position = phrase.head.doc, phrase.head.i
    marks_before = QUOTATION_MARK.select(doc[:position])
    is_opened = len(marks_before) % 2 == 1
    return is_opened and QUOTATION_MARK.matches_any(doc[position:])


def is_inscription(phrase: NounPhrase) -> bool:
    """Return True for a noun in capitals within other text ("a game on a TV")."""
    return _is_in_capitals(phrase.head)


def precedes_label(phrase: NounPhrase) -> bool:
    """Return True before a number, a quotation or a word in capitals ("table 5", "the word STOP")."""
    return any(map(_is_label, get_words_after(phrase)))


def abbreviates_number(phrase: NounPhrase) -> bool:
    """Return True for the abbreviation of "number" ("No. 12")."""
    return NUMBER_SIGN.matches(phrase.head)


def is_name(phrase: NounPhrase) -> bool:
    """Return True for a name, and for one thing that has a name ("the Orion constellation")."""
    if _is_title(phrase.head.doc):
        return False
    if _has_capital_determiner(phrase):
        return True
    if _is_named_behind_the(phrase):
        return True
    if _has_name_without_determiner(phrase):
        return True
    return _is_tagged_as_name(phrase)


def _is_in_capitals(token: Token) -> bool:
    return len(token) > 1 and bool(token.is_upper)


def _is_label(token: Token) -> bool:
    if token.like_num or _is_in_capitals(token):
        return True
    opens_quotation = token.text in QUOTATION_MARKS or token.text == "'"
    return opens_quotation and not POSSESSIVE_ENDING.matches(token)


def _is_title(doc: Doc) -> bool:
    """Return True for a title, in which most words have a capital."""
    capitalized_words = [token for token in doc if token.is_title]
    return len(capitalized_words) > len(doc) / 2


def _has_capital_determiner(phrase: NounPhrase) -> bool:
    """Return True for a determiner with a capital that does not begin the phrase."""
    return any(token.is_title for token in phrase.determiners[1:])


def _is_named_behind_the(phrase: NounPhrase) -> bool:
    """Return True for what "the" and a name identify."""
    if not THE.matches_any(phrase.determiners):
        return False
    # "the Smiths"
    if PLURAL_NAME.matches(phrase.head) and phrase.head.is_title:
        return True
    # "the Orion constellation"
    if NAME.matches_any(phrase.words[:-1]):
        return True
    # "the city of London"
    precedes_name = NAME_BEHIND_OF.matches_any(get_words_after(phrase, 2)[1:])
    return precedes_name and is_singular(phrase.head)


def _has_name_without_determiner(phrase: NounPhrase) -> bool:
    """Return True for one thing behind its name ("Golden Gate bridge")."""
    if phrase.determiners or not is_singular(phrase.head):
        return False
    names = NAME.select(phrase.words[:-1])
    return any(name.is_title and name.i > 0 for name in names)


def _is_tagged_as_name(phrase: NounPhrase) -> bool:
    """Return True for a noun with a capital that the parser takes for a name ("the Alamo")."""
    if not PROPER_NOUN.matches(phrase.head) or not phrase.head.is_title:
        return False
    # At the start of a text a capital says nothing.
    return phrase.start > 0 or not is_in_wordnet(phrase.head.lower_)
