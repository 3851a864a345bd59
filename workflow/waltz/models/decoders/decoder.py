"""What a decoder is to the rest of waltz: a prompt goes in, with or without an image, and tokens come out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from PIL import Image

from waltz.core.text_diff import Span
from waltz.models.decoders.network import Network
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
        image_position: Position of the placeholder in the ids; None without an image.
    """

    text: str
    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    spans: tuple[Span, ...]
    special: tuple[bool, ...]
    image_position: int | None = None


@dataclass(frozen=True, eq=False)
class PreparedImage:
    """An image as a decoder's vision tower takes it.

    Attributes:
        pixels: What the processor made of it, normalised, so that 0 is the mean colour: float32, of shape
            (1, 3, height, width) where the image is one tile, else as the family has it.
        extras: Other outputs of the processor, such as the sizes of tiles, by the names the network knows.
        image: The RGB image itself.
    """

    pixels: torch.Tensor
    extras: Mapping[str, torch.Tensor]
    image: Image.Image


@dataclass(frozen=True, eq=False)
class PromptLayout:
    """How a prompt lies in the network, the placeholder replaced by what stands for the image.

    Attributes:
        block: Ids that stand for the placeholder; empty without an image.
        features: Places in the block that what the vision tower saw fills, in order.
        positions: Position of each id of the expanded prompt: int64 of shape (length,), or (axes, length) where
            the network has several axes of positions.
    """

    block: tuple[int, ...]
    features: tuple[int, ...]
    positions: torch.Tensor

    def extend_positions(self, more: int) -> torch.Tensor:
        """The positions, gone on with for more tokens."""
        after = self.positions.max() + 1 + torch.arange(more, device=self.positions.device)
        return torch.cat([self.positions, after.expand(*self.positions.shape[:-1], more)], dim=-1)


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
    """A loaded decoder."""

    @property
    def spec(self) -> ModelSpec:
        """Its entry in the registry or the study."""

    @property
    def device(self) -> str:
        """A torch device."""

    @property
    def reads_images(self) -> bool:
        """Whether it can be shown an image."""

    @property
    def masked_id(self) -> int:
        """Token id that stands for a masked token in the `equations` profile."""

    @property
    def tokenizer(self) -> Any:
        """Its tokenizer, of transformers."""

    @property
    def placeholder(self) -> str:
        """Text that stands for the image in a prompt; empty for a language model."""

    @property
    def has_chat_template(self) -> bool:
        """Whether `rendered` has a template to render by."""

    @property
    def network(self) -> Network:
        """The network that reads tokens."""

    @property
    def ends(self) -> frozenset[int]:
        """Ids that end an answer."""

    @property
    def window(self) -> int:
        """Most positions that the network reads."""

    @property
    def positions_per_batch(self) -> int:
        """Most positions, those before included, in one pass."""

    def render_chat(self, turns: Sequence[Turn]) -> str:
        """A conversation by the tokenizer's own chat template, ready for the assistant to go on.

        Raises:
            UserError: The model has no chat template, or its template refuses the conversation.
        """

    def build_prompt(self, text: str) -> Prompt:
        """A rendered prompt as token ids.

        Raises:
            UserError: It is longer than the model reads, or has a placeholder that the model does not know.
        """

    def prepare_image(self, image: Image.Image) -> PreparedImage:
        """An RGB image as the vision tower takes it, on the device.

        Raises:
            UserError: The model sees no images.
        """

    def encode_image(self, picture: PreparedImage, pixels: torch.Tensor) -> torch.Tensor:
        """Embeddings of variants of one picture: from (batch, *pixels.shape) to (batch, features, width)."""

    def build_layout(self, prompt: Prompt, picture: PreparedImage | None) -> PromptLayout:
        """How a prompt with this picture lies in the network.

        Raises:
            UserError: It is longer than the network reads; or the processor expands the prompt in a way that is
                not known here, so that numbers would be wrong.
        """

    def find_label_id(self, prompt: Prompt, label: str) -> int:
        """The token that follows the prompt where an answer begins with this label, found by tokenising both.

        Raises:
            UserError: The label does not begin with a token of its own there.
        """

    def generate(
        self,
        prompts: Sequence[Prompt],
        images: Sequence[PreparedImage | None],
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

    def decode_text(self, ids: Sequence[int]) -> str:
        """Generated tokens as text, special ones left out."""
