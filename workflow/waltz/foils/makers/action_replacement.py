"""Action replacement from the frames of SWiG, with the verbs that a masked language model finds fitting."""

from collections.abc import Sequence

from waltz.foils.actions import action_captions, replacement_verbs, replacements
from waltz.foils.candidates import Refused
from waltz.foils.english.wordnet import read_verbs
from waltz.foils.instruments import Made, Row
from waltz.foils.proposer_needs import Needs, place


def made(rows: Sequence[Row], needs: Needs, _: str) -> Made:
    """The best fitting of the source's own verbs for each caption of each frame, in the order of the rows; `needs` must
    have `fit`."""
    assert needs.fit is not None
    named = {row["verb"] for row in rows}
    verbs = {name: verb for name, verb in read_verbs().items() if name in named}
    captions = [(row, caption) for row in rows for caption in action_captions(row, read_verbs())]
    forms = {
        place(caption.text, caption.verb_span): tuple(replacement_verbs(caption, verbs))
        for _, caption in captions
        if not isinstance(caption, Refused)
    }
    fitted = needs.fit(forms)
    for row, caption in captions:
        if isinstance(caption, Refused):
            yield row, caption
            continue
        best = fitted[place(caption.text, caption.verb_span)][: needs.best]
        given = ((entry.phrase, entry.rank, entry.score) for entry in best)
        yield from ((row, found) for found in replacements(caption, given, verbs))
