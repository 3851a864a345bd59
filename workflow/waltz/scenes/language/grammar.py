"""Recursive-descent grammar of the statements and questions about scenes, and their syntax trees.

Every parser method yields each reading of its part of the tokens, as (meaning, next position).
`_convert` builds other meanings of some readings, `_chain` joins the readings of two parts that
follow each other. Determiner and noun, subject and verb must agree in number; `a` and `an` are not
distinguished.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import islice, product
from typing import TypeVar

from waltz.scenes.language.words import (
    COLORS,
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
    list_verbs_by_form,
)
from waltz.scenes.lexicon import SceneVerb

T = TypeVar("T")
U = TypeVar("U")
V = TypeVar("V")

Readings = Iterator[tuple[T, int]]
"""Meanings of a part of the words, each with the position after it."""

MAX_READINGS = 32
"""Maximum number of readings of a sentence that are considered."""

MAX_NOUN_PHRASES = 4000
"""Maximum number of noun phrases that are tried: the readings of a long chain of prepositions
multiply.
"""

PICTURE_SUBJECTS = set(product(("the", "this"), ("picture", "image", "photo", "scene")))
"""Subjects of clauses about the picture, such as `the picture` in `the picture shows a dog`."""

PICTURE_PHRASES = set(product(("in", "on"), ("the", "this"), PICTURE_NOUNS))
"""Phrases that mean nothing, as every sentence is about the picture."""

MARKS = (".", "?", "!", ";", ":")
"""Marks that end a statement or a question."""

BE_FORMS = {"is": False, "are": True, "was": False, "were": True}
"""Forms of `be`, and whether they are plural."""


@dataclass(frozen=True)
class QuantifiedPhrase:
    """Quantifier, noun and what restricts it.

    Attributes:
        quantifier: How many.
        plural: Grammatical number.
        kinds: Kinds that the noun stands for; empty for what is never drawn.
        place: The place that it stands for, or empty.
        color: A color, or empty.
        restrictions: Modifiers that follow it.
    """

    quantifier: Quantifier
    plural: bool
    kinds: frozenset[str]
    place: str = ""
    color: str = ""
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

    phrases: tuple[QuantifiedPhrase | Pronoun, ...]
    plural: bool = True


Phrase = QuantifiedPhrase | Pronoun | Coordination


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
class ColorPredicate:
    """Color adjective after `is` (`is red`)."""

    color: str


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
    | ColorPredicate
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


def list_noun_phrases(node: Phrase | Predicate | Clause) -> list[QuantifiedPhrase]:
    """Return the noun phrases in the order of mention."""
    parts: Sequence[Phrase | Predicate] = ()
    match node:
        case QuantifiedPhrase():
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
    phrases = [node] if isinstance(node, QuantifiedPhrase) else []
    for part in parts:
        phrases += list_noun_phrases(part)
    return phrases


@lru_cache(maxsize=65536)
def read_sentence(words: tuple[str, ...]) -> tuple[tuple[Clause, ...], ...]:
    """Return every reading of a sentence, as clauses that all hold; none where it lies outside the
    grammar.
    """
    return _select_complete(_Parser(words).parse_sentence(0), len(words))


@lru_cache(maxsize=65536)
def read_answered_question(
    words: tuple[str, ...], answer: str
) -> tuple[tuple[Clause, ...], ...]:
    """Return every reading of a question with its answer, as `read_sentence` does; for `no`, of
    what it denies.
    """
    parser = _Parser(words)
    if answer in ("yes", "no"):
        clauses = parser.parse_question()
    else:
        clauses = parser.parse_answered_question(answer)
    return _select_complete((((clause,), end) for clause, end in clauses), len(words))


def _select_complete(readings: Readings[T], length: int) -> tuple[T, ...]:
    """Return the different readings that take up all words."""
    complete = (meaning for meaning, end in readings if end == length)
    return tuple(dict.fromkeys(islice(complete, MAX_READINGS)))


def split_statements(
    words: Sequence[str],
) -> Iterable[tuple[tuple[str, ...], str | None]]:
    """Yield statements, and questions with their answers, without punctuation and without `in the
    picture`.

    The answer of a statement is None; the answer of a question is empty unless it has one word.
    """
    pieces: list[tuple[tuple[str, ...], str]] = []
    start = 0
    for index, word in enumerate((*words, ".")):
        if word not in MARKS:
            continue
        piece = _remove_picture_phrase(tuple(words[start:index]))
        if piece or word == "?":
            pieces.append((piece, word))
        start = index + 1

    remaining = iter(pieces)
    for piece, mark in remaining:
        if mark != "?":
            yield piece, None
            continue
        answer, _ = next(remaining, ((), ""))
        if len(answer) == 1:
            yield piece, answer[0]
        else:
            yield piece, ""


def _remove_picture_phrase(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words without the first of `PICTURE_PHRASES`, such as `in the picture`."""
    for start in range(len(words)):
        end = start + 3
        if words[start:end] in PICTURE_PHRASES:
            return words[:start] + words[end:]
    return words


