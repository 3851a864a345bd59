"""Nouns that say what another thing is, or is like."""

import pytest

from waltz.foils.english.quantifiable import predication as rules
from waltz.foils.english.quantifiable import refusals


@pytest.mark.parametrize(
    ("caption", "noun", "rule"),
    [
        ("This is a kitchen.", "kitchen", rules.is_attribute),
        ("A door is an exit.", "door", rules.has_attribute),
        ("A way of being a father.", "father", rules.is_attribute),
        ("A girl dressed as a pirate.", "pirate", rules.follows_as),
    ],
)
def test_a_predicate_is_refused(caption, noun, rule, find_refusals):
    assert find_refusals(caption)[noun] == (refusals.PREDICATE, rule)


@pytest.mark.parametrize(
    ("caption", "noun", "rule"),
    [
        ("Moss that resembles a carpet.", "carpet", rules.is_compared),
    ],
)
def test_a_comparison_is_refused(caption, noun, rule, find_refusals):
    assert find_refusals(caption)[noun] == (refusals.COMPARED, rule)
