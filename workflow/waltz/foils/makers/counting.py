"""Counting from the questions of Visual7W."""

from collections.abc import Sequence

from waltz.foils.candidates import Refused
from waltz.foils.counting import NUMERALS, counting
from waltz.foils.english.numerals import number_of
from waltz.foils.instruments import Made, Row
from waltz.foils.makers.questions import how_many
from waltz.foils.proposer_needs import Needs


def made(rows: Sequence[Row], _: Needs, instrument: str) -> Made:
    """Candidates for each question that is answered by a number, in the order of the rows; foils show the numbers that
    some question is answered by."""
    asked = list(how_many(rows))
    answers = (row["answer"] or "" for row, question in asked if not isinstance(question, Refused))
    seen = {number for answer in answers if (number := number_of(answer)) is not None}
    for row, question in asked:
        if isinstance(question, Refused):
            yield row, question
        else:
            found = counting(question, row["answer"] or "", NUMERALS[instrument], seen)
            yield from ((row, entry) for entry in found)
