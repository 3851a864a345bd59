"""Several things that are or do what one cannot."""

import pytest

from waltz.foils.english.quantifiable import collective as rules
from waltz.foils.english.quantifiable import refusals


@pytest.mark.parametrize(
    ("caption", "noun", "rule"),
    [
        ("A woman stands between two trees.", "trees", rules.follows_among),
        ("A boat passing between two ships.", "ships", rules.follows_among),
    ],
)
def test_a_noun_behind_among_is_refused(caption, noun, rule, find_refusals):
    assert find_refusals(caption)[noun] == (refusals.AMONG_SEVERAL, rule)


@pytest.mark.parametrize(
    ("caption", "noun", "rule"),
    [
        ("Two women walk arm in arm.", "women", rules.is_collective),
        ("Two men look at each other.", "men", rules.is_collective),
        ("Two cats face opposite directions.", "directions", rules.is_collective),
        ("Three men with a dog between them.", "men", rules.is_collective),
        (
            "A group with three men sitting next to each other.",
            "men",
            rules.is_collective,
        ),
        ("Girls in collared shirts hold hands.", "girls", rules.is_collective),
        ("Buildings scattered across a hill.", "buildings", rules.is_collective),
        ("People gather in a park.", "people", rules.is_collective),
        ("A shelf holds bowls of various sizes.", "bowls", rules.is_collective),
        ("A pattern of parallel stripes.", "stripes", rules.is_collective),
        ("A meadow with cows here and there.", "cows", rules.is_collective),
        ("A photo of two cats lying together.", "cats", rules.is_collective),
    ],
)
def test_a_collective_phrase_is_refused(caption, noun, rule, find_refusals):
    assert find_refusals(caption)[noun] == (refusals.JOINT, rule)
