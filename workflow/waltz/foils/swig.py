"""Short active captions of an agent, a verb and one more role, from frames of SWiG or from text (thesis 3.3, VALSE).

Nouns are the first gloss of a WordNet synset, in the singular unless they have none. Article, number and preposition
of place go by rule; `swig_nouns.yaml` lists the exceptions. The verb's abstract orders the roles.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import yaml
from lemminflect import getAllLemmas, getInflection

from waltz.core.text_diff import Span
from waltz.foils.candidates import Refusal
from waltz.foils.english.nouns import get_engine
from waltz.foils.english.wordnet import Verb, read_verbs

ARTICLES = frozenset({"a", "an", "the", "some"})
POSSESSIVES = frozenset({"his", "her", "its", "their"})
DETERMINERS = ARTICLES | POSSESSIVES | {"such", "my", "another", "all"}
SWAP_PREPOSITIONS = (
    "like", "on", "for", "at", "to", "with", "over", "behind", "toward", "as", "from", "beside", "by", "about", "after",
    "under", "into",
)  # fmt: skip
"""Words between verb and object in the released swaps, those that more than four of them have."""
BEFORE_NOUNS = (
    DETERMINERS
    | frozenset(SWAP_PREPOSITIONS)
    | {"in", "up", "down", "out", "off", "onto", "across", "against", "through", "using"}
)

BODY_ROLES = frozenset({"agentpart"})
"""Roles that name a part of the agent, so that a possessive precedes their filler."""
ROLE = re.compile(r"[A-Z][A-Z0-9-]*")


@dataclass(frozen=True)
class Filler:
    """The person or thing that fills a role.

    Attributes:
        noun: Its first gloss.
        plural: True where a verb agrees with it in the plural.
        bare: True where it takes no article: a mass noun or a name.
        synset: Its WordNet synset, in imSitu's spelling; None where that is not known.
    """

    noun: str
    plural: bool
    bare: bool
    synset: str | None = None

    @property
    def subject(self) -> str:
        """The phrase at the beginning: "a man", "the people", "water"; an office is definite."""
        if self.bare:
            return self.noun
        return self.definite if self.plural or " of the " in self.noun else add_article(self.noun)

    @property
    def definite(self) -> str:
        """The phrase with `the`; a name takes no article."""
        return self.noun if is_name(self.noun) else f"the {self.noun}"

    @property
    def possessive(self) -> str | None:
        """`his`, `her` or `their`; None where the noun does not decide it."""
        if self.plural:
            return "their"
        nouns = {self.noun, get_head(self.noun)}
        if self.noun.startswith("female"):
            return "her"
        return next((word for word in ("her", "his") if nouns & _read_nouns()[word]), None)

    @property
    def adverbial(self) -> str:
        """The phrase as an adverbial: "outdoors", "at night", "on a street", "in the snow", "at a casino"."""
        if self.noun in _read_nouns()["adverbs"]:
            return self.noun
        if self.noun in _read_nouns()["times"]:
            return f"at {self.noun}"
        head = get_head(self.noun)
        preposition = next((word for word in ("on", "in") if head in _read_nouns()[word]), "at")
        return f"{preposition} {self.definite if self.bare else self.subject}"


@cache
def get_filler(noun: str, synset: str | None = None) -> Filler:
    """Return a filler by its gloss and, where it is known, its synset."""
    head = get_head(noun)
    return Filler(noun, _is_plural(head), head in _read_nouns()["mass"] or is_name(noun), synset)


def is_name(noun: str) -> bool:
    """Return True where every word begins with a capital, as in "Santa Claus"; an acronym (SUV) is no name."""
    is_common = noun in _read_nouns()["common"]
    return all(word[0].isupper() for word in noun.split()) and not noun.isupper() and not is_common


def get_head(noun: str) -> str:
    """Return the word of a gloss that a verb agrees with: `body` of "body of water"."""
    words = noun.split()
    end = next(
        (index for index, word in enumerate(words) if index and word in ("of", "on", "for", "in", "and")), len(words)
    )
    return words[end - 1] if words else ""


@cache
def add_article(noun: str) -> str:
    """Return the noun with `a` or `an`, by its sound."""
    return str(get_engine().a(noun))


def _is_plural(head: str) -> bool:
    nouns = _read_nouns()
    if head in nouns["plurals"]:
        return True
    return head.endswith("s") and head not in nouns["singulars"] and not head.endswith(tuple(nouns["singular_endings"]))


@cache
def _read_nouns() -> Mapping[str, frozenset[str]]:
    text = files("waltz.foils").joinpath("swig_nouns.yaml").read_text(encoding="utf-8")
    return {name: frozenset(words) for name, words in yaml.safe_load(text).items()}


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
    """An abstract: the role before its verb, in lower case, the verb as it is written, and the roles after it."""

    subject: str
    verb: str
    positions: tuple[RolePosition, ...]


@dataclass(frozen=True)
class OrderedFrame:
    """The frame of one annotator, as its verb's abstract orders it: the role before the verb, the filled ones after."""

    verb: Verb
    verb_form: str
    agent: Filler
    complements: tuple[tuple[RolePosition, Filler], ...]


