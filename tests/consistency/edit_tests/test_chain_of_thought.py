"""Corrupted chains of thought: what is put to the model, and every way to a verdict, in both
profiles.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stand_ins.respondents import Scripted, by_kind, closed
from waltz import fidelity
from waltz.consistency.edit_tests import chain_of_thought
from waltz.consistency.edit_tests.steps import (
    EditTestResult,
    EditTestSettings,
    UneditedAnswers,
    run_tests_in_step,
)

QUESTION = closed("i1", "Is it A or B?")
THOUGHT = " Dogs bark. Cats do not, so it is A."  # 9 words, 36 characters
PUBLISHED, EQUATIONS = (
    EditTestSettings(fidelity.PUBLISHED, seed=0),
    EditTestSettings(fidelity.EQUATIONS, seed=0),
)
TESTS = {
    "early_answering": chain_of_thought.run_early_answering,
    "filler_tokens": chain_of_thought.run_filler_tokens,
    "adding_mistakes": chain_of_thought.run_adding_mistakes,
    "paraphrasing": chain_of_thought.run_paraphrasing,
}


def run_test(
    test: str, settings: EditTestSettings, runner: Scripted, thought: str = THOUGHT
) -> EditTestResult:
    # "X" is the answer without a chain of thought, which none of these tests may compare with
    return run_tests_in_step(
        [TESTS[test](QUESTION, UneditedAnswers("X", thought, "A"), settings)], runner
    )[0]


def replying(answer: str = "B") -> Scripted:
    return by_kind(
        answer_after_cot=answer,
        answer_after_given_cot=answer,
        cot_continued=" and on",
        add_mistake='\n\n"Dogs bark. Cats do too, so it is B. Or"',
        paraphrase=" Or so",
    )


@pytest.mark.parametrize(
    ("test", "settings", "edited"),
    [
        ("early_answering", PUBLISHED, " Dogs bark. "),
        ("early_answering", EQUATIONS, " Dogs bark. Cats"),
        ("filler_tokens", PUBLISHED, "_" * 36),
        ("filler_tokens", EQUATIONS, "... ... ... ... ... ... ... ... ..."),
        ("adding_mistakes", PUBLISHED, '\n\n"Dogs bark. Cats do too, so it is B. Or"'),
        ("adding_mistakes", EQUATIONS, "Dogs bark. Cats do too, so it is B. and on"),
        ("paraphrasing", PUBLISHED, " Or so and on"),
        ("paraphrasing", EQUATIONS, "Or so and on"),
    ],
)
def test_the_corrupted_chain_of_thought_is_what_the_answer_stands_behind(
    test: str, settings: EditTestSettings, edited: str
):
    kind = "answer-after-cot" if test == "early_answering" else "answer-after-given-cot"
    for answer in ("A", "B"):
        runner = replying(answer)
        finding = run_test(test, settings, runner)
        assert finding.verdict == (
            (answer == "A") if test == "paraphrasing" else (answer == "B")
        )
        assert (finding.answer, finding.edited_answer) == ("A", answer)
        assert (finding.explanation, finding.edited_explanation) == (THOUGHT, edited)
        last = runner.requests[-1]
        assert (last.kind, last.question, last.texts, last.max_tokens) == (
            kind,
            QUESTION,
            {"reasoning": edited},
            1,
        )


def test_what_the_helper_model_is_given_and_how_much_it_may_say():
    for settings, beginning in (
        (PUBLISHED, THOUGHT[:27]),
        (EQUATIONS, " Dogs bark. Cats do not, so it"),
    ):
        mistakes, paraphrase = replying(), replying()
        run_test("adding_mistakes", settings, mistakes)
        run_test("paraphrasing", settings, paraphrase)
        assert (mistakes.requests[0].texts, mistakes.requests[0].max_tokens) == (
            {"text": THOUGHT},
            60,
        )
        assert (paraphrase.requests[0].texts, paraphrase.requests[0].max_tokens) == (
            {"text": beginning},
            30,
        )
        assert (paraphrase.requests[1].kind, paraphrase.requests[1].max_tokens) == (
            "cot-continued",
            100,
        )


def test_the_model_goes_on_behind_a_mistake_in_equations_only():
    respondents = {settings: replying() for settings in (PUBLISHED, EQUATIONS)}
    for settings, runner in respondents.items():
        run_test("adding_mistakes", settings, runner)
    assert [request.kind for request in respondents[PUBLISHED].requests] == [
        "add-mistake",
        "answer-after-given-cot",
    ]
    assert [request.kind for request in respondents[EQUATIONS].requests] == [
        "add-mistake",
        "cot-continued",
        "answer-after-given-cot",
    ]
    assert respondents[EQUATIONS].requests[1].texts == {
        "reasoning": "Dogs bark. Cats do too, so it is B."
    }


@pytest.mark.parametrize("test", TESTS)
def test_an_empty_chain_of_thought_gives_no_verdict_in_equations(test: str):
    finding = run_test(test, EQUATIONS, by_kind(), "\n ")
    assert (finding.verdict, finding.reason) == (None, "the chain of thought is empty")
    assert run_test(test, PUBLISHED, replying(), "").verdict == (test != "paraphrasing")


def test_a_helper_model_that_fails_gives_no_verdict_in_equations():
    obedient = by_kind(add_mistake=f'"{THOUGHT.strip()}"', paraphrase=' "" ')
    finding = run_test("adding_mistakes", EQUATIONS, obedient)
    assert (finding.verdict, finding.reason) == (
        None,
        "the helper model made no mistake",
    )
    finding = run_test("paraphrasing", EQUATIONS, obedient)
    assert (finding.verdict, finding.reason) == (
        None,
        "the helper model gave no paraphrase",
    )


@pytest.mark.parametrize(
    ("mistaken", "expected"),
    [
        ("It is hot. So A. Then", "It is hot."),
        ("It is cold. So B. Then", "It is cold. So B."),
        ("It is cold. So B", "It is cold. So B"),
        ("It is cold? So A. Then", "It is cold?"),
        ('"It was 3.5 cold." So', 'It was 3.5 cold."'),
        # Cut by the limit of its tokens before it says anything else.
        (
            "It is cold. So",
            None,
        ),
        ("", None),
    ],
)
def test_a_mistake_ends_with_its_sentence(mistaken: str, expected: str | None):
    assert (
        chain_of_thought.cut_after_mistake(" It is cold. So A. Then", mistaken)
        == expected
    )


@given(st.text(alphabet="ab. \n", max_size=40))
def test_thirds_and_quarters_are_beginnings_of_the_length_that_is_meant(thought: str):
    words = thought.split()
    for settings, length in (
        (PUBLISHED, len),
        (EQUATIONS, lambda text: len(text.split())),
    ):
        third, most = (
            chain_of_thought.keep_first_third(thought, settings),
            chain_of_thought.keep_three_quarters(thought, settings),
        )
        text_length = len(thought) if settings is PUBLISHED else len(words)
        assert thought.startswith(third)
        assert thought.startswith(most)
        assert length(third) == text_length // 3
        assert length(most) == text_length - text_length // 4
    assert (
        chain_of_thought.keep_first_third(thought, EQUATIONS).split()
        == words[: len(words) // 3]
    )


@given(
    st.lists(st.sampled_from(["ab", "cd.", "ef!", "g"]), max_size=8), st.integers(0, 7)
)
def test_a_text_that_was_only_shortened_has_no_mistake_in_it(
    words: list[str], expected: int
):
    assert (
        chain_of_thought.cut_after_mistake(
            "  " + " ".join(words), "\n".join(words[:expected])
        )
        is None
    )
