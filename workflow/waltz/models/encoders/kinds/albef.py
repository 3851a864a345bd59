"""ALBEF by its matching head or its answer decoder, from a checkpoint file of its authors.

Texts are cleaned as in its training and start with [CLS], without a final [SEP]; images are resized to a square by
Pillow and normalised with CLIP's constants.
"""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from PIL import Image
from tokenizers.processors import TemplateProcessing

from waltz.core.devices import Device
from waltz.core.errors import UserError
from waltz.core.text_diff import Span
from waltz.model_registry import TOKENIZER_FILES, ModelSpec
from waltz.models import checkpoint_file
from waltz.models.encoders.base import BaseEncoder, has_no_vocabulary, pack_linear_layers
from waltz.models.encoders.encoder import States, TokenizedText, compute_log_odds, tokenize_text
from waltz.models.encoders.kinds.single_stream import BERT_REVISION, BERT_TOKENIZER
from waltz.models.encoders.vqa import read_answer_vocabulary
from waltz.models.networks.albef import AnswerTrees, build_answer_trees, load_answering_network, load_matching_network

DELETED_CHARACTERS = frozenset(",.'!?\"()*#:;~")
"""Characters that are deleted, which joins their neighbours: "man's" becomes "mans"."""
SEPARATORS = frozenset("-/")
"""Characters that become spaces."""
MAX_WORDS = 30
"""Maximum number of words; later ones are not read."""


def clean_text(text: str) -> tuple[str, tuple[int, ...]]:
    """Return a text as its words are looked up, and the position in the original text of each character.

    Source:
        The release's evaluation as MM-SHAP (Parcalabescu and Frank, ACL 2023) has it: `<person>` keeps its angle
        brackets, which the training code removes.
    """
    positions = [position for position, character in enumerate(text) for _ in character.lower()]
    characters = [
        (" " if character in SEPARATORS else character, position)
        for character, position in zip(text.lower(), positions, strict=True)
        if character not in DELETED_CHARACTERS
    ]
    joined = "".join(character for character, _ in characters)
    characters = [
        (" " if len(run[0]) > 1 else run[0], characters[run.start()][1])
        for run in re.finditer(r"\s{2,}|[\s\S]", joined)
    ]
    while characters and characters[-1][0] == "\n":
        characters.pop()
    while characters and characters[-1][0] == " ":
        characters.pop()
    while characters and characters[0][0] == " ":
        characters.pop(0)
    spaces = [number for number, (character, _) in enumerate(characters) if character == " "]
    if len(spaces) >= MAX_WORDS:
        characters = characters[: spaces[MAX_WORDS - 1]]
    return "".join(character for character, _ in characters), tuple(position for _, position in characters)


def tokenize_caption(tokenizer: Any, text: str, max_tokens: int, name: str) -> TokenizedText:
    """Return the tokens of a text, [CLS] first; their spans refer to the original text.

    Args:
        tokenizer: Tokenizer from `remove_end_token`.
        text: The original text; words after the first `MAX_WORDS` are not read.
        max_tokens: Most tokens.
        name: Name of the model, for errors.
    Raises:
        UserError: It has more tokens.
    """
    cleaned, positions = clean_text(text)
    tokens = tokenize_text(tokenizer, cleaned, max_tokens, name)
    return replace(tokens, spans=tuple(_map_span(span, positions) for span in tokens.spans))


def remove_end_token(tokenizer: Any) -> Any:
    """Change a fast BERT tokenizer to put [CLS] before a text and nothing after it."""
    start = (tokenizer.cls_token, tokenizer.cls_token_id)
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(single=f"{start[0]} $A", special_tokens=[start])
    return tokenizer


def _map_span(span: Span, positions: tuple[int, ...]) -> Span:
    """Return a span of the cleaned text as a span of the original text."""
    start, end = span["start"], span["end"]
    return Span(start=positions[start], end=positions[end - 1] + 1) if end > start else Span(start=0, end=0)


PIXEL_MEAN = (0.48145466, 0.4578275, 0.40821073)
"""Of red, green and blue, each from 0 to 1."""
PIXEL_DEVIATION = (0.26862954, 0.26130258, 0.27577711)


def prepare_square_image(image: Image.Image, side: int) -> torch.Tensor:
    """Return an RGB image as the network takes it.

    Args:
        image: Of any shape; its aspect ratio is not kept.
        side: Pixels of the square's side.
    Returns:
        float32 of shape (3, side, side).
    """
    square = image.convert("RGB").resize((side, side), Image.Resampling.BICUBIC)
    pixels = torch.from_numpy(np.asarray(square, dtype=np.float32) / 255)
    return ((pixels - torch.tensor(PIXEL_MEAN)) / torch.tensor(PIXEL_DEVIATION)).permute(2, 0, 1).contiguous()


MATCH = 1
"""Index of a match in the head's output."""


