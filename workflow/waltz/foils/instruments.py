"""Which foiling function an instrument is built with, over the rows of its source."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from waltz.core.errors import UserError
from waltz.core.text import Span
from waltz.foils.actants import actant_swaps
from waltz.foils.actions import ActionCaption, action_captions, replacement_verbs, replacements
from waltz.foils.candidates import Candidate, Found, Refused
from waltz.foils.captions import parsed
from waltz.foils.coreference import coreference
from waltz.foils.counting import NUMERALS, counting
from waltz.foils.existence import existence
from waltz.foils.foil_it import foil_it
from waltz.foils.language import parse
from waltz.foils.numerals import number_of
from waltz.foils.plurality import plurality
from waltz.foils.proposals import Proposal, Slot
from waltz.foils.relations import attested, relations, slots
from waltz.foils.wordnet import Verb, read_verbs

Row = Mapping[str, Any]
Made = Iterator[tuple[Row, Found]]
"""Source rows, each with one thing found; a row comes as often as it gives candidates."""

Propose = Callable[[Sequence[Slot]], Mapping[Slot, Sequence[Proposal]]]
"""The best spans for each slot, best first."""
Fit = Callable[[Mapping[Slot, Sequence[str]]], Mapping[Slot, Sequence[Proposal]]]
"""The words given for each slot, best first."""

NO_NUMBER_ASKED = "the question asks for no number"
TOO_LONG = "the caption has more tokens than the study allows"


@dataclass(frozen=True)
class Help:
    """What some instruments need beside their rows.

    Attributes:
        propose: A masked language model on free spans, for relations.
        fit: A masked language model on given words, for action replacement.
        tokens: Number of word pieces of a text, where the study limits them.
        most_tokens: That limit.
        best: How many verbs a masked language model may propose for a caption.
        verbs: SWiG's verbs by name, from WordNet.
    """

    propose: Propose | None = None
    fit: Fit | None = None
    tokens: Callable[[str], int] | None = None
    most_tokens: int | None = None
    best: int = 10
    verbs: Mapping[str, Verb] = field(default_factory=read_verbs)


def of_splits(rows: Sequence[Row], splits: Sequence[str], place: str) -> list[Row]:
    """The rows of some splits.

    Args:
        rows: Rows of a source.
        splits: The splits wanted.
        place: Where the study names them, for the error.
    Raises:
        UserError: The source has no such split.
    """
    known = sorted({str(row["split"]) for row in rows})
    for split in splits:
        if split not in known:
            raise UserError(f"study file: {place}: the source has no split {split!r}; it has {', '.join(known)}")
    return [row for row in rows if row["split"] in splits]


def made(instrument: str, rows: Iterable[Row], needs: Help) -> Made:
    """All candidates of an instrument, and what was refused, in the order of the rows.

    Args:
        instrument: Name of the instrument.
        rows: Rows of its source.
        needs: Models and limits.
    """
    usable: list[Row] = []
    for row in rows:
        if row["rejected"] is None:
            usable.append(row)
        else:
            yield row, Refused(f"the source's row: {row['rejected']}")
    yield from _MAKERS[instrument](usable, needs, instrument)


def _questions(rows: Sequence[Row], _: Help, instrument: str) -> Made:
    asked = [row for row in rows if row["question"].lower().startswith("how many")]
    asked_ids = {row["source_id"] for row in asked}
    yield from ((row, Refused(NO_NUMBER_ASKED)) for row in rows if row["source_id"] not in asked_ids)
    seen = {number for row in asked if (number := number_of(row["answer"] or "")) is not None}
    for row, question in zip(asked, parse(row["question"] for row in asked), strict=True):
        answer = row["answer"] or ""
        if instrument == "existence":
            yield from ((row, found) for found in existence(question, answer))
        else:
            yield from ((row, found) for found in counting(question, answer, NUMERALS[instrument], seen))


def _plurality(rows: Sequence[Row], needs: Help, _: str) -> Made:
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


def _relations(rows: Sequence[Row], needs: Help, _: str) -> Made:
    assert needs.propose is not None
    captions = [(doc.text, list(slots(doc))) for doc in parsed(row["caption"] for row in rows)]
    sequences = attested(slot for _, places in captions for slot in places)
    proposed = needs.propose(sorted({_place(text, slot.span) for text, places in captions for slot in places}))
    for row, (text, places) in zip(rows, captions, strict=True):
        if not places:
            yield row, Refused("the caption has no preposition")
        for slot in places:
            given = ((entry.phrase, entry.rank, entry.score) for entry in proposed[_place(text, slot.span)])
            yield from ((row, found) for found in relations(text, slot, given, sequences))


def _place(text: str, span: Span) -> Slot:
    return Slot(text, span["start"], span["end"])


def _captioned(rows: Sequence[Row], needs: Help) -> Iterator[tuple[Row, ActionCaption | Refused]]:
    for row in rows:
        yield from ((row, caption) for caption in action_captions(row, needs.verbs))


def _replacement(rows: Sequence[Row], needs: Help, _: str) -> Made:
    assert needs.fit is not None
    named = {row["verb"] for row in rows}
    verbs = {name: verb for name, verb in needs.verbs.items() if name in named}
    captions = list(_captioned(rows, needs))
    forms = {
        _place(caption.text, caption.verb_span): tuple(replacement_verbs(caption, verbs))
        for _, caption in captions
        if not isinstance(caption, Refused)
    }
    fitted = needs.fit(forms)
    for row, caption in captions:
        if isinstance(caption, Refused):
            yield row, caption
            continue
        best = fitted[_place(caption.text, caption.verb_span)][: needs.best]
        given = ((entry.phrase, entry.rank, entry.score) for entry in best)
        yield from ((row, found) for found in replacements(caption, given, verbs))


def _swap(rows: Sequence[Row], needs: Help, _: str) -> Made:
    for row, caption in _captioned(rows, needs):
        if isinstance(caption, Refused):
            yield row, caption
        else:
            swaps = actant_swaps(caption, needs.verbs[caption.verb].base, ())
            yield from ((row, found) for found in swaps)


def _coreference(rows: Sequence[Row], _: Help, __: str) -> Made:
    for row in rows:
        yield row, coreference(row["caption"], row["question"], row["answer"], row["round"])


def _foil_it(rows: Sequence[Row], _: Help, __: str) -> Made:
    for row in rows:
        yield row, foil_it(row["caption"], row["foil"], row["target_word"], row["foil_word"])


_MAKERS: dict[str, Callable[[Sequence[Row], Help, str], Made]] = {
    "existence": _questions,
    "counting-balanced": _questions,
    "counting-small": _questions,
    "counting-adversarial": _questions,
    "plurality": _plurality,
    "relations": _relations,
    "action-replacement": _replacement,
    "actant-swap": _swap,
    "coreference-standard": _coreference,
    "coreference-clean": _coreference,
    "foil-it": _foil_it,
}


def distinct(found: Made) -> Iterator[tuple[Row, Candidate | Refused]]:
    """What was found, without candidates that repeat an earlier one of the same row."""
    seen: set[tuple[str, str, str]] = set()
    for row, entry in found:
        if isinstance(entry, Candidate):
            key = (str(row["source_id"]), entry.caption, entry.foil)
            if key in seen:
                continue
            seen.add(key)
        yield row, entry
