"""Grammar of questions with answers, and of texts of statements and questions."""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice

from waltz.scenes.language.grammar import BE, READINGS, Parser, select_complete
from waltz.scenes.language.syntax import Both, Clause, Coloured, NounPhrase, Predicate, Pronoun, Quantifier
from waltz.scenes.language.words import COLOURS, FRAMES, list_numerals, list_verb_forms

_FRAMES = tuple(tuple(frame.split()) for frame in FRAMES)
_FRAME_ENDS = frozenset(frame[-1] for frame in _FRAMES)


def parse_question(parser: Parser, pos: int) -> Iterator[tuple[Clause, int]]:
    """Yield a yes/no question, as the clause that `yes` affirms."""
    word = parser.at(pos)
    if word in BE and parser.at(pos + 1) == "there":
        yield from parser.exists(pos + 2, BE[word], False)
    elif word in BE and parser.at(pos + 1) in ("this", "that") and not BE[word]:
        yield from ((Clause(Pronoun("it"), said), end) for said, end in _parse_complements(parser, pos + 2, False))
    elif word in BE:
        for subject, after in parser.phrase(pos + 1):
            if BE[word] in parser.numbers(pos + 1, subject):
                yield from ((Clause(subject, said), end) for said, end in _parse_complements(parser, after, BE[word]))
    elif parser.words[pos : pos + 3] in (("can", "you", "see"), ("do", "you", "see")):
        yield from ((Clause(phrase), end) for phrase, end in parser.phrase(pos + 3))
    elif word in ("does", "do"):
        for subject, after in parser.phrase(pos + 1):
            for verb, form in list_verb_forms().get(parser.at(after), ()):
                if form == "base" and subject.plural == (word == "do"):
                    for does, end in parser.arguments(verb, after + 1):
                        for further, last in parser.adjuncts(end):
                            yield Clause(subject, Both((does, *further))), last


def _parse_complements(parser: Parser, pos: int, plural: bool) -> Iterator[tuple[Predicate, int]]:
    for predicate, after in parser.complement(pos, plural):
        for further, end in parser.adjuncts(after):
            yield Both((predicate, *further)) if further else predicate, end


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
                    yield Clause(phrase, Both(further)), end
            for said, end in _parse_complements(parser, after + 1, True):
                yield Clause(phrase, said), end
            yield Clause(phrase), after + 1
    asks = parser.at(pos) == "what" and parser.at(pos + 1) in ("color", "colour")
    if asks and answer in COLOURS and parser.at(pos + 2) in BE:
        for subject, end in parser.phrase(pos + 3):
            if subject.plural == BE[parser.at(pos + 2)]:
                yield Clause(subject, Coloured(answer)), end


@lru_cache(maxsize=65536)
def read_answered_question(words: tuple[str, ...], answer: str) -> tuple[tuple[Clause, ...], ...]:
    """Return every reading of a question together with its answer, as in `readings`; for `no`, of what it denies."""
    parser = Parser(words)
    found = parse_question(parser, 0) if answer in ("yes", "no") else parse_answered_question(parser, 0, answer)
    return tuple(dict.fromkeys((clause,) for clause in islice(select_complete(found, len(words)), READINGS)))


def split_statements(words: Sequence[str]) -> Iterable[tuple[tuple[str, ...], str | None]]:
    """Statements, and questions with their answers, without marks and without `in the picture`."""
    pieces: list[tuple[tuple[str, ...], str]] = []
    start = 0
    for index, word in enumerate(words):
        if word in ".?!;:":
            pieces.append((_remove_frame(tuple(words[start:index])), word))
            start = index + 1
    pieces.append((_remove_frame(tuple(words[start:])), "."))
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


def _remove_frame(words: tuple[str, ...]) -> tuple[str, ...]:
    if _FRAME_ENDS.isdisjoint(words):
        return words
    for frame in _FRAMES:
        for start in range(len(words) - len(frame) + 1):
            if words[start : start + len(frame)] == frame:
                return words[:start] + words[start + len(frame) :]
    return words
