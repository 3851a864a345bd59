"""Rules that every pair of a caption and a foil meets, worked by hand and on built pairs."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from waltz.foils.candidates import Refusal, build_candidate, refuse_broken_pairs
from waltz.foils.invariants import (
    CHANGED_QUOTATION,
    OTHER_CAPTION,
    TORN_WORD,
    TRUE_FOIL,
    find_broken_invariant,
    fold_case,
)
from waltz.foils.single_text import build_from_texts

BOY = "A 6-year-old boy."


@pytest.mark.parametrize(
    ("source", "caption", "foil", "reason"),
    [
        ("A dog.", "A dog.", "a dog", TRUE_FOIL),
        ("Some dogs", "A number of dogs", "Some  dogs.", TRUE_FOIL),
        (None, "A dog.", "A dog", TRUE_FOIL),
        ("A dog.", "Exactly one dog.", "The dog.", OTHER_CAPTION),
        (BOY, "Exactly one -year-old boy.", "Some boys.", TORN_WORD),
        (BOY, "Exactly one boy.", "Some year-old boys.", TORN_WORD),
        ("A well‐dressed man.", "A man.", "A well- man.", TORN_WORD),
        (BOY, "Exactly one 6-year-old boy.", "Some 6-year-old boys.", None),
        ("A six-year-old.", "A six-year-old.", "An eight-year-old.", None),
        ("A dog - a cat.", "Exactly one dog - a cat.", "Some dogs - a cat.", None),
        ('A sign: "no dogs".', 'A sign: "no dogs".', 'A sign: "no cat".', CHANGED_QUOTATION),
        ("It says “dogs”.", "It says “dogs”.", "It says “dog”.", CHANGED_QUOTATION),
        ("Reads 'a dog'", "Reads 'a dog'", "Reads 'some dogs'", CHANGED_QUOTATION),
        ("Boys' and girls' hats", "Boys' and girls' hats", "Boys' and men's hats", None),
        ('A "dog" runs.', 'A "dog" runs.', 'A "Dog" walks.', None),
    ],
)  # fmt: skip
def test_each_invariant(source, caption, foil, reason):
    known = {fold_case("the dog")}
    assert find_broken_invariant(caption, foil, source, known) == reason


def test_a_broken_pair_becomes_a_refusal_and_others_stay():
    good = build_candidate("A dog.", "A cat.", "dog", "cat", "")
    broken = build_candidate("A well-fed dog.", "A -fed cat.", "dog", "cat", "")
    outcomes = [good, Refusal("no noun"), broken]
    assert list(refuse_broken_pairs(outcomes, "A well-fed dog.")) == [
        good,
        Refusal("no noun"),
        Refusal(TORN_WORD),
    ]


SUBJECTS = (
    "a dog",
    "two well-fed dogs",
    "at least three boys",
    "only one 6-year-old girl",
    "twenty-two runners",
    "no child",
)
PLACES = (
    "on a bench",
    "between two trees",
    'near a sign that says "2 dogs"',
    "in front of a half-open door",
)
INSTRUMENTS = ("plurality", "existence", "counting-balanced", "foil-it")


@settings(max_examples=30)
@given(st.sampled_from(INSTRUMENTS), st.sampled_from(SUBJECTS), st.sampled_from(PLACES))
def test_no_built_pair_breaks_an_invariant(instrument, subject, place):
    text = f"{subject} sleeping {place}.".capitalize()
    ((_, outcomes),) = build_from_texts(instrument, [text])
    for outcome in outcomes:
        if isinstance(outcome, Refusal) or outcome.rejected is not None:
            continue
        assert outcome.caption.casefold() != outcome.foil.casefold()
        for built in (outcome.caption, outcome.foil):
            words = built.casefold().split()
            assert not any(word.startswith("-") for word in words)
            assert '"' not in built or '"2 dogs"' in built
