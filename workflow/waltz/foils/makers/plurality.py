"""Plurality from COCO captions."""

from collections.abc import Sequence

from waltz.foils.candidates import Refused
from waltz.foils.coco_captions import parsed
from waltz.foils.instruments import Made, Row
from waltz.foils.plurality import plurality
from waltz.foils.proposer_needs import Needs

TOO_LONG = "the caption has more tokens than the study allows"


def made(rows: Sequence[Row], needs: Needs, _: str) -> Made:
    """Candidates for each caption that is short enough, in the order of the rows, after what is refused."""
    short: list[Row] = []
    for row in rows:
        if (
            needs.most_tokens is not None
            and needs.tokens is not None
            and needs.tokens(row["caption"]) > needs.most_tokens
        ):
            yield row, Refused(TOO_LONG)
        else:
            short.append(row)
    for row, doc in zip(short, parsed(row["caption"] for row in short), strict=True):
        yield from ((row, found) for found in plurality(doc))
