"""Names and quotations that no quantifier fits."""

import pytest

from waltz.foils.english.quantifiable import names as rules
from waltz.foils.english.quantifiable import refusals


@pytest.mark.parametrize(
    ("caption", "noun", "rule"),
    [
        ('A shirt says "I love dogs" in white.', "dogs", rules.is_in_quotation_marks),
        ('A sign says "two boats" by a lake.', "boats", rules.is_in_quotation_marks),
        ('A sign reads "a well-known dog".', "dog", rules.is_in_quotation_marks),
        ("Two girls play a game on a TV.", "tv", rules.is_inscription),
    ],
)
def test_a_quotation_is_refused(caption, noun, rule, find_refusals):
    assert find_refusals(caption)[noun] == (refusals.QUOTATION, rule)


@pytest.mark.parametrize(
    ("caption", "noun", "rule"),
    [
        ("The man at Gate 5 waves to a Lufthansa.", "lufthansa", rules.is_name),
        ("Golden Gate bridge in fog", "bridge", rules.is_name),
        ("A view of the Orion constellation.", "constellation", rules.is_name),
        ("The Smiths have three dogs.", "smiths", rules.is_name),
        ("A wall with the word STOP on it.", "word", rules.precedes_label),
        ("The word 'STOP' on a wall.", "word", rules.precedes_label),
        ("The Alamo under bright clouds.", "alamo", rules.is_name),
        ("The village of Delphi lies on a hill.", "village", rules.is_name),
        ("A bus No. 12 stops.", "no", rules.abbreviates_number),
    ],
)
def test_a_name_is_refused(caption, noun, rule, find_refusals):
    assert find_refusals(caption)[noun] == (refusals.NAME, rule)
