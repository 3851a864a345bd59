"""The arguments of `Explainer.explain`, checked before a model is asked."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from waltz.attribution.custom_players import TOKEN, TextPlayers
from waltz.attribution.prompt_attribution import PROBABILITY
from waltz.consistency.cc_shap.dialogue import EXPLANATION_KINDS
from waltz.core.errors import UserError, build_name_error
from waltz.evaluation.prompting.questions import Question
from waltz.explainer.arguments import (
    ChatMessage,
    ImageInput,
    check_foil,
    check_text,
    check_text_players,
    split_messages,
)
from waltz.explainer.queries import (
    Conversation,
    DecoderQuestion,
    build_image_question,
    build_user_question,
)
from waltz.fidelity import Fidelity
from waltz.model_registry import DECODER_KINDS, ModelSpec, answers_questions

NEW_TOKENS = 40
"""Maximum number of tokens of an explanation or reply, if the caller does not give a number."""
DECODER_ARGUMENTS = (
    "question",
    "messages",
    "explanation",
    "family",
    "prompts",
    "labels",
)
"""Names of the arguments that only decoders take."""


class ExplainOptions(TypedDict, total=False):
    """Declare the types of the keyword arguments of `Explainer.explain`, which describes them."""

    foil: str | None
    question: str | None
    labels: Sequence[str] | None
    messages: Sequence[ChatMessage] | None
    explanation: str | None
    players: TextPlayers
    grid: Any
    interactions: bool
    budget: int | None
    standard_error: float | None
    value: str
    family: str | None
    prompts: str | Path | None
    max_new_tokens: int


@dataclass(frozen=True, eq=False)
class Request:
    """Hold and check the arguments of `Explainer.explain`, which describes them.

    Raises:
        TypeError: An argument has another type.
        ValueError: A number is out of range, or the choice of text players is wrong.
    """

    image: Any = None
    text: Any = None
    foil: str | None = None
    question: str | None = None
    labels: Sequence[str] | None = None
    messages: Sequence[ChatMessage] | None = None
    explanation: str | None = None
    players: TextPlayers = TOKEN
    grid: Any = None
    interactions: bool = False
    budget: int | None = None
    standard_error: float | None = None
    value: str = PROBABILITY
    family: str | None = None
    prompts: str | Path | None = None
    max_new_tokens: int = NEW_TOKENS

    def __post_init__(self) -> None:
        """Check the arguments that do not depend on the model."""
        _check_whole_number("budget", self.budget)
        _check_whole_number("max_new_tokens", self.max_new_tokens)
        _check_standard_error(self.standard_error)
        if not isinstance(self.interactions, bool):
            raise TypeError(
                f"interactions: got {type(self.interactions).__name__}, expected True or False"
            )
        # Arrays of spans become lists; a frozen dataclass is changed through object.
        object.__setattr__(self, "players", check_text_players(self.players))

    @property
    def is_list(self) -> bool:
        """Return whether several images or texts are given, so that a list of explanations is
        returned.
        """
        return _is_list(self.image) or _is_list(self.text)

    @property
    def has_several_images(self) -> bool:
        """Return whether a list of images is given."""
        return _is_list(self.image)

    @property
    def images(self) -> list[ImageInput | None]:
        """Return the images as a list; each is explained with each text."""
        return _as_list(self.image)

    def check(self, spec: ModelSpec, fidelity: Fidelity) -> None:
        """Refuse arguments that do not fit the kind of a model, or the rules of the profile.

        Raises:
            TypeError: An argument is missing, or does not fit the model.
            ValueError: A text or label is wrong, or prompts have no families in the profile.
        """
        if answers_questions(spec):
            self.read_encoder_question(spec.name)
            return
        if spec.kind not in DECODER_KINDS:
            self.list_encoder_texts(spec.name)
            return
        self.check_family(fidelity)
        if spec.kind == "text" and self.image is not None:
            raise UserError(
                f"{spec.name}: a language model sees no images; leave the image out, or name a model that sees"
            )
        self.build_queries(spec.name)

    def check_family(self, fidelity: Fidelity) -> None:
        """Refuse a family of prompts in a profile whose prompts have no families.

        Raises:
            UserError: There is such a family.
        """
        if self.family is not None and fidelity.prompts != "families":
            raise UserError(
                f"family: belongs to profile published (got {fidelity.name}); take that profile, or leave it out"
            )

    def list_encoder_texts(self, model: str) -> list[str]:
        """Return the texts that an encoder scores; the foil comes last.

        Args:
            model: Name of the model, for messages.
        Raises:
            TypeError: An argument is missing, or only decoders take it.
            ValueError: A text is empty, or the foil is the same as the text.
        """
        for name in DECODER_ARGUMENTS:
            if getattr(self, name) is not None:
                raise TypeError(
                    f"{name}: {model} is an encoder, which answers no questions; give image and text"
                )
        for name in ("image", "text"):
            if getattr(self, name) is None:
                raise TypeError(
                    f"{name}: missing; an encoder scores a text with an image"
                )
        # A foil is scored like a second text of the image.
        texts = self._check_texts()
        if self.foil is not None:
            if _is_list(self.text):
                raise TypeError(
                    "foil: belongs to one text (got a list of texts); put it into the list"
                )
            texts.append(check_foil(self.foil, texts[0]))
        return texts

    def read_encoder_question(self, model: str) -> str:
        """Return the question that an encoder answers about each image.

        Args:
            model: Name of the model, for messages.
        Raises:
            TypeError: An argument is missing, or does not belong to such an encoder.
            ValueError: The question is empty.
        """
        for name in ("text", "foil", "messages", "explanation", "prompts"):
            if getattr(self, name) is not None:
                raise TypeError(
                    f"{name}: {model} chooses an answer to a question, and scores no text; give image and question"
                )
        for name in ("image", "question"):
            if getattr(self, name) is None:
                raise TypeError(
                    f"{name}: missing; {model} answers a question about an image"
                )
        if self.labels is not None:
            _check_labels(self.labels)
        return check_text(self.question, "question")

    def build_queries(self, model: str) -> list[DecoderQuestion | Conversation]:
        """Return the questions, or the conversation, that a decoder is asked about each image.

        Args:
            model: Name of the model, for messages.
        Raises:
            TypeError: Arguments are missing, or exclude each other.
            ValueError: A text, label or kind of explanation is wrong.
        """
        self._check_question_arguments(model)
        if self.messages is not None:
            if self.explanation is not None:
                raise TypeError(
                    "explanation: messages have one reply, which is explained; ask a question for both"
                )
            bare_messages, _ = split_messages(self.messages)
            return [Conversation(bare_messages)]
        prompts = None
        if self.prompts is not None:
            prompts = Path(self.prompts)
        return [
            DecoderQuestion(question, self.explanation, self.family, prompts)
            for question in self._build_questions()
        ]

    def _build_questions(self) -> list[Question]:
        """Return the user's question as it is, or a question about the image for each text."""
        if self.question is not None:
            wording = check_text(self.question, "question")
            return [build_user_question(wording, self.labels or ())]
        if self.image is None:
            raise TypeError(
                "image: missing; a text is judged with an image; ask a question without one"
            )
        questions = []
        for text in self._check_texts():
            foil = None
            if self.foil is not None:
                foil = check_foil(self.foil, text)
            questions.append(build_image_question(text, foil))
        return questions

    def list_decoder_images(self) -> list[ImageInput | None]:
        """Return the images that a decoder is asked about; the image in the messages if no other is
        given.
        """
        # Messages may contain the image in one of their parts.
        if self.messages is not None and self.image is None:
            return [split_messages(self.messages)[1]]
        return self.images

    def _check_texts(self) -> list[str]:
        return [check_text(text, "text") for text in _as_list(self.text)]

    def _check_question_arguments(self, model: str) -> None:
        """Check that the arguments for a decoder are complete and do not exclude each other."""
        # Exactly one argument says what the decoder is asked.
        asked = [
            name
            for name in ("text", "question", "messages")
            if getattr(self, name) is not None
        ]
        if len(asked) != 1:
            raise TypeError(
                f"question: {model} is a decoder, which needs one of text, question and messages"
                f" (got {' and '.join(asked) or 'none'})"
            )
        if self.explanation is not None and self.explanation not in EXPLANATION_KINDS:
            raise build_name_error(
                "explanation",
                "kind of explanation",
                self.explanation,
                EXPLANATION_KINDS,
            )
        if self.labels is not None:
            _check_labels(self.labels)
            if asked != ["question"]:
                raise TypeError("labels: belong to a question; leave them out")
        if self.foil is not None and asked != ["text"]:
            raise TypeError("foil: belongs to a text; leave it out")


