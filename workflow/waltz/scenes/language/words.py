"""Words of the sentences about scenes: nouns with their number, verb forms, determiners, settings."""

import re
from dataclasses import dataclass
from functools import cache

from waltz.scenes.lexicon import NUMBERS, read_categories, read_kinds, read_places, read_synonyms, read_verbs

TOKEN = re.compile(r"[a-z]+(?:-[a-z]+)*|\d+|[.,?!;:]")

CONTRACTIONS = {"isn't": "is not", "aren't": "are not", "there's": "there is", "he's": "he is", "she's": "she is",
                "it's": "it is", "they're": "they are", "doesn't": "does not", "don't": "do not"}  # fmt: skip

COLOURS = ("red", "green", "blue", "yellow", "orange", "purple", "black", "white", "pink", "brown", "gray", "grey")

PRONOUNS = {"he": "he", "him": "he", "she": "she", "it": "it", "they": "they", "them": "they"}

SETTINGS = {
    "indoors": "indoors",
    "inside": "indoors",
    "outdoors": "outdoors",
    "outside": "outdoors",
    "at night": "night",
    "at nighttime": "night",
    "during the day": "day",
    "in the daytime": "day",
    "by day": "day",
    "at outdoors": "outdoors",
    "at an outdoors": "outdoors",
    "in the outdoors": "outdoors",
    "at the outdoors": "outdoors",
    "at inside": "indoors",
    "at an inside": "indoors",
    "at a night": "night",
    "at the night": "night",
}
"""Phrases for the setting (place or time) of the scene."""

PICTURE_PHRASES = tuple(
    f"{preposition} {article} {noun}"
    for preposition in ("in", "on")
    for article in ("the", "this")
    for noun in ("picture", "image", "photo", "photograph", "scene")
)
"""Phrases without meaning of their own, because every sentence is about the picture."""

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

VISIBILITY_WORDS = ("shown", "pictured", "visible", "present", "here", "depicted", "seen")


@dataclass(frozen=True)
class Noun:
    """A noun form: the kinds or the place it denotes, and its grammatical number."""

    kinds: frozenset[str]
    plural: bool
    place: str = ""
    mass: bool = False


def tokenize(text: str) -> tuple[str, ...]:
    """Split a text into lower-case words, numerals and punctuation marks."""
    text = text.lower().replace("’", "'")
    for short, full in CONTRACTIONS.items():
        text = text.replace(short, full)
    return tuple(TOKEN.findall(text))


def split_words(words: str) -> tuple[str, ...]:
    """Return a phrase as a tuple of words."""
    return tuple(words.split())


@cache
def list_nouns() -> dict[tuple[str, ...], tuple[Noun, ...]]:
    """Return every noun form, as a tuple of words."""
    table: dict[tuple[str, ...], list[Noun]] = {}

    def add(word: str, noun: Noun) -> None:
        table.setdefault(split_words(word), []).append(noun)

    for kind in read_kinds().values():
        add(kind.name, Noun(frozenset({kind.name}), False))
        add(kind.plural, Noun(frozenset({kind.name}), True))
        if kind.group == "food":
            add(kind.name, Noun(frozenset({kind.name}), False, mass=True))
    for category in read_categories().values():
        add(category.name, Noun(frozenset(category.members), False, mass=category.mass))
        add(category.plural, Noun(frozenset(category.members), True))
    for noun, (plural, kinds) in read_synonyms().items():
        add(noun, Noun(frozenset(kinds), False))
        add(plural, Noun(frozenset(kinds), True))
    for place in read_places().values():
        for word, name in PLACE_NOUNS.items():
            if name == place.name:
                add(word, Noun(frozenset(), False, place=place.name, mass=place.name in ("grass", "snow", "night")))
    for word in ("streets", "roads", "rooms", "houses", "beaches", "seashores", "shores", "lawns", "fields", "meadows"):
        add(word, Noun(frozenset(), True, place=PLACE_NOUNS[word[:-2] if word == "beaches" else word[:-1]]))
    return {key: tuple(nouns) for key, nouns in table.items()}


PLACE_NOUNS = {
    "room": "indoors",
    "house": "indoors",
    "street": "street",
    "road": "street",
    "grass": "grass",
    "lawn": "grass",
    "field": "grass",
    "meadow": "grass",
    "beach": "beach",
    "seashore": "beach",
    "shore": "beach",
    "sand": "beach",
    "snow": "snow",
}
"""Nouns for places. `night` is a time and stands only in `at night`."""


@cache
def list_numerals() -> dict[str, int]:
    """Return the value of each number word and digit string."""
    return {word: value for value, word in enumerate(NUMBERS)} | {str(value): value for value in range(100)}


@cache
def list_verb_forms() -> dict[str, tuple[tuple[str, str], ...]]:
    """Return each verb form with the verbs and forms it may be: third, base, ing, participle."""
    table: dict[str, list[tuple[str, str]]] = {}
    for verb in read_verbs().values():
        for form, word in (("third", verb.third), ("base", verb.base), ("ing", verb.name), ("pp", verb.participle)):
            if word:
                table.setdefault(word, []).append((verb.name, form))
    return {word: tuple(forms) for word, forms in table.items()}


