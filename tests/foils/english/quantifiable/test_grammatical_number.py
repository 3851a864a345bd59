"""Determiners that disagree with a noun, and nouns without the other number."""

import pytest

from waltz.foils.english.quantifiable import grammatical_number as rules
from waltz.foils.english.quantifiable import refusals


@pytest.mark.parametrize(
    ("caption", "noun", "rule"),
    [
        ("A women outside", "women", rules.has_singular_determiner),
        ("There are two dog on a bed.", "dog", rules.has_plural_determiner),
        ("A contours of a body.", "contours", rules.has_plural_form),
    ],
)
def test_a_determiner_of_the_other_number_is_refused(
    caption, noun, rule, find_refusals
):
    assert find_refusals(caption)[noun] == (refusals.OTHER_FORM, rule)


def test_a_few_is_a_plural(find_refusals):
    assert "dogs" not in find_refusals("A few dogs are on a road.")


@pytest.mark.parametrize(
    ("caption", "noun", "rule"),
    [
        ("A street with two busses.", "busses", rules.lacks_singular),
        ("A graffiti is on a wall.", "graffiti", rules.lacks_plural),
    ],
)
def test_a_noun_without_the_other_number_is_refused(caption, noun, rule, find_refusals):
    assert find_refusals(caption)[noun] == (refusals.NO_OTHER_NUMBER, rule)
