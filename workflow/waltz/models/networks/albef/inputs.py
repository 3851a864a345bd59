"""Texts and images as ALBEF takes them.

Texts are cleaned as in its training and start with [CLS], without a final [SEP]; images are resized to a square by
Pillow and normalised with CLIP's constants.
"""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from PIL import Image
from tokenizers.processors import TemplateProcessing

from waltz.core.text_diff import Span
from waltz.models.encoders.encoder import TokenizedText, tokenize_text

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


def prepare_image(image: Image.Image, side: int) -> torch.Tensor:
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
