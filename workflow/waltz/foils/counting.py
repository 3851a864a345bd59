"""Counting: statements with a number, from "how many" questions, and foils with another number
(thesis 3.3, A.1).

Without such questions, captions that contain a numeral are the statements.
"""

import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from spacy.tokens import Doc

from waltz.core.text_diff import Span
from waltz.foils.candidates import (
    Candidate,
    MakerOptions,
    Outcome,
    Refusal,
    Row,
    SourceOutcomes,
    attach_row,
    build_candidate,
    replace_span,
    select_type,
)
from waltz.foils.english.nouns import parse_number
from waltz.foils.english.numerals import Count, find_counts
from waltz.foils.english.parsing import parse_rows
from waltz.foils.english.sentences import capitalize
from waltz.foils.english.statements import (
    Statement,
    asks_how_many,
    build_from_questions,
    convert_answered_question,
)
from waltz.sources.records import CaptionRecord, QuestionRecord

OTHER_NUMBER = "its number is not among those of the captions"
DEFINITE = 'a smaller number needs "exactly", which cannot stand before this numeral'


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
    rows: Sequence[Row], _: MakerOptions, instrument: str
) -> SourceOutcomes:
    """Yield candidates for each Visual7W question whose answer is a number, or for each numeral of
    each caption, in the order of the rows.

    Foils have the numbers that answer any question, or stand in any caption, of the rows.
    """
    ranges = NUMBER_RANGES[instrument]
    # A source has either captions or questions.
    yield from _build_from_captions(select_type(rows, CaptionRecord), ranges)
    questions = select_type(rows, QuestionRecord)
    # Foils show numbers that captions show, so that no number tells that a text is a foil.
    foil_numbers: set[int] = set()
    for row in filter(asks_how_many, questions):
        number = parse_number(row.answer or "")
        if number is not None:
            foil_numbers.add(number)
    build = partial(build_counting_foils, ranges=ranges, foil_numbers=foil_numbers)
    yield from build_from_questions(questions, build)


def _build_from_captions(
    rows: Sequence[CaptionRecord], ranges: NumberRanges
) -> SourceOutcomes:
    """Yield the candidates of captions, in the order of the rows."""
    counted: list[tuple[CaptionRecord, list[Count | Refusal]]] = []
    foil_numbers: set[int] = set()
    for row, doc in parse_rows(rows):
        counts = list(find_counts(doc))
        counted.append((row, counts))
        foil_numbers.update(count.number for count in select_counts(counts))
    for row, counts in counted:
        yield from attach_row(row, build_caption_foils(counts, ranges, foil_numbers))


def select_counts(counts: Iterable[Count | Refusal]) -> Iterator[Count]:
    """Yield the counts among counts and refusals."""
    for count in counts:
        if isinstance(count, Count):
            yield count


def build_caption_foils(
    counts: Iterable[Count | Refusal],
    ranges: NumberRanges,
    foil_numbers: Collection[int],
) -> Iterator[Outcome]:
    """Yield candidates of the counts of a caption: foils state another number of the same things.

    "Two dogs sleep." has the foil "Three dogs sleep.". Where three dogs sleep, two do as well, so a
    smaller number is false only where both texts say "exactly".

    Args:
        counts: Counts and refusals of `find_counts`.
        foil_numbers: Numbers that foils may have; those from two on are used.
    """
    for count in counts:
        if isinstance(count, Refusal):
            yield count
            continue
        if count.number not in ranges.captions:
            yield Refusal(OTHER_NUMBER)
            continue
        for foil_number in sorted(set(foil_numbers) - {count.number}):
            # For one thing, the noun and its verbs would change as well.
            if foil_number >= 2 and foil_number in ranges.foils:
                yield _replace_numeral(count, foil_number)


def _replace_numeral(count: Count, foil_number: int) -> Outcome:
    """Return the candidate of a caption with another numeral, or a refusal where "exactly" cannot
    precede it.
    """
    numeral = count.write(count.number)
    foil_numeral = count.write(foil_number)
    direction = "more"
    if foil_number < count.number:
        direction = "fewer"
        if count.is_definite:
            return Refusal(DEFINITE)
        if not count.is_exact:
            numeral, foil_numeral = _add_exactly(numeral), _add_exactly(foil_numeral)
    start = count.numeral.idx
    span = Span(start=start, end=start + len(count.numeral))
    caption, _ = replace_span(count.numeral.doc.text, span, numeral)
    foil, _ = replace_span(count.numeral.doc.text, span, foil_numeral)
    # A number in digits has no capital that "exactly" could take over.
    caption, foil = capitalize(caption), capitalize(foil)
    return build_candidate(
        caption, foil, str(count.number), str(foil_number), direction
    )


def _add_exactly(numeral: str) -> str:
    """Return a numeral with "exactly" before it, which takes over its capital."""
    adverb = "exactly"
    if numeral[0].isupper():
        adverb = "Exactly"
    return f"{adverb} {numeral.lower()}"


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
        yield Refusal(OTHER_NUMBER)
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
