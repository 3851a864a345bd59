"""What plurality builds from a caption, and why it refuses noun phrases."""

from collections.abc import Callable

import pytest

from waltz.foils.candidates import Candidate, Outcome
from waltz.foils.english.noun_phrases import NounPhrase, find_noun_phrases
from waltz.foils.english.parsing import parse_captions
from waltz.foils.english.quantifiable.refusals import RULES
from waltz.foils.plurality import build_plurality_foils

Refusals = dict[str, tuple[str, Callable[[NounPhrase], bool] | None]]


@pytest.fixture(scope="session")
def build() -> Callable[[str], list[Outcome]]:
    """Return the function that gives the candidates and refusals of a caption."""

    def build(caption):
        (doc,) = parse_captions([caption])
        return list(build_plurality_foils(doc))

    return build


@pytest.fixture(scope="session")
def list_pairs(build) -> Callable[[str], list[tuple[str, str]]]:
    """Return the function that gives the captions and foils that are not rejected."""

    def list_pairs(caption):
        return [
            (outcome.caption, outcome.foil)
            for outcome in build(caption)
            if isinstance(outcome, Candidate) and outcome.rejected is None
        ]

    return list_pairs


@pytest.fixture(scope="session")
def find_refusals(build) -> Callable[[str], Refusals]:
    """Return the function that gives, by the noun, the reason why plurality rejects a phrase of a
    caption, and the first rule that applies to the phrase.
    """

    def find_refusals(caption):
        (doc,) = parse_captions([caption])
        rules = {
            phrase.head.text.lower(): _find_rule(phrase)
            for phrase in find_noun_phrases(doc)
        }
        refusals = {}
        for outcome in build(caption):
            if isinstance(outcome, Candidate) and outcome.rejected is not None:
                (noun,) = outcome.caption_phrases
                refusals[noun] = (outcome.rejected, rules[noun.lower()])
        return refusals

    return find_refusals


def _find_rule(phrase: NounPhrase) -> Callable[[NounPhrase], bool] | None:
    return next((applies for _, applies in RULES if applies(phrase)), None)
