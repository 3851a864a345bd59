"""How a test asks a model: it yields requests and is sent replies, so that the tests of many items advance in step."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

from waltz.core.sampling import rank

Kind = Literal["answer", "explain", "nonsense", "reason", "answer after", "mistake", "paraphrase", "same meaning"]
"""What is asked for:

- `answer`: the answer to `text`, a label or an open answer.
- `explain`: why `answer` is the answer to `text`, after the fact.
- `nonsense`: why the sentence `text` is against common sense.
- `reason`: a chain of thought on `text`; it goes on behind `reasoning`, which the reply does not repeat.
- `answer after`: the answer to `text` behind the chain of thought `reasoning`.
- `mistake`, `paraphrase`: `text` with a word turned into its opposite, or in other words, by the helper model.
- `same meaning`: `yes` or `no`, whether `text` and `answer` mean the same, by the helper model or by NLI.
"""


@dataclass(frozen=True)
class Request:
    """One thing asked of a model.

    Attributes:
        kind: What is asked for.
        item_id: The item, which has the image and the labels to choose from.
        text: The item's question as it is worded, or what the helper model is given.
        most: Most tokens of the reply.
        seed: Seed of its draws, where it is sampled; it hangs on the item and the test, not on neighbours.
        answer: The answer to explain, or the second of two answers to compare.
        reasoning: The chain of thought so far, put behind the prompt that asks for one as it is, blanks included.
        suggestion: An answer that the question's writer thinks is right; empty where there is no such remark.
    """

    kind: Kind
    item_id: str
    text: str
    most: int
    seed: int
    answer: str = ""
    reasoning: str = ""
    suggestion: str = ""


class Respondent(Protocol):
    """A model, its helper and its prompts, behind what tests ask of them."""

    def replies(self, requests: Sequence[Request]) -> Sequence[str]:
        """A reply to each request, which must not depend on the requests beside it."""


@dataclass(frozen=True)
class Exchange:
    """A request and its reply."""

    request: Request
    reply: str


T = TypeVar("T")

Asking = Generator[list[Request], Sequence[str], T]
"""Yields requests, one or more; is sent a reply to each; returns what it found."""


def together(running: Sequence[Asking[T]]) -> Asking[list[T]]:
    """Several askings as one: what all of them ask in a round is asked at once.

    Args:
        running: Askings, none of which has asked yet.
    """
    found: dict[int, T] = {}
    sent: dict[int, Sequence[str] | None] = dict.fromkeys(range(len(running)))
    while True:
        asked: dict[int, list[Request]] = {}
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


def in_step(running: Sequence[Asking[T]], respondent: Respondent) -> list[T]:
    """Run askings to their end, each round's requests together.

    Args:
        running: Askings, none of which has asked yet.
        respondent: Who replies.
    Raises:
        ValueError: The respondent gave more or fewer replies than were asked for.
    """
    whole = together(running)
    try:
        requests = next(whole)
        while True:
            replies = respondent.replies(requests)
            if len(replies) != len(requests):
                raise ValueError(f"{len(requests)} requests were given {len(replies)} replies")
            requests = whole.send(replies)
    except StopIteration as finished:
        found: list[T] = finished.value
        return found


def witnessed(asking: Asking[T]) -> Asking[tuple[T, tuple[Exchange, ...]]]:
    """An asking that returns, beside what it found, all that was asked and replied, in order."""
    exchanges: list[Exchange] = []
    try:
        requests = next(asking)
        while True:
            replies = yield requests
            exchanges += map(Exchange, requests, replies)
            requests = asking.send(replies)
    except StopIteration as finished:
        return finished.value, tuple(exchanges)


def seed_of(item_id: str, what: str, seed: int) -> int:
    """Seed of a draw: 63 bits of a hash of the study's seed, the item and what is drawn.

    Args:
        item_id: The item.
        what: The test, and which of its draws.
        seed: The study's seed.
    """
    return rank(f"{item_id}:{what}", seed) >> 1
