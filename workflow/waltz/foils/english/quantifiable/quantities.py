"""Quantities next to a noun that a new quantifier would not replace, and nouns that are quantities."""

import re

from spacy.tokens import Token

from waltz.core.number_words import NUMBER_WORDS
from waltz.foils.english.noun_phrases import NounPhrase
from waltz.foils.english.nouns import PLURAL_QUANTITIES, TENS, parse_number, singularize
from waltz.foils.english.patterns import TokenPattern, contains_one_of
from waltz.foils.english.quantifiable.noun_kinds import has_form_in
from waltz.foils.english.quantifiable.syntax import (
    NUMERAL,
    OF,
    get_words_after,
    get_words_before,
    is_singular,
)

# The lists of words come from captions of COCO, Flickr30k and other origins that were read.
DEGREES = frozenset(
    {
        "about", "almost", "approximately", "around", "at", "atleast", "enough", "exactly", "fewer", "just", "last",
        "least", "less", "mere", "more", "most", "much", "nearly", "next", "only", "or", "over", "per", "roughly",
        "same", "some", "than", "under", "up",
    }
)  # fmt: skip
"""Words that modify a quantity ("at least two", "only one", "one or two")."""
LARGE_QUANTITIES = frozenset(
    {
        "dozen", "dozens", "hundred", "hundreds", "thousand", "thousands", "million", "millions",
    }
)  # fmt: skip
QUANTITIES = frozenset(
    {
        *NUMBER_WORDS[1:], *TENS, *PLURAL_QUANTITIES, *LARGE_QUANTITIES, "first", "half", "lone", "occasional",
        "second", "single", "sole", "third", "whole",
    }
)  # fmt: skip
ORDINAL = re.compile(r"\d+(st|nd|rd|th)")
MEASURES = frozenset(
    {
        "amount", "array", "bit", "couple", "hint", "kind", "lot", "majority", "maximum", "minimum", "number", "part",
        "plenty", "range", "rest", "series", "sort", "total", "touch", "type", "variety",
    }
)  # fmt: skip
"""Nouns that state how much or what kind of what follows "of"; another quantifier fits them badly."""
SHARES = frozenset(
    {"half", "most", "part", "parts", "quarter", "rest", "third", "thirds"}
)
"""Words for a part of one thing ("part of the wall") or of several ("part of the dogs")."""
GROUPS = frozenset(
    {
        "army", "assortment", "audience", "band", "batch", "bouquet", "bunch", "bundle", "choir", "class", "cluster",
        "collection", "convoy", "crew", "crowd", "duo", "family", "fleet", "flock", "gang", "group", "heap", "herd",
        "horde", "host", "line", "litter", "mass", "mob", "multitude", "network", "pack", "pair", "panel", "party",
        "pile", "procession", "quartet", "quintet", "row", "school", "sea", "selection", "sequence", "set", "squad",
        "stack", "string", "swarm", "team", "throng", "trio", "troop",
    }
)  # fmt: skip
"""Nouns of things that are several, so that what follows "of" is never one."""
COUNTERS = frozenset(
    {*MEASURES, *GROUPS, *LARGE_QUANTITIES, "all", "each", "many", "most", "several", "some"}
)  # fmt: skip
"""Words before "of" that count what follows."""
UNITS = frozenset(
    {
        "cent", "cm", "day", "degree", "dollar", "euro", "ft", "foot", "gram", "hour", "inch", "kg", "kilogram",
        "kilometer", "kilometre", "km", "lb", "liter", "litre", "m", "meter", "metre", "mile", "minute", "mm", "month",
        "mph", "ounce", "percent", "pm", "pound", "second", "ton", "week", "yard", "year",
    }
)  # fmt: skip

SUPERLATIVE = TokenPattern(tags={"JJS", "RBS"})
DEGREE = TokenPattern(words=DEGREES)
LIMITS = (
    TokenPattern(words=DEGREES | QUANTITIES),
    # "up to ten"
    TokenPattern(words={"to"}, before=TokenPattern(words={"up"})),
)
FEW = TokenPattern(words={"few"})
UNREPLACED = TokenPattern(
    words={
        "half", "more", "most", "only", "quite", "rather", "same", "such", "what", "which",
    }
)  # fmt: skip
"""Words before a noun whose meaning no quantifier keeps."""
SHARE = TokenPattern(words=SHARES)
OUT_OF_NUMBER = TokenPattern(words={"out"}, before=NUMERAL)


def has_unit(phrase: NounPhrase) -> bool:
    """Return True for a unit of measurement, time or money with a number ("4.8 km")."""
    return singularize(phrase.head.lower_) in UNITS and _has_number(phrase)


def has_superlative(phrase: NounPhrase) -> bool:
    """Return True for what one thing alone is ("the latest model", "the worlds smallest dog")."""
    # Without its apostrophe, "worlds" is the noun and the superlative follows it.
    words_around = [*phrase.words[:-1], *get_words_after(phrase)]
    return SUPERLATIVE.matches_any(words_around)


def has_inner_quantity(phrase: NounPhrase) -> bool:
    """Return True for a quantity between determiners and noun ("the 3rd horse", "one or two")."""
    modifiers = phrase.words[:-1]
    return DEGREE.matches_any(modifiers) or any(map(_is_quantity, modifiers))


def has_limited_number(phrase: NounPhrase) -> bool:
    """Return True for a number behind a word that may limit it ("around three riders")."""
    return _has_number(phrase) and contains_one_of(get_words_before(phrase), LIMITS)


def has_few(phrase: NounPhrase) -> bool:
    """Return True for hardly any things ("few dogs", unlike "a few dogs")."""
    return FEW.matches_any(phrase.determiners[:1])


def has_unreplaced_word(phrase: NounPhrase) -> bool:
    """Return True for a word whose meaning would be lost ("most people", "only one child")."""
    return UNREPLACED.matches_any([*get_words_before(phrase), *phrase.determiners])


def begins_with_of(phrase: NounPhrase) -> bool:
    """Return True for determiners of which one is "of"."""
    return OF.matches_any(phrase.determiners)


def counts_others(phrase: NounPhrase) -> bool:
    """Return True for a noun that counts or measures others ("hundreds", "a lot of")."""
    word = phrase.head.lower_
    if word in LARGE_QUANTITIES:
        return True
    return has_form_in(word, MEASURES) and OF.matches_any(get_words_after(phrase))


def is_counted_by_noun(phrase: NounPhrase) -> bool:
    """Return True behind a word that counts it ("hundreds of fans", "all of the dogs", "three out of
    four players"), but not for one thing of which there is a share ("part of the wall").
    """
    if not OF.matches_any(get_words_before(phrase)):
        return False
    counter = get_words_before(phrase, 2)[0]
    if SHARE.matches(counter) and _is_one_thing(phrase):
        return False
    if OUT_OF_NUMBER.matches(counter) or _is_quantity(counter):
        return True
    return has_form_in(counter.lower_, COUNTERS)


def _is_one_thing(phrase: NounPhrase) -> bool:
    return bool(phrase.determiners) and is_singular(phrase.head)


def _has_number(phrase: NounPhrase) -> bool:
    return any(token.like_num for token in phrase.determiners)


def _is_quantity(token: Token) -> bool:
    """Return True for numerals, ordinals and fractions, in letters or digits, without hyphens."""
    word = token.lower_
    if parse_number(word) is not None:
        return True
    return has_form_in(word, QUANTITIES) or ORDINAL.fullmatch(word) is not None
