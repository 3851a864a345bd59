"""Candidates of a single text, for those instruments that need nothing but the text."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import get_close_matches

from waltz.core.errors import UserError
from waltz.foils.candidates import Found, Refused
from waltz.foils.coco_captions import parsed
from waltz.foils.coreference import coreference
from waltz.foils.counting import NUMERALS, counting
from waltz.foils.english.parsing import parse
from waltz.foils.existence import existence
from waltz.foils.plurality import plurality
from waltz.instruments import INSTRUMENTS

COUNTED = range(21)
"""Numbers that foils of a single count may show."""


def from_texts(instrument: str, texts: Iterable[str]) -> Iterator[tuple[str, list[Found]]]:
    """The candidates of each text, or why it gives none.

    Args:
        instrument: One of `TEXT_INSTRUMENTS`.
        texts: A caption for plurality; "How many dogs are there? 3" for existence and counting; "a dog on a bed. is it
            asleep? yes." for coreference.
    Raises:
        UserError: There is no such instrument, or it needs more than a text.
    """
    if instrument not in INSTRUMENTS:
        close = get_close_matches(instrument, INSTRUMENTS, n=1, cutoff=0.5)
        nearest = f" (did you mean {close[0]!r}?)" if close else ""
        raise UserError(f"no instrument is called {instrument!r}{nearest}; there are {', '.join(INSTRUMENTS)}")
    if instrument not in TEXT_INSTRUMENTS:
        raise UserError(
            f"instrument {instrument!r} needs more than one text; name one of {', '.join(TEXT_INSTRUMENTS)},"
            " or run a study"
        )
    stripped = [text.strip() for text in texts]
    yield from zip(stripped, TEXT_INSTRUMENTS[instrument](instrument, stripped), strict=True)


def _pluralities(_: str, texts: Sequence[str]) -> Iterator[list[Found]]:
    for doc in parsed(texts):
        yield list(plurality(doc))


def _numbers(instrument: str, texts: Sequence[str]) -> Iterator[list[Found]]:
    parts = [text.partition("?") for text in texts]
    for (_, _, answer), question in zip(parts, parse(f"{asked}?" for asked, _, _ in parts), strict=True):
        if instrument == "existence":
            yield list(existence(question, answer.strip()))
        else:
            yield list(counting(question, answer.strip(), NUMERALS[instrument], COUNTED))


def _dialogues(_: str, texts: Sequence[str]) -> Iterator[list[Found]]:
    for text in texts:
        before, mark, answer = text.rpartition("?")
        caption, stop, question = before.rpartition(".")
        if mark and stop:
            yield [coreference(caption.strip(), question.strip(), answer.strip(" ."), 1)]
        else:
            yield [Refused('the text is not of the form "caption. question? answer."')]


TEXT_INSTRUMENTS: dict[str, Callable[[str, Sequence[str]], Iterator[list[Found]]]] = {
    "plurality": _pluralities,
    "existence": _numbers,
    **dict.fromkeys(NUMERALS, _numbers),
    "coreference-standard": _dialogues,
    "coreference-clean": _dialogues,
}
"""Instruments whose candidates need nothing but a text."""
