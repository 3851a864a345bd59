"""Texts as ALBEF reads them: cleaned as in its training, and begun by [CLS], but not ended by [SEP]."""

import re
from dataclasses import replace
from typing import Any

from tokenizers.processors import TemplateProcessing

from waltz.core.text_diff import Span
from waltz.models.encoders.encoder import Text, tokenized

DELETED = frozenset(",.'!?\"()*#:;~")
"""Characters that are deleted, so that what they divide grows together: "man's" becomes "mans"."""
DIVIDING = frozenset("-/")
"""Characters that become blanks."""
WORDS = 30
"""Words that are read; those after them are not."""


def cleaned(text: str) -> tuple[str, tuple[int, ...]]:
    """A text as its words are looked up, with the place in the given text that each character comes from.

    Source:
        The release's evaluation as MM-SHAP (Parcalabescu and Frank, ACL 2023) has it: `<person>` keeps its angle
        brackets, which the training code takes away.
    """
    places = [place for place, letter in enumerate(text) for _ in letter.lower()]
    letters = [
        (" " if letter in DIVIDING else letter, place)
        for letter, place in zip(text.lower(), places, strict=True)
        if letter not in DELETED
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
    if len(blanks) >= WORDS:
        letters = letters[: blanks[WORDS - 1]]
    return "".join(letter for letter, _ in letters), tuple(place for _, place in letters)


def read(tokenizer: Any, text: str, longest: int, name: str) -> Text:
    """Tokens of a text, [CLS] first; their spans are those of the text as given.

    Args:
        tokenizer: Of `without_end`.
        text: As a data set has it; more than `WORDS` words are not read.
        longest: Most tokens.
        name: Name of the model, for errors.
    Raises:
        UserError: It has more tokens.
    """
    said, places = cleaned(text)
    found = tokenized(tokenizer, said, longest, name)
    return replace(found, spans=tuple(_given(span, places) for span in found.spans))


def without_end(tokenizer: Any) -> Any:
    """A fast tokenizer of BERT, changed to put [CLS] before a text and nothing behind it."""
    start = (tokenizer.cls_token, tokenizer.cls_token_id)
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(single=f"{start[0]} $A", special_tokens=[start])
    return tokenizer


def _given(span: Span, places: tuple[int, ...]) -> Span:
    """A span of the cleaned text as one of the given text."""
    start, end = span["start"], span["end"]
    return Span(start=places[start], end=places[end - 1] + 1) if end > start else Span(start=0, end=0)
