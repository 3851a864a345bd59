"""Counting: questions to statements with right and wrong numerals."""

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waltz.core.text import slice_of
from waltz.foils.candidates import Candidate, Refused
from waltz.foils.counting import NUMERALS, counting, recounted
from waltz.foils.fidelity.compare import alike
from waltz.foils.fidelity.numbers import cause_counting, reproduce_counting
from waltz.foils.language import parse
from waltz.foils.statements import IS_ARE, NOTHING, Forms, Statement


def found(question: str, answer: str, instrument: str, seen: range = range(8)) -> list[Candidate | Refused]:
    (doc,) = parse([question])
    return list(counting(doc, answer, NUMERALS[instrument], seen))


def foils(question: str, answer: str, instrument: str) -> list[str]:
    return [candidate.foil for candidate in found(question, answer, instrument) if isinstance(candidate, Candidate)]


def test_noun_and_verb_agree_with_the_numeral() -> None:
    candidates = found("How many planes are there?", "2.", "counting-small")
    assert [(one.caption, one.foil) for one in candidates if isinstance(one, Candidate)] == [
        ("There are exactly 2 planes.", "There are exactly 0 planes."),
        ("There are exactly 2 planes.", "There is exactly 1 plane."),
        ("There are exactly 2 planes.", "There are exactly 3 planes."),
    ]
    first = candidates[1]
    assert isinstance(first, Candidate)
    assert (first.caption_phrases, first.foil_phrases, first.direction) == (("2",), ("1",), "fewer")
    assert slice_of(first.foil, first.foil_span) == "is exactly 1 plane"
    assert foils("How many people wear hats?", "2", "counting-small")[1] == "Exactly 1 person wears hats."
    assert foils("How many pieces of luggage can be seen?", "2", "counting-small")[1] == (
        "Exactly 1 piece of luggage can be seen."
    )


@pytest.mark.parametrize(
    ("instrument", "answer", "numerals"),
    [
        ("counting-balanced", "3", [0, 1, 2, 4, 5, 6, 7]),
        ("counting-small", "3", [0, 1, 2]),
        ("counting-adversarial", "5", [0, 1, 2, 3]),
        ("counting-small", "4", []),
        ("counting-adversarial", "3", []),
    ],
)
def test_each_instrument_has_its_numerals(instrument: str, answer: str, numerals: list[int]) -> None:
    candidates = found("How many dogs are there?", answer, instrument)
    assert [int(one.foil_phrases[0]) for one in candidates if isinstance(one, Candidate)] == numerals
    if not numerals:
        assert candidates == [Refused("its number is not among those of the captions")]


@given(
    numbers=st.lists(st.integers(0, 60), min_size=2, max_size=2, unique=True),
    noun=st.sampled_from([Forms("dog", "dogs"), Forms("sheep", "sheep"), NOTHING]),
    form=st.sampled_from(
        [("there", IS_ARE, NOTHING), ("", NOTHING, Forms("wears", "wear")), ("you see", NOTHING, NOTHING)]
    ),
)
def test_the_foil_of_the_foil_is_the_caption(numbers: list[int], noun: Forms, form: tuple[str, Forms, Forms]) -> None:
    opening, be, verb = form
    statement = Statement(opening, be, "", noun, "of them", verb, "hats")
    there, back = recounted(statement, *numbers), recounted(statement, *reversed(numbers))
    assert (there.caption, there.foil) == (back.foil, back.caption)
    assert there.caption != there.foil
    before, after = there.caption_span, there.foil_span
    assert str(numbers[0]) in slice_of(there.caption, before)
    assert there.caption[: before["start"]] + slice_of(there.foil, after) + there.caption[before["end"] :] == there.foil


FILES = {"counting-hard": (0.975, 9), "counting-small-quant": (0.97, 0), "counting-adversarial": (0.98, 0)}


@pytest.mark.parametrize("name", FILES)
def test_the_released_items_are_reproduced(shared_data: Path, name: str) -> None:
    items = json.loads((shared_data / "valse" / f"{name}.json").read_text())
    causes: Counter[str] = Counter()
    for item in items.values():
        candidates = reproduce_counting(item)
        if not any(alike(one.caption, item["caption"]) and alike(one.foil, item["foil"]) for one in candidates):
            causes[cause_counting(item, candidates)] += 1
    assert 1 - causes.total() / len(items) >= FILES[name][0]
    assert causes["caption and foil of the release are alike"] == FILES[name][1]
    assert causes["the numeral is not in the released caption"] == 0
