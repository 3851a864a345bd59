"""How a test asks a model: it yields requests and is sent replies, so that the tests of many items advance in step."""

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
    """One thing asked of a model: `render(kind, question, template, given)` is its prompt.

    Attributes:
        kind: Kind of prompt (`prompt_files.KINDS`). The generation is a label or an open answer for one of `OF_ANSWER`,
            only the continuation of the given reasoning for `cot-continued`, yes or no for `same-meaning`.
        question: What is asked; kinds that put no question take its image, if any, as their own.
        given: What the prompt needs beside it, by the names of `render`.
        most: Most tokens of the reply.
        seed: Seed of its draws, where it is sampled; it hangs on the item and the test, not on neighbours.
    """

    kind: str
    question: Question
    given: Mapping[str, str]
    most: int
    seed: int


class Runner(Protocol):
    """A model, its helper and its prompts, behind what tests ask of them."""

    def generate(self, requests: Sequence[GenerationRequest]) -> "Generations":
        """A reply to each request, which must not depend on the requests beside it, or why there can be none."""


@dataclass(frozen=True)
class Exchange:
    """A request and its reply."""

    request: GenerationRequest
    reply: str


T = TypeVar("T")

Generations = Sequence[str | UserError]

TestSteps = Generator[list[GenerationRequest], Sequence[str], T]
"""Yields requests, one or more; is sent a reply to each; returns what it found."""

FallibleTestSteps = Generator[list[GenerationRequest], Generations, T]
"""The same, sent what may be no replies."""


def merge_steps(running: Sequence[FallibleTestSteps[T]]) -> FallibleTestSteps[list[T]]:
    """Several askings as one: what all of them ask in a round is asked at once.

    Args:
        running: Askings, none of which has asked yet.
    """
    found: dict[int, T] = {}
    sent: dict[int, Generations | None] = dict.fromkeys(range(len(running)))
    while True:
        asked: dict[int, list[GenerationRequest]] = {}
        for place, replies in sent.items():
            try:
                asked[place] = next(running[place]) if replies is None else running[place].send(replies)
            except StopIteration as finished:
                found[place] = finished.value
        if not asked:
            return [found[place] for place in range(len(running))]
        replies_to_all = yield [request for requests in asked.values() for request in requests]
        sent, begin = {}, 0
        for place, requests in asked.items():
            sent[place] = replies_to_all[begin : begin + len(requests)]
            begin += len(requests)


def run_in_step(running: Sequence[FallibleTestSteps[T]], runner: Runner) -> list[T]:
    """Run askings to their end, each round's requests together.

    Args:
        running: Askings, none of which has asked yet.
        runner: Who replies.
    Raises:
        ValueError: The runner gave more or fewer replies than were asked for.
    """
    whole = merge_steps(running)
    try:
        requests = next(whole)
        while True:
            replies = runner.generate(requests)
            if len(replies) != len(requests):
                raise ValueError(f"{len(requests)} requests were given {len(replies)} replies")
            requests = whole.send(replies)
    except StopIteration as finished:
        found: list[T] = finished.value
        return found


def record_exchanges(asking: TestSteps[T]) -> FallibleTestSteps[tuple[T | UserError, tuple[Exchange, ...]]]:
    """An asking that ends where it gets no reply.

    Args:
        asking: An asking that has not asked yet.
    Returns:
        What it found, or why the first request without a reply has none; and what was asked and replied, in order.
    """
    exchanges: list[Exchange] = []
    try:
        requests = next(asking)
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
            requests = asking.send(replies)
    except StopIteration as finished:
        return finished.value, tuple(exchanges)


def draw_request_seed(item_id: str, what: str, seed: int) -> int:
    """Seed of a draw: 63 bits of a hash of the study's seed, the item and what is drawn.

    Args:
        item_id: The item.
        what: The test, and which of its draws.
        seed: The study's seed.
    """
    return rank(f"{item_id}:{what}", seed) >> 1
