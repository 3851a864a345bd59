"""What an alignment encoder is to the rest of waltz: a text side, an image side, and what fuses them."""

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from PIL import Image

from waltz.core.errors import UserError
from waltz.core.text_diff import Span
from waltz.models.registry import ModelSpec

States = tuple[torch.Tensor, ...]
"""What one side of an encoder makes of a batch; the first axis of each tensor is the batch."""


@dataclass(frozen=True)
class TokenizedText:
    """A text as an encoder reads it.

    Attributes:
        ids: Token ids, special tokens included, without padding.
        tokens: The same as the tokenizer spells them.
        spans: Characters of the text that each token stands for; empty ranges for special tokens.
        special: Whether a token is one that the tokenizer adds.
    """

    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    spans: tuple[Span, ...]
    special: tuple[bool, ...]


class Encoder(Protocol):
    """A loaded encoder.

    The logit of a pair is `fuse(read(ids), see(images))`. What depends on the text alone belongs into `read`, what
    depends on the image alone into `see`: each distinct masked text and image passes there once.

    Attributes:
        spec: Its entry in the registry or the study.
        device: A torch device.
        late: Whether it is a `LateEncoder`.
        probability: Whether the sigmoid of the logit is the model's own probability of a match.
        masked_id: Token id that stands for a masked token in the `equations` profile.
        images_per_batch: Masked images that one pass of `see` takes.
        texts_per_batch: Masked texts that one pass of `read` takes.
        pairs_per_batch: Pairs that one pass of `fuse` takes.
    """

    spec: ModelSpec
    device: str
    late: bool
    probability: bool
    masked_id: int
    images_per_batch: int
    texts_per_batch: int
    pairs_per_batch: int

    def tokenize(self, text: str) -> TokenizedText:
        """Tokens of a text.

        Raises:
            UserError: It is longer than the model reads.
        """

    def prepare_image(self, image: Image.Image) -> torch.Tensor:
        """An RGB image as the network takes it, on the device: float32 of shape (3, height, width)."""

    def encode_image(self, images: torch.Tensor) -> States:
        """What the image side makes of a batch of prepared images, of shape (batch, 3, height, width)."""

    def encode_text(self, ids: torch.Tensor) -> States:
        """What the text side makes of a batch of ids of one length, of shape (batch, length)."""

    def fuse(self, text: States, image: States) -> torch.Tensor:
        """Logits of pairs, row by row: float32 of shape (batch,)."""


class LateEncoder(Encoder, Protocol):
    """An encoder of late fusion: one vector of unit length a side, and `fuse` is scale * <text, image> + bias.

    Attributes:
        scale: What the dot product is multiplied by.
        bias: What is added then; it shifts every coalition alike, so no Shapley value depends on it.
    """

    scale: float
    bias: float


def tokenize_text(tokenizer: Any, text: str, longest: int, name: str) -> TokenizedText:
    """A text by a fast tokenizer, refused where it has more than `longest` tokens.

    Raises:
        UserError: The text is too long.
    """
    found = tokenizer(text, return_offsets_mapping=True, return_special_tokens_mask=True, verbose=False)
    ids = tuple(found["input_ids"])
    if len(ids) > longest:
        raise UserError(f"models.{name}: {len(ids)} tokens, at most {longest} are read: {text[:60]!r}...; shorten it")
    return TokenizedText(
        ids,
        tuple(tokenizer.convert_ids_to_tokens(ids)),
        tuple(Span(start=start, end=end) for start, end in found["offset_mapping"]),
        tuple(map(bool, found["special_tokens_mask"])),
    )


def find_masked_id(tokenizer: Any, spec: ModelSpec, spare: str = "") -> int:
    """The id that stands for a masked token: that of the entry's `masked_token`, else of the mask or unknown token.

    Args:
        tokenizer: The tokenizer.
        spec: The model's entry.
        spare: A token for tokenizers that have neither.
    Raises:
        UserError: There is no such token, or it is the end token, which some models pool at.
    """
    named = (spec.masked_token,) if spec.masked_token else (tokenizer.mask_token, tokenizer.unk_token, spare)
    for token in filter(None, named):
        found = tokenizer.convert_tokens_to_ids(token)
        unknown = found is None or (found == tokenizer.unk_token_id and token != tokenizer.unk_token)
        if not unknown and found != tokenizer.eos_token_id:
            assert isinstance(found, int)
            return found
    tried = ", ".join(map(repr, filter(None, named))) or "none"
    raise UserError(
        f"models.{spec.name}.masked_token: {tried}: no token that can stand for a masked one; name another one"
    )


def compute_log_odds(logits: torch.Tensor, match: int) -> torch.Tensor:
    """Log odds of a match, whose sigmoid is the softmax probability of one.

    Args:
        logits: Of a head with two outputs, of shape (batch, 2).
        match: Which output stands for a match.
    Returns:
        float32 of shape (batch,).
    """
    return logits[:, match].float() - logits[:, 1 - match].float()
