"""Candidates of a single text, for the instruments that need only this text."""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from waltz.core.errors import UserError, build_name_error
from waltz.foils.candidates import Outcome, Refusal, ScoreTexts, refuse_broken_pairs
from waltz.foils.coreference import build_coreference_foil
from waltz.foils.counting import (
    NUMBER_RANGES,
    build_caption_foils,
    build_counting_foils,
)
from waltz.foils.english.coco_nouns import collect_words
from waltz.foils.english.nouns import parse_number
from waltz.foils.english.numerals import find_counts
from waltz.foils.english.parsing import parse, parse_captions
from waltz.foils.existence import build_existence_foils, build_mention_foils
from waltz.foils.foil_it import build_category_foils
from waltz.foils.plurality import build_plurality_foils
from waltz.foils.relations import build_contrary_foils, rank_contrary_foils
from waltz.instruments import INSTRUMENTS, SHORT_NAMES, TEXT_INPUTS

FOIL_NUMBERS = range(21)
"""Numbers that the foils of a single counting question may have."""
CAPTION_NUMBERS = range(2, 11)
"""Numbers that the foils of a single caption may have."""
QUOTED = re.compile(r"[\"“«][^\"”»]*[\"”»]")
RANKED = "relations"
"""Instrument whose foils a language model ranks."""
QUESTION_EXAMPLE = "How many dogs are there? Three."


def build_from_texts(
    instrument: str, texts: Iterable[str], score_texts: ScoreTexts | None = None
) -> Iterator[tuple[str, Iterator[Outcome]]]:
    """Yield each text with its candidates, or with a refusal, for an instrument of `BUILDERS`.

    Each text is parsed alone, as soon as it arrives: its candidates do not depend on other texts.

    Args:
        instrument: Name of an instrument, or a short name of `SHORT_NAMES`.
        texts: Texts of the form that `TEXT_INPUTS` says.
        score_texts: A causal language model that ranks the foils of relations.
    """
    name = SHORT_NAMES.get(instrument, instrument)
    if name not in INSTRUMENTS:
        known = [*TEXT_INPUTS, *SHORT_NAMES]
        raise build_name_error("--instrument", "instrument", instrument, known)
    builders = dict(BUILDERS)
    if score_texts is not None:
        builders[RANKED] = partial(_build_prepositions, score_texts)
    if name not in builders:
        raise UserError(
            f"--instrument: a text is not enough for {instrument!r} (got texts, expected"
            f" {describe_needs(name)}); name one of {', '.join(builders)}, or run a study"
        )
    for text in map(str.strip, texts):
        yield text, refuse_broken_pairs(builders[name](name, text), text)


def describe_needs(instrument: str) -> str:
    """Return in words what an instrument is built from."""
    entry = INSTRUMENTS[instrument]
    needs = f"a source of format {entry.source_format}"
    if entry.proposal_key is None:
        return needs
    return f"{needs} and a masked language model"


def _build_plurality(_: str, text: str) -> Iterator[Outcome]:
    if _has_question(text):
        yield _expect_caption()
        return
    (doc,) = parse_captions([text])
    yield from build_plurality_foils(doc)


def _build_nouns(_: str, text: str) -> Iterator[Outcome]:
    if _has_question(text):
        yield _expect_caption()
        return
    (doc,) = parse_captions([text])
    yield from build_category_foils(doc, [collect_words(doc)])


def _build_prepositions(
    score_texts: ScoreTexts, _: str, text: str
) -> Iterator[Outcome]:
    if _has_question(text):
        yield _expect_caption()
        return
    (doc,) = parse_captions([text])
    candidates = build_contrary_foils(doc)
    scores = score_texts([candidate.foil for candidate in candidates])
    yield from rank_contrary_foils(candidates, scores)


def _has_question(text: str) -> bool:
    """Return True for a text with a question mark outside quotation marks."""
    return "?" in QUOTED.sub("", text)


def _expect_caption() -> Refusal:
    return Refusal('a question (expected a caption, such as "Two dogs sleep.")')


def _build_numbers(instrument: str, text: str) -> Iterator[Outcome]:
    if _has_question(text):
        yield from _build_from_question(instrument, text)
        return
    (doc,) = parse_captions([text])
    if instrument == "existence":
        yield from build_mention_foils(doc)
        return
    ranges = NUMBER_RANGES[instrument]
    yield from build_caption_foils(find_counts(doc), ranges, CAPTION_NUMBERS)


def _build_from_question(instrument: str, text: str) -> Iterator[Outcome]:
    """Yield the outcomes of a question with its answer."""
    question, _, answer = text.partition("?")
    if parse_number(answer) is None:
        yield Refusal(
            "a question whose answer is no numeral (expected a question with its answer, such as"
            f' "{QUESTION_EXAMPLE}", or a caption)'
        )
        return
    (doc,) = parse([f"{question}?"])
    if instrument == "existence":
        yield from build_existence_foils(doc, answer.strip())
        return
    ranges = NUMBER_RANGES[instrument]
    yield from build_counting_foils(doc, answer.strip(), ranges, FOIL_NUMBERS)


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
    "foil-it": _build_nouns,
    "coreference-standard": _build_coreference,
    "coreference-clean": _build_coreference,
}
"""Functions that build the candidates of a text, by instrument; the instruments need only this
text.
"""
