"""Counting: questions to statements with right and wrong numerals."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waltz.core.text_diff import slice_span
from waltz.foils.candidates import Candidate, Refusal
from waltz.foils.counting import NUMBER_RANGES, build_counting_foils, replace_number
from waltz.foils.english.parsing import parse
from waltz.foils.english.statements import IS_ARE, NO_FORMS, Forms, Statement


def results(
    question: str, answer: str, instrument: str, seen: range = range(8)
) -> list[Candidate | Refusal]:
    (doc,) = parse([question])
    return list(build_counting_foils(doc, answer, NUMBER_RANGES[instrument], seen))


def foils(question: str, answer: str, instrument: str) -> list[str]:
    return [
        candidate.foil
        for candidate in results(question, answer, instrument)
        if isinstance(candidate, Candidate)
    ]


def test_noun_and_verb_agree_with_the_numeral() -> None:
    candidates = results("How many planes are there?", "2.", "counting-small")
    assert [
        (entry.caption, entry.foil)
        for entry in candidates
        if isinstance(entry, Candidate)
    ] == [
        ("There are exactly 2 planes.", "There are exactly 0 planes."),
        ("There are exactly 2 planes.", "There is exactly 1 plane."),
        ("There are exactly 2 planes.", "There are exactly 3 planes."),
    ]
    first = candidates[1]
    assert isinstance(first, Candidate)
    assert (first.caption_phrases, first.foil_phrases, first.direction) == (
        ("2",),
        ("1",),
        "fewer",
    )
    assert slice_span(first.foil, first.foil_span) == "is exactly 1 plane"
    assert (
        foils("How many people wear hats?", "2", "counting-small")[1]
        == "Exactly 1 person wears hats."
    )
    assert foils("How many pieces of luggage can be seen?", "2", "counting-small")[
        1
    ] == ("Exactly 1 piece of luggage can be seen.")


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
def test_each_instrument_has_its_numerals(
    instrument: str, answer: str, numerals: list[int]
) -> None:
    candidates = results("How many dogs are there?", answer, instrument)
    assert [
        int(entry.foil_phrases[0])
        for entry in candidates
        if isinstance(entry, Candidate)
    ] == numerals
    if not numerals:
        assert candidates == [Refusal("its number is not among those of the captions")]


@given(
    numbers=st.lists(st.integers(0, 60), min_size=2, max_size=2, unique=True),
    noun=st.sampled_from([Forms("dog", "dogs"), Forms("sheep", "sheep"), NO_FORMS]),
    form=st.sampled_from(
        [
            ("there", IS_ARE, NO_FORMS),
            ("", NO_FORMS, Forms("wears", "wear")),
            ("you see", NO_FORMS, NO_FORMS),
        ]
    ),
)
def test_the_foil_of_the_foil_is_the_caption(
    numbers: list[int], noun: Forms, form: tuple[str, Forms, Forms]
) -> None:
    opening, be, verb = form
    statement = Statement(
        opening=opening, be=be, noun=noun, complement="of them", verb=verb, rest="hats"
    )
    there, back = (
        replace_number(statement, *numbers),
        replace_number(statement, *reversed(numbers)),
    )
    assert (there.caption, there.foil) == (back.foil, back.caption)
    assert there.caption != there.foil
    before, after = there.caption_span, there.foil_span
    assert str(numbers[0]) in slice_span(there.caption, before)
    assert (
        there.caption[: before["start"]]
        + slice_span(there.foil, after)
        + there.caption[before["end"] :]
        == there.foil
    )


def test_an_other_becomes_another_as_whole_words_only():
    statement = Statement(
        opening="there",
        be=IS_ARE,
        modifiers="other",
        noun=Forms("dog", "dogs"),
        rest="larger than other dogs",
    )
    text = "There is another dog larger than other dogs."
    assert statement.write_existence(1) == text
