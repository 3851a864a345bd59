"""Short active captions of an agent, a verb and one more role, from frames of SWiG or from text
(thesis 3.3, VALSE).

A noun is the first gloss of its WordNet synset, in the singular unless it has no singular. Rules
decide articles, numbers and prepositions of place; `swig_nouns.yaml` lists the exceptions. The
abstract of the verb orders the roles.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import dropwhile, pairwise, takewhile

import yaml
from lemminflect import getAllLemmas, getInflection

from waltz.core.text_diff import Span
from waltz.foils.candidates import Refusal
from waltz.foils.english.nouns import add_article
from waltz.foils.english.sentences import write_sentence
from waltz.foils.english.verbs import inflect_verb
from waltz.foils.english.wordnet import SwigVerb, read_swig_verbs
from waltz.sources.records import FrameRecord

ARTICLES = frozenset({"a", "an", "the", "some"})
POSSESSIVES = frozenset({"his", "her", "its", "their"})
DETERMINERS = ARTICLES | POSSESSIVES | {"such", "my", "another", "all"}
SWAP_PREPOSITIONS = (
    "like", "on", "for", "at", "to", "with", "over", "behind", "toward", "as", "from", "beside", "by", "about", "after",
    "under", "into",
)  # fmt: skip
"""Words between verb and object that occur in more than four of the released swaps."""
BEFORE_NOUNS = DETERMINERS.union(SWAP_PREPOSITIONS) | {
    "across", "against", "down", "in", "off", "onto", "out", "through", "up", "using",
}  # fmt: skip

WORDS_AFTER_HEAD = ("of", "on", "for", "in", "and")
"""Words that follow the head of a gloss, such as "of" in "body of water"."""
BODY_ROLES = frozenset({"agentpart"})
"""Roles that name a part of the body of the agent, so that a possessive precedes the filler ("his
back").
"""
ABSTRACT_WORD = re.compile(r"[\w-]+n't|[\w-]+")
"""Word of an abstract; a contraction such as "isn't" is one word."""
ROLE = re.compile(r"[A-Z][A-Z0-9-]*")
"""Role in an abstract, such as AGENT."""

PASSIVE_AUXILIARIES = frozenset({
    "am", "are", "be", "been", "being", "is", "re", "s", "was", "were", "get", "gets", "getting", "got", "gotten",
})  # fmt: skip
"""Auxiliaries that directly precede the participle of a passive."""
AUXILIARIES = PASSIVE_AUXILIARIES | {
    "can", "could", "d", "did", "do", "does", "had", "has", "have", "having", "ll", "may", "might", "must", "shall",
    "should", "to", "ve", "will", "would",
}  # fmt: skip
"""Auxiliaries that may precede the verb of an abstract ("is begging", "has been blessed")."""
ADVERBS = frozenset({"still", "well"})
"""Words that count as adverbs although they can also be verbs."""
NEGATION = re.compile("not|never|cannot|hardly|barely|.*n't")
"""Word before a verb that negates the action; contractions (isn't) negate it, too."""
NOT_AGENTS = frozenset({"place", "tool"})
"""Roles that may follow "by" in a passive although they do not name the agent."""


@dataclass(frozen=True)
class FillerNoun:
    """The noun of the person or thing that fills a role, with its number and its need of an article.

    Attributes:
        noun: First gloss of its WordNet synset.
        plural: True where a verb must agree with the noun in the plural.
        bare: True where the noun takes no article: a mass noun or a name.
        synset: WordNet synset, in the spelling of imSitu; None where it is not known.
    """

    noun: str
    plural: bool
    bare: bool
    synset: str | None = None

    @property
    def is_countable(self) -> bool:
        """Return True for a singular that takes an article."""
        return not self.plural and not self.bare

    @property
    def subject(self) -> str:
        """Return the noun phrase of the subject: "a man", "the people", "water"; an office has
        `the`.
        """
        if self.bare:
            return self.noun
        is_office = " of the " in self.noun  # "the president of the club"
        if self.plural or is_office:
            return self.definite
        return add_article(self.noun)

    @property
    def definite(self) -> str:
        """Return the noun phrase with `the`; a name has no article."""
        if is_name(self.noun):
            return self.noun
        return f"the {self.noun}"

    @property
    def possessive(self) -> str | None:
        """Return the possessive of the noun: `his`, `her` or `their`; None where the noun does not
        determine it.
        """
        if self.plural:
            return "their"
        if self.noun.startswith("female"):
            return "her"
        return _find_list({self.noun, get_head(self.noun)}, "her", "his")

    @property
    def adverbial(self) -> str:
        """Return the noun as an adverbial: "outdoors", "at night", "on a street", "in the snow",
        "at a casino".
        """
        nouns = _read_nouns()
        if self.noun in nouns["adverbs"]:
            return self.noun
        if self.noun in nouns["times"]:
            return f"at {self.noun}"
        preposition = _find_list({get_head(self.noun)}, "on", "in") or "at"
        phrase = self.definite if self.bare else self.subject
        return f"{preposition} {phrase}"

    @property
    def is_adverbial_alone(self) -> bool:
        """Return True where the adverbial does not take the preposition of an abstract: "outdoors",
        "at night".
        """
        return _find_list({self.noun}, "adverbs", "times") is not None


@cache
def get_filler_noun(noun: str, synset: str | None = None) -> FillerNoun:
    """Return the noun of a filler from its gloss.

    Args:
        synset: WordNet synset; None where it is not known.
    """
    head = get_head(noun)
    is_mass_noun = head in _read_nouns()["mass"]
    return FillerNoun(noun, _is_plural(head), is_mass_noun or is_name(noun), synset)


def is_name(noun: str) -> bool:
    """Return True for a noun whose words all begin with a capital ("Santa Claus"); an acronym (SUV)
    is not a name.
    """
    if noun.isupper() or noun in _read_nouns()["common"]:
        return False
    return all(word[0].isupper() for word in noun.split())


def get_head(noun: str) -> str:
    """Return the head of a gloss, with which a verb agrees: "body" in "body of water"."""
    first, *rest = noun.split() or [""]
    # The head ends before the first of these words, which cannot begin a gloss.
    words = [first, *takewhile(lambda word: word not in WORDS_AFTER_HEAD, rest)]
    return words[-1]


def _is_plural(head: str) -> bool:
    """Return True for a noun with which a verb agrees in the plural ("people", "trousers")."""
    nouns = _read_nouns()
    # The listed exceptions come before the rule that a plural ends in -s.
    if head in nouns["plurals"]:
        return True
    if not head.endswith("s") or head in nouns["singulars"]:
        return False
    return not head.endswith(tuple(nouns["singular_endings"]))


@cache
def _read_nouns() -> Mapping[str, frozenset[str]]:
    text = files("waltz.foils").joinpath("swig_nouns.yaml").read_text(encoding="utf-8")
    return {name: frozenset(words) for name, words in yaml.safe_load(text).items()}


def _find_list(nouns: Collection[str], *names: str) -> str | None:
    """Return the first of some lists of `swig_nouns.yaml` that has one of several nouns; None where
    none of them has.
    """
    for name in names:
        if not _read_nouns()[name].isdisjoint(nouns):
            return name
    return None


@dataclass(frozen=True)
class RolePosition:
    """A role after the verb of an abstract.

    Attributes:
        role: Name of the role in lower case.
        words: The words before the role, without articles and possessives: its preposition, or
            empty.
        owned: True where a possessive precedes the role ("their AGENTPART").
    """

    role: str
    words: str
    owned: bool

    @property
    def belongs_to_agent(self) -> bool:
        """Return True for a role whose noun takes the possessive of the agent ("his back")."""
        return self.owned or self.role in BODY_ROLES


@dataclass(frozen=True)
class Abstract:
    """The parts of an abstract, the sentence of a verb with its roles in capitals.

    Attributes:
        subject: Role before the verb, in lower case; in a passive, the role that somebody acts on.
        verb: The verb as the abstract has it, without auxiliaries.
        positions: Roles after the verb.
        is_passive: True where the verb is a passive.
    """

    subject: str
    verb: str
    positions: tuple[RolePosition, ...]
    is_passive: bool = False


@dataclass(frozen=True)
class Complement:
    """A filled role after the verb of a frame.

    Attributes:
        position: The role with the words before it.
        filler: Noun of its filler.
    """

    position: RolePosition
    filler: FillerNoun

    def render(self, agent: FillerNoun) -> str:
        """Return the noun phrase of the role, without preposition: "a ball", "his back", "another
        man".
        """
        noun = self.filler.noun
        if self.position.belongs_to_agent and agent.possessive is None:
            return self.filler.definite
        if self.position.belongs_to_agent:
            return f"{agent.possessive} {noun}"
        # Two fillers with one noun are two individuals: "a man hugs another man".
        if noun == agent.noun and self.filler.is_countable:
            return f"another {noun}"
        return self.filler.subject


@dataclass(frozen=True)
class OrderedFrame:
    """The frame of one annotator in the order of the abstract of its verb.

    Attributes:
        verb: The verb.
        agent: Noun of the role before the verb; in a passive without agent, the noun of its
            subject.
        complements: Filled roles after the verb.
        is_passive: True where the abstract is a passive and nobody fills its agent.
    """

    verb: SwigVerb
    agent: FillerNoun
    complements: Sequence[Complement]
    is_passive: bool

    @property
    def core(self) -> list[Complement]:
        """Return the filled roles after the verb except the place."""
        return [part for part in self.complements if part.position.role != "place"]

    @property
    def verb_phrase(self) -> str:
        """Return the verb in the present tense, in agreement with the role before it: "begs", "is
        seated".
        """
        if not self.is_passive:
            return inflect_present(self.verb.base, self.agent.plural)
        auxiliary = "are" if self.agent.plural else "is"
        participle = getInflection(self.verb.base, "VBN")[0]
        return f"{auxiliary} {participle}"


def order_frame(frame: FrameRecord) -> OrderedFrame | Refusal:
    """Return a frame in the order of the abstract of its verb, or a refusal with the reason why it
    has no order.
    """
    verb = read_swig_verbs().get(frame.verb)
    if verb is None:
        return Refusal("its verb is none of SWiG's")
    abstract = parse_abstract(frame.abstract or "")
    if abstract is None or not _is_form(abstract.verb, verb.base):
        return Refusal("its abstract does not begin with a role and its verb")

    fillers = _read_fillers(frame)
    abstract = _choose_voice(abstract, fillers)
    if abstract.subject not in fillers:
        return Refusal("nobody fills the role before the verb")
    complements = [
        Complement(position, fillers[position.role])
        for position in abstract.positions
        if position.role in fillers
    ]
    agent = fillers[abstract.subject]
    return OrderedFrame(verb, agent, complements, abstract.is_passive)


def _read_fillers(frame: FrameRecord) -> dict[str, FillerNoun]:
    """Return the fillers of a frame by role, without the empty roles."""
    fillers: dict[str, FillerNoun] = {}
    for entry in frame.roles:
        if entry.gloss:
            fillers[entry.role] = get_filler_noun(entry.gloss, entry.noun)
    return fillers


def _choose_voice(abstract: Abstract, fillers: Collection[str]) -> Abstract:
    """Turn a passive abstract active where its agent is filled, so that the agent stands before the
    verb.
    """
    active = _turn_active(abstract) if abstract.is_passive else None
    if active is not None and active.subject in fillers:
        return active
    return abstract


def _turn_active(abstract: Abstract) -> Abstract | None:
    """Turn a passive abstract into an active abstract; None where it has no role for the agent ("by
    the AGENT").
    """
    for index, position in enumerate(abstract.positions):
        words = position.words.split()
        if words[-1:] != ["by"] or position.role in NOT_AGENTS:
            continue
        particle = " ".join(words[:-1])  # "is picked up by the AGENT": picks up
        patient = RolePosition(abstract.subject, particle, False)
        remaining = abstract.positions[:index] + abstract.positions[index + 1 :]
        return Abstract(position.role, abstract.verb, (patient, *remaining))
    return None


def _is_form(word: str, base: str) -> bool:
    """Return True for a form of a verb; three equal letters are enough, since abstracts misspell
    forms (vacuumes).
    """
    return word.startswith(base[:3]) or base in getAllLemmas(word).get("VERB", ())


def parse_abstract(text: str) -> Abstract | None:
    """Parse an abstract; None where it does not begin with a role and a verb ("it rains at a
    PLACE").

    Auxiliaries and adverbs before the verb are skipped: "the AGENT is begging" has the verb
    "begging". An abstract with a negated verb is None too, because it names an action that does not
    happen.
    """
    # article* ROLE (auxiliary or adverb)* verb (word* ROLE)*
    tokens = dropwhile(_is_article, ABSTRACT_WORD.findall(text.replace("’", "'")))
    subject = next(tokens, "")
    rest = list(tokens)
    verb_index = _find_verb(rest)
    if not ROLE.fullmatch(subject) or verb_index is None:
        return None
    words_before = [word.lower() for word in rest[:verb_index]]
    if any(map(NEGATION.fullmatch, words_before)):
        return None

    verb = rest[verb_index].lower()
    auxiliaries = [word for word in words_before if word in AUXILIARIES]
    # "is begging" is active, "is begged" and "is being begged" are passive, "has begged" is active.
    has_passive_auxiliary = not PASSIVE_AUXILIARIES.isdisjoint(auxiliaries[-1:])
    is_passive = has_passive_auxiliary and not verb.endswith("ing")
    positions = _split_at_roles(rest[verb_index + 1 :])
    return Abstract(subject.lower(), verb, positions, is_passive)


def _is_article(word: str) -> bool:
    return word.lower() in ARTICLES


def _find_verb(words: Sequence[str]) -> int | None:
    """Return the index of the first word that is neither an auxiliary, a negation nor an adverb;
    None where there is no such word, or where it is a role.
    """
    for index, (word, next_word) in enumerate(pairwise([*words, ""])):
        joins_adverbs = word.lower() == "and" and _is_adverb(next_word.lower())
        if not joins_adverbs and not _is_before_verb(word.lower()):
            return None if ROLE.fullmatch(word) else index
    return None


def _is_before_verb(word: str) -> bool:
    """Return True for an auxiliary, a negation or an adverb."""
    is_auxiliary = word in AUXILIARIES or NEGATION.fullmatch(word) is not None
    return is_auxiliary or _is_adverb(word)


def _split_at_roles(tokens: Sequence[str]) -> tuple[RolePosition, ...]:
    """Return the roles after the verb, each with the words between the role before it and itself."""
    positions: list[RolePosition] = []
    words: list[str] = []
    is_owned = False
    for token in tokens:
        word = token.lower()
        if ROLE.fullmatch(token):
            positions.append(RolePosition(word, " ".join(words), is_owned))
            words = []
            is_owned = False
        elif word in POSSESSIVES:
            is_owned = True
        elif word not in ARTICLES:
            words.append(word)
    return tuple(positions)


def _is_adverb(word: str) -> bool:
    """Return True for a word that can be an adverb and cannot be a verb, such as "often" and
    "carefully".
    """
    if word in ADVERBS:
        return True
    lemmas = getAllLemmas(word)
    return "ADV" in lemmas and "VERB" not in lemmas


@dataclass(frozen=True)
class ActionCaption:
    """A sentence of agent, verb and one more role.

    Attributes:
        text: The sentence, with capital and full stop.
        verb: Name of the verb in SWiG, an -ing form.
        verb_span: Characters of the verb in the text.
        agent: Noun of the filler before the verb.
        complement: Noun of the filler after the verb.
        preposition: Words between verb and complement, without the article; may be empty.
    """

    text: str
    verb: str
    verb_span: Span
    agent: FillerNoun
    complement: FillerNoun
    preposition: str


def build_action_captions(
    frame: FrameRecord,
) -> Iterator[ActionCaption | Refusal]:
    """Yield the captions of the frame of one annotator: one for each filled role except agent and
    place.
    """
    ordered = order_frame(frame)
    if isinstance(ordered, Refusal):
        yield ordered
        return
    if ordered.is_passive:
        yield Refusal("its abstract is passive, and nobody fills the role of who acts")
        return
    # A place alone does not say what happens.
    if not ordered.core:
        yield Refusal("no role but agent and place is filled")
    agent = ordered.agent
    for complement in ordered.core:
        preposition = complement.position.words
        text, verb_span = build_sentence(
            agent.subject, ordered.verb_phrase, preposition, complement.render(agent)
        )
        yield ActionCaption(
            text=text,
            verb=ordered.verb.name,
            verb_span=verb_span,
            agent=agent,
            complement=complement.filler,
            preposition=preposition,
        )


def build_sentence(
    subject: str, verb: str, preposition: str, complement: str
) -> tuple[str, Span]:
    """Return the sentence of subject, verb, preposition and complement, and the span of the verb in
    it.
    """
    text = write_sentence(subject, verb, preposition, complement)
    # The verb follows the subject and one space.
    start = len(subject) + 1
    return text, Span(start=start, end=start + len(verb))


@cache
def inflect_present(base: str, plural: bool) -> str:
    """Return the present tense of a verb that agrees with a subject of the third person, singular
    or plural.
    """
    return base if plural else inflect_verb(base, "VBZ")


def split_caption(
    text: str, verb_form: str, verb: SwigVerb, complement: str | None = None
) -> ActionCaption | None:
    """Split a caption at a form of its verb.

    Args:
        verb_form: The form of the verb in the caption.
        complement: The filler at the end of the caption, where it is known.
    Returns:
        The parts of the caption; None where the form does not stand between two phrases, or the
        caption does not end with `complement`.
    """
    match = re.fullmatch(rf"(.+?) ({re.escape(verb_form)}) (.+?)[ .]*", text)
    if match is None:
        return None
    subject, _, predicate = match.groups()
    if complement is None:
        preposition_words, complement = _split_predicate(predicate.split())
    elif f" {predicate}".endswith(f" {complement}"):
        preposition_words = predicate.removesuffix(complement).split()
    else:
        return None
    if not complement:
        return None

    agent = _strip_subject(subject.split())
    # The form of the verb shows the number of the agent.
    is_plural = verb_form == inflect_present(verb.base, True)
    return ActionCaption(
        text=text,
        verb=verb.name,
        verb_span=Span(start=match.start(2), end=match.end(2)),
        agent=FillerNoun(agent, is_plural, get_filler_noun(agent).bare),
        complement=get_filler_noun(complement),
        preposition=remove_determiners(preposition_words),
    )


def remove_determiners(words: Sequence[str]) -> str:
    """Return the words between verb and noun without determiners, separated by spaces."""
    return " ".join(word for word in words if word not in DETERMINERS)


def _split_predicate(words: Sequence[str]) -> tuple[list[str], str]:
    """Split the words after a verb: the words up to the last preposition or determiner, and the
    noun after them.
    """
    # The last word that can precede a noun ends the preposition.
    end = 0
    for index, (word_before, word) in enumerate(pairwise(["", *words])):
        # "of the" is part of a noun: "body of the water".
        if word in BEFORE_NOUNS and word_before != "of":
            end = index + 1
    return list(words[:end]), " ".join(words[end:])


def _strip_subject(words: Sequence[str]) -> str:
    """Return the noun of the subject of a caption, without its determiner and without the capital
    of the sentence.
    """
    if words[0].lower() in DETERMINERS:
        return " ".join(words[1:])
    noun = " ".join(words)
    # Without a determiner the noun has the capital of the sentence, unless the capital is a name's.
    lowered = get_filler_noun(noun.lower())
    if lowered.bare or lowered.plural:
        return lowered.noun
    return noun
