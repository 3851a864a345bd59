"""Respondents of the self-consistency tests whose every reply is known, and questions for them."""

from collections.abc import Callable, Sequence

from waltz.consistency.edit_tests.steps import GenerationRequest
from waltz.evaluation.prompting.questions import Question, list_letters


def closed(
    item_id: str, text: str, gold: str = "A", labels: int = 2, wrong: str = "B"
) -> Question:
    """A question with labels, which is worded as its text and a full stop in `published`."""
    fields = {"text": text, "question": text, "options": ""}
    return Question(
        item_id, "bbh", "bbh", None, fields, list_letters(labels), (gold,), wrong
    )


def open_ended(item_id: str, text: str, gold: str) -> Question:
    """An open question about an image."""
    return Question(
        item_id,
        "vqa",
        "open",
        "image.png",
        {"question": text},
        (),
        (gold,),
        "impossible to give",
    )


class Scripted:
    """Reply by a function of the request, and record the requests of each round."""

    def __init__(self, reply: Callable[[GenerationRequest], str]) -> None:
        self.reply = reply
        self.rounds: list[list[GenerationRequest]] = []

    def generate(self, requests: Sequence[GenerationRequest]) -> list[str]:
        self.rounds.append(list(requests))
        return [self.reply(request) for request in requests]

    @property
    def requests(self) -> list[GenerationRequest]:
        return [request for requests in self.rounds for request in requests]


def by_kind(**replies: str | Callable[[GenerationRequest], str]) -> Scripted:
    """The same reply to each request of a kind, hyphens in the kind's name written as underscores."""

    def reply(request: GenerationRequest) -> str:
        answer = replies[request.kind.replace("-", "_")]
        return answer if isinstance(answer, str) else answer(request)

    return Scripted(reply)
