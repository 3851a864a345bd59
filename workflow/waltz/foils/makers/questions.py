"""The questions of a source that ask for a number."""

from collections.abc import Iterator, Sequence

from spacy.tokens import Doc

from waltz.foils.candidates import Refused
from waltz.foils.english.parsing import parse
from waltz.foils.instruments import Row

NO_NUMBER_ASKED = "the question asks for no number"


def how_many(rows: Sequence[Row]) -> Iterator[tuple[Row, Doc | Refused]]:
    """Each row with the parse of its question, in order; refused where it does not begin with "how many"."""
    asked = [row["question"].lower().startswith("how many") for row in rows]
    docs = parse(row["question"] for row, asks in zip(rows, asked, strict=True) if asks)
    for row, asks in zip(rows, asked, strict=True):
        yield row, next(docs) if asks else Refused(NO_NUMBER_ASKED)
