"""Words of the sentences about scenes: nouns with their number, verb forms, determiners, settings."""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from waltz.scenes.lexicon import (
    NUMBERS,
    SceneVerb,
    read_kinds,
    read_scene_categories,
    read_scene_verbs,
    read_synonyms,
)

TOKEN = re.compile(r"[a-z]+(?:-[a-z]+)*|\d+|[.,?!;:]")

# Long forms, so that the grammar knows one form of each.
CONTRACTIONS = {"isn't": "is not", "aren't": "are not", "there's": "there is", "he's": "he is", "she's": "she is",
                "it's": "it is", "they're": "they are", "doesn't": "does not", "don't": "do not"}  # fmt: skip

COLORS = {
    "red": "red", "green": "green", "blue": "blue", "yellow": "yellow", "orange": "orange", "purple": "purple",
    "black": "black", "white": "white", "pink": "pink", "brown": "brown", "gray": "gray", "grey": "gray",
}  # fmt: skip
"""Color that each color adjective names."""

PRONOUNS = {
    "he": "he", "him": "he", "she": "she", "her": "she", "it": "it", "they": "they", "them": "they",
}  # fmt: skip
"""Subject form of each pronoun."""

SETTINGS = {
    **dict.fromkeys(("indoors", "inside", "at inside", "at an inside"), "indoors"),
    **dict.fromkeys(
        ("outdoors", "outside", "at outdoors", "at an outdoors"), "outdoors"
    ),
    **dict.fromkeys(("in the outdoors", "at the outdoors"), "outdoors"),
    **dict.fromkeys(
        ("at night", "at nighttime", "at a night", "at the night"), "night"
    ),
    **dict.fromkeys(("during the day", "in the daytime", "by day"), "day"),
}
"""Setting (place or time) of the scene that each phrase names."""

PICTURE_NOUNS = ("picture", "image", "photo", "photograph", "scene")
VISIBILITY_WORDS = (
    "shown",
    "pictured",
    "visible",
    "present",
    "here",
    "depicted",
    "seen",
)

