"""Relations from COCO captions, with what a masked language model proposes."""

from collections.abc import Sequence

from waltz.foils.candidates import Refused
from waltz.foils.coco_captions import parsed
from waltz.foils.instruments import Made, Row
from waltz.foils.proposer_needs import Needs, place
from waltz.foils.relations import attested, relations, slots

NO_PREPOSITION = "the caption has no preposition"


def made(rows: Sequence[Row], needs: Needs, _: str) -> Made:
    """Candidates for each slot of each caption, in the order of the rows; `needs` must have `propose`."""
    assert needs.propose is not None
    captions = [(doc.text, list(slots(doc))) for doc in parsed(row["caption"] for row in rows)]
    sequences = attested(slot for _, places in captions for slot in places)
    proposed = needs.propose(sorted({place(text, slot.span) for text, places in captions for slot in places}))
    for row, (text, places) in zip(rows, captions, strict=True):
        if not places:
            yield row, Refused(NO_PREPOSITION)
        for slot in places:
            given = ((entry.phrase, entry.rank, entry.score) for entry in proposed[place(text, slot.span)])
            yield from ((row, found) for found in relations(text, slot, given, sequences))
