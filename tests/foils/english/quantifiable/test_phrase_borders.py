"""Hyphens, and words around a phrase that belong to it."""

import pytest

from waltz.foils.english.quantifiable import phrase_borders as rules
from waltz.foils.english.quantifiable import refusals


@pytest.mark.parametrize(
    ("caption", "noun", "rule"),
    [
        ("A 6-year-old boy kicks a ball.", "boy", rules.begins_inside_word),
        ("A 3-storey house stands by a river.", "house", rules.begins_inside_word),
        ("Twenty-two runners stand in a row.", "runners", rules.begins_inside_word),
        (
            "Exactly one para - glider can be seen in the blue sky.",
            "glider",
            rules.follows_dash,
        ),
    ],
)
def test_a_phrase_with_a_hyphen_is_refused(caption, noun, rule, find_refusals):
    assert find_refusals(caption)[noun] == (refusals.TORN_WORD, rule)


@pytest.mark.parametrize(
    ("caption", "noun", "rule"),
    [
        ("Two shirtless young boys play.", "boys", rules.follows_modifier),
        ("A photo shows a grey but painted wall.", "wall", rules.continues_adjectives),
        ("A wide-angle, large photo of a horse.", "photo", rules.continues_adjectives),
        ("Three dogs in sitting poses.", "poses", rules.follows_modifier),
        ("A girl looks inside glowing present box.", "box", rules.follows_modifier),
        (
            "The black and brown cat is scratching it's ear.",
            "ear",
            rules.follows_determiner,
        ),
    ],
)
def test_a_phrase_that_begins_earlier_is_refused(caption, noun, rule, find_refusals):
    assert find_refusals(caption)[noun] == (refusals.PART_OF_PHRASE, rule)


@pytest.mark.parametrize(
    ("caption", "noun", "rule"),
    [
        ("A red fire hydrant by a brick wall", "fire", rules.precedes_noun),
        (
            "In an eye-level, wide shot, a horse stands.",
            "level",
            rules.modifies_picture,
        ),
        (
            "A chocolate frosted doughnut on a plate.",
            "chocolate",
            rules.precedes_modified_noun,
        ),
    ],
)
def test_a_noun_before_another_noun_is_refused(caption, noun, rule, find_refusals):
    assert find_refusals(caption)[noun] == (refusals.MODIFIER, rule)
