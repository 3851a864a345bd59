"""Recursive-descent grammar of the statements and questions about scenes, and their syntax trees.

Every parser method yields each reading of its part of the tokens, as (meaning, next position). Determiner and noun,
subject and verb must agree in number; `a` and `an` are not distinguished.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from typing import TypeVar

from waltz.scenes.language.words import (
    BARE_PLURAL,
    COLOURS,
    NUMERAL_BOUNDS,
    PICTURE_PHRASES,
    PRONOUNS,
    SETTINGS,
    VISIBILITY_WORDS,
    Determiner,
    Noun,
    Quantifier,
    build_numeral,
    get_quantifier,
    index_phrases,
    list_determiners,
    list_nouns,
    list_numerals,
    list_verb_forms,
)
from waltz.scenes.lexicon import read_verbs


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


Meaning = TypeVar("Meaning")

MAX_READINGS = 32
"""Maximum number of readings of a sentence that are considered."""

MAX_NOUN_PHRASES = 4000
"""Maximum number of noun phrases that are tried: the readings of a long chain of prepositions multiply."""

BE_FORMS = {"is": False, "are": True, "was": False, "were": True}


class Parser:
    """Readings of one sentence, question or answer without its final mark."""

    def __init__(self, words: tuple[str, ...]) -> None:
        """Hold the words to parse."""
        self.words = words
        self.steps = 0

    def get_word(self, position: int) -> str:
        """Return the word at a position; empty past the end."""
        return self.words[position] if position < len(self.words) else ""

    def starts_with(self, position: int, key: tuple[str, ...]) -> bool:
        """Return True if these words stand at a position."""
        return self.words[position : position + len(key)] == key

    def parse_determiner(self, position: int) -> Iterator[tuple[Determiner, int]]:
        """Yield determiners and numerals, longest first, and none at all."""
        for prefix in NUMERAL_BOUNDS:
            if self.starts_with(position, prefix):
                number = list_numerals().get(self.get_word(position + len(prefix)))
                if number is not None:
                    yield build_numeral(prefix, number), position + len(prefix) + 1
        for length in (3, 2, 1):
            determiner = list_determiners().get(self.words[position : position + length])
            if determiner is not None and len(self.words) >= position + length:
                yield determiner, position + length
        yield BARE_PLURAL, position

    def parse_noun(self, position: int) -> Iterator[tuple[Noun, int]]:
        """Yield nouns of up to three words."""
        for length in (3, 2, 1):
            if position + length <= len(self.words):
                for noun in list_nouns().get(self.words[position : position + length], ()):
                    yield noun, position + length

    def parse_noun_phrase(self, position: int, restricted: bool = True) -> Iterator[tuple[NounPhrase | Pronoun, int]]:
        """Yield a pronoun, or determiner, colour, noun and restrictions."""
        self.steps += 1
        if self.steps > MAX_NOUN_PHRASES:
            return
        word = self.get_word(position)
        if word in PRONOUNS or word == "her":
            yield Pronoun(PRONOUNS.get(word, "she")), position + 1
        for determiner, after in self.parse_determiner(position):
            colour = self.get_word(after) if self.get_word(after) in COLOURS else ""
            options = [(colour, after + 1), ("", after)] if colour else [("", after)]
            for adjective, start in options:
                for noun, end in self.parse_noun(start):
                    quantifier = get_quantifier(determiner, noun)
                    if quantifier is None:
                        continue
                    noun_phrase = NounPhrase(
                        quantifier, noun.plural, noun.kinds, noun.place, adjective.replace("grey", "gray")
                    )
                    if restricted:
                        yield from self._parse_restrictions(noun_phrase, end)
                    else:
                        yield noun_phrase, end

    def _parse_restrictions(self, phrase: NounPhrase, position: int) -> Iterator[tuple[NounPhrase, int]]:
        for predicate, after in self.parse_restriction(position, phrase.plural):
            restricted_phrase = replace(phrase, restrictions=(*phrase.restrictions, predicate))
            yield from self._parse_restrictions(restricted_phrase, after)
        yield phrase, position

    def parse_restriction(self, position: int, plural: bool) -> Iterator[tuple[Predicate, int]]:
        """Yield what may follow a noun: a preposition and its phrase, a setting, a participle, a relative clause."""
        if self.get_word(position) in ("who", "that", "which"):
            yield from self.parse_finite(position + 1, plural)
            return
        if self.get_word(position) in VISIBILITY_WORDS and self.get_word(position) != "present":
            yield Conjunction(()), position + 1
        yield from self.parse_adjunct(position)
        yield from self.parse_participle(position)

    def parse_phrase(self, position: int) -> Iterator[tuple[Phrase, int]]:
        """Yield a noun phrase, or several joined by `and`."""
        for first, after in self.parse_noun_phrase(position):
            for rest, end in self._parse_conjuncts(after):
                yield (Coordination((first, *rest)), end)
            yield first, after

    def _parse_conjuncts(self, position: int) -> Iterator[tuple[tuple[NounPhrase | Pronoun, ...], int]]:
        start = position + 1 if self.get_word(position) == "," else position
        if self.get_word(start) == "and":
            for phrase, end in self.parse_noun_phrase(start + 1):
                yield (phrase,), end
        if start > position and self.get_word(start) != "and":
            for phrase, end in self.parse_noun_phrase(start):
                for rest, last in self._parse_conjuncts(end):
                    yield (phrase, *rest), last

    def parse_adjunct(self, position: int) -> Iterator[tuple[Predicate, int]]:
        """Yield a setting (indoors, at night), or a preposition with its phrase."""
        for words in index_phrases("settings").get(self.get_word(position), ()):
            if self.starts_with(position, words):
                yield Setting(SETTINGS[" ".join(words)]), position + len(words)
        for words in index_phrases("prepositions").get(self.get_word(position), ()):
            if self.starts_with(position, words):
                for phrase, end in self.parse_phrase(position + len(words)):
                    yield PrepositionalPhrase(" ".join(words), phrase), end

    def parse_adjuncts(self, position: int) -> Iterator[tuple[tuple[Predicate, ...], int]]:
        """Yield any number of adjuncts."""
        start = position + 1 if self.get_word(position) == "," else position
        for first, after in self.parse_adjunct(start):
            for rest, end in self.parse_adjuncts(after):
                yield (first, *rest), end
        yield (), position

    def parse_participle(self, position: int) -> Iterator[tuple[Predicate, int]]:
        """Yield `riding a horse`, `ridden by a man`, `being ridden by a man`."""
        passive = position + 1 if self.get_word(position) == "being" else position
        for verb, form in list_verb_forms().get(self.get_word(position), ()):
            if form == "ing":
                yield from self.parse_arguments(verb, position + 1)
        for verb, form in list_verb_forms().get(self.get_word(passive), ()):
            if form == "pp":
                yield from self._parse_passive(verb, passive + 1)

    def _parse_passive(self, verb: str, position: int) -> Iterator[tuple[Predicate, int]]:
        preposition = tuple(read_verbs()[verb].preposition.split())
        if not self.starts_with(position, preposition):
            return
        position += len(preposition)
        if self.get_word(position) == "by":
            for agent, end in self.parse_phrase(position + 1):
                yield VerbPhrase(verb, agent, passive=True), end
        yield VerbPhrase(verb, None, passive=True), position

    def parse_arguments(self, verb: str, position: int) -> Iterator[tuple[Predicate, int]]:
        """Yield what follows an active verb form: its object, or nothing."""
        entry = read_verbs()[verb]
        preposition = tuple(entry.preposition.split())
        if entry.themes and self.starts_with(position, preposition):
            for theme, end in self.parse_phrase(position + len(preposition)):
                yield VerbPhrase(verb, theme), end
        yield VerbPhrase(verb), position

    def parse_finite(self, position: int, plural: bool) -> Iterator[tuple[Predicate, int]]:
        """Yield a verb phrase whose verb agrees with its subject."""
        for predicate, after in self._parse_finite_verb(position, plural):
            for adjuncts, end in self.parse_adjuncts(after):
                conjoined = Conjunction((predicate, *adjuncts)) if adjuncts else predicate
                if self.get_word(end) == "and":
                    for second, last in self.parse_finite(end + 1, plural):
                        yield Conjunction((conjoined, second)), last
                yield conjoined, end

    def _parse_finite_verb(self, position: int, plural: bool) -> Iterator[tuple[Predicate, int]]:
        word = self.get_word(position)
        if word in BE_FORMS and BE_FORMS[word] == plural:
            yield from self.parse_complement(position + 1, plural)
        if word in ("does", "do") and (word == "do") == plural and self.get_word(position + 1) == "not":
            for verb, form in list_verb_forms().get(self.get_word(position + 2), ()):
                if form == "base":
                    yield from (
                        (Negation(verb_phrase), end) for verb_phrase, end in self.parse_arguments(verb, position + 3)
                    )
        for verb, form in list_verb_forms().get(word, ()):
            if form == ("base" if plural else "third"):
                yield from self.parse_arguments(verb, position + 1)

    def parse_complement(self, position: int, plural: bool) -> Iterator[tuple[Predicate, int]]:
        """Yield what follows `is` or `are`."""
        if self.get_word(position) == "not":
            for predicate, end in self.parse_complement(position + 1, plural):
                yield Negation(predicate), end
            return
        yield from self.parse_participle(position)
        yield from self.parse_adjunct(position)
        if self.get_word(position) in COLOURS:
            yield ColourPredicate(self.get_word(position).replace("grey", "gray")), position + 1
        if self.get_word(position) == "alone":
            yield AlonePredicate(), position + 1
        if self.get_word(position) in VISIBILITY_WORDS:
            yield Conjunction(()), position + 1
        if self.get_word(position) in ("a", "an") or plural:
            start = position + 1 if self.get_word(position) in ("a", "an") else position
            for noun, end in self.parse_noun(start):
                if noun.plural == plural and not noun.place and (start > position) != plural:
                    yield NounPredicate(noun.kinds), end

    def parse_existence(self, position: int) -> Iterator[tuple[Clause, int]]:
        """Yield `there is`, `there are`."""
        if self.get_word(position) == "there" and self.get_word(position + 1) in BE_FORMS:
            start = position + 2 + (self.get_word(position + 2) == "not")
            yield from self.parse_existential_phrase(start, BE_FORMS[self.get_word(position + 1)], start > position + 2)

    def parse_existential_phrase(self, position: int, plural: bool, negated: bool) -> Iterator[tuple[Clause, int]]:
        """Yield what follows `there is` or `there are`."""
        for phrase, after in self.parse_phrase(position):
            first = phrase.phrases[0] if isinstance(phrase, Coordination) else phrase
            if isinstance(first, Pronoun) or first.plural != plural:
                continue
            for adjuncts, end in self.parse_adjuncts(after):
                yield Clause(phrase, Conjunction(adjuncts) if adjuncts else None, negated), end

    def parse_clause(self, position: int) -> Iterator[tuple[Clause, int]]:
        """Yield a main clause, an existential one, or a bare noun phrase; a place may stand before it."""
        if self.words[position : position + 1] in (("the",), ("this",)) and self.get_word(position + 1) in (
            "picture",
            "image",
            "photo",
            "scene",
        ):
            if self.get_word(position + 2) in ("shows", "contains"):
                yield from ((Clause(phrase), end) for phrase, end in self.parse_phrase(position + 3))
            elif self.get_word(position + 2) == "is":
                yield from ((Clause(Pronoun("it"), setting), end) for setting, end in self.parse_adjunct(position + 3))
        yield from self.parse_existence(position)
        if self.get_word(position) in ("this", "that") and self.get_word(position + 1) == "is":
            yield from (
                (Clause(Pronoun("it"), predicate), end) for predicate, end in self.parse_complement(position + 2, False)
            )
        for subject, after in self.parse_phrase(position):
            for plural in self.list_numbers(position, subject):
                for predicate, end in self.parse_finite(after, plural):
                    yield Clause(subject, predicate), end
            if not isinstance(subject, Pronoun):
                yield Clause(subject), after
        for place, after in self.parse_adjunct(position):
            start = after + 1 if self.get_word(after) == "," else after
            for main, end in self.parse_clause(start):
                conjoined = Conjunction((main.predicate, place)) if main.predicate is not None else place
                yield Clause(main.subject, conjoined, main.negated), end

    def list_numbers(self, position: int, subject: Phrase) -> tuple[bool, ...]:
        """Return the grammatical numbers of the verb that agree with a subject: both for `a group of`."""
        return (True, False) if self.starts_with(position, ("a", "group", "of")) else (subject.plural,)

    def parse_sentence(self, position: int) -> Iterator[tuple[tuple[Clause, ...], int]]:
        """Yield clauses joined by `and` or `while`."""
        for first, after in self.parse_clause(position):
            start = after + 1 if self.get_word(after) == "," else after
            if self.get_word(start) in ("and", "while"):
                for rest, end in self.parse_sentence(start + 1):
                    yield (first, *rest), end
            yield (first,), after


def select_complete(readings: Iterator[tuple[Meaning, int]], length: int) -> Iterator[Meaning]:
    """Yield the readings that take up all words."""
    return (meaning for meaning, end in readings if end == length)


@lru_cache(maxsize=65536)
def read_sentence(words: tuple[str, ...]) -> tuple[tuple[Clause, ...], ...]:
    """Return every reading of a sentence, as clauses that all hold; none where it lies outside the grammar."""
    readings = islice(select_complete(Parser(words).parse_sentence(0), len(words)), MAX_READINGS)
    return tuple(dict.fromkeys(readings))


_PICTURE_PHRASES = tuple(tuple(frame.split()) for frame in PICTURE_PHRASES)
_PICTURE_NOUNS = frozenset(frame[-1] for frame in _PICTURE_PHRASES)


def parse_question(parser: Parser, position: int) -> Iterator[tuple[Clause, int]]:
    """Yield a yes/no question, as the clause that `yes` affirms."""
    word = parser.get_word(position)
    if word in BE_FORMS and parser.get_word(position + 1) == "there":
        yield from parser.parse_existential_phrase(position + 2, BE_FORMS[word], False)
    elif word in BE_FORMS and parser.get_word(position + 1) in ("this", "that") and not BE_FORMS[word]:
        yield from (
            (Clause(Pronoun("it"), predicate), end)
            for predicate, end in _parse_complements(parser, position + 2, False)
        )
    elif word in BE_FORMS:
        for subject, after in parser.parse_phrase(position + 1):
            if BE_FORMS[word] in parser.list_numbers(position + 1, subject):
                yield from (
                    (Clause(subject, predicate), end)
                    for predicate, end in _parse_complements(parser, after, BE_FORMS[word])
                )
    elif parser.words[position : position + 3] in (("can", "you", "see"), ("do", "you", "see")):
        yield from ((Clause(phrase), end) for phrase, end in parser.parse_phrase(position + 3))
    elif word in ("does", "do"):
        for subject, after in parser.parse_phrase(position + 1):
            for verb, form in list_verb_forms().get(parser.get_word(after), ()):
                if form == "base" and subject.plural == (word == "do"):
                    for verb_phrase, end in parser.parse_arguments(verb, after + 1):
                        for adjuncts, last in parser.parse_adjuncts(end):
                            yield Clause(subject, Conjunction((verb_phrase, *adjuncts))), last


def _parse_complements(parser: Parser, position: int, plural: bool) -> Iterator[tuple[Predicate, int]]:
    for predicate, after in parser.parse_complement(position, plural):
        for adjuncts, end in parser.parse_adjuncts(after):
            yield Conjunction((predicate, *adjuncts)) if adjuncts else predicate, end


def parse_answered_question(parser: Parser, position: int, answer: str) -> Iterator[tuple[Clause, int]]:
    """Yield `how many dogs are there` or `what color is the car`, as the clause that the answer makes."""
    number = list_numerals().get(answer)
    if parser.starts_with(position, ("how", "many")) and number is not None:
        for noun, after in parser.parse_noun(position + 2):
            if not noun.plural or parser.get_word(after) != "are":
                continue
            phrase = NounPhrase(Quantifier(number, number), True, noun.kinds, noun.place)
            if parser.get_word(after + 1) == "there":
                for adjuncts, end in parser.parse_adjuncts(after + 2):
                    yield Clause(phrase, Conjunction(adjuncts)), end
            for predicate, end in _parse_complements(parser, after + 1, True):
                yield Clause(phrase, predicate), end
            yield Clause(phrase), after + 1
    is_colour_question = parser.get_word(position) == "what" and parser.get_word(position + 1) in ("color", "colour")
    if is_colour_question and answer in COLOURS and parser.get_word(position + 2) in BE_FORMS:
        for subject, end in parser.parse_phrase(position + 3):
            if subject.plural == BE_FORMS[parser.get_word(position + 2)]:
                yield Clause(subject, ColourPredicate(answer)), end


@lru_cache(maxsize=65536)
def read_answered_question(words: tuple[str, ...], answer: str) -> tuple[tuple[Clause, ...], ...]:
    """Return every reading of a question together with its answer, as in `readings`; for `no`, of what it denies."""
    parser = Parser(words)
    readings = parse_question(parser, 0) if answer in ("yes", "no") else parse_answered_question(parser, 0, answer)
    return tuple(dict.fromkeys((clause,) for clause in islice(select_complete(readings, len(words)), MAX_READINGS)))


def split_statements(words: Sequence[str]) -> Iterable[tuple[tuple[str, ...], str | None]]:
    """Yield statements, and questions with their answers, without punctuation and without `in the picture`."""
    pieces: list[tuple[tuple[str, ...], str]] = []
    start = 0
    for index, word in enumerate(words):
        if word in ".?!;:":
            pieces.append((_remove_picture_phrase(tuple(words[start:index])), word))
            start = index + 1
    pieces.append((_remove_picture_phrase(tuple(words[start:])), "."))
    pieces = [(piece, mark) for piece, mark in pieces if piece or mark == "?"]
    index = 0
    while index < len(pieces):
        piece, mark = pieces[index]
        if mark == "?":
            answer = pieces[index + 1][0] if index + 1 < len(pieces) else ()
            yield piece, answer[0] if len(answer) == 1 else ""
            index += 2
        else:
            yield piece, None
            index += 1


def _remove_picture_phrase(words: tuple[str, ...]) -> tuple[str, ...]:
    if _PICTURE_NOUNS.isdisjoint(words):
        return words
    for frame in _PICTURE_PHRASES:
        for start in range(len(words) - len(frame) + 1):
            if words[start : start + len(frame)] == frame:
                return words[:start] + words[start + len(frame) :]
    return words
