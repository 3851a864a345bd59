"""Noun phrases from the annotations of FOIL-it."""

from collections.abc import Sequence

from waltz.foils.foil_it import foil_it
from waltz.foils.instruments import Made, Row
from waltz.foils.proposer_needs import Needs


def made(rows: Sequence[Row], _: Needs, __: str) -> Made:
    """A candidate, or why there is none, for each annotation."""
    for row in rows:
        yield row, foil_it(row["caption"], row["foil"], row["target_word"], row["foil_word"])
