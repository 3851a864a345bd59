"""Decoders: prompts, with or without an image, in; tokens out."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import jinja2
import torch
from PIL import Image

from waltz.core.errors import UserError
from waltz.core.text_diff import Span
from waltz.model_registry import ModelSpec
from waltz.models.decoders.network import Network

if TYPE_CHECKING:
    from waltz.models.decoders.server import Server

UNDERSCORE = "_"
"""Masked token of a decoder in the published code."""
SPACE = "▁"
"""A token of one space, as SentencePiece spells it."""


@dataclass(frozen=True)
class Turn:
    """One turn of a conversation.

    Attributes:
        speaker: `system`, `user` or `assistant`; an assistant's turn at the end is continued by the model.
        text: The text of the turn.
        image: Whether the image precedes the text.
    """

    speaker: str
    text: str
    image: bool = False


@dataclass(frozen=True)
class Prompt:
    """A rendered prompt; the image is one placeholder, however many positions it takes in the network.

    Attributes:
        text: The prompt, with the placeholder of the image.
        ids: Token ids, including that of the placeholder.
        tokens: The same as the tokenizer spells them.
        spans: Characters of the text that each token stands for; empty ranges for tokens that the tokenizer adds, such
            as the space that those of Llama and Mistral put before a text and after a special token.
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
        pixels: The processed image, normalised, so that 0 is the mean colour: float32, of shape
            (1, 3, height, width) where the image is one tile, else as the family has it.
        extras: Other outputs of the processor, such as the sizes of tiles, by the names the network knows.
        image: The RGB image itself.
    """

    pixels: torch.Tensor
    extras: Mapping[str, torch.Tensor]
    image: Image.Image


@dataclass(frozen=True, eq=False)
class PromptLayout:
    """Token ids and positions of a prompt in the network, with the placeholder replaced by the image's positions.

    Attributes:
        block: Ids that stand for the placeholder; empty without an image.
        features: Positions in the block that the embeddings of the image fill, in order.
        positions: Position of each id of the expanded prompt: int64 of shape (length,), or (axes, length) where
            the network has several axes of positions.
        inputs: Further arguments of the forward pass of a network that reads images itself.
    """

    block: tuple[int, ...]
    features: tuple[int, ...]
    positions: torch.Tensor
    inputs: Mapping[str, torch.Tensor] = field(default_factory=dict)

    def extend_positions(self, count: int) -> torch.Tensor:
        """Return the positions of the prompt and of further tokens."""
        after = self.positions.max() + 1 + torch.arange(count, device=self.positions.device)
        return torch.cat([self.positions, after.expand(*self.positions.shape[:-1], count)], dim=-1)


@dataclass(frozen=True)
class Sampling:
    """Sampling of tokens; without it the most likely token is taken.

    Attributes:
        temperature: Of the softmax, above 0.
        top_k: Tokens drawn from; 0 takes all.
        top_p: Share of probability drawn from; 1 takes all.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0


