"""Nouns that are not used as one of several things: substances, activities, times and manners."""

from waltz.core.number_words import NUMBER_WORDS
from waltz.foils.english.coco_nouns import read_categories
from waltz.foils.english.noun_phrases import NounPhrase
from waltz.foils.english.nouns import TENS, singularize
from waltz.foils.english.patterns import TokenPattern
from waltz.foils.english.quantifiable.noun_kinds import (
    COLORS,
    UNCOUNTABLE,
    has_form_in,
    is_abstract,
    is_person,
)
from waltz.foils.english.quantifiable.syntax import (
    DEFINITE,
    NAME,
    SINGULAR_ARTICLE,
    SINGULAR_STARTS,
    get_words_before,
    is_plural,
)
from waltz.foils.english.wordnet import read_words

# The lists of words come from captions of COCO, Flickr30k and other origins that were read.
WIDE = frozenset({"fog", "grass", "mist", "sand", "sky", "snow", "water", "wood"})
"""Substances and parts of a scene whose plural means one of them, too ("blue skies")."""
QUALITY_ENDINGS = ("ance", "ence", "ity", "ness", "ship")
"""Endings of abstract nouns of which one is several as well ("bears a resemblance")."""
SINGLE_PARTS = frozenset(
    {
        "beard", "belly", "body", "chest", "chin", "face", "forehead", "head", "mouth", "mustache", "neck", "nose",
        "stomach", "tongue", "torso", "waist",
    }
)  # fmt: skip
"""Parts of which a body has one."""
SINGLE_SCENES = frozenset(
    {
        "background", "countryside", "foreground", "forefront", "horizon", "periphery", "sun",
    }
)  # fmt: skip
"""Parts of which a scene has one."""
OPPOSITES = frozenset(
    {
        "back", "bottom", "first", "front", "inner", "left", "leftmost", "lower", "opposite", "other", "outer", "port",
        "right", "rightmost", "second", "starboard", "top", "upper",
    }
)  # fmt: skip
"""Adjectives of which one thing has only one ("the left and right picture")."""
POSITIONS = frozenset(
    {"corner", "edge", "end", "half", "part", "portion", "section", "side"}
)
"""Nouns of which a thing has one in each direction."""

NOUN_OR_NAME = TokenPattern(parts_of_speech={"NOUN", "PROPN"})
ADJECTIVE_OR_GERUND = TokenPattern(tags={"JJ", "VBG"})
OWN = TokenPattern(words={"own"})
NUMBER_NOUNS = frozenset({*TENS, *NUMBER_WORDS})
SINGULAR_START = TokenPattern(words=SINGULAR_STARTS)
POSSESSIVE_OF_ONE = TokenPattern(words={"his", "her", "its", "my", "your", "'s", "’s"})
LOCATION = TokenPattern(relations={"pobj"}, head=TokenPattern(excluded_words={"with"}))
DESCRIBED_SCENE = TokenPattern(
    words=SINGLE_SCENES, relations={"nsubj", "nsubjpass", "dobj"}
)
OPPOSITE = TokenPattern(words=OPPOSITES)
LIST_LINK = TokenPattern(words={",", "and"})


def is_tagged_otherwise(phrase: NounPhrase) -> bool:
    """Return True for a head that is an adjective, gerund or the like by its tag ("a carrot, cilantro, celery")."""
    head = phrase.head
    return not NOUN_OR_NAME.matches(head) or ADJECTIVE_OR_GERUND.matches(head)


def has_own(phrase: NounPhrase) -> bool:
    """Return True behind "own", which a quantifier cannot precede ("my own oven")."""
    return OWN.matches_any(phrase.words[:-1])


def is_number_noun(phrase: NounPhrase) -> bool:
    """Return True for a number that is used as a noun ("in his forties", "on all fours")."""
    return singularize(phrase.head.lower_) in NUMBER_NOUNS


def is_uncounted_plural(phrase: NounPhrase) -> bool:
    """Return True for a plural that is not several things ("jeans", "blue skies")."""
    if not is_plural(phrase.head):
        return False
    word = phrase.head.lower_
    return word in UNCOUNTABLE or singularize(word) in WIDE


def is_uncounted_singular(phrase: NounPhrase) -> bool:
    """Return True for a substance, activity, time or manner ("in flight", "water", "at night")."""
    if is_plural(phrase.head):
        return False
    word = phrase.head.lower_
    # "dressed in orange"
    if word in COLORS:
        return True
    # An article makes most nouns countable: "a background", "a coffee", not "a resemblance".
    if SINGULAR_START.matches_any(phrase.determiners):
        # "a clear sky"
        if word in WIDE:
            return True
        return is_abstract(word) and word.endswith(QUALITY_ENDINGS)
    if _is_described_part(phrase):
        return False
    # "The sun shines" is counted, a bare "sun" is not.
    if DESCRIBED_SCENE.matches(phrase.head):
        return not DEFINITE.matches_any(phrase.determiners)
    # "water", "in the background", "on the left side"
    if _is_uncountable(word) or _is_opposite_position(phrase):
        return True
    # "the distance"
    if DEFINITE.matches_any(phrase.determiners):
        return is_abstract(word)
    return not _is_counted_without_determiner(phrase)


def _is_uncountable(word: str) -> bool:
    if has_form_in(word, UNCOUNTABLE):
        return True
    return has_form_in(word, SINGLE_PARTS | SINGLE_SCENES)


def _is_described_part(phrase: NounPhrase) -> bool:
    """Return True for a part of one body that its clause is about ("its mouth is open", "with its
    mouth open"), but not for a location ("on its head").
    """
    if phrase.head.lower_ not in SINGLE_PARTS:
        return False
    if not POSSESSIVE_OF_ONE.matches_any(phrase.determiners):
        return False
    return not LOCATION.matches(phrase.head)


def _is_opposite_position(phrase: NounPhrase) -> bool:
    """Return True for a position of which a thing has one ("the left side", "the right edge")."""
    is_position = phrase.head.lower_ in POSITIONS
    return is_position and OPPOSITE.matches_any(phrase.words[:-1])


def _is_counted_without_determiner(phrase: NounPhrase) -> bool:
    """Return True for a bare noun that is counted all the same: a person, a category of COCO, and
    other things where a text begins, in lists and behind modifiers.
    """
    word = phrase.head.lower_
    if is_person(word) or word in read_categories():
        return True
    if phrase.start == 0:
        return not is_abstract(word)
    return _continues_list(phrase) or _is_modified_thing(phrase)


def _continues_list(phrase: NounPhrase) -> bool:
    """Return True in a list that begins with an article ("a bathtub, window and sink")."""
    words_before = get_words_before(phrase, 5)
    is_linked = LIST_LINK.matches_any(words_before[-1:])
    return is_linked and SINGULAR_ARTICLE.matches_any(words_before)


def _is_modified_thing(phrase: NounPhrase) -> bool:
    """Return True for a thing behind a modifier other than a name ("in red skirt", not "by bus")."""
    modifiers = phrase.words[:-1]
    if not modifiers or NAME.matches_any(modifiers):  # "Eiffel tower"
        return False
    return phrase.head.lower_ in read_words("things")
