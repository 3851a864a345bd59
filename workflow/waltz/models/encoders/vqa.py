"""Encoders that answer questions by choosing from a vocabulary, and the game that explains the
chosen answer.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import huggingface_hub
import torch

from waltz.core.errors import UserError, build_name_error, get_first_line
from waltz.core.files.json_objects import parse_json
from waltz.model_registry import ModelSpec
from waltz.models.encoders.base import Fields
from waltz.models.encoders.encoder import Encoder
from waltz.models.networks.answer_trees import AnswerTrees, build_answer_trees
from waltz.models.regions import ImageOrRegions
from waltz.models.user_text import check_user_text


class AnsweringEncoder(Encoder, Protocol):
    """An encoder whose `fuse` gives logits of answers, of shape (batch, answers).

    Attributes:
        answers: The answer of each output.
    """

    answers: tuple[str, ...]

    def prepare_image(self, image: ImageOrRegions) -> torch.Tensor:
        """Return the prepared image, or its regions."""

    def limit_answers(self, answers: Sequence[str]) -> "AnsweringEncoder":
        """Return the encoder with other outputs: these answers.

        Raises:
            UserError: It cannot give one of them.
        """


@dataclass(frozen=True)
class EncoderAnswer:
    """The answer that an encoder chooses.

    Attributes:
        index: Index in the vocabulary.
        text: The answer.
        probability: Softmax probability among all answers.
    """

    index: int
    text: str
    probability: float


@torch.inference_mode()
def answer_question(
    encoder: AnsweringEncoder, image: torch.Tensor, question: str
) -> EncoderAnswer:
    """Return the most probable answer to a question about a prepared image.

    The first in the vocabulary is returned if several answers are equally probable.

    Raises:
        UserError: The question is too long for the model, or it has no answers to choose from.
    """
    if not encoder.answers:
        raise UserError(
            f"labels: missing; {encoder.spec.name} ranks answers of a list: name the answers to choose from, or a JSON"
            " list, see docs/how-to/adding-a-model.md#weights-and-tokens"
        )
    ids = torch.tensor([encoder.tokenize(question).ids], device=encoder.device)
    logits = encoder.fuse(encoder.encode_text(ids), encoder.encode_image(image[None]))
    probabilities = logits[0].softmax(dim=-1)
    # The first of several maxima.
    index = int(probabilities.argmax())
    return EncoderAnswer(index, encoder.answers[index], float(probabilities[index]))


def build_answer_probability(
    answer: EncoderAnswer,
) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return the function from logits of answers, (k, answers), to the value of each coalition,
    (k,).

    The value is the probability of the answer to the unmasked input.

    Source:
        MM-SHAP (Parcalabescu and Frank, ACL 2023) on VQA and GQA.
    """
    return lambda logits: logits.softmax(dim=-1)[:, answer.index]


def read_answer_vocabulary(
    spec: ModelSpec, count: int | None = None
) -> tuple[str, ...]:
    """Return the answers from the JSON list that a model's entry names by a path, or by a file name
    next to the weights.

    Args:
        spec: The entry.
        count: Number of answers that its head chooses from; None if the list alone determines it.
    Raises:
        UserError: No list is named, the list cannot be read, or it has another number of answers.
    """
    label = f"models.{spec.name}.answers: {spec.answers or 'missing'}"
    count_text = "" if count is None else f"{count} "
    if not spec.answers:
        raise UserError(
            f"{label}: name a JSON list of the {count_text}answers, in the order of the outputs of the head"
        )
    try:
        answers = parse_json(_find_answers_file(spec).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(
            f"{label}: cannot be read ({get_first_line(error)}); name a JSON list"
        ) from None
    # A list of other things, or of another length, belongs to another head.
    is_list = isinstance(answers, list) and len(answers) > 0
    is_valid = is_list and all(isinstance(answer, str) for answer in answers)
    if not is_valid or count not in (None, len(answers)):
        raise UserError(
            f"{label}: is not a list of the {count_text}answers of {spec.weights}; name a JSON list"
        )
    return tuple(answers)


def find_outputs(answers: Sequence[str], chosen: Sequence[str]) -> list[int]:
    """Return the output of each chosen answer.

    Raises:
        UserError: An answer is none of the outputs.
    """
    for answer in chosen:
        if answer not in answers:
            raise build_name_error("labels", "answer of the head", answer, answers)
    return [answers.index(answer) for answer in chosen]


def tokenize_answers(
    fields: Fields, answers: Sequence[str], start: int, end: int
) -> tuple[AnswerTrees, ...]:
    """Return answers as prefix trees for a decoder.

    Args:
        fields: Fields of a `BaseEncoder`.
        answers: The answers.
        start: Id of the token before an answer.
        end: Id of the token after it.
    Raises:
        UserError: An answer has no tokens, or too many.
    """
    label = f"models.{fields['spec'].name}.answers"
    longest = fields["max_tokens"] - 1  # one position is left for the start token
    tokenized = []
    for answer in answers:
        check_user_text(fields["tokenizer"], answer, label)
        ids = fields["tokenizer"](answer, add_special_tokens=False)["input_ids"]
        if not 0 < len(ids) <= longest:
            raise UserError(
                f"{label}: {answer!r}: unsupported length (got {len(ids)} tokens, expected 1 to {longest}); remove it"
                " from the list"
            )
        tokenized.append(ids)
    return tuple(build_answer_trees(tokenized, start, end, fields["device"]))


def _find_answers_file(spec: ModelSpec) -> Path:
    """Return the file with the answers: the named path, else next to local weights, else in their
    repository.
    """
    named = Path(spec.answers)
    if named.is_file():
        return named
    weights = Path(spec.weights)
    if weights.is_file():
        return weights.parent / spec.answers
    if weights.exists():
        return weights / spec.answers
    # The weights are a hub id: the list lies in the same repository at the same commit.
    return Path(
        huggingface_hub.hf_hub_download(
            spec.weights, spec.answers, revision=spec.revision
        )
    )
