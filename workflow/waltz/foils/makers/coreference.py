"""Coreference from the dialogues of VisDial."""

from collections.abc import Sequence

from waltz.foils.coreference import coreference
from waltz.foils.instruments import Made, Row
from waltz.foils.proposer_needs import Needs


def made(rows: Sequence[Row], _: Needs, __: str) -> Made:
    """A candidate, or why there is none, for each round."""
    for row in rows:
        yield row, coreference(row["caption"], row["question"], row["answer"], row["round"])
