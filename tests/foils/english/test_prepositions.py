"""Prepositions that place a thing at another thing."""

import pytest

from waltz.foils.english.parsing import parse_captions
from waltz.foils.english.prepositions import CONTRARY, find_prepositions


def find_texts(caption: str) -> list[str]:
    (doc,) = parse_captions([caption])
    return [preposition.text for preposition in find_prepositions(doc)]


@pytest.mark.parametrize(
    ("caption", "prepositions"),
    [
        ("A cat sits on a couch next to a dog.", ["on", "next to"]),
        (
            "A dog lies on top of a car in front of a house.",
            ["on top of", "in front of"],
        ),
        ("A man with two dogs walks on the beach.", ["on"]),
        ("A huge room with desks", ["with"]),
        ("A person rides down a hill.", ["down"]),
        ("On the table, a cat sleeps.", ["On"]),
    ],
)
def test_prepositions_are_found_whole(caption, prepositions):
    assert find_texts(caption) == prepositions


@pytest.mark.parametrize(
    "caption",
    [
        "Two dogs sleep.",
        "A man holding down a box.",  # a particle
        "Feet that point in opposite directions",
        "A man stops to eat.",  # an infinitive
        "A sign that says 'park on the left side'",
        "A road of about 4.8 km",
        "A man in a suit and tie",
        "A kite in the sky",
        "A train at night",
        "People travel by train.",
        "A man rides on horseback.",
        "A photo in black and white",
        "A boy looks at a dog.",
        "A glass filled with flowers",
        "A house surrounded by trees",
        "A bus drives down the street.",
        "Two men stand next to each other.",
        "A man stands up on a hill.",
        "There is no dog on the couch.",
        "Two of the dogs",
        "Houses grow over the years.",
        "A cat sleeps in the rays of a lamp.",
        "Toys are scattered across the floor.",
        "Feathers form in an arc.",
        "A girl runs through an archway.",
        "A nurse stands on the bank of a river.",
        "A dog is on a leash.",
        "Hatches run across the letters.",
    ],
)
def test_other_words_are_no_prepositions_of_place(caption):
    assert find_texts(caption) == []


def test_nothing_contradicts_itself_and_every_foil_is_in_the_table():
    for preposition, contraries in CONTRARY.items():
        assert preposition not in contraries
        assert set(contraries) <= {*CONTRARY, "into", "without"}
