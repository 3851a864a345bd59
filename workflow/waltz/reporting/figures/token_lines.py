"""A text's tokens laid out in lines, so that pieces of a word can be seen to be one word."""

import unicodedata
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextToPath

from waltz.core.text_diff import Span

LETTERS = 8.5
"""Font size of tokens, in points."""


@dataclass(frozen=True)
class TokenBox:
    """A token's place among the lines of a text, in inches; `joined` to the piece before it."""

    token: int
    line: int
    left: float
    width: float
    label: str
    size: float
    joined: bool


def lay_out_tokens(text: str, tokens: Sequence[str], spans: Sequence[Span], width: float) -> list[TokenBox]:
    """Lines of boxes, one a token; pieces of a word touch, and words break where a line is full.

    A text that begins in a script written from right to left runs from the right.

    Args:
        text: The text.
        tokens: Its tokens as the tokenizer spells them.
        spans: Their characters.
        width: Of a line, in inches.
    Returns:
        Boxes in the order of the tokens. A label wider than a line is cut.
    """
    labels = _label_tokens(text, tokens, spans)
    boxes: list[TokenBox] = []
    line, right = 0, 0.0
    for token, (label, joined) in enumerate(labels):
        shown, size = _fit_label(label, width)
        wide = min(width, _measure_width(shown, size) + 0.1)
        left = right if joined or not right else right + 0.06
        if right and left + wide > width:
            line, left = line + 1, 0.0
        boxes.append(TokenBox(token, line, left, max(wide, 0.3), shown, size, joined))
        right = left + boxes[-1].width
    if not _is_right_to_left(text):
        return boxes
    return [
        TokenBox(box.token, box.line, width - box.left - box.width, box.width, box.label, box.size, box.joined)
        for box in boxes
    ]


def _label_tokens(text: str, tokens: Sequence[str], spans: Sequence[Span]) -> Iterator[tuple[str, bool]]:
    """What to show for each token, and whether it continues the word before it."""
    shown, before = 0, ""
    for token, span in zip(tokens, spans, strict=True):
        start, end = span["start"], span["end"]
        if end <= start:
            yield token, False
            continue
        piece = text[max(start, shown) : end]
        joined = bool(before) and start <= shown and not before.isspace() and not piece[:1].isspace()
        yield piece.strip() or "·", joined  # bytes of one character share its span
        shown, before = end, text[end - 1]


def _fit_label(label: str, width: float) -> tuple[str, float]:
    """A label and its size, cut with an ellipsis where even a line of its own is too narrow."""
    size = LETTERS if _measure_width(label, LETTERS) + 0.1 <= width else LETTERS - 2
    if _measure_width(label, size) + 0.1 <= width:
        return label, size
    kept = int(len(label) * (width - 0.3) / _measure_width(label, size))
    return f"{label[:kept]}…", size


def _measure_width(label: str, size: float) -> float:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        wide, _, _ = TextToPath().get_text_width_height_descent(
            label, FontProperties(family="DejaVu Sans", size=size), False
        )
    return float(wide) / 72


def _is_right_to_left(text: str) -> bool:
    strong = (unicodedata.bidirectional(letter) for letter in text)
    return next((kind for kind in strong if kind in ("L", "R", "AL")), "L") != "L"
