"""Recursive-descent grammar of the statements and questions about scenes.

Every parser method yields each reading of its part of the tokens, as (meaning, next position). Determiner and noun,
subject and verb must agree in number; `a` and `an` are not distinguished.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from typing import TypeVar

from waltz.scenes.language.syntax import (
    AlonePredicate,
    Clause,
    ColourPredicate,
    Conjunction,
    Coordination,
    Negation,
    NounPhrase,
    NounPredicate,
    Phrase,
    Predicate,
    PrepositionalPhrase,
    Pronoun,
    Quantifier,
    Setting,
    VerbPhrase,
)
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
    build_numeral,
    get_quantifier,
    index_phrases,
    list_determiners,
    list_nouns,
    list_numerals,
    list_verb_forms,
)
from waltz.scenes.world.lexicon import read_verbs

Meaning = TypeVar("Meaning")

MAX_READINGS = 32
"""Most readings of a sentence that are looked at."""

MAX_NOUN_PHRASES = 4000
"""Most noun phrases that are tried, because the readings of a long chain of prepositions multiply."""

BE_FORMS = {"is": False, "are": True, "was": False, "were": True}


class Parser:
    """Readings of one sentence, question or answer without its final mark."""

    def __init__(self, words: tuple[str, ...]) -> None:
        """Hold the words to parse."""
        self.words = words
        self.steps = 0

    def at(self, pos: int) -> str:
        """Return the word at a position; empty past the end."""
        return self.words[pos] if pos < len(self.words) else ""

    def starts(self, pos: int, key: tuple[str, ...]) -> bool:
        """Return True if these words stand at a position."""
        return self.words[pos : pos + len(key)] == key

    def determiner(self, pos: int) -> Iterator[tuple[Determiner, int]]:
        """Yield determiners and numerals, longest first, and none at all."""
        for prefix in NUMERAL_BOUNDS:
            if self.starts(pos, prefix):
                number = list_numerals().get(self.at(pos + len(prefix)))
                if number is not None:
                    yield build_numeral(prefix, number), pos + len(prefix) + 1
        for length in (3, 2, 1):
            found = list_determiners().get(self.words[pos : pos + length])
            if found is not None and len(self.words) >= pos + length:
                yield found, pos + length
        yield BARE_PLURAL, pos

    def noun(self, pos: int) -> Iterator[tuple[Noun, int]]:
        """Yield nouns of up to three words."""
        for length in (3, 2, 1):
            if pos + length <= len(self.words):
                for noun in list_nouns().get(self.words[pos : pos + length], ()):
                    yield noun, pos + length

    def noun_phrase(self, pos: int, restricted: bool = True) -> Iterator[tuple[NounPhrase | Pronoun, int]]:
        """Yield a pronoun, or determiner, colour, noun and restrictions."""
        self.steps += 1
        if self.steps > MAX_NOUN_PHRASES:
            return
        word = self.at(pos)
        if word in PRONOUNS or word == "her":
            yield Pronoun(PRONOUNS.get(word, "she")), pos + 1
        for determiner, after in self.determiner(pos):
            colour = self.at(after) if self.at(after) in COLOURS else ""
            options = [(colour, after + 1), ("", after)] if colour else [("", after)]
            for shade, start in options:
                for noun, end in self.noun(start):
                    many = get_quantifier(determiner, noun)
                    if many is None:
                        continue
                    base = NounPhrase(many, noun.plural, noun.kinds, noun.place, shade.replace("grey", "gray"))
                    if restricted:
                        yield from self._restrictions(base, end)
                    else:
                        yield base, end

    def _restrictions(self, phrase: NounPhrase, pos: int) -> Iterator[tuple[NounPhrase, int]]:
        for predicate, after in self.restriction(pos, phrase.plural):
            longer = replace(phrase, restrictions=(*phrase.restrictions, predicate))
            yield from self._restrictions(longer, after)
        yield phrase, pos

    def restriction(self, pos: int, plural: bool) -> Iterator[tuple[Predicate, int]]:
        """Yield what may follow a noun: a preposition and its phrase, a setting, a participle, a relative clause."""
        if self.at(pos) in ("who", "that", "which"):
            yield from self.finite(pos + 1, plural)
            return
        if self.at(pos) in VISIBILITY_WORDS and self.at(pos) != "present":
            yield Conjunction(()), pos + 1
        yield from self.adjunct(pos)
        yield from self.participle(pos)

    def phrase(self, pos: int) -> Iterator[tuple[Phrase, int]]:
        """Yield a noun phrase, or several joined by `and`."""
        for first, after in self.noun_phrase(pos):
            for rest, end in self._joined(after):
                yield (Coordination((first, *rest)), end)
            yield first, after

    def _joined(self, pos: int) -> Iterator[tuple[tuple[NounPhrase | Pronoun, ...], int]]:
        start = pos + 1 if self.at(pos) == "," else pos
        if self.at(start) == "and":
            for phrase, end in self.noun_phrase(start + 1):
                yield (phrase,), end
        if start > pos and self.at(start) != "and":
            for phrase, end in self.noun_phrase(start):
                for rest, last in self._joined(end):
                    yield (phrase, *rest), last

    def adjunct(self, pos: int) -> Iterator[tuple[Predicate, int]]:
        """Yield a setting (indoors, at night), or a preposition with its phrase."""
        for words in index_phrases("settings").get(self.at(pos), ()):
            if self.starts(pos, words):
                yield Setting(SETTINGS[" ".join(words)]), pos + len(words)
        for words in index_phrases("prepositions").get(self.at(pos), ()):
            if self.starts(pos, words):
                for phrase, end in self.phrase(pos + len(words)):
                    yield PrepositionalPhrase(" ".join(words), phrase), end

    def adjuncts(self, pos: int) -> Iterator[tuple[tuple[Predicate, ...], int]]:
        """Yield any number of adjuncts."""
        start = pos + 1 if self.at(pos) == "," else pos
        for first, after in self.adjunct(start):
            for rest, end in self.adjuncts(after):
                yield (first, *rest), end
        yield (), pos

    def participle(self, pos: int) -> Iterator[tuple[Predicate, int]]:
        """Yield `riding a horse`, `ridden by a man`, `being ridden by a man`."""
        passive = pos + 1 if self.at(pos) == "being" else pos
        for verb, form in list_verb_forms().get(self.at(pos), ()):
            if form == "ing":
                yield from self.arguments(verb, pos + 1)
        for verb, form in list_verb_forms().get(self.at(passive), ()):
            if form == "pp":
                yield from self._passive(verb, passive + 1)

    def _passive(self, verb: str, pos: int) -> Iterator[tuple[Predicate, int]]:
        preposition = tuple(read_verbs()[verb].preposition.split())
        if not self.starts(pos, preposition):
            return
        pos += len(preposition)
        if self.at(pos) == "by":
            for agent, end in self.phrase(pos + 1):
                yield VerbPhrase(verb, agent, passive=True), end
        yield VerbPhrase(verb, None, passive=True), pos

    def arguments(self, verb: str, pos: int) -> Iterator[tuple[Predicate, int]]:
        """Yield what follows an active verb form: its object, or nothing."""
        entry = read_verbs()[verb]
        preposition = tuple(entry.preposition.split())
        if entry.themes and self.starts(pos, preposition):
            for theme, end in self.phrase(pos + len(preposition)):
                yield VerbPhrase(verb, theme), end
        yield VerbPhrase(verb), pos

    def finite(self, pos: int, plural: bool) -> Iterator[tuple[Predicate, int]]:
        """Yield a verb phrase whose verb agrees with its subject."""
        for predicate, after in self._finite(pos, plural):
            for further, end in self.adjuncts(after):
                whole = Conjunction((predicate, *further)) if further else predicate
                if self.at(end) == "and":
                    for second, last in self.finite(end + 1, plural):
                        yield Conjunction((whole, second)), last
                yield whole, end

    def _finite(self, pos: int, plural: bool) -> Iterator[tuple[Predicate, int]]:
        word = self.at(pos)
        if word in BE_FORMS and BE_FORMS[word] == plural:
            yield from self.complement(pos + 1, plural)
        if word in ("does", "do") and (word == "do") == plural and self.at(pos + 1) == "not":
            for verb, form in list_verb_forms().get(self.at(pos + 2), ()):
                if form == "base":
                    yield from ((Negation(does), end) for does, end in self.arguments(verb, pos + 3))
        for verb, form in list_verb_forms().get(word, ()):
            if form == ("base" if plural else "third"):
                yield from self.arguments(verb, pos + 1)

    def complement(self, pos: int, plural: bool) -> Iterator[tuple[Predicate, int]]:
        """Yield what follows `is` or `are`."""
        if self.at(pos) == "not":
            for predicate, end in self.complement(pos + 1, plural):
                yield Negation(predicate), end
            return
        yield from self.participle(pos)
        yield from self.adjunct(pos)
        if self.at(pos) in COLOURS:
            yield ColourPredicate(self.at(pos).replace("grey", "gray")), pos + 1
        if self.at(pos) == "alone":
            yield AlonePredicate(), pos + 1
        if self.at(pos) in VISIBILITY_WORDS:
            yield Conjunction(()), pos + 1
        if self.at(pos) in ("a", "an") or plural:
            start = pos + 1 if self.at(pos) in ("a", "an") else pos
            for noun, end in self.noun(start):
                if noun.plural == plural and not noun.place and (start > pos) != plural:
                    yield NounPredicate(noun.kinds), end

    def existence(self, pos: int) -> Iterator[tuple[Clause, int]]:
        """Yield `there is`, `there are`."""
        if self.at(pos) == "there" and self.at(pos + 1) in BE_FORMS:
            start = pos + 2 + (self.at(pos + 2) == "not")
            yield from self.exists(start, BE_FORMS[self.at(pos + 1)], start > pos + 2)

    def exists(self, pos: int, plural: bool, negated: bool) -> Iterator[tuple[Clause, int]]:
        """Yield what follows `there is` or `there are`."""
        for phrase, after in self.phrase(pos):
            first = phrase.phrases[0] if isinstance(phrase, Coordination) else phrase
            if isinstance(first, Pronoun) or first.plural != plural:
                continue
            for further, end in self.adjuncts(after):
                yield Clause(phrase, Conjunction(further) if further else None, negated), end

    def clause(self, pos: int) -> Iterator[tuple[Clause, int]]:
        """Yield a main clause, an existential one, or a bare noun phrase; a place may stand before it."""
        if self.words[pos : pos + 1] in (("the",), ("this",)) and self.at(pos + 1) in (
            "picture",
            "image",
            "photo",
            "scene",
        ):
            if self.at(pos + 2) in ("shows", "contains"):
                yield from ((Clause(phrase), end) for phrase, end in self.phrase(pos + 3))
            elif self.at(pos + 2) == "is":
                yield from ((Clause(Pronoun("it"), setting), end) for setting, end in self.adjunct(pos + 3))
        yield from self.existence(pos)
        if self.at(pos) in ("this", "that") and self.at(pos + 1) == "is":
            yield from ((Clause(Pronoun("it"), said), end) for said, end in self.complement(pos + 2, False))
        for subject, after in self.phrase(pos):
            for plural in self.numbers(pos, subject):
                for predicate, end in self.finite(after, plural):
                    yield Clause(subject, predicate), end
            if not isinstance(subject, Pronoun):
                yield Clause(subject), after
        for place, after in self.adjunct(pos):
            start = after + 1 if self.at(after) == "," else after
            for main, end in self.clause(start):
                both = Conjunction((main.predicate, place)) if main.predicate is not None else place
                yield Clause(main.subject, both, main.negated), end

    def numbers(self, pos: int, subject: Phrase) -> tuple[bool, ...]:
        """Numbers of the verb that go with a subject: both with `a group of`."""
        return (True, False) if self.starts(pos, ("a", "group", "of")) else (subject.plural,)

    def sentence(self, pos: int) -> Iterator[tuple[tuple[Clause, ...], int]]:
        """Yield clauses joined by `and` or `while`."""
        for first, after in self.clause(pos):
            start = after + 1 if self.at(after) == "," else after
            if self.at(start) in ("and", "while"):
                for rest, end in self.sentence(start + 1):
                    yield (first, *rest), end
            yield (first,), after


def select_complete(found: Iterator[tuple[Meaning, int]], length: int) -> Iterator[Meaning]:
    """Yield the readings that take up all words."""
    return (meaning for meaning, end in found if end == length)


@lru_cache(maxsize=65536)
def read_sentence(words: tuple[str, ...]) -> tuple[tuple[Clause, ...], ...]:
    """Return every reading of a sentence, as clauses that all hold; none where it lies outside the grammar."""
    found = islice(select_complete(Parser(words).sentence(0), len(words)), MAX_READINGS)
    return tuple(dict.fromkeys(found))


pass

_PICTURE_PHRASES = tuple(tuple(frame.split()) for frame in PICTURE_PHRASES)
_PICTURE_NOUNS = frozenset(frame[-1] for frame in _PICTURE_PHRASES)


def parse_question(parser: Parser, pos: int) -> Iterator[tuple[Clause, int]]:
    """Yield a yes/no question, as the clause that `yes` affirms."""
    word = parser.at(pos)
    if word in BE_FORMS and parser.at(pos + 1) == "there":
        yield from parser.exists(pos + 2, BE_FORMS[word], False)
    elif word in BE_FORMS and parser.at(pos + 1) in ("this", "that") and not BE_FORMS[word]:
        yield from ((Clause(Pronoun("it"), said), end) for said, end in _parse_complements(parser, pos + 2, False))
    elif word in BE_FORMS:
        for subject, after in parser.phrase(pos + 1):
            if BE_FORMS[word] in parser.numbers(pos + 1, subject):
                yield from (
                    (Clause(subject, said), end) for said, end in _parse_complements(parser, after, BE_FORMS[word])
                )
    elif parser.words[pos : pos + 3] in (("can", "you", "see"), ("do", "you", "see")):
        yield from ((Clause(phrase), end) for phrase, end in parser.phrase(pos + 3))
    elif word in ("does", "do"):
        for subject, after in parser.phrase(pos + 1):
            for verb, form in list_verb_forms().get(parser.at(after), ()):
                if form == "base" and subject.plural == (word == "do"):
                    for does, end in parser.arguments(verb, after + 1):
                        for further, last in parser.adjuncts(end):
                            yield Clause(subject, Conjunction((does, *further))), last


def _parse_complements(parser: Parser, pos: int, plural: bool) -> Iterator[tuple[Predicate, int]]:
    for predicate, after in parser.complement(pos, plural):
        for further, end in parser.adjuncts(after):
            yield Conjunction((predicate, *further)) if further else predicate, end


def parse_answered_question(parser: Parser, pos: int, answer: str) -> Iterator[tuple[Clause, int]]:
    """Yield `how many dogs are there` or `what color is the car`, as the clause that the answer makes."""
    number = list_numerals().get(answer)
    if parser.starts(pos, ("how", "many")) and number is not None:
        for noun, after in parser.noun(pos + 2):
            if not noun.plural or parser.at(after) != "are":
                continue
            phrase = NounPhrase(Quantifier(number, number), True, noun.kinds, noun.place)
            if parser.at(after + 1) == "there":
                for further, end in parser.adjuncts(after + 2):
                    yield Clause(phrase, Conjunction(further)), end
            for said, end in _parse_complements(parser, after + 1, True):
                yield Clause(phrase, said), end
            yield Clause(phrase), after + 1
    asks = parser.at(pos) == "what" and parser.at(pos + 1) in ("color", "colour")
    if asks and answer in COLOURS and parser.at(pos + 2) in BE_FORMS:
        for subject, end in parser.phrase(pos + 3):
            if subject.plural == BE_FORMS[parser.at(pos + 2)]:
                yield Clause(subject, ColourPredicate(answer)), end


@lru_cache(maxsize=65536)
def read_answered_question(words: tuple[str, ...], answer: str) -> tuple[tuple[Clause, ...], ...]:
    """Return every reading of a question together with its answer, as in `readings`; for `no`, of what it denies."""
    parser = Parser(words)
    found = parse_question(parser, 0) if answer in ("yes", "no") else parse_answered_question(parser, 0, answer)
    return tuple(dict.fromkeys((clause,) for clause in islice(select_complete(found, len(words)), MAX_READINGS)))


def split_statements(words: Sequence[str]) -> Iterable[tuple[tuple[str, ...], str | None]]:
    """Statements, and questions with their answers, without marks and without `in the picture`."""
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
