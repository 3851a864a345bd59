"""Syntax trees of sentences about scenes."""

from dataclasses import dataclass

from waltz.scenes.language.words import Quantifier


@dataclass(frozen=True)
class NounPhrase:
    """Quantifier, noun and what restricts it.

    Attributes:
        quantifier: How many.
        plural: Grammatical number.
        kinds: Kinds that the noun stands for; empty for what is never drawn.
        place: The place that it stands for, or empty.
        colour: A colour, or empty.
        restrictions: Modifiers that follow it.
    """

    quantifier: Quantifier
    plural: bool
    kinds: frozenset[str]
    place: str = ""
    colour: str = ""
    restrictions: tuple["Predicate", ...] = ()


@dataclass(frozen=True)
class Pronoun:
    """he, she, it, they (and him, her, them); `this` stands for the whole picture."""

    word: str

    @property
    def plural(self) -> bool:
        """Grammatical number."""
        return self.word == "they"


@dataclass(frozen=True)
class Coordination:
    """Noun phrases joined by `and`."""

    phrases: tuple["NounPhrase | Pronoun", ...]
    plural: bool = True


Phrase = NounPhrase | Pronoun | Coordination


@dataclass(frozen=True)
class PrepositionalPhrase:
    """Preposition and its noun phrase (`under a table`)."""

    preposition: str
    landmark: Phrase


@dataclass(frozen=True)
class Setting:
    """Setting of the scene: indoors, outdoors, night or day."""

    name: str


@dataclass(frozen=True)
class VerbPhrase:
    """A verb with its object or, in the passive, its agent."""

    verb: str
    argument: Phrase | None = None
    passive: bool = False


@dataclass(frozen=True)
class ColourPredicate:
    """Colour adjective after `is` (`is red`)."""

    colour: str


@dataclass(frozen=True)
class NounPredicate:
    """Noun after `is` (`is a dog`)."""

    kinds: frozenset[str]


@dataclass(frozen=True)
class AlonePredicate:
    """The adjective `alone` after `is`."""


@dataclass(frozen=True)
class Negation:
    """Negated predicate."""

    predicate: "Predicate"


@dataclass(frozen=True)
class Conjunction:
    """Predicates joined by `and`."""

    predicates: tuple["Predicate", ...]


Predicate = (
    PrepositionalPhrase
    | Setting
    | VerbPhrase
    | ColourPredicate
    | NounPredicate
    | AlonePredicate
    | Negation
    | Conjunction
)


@dataclass(frozen=True)
class Clause:
    """Subject and predicate; `predicate` is None in an existential clause."""

    subject: Phrase
    predicate: Predicate | None = None
    negated: bool = False


def list_noun_phrases(node: Phrase | Predicate | None) -> list[NounPhrase]:
    """Return the noun phrases in the order of mention."""
    match node:
        case NounPhrase():
            return [node, *(phrase for predicate in node.restrictions for phrase in list_noun_phrases(predicate))]
        case Coordination():
            return [noun_phrase for phrase in node.phrases for noun_phrase in list_noun_phrases(phrase)]
        case PrepositionalPhrase():
            return list_noun_phrases(node.landmark)
        case VerbPhrase():
            return list_noun_phrases(node.argument)
        case Negation():
            return list_noun_phrases(node.predicate)
        case Conjunction():
            return [phrase for predicate in node.predicates for phrase in list_noun_phrases(predicate)]
        case _:
            return []
