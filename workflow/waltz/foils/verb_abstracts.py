"""A verb's abstract of imSitu ("an AGENT catches a CAUGHTITEM with a TOOL at a PLACE"), taken apart and filled."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lemminflect import getAllLemmas

from waltz.foils.candidates import Refused
from waltz.foils.english.wordnet import Verb
from waltz.foils.swig_fillers import Filler, filler

ARTICLES = frozenset({"a", "an", "the", "some"})
POSSESSIVES = frozenset({"his", "her", "its", "their"})

BODY_ROLES = frozenset({"agentpart"})
"""Roles that name a part of the agent, so that a possessive goes before their filler."""

ROLE = re.compile(r"[A-Z][A-Z0-9-]*")


@dataclass(frozen=True)
class Place:
    """Where a role stands in an abstract.

    Attributes:
        role: Its name in lower case.
        words: The words between the role before and it, articles left out: its preposition, or none.
        owned: Whether a possessive stands before it ("their AGENTPART").
    """

    role: str
    words: str
    owned: bool


@dataclass(frozen=True)
class Abstract:
    """An abstract's parts.

    Attributes:
        subject: The role before the verb, in lower case.
        verb: The verb as the abstract writes it.
        places: The roles after the verb, in order.
    """

    subject: str
    verb: str
    places: tuple[Place, ...]


@dataclass(frozen=True)
class Annotation:
    """One annotator's frame, as its verb's abstract orders it.

    Attributes:
        verb: The verb.
        written: The verb as the abstract writes it.
        agent: Filler of the role before the verb.
        others: The roles after it that are filled, in order.
    """

    verb: Verb
    written: str
    agent: Filler
    others: tuple[tuple[Place, Filler], ...]


def read_annotation(frame: Mapping[str, Any], verbs: Mapping[str, Verb]) -> Annotation | Refused:
    """A frame by its verb's abstract.

    Args:
        frame: A row of the layout `FRAMES`.
        verbs: SWiG's verbs by name.
    """
    verb, abstract = verbs.get(frame["verb"]), read_abstract(frame["abstract"] or "")
    if verb is None:
        return Refused("its verb is none of SWiG's")
    if abstract is None or not _same(verb.base, abstract.verb):
        return Refused("its abstract does not begin with a role and its verb")
    glosses = {entry["role"]: filler(entry["gloss"], entry["noun"]) for entry in frame["roles"] if entry["gloss"]}
    if abstract.subject not in glosses:
        return Refused("nobody fills the role before the verb")
    others = tuple((place, glosses[place.role]) for place in abstract.places if place.role in glosses)
    return Annotation(verb, abstract.verb, glosses[abstract.subject], others)


def _same(base: str, written: str) -> bool:
    """Whether a form is of a verb; abstracts misspell forms (vacuumes), so that a common beginning is enough."""
    return written.startswith(base[:3]) or base in getAllLemmas(written).get("VERB", ())


def complement(agent: Filler, place: Place, other: Filler) -> str:
    """The noun phrase of a role after the verb, without its preposition: "a ball", "his back", "another man"."""
    if place.owned or place.role in BODY_ROLES:
        return f"{agent.possessive} {other.noun}" if agent.possessive else other.definite
    if other.noun == agent.noun and not other.plural and not other.bare:
        return f"another {other.noun}"
    return other.subject


def read_abstract(text: str) -> Abstract | None:
    """The parts of an abstract; None where it does not begin with a role and a verb ("it rains at a PLACE")."""
    tokens = re.findall(r"[\w-]+", text)
    while tokens and tokens[0].lower() in ARTICLES:
        tokens.pop(0)
    if len(tokens) < 2 or not ROLE.fullmatch(tokens[0]) or ROLE.fullmatch(tokens[1]):
        return None
    places: list[Place] = []
    between: list[str] = []
    for token in tokens[2:]:
        if ROLE.fullmatch(token):
            words = " ".join(word for word in between if word not in ARTICLES | POSSESSIVES)
            places.append(Place(token.lower(), words, any(word in POSSESSIVES for word in between)))
            between = []
        else:
            between.append(token.lower())
    return Abstract(tokens[0].lower(), tokens[1].lower(), tuple(places))
