"""Phrases to which a quantifier can be given, and invariants of the pairs that are built from them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waltz.foils.candidates import Refusal
from waltz.foils.english.quantifiable import refusals


def test_a_question_is_refused(build):
    assert build("How many dogs are there?") == [Refusal(refusals.QUESTION)]
    assert build("How to make a house safe.") == [Refusal(refusals.QUESTION)]
    assert build("Wear your hats in our garden.") == [Refusal(refusals.REQUEST)]


@pytest.mark.parametrize(
    ("caption", "pair"),
    [
        ("A dog sleeps.", ("Exactly one dog sleeps.", "Some dogs sleep.")),
        (
            "Two cows eat and there is a bird.",
            (
                "Some cows eat and there is a bird.",
                "Exactly one cow eats and there is a bird.",
            ),
        ),
        (
            "In the room, there are three men sweeping.",
            (
                "In the room, there are some men sweeping.",
                "In the room, there is exactly one man sweeping.",
            ),
        ),
        (
            "A robot with a visor. It stands there.",
            (
                "Exactly one robot with a visor. It stands there.",
                "Some robots with a visor. They stand there.",
            ),
        ),
        (
            "A dog sleeps in a mine.",
            ("A dog sleeps in a single mine.", "A dog sleeps in some mines."),
        ),
        (
            "Women playing soccer while their parents watch.",
            (
                "Some women playing soccer while their parents watch.",
                "Exactly one woman playing soccer while her parent watches.",
            ),
        ),
        (
            "Two nurses help their patient.",
            (
                "Some nurses help their patient.",
                "Exactly one nurse helps their patient.",
            ),
        ),
        (
            "Two farmers say they are tired.",
            (
                "Some farmers say they are tired.",
                "A single farmer says they are tired.",
            ),
        ),
        (
            "A room with a bed, chair and lamp.",
            (
                "A room with a bed, a single chair and lamp.",
                "A room with a bed, some chairs and lamp.",
            ),
        ),
        (
            "A group of dogs sits on a bed.",
            (
                "A single group of dogs sits on a bed.",
                "Some groups of dogs sit on a bed.",
            ),
        ),
        ("Man on a bench", ("A single man on a bench", "Some men on a bench")),
        (
            "A group of people wait at a curb.",
            (
                "A group of people wait at exactly one curb.",
                "A group of people wait at some curbs.",
            ),
        ),
        (
            "Shelves with no doors hang high, and a man eats.",
            (
                "Shelves with no doors hang high, and a single man eats.",
                "Shelves with no doors hang high, and some men eat.",
            ),
        ),
        (
            "A shiny VW van stands in a field.",
            (
                "Exactly one shiny VW van stands in a field.",
                "Some shiny VW vans stand in a field.",
            ),
        ),
        (
            "A red circle on a blue square",
            (
                "A red circle on a single blue square",
                "A red circle on some blue squares",
            ),
        ),
        (
            "A dog sleeps with its mouth open.",
            (
                "A dog sleeps with exactly one mouth open.",
                "A dog sleeps with some mouths open.",
            ),
        ),
        (
            "Person holding a kite",
            ("Exactly one person holding a kite", "Some people holding a kite"),
        ),
        (
            "A ladder leans on the side of a house.",
            (
                "A ladder leans on exactly one side of a house.",
                "A ladder leans on some sides of a house.",
            ),
        ),
        (
            "A photo shows a cow and its calf.",
            (
                "A single photo shows a cow and its calf.",
                "Some photos show a cow and its calf.",
            ),
        ),
        (
            "A movie has no plot but it is obvious that a man acts.",
            (
                "Exactly one movie has no plot but it is obvious that a man acts.",
                "Some movies have no plot but it is obvious that a man acts.",
            ),
        ),
        (
            "The sun glares as a man rides his bike.",
            (
                "The sun glares as a single man rides his bike.",
                "The sun glares as some men ride their bikes.",
            ),
        ),
        (
            "A painting is held by a frame that fixes it.",
            (
                "Exactly one painting is held by a frame that fixes it.",
                "Some paintings are held by a frame that fixes them.",
            ),
        ),
        (
            "A vase has a design painted on it.",
            (
                "A vase has exactly one design painted on it.",
                "A vase has some designs painted on it.",
            ),
        ),
        (
            "He eats half of a sandwich.",
            (
                "He eats half of exactly one sandwich.",
                "He eats half of some sandwiches.",
            ),
        ),
        (
            "The sun shines on a field.",
            ("A single sun shines on a field.", "Some suns shine on a field."),
        ),
    ],
)
def test_a_countable_noun_changes_its_number(caption, pair, list_pairs):
    assert pair in list_pairs(caption)


@pytest.mark.parametrize(
    ("caption", "pair"),
    [
        (
            "Behind her is a small dog.",
            ("Behind her is exactly one small dog.", "Behind her are some small dogs."),
        ),
        (
            "A house is made of bricks and has a door.",
            (
                "Exactly one house is made of bricks and has a door.",
                "Some houses are made of bricks and have a door.",
            ),
        ),
        (
            "An iguana has spines along its head and tail.",
            (
                "Exactly one iguana has spines along its head and tail.",
                "Some iguanas have spines along their heads and tails.",
            ),
        ),
        (
            "Snow falls. A dog runs. The small cat sleeps.",
            (
                "Snow falls. A dog runs. Exactly one small cat sleeps.",
                "Snow falls. A dog runs. Some small cats sleep.",
            ),
        ),
        (
            "A cat looks out of the window.",
            (
                "A cat looks out of exactly one window.",
                "A cat looks out of some windows.",
            ),
        ),
        (
            "A boy sits with a tree to his left.",
            (
                "Exactly one boy sits with a tree to his left.",
                "Some boys sit with a tree to their left.",
            ),
        ),
        (
            "Most of the wall is red.",
            ("Most of exactly one wall is red.", "Most of some walls is red."),
        ),
        (
            "Bus No. 12 stops beside a shop.",
            (
                "Bus No. 12 stops beside exactly one shop.",
                "Bus No. 12 stops beside some shops.",
            ),
        ),
    ],
)
def test_words_that_agree_with_a_phrase_change_wherever_they_stand(
    caption, pair, list_pairs
):
    assert pair in list_pairs(caption)


def test_no_capital_is_left_behind_a_quantifier(list_pairs):
    pairs = list_pairs("Dog with black collar rolling in dirt.")
    assert ("Exactly one dog with", "Some dogs with") in {
        (caption[:20], foil[:14]) for caption, foil in pairs
    }


@pytest.mark.parametrize(
    ("caption", "text"),
    [
        ("A photo shows two dogs with their owner.", "A single photo shows"),
        ("Each image contains a dog.", "contains exactly one dog"),
        ("Under the bridge is a small boat.", "is exactly one small boat"),
        ("Girl in red skirt.", "in exactly one red skirt"),
        ("A man with a bald head.", "with exactly one bald head"),
        ("A woman in a sari rides on the back of a bike.", "of exactly one bike"),
        ("A close up of two horses.", "up of some horses"),
        ("The dog on a sofa does not sleep.", "on exactly one sofa"),
        ("Dog with a ball.", "Exactly one dog with"),
        ("A person waits by a black and white van.", "exactly one black and white van"),
        ("A man and woman are sitting.", "A man and exactly one woman"),
    ],
)
def test_a_countable_phrase_is_kept(caption, text, list_pairs):
    assert any(text in built for built, _ in list_pairs(caption))


QUANTIFIER = r"(?i)\b(exactly one|a single|some|a number of)"
WRONG_AFTER = re.compile(
    rf"{QUANTIFIER} (-|at least|only|nearly|about|most|one|two|three|or|not|no|of|to) ?\b"
)
DETERMINERS = (
    "a",
    "the",
    "two",
    "only one",
    "at least three",
    "nearly forty",
    "no",
    "his",
)
NOUNS = (
    "dog",
    "dogs",
    "6-year-old boy",
    "scissors",
    "people",
    "police",
    "pair of shoes",
    "water",
)
PLACES = (
    "in flight",
    "in a 3-storey house",
    "between two trees",
    "on a bench",
    "at No. 12",
)


@given(
    st.sampled_from(DETERMINERS),
    st.sampled_from(NOUNS),
    st.sampled_from(("sleeps", "sleep", "wearing hats", "is not there")),
    st.sampled_from(PLACES),
)
def test_no_quantity_or_torn_word_is_left_behind_a_quantifier(
    list_pairs, determiner, noun, verb, place
):
    caption = f"{determiner} {noun} {verb} {place}.".capitalize()
    for texts in list_pairs(caption):
        assert texts[0].casefold() != texts[1].casefold()
        assert texts[1].casefold() != caption.casefold()
        for text in texts:
            assert not WRONG_AFTER.search(text)


def test_the_abbreviation_of_number_denies_nothing(list_pairs):
    phrase = "some dogs"
    for sign in ("No. 12", "no. 5", "No.7"):
        captions = [
            caption for caption, _ in list_pairs(f"Bus {sign} passes two dogs.")
        ]
        assert f"Bus {sign} passes {phrase}." in captions
    assert not list_pairs("There is no bus with two dogs.")
