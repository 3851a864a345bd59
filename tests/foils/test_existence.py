"""Existence: questions to statements and their negations."""

import inflect
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from waltz.core.text_diff import slice_span
from waltz.foils.candidates import Candidate, MakerOptions, Refusal
from waltz.foils.english.coco_nouns import NO_NOUN, NOT_SALIENT
from waltz.foils.english.nouns import parse_number, singularize
from waltz.foils.english.parsing import parse, parse_captions
from waltz.foils.english.statements import (
    IS_ARE,
    NO_FORMS,
    Forms,
    Statement,
    convert_question,
    get_noun_forms,
)
from waltz.foils.existence import (
    STATED,
    build_candidates,
    build_existence_foils,
    build_mention_foils,
    build_negation,
)
from waltz.foils.released_items import ReleasedItem, reproduce_existence
from waltz.sources.records import CaptionRecord


def results(question: str, answer: str) -> Candidate | Refusal:
    (doc,) = parse([question])
    (result,) = build_existence_foils(doc, answer)
    return result


@pytest.mark.parametrize(
    ("question", "answer", "caption", "foil", "direction"),
    [
        ("How many animals are shown?", "0", "There are no animals shown.",
         "There are animals shown.", "zero-to-something"),
        ("How many trucks are pictured?", "1.", "There is a truck pictured.", "There is no truck pictured.", ""),
        ("How many elephants are there in the photo?", "One.", "There is an elephant in the photo.",
         "There is no elephant in the photo.", ""),
        ("How many people are in the bus?", "12", "There are people in the bus.",
         "There are no people in the bus.", ""),
        ("How many people do you see?", "0.", "You see no people.", "You see people.", "zero-to-something"),
        ("How many trucks can be seen?", "1", "A truck can be seen.", "No truck can be seen.", ""),
        ("How many other dogs?", "1", "There is another dog.", "There is no other dog.", ""),
    ],
)  # fmt: skip
def test_a_question_and_its_answer_become_a_statement_and_its_negation(
    question: str, answer: str, caption: str, foil: str, direction: str
) -> None:
    candidate = results(question, answer)
    assert isinstance(candidate, Candidate)
    assert (candidate.caption, candidate.foil) == (caption, foil)
    assert candidate.direction == (direction or "something-to-zero")
    assert (candidate.caption_phrases if direction else candidate.foil_phrases) == (
        "no",
    )


@pytest.mark.parametrize(
    ("question", "answer", "reason"),
    [
        ("How many dogs are there?", "A lot.", "the answer is no numeral"),
        ("What is shown?", "2", "the question does not begin with 'How many'"),
        (
            "How many of the dog's legs are visible?",
            "2",
            "the question counts parts of something",
        ),
        ("How many are red?", "2", "the question does not name what it counts"),
        (
            "How many dogs and cats are there?",
            "2",
            "the question counts several things together",
        ),
        (
            "How many people do you think are there?",
            "2",
            "the question asks for a belief",
        ),
        ("How many years have they been open?", "60", "the question measures time"),
        ("How many people do not wear hats?", "2", "the question is negated"),
        (
            "How many people that sit are wearing hats?",
            "2",
            "a possessor or a relative clause stands by what",
        ),
    ],
)
def test_what_cannot_be_turned_into_a_statement_is_refused_for_a_reason(
    question: str, answer: str, reason: str
) -> None:
    refused = results(question, answer)
    assert isinstance(refused, Refusal)
    assert refused.reason.startswith(reason)


