"""Answers of encoders that choose from a vocabulary, and the game that is played for the one they give."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import huggingface_hub
import numpy as np
import torch

from waltz.core.errors import UserError
from waltz.models.encoders.encoder import Encoder, States
from waltz.models.regions import ImageOrRegions
from waltz.models.registry import ModelSpec


class AnsweringEncoder(Encoder, Protocol):
    """An encoder whose `fuse` gives logits of answers, of shape (batch, answers).

    Attributes:
        answers: The answer of each output.
    """

    answers: tuple[str, ...]

    def prepare_image(self, image: ImageOrRegions) -> torch.Tensor:
        """The prepared image, or its regions."""


@dataclass(frozen=True)
class Answer:
    """What an encoder answers.

    Attributes:
        index: Its place in the vocabulary.
        text: The answer.
        probability: Its share of the softmax over the vocabulary.
    """

    index: int
    text: str
    probability: float


@torch.inference_mode()
def compute_answer_logits(
    encoder: AnsweringEncoder, asked: Sequence[tuple[str, str]], load: Callable[[str], ImageOrRegions]
) -> np.ndarray:
    """Logits of every answer to questions about images: each image is seen once, each question read alone.

    Args:
        encoder: The encoder.
        asked: Names of images with questions.
        load: From the name to what the encoder is shown, such as `regions.picture`.
    Returns:
        float64 of shape (questions, answers).
    Raises:
        UserError: A question is longer than the model reads, or an image or its regions cannot be had.
    """
    found = np.zeros((len(asked), len(encoder.answers)))
    places: dict[str, list[int]] = {}
    for place, (name, _) in enumerate(asked):
        places.setdefault(name, []).append(place)
    for name, of_image in places.items():
        seen = encoder.encode_image(encoder.prepare_image(load(name))[None])
        for place in of_image:
            found[place] = encoder.fuse(_encode_question(encoder, asked[place][1]), seen)[0].double().cpu().numpy()
    return found


@torch.inference_mode()
def answer_question(encoder: AnsweringEncoder, image: torch.Tensor, question: str) -> Answer:
    """The answer to a question about a prepared image; of equal ones the first in the vocabulary.

    Raises:
        UserError: The question is longer than the model reads.
    """
    shares = encoder.fuse(_encode_question(encoder, question), encoder.encode_image(image[None]))[0].softmax(dim=-1)
    index = int(shares.argmax())
    return Answer(index, encoder.answers[index], float(shares[index]))


def build_answer_probability(given: Answer) -> Callable[[torch.Tensor], torch.Tensor]:
    """The value of a game: the probability of the answer that was given to the unmasked input.

    Returns:
        From logits of shape (batch, answers) to probabilities of shape (batch,).
    Source:
        MM-SHAP (Parcalabescu and Frank, ACL 2023) on VQA and GQA.
    """
    return lambda logits: logits.softmax(dim=-1)[:, given.index]


def read_answer_vocabulary(spec: ModelSpec, outputs: int | None = None) -> tuple[str, ...]:
    """The answers that a model's entry names: a JSON list in a file of its own, or in one beside the weights.

    Args:
        spec: The entry.
        outputs: How many answers its head chooses from; None where the list alone says.
    Raises:
        UserError: None are named, or the list cannot be had, or is none of so many answers.
    """
    where = f"models.{spec.name}.answers: {spec.answers or 'missing'}"
    many = "" if outputs is None else f"{outputs} "
    if not spec.answers:
        raise UserError(f"{where}: name a JSON list of the {many}answers, in the order of the head's outputs")
    weights = Path(spec.weights)
    beside = (weights.parent if weights.is_file() else weights) / spec.answers
    try:
        if Path(spec.answers).is_file() or weights.exists():
            file = Path(spec.answers) if Path(spec.answers).is_file() else beside
        else:
            file = Path(huggingface_hub.hf_hub_download(spec.weights, spec.answers, revision=spec.revision))
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{where}: cannot be read ({str(error).splitlines()[0]}); name a JSON list") from None
    fits = isinstance(found, list) and all(isinstance(answer, str) for answer in found) and len(found) > 0
    if not fits or outputs not in (None, len(found)):
        raise UserError(f"{where}: is no list of the {many}answers that {spec.weights} chooses from")
    return tuple(found)


def _encode_question(encoder: AnsweringEncoder, question: str) -> States:
    return encoder.encode_text(torch.tensor([encoder.tokenize(question).ids], device=encoder.device))
