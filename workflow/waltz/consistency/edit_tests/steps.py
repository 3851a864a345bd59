"""Steps of a test: it yields requests to a model and is sent replies, so that many tests run in step."""

import re
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from waltz.core.errors import UserError
from waltz.core.sampling import rank
from waltz.evaluation.prompting.questions import Question
from waltz.fidelity import Fidelity, Profile, get_fidelity
from waltz.filters.nli import Inference

HELPER_KINDS = ("add-mistake", "paraphrase", "same-meaning")
"""Kinds of prompt that are put to the helper model."""
ANSWER_KINDS = ("answer", "answer-after-cot", "answer-after-given-cot")
"""Kinds of prompt whose reply is a label, where the question has labels."""
UNEDITED = "unedited"
WORD = re.compile(r"\w+(?:['’-]\w+)*")


@dataclass(frozen=True)
class GenerationRequest:
    """A request to a model, whose prompt is `render_prompt(kind, question, template, given)`.

    Attributes:
        kind: Kind of prompt (`prompt_files.KINDS`). The generation is a label or an open answer for one of
            `ANSWER_KINDS`, only the continuation of the given reasoning for `cot-continued`, yes or no for
            `same-meaning`.
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
    """Merge the steps of several tests, so that the requests of a round are sent at once."""
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
        what: The test, and which of its draws.
    """
    return rank(f"{item_id}:{what}", seed) >> 1


@dataclass(frozen=True)
class EditTestSettings:
    """Settings of the tests.

    Attributes:
        profile: `published` follows the released code with its errors, `equations` repairs them.
        most_text: Most tokens of an explanation, a chain of thought and the continuation of one.
        most_answer: Most tokens of an open answer; a label has one.
        most_mistake: Most tokens of the helper model's text with a mistake.
        most_paraphrase: Most tokens of its paraphrase.
        positions: Most places of the text that words are inserted at.
        words: Words tried at each of them.
        at_once: Edits in one batch; it affects only the running time.
        meaning: Whether open answers that are not contained in each other are compared by their meaning (`equations`).
        pair: The two sentences that all items of ComVE share in `published`; see `item_selection.select_shared_pair`.
    """

    profile: Profile
    seed: int
    most_text: int = 100
    most_answer: int = 10
    most_mistake: int = 60
    most_paraphrase: int = 30
    positions: int = 8
    words: int = 8
    at_once: int = 8
    meaning: bool = False
    pair: tuple[str, str] | None = None

    @property
    def fidelity(self) -> Fidelity:
        """Rules of the profile."""
        return get_fidelity(self.profile)

    def request(self, test: str, question: Question, kind: str, again: str = "", **given: str) -> GenerationRequest:
        """Build a request of a test, with a seed drawn from the item, the test and the inputs of the prompt.

        Args:
            again: Distinguishes two requests that are otherwise equal.
        """
        purpose = "\n".join(
            [test, kind, question.role or "", again, *(f"{name}={given[name]}" for name in sorted(given))]
        )
        return GenerationRequest(
            kind, question, given, self._most(kind, question), draw_request_seed(question.item_id, purpose, self.seed)
        )

    def _most(self, kind: str, question: Question) -> int:
        if kind in ANSWER_KINDS:
            return 1 if question.labels else self.most_answer
        limits = {"add-mistake": self.most_mistake, "paraphrase": self.most_paraphrase, "same-meaning": 1}
        return limits.get(kind, self.most_text)


@dataclass(frozen=True)
class UneditedAnswers:
    """Answers of the model to the unedited item: before a chain of thought, the chain, and after it."""

    answer: str
    reasoning: str
    answer_after: str


@dataclass(frozen=True)
class EditTestResult:
    """Result of a test for one item.

    Attributes:
        verdict: 1 where the model is consistent, 0 where not; None with a reason.
        answer: The answer to the unedited item.
        edited_answer: The answer after the edit; None where there is none.
        reason: Why there is no verdict, or what decided it.
        explanation: The explanation, or chain of thought, of the unedited item.
        edited_input: The question after the edit; None where only a suggestion is added.
        edited_explanation: The explanation after the edit, or the edited chain of thought.
        inserted: The word that was inserted, the answer that was suggested.
        flipped: Of counterfactual edits, whether the described edit changed the answer; None where there is none.
    """

    verdict: int | None
    answer: str
    edited_answer: str | None = None
    reason: str | None = None
    explanation: str | None = None
    edited_input: str | None = None
    edited_explanation: str | None = None
    inserted: str | None = None
    flipped: bool | None = None


@dataclass(frozen=True)
class EditTestRecord:
    """A result with the exchanges that led to it.

    Attributes:
        seed: The seed of the run; each request's own is in `exchanges`.
    """

    item_id: str
    test: str
    result: EditTestResult | UserError
    seed: int
    exchanges: tuple[Exchange, ...] = field(repr=False)


def ask_unedited(question: Question, settings: EditTestSettings) -> TestSteps[UneditedAnswers]:
    """Request the answer to the unedited item, a chain of thought, and the answer after it."""
    ask = settings.request
    answer, reasoning = yield [ask(UNEDITED, question, "answer"), ask(UNEDITED, question, "cot")]
    (after,) = yield [ask(UNEDITED, question, "answer-after-cot", reasoning=reasoning)]
    return UneditedAnswers(answer, reasoning, after)


def are_same_open_answers(before: str, after: str, profile: Profile) -> bool:
    """Return whether two open answers are the same by their spelling.

    Args:
        profile: `published` counts an answer as the same where the later one, unchanged, is part of the earlier one in
            lower case: "Yes" after "Yes" is another answer, and an empty one is the same. `equations` compares words
            without case and punctuation, and counts answers as the same where the words of one are a contiguous
            part of the other; an empty answer is the same as an empty one only.
    """
    if get_fidelity(profile).open_answers == "substring":
        return after in before.lower()
    shorter, longer = sorted((WORD.findall(before.casefold()), WORD.findall(after.casefold())), key=len)
    if not shorter:
        return not longer
    return any(longer[at : at + len(shorter)] == shorter for at in range(len(longer) - len(shorter) + 1))


def check_unchanged(
    test: str, question: Question, before: str, after: str, settings: EditTestSettings
) -> TestSteps[bool]:
    """Check whether an answer stayed the same; request a comparison of meanings where the settings say so.

    Labels are the same where they are equal. Meanings are compared in `equations` only: the released code has a
    comparison by helper models, but never calls it.
    """
    if question.labels:
        return before == after
    if are_same_open_answers(before, after, settings.profile):
        return True
    compares = settings.meaning and settings.fidelity.compares_meaning
    if not compares or not WORD.search(before) or not WORD.search(after):
        return False
    (reply,) = yield [settings.request(test, question, "same-meaning", text=before, other=after)]
    return reply.strip().casefold().startswith("yes")


def entail_each_other(forth: Inference, back: Inference) -> bool:
    """Return whether entailment is the most probable relation of two answers in both directions."""
    return all(inference.entailment > max(inference.neutral, inference.contradiction) for inference in (forth, back))
