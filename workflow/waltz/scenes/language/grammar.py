"""Recursive-descent grammar of the statements and questions about scenes, and their syntax trees.

Every parser method yields each reading of its part of the tokens, as (meaning, next position). Determiner and noun,
subject and verb must agree in number; `a` and `an` are not distinguished.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from typing import TypeVar

from waltz.scenes.language.words import (
    COLOURS,
    NO_DETERMINER,
    NUMERAL_OFFSETS,
    PICTURE_NOUNS,
    PRONOUNS,
    SENSES,
    SETTINGS,
    VISIBILITY_WORDS,
    Determiner,
    Noun,
    Quantifier,
    build_numeral,
    list_determiners,
    list_nouns,
    list_numerals,
    list_verb_forms,
)
from waltz.scenes.lexicon import read_verbs

T = TypeVar("T")

MAX_READINGS = 32
"""Maximum number of readings of a sentence that are considered."""

MAX_NOUN_PHRASES = 4000
"""Maximum number of noun phrases that are tried: the readings of a long chain of prepositions multiply."""

BE_FORMS = {"is": False, "are": True, "was": False, "were": True}
"""Forms of `be`, and whether they are plural."""


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

    phrases: tuple[NounPhrase | Pronoun, ...]
    plural: bool = True


Phrase = NounPhrase | Pronoun | Coordination


@dataclass(frozen=True)
class PrepositionalPhrase:
    """Sense of a preposition, and its noun phrase (`under a table`)."""

    sense: str
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
    """Predicates joined by `and`; true of everything where there are none."""

    predicates: tuple["Predicate", ...] = ()


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
    """Subject and predicate; the predicate of an existential clause may be empty."""

    subject: Phrase
    predicate: Predicate = Conjunction()
    negated: bool = False


def list_noun_phrases(node: Phrase | Predicate | Clause) -> list[NounPhrase]:
    """Return the noun phrases in the order of mention."""
    parts: Sequence[Phrase | Predicate] = ()
    match node:
        case NounPhrase():
            parts = node.restrictions
        case Coordination():
            parts = node.phrases
        case PrepositionalPhrase():
            parts = (node.landmark,)
        case VerbPhrase() if node.argument is not None:
            parts = (node.argument,)
        case Negation():
            parts = (node.predicate,)
        case Conjunction():
            parts = node.predicates
        case Clause():
            parts = (node.subject, node.predicate)
    own = [node] if isinstance(node, NounPhrase) else []
    return own + [phrase for part in parts for phrase in list_noun_phrases(part)]


@lru_cache(maxsize=65536)
def read_sentence(words: tuple[str, ...]) -> tuple[tuple[Clause, ...], ...]:
    """Return every reading of a sentence, as clauses that all hold; none where it lies outside the grammar."""
    return _select_complete(_Parser(words).parse_sentence(0), len(words))


@lru_cache(maxsize=65536)
def read_answered_question(words: tuple[str, ...], answer: str) -> tuple[tuple[Clause, ...], ...]:
    """Return every reading of a question with its answer, as `read_sentence` does; for `no`, of what it denies."""
    parser = _Parser(words)
    clauses = parser.parse_question() if answer in ("yes", "no") else parser.parse_answered_question(answer)
    return _select_complete((((clause,), end) for clause, end in clauses), len(words))


def _select_complete(readings: Iterator[tuple[T, int]], length: int) -> tuple[T, ...]:
    """Return the different readings that take up all words."""
    complete = (meaning for meaning, end in readings if end == length)
    return tuple(dict.fromkeys(islice(complete, MAX_READINGS)))


def split_statements(words: Sequence[str]) -> Iterable[tuple[tuple[str, ...], str | None]]:
    """Yield statements, and questions with their answers, without punctuation and without `in the picture`."""
    pieces: list[tuple[tuple[str, ...], str]] = []
    start = 0
    for index, word in enumerate((*words, ".")):
        if word in ".?!;:":
            pieces.append((_remove_picture_phrase(tuple(words[start:index])), word))
            start = index + 1
    remaining = iter([(piece, mark) for piece, mark in pieces if piece or mark == "?"])
    for piece, mark in remaining:
        if mark == "?":
            answer, _ = next(remaining, ((), ""))
            yield piece, answer[0] if len(answer) == 1 else ""
        else:
            yield piece, None


def _remove_picture_phrase(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words without `in the picture`, which means nothing, as every sentence is about the picture."""
    for start in range(len(words) - 2):
        preposition, article, noun = words[start : start + 3]
        if preposition in ("in", "on") and article in ("the", "this") and noun in PICTURE_NOUNS:
            return words[:start] + words[start + 3 :]
    return words


