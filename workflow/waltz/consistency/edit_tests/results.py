"""Results of the self-consistency tests and the unedited answers that they start from."""

from dataclasses import dataclass, field

from waltz.consistency.edit_tests.generation_requests import Exchange, TestSteps
from waltz.consistency.edit_tests.settings import EditTestSettings
from waltz.core.errors import UserError
from waltz.evaluation.prompting.questions import Question

UNEDITED = "unedited"


@dataclass(frozen=True)
class UneditedAnswers:
    """Answers of the model to the unedited item.

    Attributes:
        answer: Its answer.
        reasoning: Its chain of thought.
        answer_after: Its answer after the chain of thought.
    """

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
        item_id: The item.
        test: Name of the test.
        result: The result, or the error why there is none.
        seed: The seed of the run; each request's own is in `exchanges`.
        exchanges: Requests and replies, in order.
    """

    item_id: str
    test: str
    result: EditTestResult | UserError
    seed: int
    exchanges: tuple[Exchange, ...] = field(repr=False)


def ask_unedited(question: Question, settings: EditTestSettings) -> TestSteps[UneditedAnswers]:
    """Request the answer to the unedited item, a chain of thought, and the answer after it.

    Args:
        question: The item.
        settings: Seed and lengths.
    """
    ask = settings.request
    answer, reasoning = yield [ask(UNEDITED, question, "answer"), ask(UNEDITED, question, "cot")]
    (after,) = yield [ask(UNEDITED, question, "answer-after-cot", reasoning=reasoning)]
    return UneditedAnswers(answer, reasoning, after)
