"""Nouns or adjectives that share one determiner."""

import pytest

from waltz.foils.english.quantifiable import coordination as rules
from waltz.foils.english.quantifiable import refusals


@pytest.mark.parametrize(
    ("caption", "noun", "rule"),
    [
        (
            "The left and right picture shows a cow.",
            "picture",
            rules.has_opposite_adjectives,
        ),
        ("A young lady and man dance.", "lady", rules.begins_list_of_singulars),
        (
            "A camera, watch and lenses on a table",
            "camera",
            rules.begins_list_of_singulars,
        ),
        ("Woman and dog sitting on a bench.", "woman", rules.begins_list_of_singulars),
        ("The door, roof and walls are green.", "door", rules.begins_definite_list),
        (
            "A beaver wearing glasses, a vest, and colorful neck tie.",
            "tie",
            rules.holds_list,
        ),
        ("A robe hides her waist and ankles.", "ankles", rules.continues_possessions),
    ],
)
def test_a_shared_determiner_is_refused(caption, noun, rule, find_refusals):
    assert find_refusals(caption)[noun] == (refusals.SHARED_ARTICLE, rule)
