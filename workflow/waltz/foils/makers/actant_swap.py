"""Actant swap from the frames of SWiG."""

from collections.abc import Sequence

from waltz.foils.actants import actant_swaps
from waltz.foils.actions import action_captions
from waltz.foils.candidates import Refused
from waltz.foils.english.wordnet import read_verbs
from waltz.foils.instruments import Made, Row
from waltz.foils.proposer_needs import Needs


def made(rows: Sequence[Row], _: Needs, __: str) -> Made:
    """Every wording of the swapped sentence for each caption of each frame, in the order of the rows."""
    for row in rows:
        for caption in action_captions(row, read_verbs()):
            if isinstance(caption, Refused):
                yield row, caption
            else:
                yield from ((row, found) for found in actant_swaps(caption, read_verbs()[caption.verb].base, ()))
