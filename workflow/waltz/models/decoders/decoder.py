"""The interface of decoders, which read prompts, with or without an image, and generate tokens."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from PIL import Image

from waltz.core.errors import UserError, get_first_line, shorten_value
from waltz.core.text_diff import Span
from waltz.model_registry import ModelSpec
from waltz.models.decoders.network import Network, OwnForward
from waltz.models.decoders.template_limits import (
    check_length,
    check_operations,
    limit_template,
)

if TYPE_CHECKING:
    from waltz.models.decoders.server import Server

log = logging.getLogger(__name__)

LONGEST_FAULT = 200
"""Maximum number of letters of a chat template's fault in a message."""
UNDERSCORE = "_"
"""Masked token of a decoder in the published code."""
SPACE = "▁"
"""A token of one space, as SentencePiece spells it."""


@dataclass(frozen=True)
class ChatTurn:
    """One turn of a conversation.

    Attributes:
        speaker: `system`, `user` or `assistant`; an assistant's turn at the end is continued by the
            model.
        text: The text of the turn.
        image: Whether the image precedes the text.
    """

    speaker: str
    text: str
    image: bool = False


@dataclass(frozen=True)
class Prompt:
    """A rendered prompt, in which one placeholder stands for the image, however many positions the
    network gives it.

    Attributes:
        text: The prompt, with the placeholder of the image.
        ids: Token ids, including the id of the placeholder.
        tokens: The tokens of these ids, as the tokenizer spells them.
        spans: Characters of the text that each token stands for; empty ranges for tokens that the
            tokenizer adds, such as the space that the tokenizers of Llama and Mistral put before a
            text and after a special token.
        special: Whether a token is special: added by the tokenizer, a turn marker, or the
            placeholder.
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
        pixels: The processed image, normalized, so that 0 is the mean color: float32, of shape
            (1, 3, height, width) if the image is one tile, else in the layout of the model family.
        extras: Other outputs of the processor, such as the sizes of tiles, by the names of the
            network's arguments.
        image: The RGB image itself.
    """

    pixels: torch.Tensor
    extras: Mapping[str, torch.Tensor]
    image: Image.Image


@dataclass(frozen=True, eq=False)
class PromptLayout:
    """Token ids and positions of a prompt in the network, with the placeholder replaced by the
    image's positions.

    Attributes:
        block: Ids that replace the placeholder; empty without an image.
        features: Positions in the block that the embeddings of the image fill, in order.
        positions: Position of each id of the expanded prompt: int64 of shape (length,), or (axes,
            length) where the network has several axes of positions.
        inputs: Further arguments of the forward pass of a network that reads images itself.
    """

    block: tuple[int, ...]
    features: tuple[int, ...]
    positions: torch.Tensor
    inputs: Mapping[str, torch.Tensor] = field(default_factory=dict)

    def extend_positions(self, count: int) -> torch.Tensor:
        """Return the positions of the prompt and of `count` tokens behind it, of shape (..., length
        + count).
        """
        # With several axes of positions, text behind an image counts on from the highest of them,
        # on each axis.
        after = (
            self.positions.max() + 1 + torch.arange(count, device=self.positions.device)
        )
        axes = self.positions.shape[:-1]
        return torch.cat([self.positions, after.expand(*axes, count)], dim=-1)


