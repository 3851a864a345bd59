"""Answers of encoders that choose from a vocabulary, and the game that is played for the one they give."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from waltz.models.encoders.encoder import Encoder, States
from waltz.models.regions import Picture


class AnsweringEncoder(Encoder, Protocol):
    """An encoder whose `fuse` gives logits of answers, of shape (batch, answers).

    Attributes:
        answers: The answer of each output.
    """

    answers: tuple[str, ...]

    def image(self, image: Picture) -> torch.Tensor:
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
def answer_logits(
    encoder: AnsweringEncoder, asked: Sequence[tuple[str, str]], load: Callable[[str], Picture]
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
        seen = encoder.see(encoder.image(load(name))[None])
        for place in of_image:
            found[place] = encoder.fuse(_read(encoder, asked[place][1]), seen)[0].double().cpu().numpy()
    return found


@torch.inference_mode()
def answer(encoder: AnsweringEncoder, image: torch.Tensor, question: str) -> Answer:
    """The answer to a question about a prepared image; of equal ones the first in the vocabulary.

    Raises:
        UserError: The question is longer than the model reads.
    """
    shares = encoder.fuse(_read(encoder, question), encoder.see(image[None]))[0].softmax(dim=-1)
    index = int(shares.argmax())
    return Answer(index, encoder.answers[index], float(shares[index]))


def outcome(given: Answer) -> Callable[[torch.Tensor], torch.Tensor]:
    """The value of a game: the probability of the answer that was given to the unmasked input.

    Returns:
        From logits of shape (batch, answers) to probabilities of shape (batch,).
    Source:
        MM-SHAP (Parcalabescu and Frank, ACL 2023) on VQA and GQA.
    """
    return lambda logits: logits.softmax(dim=-1)[:, given.index]


def _read(encoder: AnsweringEncoder, question: str) -> States:
    return encoder.read(torch.tensor([encoder.text(question).ids], device=encoder.device))
