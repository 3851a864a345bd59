"""What a self-consistency test starts from, and what it finds."""

from dataclasses import dataclass, field

from waltz.consistency.edit_tests.generation_requests import Exchange, TestSteps
from waltz.consistency.edit_tests.settings import EditTestSettings
from waltz.core.errors import UserError
from waltz.evaluation.prompting.questions import Question

UNEDITED = "unedited"


@dataclass(frozen=True)
class UneditedAnswers:
    """What the model says to the item as it is.

    Attributes:
        answer: Its answer.
        reasoning: Its chain of thought.
        answer_after: Its answer behind that.
    """

    answer: str
    reasoning: str
    answer_after: str


@dataclass(frozen=True)
class EditTestResult:
    """What a test found for one item.

    Attributes:
        verdict: 1 where the model is consistent, 0 where not; None with a reason.
        answer: The answer to the item as it is.
        edited_answer: The answer after the edit; None where none was asked for.
        reason: Why there is no verdict, or what decided it.
        explanation: The explanation, or chain of thought, of the item as it is.
        edited_input: The question after the edit; None where it stays, but for a suggestion, as it is.
        edited_explanation: The explanation after the edit, or the edited chain of thought.
        inserted: The word that was inserted, the answer that was suggested.
        flipped: Of counterfactual edits, whether the one told of changed the answer; None where there is none.
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
    """A finding with all that led to it.

    Attributes:
        item_id: The item.
        test: Name of the test.
        finding: What it found, or why it could not be asked.
        seed: The seed of the run; each request's own is in `exchanges`.
        exchanges: What was asked and replied, in order.
    """

    item_id: str
    test: str
    finding: EditTestResult | UserError
    seed: int
    exchanges: tuple[Exchange, ...] = field(repr=False)


def ask_unedited(question: Question, settings: EditTestSettings) -> TestSteps[UneditedAnswers]:
    """Ask the item as it is: the answer, a chain of thought and the answer behind it.

    Args:
        question: The item.
        settings: Seed and lengths.
    """
    ask = settings.request
    answer, reasoning = yield [ask(UNEDITED, question, "answer"), ask(UNEDITED, question, "cot")]
    (after,) = yield [ask(UNEDITED, question, "answer-after-cot", reasoning=reasoning)]
    return UneditedAnswers(answer, reasoning, after)
