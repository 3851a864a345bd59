"""Layout of a text's tokens in lines, in which the pieces of a word touch."""

import unicodedata
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextToPath

from waltz.core.text_diff import Span

FONT_SIZE = 8.5
"""Font size of tokens, in points."""


@dataclass(frozen=True)
class TokenBox:
    """Position of a token in the lines of a text, in inches; `joined` to the previous piece."""

    token: int
    line: int
    left: float
    width: float
    label: str
    size: float
    joined: bool


def lay_out_tokens(text: str, tokens: Sequence[str], spans: Sequence[Span], width: float) -> list[TokenBox]:
    """Lay out tokens as boxes in lines; pieces of a word touch, and words break at the end of a line.

    A text that begins in a script written from right to left runs from the right.

    Args:
        text: The text.
        tokens: Its tokens as the tokenizer spells them.
        spans: Characters of each token.
        width: Width of a line, in inches.
    Returns:
        Boxes in the order of the tokens. A label wider than a line is cut.
    """
    labels = _label_tokens(text, tokens, spans)
    boxes: list[TokenBox] = []
    line, right = 0, 0.0
    for token, (label, joined) in enumerate(labels):
        shortened, size = _fit_label(label, width)
        box_width = min(width, _measure_width(shortened, size) + 0.1)
        left = right if joined or not right else right + 0.06
        if right and left + box_width > width:
            line, left = line + 1, 0.0
        boxes.append(TokenBox(token, line, left, max(box_width, 0.3), shortened, size, joined))
        right = left + boxes[-1].width
    if not _is_right_to_left(text):
        return boxes
    return [
        TokenBox(box.token, box.line, width - box.left - box.width, box.width, box.label, box.size, box.joined)
        for box in boxes
    ]


def _label_tokens(text: str, tokens: Sequence[str], spans: Sequence[Span]) -> Iterator[tuple[str, bool]]:
    """Yield the label of each token, and whether it continues the previous word."""
    position, last = 0, ""
    for token, span in zip(tokens, spans, strict=True):
        start, end = span["start"], span["end"]
        if end <= start:
            yield token, False
            continue
        piece = text[max(start, position) : end]
        joined = bool(last) and start <= position and not last.isspace() and not piece[:1].isspace()
        yield piece.strip() or "·", joined  # tokens of one character share its span
        position, last = end, text[end - 1]


def _fit_label(label: str, width: float) -> tuple[str, float]:
    """Return a label and its font size, cut with an ellipsis where it is wider than a line."""
    size = FONT_SIZE if _measure_width(label, FONT_SIZE) + 0.1 <= width else FONT_SIZE - 2
    if _measure_width(label, size) + 0.1 <= width:
        return label, size
    n_letters = int(len(label) * (width - 0.3) / _measure_width(label, size))
    return f"{label[:n_letters]}…", size


def _measure_width(label: str, size: float) -> float:
    """Return the width of a label in inches."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        points, _, _ = TextToPath().get_text_width_height_descent(
            label, FontProperties(family="DejaVu Sans", size=size), False
        )
    return float(points) / 72


def _is_right_to_left(text: str) -> bool:
    """Return whether a text begins in a script written from right to left."""
    directions = (unicodedata.bidirectional(letter) for letter in text)
    return next((kind for kind in directions if kind in ("L", "R", "AL")), "L") != "L"