def _convert(readings: Readings[T], build: Callable[[T], U]) -> Readings[U]:
    """Yield each reading with what is built from its meaning."""
    for meaning, end in readings:
        yield build(meaning), end


def _chain(
    readings: Readings[T],
    parse_rest: Callable[[int], Readings[U]],
    combine: Callable[[T, U], V],
) -> Readings[V]:
    """Yield each reading with each reading of what follows it, combined."""
    for meaning, after in readings:
        for rest, end in parse_rest(after):
            yield combine(meaning, rest), end


SCENE = Pronoun("it")
"""Subject of clauses about the whole picture, such as `this is indoors`."""


class _Parser:
    """Readings of one sentence, question or answer without its final mark."""

    def __init__(self, words: tuple[str, ...]) -> None:
        self.words = words
        self.steps = 0

    def get_word(self, position: int) -> str:
        """Return the word at a position; empty past the end."""
        if position >= len(self.words):
            return ""
        return self.words[position]

    def starts_with(self, position: int, *words: str) -> bool:
        return self.words[position : position + len(words)] == words

    def skip(self, position: int, word: str) -> int:
        """Return the next position where this word stands at a position, else the position itself."""
        if self.get_word(position) == word:
            return position + 1
        return position

    def find_entries(self, position: int, table: Mapping[str, T]) -> Readings[T]:
        """Yield the entries of phrases of up to four words that stand at a position, longest first."""
        for end in range(min(position + 4, len(self.words)), position, -1):
            entry = table.get(" ".join(self.words[position:end]))
            if entry is not None:
                yield entry, end

    def parse_sentence(self, position: int) -> Readings[tuple[Clause, ...]]:
        """Yield clauses joined by `and` or `while`."""
        for first, after in self.parse_clause(position):
            start = self.skip(after, ",")
            if self.get_word(start) in ("and", "while"):
                for rest, end in self.parse_sentence(start + 1):
                    yield (first, *rest), end
            yield (first,), after

    def parse_clause(self, position: int) -> Readings[Clause]:
        """Yield a main clause, an existential one, or a bare noun phrase; a place may stand before
        it.
        """
        # `The picture shows a dog.`
        yield from self.parse_clause_about_picture(position)
        # `There are not three dogs on the beach.`
        first, second = self.get_word(position), self.get_word(position + 1)
        if first == "there" and second in BE_FORMS:
            start = self.skip(position + 2, "not")
            is_negated = start > position + 2
            yield from self.parse_existential_phrase(
                start, BE_FORMS[second], is_negated
            )
        # `This is indoors.`
        if first in ("this", "that") and second == "is":
            complements = self.parse_complement(position + 2, False)
            yield from _convert(complements, partial(Clause, SCENE))
        # `A man is riding a horse.`
        yield from self.parse_main_clause(position)
        # `On the beach, a man is riding a horse.`
        for adjunct, after in self.parse_adjunct(position):
            for main, end in self.parse_clause(self.skip(after, ",")):
                yield (
                    replace(main, predicate=Conjunction((main.predicate, adjunct))),
                    end,
                )

    def parse_clause_about_picture(self, position: int) -> Readings[Clause]:
        """Yield `the picture shows a dog` and `this image is indoors`."""
        if self.words[position : position + 2] not in PICTURE_SUBJECTS:
            return
        verb = self.get_word(position + 2)
        if verb in ("shows", "contains"):
            yield from _convert(self.parse_phrase(position + 3), Clause)
        if verb == "is":
            adjuncts = self.parse_adjunct(position + 3)
            yield from _convert(adjuncts, partial(Clause, SCENE))

    def parse_main_clause(self, position: int) -> Readings[Clause]:
        """Yield a subject with its predicate, and a noun phrase alone."""
        for subject, after in self.parse_phrase(position):
            for plural in self.list_numbers(position, subject):
                yield from _convert(
                    self.parse_finite(after, plural), partial(Clause, subject)
                )
            if not isinstance(subject, Pronoun):
                yield Clause(subject), after

    def parse_existential_phrase(
        self, position: int, plural: bool, negated: bool
    ) -> Readings[Clause]:
        """Yield what follows `there is` or `there are`."""
        for phrase, after in self.parse_phrase(position):
            # The verb agrees with the first noun: `there is a dog and two cats`.
            first = phrase.phrases[0] if isinstance(phrase, Coordination) else phrase
            if isinstance(first, Pronoun) or first.plural != plural:
                continue
            for adjuncts, end in self.parse_adjuncts(after):
                yield Clause(phrase, Conjunction(adjuncts), negated), end

    def list_numbers(self, position: int, subject: Phrase) -> tuple[bool, ...]:
        """Return the grammatical numbers of the verb that agree with a subject: both for `a group
        of`.
        """
        if self.starts_with(position, "a", "group", "of"):
            return (True, False)
        return (subject.plural,)

    def parse_question(self) -> Readings[Clause]:
        """Yield a yes/no question, as the clause that `yes` affirms."""
        first, second = self.get_word(0), self.get_word(1)
        # `is there a dog`, `is this indoors`, `is the dog red`, `do you see a dog`, `does the dog
        # sleep`
        if first in BE_FORMS and second == "there":
            yield from self.parse_existential_phrase(2, BE_FORMS[first], False)
        elif first in ("is", "was") and second in ("this", "that"):
            complements = self.parse_full_complement(2, False)
            yield from _convert(complements, partial(Clause, SCENE))
        elif first in BE_FORMS:
            yield from self.parse_question_with_be(BE_FORMS[first])
        elif self.words[:3] in (("can", "you", "see"), ("do", "you", "see")):
            yield from _convert(self.parse_phrase(3), Clause)
        elif first in ("does", "do"):
            yield from self.parse_question_with_do(first == "do")

    def parse_question_with_be(self, plural: bool) -> Readings[Clause]:
        """Yield `is the dog red`, `are the dogs chasing a cow`."""
        for subject, after in self.parse_phrase(1):
            if plural in self.list_numbers(1, subject):
                yield from _convert(
                    self.parse_full_complement(after, plural), partial(Clause, subject)
                )

    def parse_question_with_do(self, plural: bool) -> Readings[Clause]:
        """Yield `does the dog chase a cow`, `do the dogs sleep`."""
        for subject, after in self.parse_phrase(1):
            if subject.plural == plural:
                predicates = self.add_adjuncts(self.parse_active(after, "base"))
                yield from _convert(predicates, partial(Clause, subject))

    def parse_answered_question(self, answer: str) -> Readings[Clause]:
        """Yield `how many dogs are there` or `what color is the car`, as the clause that the answer
        makes.
        """
        # `how many dogs are there`
        number = list_numerals().get(answer)
        if self.words[:2] == ("how", "many") and number is not None:
            yield from self.parse_how_many(number)
        # `what color is the car`
        is_about_color = self.words[:2] in (("what", "color"), ("what", "colour"))
        if is_about_color and answer in COLORS:
            yield from self.parse_what_color(COLORS[answer])

    def parse_how_many(self, number: int) -> Readings[Clause]:
        """Yield `how many dogs are there`, `how many dogs are red`, `how many dogs are`, with the
        number answered.
        """
        for noun, after in self.parse_noun(2):
            if not noun.plural or self.get_word(after) != "are":
                continue
            phrase = QuantifiedPhrase(
                Quantifier(number, number), True, noun.kinds, noun.place
            )
            if self.get_word(after + 1) == "there":
                predicates = _convert(self.parse_adjuncts(after + 2), Conjunction)
                yield from _convert(predicates, partial(Clause, phrase))
            yield from _convert(
                self.parse_full_complement(after + 1, True), partial(Clause, phrase)
            )
            yield Clause(phrase), after + 1

    def parse_what_color(self, color: str) -> Readings[Clause]:
        """Yield `what color is the car`, with the color answered."""
        plural = BE_FORMS.get(self.get_word(2))
        for subject, end in self.parse_phrase(3):
            if subject.plural == plural:
                yield Clause(subject, ColorPredicate(color)), end

    def parse_phrase(self, position: int) -> Readings[Phrase]:
        """Yield a noun phrase, or several joined by `and`."""
        for first, after in self.parse_noun_phrase(position):
            for rest, end in self.parse_conjuncts(after):
                yield Coordination((first, *rest)), end
            yield first, after

    def parse_conjuncts(
        self, position: int
    ) -> Readings[tuple[QuantifiedPhrase | Pronoun, ...]]:
        """Yield what follows the first of several noun phrases: `, a cat and a dog`."""
        start = self.skip(position, ",")
        has_comma = start > position
        if self.get_word(start) == "and":
            yield from _convert(
                self.parse_noun_phrase(start + 1), lambda phrase: (phrase,)
            )
        elif has_comma:
            phrases = self.parse_noun_phrase(start)
            yield from _chain(
                phrases, self.parse_conjuncts, lambda phrase, rest: (phrase, *rest)
            )

    def parse_noun_phrase(self, position: int) -> Readings[QuantifiedPhrase | Pronoun]:
        """Yield a pronoun, or determiner, color, noun and restrictions."""
        self.steps += 1
        if self.steps > MAX_NOUN_PHRASES:
            return
        yield from _convert(self.find_entries(position, PRONOUNS), Pronoun)
        for determiner, color_start in self.parse_determiner(position):
            for color, noun_start in self.parse_color(color_start):
                for noun, end in self.parse_noun(noun_start):
                    quantifier = determiner.get_quantifier(noun)
                    if quantifier is None:  # the two do not agree in number
                        continue
                    phrase = QuantifiedPhrase(
                        quantifier, noun.plural, noun.kinds, noun.place, color
                    )
                    yield from self.parse_restrictions(phrase, end)

    def parse_determiner(self, position: int) -> Readings[Determiner]:
        """Yield numerals and determiners, longest first, and none at all."""
        # A numeral with a prefix, as `at least two`, or without.
        prefixes = (*self.find_entries(position, NUMERAL_OFFSETS), ((0, 0), position))
        for offsets, after in prefixes:
            number = list_numerals().get(self.get_word(after))
            if number is not None:
                yield build_numeral(number, *offsets), after + 1
        yield from self.find_entries(position, list_determiners())
        yield NO_DETERMINER, position

    def parse_color(self, position: int) -> Readings[str]:
        """Yield a color where one stands there, and none at all."""
        yield from self.find_entries(position, COLORS)
        yield "", position

    def parse_noun(self, position: int) -> Readings[Noun]:
        """Yield what the noun of one to four words at a position may denote, longest first."""
        for nouns, end in self.find_entries(position, list_nouns()):
            yield from ((noun, end) for noun in nouns)

    def parse_restrictions(
        self, phrase: QuantifiedPhrase, position: int
    ) -> Readings[QuantifiedPhrase]:
        """Yield a noun phrase with any number of restrictions, most first."""
        for predicate, after in self.parse_restriction(position, phrase.plural):
            restricted = replace(phrase, restrictions=(*phrase.restrictions, predicate))
            yield from self.parse_restrictions(restricted, after)
        yield phrase, position

    def parse_restriction(self, position: int, plural: bool) -> Readings[Predicate]:
        """Yield what may follow a noun: a preposition and its phrase, a setting, a participle, a
        relative clause.
        """
        word = self.get_word(position)
        # `a man who is riding a horse`
        if word in ("who", "that", "which"):
            yield from self.parse_finite(position + 1, plural)
            return
        # `dogs shown`: says nothing, as everything is shown; `present` may be a noun.
        if word in VISIBILITY_WORDS and word != "present":
            yield Conjunction(), position + 1
        yield from self.parse_adjunct(position)
        yield from self.parse_participle(position)

    def parse_adjunct(self, position: int) -> Readings[Predicate]:
        """Yield a setting (indoors, at night), or a preposition with its phrase."""
        yield from _convert(self.find_entries(position, SETTINGS), Setting)
        yield from _chain(
            self.find_entries(position, SENSES), self.parse_phrase, PrepositionalPhrase
        )

    def parse_adjuncts(self, position: int) -> Readings[tuple[Predicate, ...]]:
        """Yield any number of adjuncts."""
        first_adjuncts = self.parse_adjunct(self.skip(position, ","))
        yield from _chain(
            first_adjuncts, self.parse_adjuncts, lambda first, rest: (first, *rest)
        )
        yield (), position

    def add_adjuncts(self, predicates: Readings[Predicate]) -> Readings[Predicate]:
        """Yield each predicate with the adjuncts that follow it."""
        for predicate, after in predicates:
            for adjuncts, end in self.parse_adjuncts(after):
                yield (
                    Conjunction((predicate, *adjuncts)) if adjuncts else predicate,
                    end,
                )

    def parse_participle(self, position: int) -> Readings[Predicate]:
        """Yield `riding a horse`, `ridden by a man`, `being ridden by a man`."""
        # `riding a horse`
        yield from self.parse_active(position, "ing")
        # `ridden by a man`, `being ridden by a man`
        start = self.skip(position, "being")
        for verb in self.list_verbs(start, "participle"):
            yield from self.parse_passive(verb, start + 1)

    def parse_active(self, position: int, form: str) -> Readings[Predicate]:
        """Yield an active verb in a form (third, base, ing), with its object or without."""
        for verb in self.list_verbs(position, form):
            preposition = verb.preposition.split()
            if verb.themes and self.starts_with(position + 1, *preposition):
                themes = self.parse_phrase(position + 1 + len(preposition))
                yield from _convert(themes, partial(VerbPhrase, verb.name))
            yield VerbPhrase(verb.name), position + 1

    def list_verbs(self, position: int, form: str) -> Sequence[SceneVerb]:
        """Return the verbs that have the word at a position as this form."""
        return list_verbs_by_form().get((form, self.get_word(position)), ())

    def parse_passive(self, verb: SceneVerb, position: int) -> Readings[Predicate]:
        """Yield what follows a past participle: its preposition, and `by` with an agent or nothing."""
        preposition = verb.preposition.split()
        if not self.starts_with(position, *preposition):
            return
        position += len(preposition)
        if self.get_word(position) == "by":
            agents = self.parse_phrase(position + 1)
            yield from _convert(agents, partial(VerbPhrase, verb.name, passive=True))
        yield VerbPhrase(verb.name, passive=True), position

    def parse_finite(self, position: int, plural: bool) -> Readings[Predicate]:
        """Yield a verb phrase whose verb agrees with its subject, and several joined by `and`."""
        predicates = self.add_adjuncts(self.parse_finite_verb(position, plural))
        for predicate, after in predicates:
            if self.get_word(after) == "and":
                for second, end in self.parse_finite(after + 1, plural):
                    yield Conjunction((predicate, second)), end
            yield predicate, after

    def parse_finite_verb(self, position: int, plural: bool) -> Readings[Predicate]:
        """Yield `is red`, `does not chase a cow`, `chases a cow`."""
        word = self.get_word(position)
        if BE_FORMS.get(word) == plural:
            yield from self.parse_complement(position + 1, plural)
        do, form = ("do", "base") if plural else ("does", "third")
        if self.starts_with(position, do, "not"):
            yield from _convert(self.parse_active(position + 2, "base"), Negation)
        yield from self.parse_active(position, form)

    def parse_full_complement(self, position: int, plural: bool) -> Readings[Predicate]:
        """Yield what follows `is` or `are`, with its adjuncts."""
        yield from self.add_adjuncts(self.parse_complement(position, plural))

    def parse_complement(self, position: int, plural: bool) -> Readings[Predicate]:
        """Yield what follows `is` or `are`."""
        word = self.get_word(position)
        if word == "not":
            yield from _convert(self.parse_complement(position + 1, plural), Negation)
            return
        # `is riding a horse`, `is ridden by a man`, `is on the beach`
        yield from self.parse_participle(position)
        yield from self.parse_adjunct(position)
        # `is red`, `is alone`, `is visible`, `is a dog`
        yield from _convert(self.find_entries(position, COLORS), ColorPredicate)
        if word == "alone":
            yield AlonePredicate(), position + 1
        if word in VISIBILITY_WORDS:
            yield Conjunction(), position + 1
        yield from self.parse_noun_predicate(position, plural)

    def parse_noun_predicate(self, position: int, plural: bool) -> Readings[Predicate]:
        """Yield `a dog` after `is`, `dogs` after `are`."""
        start = position
        if not plural:
            if self.get_word(position) not in ("a", "an"):
                return
            start += 1
        for noun, end in self.parse_noun(start):
            if noun.plural == plural and not noun.place:
                yield NounPredicate(noun.kinds), end
