"""Things of which each of several may have one."""

import pytest

from waltz.foils.english.quantifiable import distributive as rules
from waltz.foils.english.quantifiable import refusals


@pytest.mark.parametrize(
    ("caption", "noun", "rule"),
    [
        ("At least one dog has a ball.", "ball", rules.follows_picked_thing),
        ("One of the dogs has a ball.", "ball", rules.follows_picked_thing),
        ("A dog is in at least one of the photos.", "dog", rules.precedes_picked_image),
        (
            "There are dogs in one box, and cats in the other.",
            "box",
            rules.precedes_counterpart,
        ),
        (
            "One photo is gray and the other is green.",
            "photo",
            rules.precedes_counterpart,
        ),
    ],
)
def test_what_one_of_several_has_is_refused(caption, noun, rule, find_refusals):
    assert find_refusals(caption)[noun] == (refusals.ANOTHER_FITS, rule)


def test_the_other_of_something_else_is_no_counterpart(find_refusals):
    caption = "A dog lies on one side and a cat on the other side."
    assert "dog" not in find_refusals(caption)


@pytest.mark.parametrize(
    ("caption", "noun", "rule"),
    [
        ("Three girls wear hats.", "hats", rules.belongs_to_several),
        ("All the dogs are near a fence.", "fence", rules.follows_distributor),
        ("Every cook needs a knife.", "knife", rules.follows_distributor),
        ("All of them are wearing hats.", "hats", rules.belongs_to_several),
        (
            "A hotel with lamps in the middle of each room.",
            "lamps",
            rules.precedes_each,
        ),
        ("Everyone carries a bag.", "bag", rules.follows_distributor),
        ("Both cars have a roof.", "roof", rules.follows_distributor),
        ("A road with trees on either side.", "trees", rules.precedes_each),
        ("Two pizzas each have a box.", "pizzas", rules.precedes_each),
    ],
)
def test_what_each_of_several_may_have_is_refused(caption, noun, rule, find_refusals):
    assert find_refusals(caption)[noun] == (refusals.SHARED_OUT, rule)