PLACE_NOUNS = {
    "indoors": {"room": "rooms", "house": "houses"},
    "street": {"street": "streets", "road": "roads"},
    "grass": {"grass": "", "lawn": "lawns", "field": "fields", "meadow": "meadows"},
    "beach": {
        "beach": "beaches",
        "seashore": "seashores",
        "shore": "shores",
        "sand": "",
    },
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
"""Number that no scene reaches, for a quantifier without an upper or lower limit."""


@dataclass(frozen=True)
class Quantifier:
    """Number of individuals that a noun phrase denotes.

    Attributes:
        minimum: Smallest number that makes it true.
        maximum: Largest number that makes it true.
        open_below: How many of the next numbers below `minimum` leave it open; smaller numbers make
            it false.
        open_above: How many of the next numbers above `maximum` leave it open; larger numbers make
            it false.
        every: Whether it speaks of all individuals.
    """

    minimum: int
    maximum: int = UNBOUNDED
    open_below: int = 0
    open_above: int = 0
    every: bool = False

    def check(self, low: int, high: int) -> bool | None:
        """Return whether an unknown number between low and high makes the quantifier true; None if
        that is open.
        """
        # Whatever the number is between low and high, it is outside what can be true, or fits.
        is_too_low = high < self.minimum - self.open_below
        is_too_high = low > self.maximum + self.open_above
        is_certain = self.minimum <= low and high <= self.maximum
        if is_too_low or is_too_high:
            return False
        if is_certain:
            return True
        return None


@dataclass(frozen=True)
class Determiner:
    """Hold the quantities of a determiner by the noun's number; None if determiner and noun do not
    agree.
    """

    singular: Quantifier | None = None
    plural: Quantifier | None = None
    mass: Quantifier | None = None

    def get_quantifier(self, noun: Noun) -> Quantifier | None:
        """Return the quantity that the determiner denotes with a noun."""
        if noun.plural:
            return self.plural
        if self.singular is None and noun.mass:
            return self.mass
        return self.singular


BARE_PLURAL = Quantifier(2, open_below=1)
NO_DETERMINER = Determiner(plural=BARE_PLURAL, mass=Quantifier(1))

NUMERAL_OFFSETS = {
    **dict.fromkeys(("exactly", "only", "just", "the", "all"), (0, 0)),
    **dict.fromkeys(("fewer than", "less than"), (-UNBOUNDED, -1)),
    "more than": (1, UNBOUNDED),
    "at least": (0, UNBOUNDED),
    "at most": (-UNBOUNDED, 0),
}
"""Prefixes of a numeral, with the offsets of the minimum and the maximum."""


def build_numeral(number: int, minimum_offset: int, maximum_offset: int) -> Determiner:
    """Build the determiner of a numeral with a prefix, as `at least two`, from the offsets of
    `NUMERAL_OFFSETS`.
    """
    quantifier = Quantifier(number + minimum_offset, number + maximum_offset)
    if number == 1:
        return Determiner(singular=quantifier)
    return Determiner(plural=quantifier)


@cache
def list_determiners() -> dict[str, Determiner]:
    """Return every determiner except those with a numeral."""
    # Determiners of a plural noun. `several` is true of three and more, open for two; `few` is open
    # above four.
    plural = {
        "a number of": Quantifier(2), "a group of": Quantifier(2), "multiple": Quantifier(2), "various": Quantifier(2),
        "several": Quantifier(3, open_below=1), "a few": Quantifier(3, 5, open_below=1, open_above=UNBOUNDED),
        "few": Quantifier(2, 4, open_below=1, open_above=UNBOUNDED), "many": Quantifier(5, open_below=2),
        "lots of": Quantifier(5, open_below=2), "a lot of": Quantifier(5, open_below=2),
        "a couple of": Quantifier(2, 2), "both": Quantifier(2, 2), "a pair of": Quantifier(2, 2),
        "all": Quantifier(2, every=True), "all the": Quantifier(2, every=True), "all of the": Quantifier(2, every=True),
        "these": Quantifier(2), "those": Quantifier(2),
    }  # fmt: skip
    at_least_one, exactly_one, every = (
        Quantifier(1),
        Quantifier(1, 1),
        Quantifier(1, every=True),
    )
    none = Quantifier(0, 0)
    return {
        **{
            words: Determiner(plural=quantifier) for words, quantifier in plural.items()
        },
        **dict.fromkeys(
            ("a", "an", "another", "this", "that"), Determiner(singular=at_least_one)
        ),
        **dict.fromkeys(
            ("a single", "exactly a single"), Determiner(singular=exactly_one)
        ),
        **dict.fromkeys(("every", "each"), Determiner(singular=every)),
        **dict.fromkeys(
            ("the", "his", "her", "its", "their"), Determiner(at_least_one, BARE_PLURAL)
        ),
        "any": Determiner(at_least_one, at_least_one),
        "no": Determiner(none, none),
        "some": Determiner(plural=Quantifier(2), mass=at_least_one),
    }


@cache
def list_nouns() -> dict[str, list[Noun]]:
    """Return for each noun form the nouns that it may denote."""
    nouns: dict[str, list[Noun]] = defaultdict(list)

    def add(singular: str, plural: str, kinds: Iterable[str]) -> None:
        nouns[singular].append(Noun(frozenset(kinds), False))
        nouns[plural].append(Noun(frozenset(kinds), True))

    # A dog and dogs; food stands without an article, too: `a pizza`, `pizza`.
    for kind in read_kinds().values():
        add(kind.name, kind.plural, [kind.name])
        if kind.group == "food":
            nouns[kind.name].append(Noun(frozenset({kind.name}), False, mass=True))
    # An animal and animals stand for any of several kinds; `food` has no article.
    for category in read_scene_categories().values():
        nouns[category.name].append(
            Noun(frozenset(category.members), False, mass=category.mass)
        )
        nouns[category.plural].append(Noun(frozenset(category.members), True))
    # Nouns that name no kind are of things that are never drawn: no scene has one.
    for singular, (plural, kinds) in read_synonyms().items():
        add(singular, plural, kinds)
    # The place of the scene is one thing that has no kind.
    for place_name, forms in PLACE_NOUNS.items():
        for singular, plural in forms.items():
            nouns[singular].append(
                Noun(
                    frozenset(), False, place_name, mass=place_name in ("grass", "snow")
                )
            )
            if plural:
                nouns[plural].append(Noun(frozenset(), True, place_name))
    return dict(nouns)


@cache
def list_numerals() -> dict[str, int]:
    """Return the value of each number word and digit string."""
    numerals = {word: value for value, word in enumerate(NUMBERS)}
    for value in range(100):
        numerals[str(value)] = value
    return numerals


@cache
def list_verbs_by_form() -> dict[tuple[str, str], list[SceneVerb]]:
    """Return the verbs that a word can be a form of, by the form (third, base, ing, participle) and
    the word.
    """
    verbs: dict[tuple[str, str], list[SceneVerb]] = defaultdict(list)
    for verb in read_scene_verbs().values():
        verbs["third", verb.third].append(verb)
        verbs["base", verb.base].append(verb)
        verbs["ing", verb.name].append(verb)
        if verb.participle:
            verbs["participle", verb.participle].append(verb)
    return dict(verbs)


def tokenize(text: str) -> tuple[str, ...]:
    """Split a text into lower-case words, numerals and punctuation marks."""
    text = text.lower().replace("’", "'")
    for short, full in CONTRACTIONS.items():
        text = text.replace(short, full)
    return tuple(TOKEN.findall(text))
