"""Quantities that a quantifier does not replace."""

import pytest

from waltz.foils.english.quantifiable import quantities as rules
from waltz.foils.english.quantifiable import refusals


@pytest.mark.parametrize(
    ("caption", "noun", "rule"),
    [
        ("A man runs for two hours.", "hours", rules.has_unit),
    ],
)
def test_a_unit_is_refused(caption, noun, rule, find_refusals):
    assert find_refusals(caption)[noun] == (refusals.UNIT, rule)


@pytest.mark.parametrize(
    ("caption", "noun", "rule"),
    [
        ("At least two boats are in the harbour.", "boats", rules.has_superlative),
        ("Only one child is awake.", "child", rules.has_inner_quantity),
        ("Most people are wearing coats.", "people", rules.has_superlative),
        ("The latest model stands on a stage.", "model", rules.has_superlative),
        ("Few details are visible.", "details", rules.has_few),
        ("All dogs have the same colour.", "colour", rules.has_inner_quantity),
        ("A person is riding the 3rd horse.", "horse", rules.has_inner_quantity),
        ("Picture of the worlds smallest horse.", "worlds", rules.has_superlative),
        ("Men stand around three riders.", "riders", rules.has_limited_number),
        ("A girl holds a half eaten banana.", "banana", rules.has_unreplaced_word),
    ],
)
def test_a_phrase_with_another_quantity_is_refused(caption, noun, rule, find_refusals):
    assert find_refusals(caption)[noun] == (refusals.OTHER_QUANTITY, rule)


@pytest.mark.parametrize(
    ("caption", "noun", "rule"),
    [
        ("Hundreds of fans fill a stand.", "hundreds", rules.counts_others),
        ("A lamp adds a touch of color.", "touch", rules.counts_others),
        ("Hundreds of fans fill a stand.", "fans", rules.is_counted_by_noun),
        ("A group of dogs sits on a bed.", "dogs", rules.is_counted_by_noun),
        ("A total of two boats lie there.", "boats", rules.is_counted_by_noun),
        ("There are a minimum of three cups.", "cups", rules.is_counted_by_noun),
        ("Different kinds of drums stand there.", "kinds", rules.counts_others),
        (
            "Three out of four players wear helmets.",
            "players",
            rules.is_counted_by_noun,
        ),
        ("He ate two thirds of the pizzas.", "pizzas", rules.is_counted_by_noun),
        ("A trio of musicians performs.", "musicians", rules.is_counted_by_noun),
        ("A sea of people fills a square.", "people", rules.is_counted_by_noun),
    ],
)
def test_a_part_of_a_quantity_is_refused(caption, noun, rule, find_refusals):
    assert find_refusals(caption)[noun] == (refusals.PART_OF_QUANTITY, rule)
