"""Nouns of fixed expressions."""

import pytest

from waltz.foils.english.quantifiable import fixed_expressions as rules
from waltz.foils.english.quantifiable import refusals


@pytest.mark.parametrize(
    ("caption", "noun", "rule"),
    [
        ("Fire fighters arrive on the scene.", "scene", rules.is_time_or_scene),
        ("A dog in the midst of a crowd.", "midst", rules.is_part_of_preposition),
        ("A man and a woman are holding hands.", "hands", rules.is_bare_joint_object),
    ],
)
def test_a_fixed_expression_is_refused(caption, noun, rule, find_refusals):
    assert find_refusals(caption)[noun] == (refusals.FIXED_EXPRESSION, rule)
