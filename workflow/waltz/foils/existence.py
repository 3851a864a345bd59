"""Existence: statements that things exist, or not, from "how many" questions with a number (thesis 3.3, A.1)."""

from collections.abc import Iterator, Sequence

from spacy.tokens import Doc

from waltz.foils.candidates import Candidate, MakerOptions, Outcome, Refusal, Row, SourceOutcomes, build_candidate
from waltz.foils.english.nouns import parse_number
from waltz.foils.english.statements import TIME_UNITS, Statement, convert_question, parse_counting_questions


def build_candidates(rows: Sequence[Row], _: MakerOptions, __: str) -> SourceOutcomes:
    """Yield a candidate for each Visual7W question that is answered by a number, in the order of the rows."""
    for row, question in parse_counting_questions(rows):
        if isinstance(question, Refusal):
            yield row, question
        else:
            yield from ((row, outcome) for outcome in build_existence_foils(question, row["answer"] or ""))


def build_existence_foils(question: Doc, answer: str) -> Iterator[Outcome]:
    """Yield the statement that a question and its answer make, with its negation; or a refusal.

    For 0 "There are no animals shown." comes with "There are animals shown."; for 1 "There is an animal shown." with
    "There is no animal shown."; for more the plural of that.

    Args:
        question: Parse of the question ("How many animals are shown?").
        answer: A numeral, in digits or letters, with or without a full stop ("0.", "Two").
    """
    number, statement = parse_number(answer), convert_question(question)
    if number is None:
        yield Refusal("the answer is no numeral")
    elif isinstance(statement, Refusal):
        yield statement
    elif not statement.noun.plural:
        yield Refusal("the question counts parts of something")
    elif statement.noun.plural.lower() in TIME_UNITS:
        yield Refusal("the question measures time")
    elif not statement.be.plural and not statement.opening and "not" in statement.rest.split():
        yield Refusal("the question is negated")
    else:
        yield build_negation(statement, number, number > 0)


def build_negation(statement: Statement, number: int, exists: bool) -> Candidate:
    """Return the candidate whose caption says that there are things, or none, and whose foil says the contrary.

    Args:
        number: The number that noun and verb agree with, in both texts.
        exists: True where the caption says that there are such things.
    """
    positive, negative = statement.write_existence(number), statement.write_negation(number)
    quantity = statement.choose_article() if number == 1 else ()
    if exists:
        return build_candidate(positive, negative, quantity, "no", "something-to-zero")
    return build_candidate(negative, positive, "no", quantity, "zero-to-something")