@dataclass(frozen=True)
class Sampling:
    """Settings of the sampling of tokens.

    Attributes:
        temperature: Temperature of the softmax, above 0.
        top_k: Number of likeliest tokens that can be sampled; 0 takes all.
        top_p: Share of probability of the likeliest tokens that can be sampled; 1 takes all.
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
        positions_per_batch: Maximum number of positions in one pass, cached ones included; with memory
            for more, more (`batch_size`).
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
        """Server that runs the model; None if the network is loaded here."""
        return None

    @property
    def reads_images(self) -> bool:
        """Whether the decoder reads images."""
        return bool(self.placeholder)

    @property
    def forward_pass(self) -> str:
        """Description of how the network is read."""
        if isinstance(self.network, OwnForward):
            return "the model's own forward pass for each row"
        if self.network.reuses_prefixes:
            return "beginnings are read once"
        return "whole rows"

    @property
    def forward_pass_reason(self) -> str:
        """The reason why the network is not read in a faster way; empty if this is the fastest."""
        network = self.network
        if network.reuses_prefixes and network.checked_length is not None:
            return f"rows of more than {network.checked_length} positions, where it may read otherwise, are read whole"
        return network.reason

    def describe_forward_pass(self) -> dict[str, str]:
        """Return how the network is read and why not in a faster way, as fields of a run record."""
        return {
            "forward_pass": self.forward_pass,
            "forward_pass_reason": self.forward_pass_reason,
        }

    def log_forward_pass(self) -> None:
        """Write to the log how the network is read, and why not in a faster way."""
        reason = self.forward_pass_reason
        level = logging.WARNING if self.network.reason else logging.INFO
        suffix = f": {reason}" if reason else ""
        log.log(level, "models.%s: %s%s", self.spec.name, self.forward_pass, suffix)

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
        """Token id of masked tokens in `equations`: the entry's, the mask token, an underscore, or
        the unknown token.

        Raises:
            UserError: None of them is a token, or it ends an answer.
        """
        tokenizer, masked_token = self.tokenizer, self.spec.masked_token
        candidates = (
            [masked_token]
            if masked_token
            else [tokenizer.mask_token, UNDERSCORE, tokenizer.unk_token]
        )
        for token in candidates:
            if not token:
                continue
            token_id: int | None = tokenizer.convert_tokens_to_ids(token)
            # A tokenizer gives the unknown token's id to every text that is not a token.
            is_unknown = (
                token_id == tokenizer.unk_token_id and token != tokenizer.unk_token
            )
            if token_id is None or is_unknown or token_id == tokenizer.eos_token_id:
                continue
            return token_id
        raise UserError(
            f"models.{self.spec.name}.masked_token: {masked_token!r} is not a token that can stand for a masked one;"
            " name one"
        )

    @property
    def published_masked_id(self) -> int:
        """Token id of masked tokens in `published`."""
        return self.build_prompt(UNDERSCORE).ids[-1]

    def count_fixed_ids(self, prompt: Prompt) -> int:
        """Return the number of first ids that the published code neither masks nor counts for the
        grid of patches.
        """
        return 0

    def render_chat(self, turns: Sequence[ChatTurn]) -> str:
        """Render a conversation with the model's own chat template, ready for the assistant to
        continue.

        An assistant's last turn is appended unchanged after the template's opening of a turn,
        because templates strip whitespace.

        Raises:
            UserError: There is no chat template, or it refuses the conversation, as some do with a
                system's turn.
        """
        # The assistant's last turn is to be continued, so the template must not close it.
        ending = ""
        if turns[-1].speaker == "assistant":
            turns, ending = turns[:-1], turns[-1].text
        messages = [
            {"role": turn.speaker, "content": self._build_message_content(turn)}
            for turn in turns
        ]
        return self.render_messages(messages) + ending

    def render_messages(self, messages: Sequence[Mapping[str, object]]) -> str:
        """Render messages of transformers with the model's own chat template, ready for the
        assistant to reply.

        Raises:
            UserError: There is no chat template, it exceeds a limit (`template_limits`), or it
                refuses the conversation, as some do with a system's turn.
        """
        location = f"models.{self.spec.name}"
        if not self.has_chat_template:
            raise UserError(
                f"{location}: {self.spec.weights} has no chat template; name one under chat_template, or use a profile"
                " with its own turn markers"
            )
        # A model's files hold one template, or several by their names.
        templates = self.chat_renderer.chat_template
        if not isinstance(templates, Mapping):
            templates = {"default": templates}
        try:
            check_operations(templates)
            with limit_template():
                rendered: str = self.chat_renderer.apply_chat_template(
                    messages, add_generation_prompt=True, tokenize=False
                )
            check_length(rendered)
        except Exception as error:  # a template is a program, which can raise anything
            raise UserError(
                f"{location}: the chat template of {self.spec.weights} refuses the conversation:"
                f" {get_first_line(error)[:LONGEST_FAULT]}"
            ) from error
        return rendered

    def _build_message_content(self, turn: ChatTurn) -> str | list[dict[str, str]]:
        """Return the content of a message as the chat template takes it: a tokenizer's template
        takes one text.
        """
        return turn.text

    def build_prompt(self, text: str) -> Prompt:
        """Return a rendered prompt as token ids; a start token that the text already contains is
        not added again.

        Raises:
            UserError: The prompt is longer than the model reads or empty, or has several
                placeholders.
        """
        tokenizer = self.tokenizer
        # Chat templates often write the start token into the text.
        has_start = bool(tokenizer.bos_token) and text.startswith(tokenizer.bos_token)
        encoding = tokenizer(
            text,
            add_special_tokens=not has_start,
            return_offsets_mapping=True,
            return_special_tokens_mask=True,
            verbose=False,
        )
        ids = encoding["input_ids"]
        offsets = encoding["offset_mapping"]
        is_added = encoding["special_tokens_mask"]
        # An end token that the tokenizer adds has no characters; the prompt is to be continued, so
        # it goes.
        while (
            ids
            and ids[-1] == tokenizer.eos_token_id
            and offsets[-1][0] == offsets[-1][1]
        ):
            ids, offsets, is_added = ids[:-1], offsets[:-1], is_added[:-1]
        image_position = self._check_ids(text, ids)

        special_ids = _get_special_ids(tokenizer)
        special = [
            bool(added) or token in special_ids
            for added, token in zip(is_added, ids, strict=True)
        ]
        tokens = tuple(tokenizer.convert_ids_to_tokens(ids))
        return Prompt(
            text,
            tuple(ids),
            tokens,
            _build_spans(tokens, offsets),
            tuple(special),
            image_position,
        )

    def _check_ids(self, text: str, ids: Sequence[int]) -> int | None:
        """Return the position of the placeholder among the ids of a prompt; None without one.

        Raises:
            UserError: The prompt is longer than the model reads or empty, or has several
                placeholders.
        """
        if not 0 < len(ids) <= self.window:
            raise UserError(
                f"models.{self.spec.name}: a prompt of {len(ids)} tokens, 1 to {self.window} are read:"
                f" {shorten_value(repr(text))}"
            )
        # A language model has no placeholder, so that no id can equal it.
        image_id = (
            self.tokenizer.convert_tokens_to_ids(self.placeholder)
            if self.placeholder
            else None
        )
        image_positions = [
            position for position, token in enumerate(ids) if token == image_id
        ]
        # The players of a prompt are the patches of one image at most.
        if len(image_positions) > 1:
            raise UserError(
                f"models.{self.spec.name}: {len(image_positions)} images in one prompt, at most one is shown:"
                f" {shorten_value(repr(text))}"
            )
        return image_positions[0] if image_positions else None

    def build_continuation(self, prompt: Prompt, text: str) -> tuple[int, ...]:
        """Return the ids of a text behind a prompt; empty if its first token merges with the prompt."""
        # Both are tokenized as one text, since tokens at the border may differ from the tokens of
        # each text alone.
        ids = self.build_prompt(prompt.text + text).ids
        position = len(prompt.ids)
        return ids[position:] if ids[:position] == prompt.ids else ()

    def find_label_id(self, prompt: Prompt, label: str) -> int:
        """Return the first token of a label (with the space before it), tokenized together with its
        prompt.

        Raises:
            UserError: The label begins within the prompt's last token, with a special or unknown
                token, or is empty.
        """
        ids = self.build_continuation(prompt, label)
        unusable_ids = {*_get_special_ids(self.tokenizer), self.tokenizer.unk_token_id}
        if ids and ids[0] not in unusable_ids:
            return ids[0]
        raise UserError(
            f"models.{self.spec.name}: after {prompt.text[-20:]!r}, the label {label!r} does not begin with a token of"
            " its own; choose another label, or end the prompt elsewhere"
        )

    @abstractmethod
    def prepare_image(self, image: Image.Image) -> PreparedImage:
        """Return an RGB image as the vision tower takes it, on the device.

        Raises:
            UserError: The model reads no images.
        """

    @abstractmethod
    def encode_image(
        self, picture: PreparedImage, pixels: torch.Tensor
    ) -> torch.Tensor:
        """Return embeddings of variants of one image: from (batch, *pixels.shape) to (batch,
        features, width).
        """

    @abstractmethod
    def build_layout(
        self, prompt: Prompt, picture: PreparedImage | None
    ) -> PromptLayout:
        """Return the ids and positions of a prompt with this image in the network.

        Raises:
            UserError: The prompt is longer than the network reads, or the processor expands it in
                an unknown way, so that numbers would be wrong.
        """

    @abstractmethod
    def generate(
        self,
        prompts: Sequence[Prompt],
        images: Sequence[PreparedImage | None],
        max_tokens: int,
        sampling: Sampling | None,
        seeds: Sequence[int],
        *,
        min_tokens: int = 0,
    ) -> list[tuple[int, ...]]:
        """Return the tokens that the model generates after each prompt; see
        `continuations.generate_texts`.
        """

    def decode_text(self, ids: Sequence[int], kept_position: int | None = None) -> str:
        """Return tokens as text, without special tokens.

        Args:
            kept_position: Position of a special token that is kept, such as the placeholder.
        """
        shown = list(ids)
        if kept_position is not None:
            special = set(self.tokenizer.all_special_ids)
            special |= _list_added_special_ids(self.tokenizer)
            shown = [
                token
                for position, token in enumerate(ids)
                if position == kept_position or token not in special
            ]
        return str(
            self.tokenizer.decode(
                shown,
                skip_special_tokens=kept_position is None,
                # The settings of tokenizers differ between versions of transformers.
                clean_up_tokenization_spaces=False,
            )
        )


def expand_prompt(prompt: Prompt, layout: PromptLayout) -> tuple[list[int], list[int]]:
    """Return the ids of a prompt with the image's ids, and the positions of the image's embeddings
    among them.
    """
    start = prompt.image_position
    if start is None:
        return list(prompt.ids), []
    # The placeholder is one id of the prompt; the block has an id for each position that the image
    # takes.
    ids = [*prompt.ids[:start], *layout.block, *prompt.ids[start + 1 :]]
    return ids, [start + offset for offset in layout.features]


def _build_spans(
    tokens: Sequence[str], offsets: Sequence[tuple[int, int]]
) -> tuple[Span, ...]:
    """Return the characters of tokens; an empty range for an added space, which has the next
    character's offsets.
    """
    # Start of the token behind each token; none behind the last.
    following_starts = [*(start for start, _ in offsets[1:]), None]
    spans = []
    for token, (start, end), following_start in zip(
        tokens, offsets, following_starts, strict=True
    ):
        is_added_space = token == SPACE and start == following_start
        spans.append(Span(start=start, end=start if is_added_space else end))
    return tuple(spans)


def _list_added_special_ids(tokenizer: Any) -> set[int]:
    """Return the ids of the tokens that were added to a tokenizer as special."""
    return {
        token_id
        for token_id, token in tokenizer.added_tokens_decoder.items()
        if token.special
    }


def _get_special_ids(tokenizer: Any) -> frozenset[int]:
    """Return the ids that the tokenizer knows as special: start, end, turn markers, placeholders."""
    special = _list_added_special_ids(tokenizer) | set(tokenizer.all_special_ids)
    # The unknown token stands for words of the text, unless it also starts, ends or pads a text.
    if tokenizer.unk_token_id not in (
        tokenizer.bos_token_id,
        tokenizer.eos_token_id,
        tokenizer.pad_token_id,
    ):
        special.discard(tokenizer.unk_token_id)
    return frozenset(special)
