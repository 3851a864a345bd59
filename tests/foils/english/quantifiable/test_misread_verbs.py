"""Verbs that the parser took for nouns."""

import pytest

from waltz.foils.english.quantifiable import misread_verbs as rules
from waltz.foils.english.quantifiable import refusals


@pytest.mark.parametrize(
    ("caption", "noun", "rule"),
    [
        (
            "A baby giraffe and a baby zebra stand near a hut.",
            "stand",
            rules.may_be_verb,
        ),
        ("A nurse lifts up a cup and smiles.", "smiles", rules.may_be_verb),
        ("A cake with a slice cut out of it.", "cut", rules.may_be_verb),
        ("A man wearing blue tries to jump.", "tries", rules.may_be_verb),
        ("The men pray at the alters.", "alters", rules.is_unknown_noun),
    ],
)
def test_a_verb_is_refused(caption, noun, rule, find_refusals):
    assert find_refusals(caption)[noun] == (refusals.NO_NOUN, rule)
