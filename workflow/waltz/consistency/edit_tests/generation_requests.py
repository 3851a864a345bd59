"""Requests of tests to a model: a test yields requests and is sent replies, so that many tests run in step."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from waltz.core.errors import UserError
from waltz.core.sampling import rank
from waltz.evaluation.prompting.questions import Question

HELPER_KINDS = ("add-mistake", "paraphrase", "same-meaning")
"""Kinds of prompt that are put to the helper model."""

ANSWER_KINDS = ("answer", "answer-after-cot", "answer-after-given-cot")
"""Kinds of prompt whose reply is a label, where the question has labels."""


@dataclass(frozen=True)
class GenerationRequest:
    """A request to a model, whose prompt is `render_prompt(kind, question, template, given)`.

    Attributes:
        kind: Kind of prompt (`prompt_files.KINDS`). The generation is a label or an open answer for one of
            `ANSWER_KINDS`, only the
            continuation of the given reasoning for `cot-continued`, yes or no for `same-meaning`.
        question: The question; kinds without a question in their prompt use its image, if any.
        given: Other inputs of the prompt, by the names of `render_prompt`.
        most: Maximum number of tokens of the reply.
        seed: Seed of its draws, where it is sampled; it depends on the item and the test, not on other requests.
    """

    kind: str
    question: Question
    given: Mapping[str, str]
    most: int
    seed: int


class Runner(Protocol):
    """Generation of replies to requests by a model and its helper."""

    def generate(self, requests: Sequence[GenerationRequest]) -> "Generations":
        """Return a reply to each request, or the error why there is none; replies are independent of each other."""


@dataclass(frozen=True)
class Exchange:
    """A request and its reply."""

    request: GenerationRequest
    reply: str


T = TypeVar("T")

Generations = Sequence[str | UserError]

TestSteps = Generator[list[GenerationRequest], Sequence[str], T]
"""A test: yields lists of requests, is sent a reply to each request, and returns its result."""

FallibleTestSteps = Generator[list[GenerationRequest], Generations, T]
"""The same, but errors may be sent instead of replies."""


def merge_steps(running: Sequence[FallibleTestSteps[T]]) -> FallibleTestSteps[list[T]]:
    """Merge the steps of several tests, so that the requests of a round are sent at once.

    Args:
        running: Tests that have not started.
    """
    results: dict[int, T] = {}
    sent: dict[int, Generations | None] = dict.fromkeys(range(len(running)))
    while True:
        requests_by_place: dict[int, list[GenerationRequest]] = {}
        for place, replies in sent.items():
            try:
                requests_by_place[place] = next(running[place]) if replies is None else running[place].send(replies)
            except StopIteration as finished:
                results[place] = finished.value
        if not requests_by_place:
            return [results[place] for place in range(len(running))]
        replies_to_all = yield [request for requests in requests_by_place.values() for request in requests]
        sent, begin = {}, 0
        for place, requests in requests_by_place.items():
            sent[place] = replies_to_all[begin : begin + len(requests)]
            begin += len(requests)


def run_in_step(running: Sequence[FallibleTestSteps[T]], runner: Runner) -> list[T]:
    """Run tests to their end, with the requests of a round in one batch.

    Args:
        running: Tests that have not started.
        runner: Source of the replies.
    Raises:
        ValueError: The numbers of replies and requests differ.
    """
    steps = merge_steps(running)
    try:
        requests = next(steps)
        while True:
            replies = runner.generate(requests)
            if len(replies) != len(requests):
                raise ValueError(f"replies: got {len(replies)}, expected {len(requests)}")
            requests = steps.send(replies)
    except StopIteration as finished:
        results: list[T] = finished.value
        return results


def record_exchanges(test: TestSteps[T]) -> FallibleTestSteps[tuple[T | UserError, tuple[Exchange, ...]]]:
    """Run a test until it ends or a request gets no reply, and record its exchanges.

    Args:
        test: A test that has not started.
    Returns:
        The result of the test, or the error of the first request without a reply; and the exchanges, in order.
    """
    exchanges: list[Exchange] = []
    try:
        requests = next(test)
        while True:
            replies: list[str] = []
            fault: UserError | None = None
            for request, reply in zip(requests, (yield requests), strict=True):
                if isinstance(reply, UserError):
                    fault = fault or reply
                    continue
                replies.append(reply)
                exchanges.append(Exchange(request, reply))
            if fault is not None:
                return fault, tuple(exchanges)
            requests = test.send(replies)
    except StopIteration as finished:
        return finished.value, tuple(exchanges)


def draw_request_seed(item_id: str, what: str, seed: int) -> int:
    """Return the seed of a draw: 63 bits of a hash of the study's seed, the item and the purpose of the draw.

    Args:
        item_id: The item.
        what: The test, and which of its draws.
        seed: The study's seed.
    """
    return rank(f"{item_id}:{what}", seed) >> 1
