"""Fixed expressions, whose noun names no thing that could be counted."""

from waltz.foils.english.noun_phrases import NounPhrase
from waltz.foils.english.quantifiable.collective import is_joint_object
from waltz.foils.english.quantifiable.noun_kinds import is_abstract
from waltz.foils.english.quantifiable.syntax import (
    OF,
    PREPOSITION,
    get_words_after,
    get_words_before,
)

# From captions of several origins that were read.
FIXED_BEFORE_OF = frozenset(
    {
        "absence", "act", "aftermath", "area", "company", "course", "direction", "form", "midst", "name", "presence",
        "process", "spirit",
    }
)  # fmt: skip
"""Nouns of prepositions such as "in the midst of", in addition to abstract nouns."""
FIXED_WITH_THE = frozenset(
    {"scene", "move", "run", "job", "phone", "loose", "go", "air"}
)
"""Nouns behind "on the" or "in the" that do not name a thing, in addition to times."""


def is_bare_joint_object(phrase: NounPhrase) -> bool:
    """Return True for the bare object of an action of several ("holding hands")."""
    return not phrase.determiners and is_joint_object(phrase.head)


def is_part_of_preposition(phrase: NounPhrase) -> bool:
    """Return True for the noun of a preposition with "of" ("in the midst of a crowd")."""
    if not _is_bare_noun_of_preposition(phrase):
        return False
    if not OF.matches_any(get_words_after(phrase)):
        return False
    word = phrase.head.lower_
    return is_abstract(word) or word in FIXED_BEFORE_OF


def is_time_or_scene(phrase: NounPhrase) -> bool:
    """Return True for a time or scene that is not described ("during the day", "on the scene")."""
    if not _is_bare_noun_of_preposition(phrase):
        return False
    if OF.matches_any(get_words_after(phrase)):
        return False
    word = phrase.head.lower_
    is_fixed = is_abstract(word) or word in FIXED_WITH_THE
    return is_fixed and phrase.determiners.text.lower() == "the"


def _is_bare_noun_of_preposition(phrase: NounPhrase) -> bool:
    """Return True for a noun without modifiers behind a preposition."""
    is_bare = len(phrase.words) == 1
    return is_bare and PREPOSITION.matches_any(get_words_before(phrase))
