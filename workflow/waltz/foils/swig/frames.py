"""Frames of imSitu ordered by their verb's abstract ("an AGENT catches a CAUGHTITEM with a TOOL at a PLACE")."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lemminflect import getAllLemmas

from waltz.foils.candidates import Refusal
from waltz.foils.english.wordnet import Verb
from waltz.foils.swig.fillers import Filler, get_filler

ARTICLES = frozenset({"a", "an", "the", "some"})
POSSESSIVES = frozenset({"his", "her", "its", "their"})

BODY_ROLES = frozenset({"agentpart"})
"""Roles that name a part of the agent, so that a possessive precedes their filler."""

ROLE = re.compile(r"[A-Z][A-Z0-9-]*")


@dataclass(frozen=True)
class RolePosition:
    """A role after the verb of an abstract.

    Attributes:
        role: Its name in lower case.
        words: The words between the role before and it, without articles: its preposition, or none.
        owned: True where a possessive precedes it ("their AGENTPART").
    """

    role: str
    words: str
    owned: bool


@dataclass(frozen=True)
class Abstract:
    """The parts of an abstract.

    Attributes:
        subject: The role before the verb, in lower case.
        verb: The verb as the abstract writes it.
        positions: The roles after the verb, in order.
    """

    subject: str
    verb: str
    positions: tuple[RolePosition, ...]


@dataclass(frozen=True)
class OrderedFrame:
    """The frame of one annotator, as its verb's abstract orders it.

    Attributes:
        verb: The verb.
        verb_form: The verb as the abstract writes it.
        agent: Filler of the role before the verb.
        complements: The filled roles after it, in order.
    """

    verb: Verb
    verb_form: str
    agent: Filler
    complements: tuple[tuple[RolePosition, Filler], ...]


def order_frame(frame: Mapping[str, Any], verbs: Mapping[str, Verb]) -> OrderedFrame | Refusal:
    """Return a frame in the order of its verb's abstract, or the reason why it cannot be ordered.

    Args:
        frame: A row of the layout `FRAMES`.
        verbs: SWiG's verbs by name.
    """
    verb, abstract = verbs.get(frame["verb"]), parse_abstract(frame["abstract"] or "")
    if verb is None:
        return Refusal("its verb is none of SWiG's")
    if abstract is None or not _is_form(abstract.verb, verb.base):
        return Refusal("its abstract does not begin with a role and its verb")
    fillers = {entry["role"]: get_filler(entry["gloss"], entry["noun"]) for entry in frame["roles"] if entry["gloss"]}
    if abstract.subject not in fillers:
        return Refusal("nobody fills the role before the verb")
    complements = tuple(
        (position, fillers[position.role]) for position in abstract.positions if position.role in fillers
    )
    return OrderedFrame(verb, abstract.verb, fillers[abstract.subject], complements)


def _is_form(word: str, base: str) -> bool:
    """Return True for a form of a verb; abstracts misspell forms (vacuumes), so that a common beginning is enough."""
    return word.startswith(base[:3]) or base in getAllLemmas(word).get("VERB", ())


def render_complement(agent: Filler, position: RolePosition, filler: Filler) -> str:
    """Return the noun phrase of a role after the verb, without its preposition: "a ball", "his back", "another man"."""
    if position.owned or position.role in BODY_ROLES:
        return f"{agent.possessive} {filler.noun}" if agent.possessive else filler.definite
    if filler.noun == agent.noun and not filler.plural and not filler.bare:
        return f"another {filler.noun}"
    return filler.subject


def parse_abstract(text: str) -> Abstract | None:
    """Return the parts of an abstract; None where it does not begin with a role and a verb ("it rains at a PLACE")."""
    tokens = re.findall(r"[\w-]+", text)
    while tokens and tokens[0].lower() in ARTICLES:
        tokens.pop(0)
    if len(tokens) < 2 or not ROLE.fullmatch(tokens[0]) or ROLE.fullmatch(tokens[1]):
        return None
    positions: list[RolePosition] = []
    words_between: list[str] = []
    for token in tokens[2:]:
        if ROLE.fullmatch(token):
            words = " ".join(word for word in words_between if word not in ARTICLES | POSSESSIVES)
            owned = any(word in POSSESSIVES for word in words_between)
            positions.append(RolePosition(token.lower(), words, owned))
            words_between = []
        else:
            words_between.append(token.lower())
    return Abstract(tokens[0].lower(), tokens[1].lower(), tuple(positions))
