"""Pronouns, and the nouns that they mean."""

import re

import pytest

from waltz.foils.candidates import Candidate
from waltz.foils.english.quantifiable import pronouns as rules
from waltz.foils.english.quantifiable import refusals


@pytest.mark.parametrize(
    ("caption", "noun", "rule"),
    [
        (
            "A man throws a ball after another man kicks his foot.",
            "man",
            rules.has_unclear_pronoun,
        ),
        (
            "A crest with a lion head and a bell on its top.",
            "head",
            rules.has_unclear_pronoun,
        ),
        ("He has a nose that reaches his lip.", "nose", rules.has_unclear_pronoun),
        ("A curator shows the statues themselves.", "statues", rules.is_stressed),
        ("There is a dog with it's mouth open.", "dog", rules.has_unclear_pronoun),
    ],
)
def test_a_noun_with_an_unclear_pronoun_is_refused(caption, noun, rule, find_refusals):
    assert find_refusals(caption)[noun] == (refusals.UNCLEAR_PRONOUN, rule)


@pytest.mark.parametrize(
    ("caption", "noun", "pronoun"),
    [
        ("A panda holds a stalk and chews a part of it.", "panda", "it"),
        ("A chair stands behind the table itself.", "chair", "itself"),
        ("A dog is in a cage and its obvious that a man waits.", "dog", "its"),
    ],
)
def test_a_pronoun_that_means_something_else_stays(caption, noun, pronoun, build):
    foils = [
        outcome.foil
        for outcome in build(caption)
        if isinstance(outcome, Candidate) and outcome.caption_phrases == (noun,)
    ]
    assert foils
    assert all(pronoun in re.findall(r"\w+", foil) for foil in foils)
