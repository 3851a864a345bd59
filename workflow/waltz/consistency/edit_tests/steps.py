"""Steps of a test: it yields requests to a model and is sent replies, so that many tests run in
step.
"""

import re
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Protocol, TypeVar

from waltz.core.errors import UserError
from waltz.core.sampling import rank
from waltz.evaluation.prompting.decoded_texts import (
    get_generated_text,
    repeat_reasoning,
)
from waltz.evaluation.prompting.prompt_files import ANSWER_KINDS
from waltz.evaluation.prompting.questions import Question
from waltz.fidelity import Fidelity, Profile
from waltz.filters.nli import Inference

HELPER_KINDS = ("add-mistake", "paraphrase", "same-meaning")
"""Kinds of prompt that the helper model reads."""
REASONING_KINDS = ("cot", "cot-continued")
"""Kinds of prompt whose reply is a chain of thought, which a later prompt repeats."""
UNEDITED = "unedited"
"""Name of the requests about the unedited item, which belong to no single test."""
WORD = re.compile(r"\w+(?:['’-]\w+)*")
"""Pattern of a word, apostrophes and hyphens within it included."""


@dataclass(frozen=True)
class GenerationRequest:
    """Hold a request to a model, whose prompt is `render_prompt(kind, question, template, texts)`.

    Attributes:
        kind: Kind of prompt (`prompt_files.KINDS`). The reply is a label or an open answer for
            `ANSWER_KINDS`, a chain of thought for `cot`, the continuation of the given reasoning
            for `cot-continued`, yes or no for `same-meaning`.
        question: The question. A kind whose prompt contains no question uses only its image, if
            any.
        texts: Other inputs of the prompt, by the names of `render_prompt`.
        max_tokens: Maximum number of tokens of the reply.
        seed: Seed of a sampled reply; it depends on the item and the test, not on other requests.
    """

    kind: str
    question: Question
    texts: Mapping[str, str]
    max_tokens: int
    seed: int


class Runner(Protocol):
    """Declare an object that generates the replies of a model and its helper to requests."""

    def generate(self, requests: Sequence[GenerationRequest]) -> "Generations":
        """Return, for each request, a reply or the error that prevented it; replies do not depend
        on each other.

        A reply to `REASONING_KINDS` may be a `DecodedReasoning`, whose prompt later prompts repeat.
        """


@dataclass(frozen=True)
class Exchange:
    """Hold a request and its reply."""

    request: GenerationRequest
    reply: str


T = TypeVar("T")

Generations = Sequence[str | UserError]

TestSteps = Generator[list[GenerationRequest], Sequence[str], T]
"""Generator that runs a test: it yields lists of requests, is sent a reply to each request, and
returns a result.
"""

FallibleTestSteps = Generator[list[GenerationRequest], Generations, T]
"""Generator that runs a test, to which errors may be sent instead of replies."""


def merge_steps(running: Sequence[FallibleTestSteps[T]]) -> FallibleTestSteps[list[T]]:
    """Merge the steps of several tests to the steps of one test, which yields the requests of a
    round together.
    """
    results: dict[int, T] = {}
    # Replies for each test that still runs, by its index; None starts it.
    sent: dict[int, Generations | None] = dict.fromkeys(range(len(running)))
    while True:
        # Each test that still runs yields its next requests, or ends with its result.
        requests_of_tests: dict[int, list[GenerationRequest]] = {}
        for index, replies in sent.items():
            steps = running[index]
            try:
                requests_of_tests[index] = (
                    next(steps) if replies is None else steps.send(replies)
                )
            except StopIteration as finished:
                results[index] = finished.value
        if not requests_of_tests:
            return [results[index] for index in range(len(running))]

        # All requests are yielded as one list; the replies are cut into the lists of the tests
        # again.
        replies_to_all = yield list(chain.from_iterable(requests_of_tests.values()))
        sent, start = {}, 0
        for index, requests in requests_of_tests.items():
            stop = start + len(requests)
            sent[index] = replies_to_all[start:stop]
            start = stop


