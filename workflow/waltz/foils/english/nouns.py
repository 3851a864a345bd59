"""Singular and plural of English nouns, from inflect, lemminflect and a list of exceptions; and
numerals.
"""

import re
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Literal

from lemminflect import getLemma

from waltz.core.number_words import NUMBER_WORDS

if TYPE_CHECKING:
    from inflect import engine as Engine

Number = Literal["sg", "pl"]

SINGULAR_DETERMINERS = {"a", "an", "another", "each", "every", "one", "that", "this"}
PLURAL_QUANTITIES = {
    "both", "eight", "few", "five", "four", "many", "multiple", "nine", "numerous", "seven", "several", "six", "ten",
    "these", "those", "three", "two", "various",
}  # fmt: skip
QUANTITIES = (
    PLURAL_QUANTITIES
    | SINGULAR_DETERMINERS
    | {"all", "any", "half", "no", "single", "some"}
)
"""Determiners and numerals that state a quantity; a quantifier replaces them."""

PLURALS = {
    "aircraft": "aircraft",
    "baggage": "baggages",
    "bikini": "bikinis",
    "bus": "buses",
    "cactus": "cacti",
    "cattle": "cattle",
    "child": "children",
    "flamingo": "flamingos",
    "furniture": "furnitures",
    "gentleman": "gentlemen",
    "golf": "golfs",
    "hoof": "hooves",
    "kiwi": "kiwis",
    "lego": "legos",
    "luggage": "luggages",
    "man": "men",
    "mine": "mines",  # not the pronoun
    "person": "people",
    "roof": "roofs",
    "schoolchild": "schoolchildren",
    "scarf": "scarves",
    "ski": "skis",
    "taxi": "taxis",
    "tennis": "tennis",
    "tuxedo": "tuxedos",
    "wildlife": "wildlife",
    "woman": "women",
}
"""Plurals for which inflect gives another plural than captions have, or another singular from the
plural.
"""
SINGULARS = {
    **{plural: singular for singular, plural in PLURALS.items()},
    "beanies": "beanie",
    "bowties": "bowtie",
    "cookies": "cookie",
    "graffiti": "graffiti",
    "hoodies": "hoodie",
    "movies": "movie",
    "mustaches": "mustache",
    "pajamas": "pajamas",
    "persons": "person",
    "pies": "pie",
    "scarfs": "scarf",
    "selfies": "selfie",
    "sharpies": "sharpie",
    "smoothies": "smoothie",
    "ties": "tie",
    "wheelies": "wheelie",
}

TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
COMPOUND_NUMERALS = product(enumerate(TENS, 2), enumerate(NUMBER_WORDS[1:10], 1))
NUMBERS = {
    **{word: number for number, word in enumerate(NUMBER_WORDS)},
    **{word: 10 * number for number, word in enumerate(TENS, 2)},
    **{
        f"{tens_word}-{unit_word}": 10 * tens + unit
        for (tens, tens_word), (unit, unit_word) in COMPOUND_NUMERALS
    },
    "none": 0,
}
"""Numerals in letters from zero to ninety-nine."""
DIGITS = re.compile(r"\d{1,4}")


@cache
def get_engine() -> "Engine":
    """Return the engine of inflect; its import takes two seconds, and most instruments do not need
    it.
    """
    import inflect

    return inflect.engine()


@cache
def pluralize(noun: str) -> str:
    """Return the plural of a singular noun; a noun without another form stays unchanged."""
    lowered = noun.lower()
    if lowered.endswith("s") and lowered in SINGULARS:
        return noun  # already a plural
    # The exceptions come before inflect.
    if lowered in PLURALS:
        return _copy_case(noun, PLURALS[lowered])
    plural = get_engine().plural_noun(lowered)
    return _copy_case(noun, str(plural or lowered).lower())


@cache
def singularize(noun: str) -> str:
    """Return the singular of a plural noun; a noun without another form stays unchanged."""
    lowered = noun.lower()
    if lowered in SINGULARS:
        return _copy_case(noun, SINGULARS[lowered])
    # False where inflect takes the noun for a singular.
    singular = get_engine().singular_noun(lowered)
    lemmas = getLemma(lowered, "NOUN", lemmatize_oov=False)
    # Where lemminflect knows the noun and inflect's singular is not among its lemmas, lemminflect
    # is right.
    if lemmas and singular not in lemmas:
        return _copy_case(noun, str(lemmas[0]).lower())
    return _copy_case(noun, str(singular or lowered).lower())


@cache
def add_article(noun: str) -> str:
    """Return the noun or noun phrase with `a` or `an`, as its pronunciation needs."""
    return str(get_engine().a(noun))


def has_other_singular(noun: str) -> bool:
    """Return True for a noun in the plural whose singular is another word."""
    return singularize(noun) != noun


def _copy_case(noun: str, form: str) -> str:
    """Return a form of a noun in which the letters that both share at the beginning have the
    capitals of the noun.
    """
    n_shared = 0
    for letter, form_letter in zip(noun.lower(), form, strict=False):
        if letter != form_letter:
            break
        n_shared += 1
    return noun[:n_shared] + form[n_shared:]


def parse_number(answer: str) -> int | None:
    """Return the number of an answer that consists of a numeral ("3", "Three.", "None."); None for
    any other answer.
    """
    words = answer.strip().rstrip(".!").lower()
    if DIGITS.fullmatch(words):
        return int(words)
    return NUMBERS.get(words)
