"""Settings of the self-consistency tests."""

from dataclasses import dataclass
from typing import Literal

from waltz.consistency.edit_tests.generation_requests import GenerationRequest, draw_request_seed
from waltz.evaluation.prompting.questions import Question

Profile = Literal["published", "equations"]


@dataclass(frozen=True)
class EditTestSettings:
    """Settings of the tests.

    Attributes:
        profile: `published` follows the released code with its errors, `equations` repairs them.
        seed: Seed of the run.
        most_text: Most tokens of an explanation, a chain of thought and the continuation of one.
        most_answer: Most tokens of an open answer; a label has one.
        most_mistake: Most tokens of the helper model's text with a mistake.
        most_paraphrase: Most tokens of its paraphrase.
        positions: Most Most places of the text that words are inserted at.
        words: Words tried at each of them.
        at_once: Edits in one batch; it affects only the running time.
        meaning: Whether open answers that are not contained in each other are compared by their meaning (`equations`).
        pair: The two sentences that all items of ComVE share in `published`; see `get_left_over_pair`.
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

    def request(self, test: str, question: Question, kind: str, again: str = "", **given: str) -> GenerationRequest:
        """Build a request of a test, with a seed drawn from the item, the test and the inputs of the prompt.

        Args:
            test: Name of the test.
            question: The question.
            kind: Kind of prompt.
            again: Distinguishes two requests that are otherwise equal.
            given: Other inputs of the prompt.
        """
        purpose = "\n".join(
            [test, kind, question.role or "", again, *(f"{name}={given[name]}" for name in sorted(given))]
        )
        return GenerationRequest(
            kind, question, given, self._most(kind, question), draw_request_seed(question.item_id, purpose, self.seed)
        )

    def _most(self, kind: str, question: Question) -> int:
        answer = self.most_answer if not question.labels else 1
        limits = {
            "add-mistake": self.most_mistake,
            "paraphrase": self.most_paraphrase,
            "same-meaning": 1,
            "answer": answer,
            "answer-after-cot": answer,
            "answer-after-given-cot": answer,
        }
        return limits.get(kind, self.most_text)
