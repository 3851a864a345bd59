"""Counting: statements with a number, from "how many" questions, and foils with another number
(thesis 3.3, A.1).
"""

import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from spacy.tokens import Doc

from waltz.foils.candidates import (
    Candidate,
    MakerOptions,
    Outcome,
    Refusal,
    SourceOutcomes,
    build_candidate,
)
from waltz.foils.english.nouns import parse_number
from waltz.foils.english.statements import (
    Statement,
    asks_how_many,
    build_from_questions,
    convert_answered_question,
)
from waltz.sources.records import QuestionRecord


@dataclass(frozen=True)
class NumberRanges:
    """Numbers that an instrument's captions and foils may have."""

    captions: range
    foils: range


# Small numbers are frequent in captions. In the adversarial instrument the captions have the large
# numbers and the foils the small ones, so that a model that prefers small numbers fails (thesis
# 3.3).
ALL_NUMBERS = range(sys.maxsize)
SMALL_NUMBERS = range(4)
LARGE_NUMBERS = range(4, sys.maxsize)
NUMBER_RANGES = {
    "counting-balanced": NumberRanges(captions=ALL_NUMBERS, foils=ALL_NUMBERS),
    "counting-small": NumberRanges(captions=SMALL_NUMBERS, foils=SMALL_NUMBERS),
    "counting-adversarial": NumberRanges(captions=LARGE_NUMBERS, foils=SMALL_NUMBERS),
}


def build_candidates(
    rows: Sequence[QuestionRecord], _: MakerOptions, instrument: str
) -> SourceOutcomes:
    """Yield candidates for each Visual7W question whose answer is a number, in the order of the
    rows.

    Foils have the numbers that answer any question of the rows.
    """
    # Foils show numbers that captions show, so that no number tells that a text is a foil.
    foil_numbers: set[int] = set()
    for row in filter(asks_how_many, rows):
        number = parse_number(row.answer or "")
        if number is not None:
            foil_numbers.add(number)
    build = partial(
        build_counting_foils,
        ranges=NUMBER_RANGES[instrument],
        foil_numbers=foil_numbers,
    )
    yield from build_from_questions(rows, build)


def build_counting_foils(
    question: Doc, answer: str, ranges: NumberRanges, foil_numbers: Collection[int]
) -> Iterator[Outcome]:
    """Yield candidates: the caption states the answer to a question, and each foil states another
    number.

    "There are exactly 4 signs pictured." has the foil "There is exactly 1 sign pictured." and so
    on, by number.

    Args:
        question: Parse of the question ("How many signs are pictured?").
        answer: A numeral, in digits or letters, with or without a full stop.
        foil_numbers: Numbers that foils may have: the numbers of the instrument's captions, since
            no other number is likely in a statement about images.
    """
    answered = convert_answered_question(question, answer)
    if isinstance(answered, Refusal):
        yield answered
        return
    number = answered.number
    if number not in ranges.captions:
        yield Refusal("its number is not among those of the captions")
        return
    # One candidate for each other number; balancing selects among them.
    for foil_number in sorted(set(foil_numbers) - {number}):
        if foil_number in ranges.foils:
            yield replace_number(answered.statement, number, foil_number)


def replace_number(
    statement: Statement, number: int, foil_number: int, adverb: str = "exactly"
) -> Candidate:
    """Return a candidate with a statement in its number and in another number; noun and verb agree
    in both texts.
    """
    return build_candidate(
        statement.write_count(number, adverb),
        statement.write_count(foil_number, adverb),
        caption_phrase=str(number),
        foil_phrase=str(foil_number),
        direction="more" if foil_number > number else "fewer",
    )