@dataclass(frozen=True)
class Albef(BaseEncoder):
    """A loaded ALBEF; see `encoder.Encoder`."""

    late: bool = False
    probability: bool = True
    images_per_batch: int = 8
    texts_per_batch: int = 128
    pairs_per_batch: int = 16

    def tokenize(self, text: str) -> TokenizedText:
        """Return the tokens of the cleaned text; see `networks.albef.inputs`."""
        return tokenize_caption(self.tokenizer, text, self.max_tokens, self.spec.name)

    def prepare_image(self, image: Image.Image) -> torch.Tensor:
        """Return the prepared image; see `networks.albef.inputs`."""
        return prepare_square_image(image, self.network.side).to(
            self.device, self.network.visual_encoder.cls_token.dtype
        )

    def encode_image(self, images: torch.Tensor) -> States:
        """Return states of the image's [CLS] token and of its patches."""
        return (self.network.visual_encoder(images),)

    def encode_text(self, ids: torch.Tensor) -> States:
        """Return states of the tokens before the first cross-attention to the image."""
        return (self.network.text_encoder.encode_text(ids),)

    def fuse(self, text: States, image: States) -> torch.Tensor:
        """Return log odds of a match."""
        return compute_log_odds(self.network.logits(text[0], image[0]), MATCH)


def load_albef(spec: ModelSpec, device: Device) -> Albef:
    """Load an ALBEF with its matching head from a checkpoint file, or a folder or repository of one.

    Raises:
        UserError: The file or tokenizer cannot be had, or its keys are not those of the network; a checkpoint for
            answering has no matching head.
    """
    file = checkpoint_file.find_checkpoint_file(spec)
    return Albef(
        **build_albef_fields(
            spec,
            device,
            file,
            load_matching_network(file, checkpoint_file.read_configured_settings(spec), spec.name, spec.allow_missing),
        )
    )


def build_albef_fields(spec: ModelSpec, device: Device, file: Path, network: Any) -> dict[str, Any]:
    """Return the fields of a loaded ALBEF with any head.

    Raises:
        UserError: There is no tokenizer.
    """
    network = network.to(device.name, getattr(torch, spec.dtype))
    pack_linear_layers(network.visual_encoder.blocks)
    return {
        "spec": spec,
        "device": device.name,
        "network": network,
        "tokenizer": remove_end_token(_load_albef_tokenizer(spec, file.parent)),
        "max_tokens": network.longest,
    }


def _load_albef_tokenizer(spec: ModelSpec, folder: Path) -> Any:
    """Return BERT's tokenizer: the one next to the weights, else the published one."""
    has_own = any((folder / name).is_file() for name in TOKENIZER_FILES)
    source, options = (str(folder), {}) if has_own else (BERT_TOKENIZER, {"revision": BERT_REVISION})
    only_vocabulary = has_own and not any((folder / name).is_file() for name in TOKENIZER_FILES[:-1])
    tokenizer_class = transformers.BertTokenizer if only_vocabulary else transformers.AutoTokenizer
    try:
        tokenizer = tokenizer_class.from_pretrained(source, **options)
    except (OSError, ValueError) as error:
        first_line = str(error).strip().splitlines()[0]
        raise UserError(
            f"models.{spec.name}: cannot load the tokenizer {source}: {first_line}; check the network, or copy the"
            f" files of {BERT_TOKENIZER} next to the weights"
        ) from error
    if has_no_vocabulary(tokenizer) or not getattr(tokenizer, "is_fast", False):
        raise UserError(f"models.{spec.name}: {source} has no fast tokenizer; copy the files of {BERT_TOKENIZER} there")
    return tokenizer


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


def load_albef_answering(spec: ModelSpec, device: Device) -> AlbefAnswering:
    """Load an ALBEF with its text decoder from a checkpoint file, or a folder or repository of one.

    Raises:
        UserError: The file, tokenizer or answers cannot be had, or its keys are not those of the network.
    """
    file = checkpoint_file.find_checkpoint_file(spec)
    network = load_answering_network(
        file, checkpoint_file.read_configured_settings(spec), spec.name, spec.allow_missing
    )
    loaded = build_albef_fields(spec, device, file, network)
    answers = read_answer_vocabulary(spec)
    tokenizer = loaded["tokenizer"]
    ids = [_tokenize_answer(tokenizer, answer, loaded["max_tokens"], spec) for answer in answers]
    trees = build_answer_trees(ids, tokenizer.cls_token_id, tokenizer.sep_token_id, device.name)
    return AlbefAnswering(**loaded, answers=answers, answer_trees=tuple(trees))


def _tokenize_answer(tokenizer: Any, answer: str, max_tokens: int, spec: ModelSpec) -> list[int]:
    """Return token ids of an answer, without special tokens."""
    ids: list[int] = tokenizer(answer, add_special_tokens=False)["input_ids"]
    if not 0 < len(ids) < max_tokens:
        raise UserError(
            f"models.{spec.name}.answers: {answer!r}: unsupported length (got {len(ids)} tokens, expected 1 to"
            f" {max_tokens - 1}); remove it from the list"
        )
    return ids
