"""ALBEF by its matching head or its answer decoder, from a checkpoint file of its authors.

Texts are cleaned as in its training and start with [CLS], without a final [SEP]; images are resized
to a square by Pillow and normalized with CLIP's constants.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from PIL import Image
from tokenizers.processors import TemplateProcessing
from transformers.image_utils import OPENAI_CLIP_MEAN, OPENAI_CLIP_STD

from waltz.core.jobs.devices import Device
from waltz.core.text_diff import Span
from waltz.model_registry import ModelSpec
from waltz.models import checkpoint_file
from waltz.models.encoders.base import (
    BaseEncoder,
    Fields,
    load_bert_tokenizer,
    pack_linear_layers,
)
from waltz.models.encoders.encoder import (
    States,
    TokenizedText,
    compute_log_odds,
    tokenize_text,
)
from waltz.models.encoders.vqa import (
    read_answer_vocabulary,
    tokenize_answers,
)
from waltz.models.networks.albef import (
    AlbefNetwork,
    load_answering_network,
    load_matching_network,
)
from waltz.models.networks.answer_trees import AnswerTrees

MATCH = 1
"""Index of a match in the head's output."""
DELETED_CHARACTERS = frozenset(",.'!?\"()*#:;~")
"""Characters that are deleted, which joins their neighbors: "man's" becomes "mans"."""
SEPARATORS = frozenset("-/")
"""Characters that become spaces."""
MAX_WORDS = 30
"""Maximum number of words; later words are not read."""


@dataclass(frozen=True)
class Albef(BaseEncoder):
    """A loaded ALBEF; see `encoder.Encoder`."""

    images_per_batch: int = 8
    texts_per_batch: int = 128
    pairs_per_batch: int = 16

    def tokenize(self, text: str) -> TokenizedText:
        """Return the tokens of the cleaned text, [CLS] first; their spans refer to the original
        text.
        """
        cleaned, positions = clean_text(text)
        tokens = tokenize_text(self.tokenizer, cleaned, self.max_tokens, self.spec.name)
        return replace(
            tokens, spans=tuple(_map_span(span, positions) for span in tokens.spans)
        )

    def prepare_image(self, image: Image.Image) -> torch.Tensor:
        """Return the prepared image; see `prepare_square_image`."""
        dtype = self.network.visual_encoder.cls_token.dtype
        return prepare_square_image(image, self.network.image_size).to(
            self.device, dtype
        )

    def encode_image(self, images: torch.Tensor) -> States:
        """Return states of the image's [CLS] token and of its patches."""
        return (self.network.visual_encoder(images),)

    def encode_text(self, ids: torch.Tensor) -> States:
        """Return states of the tokens before the first cross-attention to the image."""
        return (self.network.text_encoder.encode_text(ids),)

    def fuse(self, text: States, image: States) -> torch.Tensor:
        """Return log odds of a match."""
        return compute_log_odds(self.network.compute_logits(text[0], image[0]), MATCH)


@dataclass(frozen=True, kw_only=True)
class AlbefAnswering(Albef):
    """A loaded ALBEF for questions; see `vqa.AnsweringEncoder`.

    Attributes:
        answers: The answer of each output.
        answer_trees: The answers as prefix trees for the decoder.
    """

    answers: tuple[str, ...]
    answer_trees: tuple[AnswerTrees, ...]
    probability: bool = False
    pairs_per_batch: int = 4

    def fuse(self, text: States, image: States) -> torch.Tensor:
        """Return logits of the answers: float32 of shape (batch, answers)."""
        question = self.network.text_encoder.fuse(text[0], image[0])
        logits: torch.Tensor = self.network.text_decoder(question, self.answer_trees)
        return logits

    def limit_answers(self, answers: Sequence[str]) -> "AlbefAnswering":
        """Return the encoder with other answers; see `vqa.AnsweringEncoder`."""
        trees = _build_trees(vars(self), answers)
        return replace(self, answers=tuple(answers), answer_trees=trees)


def load_albef(spec: ModelSpec, device: Device) -> Albef:
    """Load an ALBEF with its matching head from a checkpoint file, or from a folder or repository
    that holds one file.
    """
    return Albef(**_load_fields(spec, device, load_matching_network))


def load_albef_answering(spec: ModelSpec, device: Device) -> AlbefAnswering:
    """Load an ALBEF with its text decoder from a checkpoint file, or from a folder or repository
    that holds one file.
    """
    loaded = _load_fields(spec, device, load_answering_network)
    answers = read_answer_vocabulary(spec)
    trees = _build_trees(loaded, answers)
    return AlbefAnswering(**loaded, answers=answers, answer_trees=trees)


