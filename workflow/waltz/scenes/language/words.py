"""Words of the sentences about scenes: nouns with their number, verb forms, determiners, settings."""

import re
from collections import defaultdict
from dataclasses import dataclass
from functools import cache

from waltz.scenes.lexicon import NUMBERS, read_categories, read_kinds, read_synonyms, read_verbs

TOKEN = re.compile(r"[a-z]+(?:-[a-z]+)*|\d+|[.,?!;:]")

CONTRACTIONS = {"isn't": "is not", "aren't": "are not", "there's": "there is", "he's": "he is", "she's": "she is",
                "it's": "it is", "they're": "they are", "doesn't": "does not", "don't": "do not"}  # fmt: skip

COLOURS = ("red", "green", "blue", "yellow", "orange", "purple", "black", "white", "pink", "brown", "gray", "grey")

PRONOUNS = {"he": "he", "him": "he", "she": "she", "her": "she", "it": "it", "they": "they", "them": "they"}

SETTINGS = {
    phrase: setting
    for setting, phrases in {
        "indoors": ("indoors", "inside", "at inside", "at an inside"),
        "outdoors": ("outdoors", "outside", "at outdoors", "at an outdoors", "in the outdoors", "at the outdoors"),
        "night": ("at night", "at nighttime", "at a night", "at the night"),
        "day": ("during the day", "in the daytime", "by day"),
    }.items()
    for phrase in phrases
}
"""Setting (place or time) of the scene that each phrase names."""

PICTURE_NOUNS = ("picture", "image", "photo", "photograph", "scene")
VISIBILITY_WORDS = ("shown", "pictured", "visible", "present", "here", "depicted", "seen")

PLACE_NOUNS = {
    "indoors": {"room": "rooms", "house": "houses"},
    "street": {"street": "streets", "road": "roads"},
    "grass": {"grass": "", "lawn": "lawns", "field": "fields", "meadow": "meadows"},
    "beach": {"beach": "beaches", "seashore": "seashores", "shore": "shores", "sand": ""},
    "snow": {"snow": ""},
}
"""Singular and plural of the nouns for places. `night` is a time and stands only in `at night`."""

SENSES = {
    "on": "on", "onto": "on", "upon": "on", "atop": "on", "on top of": "on",
    "under": "under", "below": "under", "beneath": "under", "underneath": "under",
    "in": "in", "inside": "in", "inside of": "in", "into": "in", "within": "in",
    "behind": "behind", "in back of": "behind", "in front of": "in front of", "before": "in front of",
    "over": "over", "above": "over",
    "next to": "next to", "beside": "next to", "alongside": "next to", "at": "at",
    "by": "near", "near": "near", "close to": "near",
    "to the left of": "left of", "left of": "left of", "on the left of": "left of",
    "to the right of": "right of", "right of": "right of", "on the right of": "right of",
    "outside": "out of", "outside of": "out of", "out of": "out of",
    "off": "off", "off of": "off", "away from": "far", "far from": "far", "from": "off",
    "with": "with", "without": "without",
    "around": "around", "through": "through", "across": "across", "along": "along", "against": "against",
    "towards": "towards", "toward": "towards", "between": "between", "past": "past", "beyond": "past",
    "among": "between", "down": "down", "up": "up", "for": "for", "of": "of", "about": "about", "to": "to",
}  # fmt: skip
"""Sense of each preposition."""


@dataclass(frozen=True)
class Noun:
    """A noun form: the kinds or the place it denotes, and its grammatical number."""

    kinds: frozenset[str]
    plural: bool
    place: str = ""
    mass: bool = False


UNBOUNDED = 99


@dataclass(frozen=True)
class Quantifier:
    """Number of individuals that a noun phrase denotes.

    Attributes:
        least: Fewest that make it true.
        most: Most that make it true.
        never_below: Fewer than this make it false; between it and `least` it is open.
        never_above: More than this make it false; between `most` and it it is open.
        every: Whether it speaks of all there are.
    """

    least: int
    most: int = UNBOUNDED
    never_below: int | None = None
    never_above: int | None = None
    every: bool = False

    def check(self, low: int, high: int) -> bool | None:
        """Decide whether a number between low and high fits; None where that is open."""
        below = self.least if self.never_below is None else self.never_below
        above = self.most if self.never_above is None else self.never_above
        if high < below or low > above:
            return False
        if low >= self.least and high <= self.most:
            return True
        return None


@dataclass(frozen=True)
class Determiner:
    """Quantities that a determiner denotes with a noun of each number; None where the two do not agree."""

    singular: Quantifier | None = None
    plural: Quantifier | None = None
    mass: Quantifier | None = None

    def get_quantifier(self, noun: Noun) -> Quantifier | None:
        """Return the quantity that it denotes with a noun."""
        if noun.plural:
            return self.plural
        return self.mass if self.singular is None and noun.mass else self.singular