def _add_adjuncts(predicate: Predicate, adjuncts: tuple[Predicate, ...]) -> Predicate:
    return Conjunction((predicate, *adjuncts)) if adjuncts else predicate


class _Parser:
    """Readings of one sentence, question or answer without its final mark."""

    def __init__(self, words: tuple[str, ...]) -> None:
        self.words = words
        self.steps = 0

    def get_word(self, position: int) -> str:
        """Return the word at a position; empty past the end."""
        return self.words[position] if position < len(self.words) else ""

    def starts_with(self, position: int, *words: str) -> bool:
        return self.words[position : position + len(words)] == words

    def skip(self, position: int, word: str) -> int:
        """Return the next position where this word stands at a position, else the position itself."""
        return position + 1 if self.get_word(position) == word else position

    def find_entries(self, position: int, table: Mapping[str, T]) -> Iterator[tuple[T, int]]:
        """Yield the entries of phrases of up to four words that stand at a position, longest first."""
        for end in range(min(position + 4, len(self.words)), position, -1):
            entry = table.get(" ".join(self.words[position:end]))
            if entry is not None:
                yield entry, end

    def parse_sentence(self, position: int) -> Iterator[tuple[tuple[Clause, ...], int]]:
        """Yield clauses joined by `and` or `while`."""
        for first, after in self.parse_clause(position):
            start = self.skip(after, ",")
            if self.get_word(start) in ("and", "while"):
                for rest, end in self.parse_sentence(start + 1):
                    yield (first, *rest), end
            yield (first,), after

    def parse_clause(self, position: int) -> Iterator[tuple[Clause, int]]:
        """Yield a main clause, an existential one, or a bare noun phrase; a place may stand before it."""
        first, second, third = (self.get_word(position + offset) for offset in range(3))
        if first in ("the", "this") and second in ("picture", "image", "photo", "scene"):
            if third in ("shows", "contains"):
                yield from ((Clause(phrase), end) for phrase, end in self.parse_phrase(position + 3))
            elif third == "is":
                yield from ((Clause(Pronoun("it"), setting), end) for setting, end in self.parse_adjunct(position + 3))
        if first == "there" and second in BE_FORMS:
            start = self.skip(position + 2, "not")
            yield from self.parse_existential_phrase(start, BE_FORMS[second], start > position + 2)
        if first in ("this", "that") and second == "is":
            for predicate, end in self.parse_complement(position + 2, False):
                yield Clause(Pronoun("it"), predicate), end
        for subject, after in self.parse_phrase(position):
            for plural in self.list_numbers(position, subject):
                for predicate, end in self.parse_finite(after, plural):
                    yield Clause(subject, predicate), end
            if not isinstance(subject, Pronoun):
                yield Clause(subject), after
        for place, after in self.parse_adjunct(position):
            for main, end in self.parse_clause(self.skip(after, ",")):
                yield replace(main, predicate=Conjunction((main.predicate, place))), end

    def parse_existential_phrase(self, position: int, plural: bool, negated: bool) -> Iterator[tuple[Clause, int]]:
        """Yield what follows `there is` or `there are`."""
        for phrase, after in self.parse_phrase(position):
            first = phrase.phrases[0] if isinstance(phrase, Coordination) else phrase
            if isinstance(first, NounPhrase) and first.plural == plural:
                for adjuncts, end in self.parse_adjuncts(after):
                    yield Clause(phrase, Conjunction(adjuncts), negated), end

    def list_numbers(self, position: int, subject: Phrase) -> tuple[bool, ...]:
        """Return the grammatical numbers of the verb that agree with a subject: both for `a group of`."""
        return (True, False) if self.starts_with(position, "a", "group", "of") else (subject.plural,)

    def parse_question(self) -> Iterator[tuple[Clause, int]]:
        """Yield a yes/no question, as the clause that `yes` affirms."""
        first, second = self.get_word(0), self.get_word(1)
        if first in BE_FORMS and second == "there":
            yield from self.parse_existential_phrase(2, BE_FORMS[first], False)
        elif first in ("is", "was") and second in ("this", "that"):
            for predicate, end in self.parse_full_complement(2, False):
                yield Clause(Pronoun("it"), predicate), end
        elif first in BE_FORMS:
            for subject, after in self.parse_phrase(1):
                if BE_FORMS[first] in self.list_numbers(1, subject):
                    for predicate, end in self.parse_full_complement(after, BE_FORMS[first]):
                        yield Clause(subject, predicate), end
        elif self.words[:3] in (("can", "you", "see"), ("do", "you", "see")):
            yield from ((Clause(phrase), end) for phrase, end in self.parse_phrase(3))
        elif first in ("does", "do"):
            for subject, after in self.parse_phrase(1):
                if subject.plural == (first == "do"):
                    for verb_phrase, end in self.parse_active(after, "base"):
                        for adjuncts, last in self.parse_adjuncts(end):
                            yield Clause(subject, _add_adjuncts(verb_phrase, adjuncts)), last

    def parse_answered_question(self, answer: str) -> Iterator[tuple[Clause, int]]:
        """Yield `how many dogs are there` or `what color is the car`, as the clause that the answer makes."""
        number = list_numerals().get(answer)
        if self.starts_with(0, "how", "many") and number is not None:
            for noun, after in self.parse_noun(2):
                if noun.plural and self.get_word(after) == "are":
                    phrase = NounPhrase(Quantifier(number, number), True, noun.kinds, noun.place)
                    if self.get_word(after + 1) == "there":
                        for adjuncts, end in self.parse_adjuncts(after + 2):
                            yield Clause(phrase, Conjunction(adjuncts)), end
                    for predicate, end in self.parse_full_complement(after + 1, True):
                        yield Clause(phrase, predicate), end
                    yield Clause(phrase), after + 1
        is_about_colour = self.get_word(0) == "what" and self.get_word(1) in ("color", "colour")
        if is_about_colour and answer in COLOURS and self.get_word(2) in BE_FORMS:
            for subject, end in self.parse_phrase(3):
                if subject.plural == BE_FORMS[self.get_word(2)]:
                    yield Clause(subject, ColourPredicate(answer)), end

    def parse_phrase(self, position: int) -> Iterator[tuple[Phrase, int]]:
        """Yield a noun phrase, or several joined by `and`."""
        for first, after in self.parse_noun_phrase(position):
            for rest, end in self.parse_conjuncts(after):
                yield Coordination((first, *rest)), end
            yield first, after

    def parse_conjuncts(self, position: int) -> Iterator[tuple[tuple[NounPhrase | Pronoun, ...], int]]:
        start = self.skip(position, ",")
        if self.get_word(start) == "and":
            for phrase, end in self.parse_noun_phrase(start + 1):
                yield (phrase,), end
        elif start > position:
            for phrase, end in self.parse_noun_phrase(start):
                for rest, last in self.parse_conjuncts(end):
                    yield (phrase, *rest), last

    def parse_noun_phrase(self, position: int) -> Iterator[tuple[NounPhrase | Pronoun, int]]:
        """Yield a pronoun, or determiner, colour, noun and restrictions."""
        self.steps += 1
        if self.steps > MAX_NOUN_PHRASES:
            return
        if self.get_word(position) in PRONOUNS:
            yield Pronoun(PRONOUNS[self.get_word(position)]), position + 1
        for determiner, after in self.parse_determiner(position):
            for colour, start in self.parse_colour(after):
                for noun, end in self.parse_noun(start):
                    quantifier = determiner.get_quantifier(noun)
                    if quantifier is not None:
                        phrase = NounPhrase(quantifier, noun.plural, noun.kinds, noun.place, colour)
                        yield from self.parse_restrictions(phrase, end)

    def parse_determiner(self, position: int) -> Iterator[tuple[Determiner, int]]:
        """Yield numerals and determiners, longest first, and none at all."""
        for offsets, after in (*self.find_entries(position, NUMERAL_OFFSETS), ((0, 0), position)):
            number = list_numerals().get(self.get_word(after))
            if number is not None:
                yield build_numeral(number, *offsets), after + 1
        yield from self.find_entries(position, list_determiners())
        yield NO_DETERMINER, position

    def parse_colour(self, position: int) -> Iterator[tuple[str, int]]:
        """Yield a colour where one stands there, and none at all."""
        if self.get_word(position) in COLOURS:
            yield self.get_word(position).replace("grey", "gray"), position + 1
        yield "", position

    def parse_noun(self, position: int) -> Iterator[tuple[Noun, int]]:
        for nouns, end in self.find_entries(position, list_nouns()):
            yield from ((noun, end) for noun in nouns)

    def parse_restrictions(self, phrase: NounPhrase, position: int) -> Iterator[tuple[NounPhrase, int]]:
        for predicate, after in self.parse_restriction(position, phrase.plural):
            restricted = replace(phrase, restrictions=(*phrase.restrictions, predicate))
            yield from self.parse_restrictions(restricted, after)
        yield phrase, position

    def parse_restriction(self, position: int, plural: bool) -> Iterator[tuple[Predicate, int]]:
        """Yield what may follow a noun: a preposition and its phrase, a setting, a participle, a relative clause."""
        if self.get_word(position) in ("who", "that", "which"):
            yield from self.parse_finite(position + 1, plural)
            return
        if self.get_word(position) in VISIBILITY_WORDS and self.get_word(position) != "present":
            yield Conjunction(), position + 1
        yield from self.parse_adjunct(position)
        yield from self.parse_participle(position)

    def parse_adjunct(self, position: int) -> Iterator[tuple[Predicate, int]]:
        """Yield a setting (indoors, at night), or a preposition with its phrase."""
        for setting, end in self.find_entries(position, SETTINGS):
            yield Setting(setting), end
        for sense, after in self.find_entries(position, SENSES):
            for phrase, end in self.parse_phrase(after):
                yield PrepositionalPhrase(sense, phrase), end

    def parse_adjuncts(self, position: int) -> Iterator[tuple[tuple[Predicate, ...], int]]:
        """Yield any number of adjuncts."""
        for first, after in self.parse_adjunct(self.skip(position, ",")):
            for rest, end in self.parse_adjuncts(after):
                yield (first, *rest), end
        yield (), position

    def parse_participle(self, position: int) -> Iterator[tuple[Predicate, int]]:
        """Yield `riding a horse`, `ridden by a man`, `being ridden by a man`."""
        yield from self.parse_active(position, "ing")
        start = self.skip(position, "being")
        for verb, form in list_verb_forms().get(self.get_word(start), ()):
            if form == "pp":
                yield from self.parse_passive(verb, start + 1)

    def parse_active(self, position: int, wanted: str) -> Iterator[tuple[Predicate, int]]:
        """Yield an active verb in a form, with its object or without."""
        for verb, form in list_verb_forms().get(self.get_word(position), ()):
            if form == wanted:
                entry = read_verbs()[verb]
                preposition = entry.preposition.split()
                if entry.themes and self.starts_with(position + 1, *preposition):
                    for theme, end in self.parse_phrase(position + 1 + len(preposition)):
                        yield VerbPhrase(verb, theme), end
                yield VerbPhrase(verb), position + 1

    def parse_passive(self, verb: str, position: int) -> Iterator[tuple[Predicate, int]]:
        preposition = read_verbs()[verb].preposition.split()
        if not self.starts_with(position, *preposition):
            return
        position += len(preposition)
        if self.get_word(position) == "by":
            for agent, end in self.parse_phrase(position + 1):
                yield VerbPhrase(verb, agent, passive=True), end
        yield VerbPhrase(verb, passive=True), position

    def parse_finite(self, position: int, plural: bool) -> Iterator[tuple[Predicate, int]]:
        """Yield a verb phrase whose verb agrees with its subject."""
        for predicate, after in self.parse_finite_verb(position, plural):
            for adjuncts, end in self.parse_adjuncts(after):
                conjoined = _add_adjuncts(predicate, adjuncts)
                if self.get_word(end) == "and":
                    for second, last in self.parse_finite(end + 1, plural):
                        yield Conjunction((conjoined, second)), last
                yield conjoined, end

    def parse_finite_verb(self, position: int, plural: bool) -> Iterator[tuple[Predicate, int]]:
        word = self.get_word(position)
        if BE_FORMS.get(word) == plural:
            yield from self.parse_complement(position + 1, plural)
        if self.starts_with(position, "do" if plural else "does", "not"):
            for verb_phrase, end in self.parse_active(position + 2, "base"):
                yield Negation(verb_phrase), end
        yield from self.parse_active(position, "base" if plural else "third")

    def parse_full_complement(self, position: int, plural: bool) -> Iterator[tuple[Predicate, int]]:
        """Yield what follows `is` or `are`, with its adjuncts."""
        for predicate, after in self.parse_complement(position, plural):
            for adjuncts, end in self.parse_adjuncts(after):
                yield _add_adjuncts(predicate, adjuncts), end

    def parse_complement(self, position: int, plural: bool) -> Iterator[tuple[Predicate, int]]:
        """Yield what follows `is` or `are`."""
        word = self.get_word(position)
        if word == "not":
            for predicate, end in self.parse_complement(position + 1, plural):
                yield Negation(predicate), end
            return
        yield from self.parse_participle(position)
        yield from self.parse_adjunct(position)
        if word in COLOURS:
            yield ColourPredicate(word.replace("grey", "gray")), position + 1
        if word == "alone":
            yield AlonePredicate(), position + 1
        if word in VISIBILITY_WORDS:
            yield Conjunction(), position + 1
        if (word in ("a", "an")) != plural:
            for noun, end in self.parse_noun(position if plural else position + 1):
                if noun.plural == plural and not noun.place:
                    yield NounPredicate(noun.kinds), end