def _is_list(argument: Any) -> bool:
    """Return whether an argument holds several images or texts."""
    return isinstance(argument, list | tuple)


def _as_list(argument: Any) -> list[Any]:
    """Return an image or text, or several of them, as a list."""
    if _is_list(argument):
        return list(argument)
    return [argument]


def _check_labels(labels: object) -> None:
    if not isinstance(labels, list | tuple) or not all(
        isinstance(label, str) for label in labels
    ):
        raise TypeError(
            f"labels: got {labels!r}, expected a list of texts, such as ['A', 'B']"
        )
    if not labels:
        raise ValueError(
            "labels: no labels (got an empty list, expected at least two); leave them out"
        )


def _check_whole_number(name: str, number: object) -> None:
    if number is None:
        return
    # bool is a subclass of int.
    is_whole = isinstance(number, int | np.integer) and not isinstance(number, bool)
    if not is_whole:
        raise TypeError(f"{name}: got {type(number).__name__}, expected a whole number")
    if number < 1:  # type: ignore[operator]
        raise ValueError(f"{name}: got {number}, expected at least 1")


def _check_standard_error(standard_error: object) -> None:
    if standard_error is None:
        return
    if not isinstance(standard_error, float | int | np.floating):
        raise TypeError(
            f"standard_error: got {type(standard_error).__name__}, expected a share, such as 0.01"
        )
    if not 0 < standard_error < 1:
        raise ValueError(
            f"standard_error: got {standard_error}, expected a share between 0 and 1, such as 0.01"
        )