def order_frame(frame: Mapping[str, Any]) -> OrderedFrame | Refusal:
    """Return a frame in the order of its verb's abstract, or the reason why it cannot be ordered."""
    verb, abstract = read_verbs().get(frame["verb"]), parse_abstract(frame["abstract"] or "")
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


@dataclass(frozen=True)
class ActionCaption:
    """A sentence of agent, verb and one more role.

    Attributes:
        text: The sentence, with capital and full stop.
        verb: The verb's name in SWiG, an -ing form.
        verb_span: Characters of the verb in the text.
        agent: Filler before the verb.
        complement: Filler after it.
        preposition: Words between verb and complement, without its article; empty where there are none.
    """

    text: str
    verb: str
    verb_span: Span
    agent: Filler
    complement: Filler
    preposition: str


def build_action_captions(frame: Mapping[str, Any]) -> Iterator[ActionCaption | Refusal]:
    """Yield the captions of one annotator's frame, one for each filled role other than agent and place."""
    ordered = order_frame(frame)
    if isinstance(ordered, Refusal):
        yield ordered
        return
    complements = [(position, filler) for position, filler in ordered.complements if position.role != "place"]
    if not complements:
        yield Refusal("no role but agent and place is filled")
    for position, filler in complements:
        verb_form = inflect_present(ordered.verb.base, ordered.agent.plural)
        noun_phrase = render_complement(ordered.agent, position, filler)
        text, span = build_sentence(ordered.agent.subject, verb_form, position.words, noun_phrase)
        yield ActionCaption(text, ordered.verb.name, span, ordered.agent, filler, position.words)


def build_sentence(subject: str, verb: str, preposition: str, complement: str) -> tuple[str, Span]:
    """Return a sentence and the span of its verb."""
    text = f"{subject[:1].upper()}{subject[1:]} {verb} {preposition} {complement}.".replace("  ", " ")
    start = len(subject) + 1
    return text, Span(start=start, end=start + len(verb))


@cache
def inflect_present(base: str, plural: bool) -> str:
    """Return the present tense that agrees with a subject of the third person."""
    forms = () if plural else getInflection(base, "VBZ")
    return str(forms[0]) if forms else base


def split_caption(text: str, verb_form: str, verb: Verb, complement: str | None = None) -> ActionCaption | None:
    """Return a caption split at a form of its verb.

    Args:
        verb_form: The verb as the caption has it.
        complement: The filler that the caption ends with, where it is known.
    Returns:
        None where the form does not stand between two phrases, or the caption does not end with `complement`.
    """
    match = re.fullmatch(rf"(.+?) ({re.escape(verb_form)}) (.+?)[ .]*", text)
    if match is None or (complement is not None and not f" {match[3]}".endswith(f" {complement}")):
        return None
    rest = match[3].removesuffix(complement or "").split()
    if complement is None:
        ends = (
            index
            for index in range(len(rest), 0, -1)
            if rest[index - 1] in BEFORE_NOUNS and "of" not in rest[:index][-2:-1]
        )
        end = next(ends, 0)
        rest, complement = rest[:end], " ".join(rest[end:])
    if not complement:
        return None
    subject = match[1].split()
    agent = " ".join(subject[1:] if subject[0].lower() in DETERMINERS else subject)
    if len(agent.split()) == len(subject):  # the capital of a sentence's first word, unless it is a name's
        lowered = get_filler(agent.lower())
        agent = lowered.noun if lowered.bare or lowered.plural else agent
    is_plural = verb_form == inflect_present(verb.base, True)
    return ActionCaption(
        text=text,
        verb=verb.name,
        verb_span=Span(start=match.start(2), end=match.end(2)),
        agent=Filler(agent, is_plural, get_filler(agent).bare),
        complement=get_filler(complement),
        preposition=" ".join(word for word in rest if word not in DETERMINERS),
    )
