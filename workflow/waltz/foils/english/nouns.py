"""Singular and plural of English nouns by inflect, compared with lemminflect, exceptions to both, and numerals."""

import re
from functools import cache
from typing import TYPE_CHECKING, Literal

from lemminflect import getLemma

if TYPE_CHECKING:
    from inflect import engine as Engine

Number = Literal["sg", "pl"]

SINGULAR_DETERMINERS = {"a", "an", "another", "each", "every", "one", "that", "this"}
PLURAL_QUANTITIES = {
    "both", "eight", "few", "five", "four", "many", "multiple", "nine", "numerous", "seven", "several", "six", "ten",
    "these", "those", "three", "two", "various",
}  # fmt: skip
QUANTITIES = PLURAL_QUANTITIES | SINGULAR_DETERMINERS | {"all", "any", "half", "no", "single", "some"}
"""Words of quantity, which a quantifier replaces."""

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
"""Where inflect gives another plural than captions have, or changes it back to another singular."""
SINGULARS = {
    **{plural: singular for singular, plural in PLURALS.items()},
    **{
        f"{singular}s": singular
        for singular in ("beanie", "hoodie", "mustache", "selfie", "sharpie", "smoothie", "wheelie")
    },
    "bowties": "bowtie",
    "cookies": "cookie",
    "graffiti": "graffiti",
    "movies": "movie",
    "pajamas": "pajamas",
    "persons": "person",
    "pies": "pie",
    "scarfs": "scarf",
    "ties": "tie",
}

UNITS = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
NUMBERS = {
    **{word: number for number, word in enumerate(UNITS)},
    **{
        f"{ten}-{UNITS[unit]}" if unit else ten: 10 * tens + unit
        for tens, ten in enumerate(TENS, 2)
        for unit in range(10)
    },
    "none": 0,
}
DIGITS = re.compile(r"\d{1,4}")


@cache
def get_engine() -> "Engine":
    """Return inflect's engine, which takes two seconds to import and most instruments do without."""
    import inflect

    return inflect.engine()


@cache
def pluralise(noun: str) -> str:
    """Return the plural of a singular noun; the noun itself where it has no other form."""
    lowered = noun.lower()
    if lowered.endswith("s") and lowered in SINGULARS:
        return noun
    return _copy_case(noun, PLURALS.get(lowered) or str(get_engine().plural_noun(lowered) or lowered).lower())


@cache
def singularise(noun: str) -> str:
    """Return the singular of a plural noun; the noun itself where it has no other form."""
    lowered = noun.lower()
    if lowered in SINGULARS:
        return _copy_case(noun, SINGULARS[lowered])
    singular, lemmas = get_engine().singular_noun(lowered), getLemma(lowered, "NOUN", lemmatize_oov=False)
    return _copy_case(noun, str(lemmas[0] if lemmas and singular not in lemmas else singular or lowered).lower())


def _copy_case(noun: str, form: str) -> str:
    """Return a form of a noun with the capitals of the letters that both begin with."""
    shared = next((i for i, (a, b) in enumerate(zip(noun.lower(), form, strict=False)) if a != b), len(noun))
    return noun[:shared][: len(form)] + form[shared:]


def parse_number(answer: str) -> int | None:
    """Return the number that an answer consists of ("3", "Three.", "None."); None for any other answer."""
    words = answer.strip().rstrip(".!").lower()
    return int(words) if DIGITS.fullmatch(words) else NUMBERS.get(words)