@cache
def index_phrases(table: str) -> dict[str, tuple[tuple[str, ...], ...]]:
    """Return the entries of `prepositions`, `settings` or `frames` by first word, longest first."""
    entries = {"prepositions": tuple(SENSES), "settings": tuple(SETTINGS), "frames": PICTURE_PHRASES}[table]
    by_first: dict[str, list[tuple[str, ...]]] = {}
    for entry in entries:
        by_first.setdefault(entry.split()[0], []).append(split_words(entry))
    return {first: tuple(sorted(phrases, key=len, reverse=True)) for first, phrases in by_first.items()}


@cache
def compile_word_pattern(words: str) -> re.Pattern[str]:
    """Compile a pattern that matches the words as whole words only."""
    return re.compile(rf"(?<![\w-]){re.escape(words)}(?![\w-])")


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
    """Determiner of a noun: the quantity it denotes and the grammatical numbers it agrees with."""

    quantifier: Quantifier
    singular: bool
    plural: bool
    bare_singular_verb: bool = False


BARE_PLURAL = Determiner(Quantifier(2, never_below=1), False, True)
"""No determiner: a bare plural."""

AT_LEAST_ONE = Quantifier(1)

NUMERAL_BOUNDS: dict[tuple[str, ...], tuple[int | None, int | None]] = {
    ("exactly",): (0, 0),
    ("only",): (0, 0),
    ("just",): (0, 0),
    ("at", "least"): (0, None),
    ("at", "most"): (None, 0),
    ("more", "than"): (1, None),
    ("fewer", "than"): (None, -1),
    ("less", "than"): (None, -1),
    ("the",): (0, 0),
    ("all",): (0, 0),
    (): (0, 0),
}
"""Prefixes of a numeral, with the offsets of the minimum and the maximum; None for unbounded."""


def build_numeral(prefix: tuple[str, ...], number: int) -> Determiner:
    """Build `exactly three`, `at least two`, `one`."""
    fewest, most = NUMERAL_BOUNDS[prefix]
    quantifier = Quantifier(0 if fewest is None else number + fewest, UNBOUNDED if most is None else number + most)
    return Determiner(quantifier, number == 1, number != 1)


@cache
def list_determiners() -> dict[tuple[str, ...], Determiner]:
    """Return every determiner except those with a numeral."""
    some = Determiner(Quantifier(1), True, False)
    several = {
        "some": Quantifier(2), "a number of": Quantifier(2), "multiple": Quantifier(2), "various": Quantifier(2),
        "several": Quantifier(3, never_below=2), "a few": Quantifier(3, 5, 2, UNBOUNDED),
        "few": Quantifier(2, 4, 1, UNBOUNDED),
        "many": Quantifier(5, never_below=3), "lots of": Quantifier(5, never_below=3),
        "a lot of": Quantifier(5, never_below=3), "a couple of": Quantifier(2, 2), "both": Quantifier(2, 2),
        "a pair of": Quantifier(2, 2), "all": Quantifier(2, every=True), "all the": Quantifier(2, every=True),
        "all of the": Quantifier(2, every=True), "these": Quantifier(2), "those": Quantifier(2),
    }  # fmt: skip
    table = {split_words(words): Determiner(quantifier, False, True) for words, quantifier in several.items()}
    table[("a", "group", "of")] = Determiner(Quantifier(2), False, True, bare_singular_verb=True)
    table |= {(word,): some for word in ("a", "an", "another", "this", "that")}
    table |= {
        split_words(words): Determiner(Quantifier(1, 1), True, False) for words in ("a single", "exactly a single")
    }
    table |= {(word,): Determiner(Quantifier(1, every=True), True, False) for word in ("every", "each")}
    table[("the",)] = Determiner(Quantifier(1), True, True)
    table |= {(word,): Determiner(Quantifier(1), True, True) for word in ("his", "her", "its", "their", "any")}
    table[("no",)] = Determiner(Quantifier(0, 0), True, True)
    return table


def get_quantifier(determiner: Determiner, noun: Noun) -> Quantifier | None:
    """Return the quantity that a determiner and noun denote; None where they do not agree."""
    if determiner is BARE_PLURAL:
        return AT_LEAST_ONE if noun.mass and not noun.plural else BARE_PLURAL.quantifier if noun.plural else None
    if noun.plural and determiner.plural:
        definite = determiner.quantifier == AT_LEAST_ONE and determiner.singular
        return (
            Quantifier(2, never_below=1)
            if definite and determiner is not list_determiners()[("any",)]
            else determiner.quantifier
        )
    if not noun.plural and determiner.singular:
        return determiner.quantifier
    if noun.mass and determiner is list_determiners()[("some",)]:
        return AT_LEAST_ONE
    return None
