"""Tests in step: each receives its own replies, whatever runs with it; when an answer stayed the
same.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stand_ins.respondents import Scripted, by_kind, closed, open_ended
from waltz.consistency.edit_tests.steps import (
    EditTestSettings,
    GenerationRequest,
    are_same_open_answers,
    check_unchanged,
    draw_request_seed,
    entail_each_other,
    merge_steps,
    record_exchanges,
    run_tests_in_step,
)
from waltz.fidelity import EQUATIONS, PUBLISHED, get_fidelity
from waltz.filters.nli import Inference


def request(text: str) -> GenerationRequest:
    return GenerationRequest("answer", closed("item", "?"), {"input": text}, 1, 0)


def asking(name: str, rounds: list[int]):
    """Asks a number of things each round and returns all replies."""
    heard = []
    for place, width in enumerate(rounds):
        heard.append((yield [request(f"{name}{place}.{at}") for at in range(width)]))
    return heard


@given(st.lists(st.lists(st.integers(1, 3), max_size=4), max_size=5))
def test_each_generator_receives_the_replies_to_its_requests(shapes: list[list[int]]):
    runner = Scripted(lambda sent: sent.texts["input"].upper())
    results = run_tests_in_step(
        [asking(f"a{place}:", rounds) for place, rounds in enumerate(shapes)], runner
    )
    assert results == [
        [
            [f"A{place}:{turn}.{at}" for at in range(width)]
            for turn, width in enumerate(rounds)
        ]
        for place, rounds in enumerate(shapes)
    ]
    assert len(runner.rounds) == max(map(len, shapes), default=0)


def test_nested_generators_run_in_the_same_round():
    runner = Scripted(lambda sent: sent.texts["input"])
    inner = merge_steps([asking("x", [1, 1]), asking("y", [2])])
    run_tests_in_step([merge_steps([inner]), merge_steps([asking("z", [1])])], runner)
    assert [[sent.texts["input"] for sent in turn] for turn in runner.rounds] == [
        ["x0.0", "y0.0", "y0.1", "z0.0"],
        ["x1.0"],
    ]


def test_a_respondent_that_loses_a_reply_is_an_error():
    class Deaf:
        def generate(self, requests):
            return []

    with pytest.raises(ValueError, match="replies: got 0, expected 1"):
        run_tests_in_step([asking("a", [1])], Deaf())


def test_recorded_exchanges_hold_requests_with_their_replies():
    ((result, exchanges),) = run_tests_in_step(
        [record_exchanges(asking("a", [2, 1]))],
        Scripted(lambda sent: sent.texts["input"] * 2),
    )
    assert result == [["a0.0a0.0", "a0.1a0.1"], ["a1.0a1.0"]]
    assert [
        (exchange.request.texts["input"], exchange.reply) for exchange in exchanges
    ] == [(text, text * 2) for text in ("a0.0", "a0.1", "a1.0")]


def test_seeds_fit_a_signed_column_and_hang_on_item_draw_and_study():
    seeds = {
        draw_request_seed(item, what, seed)
        for item in ("a", "b")
        for what in ("x", "y")
        for seed in (0, 1)
    }
    assert len(seeds) == 8
    assert all(0 <= seed < 2**63 for seed in seeds)
    # The first eight bytes of sha256("1:a:x"), halved.
    assert draw_request_seed("a", "x", 1) == 5183329651649534361


OPEN = open_ended("q1", "What is it?", "a dog")
CLOSED = closed("q2", "Is it?")


@pytest.mark.parametrize(
    ("before", "after", "published", "equations"),
    [
        # The earlier one is lower-cased, the later one is not.
        (
            "Yes",
            "Yes",
            False,
            True,
        ),
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
def test_open_answers_as_each_profile_compares_them(
    before: str, after: str, published: bool, equations: bool
):
    assert are_same_open_answers(before, after, PUBLISHED) is published
    assert are_same_open_answers(before, after, EQUATIONS) is equations


ANSWERS = st.text(alphabet="abB .'-é", max_size=8)


@given(ANSWERS, ANSWERS)
def test_in_equations_the_order_of_two_answers_is_indifferent_and_an_answer_is_itself(
    before: str, after: str
):
    assert are_same_open_answers(before, after, EQUATIONS) == are_same_open_answers(
        after, before, EQUATIONS
    )
    assert are_same_open_answers(before, before, EQUATIONS)


@pytest.mark.parametrize("profile", ["published", "equations"])
def test_labels_are_compared_without_requests(profile):
    settings = EditTestSettings(get_fidelity(profile), seed=0, meaning=True)
    runner = by_kind()
    pairs = [("A", "A"), ("A", "B"), ("a", "A")]
    results = run_tests_in_step(
        [
            check_unchanged("t", CLOSED, before, after, settings)
            for before, after in pairs
        ],
        runner,
    )
    assert results == [True, False, False]
    assert runner.requests == []


@pytest.mark.parametrize(
    ("reply", "same"), [("yes", True), (" Yes.", True), ("no", False), ("", False)]
)
def test_meanings_are_requested_where_letters_differ(reply: str, same: bool):
    runner = by_kind(same_meaning=reply)
    settings = EditTestSettings(EQUATIONS, seed=0, meaning=True)
    assert run_tests_in_step(
        [check_unchanged("t", OPEN, "a dog", "a puppy", settings)], runner
    ) == [same]
    (sent_request,) = runner.requests
    assert (sent_request.kind, sent_request.texts, sent_request.max_tokens) == (
        "same-meaning",
        {"text": "a dog", "other": "a puppy"},
        1,
    )


@pytest.mark.parametrize(
    ("settings", "after"),
    [
        (EditTestSettings(PUBLISHED, seed=0, meaning=True), "a puppy"),
        (EditTestSettings(EQUATIONS, seed=0, meaning=False), "a puppy"),
        (EditTestSettings(EQUATIONS, seed=0, meaning=True), "..."),
    ],
)
def test_meanings_are_not_requested_otherwise(settings: EditTestSettings, after: str):
    assert run_tests_in_step(
        [check_unchanged("t", OPEN, "a dog", after, settings)], by_kind()
    ) == [False]


def test_answers_mean_the_same_where_each_entails_the_other():
    yes, no = Inference(0.6, 0.3, 0.1), Inference(0.4, 0.5, 0.1)
    assert entail_each_other(yes, yes)
    assert not entail_each_other(yes, no)
    assert not entail_each_other(no, yes)
