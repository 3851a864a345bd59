"""Simplified captions: what goes, what stays, and what is refused."""

import pytest

from waltz.foils.candidates import Refusal
from waltz.foils.english.parsing import parse_captions
from waltz.foils.english.simplification import (
    CLAUSE,
    NO_SENTENCE,
    QUESTION,
    simplify_caption,
)


def simplify(caption: str) -> str | Refusal:
    (doc,) = parse_captions([caption])
    return simplify_caption(doc)


@pytest.mark.parametrize(
    ("caption", "short"),
    [
        # table 8 of the paper
        ("A woman holds a cup on the street.", "A woman holds a cup."),
        ("A woman holds out a cup on a street.", "A woman holds out a cup."),
        ("A woman begs for money in the street.", "A woman begs for money."),
        # articles by sound
        ("An orange cat sits on a stoop.", "A cat sits on a stoop."),
        ("A large umbrella covers a honest man.", "An umbrella covers a man."),
        ("A long hour passes.", "An hour passes."),
        ("An old university stands on a hill.", "A university stands on a hill."),
        ("a half eaten pizza is sitting on a plate", "A pizza is sitting on a plate."),
        # prepositions and particles
        ("A large yellow kite is flying over a park", "A kite is flying over a park."),
        (
            "A man is picking the ball up in a field.",
            "A man is picking the ball up.",
        ),
        ("A chef shells up an oyster.", "A chef shells up an oyster."),
        ("A woman descends down the stairs.", "A woman descends down the stairs."),
        # names of things
        (
            "A red double-decker bus drives down a road.",
            "A double-decker bus drives down a road.",
        ),
        (
            "A red fire hydrant stands on a sidewalk.",
            "A fire hydrant stands on a sidewalk.",
        ),
        ("A brown teddy bear sits on a chair.", "A teddy bear sits on a chair."),
        ("A young buck kicks a football.", "A young buck kicks a football."),
        ("A man juggles a bowling pin.", "A man juggles a bowling pin."),
        # negations and quantities
        ("A man is not holding a red ball.", "A man is not holding a ball."),
        ("The big dog never barks at old cats.", "The dog never barks at cats."),
        (
            "Several orange wedges sit on a white plate.",
            "Several orange wedges sit on a plate.",
        ),
        ("Few people ride no horses.", "Few people ride no horses."),
        # objects that the verb needs
        ("A man gives a woman a red flower.", "A man gives a woman a flower."),
        ("A man puts a big dog into an oven.", "A man puts a dog into an oven."),
        ("Many skiers are waiting to ride a lift.", "Many skiers are waiting to ride a lift."),
        ("A guy is jumping to catch a frisbee in tall grass.", "A guy is jumping."),
        (
            "The small room has a couch, a television, and a table with two stools.",
            "The room has a couch, a television, and a table.",
        ),
        ("a baby's hand is holding on to the bed", "A baby's hand is holding on to the bed."),
        # what completes "be"
        ("Two men are outdoors at night.", "Two men are outdoors at night."),
        ("A big man is outside.", "A man is outside."),
        ("A woman is sitting alone on a red bench.", "A woman is sitting on a bench."),
    ],
)  # fmt: skip
def test_modifiers_go_and_the_rest_stays(caption: str, short: str) -> None:
    assert simplify(caption) == short


@pytest.mark.parametrize(
    "caption",
    [
        "A dog paws the ground.",
        "A reporter interviews a policeman.",
        "A man chases after a woman.",
        "A child tugs a rope.",
        "A lion pounces upon a lion.",
        "A log floats in the water.",
    ],
)
def test_simple_sentences_stay_whatever_the_parser_takes_the_verb_for(
    caption: str,
) -> None:
    assert simplify(caption) == caption


@pytest.mark.parametrize(
    ("caption", "reason"),
    [
        ("A man riding a wave on a surfboard.", NO_SENTENCE),
        ("A plate topped with food next to a cup of coffee.", NO_SENTENCE),
        ("A man who is hosing down an elephant.", NO_SENTENCE),
        ("What has attracted this many birds to the plaza?", QUESTION),
        ("I am assuming that the sign means no profanity.", CLAUSE),
    ],
)
def test_what_gives_no_simple_sentence_is_refused(caption: str, reason: str) -> None:
    assert simplify(caption) == Refusal(reason)