def run_tests_in_step(
    running: Sequence[FallibleTestSteps[T]], runner: Runner
) -> list[T]:
    """Run tests to their end, with the requests of each round in one batch, and return their
    results.

    Raises:
        ValueError: The numbers of replies and requests differ.
    """
    steps = merge_steps(running)
    try:
        requests = next(steps)
        while True:
            replies = runner.generate(requests)
            if len(replies) != len(requests):
                raise ValueError(
                    f"replies: got {len(replies)}, expected {len(requests)}"
                )
            requests = steps.send(replies)
    except StopIteration as finished:
        results: list[T] = finished.value
        return results


def record_exchanges(
    test: TestSteps[T],
) -> FallibleTestSteps[tuple[T | UserError, tuple[Exchange, ...]]]:
    """Run a test and record its exchanges; it stops where a request gets an error instead of a
    reply.

    Returns:
        The result of the test, or the error of the first request without a reply; and the
        exchanges, in order.
    """
    exchanges: list[Exchange] = []
    try:
        requests = next(test)
        while True:
            # All exchanges of a round are recorded, even if one of its requests has no reply.
            replies: list[str] = []
            fault: UserError | None = None
            for request, reply in zip(requests, (yield requests), strict=True):
                if isinstance(reply, UserError):
                    fault = fault or reply
                    continue
                replies.append(reply)
                exchanges.append(Exchange(request, get_generated_text(reply)))
            if fault is not None:
                return fault, tuple(exchanges)
            requests = test.send(replies)
    except StopIteration as finished:
        return finished.value, tuple(exchanges)


def draw_request_seed(item_id: str, purpose: str, seed: int) -> int:
    """Return the seed of a request: 63 bits of a hash of the study's seed, the item and the purpose
    of the request.

    Args:
        purpose: Text that names the test and the request within the test.
    """
    # rank has 64 bits; a seed of torch is a signed number of 64 bits, so that one bit is dropped.
    return rank(f"{item_id}:{purpose}", seed) >> 1


@dataclass(frozen=True)
class EditTestSettings:
    """Hold the settings of the tests.

    Attributes:
        fidelity: `published` follows the released code with its errors, `equations` corrects these
            errors.
        seed: Seed of edits and samples.
        max_text: Maximum number of tokens of an explanation, of a chain of thought and of its
            continuation.
        max_answer: Maximum number of tokens of an open answer; a label has one token.
        max_mistake: Maximum number of tokens of the helper model's text with a mistake.
        max_paraphrase: Maximum number of tokens of the helper model's paraphrase.
        positions: Maximum number of positions of the text at which words are inserted.
        words: Number of words that are tried at each position.
        at_once: Number of edits in one batch; it affects only the running time.
        meaning: Whether open answers are compared by their meaning if neither contains the other
            (`equations`).
        pair: The two sentences that all items of ComVE share in `published`; see
            `item_selection.select_shared_pair`.
    """

    fidelity: Fidelity
    seed: int
    max_text: int = 100
    max_answer: int = 10
    max_mistake: int = 60
    max_paraphrase: int = 30
    positions: int = 8
    words: int = 8
    at_once: int = 8
    meaning: bool = False
    pair: tuple[str, str] | None = None

    @property
    def profile(self) -> Profile:
        """Return the name of the profile, as files have it."""
        return self.fidelity.name

    def request(
        self, test: str, question: Question, kind: str, again: str = "", **texts: str
    ) -> GenerationRequest:
        """Build a request of a test, with a seed that depends on the item, the test and the inputs
        of the prompt.

        Args:
            test: Name of the test.
            kind: Kind of prompt.
            again: Text that distinguishes two requests that are otherwise equal.
            texts: Inputs of the prompt; see `GenerationRequest`.
        """
        # The seed does not depend on the order of requests, so that other tests do not change the
        # draws of this test.
        inputs = [f"{name}={texts[name]}" for name in sorted(texts)]
        purpose = "\n".join([test, kind, question.role or "", again, *inputs])
        seed = draw_request_seed(question.item_id, purpose, self.seed)
        return GenerationRequest(
            kind, question, texts, self._get_max_tokens(kind, question), seed
        )

    def _get_max_tokens(self, kind: str, question: Question) -> int:
        # A label and the yes or no of `same-meaning` are a single token.
        if kind in ANSWER_KINDS:
            return 1 if question.labels else self.max_answer
        limits = {
            "add-mistake": self.max_mistake,
            "paraphrase": self.max_paraphrase,
            "same-meaning": 1,
        }
        return limits.get(kind, self.max_text)


