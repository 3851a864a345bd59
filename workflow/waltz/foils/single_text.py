"""Candidates of a single text, for those instruments that need nothing but the text."""

from collections.abc import Callable, Iterable, Iterator

from waltz.core.errors import UserError, build_name_error
from waltz.foils.candidates import Outcome, Refusal
from waltz.foils.coreference import build_coreference_foil
from waltz.foils.counting import NUMBER_RANGES, build_counting_foils
from waltz.foils.english.parsing import parse, parse_captions
from waltz.foils.existence import build_existence_foils
from waltz.foils.plurality import build_plurality_foils
from waltz.instruments import INSTRUMENTS

FOIL_NUMBERS = range(21)
"""Numbers that foils of a single count may show."""


def build_from_texts(instrument: str, texts: Iterable[str]) -> Iterator[tuple[str, Iterator[Outcome]]]:
    """Yield each text with its candidates, or the reason why it gives none, for one of `BUILDERS`.

    Each text is parsed alone, as soon as it is there: its candidates depend on no other text.

    Args:
        texts: A caption for plurality; "How many dogs are there? 3" for existence and counting; "a dog on a bed. is it
            asleep? yes." for coreference.
    """
    if instrument not in INSTRUMENTS:
        raise build_name_error("--instrument", "instrument", instrument, INSTRUMENTS)
    if instrument not in BUILDERS:
        raise UserError(
            f"instrument {instrument!r} needs more than one text; name one of {', '.join(BUILDERS)}, or run a study"
        )
    for text in map(str.strip, texts):
        yield text, BUILDERS[instrument](instrument, text)


def _build_plurality(_: str, text: str) -> Iterator[Outcome]:
    (doc,) = parse_captions([text])
    return build_plurality_foils(doc)


def _build_numbers(instrument: str, text: str) -> Iterator[Outcome]:
    question, _, answer = text.partition("?")
    (doc,) = parse([f"{question}?"])
    if instrument == "existence":
        return build_existence_foils(doc, answer.strip())
    return build_counting_foils(doc, answer.strip(), NUMBER_RANGES[instrument], FOIL_NUMBERS)


def _build_coreference(_: str, text: str) -> Iterator[Outcome]:
    before, question_mark, answer = text.rpartition("?")
    caption, full_stop, question = before.rpartition(".")
    if question_mark and full_stop:
        yield build_coreference_foil(caption.strip(), question.strip(), answer.strip(" ."), 1)
    else:
        yield Refusal('the text is not of the form "caption. question? answer."')


BUILDERS: dict[str, Callable[[str, str], Iterator[Outcome]]] = {
    "plurality": _build_plurality,
    "existence": _build_numbers,
    **dict.fromkeys(NUMBER_RANGES, _build_numbers),
    "coreference-standard": _build_coreference,
    "coreference-clean": _build_coreference,
}
"""Instruments whose candidates need nothing but a text."""
