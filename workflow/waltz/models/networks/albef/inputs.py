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
"""Characters that are deleted, so that what they divide grows together: "man's" becomes "mans"."""
SEPARATORS = frozenset("-/")
"""Characters that become blanks."""
MAX_WORDS = 30
"""Words that are read; those after them are not."""


def clean_text(text: str) -> tuple[str, tuple[int, ...]]:
    """A text as its words are looked up, with the place in the given text that each character comes from.

    Source:
        The release's evaluation as MM-SHAP (Parcalabescu and Frank, ACL 2023) has it: `<person>` keeps its angle
        brackets, which the training code takes away.
    """
    places = [place for place, letter in enumerate(text) for _ in letter.lower()]
    letters = [
        (" " if letter in SEPARATORS else letter, place)
        for letter, place in zip(text.lower(), places, strict=True)
        if letter not in DELETED_CHARACTERS
    ]
    written = "".join(letter for letter, _ in letters)
    letters = [
        (" " if len(run[0]) > 1 else run[0], letters[run.start()][1]) for run in re.finditer(r"\s{2,}|[\s\S]", written)
    ]
    while letters and letters[-1][0] == "\n":
        letters.pop()
    while letters and letters[-1][0] == " ":
        letters.pop()
    while letters and letters[0][0] == " ":
        letters.pop(0)
    blanks = [number for number, (letter, _) in enumerate(letters) if letter == " "]
    if len(blanks) >= MAX_WORDS:
        letters = letters[: blanks[MAX_WORDS - 1]]
    return "".join(letter for letter, _ in letters), tuple(place for _, place in letters)


def tokenize_caption(tokenizer: Any, text: str, longest: int, name: str) -> TokenizedText:
    """Tokens of a text, [CLS] first; their spans are those of the text as given.

    Args:
        tokenizer: Of `without_end`.
        text: As a data set has it; more than `WORDS` words are not read.
        longest: Most tokens.
        name: Name of the model, for errors.
    Raises:
        UserError: It has more tokens.
    """
    said, places = clean_text(text)
    found = tokenize_text(tokenizer, said, longest, name)
    return replace(found, spans=tuple(_map_span(span, places) for span in found.spans))


def remove_end_token(tokenizer: Any) -> Any:
    """A fast tokenizer of BERT, changed to put [CLS] before a text and nothing behind it."""
    start = (tokenizer.cls_token, tokenizer.cls_token_id)
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(single=f"{start[0]} $A", special_tokens=[start])
    return tokenizer


def _map_span(span: Span, places: tuple[int, ...]) -> Span:
    """A span of the cleaned text as one of the given text."""
    start, end = span["start"], span["end"]
    return Span(start=places[start], end=places[end - 1] + 1) if end > start else Span(start=0, end=0)


PIXEL_MEAN = (0.48145466, 0.4578275, 0.40821073)
"""Of red, green and blue, each from 0 to 1."""
PIXEL_DEVIATION = (0.26862954, 0.26130258, 0.27577711)


def prepare_image(image: Image.Image, side: int) -> torch.Tensor:
    """An RGB image as the network takes it.

    Args:
        image: Of any shape; its aspect ratio is not kept.
        side: Pixels of the square's side.
    Returns:
        float32 of shape (3, side, side).
    """
    square = image.convert("RGB").resize((side, side), Image.Resampling.BICUBIC)
    pixels = torch.from_numpy(np.asarray(square, dtype=np.float32) / 255)
    return ((pixels - torch.tensor(PIXEL_MEAN)) / torch.tensor(PIXEL_DEVIATION)).permute(2, 0, 1).contiguous()
