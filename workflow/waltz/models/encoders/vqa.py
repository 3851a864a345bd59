"""Encoders that answer questions by choosing from a vocabulary, and the game that explains the chosen answer."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import huggingface_hub
import torch

from waltz.core.errors import UserError, get_first_line
from waltz.core.files.json_objects import parse_json
from waltz.model_registry import ModelSpec
from waltz.models.encoders.encoder import Encoder
from waltz.models.regions import ImageOrRegions


class AnsweringEncoder(Encoder, Protocol):
    """An encoder whose `fuse` gives logits of answers, of shape (batch, answers).

    Attributes:
        answers: The answer of each output.
    """

    answers: tuple[str, ...]

    def prepare_image(self, image: ImageOrRegions) -> torch.Tensor:
        """Return the prepared image, or its regions."""


@dataclass(frozen=True)
class Answer:
    """The answer of an encoder: its index in the vocabulary, its text, and its softmax probability over all answers."""

    index: int
    text: str
    probability: float


@torch.inference_mode()
def answer_question(encoder: AnsweringEncoder, image: torch.Tensor, question: str) -> Answer:
    """Return the answer to a question about a prepared image; of equal ones the first in the vocabulary.

    Raises:
        UserError: The question is too long for the model.
    """
    ids = torch.tensor([encoder.tokenize(question).ids], device=encoder.device)
    probabilities = encoder.fuse(encoder.encode_text(ids), encoder.encode_image(image[None]))[0].softmax(dim=-1)
    index = int(probabilities.argmax())
    return Answer(index, encoder.answers[index], float(probabilities[index]))


def build_answer_probability(answer: Answer) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return the value function of a game: from logits of answers to the probability of the unmasked input's answer.

    Source:
        MM-SHAP (Parcalabescu and Frank, ACL 2023) on VQA and GQA.
    """
    return lambda logits: logits.softmax(dim=-1)[:, answer.index]


def read_answer_vocabulary(spec: ModelSpec, count: int | None = None) -> tuple[str, ...]:
    """Return the answers that a model's entry names: a JSON list in a file, or in one next to the weights.

    Args:
        spec: The entry.
        count: How many answers its head chooses from; None where the list alone says.
    Raises:
        UserError: No list is named, it cannot be read, or it has another number of answers.
    """
    where = f"models.{spec.name}.answers: {spec.answers or 'missing'}"
    count_text = "" if count is None else f"{count} "
    if not spec.answers:
        raise UserError(
            f"{where}: name a JSON list of the {count_text}answers, in the order of the outputs of the head"
        )
    weights = Path(spec.weights)
    local_file = (weights.parent if weights.is_file() else weights) / spec.answers
    try:
        if Path(spec.answers).is_file() or weights.exists():
            file = Path(spec.answers) if Path(spec.answers).is_file() else local_file
        else:
            file = Path(huggingface_hub.hf_hub_download(spec.weights, spec.answers, revision=spec.revision))
        answers = parse_json(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{where}: cannot be read ({get_first_line(error)}); name a JSON list") from None
    is_valid = isinstance(answers, list) and all(isinstance(answer, str) for answer in answers) and len(answers) > 0
    if not is_valid or count not in (None, len(answers)):
        raise UserError(f"{where}: is not a list of the {count_text}answers of {spec.weights}; name a JSON list")
    return tuple(answers)
