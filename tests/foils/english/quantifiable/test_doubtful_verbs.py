"""Verbs that the parser joined to another noun than their subject."""

import pytest

from waltz.foils.english.quantifiable import doubtful_verbs as rules
from waltz.foils.english.quantifiable import refusals


@pytest.mark.parametrize(
    ("caption", "noun", "rule"),
    [
        ("A group of dogs sleeps.", "group", rules.has_doubtful_verb),
        ("A boy in a kayak paddles in a river.", "boy", rules.has_doubtful_verb),
        # The caption is one phrase for the parser.
        ("Children ride bikes.", "bikes", rules.has_doubtful_verb),
        # The parser takes "bear" for a verb, and "bones" for the subject of "is".
        ("A teddy bear with a bow tie.", "teddy", rules.has_doubtful_verb),
        ("A dog that has two bones is barking.", "dog", rules.has_doubtful_verb),
        ("A rider in green rides in a park.", "rider", rules.has_doubtful_verb),
        ("A goat that has white fur bats a ball.", "goat", rules.has_doubtful_verb),
        ("A dragon breathing fire onto a car.", "fire", rules.has_doubtful_verb),
        ("A bag, whose handles are of wood.", "handles", rules.has_doubtful_verb),
        ("A tent with a rope that are odd.", "tent", rules.has_doubtful_verb),
        (
            "A group of nurses eats, and one nurse is talking.",
            "group",
            rules.has_doubtful_verb,
        ),
        ("Two gravel paths intersect on a hill.", "paths", rules.has_doubtful_verb),
    ],
)
def test_a_phrase_near_a_doubtful_verb_is_refused(caption, noun, rule, find_refusals):
    assert find_refusals(caption)[noun] == (refusals.DOUBTFUL_PARSE, rule)


@pytest.mark.parametrize(
    ("caption", "noun", "rule"),
    [
        (
            "A man wearing glasses and a red hat is opening his mouth.",
            "man",
            rules.keeps_verb,
        ),
    ],
)
def test_a_phrase_whose_verb_would_keep_its_number_is_refused(
    caption, noun, rule, find_refusals
):
    assert find_refusals(caption)[noun] == (refusals.UNCHANGED_VERB, rule)
