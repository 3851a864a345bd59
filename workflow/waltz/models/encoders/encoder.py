"""The interface of alignment encoders: a text encoder, an image encoder and a fusion."""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from PIL import Image

from waltz.core.errors import UserError, shorten_value
from waltz.core.text_diff import Span
from waltz.model_registry import ModelSpec
from waltz.models.user_text import check_user_text

States = tuple[torch.Tensor, ...]
"""States of one modality for a batch; the first axis of each tensor is the batch."""


@dataclass(frozen=True)
class TokenizedText:
    """A text as an encoder reads it.

    Attributes:
        ids: Token ids, special tokens included, without padding.
        tokens: Spelling of each token in the tokenizer.
        spans: Characters of the text that each token stands for; empty ranges for special tokens.
        special: Whether the tokenizer adds the token.
    """

    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    spans: tuple[Span, ...]
    special: tuple[bool, ...]


class Encoder(Protocol):
    """A loaded encoder.

    The logit of a pair is `fuse(encode_text(ids), encode_image(images))`. Everything that depends
    only on the text belongs in `encode_text`, everything that depends only on the image in
    `encode_image`: each distinct masked text and image passes there once.

    Attributes:
        spec: The encoder's entry in the registry or the study.
        device: A torch device.
        late: Whether it is a `LateEncoder`.
        probability: Whether the sigmoid of the logit is the model's own probability of a match.
        masked_id: Token id that replaces a masked token in the `equations` profile.
        images_per_batch: Masked images in one pass of `encode_image`; with memory for more, more
            (`batch_size`); 1 where images cannot be joined.
        texts_per_batch: Masked texts in one pass of `encode_text`, likewise.
        pairs_per_batch: Pairs in one pass of `fuse`, likewise.
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
        """Return the tokens of a text.

        Raises:
            UserError: The text is too long for the model.
        """

    def prepare_image(self, image: Image.Image) -> torch.Tensor:
        """Return an RGB image prepared for the network, on the device: float32 of shape (3, height,
        width).
        """

    def encode_image(self, images: torch.Tensor) -> States:
        """Return the image encoder's states of a batch of prepared images, of shape (batch, 3,
        height, width).
        """

    def encode_text(self, ids: torch.Tensor) -> States:
        """Return the text encoder's states of a batch of ids of one length, of shape (batch,
        length).
        """

    def fuse(self, text: States, image: States) -> torch.Tensor:
        """Return logits of pairs, row by row: float32 of shape (batch,)."""


class TwoLogitEncoder(Encoder, Protocol):
    """An encoder whose matching head has two logits that are read one by one."""

    def compute_match_logits(self, text: States, image: States) -> torch.Tensor:
        """Return the logits of a mismatch and of a match, of shape (batch, 2)."""


@runtime_checkable
class HidingEncoder(Protocol):
    """An encoder that chooses what hidden pixels show in the profile `equations`."""

    def hide_image(self, image: torch.Tensor) -> torch.Tensor:
        """Return what a prepared image shows where it is hidden, of the same shape."""


class LateEncoder(Encoder, Protocol):
    """An encoder of late fusion: one unit vector per modality, and `fuse` is scale * <text, image>
    + bias.

    Attributes:
        scale: Factor of the dot product.
        bias: Added constant; it shifts every coalition equally, so no Shapley value depends on it.
    """

    scale: float
    bias: float


def tokenize_text(
    tokenizer: Any, text: str, max_tokens: int, name: str
) -> TokenizedText:
    """Return a text tokenized by a fast tokenizer.

    Raises:
        UserError: The text is too long, or holds a control token.
    """
    check_user_text(tokenizer, text, f"models.{name}")
    # Fast tokenizers know the characters of each token.
    encoding = tokenizer(
        text,
        return_offsets_mapping=True,
        return_special_tokens_mask=True,
        verbose=False,
    )
    ids = tuple(encoding["input_ids"])
    if len(ids) > max_tokens:
        raise UserError(
            f"models.{name}: {len(ids)} tokens, at most {max_tokens} are read: {shorten_value(repr(text))}; shorten it"
        )
    return TokenizedText(
        ids=ids,
        tokens=tuple(tokenizer.convert_ids_to_tokens(ids)),
        spans=tuple(
            Span(start=start, end=end) for start, end in encoding["offset_mapping"]
        ),
        special=tuple(map(bool, encoding["special_tokens_mask"])),
    )


def find_masked_id(tokenizer: Any, spec: ModelSpec, fallback: str = "") -> int:
    """Return the id that replaces masked tokens: the entry's `masked_token`, else the mask token or
    the unknown token.

    Args:
        tokenizer: The tokenizer.
        spec: The model's entry.
        fallback: A token for tokenizers that have neither.
    Raises:
        UserError: No token can be used: it is missing, or it is the end token, whose state some
            models read.
    """
    if spec.masked_token:
        # Only this token: a misspelled one must not be replaced silently.
        candidates = [spec.masked_token]
    else:
        candidates = [
            token
            for token in (tokenizer.mask_token, tokenizer.unk_token, fallback)
            if token
        ]
    for token in candidates:
        token_id = tokenizer.convert_tokens_to_ids(token)
        # A token that the tokenizer lacks has no id, or the id of the unknown token.
        is_lacking = token_id is None or (
            token_id == tokenizer.unk_token_id and token != tokenizer.unk_token
        )
        is_end = token_id == tokenizer.eos_token_id
        if not is_lacking and not is_end:
            assert isinstance(token_id, int)
            return token_id
    tried = ", ".join(map(repr, candidates)) or "none"
    raise UserError(
        f"models.{spec.name}.masked_token: {tried}: no token that can replace a masked one; name another token"
    )


def compute_log_odds(logits: torch.Tensor, match: int) -> torch.Tensor:
    """Return log odds of a match, whose sigmoid is the softmax probability of a match.

    Args:
        logits: Logits of a head with two outputs, of shape (batch, 2).
        match: Index of the output for a match.
    Returns:
        float32 of shape (batch,).
    """
    # log(p / (1 - p)) of a softmax over two logits is their difference.
    return logits[:, match].float() - logits[:, 1 - match].float()
