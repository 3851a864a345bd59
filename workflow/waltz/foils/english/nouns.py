"""Number of English nouns: plural and singular forms by inflect, held against lemminflect, and what both get wrong."""

from functools import cache
from typing import Literal

import inflect
from lemminflect import getLemma
from spacy.tokens import Token

Number = Literal["sg", "pl"]

SINGULAR_DETERMINERS = {"a", "an", "another", "each", "every", "one", "that", "this"}
PLURAL_QUANTITIES = {
    "both", "eight", "few", "five", "four", "many", "multiple", "nine", "numerous", "seven", "several", "six", "ten",
    "these", "those", "three", "two", "various",
}  # fmt: skip
ALIKE = {"aircraft", "bison", "cattle", "deer", "fish", "moose", "salmon", "sheep"}
"""Things that can be counted and have one form."""
QUANTITIES = PLURAL_QUANTITIES | SINGULAR_DETERMINERS | {"all", "any", "half", "no", "single", "some"}
"""Words that tell how many; a quantifier takes their place."""

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


@cache
def _engine() -> inflect.engine:
    return inflect.engine()


@cache
def plural_of(noun: str) -> str:
    """The plural of a singular noun; that of a noun without another one is the noun."""
    lowered = noun.lower()
    if lowered.endswith("s") and lowered in SINGULARS:
        return noun
    return _cased_as(noun, PLURALS.get(lowered) or str(_engine().plural_noun(lowered) or lowered).lower())


@cache
def singular_of(noun: str) -> str:
    """The singular of a plural noun; that of a noun without another one is the noun."""
    lowered = noun.lower()
    if lowered in SINGULARS:
        return _cased_as(noun, SINGULARS[lowered])
    found, known = _engine().singular_noun(lowered), getLemma(lowered, "NOUN", lemmatize_oov=False)
    return _cased_as(noun, str(known[0] if known and found not in known else found or lowered).lower())


def _cased_as(noun: str, other: str) -> str:
    """The other form, with the capitals of the letters that both begin with."""
    alike = next((i for i, (a, b) in enumerate(zip(noun.lower(), other, strict=False)) if a != b), len(noun))
    return noun[:alike][: len(other)] + other[alike:]


def numbers(noun: Token) -> tuple[Number, ...]:
    """The number of a noun in a parse, by its tag as far as its form allows it; both where nothing tells ("sheep")."""
    word = noun.lower_
    if word in ALIKE:
        before = {child.lower_ for child in noun.children if child.i < noun.i}
        if before & PLURAL_QUANTITIES:
            return ("pl",)
        return ("sg",) if before & SINGULAR_DETERMINERS else ("sg", "pl")
    tagged_plural = noun.tag_ in {"NNS", "NNPS", "JJ"} or (noun.tag_ == "NNP" and noun.is_sent_start)
    return ("pl",) if tagged_plural and (word.endswith("s") or singular_of(word) != word) else ("sg",)
