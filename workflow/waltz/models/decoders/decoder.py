"""What a decoder is to the rest of waltz: a prompt goes in, with or without an image, and tokens come out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from PIL import Image

from waltz.core.text import Span
from waltz.models.registry import ModelSpec


@dataclass(frozen=True)
class Turn:
    """One turn of a conversation.

    Attributes:
        speaker: `system`, `user` or `assistant`; an assistant's turn that ends a conversation is gone on with.
        text: What is said.
        image: Whether the image stands before the text.
    """

    speaker: str
    text: str
    image: bool = False


@dataclass(frozen=True)
class Prompt:
    """A rendered prompt as a decoder reads it, the image one placeholder, however many positions it takes inside.

    Attributes:
        text: The prompt, with the placeholder of the image.
        ids: Token ids; the placeholder is one of them.
        tokens: The same as the tokenizer spells them.
        spans: Characters of the text that each token stands for; empty ranges for tokens that the tokenizer adds.
        special: Whether a token is special: added by the tokenizer, a turn marker, or the placeholder.
        image_at: Place of the placeholder in the ids; None without an image.
    """

    text: str
    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    spans: tuple[Span, ...]
    special: tuple[bool, ...]
    image_at: int | None = None


@dataclass(frozen=True)
class Sampling:
    """How tokens are drawn; without it the likeliest is taken.

    Attributes:
        temperature: Of the softmax, above 0.
        top_k: Tokens drawn from; 0 takes all.
        top_p: Share of probability drawn from; 1 takes all.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0


class Decoder(Protocol):
    """A loaded decoder.

    Attributes:
        spec: Its entry in the registry or the study.
        device: A torch device.
        sees: Whether it can be shown an image.
        masked_id: Token id that stands for a masked token in the `equations` profile.
    """

    spec: ModelSpec
    device: str
    sees: bool
    masked_id: int

    def rendered(self, turns: Sequence[Turn]) -> str:
        """A conversation by the tokenizer's own chat template, ready for the assistant to go on.

        Raises:
            UserError: The model has no chat template.
        """

    def prompt(self, text: str) -> Prompt:
        """A rendered prompt as token ids.

        Raises:
            UserError: It is longer than the model reads, or has a placeholder that the model does not know.
        """

    def image(self, image: Image.Image) -> torch.Tensor:
        """An RGB image as the vision tower takes it, on the device: float32 of shape (3, height, width)."""

    def look(self, images: torch.Tensor) -> torch.Tensor:
        """Embeddings that stand for each of a batch of prepared images: shape (batch, positions, width)."""

    def label_id(self, prompt: Prompt, label: str) -> int:
        """The token that follows the prompt where an answer begins with this label, found by tokenising both.

        Raises:
            UserError: The label does not begin with a token of its own there.
        """

    def generate(
        self,
        prompts: Sequence[Prompt],
        images: Sequence[torch.Tensor | None],
        most: int,
        sampling: Sampling | None,
        seeds: Sequence[int],
    ) -> list[tuple[int, ...]]:
        """What the model says after each prompt, the end token left out.

        An answer does not depend on what is generated beside it; each is drawn from its own seed.

        Args:
            prompts: Prompts.
            images: The prepared image of each, or None.
            most: Most tokens.
            sampling: How tokens are drawn; None takes the likeliest.
            seeds: Seed of each prompt's draws.
        """

    def said(self, ids: Sequence[int]) -> str:
        """Generated tokens as text, special ones left out."""
