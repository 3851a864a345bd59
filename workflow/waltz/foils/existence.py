"""Existence: from "how many" questions with a numeral answer, that there are such things, or none (thesis 3.3, A.1)."""

from collections.abc import Iterator

from spacy.tokens import Doc

from waltz.foils.candidates import Candidate, Found, Refused, exchanged
from waltz.foils.counting_questions import TIMES, asked
from waltz.foils.english.numerals import number_of
from waltz.foils.english.statements import Statement


def existence(question: Doc, answer: str) -> Iterator[Found]:
    """The statement that a question and its answer make, beside its negation.

    Args:
        question: Parse of the question ("How many animals are shown?").
        answer: A numeral, in digits or letters, with or without a full stop ("0.", "Two").
    Yields:
        For 0 "There are no animals shown." beside "There are animals shown."; for 1 "There is an animal shown."
        beside "There is no animal shown."; for more the plural of that. Or why there is none.
    """
    number, statement = number_of(answer), asked(question)
    if number is None:
        yield Refused("the answer is no numeral")
    elif isinstance(statement, Refused):
        yield statement
    elif not statement.noun.plural:
        yield Refused("the question counts parts of something")
    elif statement.noun.plural.lower() in TIMES:
        yield Refused("the question measures time")
    elif not statement.be.plural and not statement.opening and "not" in statement.rest.split():
        yield Refused("the question is negated")
    else:
        yield negated(statement, number, number > 0)


def negated(statement: Statement, number: int, exists: bool) -> Candidate:
    """That there are things, or none, beside the contrary.

    Args:
        statement: What may exist.
        number: The number that noun and verb agree with, in both texts.
        exists: Whether the caption says that there are such things.
    """
    there, none = statement.existing(number), statement.missing(number)
    quantity = statement.article() if number == 1 else ()
    if exists:
        return exchanged(there, none, quantity, "no", "something-to-zero")
    return exchanged(none, there, "no", quantity, "zero-to-something")
