"""Negations and conditions."""

import pytest

from waltz.foils.english.quantifiable import negation as rules
from waltz.foils.english.quantifiable import refusals


@pytest.mark.parametrize(
    ("caption", "noun", "rule"),
    [
        ("The man is not holding a bottle.", "bottle", rules.belongs_to_denied_verb),
        ("Nobody carries an umbrella.", "umbrella", rules.follows_negation),
        ("There is no dog on a sofa.", "sofa", rules.follows_negation),
        ("Shelves without doors on a wall", "wall", rules.follows_negation),
        ("A man may hold a bottle.", "bottle", rules.follows_negation),
        ("It is unclear if a door is open.", "door", rules.follows_negation),
        ("Its hard to find a path in the woods.", "path", rules.follows_negation),
        ("A shop shows zero people.", "people", rules.has_zero),
    ],
)
def test_a_thing_that_may_not_be_there_is_refused(caption, noun, rule, find_refusals):
    assert find_refusals(caption)[noun] == (refusals.NEGATION, rule)