@dataclass(frozen=True, eq=False)
class Decoder(ABC):
    """A loaded decoder, or one behind a server.

    Attributes:
        spec: Entry of the model in the registry or the study.
        device: Name of the torch device.
        network: Network that reads tokens.
        tokenizer: Fast tokenizer of transformers.
        ends: Ids that end a generation.
        window: Maximum number of positions that the network reads.
        placeholder: Text that stands for the image in a prompt; empty for a language model.
        positions_per_batch: Maximum number of positions in one pass, cached ones included.
    """

    spec: ModelSpec
    device: str
    network: Network
    tokenizer: Any
    ends: frozenset[int]
    window: int
    placeholder: str = ""
    positions_per_batch: int = 4096

    @property
    def server(self) -> "Server | None":
        """The server that reads and generates in the place of the network; None where the network is loaded."""
        return None

    @property
    def reads_images(self) -> bool:
        """Whether the decoder reads images."""
        return bool(self.placeholder)

    @property
    def forward_pass(self) -> str:
        """How the network is read, in words."""
        return "beginnings are read once" if self.network.reuses_prefixes else "whole rows"

    @property
    def chat_renderer(self) -> Any:
        """Tokenizer or processor that renders conversations."""
        return self.tokenizer

    @property
    def has_chat_template(self) -> bool:
        """Whether the model has a chat template."""
        return bool(self.chat_renderer.chat_template)

    @property
    def masked_id(self) -> int:
        """Token id of masked tokens in `equations`: the entry's, the mask token, an underscore, or the unknown token.

        Raises:
            UserError: None of them is a token, or it ends an answer.
        """
        tokenizer, masked_token = self.tokenizer, self.spec.masked_token
        for token in [masked_token] if masked_token else [tokenizer.mask_token, UNDERSCORE, tokenizer.unk_token]:
            token_id: int | None = tokenizer.convert_tokens_to_ids(token) if token else None
            is_known = token_id != tokenizer.unk_token_id or token == tokenizer.unk_token
            if token_id is not None and is_known and token_id != tokenizer.eos_token_id:
                return token_id
        raise UserError(
            f"models.{self.spec.name}.masked_token: {masked_token!r} is no token that can stand for a masked one;"
            " name one"
        )

    @property
    def published_masked_id(self) -> int:
        """Token id of masked tokens in `published`."""
        return self.build_prompt(UNDERSCORE).ids[-1]

    def count_fixed_ids(self, prompt: Prompt) -> int:
        """Return the number of first ids that the published code neither masks nor counts for the grid of patches."""
        return 0

    def render_chat(self, turns: Sequence[Turn]) -> str:
        """Render a conversation with the model's own chat template, ready for the assistant to continue.

        An assistant's last turn is appended unchanged after the template's opening of a turn, because templates strip
        whitespace.

        Raises:
            UserError: There is no chat template, or it refuses the conversation, as some do with a system's turn.
        """
        continues = turns[-1].speaker == "assistant"
        messages = [
            {"role": turn.speaker, "content": self._build_message_content(turn)}
            for turn in (turns[:-1] if continues else turns)
        ]
        return self.render_messages(messages) + (turns[-1].text if continues else "")

    def render_messages(self, messages: Sequence[Mapping[str, Any]]) -> str:
        """Render messages of transformers with the model's own chat template, ready for the assistant to reply.

        Raises:
            UserError: There is no chat template, or it refuses the conversation, as some do with a system's turn.
        """
        where = f"models.{self.spec.name}"
        if not self.has_chat_template:
            raise UserError(
                f"{where}: {self.spec.weights} has no chat template; name one under chat_template, or use a profile"
                " with its own turn markers"
            )
        try:
            rendered: str = self.chat_renderer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        except (jinja2.TemplateError, TypeError, ValueError) as error:
            raise UserError(
                f"{where}: the chat template of {self.spec.weights} refuses the conversation: {error}"
            ) from error
        return rendered

    def _build_message_content(self, turn: Turn) -> str | list[dict[str, str]]:
        """Return a turn as the chat template wants it: those of tokenizers take one text."""
        return turn.text

    def build_prompt(self, text: str) -> Prompt:
        """Return a rendered prompt as token ids; a start token that the text already contains is not added again.

        Raises:
            UserError: The prompt is longer than the model reads or empty, or has several placeholders.
        """
        tokenizer = self.tokenizer
        has_start = bool(tokenizer.bos_token) and text.startswith(tokenizer.bos_token)
        encoding = tokenizer(
            text,
            add_special_tokens=not has_start,
            return_offsets_mapping=True,
            return_special_tokens_mask=True,
            verbose=False,
        )
        ids, offsets, is_added = encoding["input_ids"], encoding["offset_mapping"], encoding["special_tokens_mask"]
        while ids and ids[-1] == tokenizer.eos_token_id and offsets[-1][0] == offsets[-1][1]:
            ids, offsets, is_added = ids[:-1], offsets[:-1], is_added[:-1]
        if not 0 < len(ids) <= self.window:
            raise UserError(
                f"models.{self.spec.name}: a prompt of {len(ids)} tokens, 1 to {self.window} are read: {text[:60]!r}..."
            )
        image_id = tokenizer.convert_tokens_to_ids(self.placeholder) if self.placeholder else None
        images = [position for position, token in enumerate(ids) if token == image_id]
        if len(images) > 1:
            raise UserError(
                f"models.{self.spec.name}: {len(images)} images in one prompt, at most one is shown: {text[:60]!r}..."
            )
        special_ids = _get_special_ids(tokenizer)
        tokens = tuple(tokenizer.convert_ids_to_tokens(ids))
        return Prompt(
            text,
            tuple(ids),
            tokens,
            _build_spans(tokens, offsets),
            tuple(bool(is_special) or token in special_ids for is_special, token in zip(is_added, ids, strict=True)),
            images[0] if images else None,
        )

    def find_label_id(self, prompt: Prompt, label: str) -> int:
        """Return the first token of a label (with the space before it) after a prompt, tokenized together.

        Raises:
            UserError: The label begins within the prompt's last token, with a special or unknown token, or is empty.
        """
        both = self.build_prompt(prompt.text + label)
        position = len(prompt.ids)
        if (
            both.ids[:position] != prompt.ids
            or len(both.ids) == position
            or both.special[position]
            or both.ids[position] == self.tokenizer.unk_token_id
        ):
            raise UserError(
                f"models.{self.spec.name}: after {prompt.text[-20:]!r}, the label {label!r} does not begin with a token"
                " of its own; choose another label, or end the prompt elsewhere"
            )
        return both.ids[position]

    @abstractmethod
    def prepare_image(self, image: Image.Image) -> PreparedImage:
        """Return an RGB image as the vision tower takes it, on the device.

        Raises:
            UserError: The model reads no images.
        """

    @abstractmethod
    def encode_image(self, picture: PreparedImage, pixels: torch.Tensor) -> torch.Tensor:
        """Return embeddings of variants of one image: from (batch, *pixels.shape) to (batch, features, width)."""

    @abstractmethod
    def build_layout(self, prompt: Prompt, picture: PreparedImage | None) -> PromptLayout:
        """Return the ids and positions of a prompt with this image in the network.

        Raises:
            UserError: It is longer than the network reads; or the processor expands the prompt in a way that is
                not known here, so that numbers would be wrong.
        """

    @abstractmethod
    def generate(
        self,
        prompts: Sequence[Prompt],
        images: Sequence[PreparedImage | None],
        max_tokens: int,
        sampling: Sampling | None,
        seeds: Sequence[int],
    ) -> list[tuple[int, ...]]:
        """Return the tokens that the model generates after each prompt; see `continuations.generate_texts`."""

    def decode_text(self, ids: Sequence[int]) -> str:
        """Return generated tokens as text, without special tokens."""
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=True))


def expand_prompt(prompt: Prompt, layout: PromptLayout) -> tuple[list[int], list[int]]:
    """Return the ids of a prompt with those of its image, and the positions of the image's embeddings among them."""
    start = prompt.image_position if layout.block and prompt.image_position is not None else len(prompt.ids)
    ids = [*prompt.ids[:start], *layout.block, *prompt.ids[start + 1 :]]
    return ids, [start + offset for offset in layout.features]


def _build_spans(tokens: Sequence[str], offsets: Sequence[tuple[int, int]]) -> tuple[Span, ...]:
    """Return the characters of tokens; none for an added space, whose offsets are those of the character after it."""
    starts_after = [*(start for start, _ in offsets[1:]), None]
    return tuple(
        Span(start=start, end=start if token == SPACE and start == start_after else end)
        for token, (start, end), start_after in zip(tokens, offsets, starts_after, strict=True)
    )


def _get_special_ids(tokenizer: Any) -> frozenset[int]:
    """Return the ids that the tokenizer knows as special: start, end, turn markers, placeholders."""
    special = {number for number, token in tokenizer.added_tokens_decoder.items() if token.special}
    named = {tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id}
    return frozenset((special | set(tokenizer.all_special_ids)) - ({tokenizer.unk_token_id} - named))