@pytest.mark.parametrize(
    ("question", "statement"),
    [
        ("How many levels do the buses have?", "The buses have exactly 2 levels."),
        (
            "How many shoes does the man sitting on the rail have on?",
            "The man sitting on the rail has exactly 2 shoes on.",
        ),
        ("How many legs does the dog stand on?", "The dog stands on exactly 2 legs."),
        ("How many jumps can we see?", "We can see exactly 2 jumps."),
        ("How many animals is the man riding?", "The man is riding exactly 2 animals."),
        ("How many years have they been open?", "They have been open exactly 2 years."),
        ("How many cars are red?", "Exactly 2 cars are red."),
        ("How many slices are left?", "There are exactly 2 slices left."),
        ("How many people were there?", "There were exactly 2 people."),
        (
            "How many of the bus' wheels are visible?",
            "There are exactly 2 of the bus' wheels visible.",
        ),
    ],
)
def test_other_forms_of_questions(question: str, statement: str) -> None:
    (doc,) = parse([question])
    results = convert_question(doc)
    assert isinstance(results, Statement)
    assert results.write_count(2) == statement


def test_numbers_of_nouns() -> None:
    words = {
        "people": "person",
        "cacti": "cactus",
        "buses": "bus",
        "lenses": "lens",
        "selfies": "selfie",
        "teeth": "tooth",
    }
    assert {word: singularize(word) for word in words} == words
    assert [singularize(word) for word in ("bus", "glass", "tennis", "sheep")] == [
        "bus",
        "glass",
        "tennis",
        "sheep",
    ]
    assert get_noun_forms("sheep", "NNS") == Forms("sheep", "sheep")
    assert get_noun_forms("giraffe", "NN") == Forms("giraffe", "giraffes")


def test_numerals() -> None:
    answers = ("0.", "Zero.", "None.", "Twenty-one", " 3 ", "a lot", "2 dogs", "")
    assert [parse_number(answer) for answer in answers] == [
        0,
        0,
        0,
        21,
        3,
        None,
        None,
        None,
    ]


def test_numbers_below_a_hundred_are_read_as_inflect_writes_them():
    words = [str(inflect.engine().number_to_words(number)) for number in range(100)]
    assert [parse_number(word) for word in words] == list(range(100))


NOUNS = st.sampled_from(
    ["dog", "elephant", "child", "hour glass", "woman", "box", "sheep", "owl"]
)
RESTS = st.sampled_from(
    ["", "shown", "in the picture", "on the grass", "not wearing a hat"]
)


@settings(deadline=None)
@given(
    noun=NOUNS,
    modifiers=st.sampled_from(["", "other", "red", "old"]),
    rest=RESTS,
    number=st.integers(0, 3),
    exists=st.booleans(),
    there=st.booleans(),
)
def test_negating_twice_gives_the_caption_back(
    noun: str, modifiers: str, rest: str, number: int, exists: bool, there: bool
) -> None:
    forms = Forms(
        noun, "children" if noun == "child" else noun if noun == "sheep" else f"{noun}s"
    )
    opening, be = ("there", IS_ARE) if there else ("you see", NO_FORMS)
    candidate = build_negation(
        Statement(opening=opening, be=be, modifiers=modifiers, noun=forms, rest=rest),
        number,
        exists,
    )
    assert candidate.caption != candidate.foil
    assert slice_span(candidate.caption, candidate.caption_span) != slice_span(
        candidate.foil, candidate.foil_span
    )
    before, after = candidate.caption_span, candidate.foil_span
    assert (
        candidate.caption[: before["start"]].strip()
        == candidate.foil[: after["start"]].strip()
    )
    assert (
        candidate.caption[before["end"] :].strip()
        == candidate.foil[after["end"] :].strip()
    )
    if there and modifiers != "other":
        item = ReleasedItem(item_id="x", caption=candidate.foil, foil="")
        (again,) = reproduce_existence(item)
        assert again.foil == candidate.caption


def build_of_captions(*captions: str) -> list[tuple[int, Candidate | Refusal]]:
    """Return the outcomes of COCO captions of one image, with the place of their caption."""
    rows = [
        CaptionRecord(
            source="coco", source_id=str(place), image="1.jpg", caption=caption
        )
        for place, caption in enumerate(captions)
    ]
    return [
        (int(row.source_id), outcome)
        for row, outcome in build_candidates(rows, MakerOptions(), "existence")
    ]


