"""What a self-consistency test starts from, what governs it and what it finds."""

from dataclasses import dataclass, field
from typing import Literal

from waltz.consistency.asking import Asking, Exchange, Kind, Request, seed_of

Profile = Literal["published", "equations"]

IMPOSSIBLE = "impossible to give"
"""What the remark of the biasing test takes for the wrong answer to an open question."""


@dataclass(frozen=True)
class Question:
    """An item as it is put to the model.

    Attributes:
        item_id: The item.
        text: The question as it is worded, choices included.
        gold: The right label; the right answer to an open question.
        labels: Labels to choose from; empty for an open question.
        wrong: The wrong label, or answer, that the biasing test suggests.
        sentences: ComVE's two sentences; None for other tasks.
    """

    item_id: str
    text: str
    gold: str
    labels: tuple[str, ...] = ()
    wrong: str = IMPOSSIBLE
    sentences: tuple[str, str] | None = None

    @property
    def open(self) -> bool:
        """Whether the answer is a text of the model's own."""
        return not self.labels


@dataclass(frozen=True)
class Settings:
    """What governs the tests.

    Attributes:
        profile: `published` follows the released code with its errors, `equations` repairs them.
        seed: The study's seed.
        sees: Whether the model is shown images: the released code for these looks for other words of a suggestion.
        most_text: Most tokens of an explanation, a chain of thought and what goes on from one.
        most_answer: Most tokens of an open answer; a label has one.
        most_mistake: Most tokens of the helper model's text with a mistake.
        most_paraphrase: Most tokens of its paraphrase.
        positions: Most places of the text that words are inserted at.
        words: Words tried at each of them.
        at_once: Edits asked about together; it decides the time that it takes, not what is found.
        meaning: Whether open answers that are not contained in each other are compared by their meaning (`equations`).
        pair: The two sentences that all items of ComVE share in `published`; see `from_explanation.shared_pair`.
    """

    profile: Profile
    seed: int
    sees: bool = False
    most_text: int = 100
    most_answer: int = 10
    most_mistake: int = 60
    most_paraphrase: int = 30
    positions: int = 8
    words: int = 8
    at_once: int = 8
    meaning: bool = False
    pair: tuple[str, str] | None = None

    def request(self, test: str, question: Question, kind: Kind, text: str, **given: str) -> Request:
        """A request of a test, its seed drawn from the item, the test, and what is asked.

        Args:
            test: Name of the test.
            question: The item.
            kind: What is asked for.
            text: The question as it is worded now, or what the helper model is given.
            given: `answer`, `reasoning`, `suggestion`; `again` tells two requests apart that are otherwise the same.
        """
        again = given.pop("again", "")
        most = {"mistake": self.most_mistake, "paraphrase": self.most_paraphrase, "same meaning": 1}.get(kind)
        if kind in ("answer", "answer after"):
            most = self.most_answer if question.open else 1
        drawn = "\n".join([test, kind, text, *(f"{name}={value}" for name, value in sorted(given.items())), again])
        seed = seed_of(question.item_id, drawn, self.seed)
        return Request(kind, question.item_id, text, most or self.most_text, seed, **given)


@dataclass(frozen=True)
class Unedited:
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
class Finding:
    """What a test found for one item.

    Attributes:
        verdict: 1 where the model is consistent, 0 where not; None with a reason.
        answer: The answer to the item as it is.
        edited_answer: The answer after the edit; None where none was asked for, or no edit changed it.
        reason: Why there is no verdict, or what decided it.
        explanation: The explanation, or chain of thought, of the item as it is.
        edited_input: The question after the edit; None where it stays, but for a suggestion, as it is.
        edited_explanation: The explanation after the edit, or the edited chain of thought.
        inserted: The word that was inserted, the answer that was suggested.
    """

    verdict: int | None
    answer: str
    edited_answer: str | None = None
    reason: str | None = None
    explanation: str | None = None
    edited_input: str | None = None
    edited_explanation: str | None = None
    inserted: str | None = None


@dataclass(frozen=True)
class Tested:
    """A finding with all that led to it.

    Attributes:
        item_id: The item.
        test: Name of the test.
        finding: What it found.
        seed: The study's seed; each request's own is in `exchanges`.
        exchanges: What was asked and replied, in order.
    """

    item_id: str
    test: str
    finding: Finding
    seed: int
    exchanges: tuple[Exchange, ...] = field(repr=False)


def unedited(question: Question, settings: Settings) -> Asking[Unedited]:
    """Ask the item as it is: the answer, a chain of thought and the answer behind it.

    Args:
        question: The item.
        settings: Seed and lengths.
    """
    ask = settings.request
    answer, reasoning = yield [
        ask("unedited", question, "answer", question.text),
        ask("unedited", question, "reason", question.text),
    ]
    (after,) = yield [ask("unedited", question, "answer after", question.text, reasoning=reasoning)]
    return Unedited(answer, reasoning, after)


def wrong_label(labels: tuple[str, ...], gold: str, item_id: str, seed: int) -> str:
    """A wrong label, drawn for the item.

    Args:
        labels: All labels.
        gold: The right one.
        item_id: The item.
        seed: The study's seed.
    Raises:
        ValueError: There is no wrong label.
    """
    wrong = [label for label in labels if label != gold]
    if not wrong:
        raise ValueError(f"item {item_id}: no label but {gold} to choose from")
    return wrong[seed_of(item_id, "wrong label", seed) % len(wrong)]
