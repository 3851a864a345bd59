"""Askings in step: each sees its own replies, whatever runs beside it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stand_ins.respondents import Scripted, closed
from waltz.consistency.edit_tests.generation_requests import (
    GenerationRequest,
    draw_request_seed,
    merge_steps,
    record_exchanges,
    run_in_step,
)


def request(text: str) -> GenerationRequest:
    return GenerationRequest("answer", closed("item", "?"), {"input": text}, 1, 0)


def asking(name: str, rounds: list[int]):
    """Asks a number of things each round and returns all replies."""
    heard = []
    for place, width in enumerate(rounds):
        heard.append((yield [request(f"{name}{place}.{at}") for at in range(width)]))
    return heard


@given(st.lists(st.lists(st.integers(1, 3), max_size=4), max_size=5))
def test_each_asking_hears_the_replies_to_what_it_asked(shapes: list[list[int]]):
    runner = Scripted(lambda asked: asked.given["input"].upper())
    found = run_in_step([asking(f"a{place}:", rounds) for place, rounds in enumerate(shapes)], runner)
    assert found == [
        [[f"A{place}:{turn}.{at}" for at in range(width)] for turn, width in enumerate(rounds)]
        for place, rounds in enumerate(shapes)
    ]
    assert len(runner.rounds) == max(map(len, shapes), default=0)


def test_askings_within_askings_are_asked_in_the_same_round():
    runner = Scripted(lambda asked: asked.given["input"])
    inner = merge_steps([asking("x", [1, 1]), asking("y", [2])])
    run_in_step([merge_steps([inner]), merge_steps([asking("z", [1])])], runner)
    assert [[asked.given["input"] for asked in turn] for turn in runner.rounds] == [
        ["x0.0", "y0.0", "y0.1", "z0.0"],
        ["x1.0"],
    ]


def test_a_respondent_that_loses_a_reply_is_an_error():
    class Deaf:
        def generate(self, requests):
            return []

    with pytest.raises(ValueError, match="replies: got 0, expected 1"):
        run_in_step([asking("a", [1])], Deaf())


def test_a_witnessed_asking_keeps_requests_with_their_replies():
    ((found, exchanges),) = run_in_step(
        [record_exchanges(asking("a", [2, 1]))], Scripted(lambda asked: asked.given["input"] * 2)
    )
    assert found == [["a0.0a0.0", "a0.1a0.1"], ["a1.0a1.0"]]
    assert [(exchange.request.given["input"], exchange.reply) for exchange in exchanges] == [
        (text, text * 2) for text in ("a0.0", "a0.1", "a1.0")
    ]


def test_seeds_fit_a_signed_column_and_hang_on_item_draw_and_study():
    seeds = {draw_request_seed(item, what, seed) for item in ("a", "b") for what in ("x", "y") for seed in (0, 1)}
    assert len(seeds) == 8
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert draw_request_seed("a", "x", 1) == 5183329651649534361  # the first eight bytes of sha256("1:a:x"), halved
