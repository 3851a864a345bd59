"""Predication: nouns that say what another thing is, or is like."""

from waltz.foils.english.noun_phrases import NounPhrase
from waltz.foils.english.patterns import TokenPattern
from waltz.foils.english.quantifiable.syntax import SINGULAR_ARTICLE, SUBJECT

AS = TokenPattern(words={"as"}, parts_of_speech={"ADP", "SCONJ"})
ATTRIBUTE = TokenPattern(relations={"attr"})
ACTIVE_SUBJECT = TokenPattern(relations={"nsubj"})
EXPLETIVE = TokenPattern(relations={"expl"})
INFINITIVE_OR_GERUND = TokenPattern(tags={"VB", "VBG"})
COMPARISON = TokenPattern(
    words={"resemble", "resembles", "resembled", "resembling", "like"},
    parts_of_speech={"ADP", "SCONJ", "VERB"},
)


def follows_as(phrase: NounPhrase) -> bool:
    """Return True for what another thing looks like or serves as ("dressed as a clown")."""
    return AS.matches(phrase.head.head)


def is_attribute(phrase: NounPhrase) -> bool:
    """Return True for a noun behind "is" ("this is a kitchen"), but not behind "there is"."""
    if not ATTRIBUTE.matches(phrase.head):
        return False
    verb = phrase.head.head
    if EXPLETIVE.matches_any(verb.children):
        return False
    # "under the bridge is a boat" has no subject but the boat
    return ACTIVE_SUBJECT.matches_any(verb.children) or INFINITIVE_OR_GERUND.matches(
        verb
    )


def has_attribute(phrase: NounPhrase) -> bool:
    """Return True for a thing that is said to be another one ("a door is an exit")."""
    if not SUBJECT.matches(phrase.head):
        return False
    attribute = ATTRIBUTE.find(phrase.head.head.children)
    return attribute is not None and SINGULAR_ARTICLE.matches_any(attribute.lefts)


def is_compared(phrase: NounPhrase) -> bool:
    """Return True for what another thing is like ("moss that resembles a carpet"): it is like
    several of them, too.
    """
    return COMPARISON.matches(phrase.head.head)
