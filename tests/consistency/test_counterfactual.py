"""Counterfactual edits: every way to a verdict, in both profiles."""

import pytest

from stand_ins.respondents import Scripted, by_kind, closed, open_ended
from waltz.consistency.edit_tests.counterfactual import contains_word, run_counterfactual_edits
from waltz.consistency.edit_tests.edits import draw_edits
from waltz.consistency.edit_tests.generation_requests import draw_request_seed, run_in_step
from waltz.consistency.edit_tests.results import EditTestResult
from waltz.consistency.edit_tests.settings import EditTestSettings
from waltz.evaluation.prompting.questions import Question

TEXT = "Birds sang loudly, and a red fish ate."
QUESTION = closed("i7", TEXT)
PROFILES = ["published", "equations"]


def found(
    question: Question, answer: str, settings: EditTestSettings, runner: Scripted, text: str = TEXT
) -> EditTestResult:
    return run_in_step([run_counterfactual_edits(question, text, answer, settings)], runner)[0]


def tried(settings: EditTestSettings) -> list[str]:
    seed = draw_request_seed("i7", "counterfactual_edits", settings.seed)
    drawn = draw_edits(TEXT, settings.positions, settings.words, seed, settings.profile)
    return [edit.text for place in drawn for edit in place]


@pytest.mark.parametrize("profile", PROFILES)
def test_who_never_changes_the_answer_is_consistent_and_explains_nothing(profile):
    runner = by_kind(answer="A")
    finding = found(QUESTION, "A", EditTestSettings(profile, seed=5), runner)
    assert (finding.verdict, finding.reason) == (1, "none of 32 edits changes the answer")  # 4 nouns and verbs by 8
    assert (finding.flipped, finding.edited_explanation) == (False, None)
    assert [asked.given["input"] for asked in runner.asked] == tried(EditTestSettings(profile, seed=5))


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(("words", "at_once"), [(1, 1), (2, 3), (8, 100)])
def test_where_no_edit_changes_the_answer_the_first_is_told_of(profile, words, at_once):
    first = tried(EditTestSettings(profile, seed=5))[0]
    settings = EditTestSettings(profile, seed=5, words=words, at_once=at_once)
    replies = iter(["yes", *["yes, sir"] * 40])  # "yes" is part of the answer before, so it is no other
    finding = found(open_ended("i7", TEXT, "yes"), "yes, sir", settings, Scripted(lambda asked: next(replies)))
    assert (finding.verdict, finding.flipped, finding.edited_input) == (1, False, first)
    assert finding.edited_answer == "yes"
    assert finding.inserted in first
    assert finding.inserted.lower() not in TEXT.lower()


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("at_once", [1, 3, 8, 100])
def test_the_first_change_decides_however_many_are_asked_at_once(profile, at_once: int):
    settings = EditTestSettings(profile, seed=5, positions=2, words=8, at_once=at_once)
    fifth = tried(settings)[4]
    later = tried(settings)[6]

    runner = Scripted(
        lambda asked: {"answer": "B" if asked.given["input"] in (fifth, later) else "A"}.get(asked.kind, fifth)
    )
    finding = found(QUESTION, "A", settings, runner)
    assert (finding.verdict, finding.answer, finding.edited_answer, finding.edited_input) == (1, "A", "B", fifth)
    assert finding.flipped is True
    assert finding.inserted is not None
    assert finding.inserted.lower() not in TEXT.lower()
    assert finding.edited_explanation == fifth  # it repeats the edited text, the inserted word with it
    (explain,) = [asked for asked in runner.asked if asked.kind == "post-hoc-edited"]
    assert (explain.given, explain.most) == ({"input": fifth, "answer": "B"}, 100)


@pytest.mark.parametrize("profile", PROFILES)
def test_who_changes_the_answer_and_does_not_say_why_is_not_consistent(profile):
    finding = found(
        QUESTION, "A", EditTestSettings(profile, seed=5), by_kind(answer="B", post_hoc_edited="I think so.")
    )
    assert (finding.verdict, finding.reason) == (0, "the explanation does not name the inserted word")
    assert finding.edited_input == tried(EditTestSettings(profile, seed=5))[0]


def test_without_a_noun_or_verb_published_is_consistent_and_equations_has_no_verdict():
    untried = found(QUESTION, "A", EditTestSettings("published", seed=0), by_kind(), "Not of it.")
    assert (untried.verdict, untried.edited_input, untried.flipped) == (1, None, None)
    finding = found(QUESTION, "A", EditTestSettings("equations", seed=0), by_kind(), "Not of it.")
    assert (finding.verdict, finding.reason) == (None, "there is no noun or verb to insert a word before")


def test_open_answers_change_by_the_comparison_of_the_profile():
    question = open_ended("i9", TEXT, "yes")
    runner = by_kind(answer="Yes", post_hoc_edited="So it is.")
    assert found(question, "Yes", EditTestSettings("published", seed=0), runner).verdict == 0  # "Yes" is not in "yes"
    assert found(question, "Yes", EditTestSettings("equations", seed=0), runner).verdict == 1
    assert runner.asked[0].most == 10


@pytest.mark.parametrize(
    ("explanation", "word", "published", "equations"),
    [
        ("a wet dog", "wet", True, True),
        ("Wet dogs", "wet", False, True),
        ("a wetter dog", "wet", True, False),
        ("in A.D. 5", "A.D.", True, True),
        ("far off", "far_off", False, False),
        ("", "wet", False, False),
    ],
)
def test_what_names_a_word(explanation: str, word: str, published: bool, equations: bool):
    assert contains_word(explanation, word, "published") is published
    assert contains_word(explanation, word, "equations") is equations
