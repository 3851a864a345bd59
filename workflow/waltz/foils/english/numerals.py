"""Numerals of a caption that count things, and the reasons why others count nothing."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from spacy.tokens import Doc, Token

from waltz.core.number_words import NUMBER_WORDS
from waltz.foils.candidates import Refusal
from waltz.foils.english.nouns import NUMBERS
from waltz.foils.english.patterns import TokenPattern, matches_one_of

NO_NUMERAL = "the caption has no numeral from two on"
NOT_COUNTING = "a numeral stands in a name, a measure, an estimate or a compound"
NO_COUNTED_NOUN = "a numeral counts no plural noun"
DENIED = "the things that a numeral counts are denied or quoted"
RESUMED = "a later word refers to the number"

LISTED = (
    "nsubj",
    "appos",
    "conj",
    "ROOT",
    "dep",
    "npadvmod",
    "pobj",
    "dobj",
    "nsubjpass",
)
# "Each other" refers to no number.
NOT_EACH = TokenPattern(excluded_words=("each",))
NUMERAL = TokenPattern(tags=("CD",))
COMMON_PLURAL = TokenPattern(tags=("NNS",))
PLURAL_IN_COMPOUND = TokenPattern(tags=("NNS",), relations=("compound",))
NAME = TokenPattern(tags=("NNP", "NNPS"))
NOUN = TokenPattern(tags=("NN", "NNS", "NNP", "NNPS"))
DETERMINER = TokenPattern(tags=("DT", "PDT", "PRP$", "POS", "JJ", "JJR", "JJS"))
PHRASE_BREAKS = (NUMERAL, TokenPattern(tags=("IN", "TO", "WDT")))
# Words before a numeral with which it states no count: estimates, ranges, ordinals, names.
NO_COUNT_BEFORE = frozenset((
    "about", "all", "almost", "another", "approximately", "approx", "around", "at", "barely", "both", "chapter", "each",
    "every", "first", "following", "gate", "last", "least", "level", "maybe", "most", "nearly", "next", "no", "not",
    "number", "or", "other", "over", "page", "past", "perhaps", "phase", "possibly", "previous", "remaining", "roughly",
    "same", "some", "than", "these", "those", "to", "top", "under",
))  # fmt: skip
SHARE_OF = TokenPattern(words=("average", "maximum", "minimum", "out", "sum", "total"))
"""Words behind which "of" and a numeral are a bound, a sum or a share ("three out of four")."""
SPOILING_WORDS = (
    TokenPattern(words=NO_COUNT_BEFORE),
    TokenPattern(words=("of",), head=SHARE_OF),
    NUMERAL,
    NAME,
)
PLACES = frozenset(("about", "around", "at", "over", "past", "to", "under"))
"""Words that are prepositions of place as often as estimates ("over two bridges")."""
# "two or three dogs", "two to three", "two and a half", "two dozen".
NO_COUNT_AFTER = frozenset((
    "and", "bed", "bedroom", "by", "color", "colour", "day", "door", "dozen", "foot", "hour", "hundred", "inch",
    "lane", "layer", "less", "level", "lined", "man", "mile", "million", "minute", "more", "of", "or", "other",
    "out", "person", "piece", "plus", "point", "pound", "quarter", "room", "seat", "seater", "sided", "storey",
    "story", "third", "thousand", "tier", "tiered", "to", "tone", "toned", "way", "wheel", "wheeled", "x",
    "year",
))  # fmt: skip
STATES_EXACTLY = frozenset(("exactly", "just", "only"))
UNITS = frozenset((
    "acres", "ages", "am", "blocks", "bucks", "calories", "centimeters", "centimetres", "cents", "centuries",
    "cm", "couples", "days", "decades", "degrees", "dollars", "dozens", "eighths", "eighties", "euros",
    "evenings", "feet", "fifths", "fifties", "forties", "fourths", "ft", "gallons", "goals", "grades", "grams",
    "halves", "hours", "hundreds", "inches", "innings", "kg", "kilograms", "kilometers", "kilometres", "kilos",
    "kinds", "km", "knots", "lbs", "liters", "litres", "meters", "metres", "miles", "millions", "minutes", "mm",
    "months", "mornings", "mph", "nights", "nineties", "oclock", "ounces", "pence", "percent", "pints", "pm",
    "points", "pounds", "quarters", "quarts", "seasons", "seconds", "seventies", "shades", "sixths", "sixties",
    "sizes", "sorts", "stars", "states", "steps", "storeys", "stories", "teens", "tenths", "thirds", "thirties",
    "thousands", "times", "tonnes", "tons", "triplets", "twenties", "twins", "types", "volts", "watts", "ways",
    "weekends", "weeks", "yards", "years",
))  # fmt: skip
"""Nouns that measure: with another number the text tells of a size, a time or a share."""
RESUMING = frozenset((
    "both", "either", "neither", "respectively", "duo", "trio", "former", "latter", "half",
))  # fmt: skip
RESUMING_WORDS = (
    TokenPattern(words=RESUMING),
    # "Two dogs, one black and the other white" lists the counted things.
    TokenPattern(words=("one", "others"), relations=LISTED),
    TokenPattern(words=("other",), relations=LISTED, before=NOT_EACH),
)
"""Words with which a caption comes back to the number of the things."""
DENYING = TokenPattern(
    words=("no", "not", "n't", "without", "never", "neither", "nor", "none")
)
DIGITS = re.compile("[1-9][0-9]?")
"""Numerals in digits that may count: to 99, as longer ones are years, prices or sizes."""
NUMBER_SIGN = re.compile(r"no\.\s*\d", re.IGNORECASE)
SUBJECT = TokenPattern(relations=("nsubj", "nsubjpass"))
HYPOTHETICAL = TokenPattern(words=("if", "would", "could", "might", "may"))
# An apostrophe inside a word or behind it ("the boys' two dogs") is no quotation mark.
QUOTATION_MARKS = re.compile(r"[\"“”«»]|(?<!\S)['‘‚]|(?<=[.,!?])['’]")


@dataclass(frozen=True)
class Count:
    """A numeral that states the number of things in a caption.

    Attributes:
        numeral: The numeral, from two on.
        number: Its number.
        noun: The plural noun that it counts.
    """

    numeral: Token
    number: int
    noun: Token

    @property
    def is_exact(self) -> bool:
        """True where the caption says that there are no more things ("only two dogs")."""
        before = self.numeral.doc[max(self.numeral.i - 1, 0) : self.numeral.i]
        return any(token.lower_ in STATES_EXACTLY for token in before)

    @property
    def is_definite(self) -> bool:
        """True where a determiner, possessor or adjective precedes the numeral ("the two dogs")."""
        before = self.numeral.doc[max(self.numeral.i - 1, 0) : self.numeral.i]
        return DETERMINER.matches_any(before)

    def write(self, number: int) -> str:
        """Return another number as the numeral is written: in digits or letters, with its capital."""
        if self.numeral.text.isdigit() or number >= len(NUMBER_WORDS):
            return str(number)
        word = NUMBER_WORDS[number]
        return word.capitalize() if self.numeral.text[0].isupper() else word


def find_counts(doc: Doc) -> Iterator[Count | Refusal]:
    """Yield the numerals of a caption that count things, and a refusal for each other numeral."""
    numerals = [token for token in doc if read_numeral(token) is not None]
    if not numerals:
        yield Refusal(NO_NUMERAL)
    for numeral in numerals:
        yield _build_count(numeral)


def read_numeral(token: Token) -> int | None:
    """Return the number of a word that is a numeral from two on; None for any other word."""
    word = token.lower_
    if DIGITS.fullmatch(word):
        number = int(word)
    else:
        number = NUMBERS.get(word, 0)
    if number < 2:
        return None
    return number


def _build_count(numeral: Token) -> Count | Refusal:
    """Return what a numeral counts, or a refusal."""
    number = read_numeral(numeral)
    assert number is not None
    if not NUMERAL.matches(numeral) or not _stands_alone(numeral):
        return Refusal(NOT_COUNTING)
    noun = _find_noun(numeral)
    if not _counts_noun(numeral, noun):
        return Refusal(NO_COUNTED_NOUN)
    if noun.lower_ in UNITS:
        return Refusal(NOT_COUNTING)
    if is_denied(noun) or is_quoted(numeral):
        return Refusal(DENIED)
    if _is_resumed(noun):
        return Refusal(RESUMED)
    return Count(numeral, number, noun)


def _stands_alone(numeral: Token) -> bool:
    """Return True for a numeral with spaces around it that no neighbor makes an estimate, a range,
    a name or a part of a compound.
    """
    doc = numeral.doc
    if not numeral.whitespace_ or _is_modified(numeral):
        return False
    if numeral.i > 0 and numeral.text[0].isupper():
        return False
    after = doc[numeral.i + 1 : numeral.i + 2]
    if any(_ends_count(token) for token in after):
        return False
    if numeral.i == 0:
        return True
    before = doc[numeral.i - 1]
    return not _spoils_count(before, numeral)


def _is_modified(numeral: Token) -> bool:
    """Return True where words other than "exactly" belong to a numeral ("more than two")."""
    return any(child.lower_ not in STATES_EXACTLY for child in numeral.children)


def _ends_count(token: Token) -> bool:
    """Return True for a word that, after a numeral, makes it no count."""
    is_punctuation = bool(token.is_punct)
    return is_punctuation or token.lower_ in NO_COUNT_AFTER or NUMERAL.matches(token)


def _spoils_count(before: Token, numeral: Token) -> bool:
    """Return True for a word that, before a numeral, makes it no count."""
    if before.lower_ in PLACES:
        return not _is_place(before, numeral)
    if matches_one_of(before, SPOILING_WORDS):
        return True
    # "#2", "B-2"
    if not before.whitespace_:
        return True
    # "table 5"
    return NOUN.matches(before) and bool(numeral.text.isdigit())


def _is_place(before: Token, numeral: Token) -> bool:
    """Return True for a preposition of place, which governs the noun ("walks around two dogs"), and
    False for an estimate ("around two dogs").
    """
    if before.i == 0:
        return False
    governs_noun: bool = before == numeral.head.head
    return governs_noun and before.dep_ == "prep"


def _find_noun(numeral: Token) -> Token:
    """Return the noun that a numeral counts, as far as the parser finds it."""
    noun = numeral.head
    # "Two dogs sleep": the parser may take the verb for the head of a compound.
    compounds = noun.doc[numeral.i + 1 : noun.i]
    plural = PLURAL_IN_COMPOUND.find(compounds[-1:])
    if plural is None or COMMON_PLURAL.matches(noun):
        return noun
    return plural


def _counts_noun(numeral: Token, noun: Token) -> bool:
    """Return True where a numeral counts a plural common noun behind it."""
    if numeral.dep_ != "nummod" or noun.i < numeral.i:
        return False
    if not COMMON_PLURAL.matches(noun):
        return False
    between = noun.doc[numeral.i + 1 : noun.i]
    if any(_breaks_phrase(token) for token in between):
        return False
    # "two dogs' bowls", "two hands-on lessons"
    follower = noun.doc[noun.i + 1 : noun.i + 2]
    return not any(token.text in ("-", "/", "'", "’", "'s") for token in follower)


def _breaks_phrase(token: Token) -> bool:
    """Return True for a word that cannot stand between a numeral and the noun that it counts."""
    if token.text in (",", "-"):
        return False
    is_punctuation = bool(token.is_punct)
    return is_punctuation or matches_one_of(token, PHRASE_BREAKS)


def is_number_sign(token: Token) -> bool:
    """Return True for the abbreviation of "number" before a number ("No. 12")."""
    return bool(NUMBER_SIGN.match(token.doc.text, token.idx))


def _denies(token: Token) -> bool:
    return DENYING.matches(token) and not is_number_sign(token)


def is_denied(noun: Token) -> bool:
    """Return True for a noun whose thing a negation or a condition takes away."""
    # "no more than two cats"
    if any(map(_denies, noun.doc[noun.left_edge.i : noun.i])):
        return True
    return any(_denies_later_noun(word, noun) for word in (noun, *noun.ancestors))


def _denies_later_noun(governor: Token, noun: Token) -> bool:
    """Return True where a word above a noun, or the noun, has a negation or condition before it."""
    # "Two chairs without cushions" denies no chairs.
    words_before = [child for child in governor.children if child.i < noun.i]
    if any(map(_denies, (governor, *words_before))):
        return True
    if HYPOTHETICAL.matches_any(words_before):
        return True
    # "No man has two hats", "neither dog is on a leash"
    subject = SUBJECT.find(words_before)
    if subject is None:
        return False
    return any(map(_denies, (subject, *subject.children)))


def is_quoted(token: Token) -> bool:
    """Return True for a word behind an opened quotation."""
    before = token.doc[: token.i].text
    return len(QUOTATION_MARKS.findall(before)) % 2 == 1


def _is_resumed(noun: Token) -> bool:
    """Return True where a word of the caption refers to the number of the things."""
    return any(matches_one_of(token, RESUMING_WORDS) for token in noun.doc)
