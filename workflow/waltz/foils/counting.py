"""Counting: from "how many" questions with a numeral answer, statements with another number (thesis 3.3, A.1)."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from spacy.tokens import Doc

from waltz.foils.candidates import Candidate, Found, Refused, exchanged
from waltz.foils.counting_questions import asked
from waltz.foils.english.numerals import number_of
from waltz.foils.english.statements import Statement


@dataclass(frozen=True)
class Numerals:
    """Fewest and most, both included, of the numbers that an instrument's captions and foils show; None for no most."""

    captions: tuple[int, int | None]
    foils: tuple[int, int | None]


NUMERALS = {
    "counting-balanced": Numerals((0, None), (0, None)),
    "counting-small": Numerals((0, 3), (0, 3)),
    "counting-adversarial": Numerals((4, None), (0, 3)),
}


def counting(question: Doc, answer: str, numerals: Numerals, seen: Collection[int]) -> Iterator[Found]:
    """The statement that a question and its answer make, beside the same with every other number.

    Args:
        question: Parse of the question ("How many signs are pictured?").
        answer: A numeral, in digits or letters, with or without a full stop.
        numerals: Those of the instrument, an entry of `NUMERALS`.
        seen: Numbers that foils may show, those of the instrument's captions: no other number is likely in a statement
            about images.
    Yields:
        "There are exactly 4 signs pictured." beside "There is exactly 1 sign pictured." and so on by number; or why
        there is none.
    """
    number, statement = number_of(answer), asked(question)
    if number is None:
        yield Refused("the answer is no numeral")
    elif isinstance(statement, Refused):
        yield statement
    elif not _within(number, numerals.captions):
        yield Refused("its number is not among those of the captions")
    else:
        for other in sorted(set(seen) - {number}):
            if _within(other, numerals.foils):
                yield recounted(statement, number, other)


def recounted(statement: Statement, number: int, other: int, adverb: str = "exactly") -> Candidate:
    """A statement with its number, beside the same with another number; noun and verb agree on both sides."""
    return exchanged(
        statement.counting(number, adverb),
        statement.counting(other, adverb),
        str(number),
        str(other),
        "more" if other > number else "fewer",
    )


def _within(number: int, bounds: tuple[int, int | None]) -> bool:
    return bounds[0] <= number and (bounds[1] is None or number <= bounds[1])