BARE_PLURAL = Quantifier(2, never_below=1)
NO_DETERMINER = Determiner(plural=BARE_PLURAL, mass=Quantifier(1))

NUMERAL_OFFSETS: dict[str, tuple[int | None, int | None]] = {
    **dict.fromkeys(("exactly", "only", "just", "the", "all"), (0, 0)),
    **dict.fromkeys(("fewer than", "less than"), (None, -1)),
    "more than": (1, None),
    "at least": (0, None),
    "at most": (None, 0),
}
"""Prefixes of a numeral, with the offsets of the minimum and the maximum; None for unbounded."""


def build_numeral(number: int, least: int | None = 0, most: int | None = 0) -> Determiner:
    """Build the determiner of a numeral and the offsets of its prefix."""
    quantifier = Quantifier(0 if least is None else number + least, UNBOUNDED if most is None else number + most)
    return Determiner(singular=quantifier) if number == 1 else Determiner(plural=quantifier)


@cache
def list_determiners() -> dict[str, Determiner]:
    """Return every determiner except those with a numeral."""
    plural = {
        "a number of": Quantifier(2), "a group of": Quantifier(2), "multiple": Quantifier(2), "various": Quantifier(2),
        "several": Quantifier(3, never_below=2), "a few": Quantifier(3, 5, 2, UNBOUNDED),
        "few": Quantifier(2, 4, 1, UNBOUNDED), "many": Quantifier(5, never_below=3),
        "lots of": Quantifier(5, never_below=3), "a lot of": Quantifier(5, never_below=3),
        "a couple of": Quantifier(2, 2), "both": Quantifier(2, 2), "a pair of": Quantifier(2, 2),
        "all": Quantifier(2, every=True), "all the": Quantifier(2, every=True), "all of the": Quantifier(2, every=True),
        "these": Quantifier(2), "those": Quantifier(2),
    }  # fmt: skip
    one, only_one, every = Quantifier(1), Quantifier(1, 1), Quantifier(1, every=True)
    return {
        **{words: Determiner(plural=quantifier) for words, quantifier in plural.items()},
        **dict.fromkeys(("a", "an", "another", "this", "that"), Determiner(singular=one)),
        **dict.fromkeys(("a single", "exactly a single"), Determiner(singular=only_one)),
        **dict.fromkeys(("every", "each"), Determiner(singular=every)),
        **dict.fromkeys(("the", "his", "her", "its", "their"), Determiner(one, BARE_PLURAL)),
        "any": Determiner(one, one),
        "no": Determiner(Quantifier(0, 0), Quantifier(0, 0)),
        "some": Determiner(plural=Quantifier(2), mass=one),
    }


@cache
def list_nouns() -> dict[str, list[Noun]]:
    """Return what each noun form may denote."""
    nouns: dict[str, list[Noun]] = defaultdict(list)
    for kind in read_kinds().values():
        nouns[kind.name].append(Noun(frozenset({kind.name}), False))
        nouns[kind.plural].append(Noun(frozenset({kind.name}), True))
        if kind.group == "food":
            nouns[kind.name].append(Noun(frozenset({kind.name}), False, mass=True))
    for category in read_categories().values():
        nouns[category.name].append(Noun(frozenset(category.members), False, mass=category.mass))
        nouns[category.plural].append(Noun(frozenset(category.members), True))
    for singular, (plural, kinds) in read_synonyms().items():
        nouns[singular].append(Noun(frozenset(kinds), False))
        nouns[plural].append(Noun(frozenset(kinds), True))
    for place, forms in PLACE_NOUNS.items():
        for singular, plural in forms.items():
            nouns[singular].append(Noun(frozenset(), False, place, mass=place in ("grass", "snow")))
            if plural:
                nouns[plural].append(Noun(frozenset(), True, place))
    return dict(nouns)


@cache
def list_numerals() -> dict[str, int]:
    """Return the value of each number word and digit string."""
    return {word: value for value, word in enumerate(NUMBERS)} | {str(value): value for value in range(100)}


@cache
def list_verb_forms() -> dict[str, list[tuple[str, str]]]:
    """Return each verb form with the verbs and forms it may be: third, base, ing, pp (past participle)."""
    forms: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for verb in read_verbs().values():
        for form, word in (("third", verb.third), ("base", verb.base), ("ing", verb.name), ("pp", verb.participle)):
            if word:
                forms[word].append((verb.name, form))
    return dict(forms)


def tokenize(text: str) -> tuple[str, ...]:
    """Split a text into lower-case words, numerals and punctuation marks."""
    text = text.lower().replace("’", "'")
    for short, full in CONTRACTIONS.items():
        text = text.replace(short, full)
    return tuple(TOKEN.findall(text))
