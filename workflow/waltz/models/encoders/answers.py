"""Answers of encoders that choose from a vocabulary, and the game that is played for the one they give."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch

from waltz.models.encoders.encoder import Encoder


class AnsweringEncoder(Encoder, Protocol):
    """An encoder whose `fuse` gives logits of answers, of shape (batch, answers).

    Attributes:
        answers: The answer of each output.
    """

    answers: tuple[str, ...]


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
def answer(encoder: AnsweringEncoder, image: torch.Tensor, question: str) -> Answer:
    """The answer to a question about a prepared image; of equal ones the first in the vocabulary.

    Raises:
        UserError: The question is longer than the model reads.
    """
    ids = torch.tensor([encoder.text(question).ids], device=encoder.device)
    shares = encoder.fuse(encoder.read(ids), encoder.see(image[None]))[0].softmax(dim=-1)
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
