"""Captions whose noun phrases change number."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from waltz.core.text_diff import slice_span
from waltz.foils.candidates import Candidate, Refusal, replace_span
from waltz.foils.english.nouns import pluralize, singularize
from waltz.foils.english.parsing import parse_captions
from waltz.foils.plurality import build_plurality_foils


def list_outcomes(caption):
    return list(build_plurality_foils(next(parse_captions([caption]))))


def candidates(caption: str) -> list[Candidate]:
    return [
        outcome for outcome in list_outcomes(caption) if isinstance(outcome, Candidate)
    ]


def pairs(caption: str) -> list[tuple[str, str]]:
    return [
        (results.caption, results.foil)
        for results in candidates(caption)
        if results.rejected is None
    ]


def test_a_phrase_gives_both_quantifiers_of_each_number():
    assert pairs("A dog sleeps.") == [
        ("Exactly one dog sleeps.", "Some dogs sleep."),
        ("Exactly one dog sleeps.", "A number of dogs sleep."),
        ("A single dog sleeps.", "Some dogs sleep."),
        ("A single dog sleeps.", "A number of dogs sleep."),
    ]
    assert {results.direction for results in candidates("A dog sleeps.")} == {"sg2pl"}
    assert {results.direction for results in candidates("Two dogs sleep.")} == {"pl2sg"}


AGREEING = [
    (
        "a vase with some flowers in it.",
        "A vase with some flowers in it.",
        "A vase with a single flower in it.",
    ),
    (
        "A man sits on a couch holding his phone.",
        "A single man sits on a couch holding his phone.",
        "Some men sit on a couch holding their phones.",
    ),
    (
        "There is a fire in the room.",
        "There is a single fire in the room.",
        "There are some fires in the room.",
    ),
    (
        "On a street, there are two girls cooking.",
        "On a street, there are some girls cooking.",
        "On a street, there is a single girl cooking.",
    ),
    (
        "A surfer kneels as he catches a wave.",
        "A single surfer kneels as he catches a wave.",
        "Some surfers kneel as they catch a wave.",
    ),
    (
        "Three people race their horses.",
        "Some people race their horses.",
        "A single person races their horse.",
    ),
    (
        "Two women brush their dogs.",
        "Some women brush their dogs.",
        "A single woman brushes her dog.",
    ),
    (
        "THERE IS A FIRE IN THE ROOM",
        "There is a single fire in the room",
        "There are some fires in the room",
    ),
    (
        "A room with a bathtub, window, and a sink.",
        "A room with a bathtub, a single window, and a sink.",
        "A room with a bathtub, some windows, and a sink.",
    ),
    (
        "Two buses and a taxi go down a street.",
        "Some buses and a taxi go down a street.",
        "A single bus and a taxi go down a street.",
    ),
    (
        "A man who is waving stands on a box.",
        "A single man who is waving stands on a box.",
        "Some men who are waving stand on a box.",
    ),
    (
        "A boy is next to a cup indoors.",
        "A boy is next to a single cup indoors.",
        "A boy is next to some cups indoors.",
    ),
    (
        "Dogs sit in the snow.",
        "Some dogs sit in the snow.",
        "A single dog sits in the snow.",
    ),
]


@pytest.mark.parametrize(("written", "caption", "foil"), AGREEING)
def test_the_sentence_agrees_with_the_new_number(written: str, caption: str, foil: str):
    assert (caption, foil) in pairs(written)


def test_an_object_keeps_the_pronouns_of_the_subject():
    assert (
        "A boy hits a single ball with his bat.",
        "A boy hits some balls with his bat.",
    ) in pairs("A boy hits the ball with his bat.")


def test_a_pronoun_takes_up_a_noun_of_its_gender():
    written = "A woman next to a man brushes his dog."
    assert (
        "A woman next to a single man brushes his dog.",
        "A woman next to some men brushes their dogs.",
    ) in pairs(written)
    assert (
        "A single woman next to a man brushes his dog.",
        "Some women next to a man brush his dog.",
    ) in pairs(written)


def test_phrases_are_the_heads_and_spans_hold_what_differs():
    results = next(
        results
        for results in candidates("Two giraffes stand on a sports field.")
        if results.direction == "sg2pl"
    )
    assert (results.caption_phrases, results.foil_phrases) == (("field",), ("fields",))
    assert (
        slice_span(results.caption, results.caption_span) == "exactly one sports field"
    )
    assert slice_span(results.foil, results.foil_span) == "some sports fields"


@pytest.mark.parametrize(
    ("caption", "reason"),
    [
        ("A cat sits on top of a box.", "the noun is part of a preposition"),
        ("A street with no cars.", "the caption says that there is none"),
        ("A light above each table.", "the caption speaks of each one"),
    ],
)
def test_a_quantifier_that_would_falsify_or_break_the_caption_is_rejected(
    caption, reason
):
    assert reason in {results.rejected for results in candidates(caption)}


def test_names_and_halves_of_hyphened_words_are_no_noun_phrases():
    phrases = {
        phrase
        for results in candidates("A man on a counter-top with Paul Simon.")
        for phrase in results.caption_phrases
    }
    assert phrases == {"man"}


def test_a_caption_without_nouns_is_refused():
    assert list_outcomes("He is there.") == [Refusal("no noun phrase")]
    assert list_outcomes("") == [Refusal("no noun phrase")]


@pytest.mark.parametrize(
    ("singular", "plural"),
    [
        ("bus", "buses"), ("person", "people"), ("cactus", "cacti"), ("scarf", "scarves"), ("selfie", "selfies"),
        ("glass", "glasses"), ("sheep", "sheep"), ("hoof", "hooves"), ("cookie", "cookies"), ("knife", "knives"),
        ("tie", "ties"), ("flamingo", "flamingos"), ("child", "children"), ("TV", "TVs"), ("Dog", "Dogs"),
    ],
)  # fmt: skip
def test_odd_nouns(singular, plural):
    assert (pluralize(singular), singularize(plural)) == (plural, singular)


def test_the_number_of_a_noun_with_one_form_is_open_without_a_numeral():
    assert {
        results.direction
        for results in candidates("Two sheep stand on a hill.")
        if results.caption_phrases == ("sheep",)
    } == {"pl2sg"}
    directions = {
        results.direction
        for results in candidates("Two dogs are herding sheep into a pile.")
        if results.caption_phrases == ("sheep",)
    }
    assert directions == {"sg2pl", "pl2sg"}


NOUNS = ("dog", "bus", "woman", "child", "box", "person", "sheep", "TV", "teddy bear")
SUBJECT = st.builds(
    "{} {}{}".format,
    st.sampled_from(["a", "the", "this"]),
    st.sampled_from(["", "red "]),
    st.sampled_from(NOUNS),
)
CAPTION = st.builds(
    "{} {} {} {}{}".format,
    SUBJECT,
    st.sampled_from(["is", "sits", "stands"]),
    st.sampled_from(["on", "behind", "next to"]),
    SUBJECT,
    st.sampled_from(["", ".", " with its hat.", " while it sleeps."]),
)


@settings(max_examples=60, deadline=None)
@given(CAPTION)
def test_spans_hold_all_that_differs(caption):
    results = candidates(caption)
    assert results
    for candidate in results:
        exchanged = slice_span(candidate.foil, candidate.foil_span)
        assert (
            replace_span(candidate.caption, candidate.caption_span, exchanged)[0]
            == candidate.foil
        )
        assert candidate.caption.lower() != candidate.foil.lower()
        assert slice_span(candidate.caption, candidate.caption_span)
        assert exchanged