def test_things_that_captions_mention_exist_and_others_of_their_kind_do_not() -> None:
    outcomes = build_of_captions(
        "Two laptops on a bed.", "Laptops beside a mouse.", "A man."
    )
    made = {
        (place, result.caption, result.foil, result.direction)
        for place, result in outcomes
        if isinstance(result, Candidate)
    }
    # electronic: tv, laptop, mouse, remote, keyboard; the mouse is mentioned once, so that it
    # neither exists nor not
    assert made == {
        (0, "There are laptops.", "There are no laptops.", "something-to-zero"),
        (0, "There are no tvs.", "There are tvs.", "zero-to-something"),
        (1, "There are no remotes.", "There are remotes.", "zero-to-something"),
        (2, "There are no keyboards.", "There are keyboards.", "zero-to-something"),
    }
    refused = [
        (place, result.reason)
        for place, result in outcomes
        if isinstance(result, Refusal)
    ]
    assert sorted(refused) == sorted(
        [(0, NOT_SALIENT), (1, STATED), (1, NOT_SALIENT), (2, NO_NOUN)]
    )


def test_one_thing_of_captions_takes_the_article_and_its_phrases_can_be_balanced() -> (
    None
):
    results = [
        result
        for _, result in build_of_captions("An orange.", "One orange.")
        if isinstance(result, Candidate)
    ]
    by_caption = {result.caption: result for result in results}
    assert by_caption["There is an orange."].foil == "There is no orange."
    assert by_caption["There is an orange."].caption_phrases == ("an orange",)
    assert by_caption["There is an orange."].foil_phrases == ("no orange",)
    assert by_caption["There is no apple."].foil_phrases == ("an apple",)


def test_a_single_caption_of_an_image_is_enough_for_its_nouns() -> None:
    made = {
        (result.caption, result.foil)
        for _, result in build_of_captions("Two laptops on a bed.")
        if isinstance(result, Candidate)
    }
    assert ("There are laptops.", "There are no laptops.") in made
    assert ("There are no tvs.", "There are tvs.") in made


def state_mentions(caption: str) -> list[str]:
    (doc,) = parse_captions([caption])
    return [
        result.caption
        for result in build_mention_foils(doc)
        if isinstance(result, Candidate)
    ]


@pytest.mark.parametrize(
    ("caption", "statements"),
    [
        ("Two dogs sleep.", ["There are dogs."]),
        ("A hot dog on a bun.", ["There is a hot dog.", "There is a bun."]),
        ("An elephant near an elephant", ["There is an elephant."]),
        ("Brown dogs run.", ["There are brown dogs."]),
        ("The dog drinks the water.", []),  # no article shows that it can be counted
        ("Some broccoli", []),
        ("There is no dog.", []),
        ("A man without a hat", ["There is a man."]),
        ("A statue of a horse", []),
        ("Neither dog is on a leash.", []),
        ("A plane flying at 30,000 feet.", ["There is a plane."]),
        ("A man in his forties rides a bike.", ["There is a man.", "There is a bike."]),
        ("A dozen roses in a vase.", ["There is a vase."]),
        # The parser makes one phrase of the first three words.
        ("A skateboarder doing tricks", []),
        ("A cloud shaped like a horse", ["There is a cloud."]),
        ("A pillow in the shape of a fish", ["There is a pillow."]),
        ("A group of people in a row", ["There are people."]),
        ("Platform 9 trains wait.", []),
        ("A man takes a picture of other items", ["There is a man."]),
        ("Two story houses line the street.", []),
        ('A sign says "a dog" on it', ["There is a sign."]),
    ],
)
def test_things_of_a_single_caption(caption: str, statements: list[str]) -> None:
    assert state_mentions(caption) == statements


def test_a_single_caption_denies_what_it_mentions() -> None:
    (doc,) = parse_captions(["Two dogs sleep."])
    (result,) = build_mention_foils(doc)
    assert isinstance(result, Candidate)
    assert result.foil == "There are no dogs."
    assert result.direction == "something-to-zero"
