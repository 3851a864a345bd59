"""Counting: statements with a number, from "how many" questions, and foils with another number (thesis 3.3, A.1)."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from spacy.tokens import Doc

from waltz.foils.candidates import Candidate, MakerOptions, Outcome, Refusal, Row, SourceOutcomes, build_candidate
from waltz.foils.english.nouns import parse_number
from waltz.foils.english.statements import Statement, convert_question, parse_counting_questions


@dataclass(frozen=True)
class NumberRanges:
    """Lowest and highest number, both included, of an instrument's captions and foils; None for no highest."""

    captions: tuple[int, int | None]
    foils: tuple[int, int | None]


NUMBER_RANGES = {
    "counting-balanced": NumberRanges((0, None), (0, None)),
    "counting-small": NumberRanges((0, 3), (0, 3)),
    "counting-adversarial": NumberRanges((4, None), (0, 3)),
}


def build_candidates(rows: Sequence[Row], _: MakerOptions, instrument: str) -> SourceOutcomes:
    """Yield candidates for each Visual7W question that is answered by a number, in the order of the rows.

    Foils show the numbers that answer some question of the rows.
    """
    questions = list(parse_counting_questions(rows))
    answers = (row["answer"] or "" for row, question in questions if not isinstance(question, Refusal))
    foil_numbers = {number for answer in answers if (number := parse_number(answer)) is not None}
    for row, question in questions:
        if isinstance(question, Refusal):
            yield row, question
        else:
            outcomes = build_counting_foils(question, row["answer"] or "", NUMBER_RANGES[instrument], foil_numbers)
            yield from ((row, outcome) for outcome in outcomes)


def build_counting_foils(
    question: Doc, answer: str, ranges: NumberRanges, foil_numbers: Collection[int]
) -> Iterator[Outcome]:
    """Yield the statement that a question and its answer make, with the same statement with every other number.

    "There are exactly 4 signs pictured." comes with "There is exactly 1 sign pictured." and so on by number.

    Args:
        question: Parse of the question ("How many signs are pictured?").
        answer: A numeral, in digits or letters, with or without a full stop.
        foil_numbers: Numbers that foils may show, those of the instrument's captions: no other number is likely in a
            statement about images.
    """
    number, statement = parse_number(answer), convert_question(question)
    if number is None:
        yield Refusal("the answer is no numeral")
    elif isinstance(statement, Refusal):
        yield statement
    elif not _in_range(number, ranges.captions):
        yield Refusal("its number is not among those of the captions")
    else:
        for foil_number in sorted(set(foil_numbers) - {number}):
            if _in_range(foil_number, ranges.foils):
                yield replace_number(statement, number, foil_number)


def replace_number(statement: Statement, number: int, foil_number: int, adverb: str = "exactly") -> Candidate:
    """Return a statement with its number, and the same with another; noun and verb agree in both texts."""
    return build_candidate(
        statement.write_count(number, adverb),
        statement.write_count(foil_number, adverb),
        str(number),
        str(foil_number),
        "more" if foil_number > number else "fewer",
    )


def _in_range(number: int, bounds: tuple[int, int | None]) -> bool:
    return bounds[0] <= number and (bounds[1] is None or number <= bounds[1])
