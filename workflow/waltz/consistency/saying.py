"""What a decoder answers to a question, how it explains that, and the prompts of both as parts (thesis 5.2)."""

from collections.abc import Mapping
from dataclasses import dataclass

from waltz.consistency.edit_tests.generation_requests import seed_of
from waltz.consistency.played import Part
from waltz.consistency.targets import target_ids
from waltz.core.errors import UserError
from waltz.evaluation.decoders import sampling_of
from waltz.evaluation.prompting.generation_cache import written
from waltz.evaluation.prompting.label_tokens import label_of
from waltz.evaluation.prompting.prompts import Asked, Voice, render
from waltz.evaluation.prompting.questions import Question
from waltz.models.decoders.decoder import Decoder, PreparedImage

POST_HOC, COT = "post-hoc", "cot"
KINDS = (POST_HOC, COT)
"""Kinds of explanation: of an answer that was given, and a chain of thought before one."""
PROMPTS = {POST_HOC: ("answer-attributed", "post-hoc"), COT: ("answer-attributed-cot", "cot-attributed")}
"""Kinds of prompt for the answer and for the explanation of each kind."""


@dataclass(frozen=True)
class Speaking:
    """A decoder, and how it is made to answer and explain.

    Attributes:
        decoder: A loaded decoder.
        voice: How it is spoken to.
        seed: Seed of what is drawn; each item and prompt has draws of its own.
        most_text: Most tokens of an explanation.
        most_answer: Most tokens of an open answer.
    """

    decoder: Decoder
    voice: Voice
    seed: int
    most_text: int = 100
    most_answer: int = 10

    @property
    def profile(self) -> str:
        """`equations` or `published`."""
        return self.voice.wording.profile


@dataclass(frozen=True)
class Spoken:
    """An answer with its explanations.

    Attributes:
        answer: The label, or the open answer, as the prompt for a post-hoc explanation repeats it.
        pairs: By kind of explanation, the parts of answer and explanation, or why there are none.
    """

    answer: str
    pairs: Mapping[str, tuple[Part, Part] | UserError]


def spoken(
    speaking: Speaking,
    question: Question,
    picture: PreparedImage | None,
    kinds: tuple[str, ...] = KINDS,
    words: str | None = None,
) -> Spoken:
    """Let a decoder answer and explain.

    Where the question has labels, `equations` explains the one that the model is taken to choose; `published` explains
    a token that the model says, while the explanation is asked of the chosen label. Of an open answer `equations`
    explains all tokens, `published` the first.

    Args:
        speaking: The decoder.
        question: What is asked.
        picture: Its prepared image; None for text.
        kinds: Kinds of explanation.
        words: The item's words where they were edited.
    Raises:
        UserError: There is no answer, so that nothing can be explained.
    """
    given = {} if words is None else {"input": words}
    first = render(PROMPTS[POST_HOC][0], question, speaking.voice, given)
    answer, targets = _answer(speaking, question, picture, first)
    pairs: dict[str, tuple[Part, Part] | UserError] = {}
    for kind in kinds:
        before, after = PROMPTS[kind]
        asked = render(before, question, speaking.voice, given)
        try:
            said = given | ({"answer": answer} if kind == POST_HOC else {})
            wanted = render(after, question, speaking.voice, said)
            told = _told(speaking, question, picture, wanted, kind, speaking.most_text)
        except UserError as error:
            pairs[kind] = error
            continue
        pairs[kind] = (_part(speaking, asked, targets), _part(speaking, wanted, told))
    return Spoken(answer, pairs)


def _answer(
    speaking: Speaking, question: Question, picture: PreparedImage | None, asked: Asked
) -> tuple[str, tuple[int, ...]]:
    """The answer as text, and the tokens of it that are explained."""
    decoder = speaking.decoder
    if question.labels:
        label, token = label_of(decoder, decoder.prompt(asked.text), picture, question, speaking.voice)
        if speaking.profile == "equations":
            return label, (token,)
        return label, _told(speaking, question, picture, asked, "answer", 1)
    said = _told(speaking, question, picture, asked, "answer", speaking.most_answer)
    text = written(decoder, said, speaking.most_answer, speaking.voice)
    return text, said if speaking.profile == "equations" else said[:1]


def _told(
    speaking: Speaking, question: Question, picture: PreparedImage | None, asked: Asked, kind: str, most: int
) -> tuple[int, ...]:
    """What is said after a prompt, drawn from the item's own seed where it is drawn."""
    decoder, profile = speaking.decoder, speaking.profile
    seed = seed_of(question.item_id, f"cc-shap\n{kind}\n{question.role or ''}", speaking.seed)
    prompt = decoder.prompt(asked.text)
    return target_ids(
        decoder,
        prompt,
        picture,
        most,
        "equations" if profile == "equations" else "published",
        sampling_of(decoder, profile),
        seed,
    )


def _part(speaking: Speaking, asked: Asked, targets: tuple[int, ...]) -> Part:
    """A prompt as a part: the released code counts the tokens of a text of its own for the tail."""
    tail = asked.text[asked.tail["start"] :] if speaking.profile == "equations" else asked.counted
    return Part(asked.text, tail, targets)