@dataclass(frozen=True)
class UneditedAnswers:
    """Hold the answers of the model to the unedited item.

    Attributes:
        answer: The answer without a chain of thought.
        reasoning: The chain of thought; a `DecodedReasoning` if later prompts repeat its decoded
            prompt.
        answer_after: The answer after the chain of thought.
    """

    answer: str
    reasoning: str
    answer_after: str


@dataclass(frozen=True)
class EditTestResult:
    """Hold the result of a test for one item.

    Attributes:
        verdict: 1 if the model is consistent, 0 if it is not; None with a reason.
        answer: The answer to the unedited item.
        edited_answer: The answer after the edit; None if no such answer was generated.
        reason: Why there is no verdict, or what decided the verdict.
        explanation: The explanation, or chain of thought, of the unedited item.
        edited_input: The question after the edit; None if the test does not edit the question.
        edited_explanation: The explanation after the edit, or the edited chain of thought.
        inserted: The word that was inserted, or the answer that was suggested.
        flipped: Whether the described counterfactual edit changed the answer; None without such an
            edit.
        mention: Words of the chain of thought that mention the suggestion and decide the verdict;
            None without a mention or another test.
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
    mention: str | None = None


@dataclass(frozen=True)
class EditTestOutcome:
    """Hold the result of a test for one item, with the exchanges that led to it.

    Attributes:
        item_id: Id of the item.
        test: Name of the test.
        result: The result, or the error that prevented it.
        seed: The seed of the run; the seed of each request is in `exchanges`.
        exchanges: Requests with their replies, in order.
    """

    item_id: str
    test: str
    result: EditTestResult | UserError
    seed: int
    exchanges: tuple[Exchange, ...] = field(repr=False)


def ask_unedited(
    question: Question, settings: EditTestSettings
) -> TestSteps[UneditedAnswers]:
    """Request the answer to the unedited item, a chain of thought, and the answer after it."""
    request = settings.request
    # The first two requests do not depend on each other, so that they are sent in one round.
    answer, reasoning = yield [
        request(UNEDITED, question, "answer"),
        request(UNEDITED, question, "cot"),
    ]
    (after,) = yield [
        request(UNEDITED, question, "answer-after-cot", **repeat_reasoning(reasoning))
    ]
    return UneditedAnswers(answer, reasoning, after)


def are_same_open_answers(before: str, after: str, fidelity: Fidelity) -> bool:
    """Return whether two open answers count as the same, judged by their spelling.

    Args:
        before: The earlier answer.
        after: The later answer.
        fidelity: In `published` answers are the same if the later one, as it is, occurs in the
            earlier one in lower case. "Yes" after "Yes" is therefore another answer, and an empty
            answer is always the same. `equations` compares words without case and punctuation:
            answers are the same if the words of one occur in the other in one piece. An empty
            answer is then the same only as an empty answer.
    """
    if fidelity.open_answers == "substring":
        return after in before.lower()
    # "a dog" and "it is a dog" are the same answer.
    shorter, longer = sorted(
        (WORD.findall(before.casefold()), WORD.findall(after.casefold())), key=len
    )
    if not shorter:
        return not longer
    starts = range(len(longer) - len(shorter) + 1)
    return any(longer[start : start + len(shorter)] == shorter for start in starts)


def check_unchanged(
    test: str, question: Question, before: str, after: str, settings: EditTestSettings
) -> TestSteps[bool]:
    """Check whether an answer stayed the same, if the settings say so by a request that compares
    meanings.

    Labels are the same if they are equal. Meanings are compared in `equations` only: the released
    code has a comparison by helper models, but never calls it.
    """
    if question.labels:
        return before == after
    if are_same_open_answers(before, after, settings.fidelity):
        return True
    if not (settings.meaning and settings.fidelity.compares_meaning):
        return False
    # An answer without words has no meaning to compare.
    has_words = WORD.search(before) and WORD.search(after)
    if not has_words:
        return False
    (reply,) = yield [
        settings.request(test, question, "same-meaning", text=before, other=after)
    ]
    return reply.strip().casefold().startswith("yes")


def entail_each_other(forth: Inference, back: Inference) -> bool:
    """Return whether entailment is the most probable relation of two answers, in both directions."""
    return _is_entailment(forth) and _is_entailment(back)


def _is_entailment(inference: Inference) -> bool:
    return inference.entailment > max(inference.neutral, inference.contradiction)
