"""Determiners: how many individuals they speak of, and which number of the noun they go with."""

from dataclasses import dataclass
from functools import cache

from waltz.scenes.language.syntax import INF, Quantifier
from waltz.scenes.language.words import Noun, split_words


@dataclass(frozen=True)
class Determiner:
    """Words before a noun: how many they speak of, and which number of the noun they go with."""

    quantifier: Quantifier
    singular: bool
    plural: bool
    bare_singular_verb: bool = False


BARE = Determiner(Quantifier(2, never_below=1), False, True)
"""No determiner: a bare plural."""

ONE = Quantifier(1)

BOUNDS: dict[tuple[str, ...], tuple[int | None, int | None]] = {
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
"""What may stand before a numeral, and what it adds to it as the fewest and the most; None where that is unbounded."""


def build_numeral(prefix: tuple[str, ...], number: int) -> Determiner:
    """Build `exactly three`, `at least two`, `one`."""
    fewest, most = BOUNDS[prefix]
    quantifier = Quantifier(0 if fewest is None else number + fewest, INF if most is None else number + most)
    return Determiner(quantifier, number == 1, number != 1)


@cache
def list_determiners() -> dict[tuple[str, ...], Determiner]:
    """Return every determiner but the numerals and what is built on them."""
    some = Determiner(Quantifier(1), True, False)
    several = {
        "some": Quantifier(2), "a number of": Quantifier(2), "multiple": Quantifier(2), "various": Quantifier(2),
        "several": Quantifier(3, never_below=2), "a few": Quantifier(3, 5, 2, INF), "few": Quantifier(2, 4, 1, INF),
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


def combine_quantifier(determiner: Determiner, noun: Noun) -> Quantifier | None:
    """Return how many a noun with this determiner speaks of; None where they do not agree."""
    if determiner is BARE:
        return ONE if noun.mass and not noun.plural else BARE.quantifier if noun.plural else None
    if noun.plural and determiner.plural:
        the = determiner.quantifier == ONE and determiner.singular
        return (
            Quantifier(2, never_below=1)
            if the and determiner is not list_determiners()[("any",)]
            else determiner.quantifier
        )
    if not noun.plural and determiner.singular:
        return determiner.quantifier
    if noun.mass and determiner is list_determiners()[("some",)]:
        return ONE
    return None
