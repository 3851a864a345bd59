"""Later mentions of a thing."""

import pytest

from waltz.foils.english.quantifiable import mentions as rules
from waltz.foils.english.quantifiable import refusals


@pytest.mark.parametrize(
    ("caption", "noun", "rule"),
    [
        ("Two women, one holding a cake, sit.", "women", rules.is_counted_again),
        ("Three women sit down, two of them in hats.", "women", rules.is_counted_again),
        ("Two people on a field one on the ground.", "people", rules.is_counted_again),
        ("Three girls, each with a bag, sit.", "girls", rules.is_counted_again),
        (
            "Five players wearing red shirts, two hugging in joy.",
            "players",
            rules.is_counted_again,
        ),
        ("A photo of four boys, two wearing scarves.", "boys", rules.is_counted_again),
        ("Some nurses wait while one reads.", "nurses", rules.is_counted_again),
    ],
)
def test_a_phrase_that_is_counted_again_is_refused(caption, noun, rule, find_refusals):
    assert find_refusals(caption)[noun] == (refusals.COUNTED_AGAIN, rule)


@pytest.mark.parametrize(
    ("caption", "noun", "rule"),
    [
        ("A cow eats hay. The cow is brown.", "cow", rules.is_mentioned_again),
        (
            "A bag with pills falls, spilling the pills.",
            "pills",
            rules.is_mentioned_again,
        ),
    ],
)
def test_a_phrase_that_is_mentioned_again_is_refused(
    caption, noun, rule, find_refusals
):
    assert find_refusals(caption)[noun] == (refusals.MENTIONED_AGAIN, rule)


def test_another_thing_of_the_same_noun_is_no_second_mention(find_refusals):
    caption = "A red car stands behind the blue car."
    assert "car" not in find_refusals(caption)
