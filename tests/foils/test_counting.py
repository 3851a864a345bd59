"""Counting: questions to statements with right and wrong numerals."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waltz.core.text_diff import slice_span
from waltz.foils.candidates import Candidate, MakerOptions, Refusal
from waltz.foils.counting import (
    DEFINITE,
    NUMBER_RANGES,
    OTHER_NUMBER,
    build_candidates,
    build_caption_foils,
    build_counting_foils,
    replace_number,
)
from waltz.foils.english.numerals import (
    DENIED,
    NO_COUNTED_NOUN,
    NO_NUMERAL,
    NOT_COUNTING,
    RESUMED,
    find_counts,
)
from waltz.foils.english.parsing import parse, parse_captions
from waltz.foils.english.statements import IS_ARE, NO_FORMS, Forms, Statement
from waltz.sources.records import CaptionRecord


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


def count_caption(
    caption: str, instrument: str = "counting-balanced", seen: range = range(2, 5)
) -> list[Candidate | Refusal]:
    (doc,) = parse_captions([caption])
    counts = list(find_counts(doc))
    return list(build_caption_foils(counts, NUMBER_RANGES[instrument], seen))


def pairs(caption: str, instrument: str = "counting-balanced") -> list[tuple[str, str]]:
    return [
        (result.caption, result.foil)
        for result in count_caption(caption, instrument)
        if isinstance(result, Candidate)
    ]


def test_a_larger_number_is_false_as_it_is_and_a_smaller_one_with_exactly() -> None:
    assert pairs("three dogs sleep") == [
        ("Exactly three dogs sleep", "Exactly two dogs sleep"),
        ("Three dogs sleep", "Four dogs sleep"),
    ]
    assert pairs("3 dogs sleep.")[0] == (
        "Exactly 3 dogs sleep.",
        "Exactly 2 dogs sleep.",
    )
    first, second = count_caption("3 dogs sleep.")
    assert isinstance(first, Candidate)
    assert isinstance(second, Candidate)
    assert (first.caption_phrases, first.foil_phrases, first.direction) == (
        ("3",),
        ("2",),
        "fewer",
    )
    assert second.direction == "more"
    assert slice_span(second.foil, second.foil_span) == "4"


def test_what_says_exactly_says_it_once_and_a_definite_number_never() -> None:
    assert pairs("Only three dogs drink.") == [
        ("Only three dogs drink.", "Only two dogs drink."),
        ("Only three dogs drink.", "Only four dogs drink."),
    ]
    assert count_caption("The three dogs drink.")[0] == Refusal(DEFINITE)
    assert pairs("The three dogs drink.") == [
        ("The three dogs drink.", "The four dogs drink.")
    ]


@pytest.mark.parametrize(
    ("caption", "foil"),
    [
        ("A man with two dogs on a beach", "A man with three dogs on a beach"),
        ("Two white and black cows graze.", "Three white and black cows graze."),
        ("He jumps over two hurdles.", "He jumps over three hurdles."),
        ("People sit around two tables.", "People sit around three tables."),
        ("Two boys look at each other.", "Three boys look at each other."),
        ("Two chairs without cushions", "Three chairs without cushions"),
        ("Two men stand by a cow.", "Three men stand by a cow."),
        ("The bus 23 stops near two signs.", "The bus 23 stops near three signs."),
        ("In a park, two surfers eat.", "In a park, three surfers eat."),
    ],
)
def test_numerals_that_count_things(caption: str, foil: str) -> None:
    assert (caption, foil) in pairs(caption)


@pytest.mark.parametrize(
    ("caption", "reason"),
    [
        ("A dog sleeps.", NO_NUMERAL),
        ("One dog sleeps.", NO_NUMERAL),
        ("Two of the dogs are wet.", NOT_COUNTING),
        ("A two-year-old girl eats cake.", NOT_COUNTING),
        ("One of the cats is asleep.", NO_NUMERAL),
        ("At least two people wait.", NOT_COUNTING),
        ("He saw one out of four players.", NOT_COUNTING),
        ("No man on the field has two bats.", DENIED),
        ("More than two kites fly in the sky.", NOT_COUNTING),
        ("About two people wait.", NOT_COUNTING),
        ("Around two people wait at the stop.", NOT_COUNTING),
        ("Twenty-two players run.", NOT_COUNTING),
        ("Two or three birds sit on a wire.", NOT_COUNTING),
        ("2 to 3 birds sit on a wire.", NOT_COUNTING),
        ("Platform 9 trains wait.", NOT_COUNTING),
        ("The score is 2 to 3.", NOT_COUNTING),
        ("A clock shows 10:30 on a tower.", NO_NUMERAL),
        ("A table set for two.", NOT_COUNTING),
        ("Five hundred people watch.", NOT_COUNTING),
        ("A bus with the number 12 on it", NOT_COUNTING),
        ("Two dozen eggs in a basket", NOT_COUNTING),
        ("Two hours later the plane lands.", NOT_COUNTING),
        ("A building that is two stories high", NOT_COUNTING),
        ("Two story houses line the street.", NOT_COUNTING),
        ("He swings at 95 mph.", NO_COUNTED_NOUN),
        ("No two snowflakes are alike.", NOT_COUNTING),
        ("A woman without two shoes", DENIED),
        ("A box with no more than two tiny cats", NOT_COUNTING),
        ('A sign says "buy two beers" on it', DENIED),
        ("A sign says 'buy two beers now'", DENIED),
        ('A sign says "two beers"', NOT_COUNTING),
        ("A minimum of three boats float.", NOT_COUNTING),
        ("A total of two dogs sleep.", NOT_COUNTING),
        ("Two women, one in red and one in blue, dance.", RESUMED),
        ("Two men both wear hats.", RESUMED),
    ],
)
def test_numerals_that_count_nothing_are_refused(caption: str, reason: str) -> None:
    results = count_caption(caption)
    assert Refusal(reason) in results
    assert not pairs(caption)


def test_captions_of_other_numbers_and_numbers_that_no_caption_has_give_no_foil() -> (
    None
):
    assert count_caption("Five dogs run.", "counting-small") == [Refusal(OTHER_NUMBER)]
    assert pairs("Five dogs run.", "counting-adversarial") == [
        ("Exactly five dogs run.", "Exactly two dogs run."),
        ("Exactly five dogs run.", "Exactly three dogs run."),
    ]
    rows = [
        CaptionRecord(source="own", source_id=str(index), image="1.jpg", caption=text)
        for index, text in enumerate(("Two dogs.", "A cat.", "Five birds."))
    ]
    outcomes = build_candidates(rows, MakerOptions(), "counting-balanced")
    assert [
        (row.source_id, result.foil)
        for row, result in outcomes
        if isinstance(result, Candidate)
    ] == [("0", "Five dogs."), ("2", "Exactly two birds.")]
