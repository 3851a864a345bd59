"""Existence from the questions of Visual7W."""

from collections.abc import Sequence

from waltz.foils.candidates import Refused
from waltz.foils.existence import existence
from waltz.foils.instruments import Made, Row
from waltz.foils.makers.questions import how_many
from waltz.foils.proposer_needs import Needs


def made(rows: Sequence[Row], _: Needs, __: str) -> Made:
    """A candidate for each question that is answered by a number, in the order of the rows."""
    for row, question in how_many(rows):
        if isinstance(question, Refused):
            yield row, question
        else:
            yield from ((row, found) for found in existence(question, row["answer"] or ""))
