"""When an answer stayed the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stand_ins.respondents import by_kind, closed, open_ended
from waltz.consistency.edit_tests.answer_changes import are_same_open_answers, check_unchanged, entail_each_other
from waltz.consistency.edit_tests.generation_requests import run_in_step
from waltz.consistency.edit_tests.settings import EditTestSettings
from waltz.filters.nli import Inference

OPEN = open_ended("q1", "What is it?", "a dog")
CLOSED = closed("q2", "Is it?")


@pytest.mark.parametrize(
    ("before", "after", "published", "equations"),
    [
        ("Yes", "Yes", False, True),  # the earlier one is lower-cased, the later one is not
        ("Yes", "yes", True, True),
        ("a dog", "", True, False),  # the empty text is part of any
        ("", "", True, True),
        ("", "dog", False, False),
        ("a dog", "dog", True, True),
        ("dog", "a dog", False, True),  # one direction only
        ("notebook", "no", True, False),  # letters of another word
        ("Two dogs.", "two Dogs", False, True),
        ("a big dog", "a dog", False, False),
    ],
)
def test_open_answers_as_each_profile_compares_them(before: str, after: str, published: bool, equations: bool):
    assert are_same_open_answers(before, after, "published") is published
    assert are_same_open_answers(before, after, "equations") is equations


ANSWERS = st.text(alphabet="abB .'-é", max_size=8)


@given(ANSWERS, ANSWERS)
def test_in_equations_the_order_of_two_answers_is_indifferent_and_an_answer_is_itself(before: str, after: str):
    assert are_same_open_answers(before, after, "equations") == are_same_open_answers(after, before, "equations")
    assert are_same_open_answers(before, before, "equations")


@pytest.mark.parametrize("profile", ["published", "equations"])
def test_labels_are_compared_as_they_are_and_nobody_is_asked(profile):
    settings = EditTestSettings(profile, seed=0, meaning=True)
    runner = by_kind()
    pairs = [("A", "A"), ("A", "B"), ("a", "A")]
    found = run_in_step([check_unchanged("t", CLOSED, before, after, settings) for before, after in pairs], runner)
    assert found == [True, False, False]
    assert runner.asked == []


@pytest.mark.parametrize(("reply", "same"), [("yes", True), (" Yes.", True), ("no", False), ("", False)])
def test_meanings_are_asked_for_where_letters_differ(reply: str, same: bool):
    runner = by_kind(same_meaning=reply)
    settings = EditTestSettings("equations", seed=0, meaning=True)
    assert run_in_step([check_unchanged("t", OPEN, "a dog", "a puppy", settings)], runner) == [same]
    (asked,) = runner.asked
    assert (asked.kind, asked.given, asked.most) == ("same-meaning", {"text": "a dog", "other": "a puppy"}, 1)


@pytest.mark.parametrize(
    ("settings", "after"),
    [
        (EditTestSettings("published", seed=0, meaning=True), "a puppy"),
        (EditTestSettings("equations", seed=0, meaning=False), "a puppy"),
        (EditTestSettings("equations", seed=0, meaning=True), "..."),
    ],
)
def test_meanings_are_not_asked_for_otherwise(settings: EditTestSettings, after: str):
    assert run_in_step([check_unchanged("t", OPEN, "a dog", after, settings)], by_kind()) == [False]


def test_answers_mean_the_same_where_each_entails_the_other():
    yes, no = Inference(0.6, 0.3, 0.1), Inference(0.4, 0.5, 0.1)
    assert entail_each_other(yes, yes)
    assert not entail_each_other(yes, no)
    assert not entail_each_other(no, yes)