def _build_trees(fields: Fields, answers: Sequence[str]) -> tuple[AnswerTrees, ...]:
    tokenizer = fields["tokenizer"]
    return tokenize_answers(
        fields, answers, tokenizer.cls_token_id, tokenizer.sep_token_id
    )


def clean_text(text: str) -> tuple[str, tuple[int, ...]]:
    """Return the cleaned text that is tokenized, and for each of its characters the position in the
    original text.

    Source:
        The release's evaluation in the code of MM-SHAP (Parcalabescu and Frank, ACL 2023):
        `<person>` keeps its angle brackets, which the training code removes.
    """
    # Lower case may turn a character into several. Each letter keeps the position of its character.
    letters: list[tuple[str, int]] = []
    for position, character in enumerate(text):
        letters += [(letter, position) for letter in character.lower()]
    cleaned: list[tuple[str, int]] = []
    for letter, (_, position) in zip(text.lower(), letters, strict=True):
        if letter in SEPARATORS:
            cleaned.append((" ", position))
        elif letter not in DELETED_CHARACTERS:
            cleaned.append((letter, position))

    # Then spaces at the ends go, and a final line break.
    cleaned = _collapse_whitespace(cleaned)
    joined = "".join(letter for letter, _ in cleaned).rstrip("\n")
    first, last = len(joined) - len(joined.lstrip(" ")), len(joined.rstrip(" "))
    cleaned = cleaned[first:last]

    # A word ends at a space.
    spaces = [index for index, (letter, _) in enumerate(cleaned) if letter == " "]
    if len(spaces) >= MAX_WORDS:
        cleaned = cleaned[: spaces[MAX_WORDS - 1]]
    return "".join(letter for letter, _ in cleaned), tuple(
        position for _, position in cleaned
    )


def _collapse_whitespace(letters: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Return letters with positions, with each run of several whitespace characters replaced by one
    space.
    """
    joined = "".join(letter for letter, _ in letters)
    collapsed = []
    for run in re.finditer(r"\s{2,}|[\s\S]", joined):
        letter = " " if len(run[0]) > 1 else run[0]
        _, position = letters[run.start()]
        collapsed.append((letter, position))
    return collapsed


def remove_end_token(tokenizer: Any) -> Any:
    """Change a fast BERT tokenizer so that it puts [CLS] before a text and nothing after it; return
    it.
    """
    start = (tokenizer.cls_token, tokenizer.cls_token_id)
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=f"{start[0]} $A", special_tokens=[start]
    )
    return tokenizer


def prepare_square_image(image: Image.Image, length: int) -> torch.Tensor:
    """Return an image resized to a square, whatever its aspect ratio, and normalized: float32 of
    shape (3, length, length).
    """
    square = image.convert("RGB").resize((length, length), Image.Resampling.BICUBIC)
    pixels = torch.from_numpy(np.asarray(square, dtype=np.float32) / 255)
    # (length, length, RGB)
    normalized = (pixels - torch.tensor(OPENAI_CLIP_MEAN)) / torch.tensor(
        OPENAI_CLIP_STD
    )
    return normalized.permute(2, 0, 1).contiguous()


def _load_fields(
    spec: ModelSpec, device: Device, load_network: Callable[..., AlbefNetwork]
) -> Fields:
    """Return the fields of `Albef` that a checkpoint determines."""
    file = checkpoint_file.find_checkpoint_file(spec)
    network = load_network(
        file,
        checkpoint_file.read_configured_settings(spec),
        spec.name,
        spec.allow_missing,
    )
    network = network.to(device.name, getattr(torch, spec.dtype))
    # Most of the time goes into these layers.
    pack_linear_layers(network.visual_encoder.blocks)
    return {
        "spec": spec,
        "device": device.name,
        "network": network,
        "tokenizer": remove_end_token(load_bert_tokenizer(spec, file.parent)),
        "max_tokens": network.longest,
    }


def _map_span(span: Span, positions: tuple[int, ...]) -> Span:
    """Return a span of the cleaned text as a span of the original text."""
    start, end = span["start"], span["end"]
    # Special tokens have an empty span in both texts.
    if end <= start:
        return Span(start=0, end=0)
    return Span(start=positions[start], end=positions[end - 1] + 1)
