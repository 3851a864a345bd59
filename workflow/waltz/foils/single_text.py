"""Candidates of a single text, for the instruments that need only this text."""

from collections.abc import Callable, Iterable, Iterator

from waltz.core.errors import UserError, build_name_error
from waltz.foils.candidates import Outcome, Refusal, refuse_true_foils
from waltz.foils.coreference import build_coreference_foil
from waltz.foils.counting import NUMBER_RANGES, build_counting_foils
from waltz.foils.english.parsing import parse, parse_captions
from waltz.foils.existence import build_existence_foils
from waltz.foils.plurality import build_plurality_foils
from waltz.instruments import INSTRUMENTS

FOIL_NUMBERS = range(21)
"""Numbers that the foils of a single counting question may have."""


def build_from_texts(
    instrument: str, texts: Iterable[str]
) -> Iterator[tuple[str, Iterator[Outcome]]]:
    """Yield each text with its candidates, or with a refusal, for an instrument of `BUILDERS`.

    Each text is parsed alone, as soon as it arrives: its candidates do not depend on other texts.

    Args:
        texts: A caption for plurality; "How many dogs are there? 3" for existence and counting; "a
            dog on a bed. is it asleep? yes." for coreference.
    """
    if instrument not in INSTRUMENTS:
        raise build_name_error("--instrument", "instrument", instrument, INSTRUMENTS)
    if instrument not in BUILDERS:
        raise UserError(
            f"--instrument: a text is not enough for {instrument!r} (got texts, expected"
            f" {describe_needs(instrument)}); name one of {', '.join(BUILDERS)}, or run a study"
        )
    for text in map(str.strip, texts):
        yield text, refuse_true_foils(BUILDERS[instrument](instrument, text), text)


def describe_needs(instrument: str) -> str:
    """Return in words what an instrument is built from."""
    entry = INSTRUMENTS[instrument]
    needs = f"a source of format {entry.source_format}"
    if entry.proposal_key is None:
        return needs
    return f"{needs} and a masked language model"


def _build_plurality(_: str, text: str) -> Iterator[Outcome]:
    (doc,) = parse_captions([text])
    return build_plurality_foils(doc)


def _build_numbers(instrument: str, text: str) -> Iterator[Outcome]:
    question, _, answer = text.partition("?")
    (doc,) = parse([f"{question}?"])
    if instrument == "existence":
        return build_existence_foils(doc, answer.strip())
    return build_counting_foils(
        doc, answer.strip(), NUMBER_RANGES[instrument], FOIL_NUMBERS
    )


def _build_coreference(_: str, text: str) -> Iterator[Outcome]:
    # The last question mark ends the question, and the full stop before it the caption.
    before, question_mark, answer = text.rpartition("?")
    caption, full_stop, question = before.rpartition(".")
    if not question_mark or not full_stop:
        yield Refusal('the text is not of the form "caption. question? answer."')
        return
    yield build_coreference_foil(
        caption.strip(), question.strip(), answer.strip(" ."), 1
    )


BUILDERS: dict[str, Callable[[str, str], Iterator[Outcome]]] = {
    "plurality": _build_plurality,
    "existence": _build_numbers,
    **dict.fromkeys(NUMBER_RANGES, _build_numbers),
    "coreference-standard": _build_coreference,
    "coreference-clean": _build_coreference,
}
"""Functions that build the candidates of a text, by instrument; the instruments need only this
text.
"""
