"""Players of the user's own: words or spans in the place of tokens, and a grid or regions in the place of patches."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
import torch
from PIL import Image

from waltz.core.text_diff import WORD, Span
from waltz.models import games
from waltz.models.decoders.decoder import Decoder, PreparedImage
from waltz.models.encoders.encoder import Encoder

AnyPlayers = TypeVar("AnyPlayers", bound=games.Players)
TOKEN, WORDS = "token", "word"
TextPlayers = str | Sequence[str | tuple[int, int]]
"""`token`, `word`, or spans: pieces of the text, or first and last character (exclusive)."""
ImagePlayers = tuple[int, int] | np.ndarray
"""Rows and columns of a grid, or masks of regions: bool of shape (regions, height, width) of the image."""


def find_spans(text: str, players: Sequence[str | tuple[int, int]], first: int = 0) -> list[Span]:
    """Return the characters of a text that spans stand for.

    Args:
        players: Pieces of the text, each of which occurs once, or pairs of characters.
        first: Character from which pairs are counted.
    Raises:
        ValueError: A piece does not occur, or occurs again, or a pair does not lie in the text.
    """
    spans = []
    for player in players:
        if isinstance(player, str):
            if not player.strip() or text.count(player) != 1:
                raise ValueError(
                    f"players: {player!r} occurs {text.count(player) if player.strip() else 0} times in {text[-80:]!r}"
                    " (expected once); name a longer piece, or its first and last character"
                )
            start = text.index(player)
            spans.append(Span(start=start, end=start + len(player)))
            continue
        start, end = (first + int(place) for place in player)
        if not first <= start < end <= len(text):
            raise ValueError(
                f"players: no characters of the text (got {tuple(player)}, expected 0 <= start < end <="
                f" {len(text) - first}); correct the span"
            )
        spans.append(Span(start=start, end=end))
    return spans


def group_text_players(
    players: AnyPlayers, text: str, tokens: Sequence[Span], text_players: TextPlayers, first: int = 0
) -> AnyPlayers:
    """Return the same image players with words or spans as text players.

    Tokens outside any word stay players of their own; tokens outside any span stay visible and are no players. A token
    that is never masked takes no part in a word or span with others.

    Args:
        players: Players with a token each.
        text: The text of the tokens.
        tokens: Characters of each token, by position.
        text_players: `token`, `word` or spans.
        first: Character from which pairs of characters are counted.
    Raises:
        ValueError: A span is not in the text, has no token, or shares a token with another.
    """
    if text_players == TOKEN:
        return players
    by_words = text_players == WORDS
    if by_words:
        spans = [Span(start=word.start(), end=word.end()) for word in WORD.finditer(text)]
    else:
        spans = find_spans(text, [] if isinstance(text_players, str) else text_players, first)
    members: dict[tuple[bool, int], list[tuple[int, bool]]] = {}
    for position, is_fixed in zip(players.positions, players.always_visible[players.text], strict=True):
        owners = [index for index, span in enumerate(spans) if _overlap(text, tokens[position], span)]
        if len(owners) > 1 and not by_words:
            names = " and ".join(repr(text[spans[index]["start"] : spans[index]["end"]]) for index in owners[:2])
            raise ValueError(f"players: {names} share a token; end the spans between tokens, such as at spaces")
        if owners or by_words:
            key = (True, owners[0]) if owners else (False, position)
            members.setdefault(key, []).append((position, bool(is_fixed)))
    if not by_words and len(members) < len(spans):
        missing = next(span for index, span in enumerate(spans) if (True, index) not in members)
        raise ValueError(f"players: {text[missing['start'] : missing['end']]!r} has no token that could be masked")
    positions: list[int] = []
    groups: list[int] = []
    fixed = []
    for index, tokens_of_player in enumerate(members.values()):
        free = [position for position, is_fixed in tokens_of_player if not is_fixed]
        fixed.append(not free)
        own = free or [position for position, _ in tokens_of_player]
        positions += own
        groups += [index] * len(own)
    image = players.always_visible[players.image]
    visible = [image, np.array(fixed, dtype=bool)] if players.image_first else [np.array(fixed, dtype=bool), image]
    return replace(players, positions=tuple(positions), groups=tuple(groups), always_visible=np.concatenate(visible))


def _overlap(text: str, token: Span, span: Span) -> bool:
    """Return whether a token has characters of a span other than spaces."""
    return bool(text[max(token["start"], span["start"]) : min(token["end"], span["end"])].strip())


def replace_image_players(players: AnyPlayers, cells: torch.Tensor, count: int) -> AnyPlayers:
    """Return the same text players with other image players.

    Args:
        cells: Number of the region that each pixel lies in, `count` where none, as in `games.Players`.
        count: Number of regions.
    Raises:
        ValueError: A region has no pixel that the model reads.
    """
    missing = set(range(count)) - set(torch.unique(cells).tolist())
    if missing:
        raise ValueError(
            f"grid: region {min(missing)} has no pixel of the image as the model reads it, after resizing and cropping;"
            " make it larger, or leave it out"
        )
    text, image = players.always_visible[players.text], np.zeros(count, dtype=bool)
    visible = [image, text] if players.image_first else [text, image]
    return replace(players, grid=0, cells=cells, always_visible=np.concatenate(visible))


def number_encoder_pixels(encoder: Encoder, image: Image.Image, regions: ImagePlayers) -> torch.Tensor:
    """Return the number of the region that each pixel of an encoder's input lies in: int64 of shape (height, width)."""
    prepared = encoder.prepare_image(image)
    if isinstance(regions, tuple):
        return _number_grid(prepared.shape[-2], prepared.shape[-1], regions).to(prepared.device)
    return _trace_regions(encoder.prepare_image, image, regions)[0]


def number_decoder_pixels(decoder: Decoder, picture: PreparedImage, regions: ImagePlayers, raw: bool) -> torch.Tensor:
    """Return the number of the region of each value of a decoder's input, as in `decoders.coalitions.Players`.

    A grid covers the prepared image if it is one tile, else the whole image.

    Args:
        raw: Whether regions are blackened in the raw image, as `published` does for images in several tiles.
    """
    image, pixels = picture.image, picture.pixels
    whole = number_image(picture, regions)
    if raw:
        return torch.from_numpy(whole)
    if isinstance(regions, tuple) and pixels.ndim == 4 and len(pixels) == 1:
        return _number_grid(pixels.shape[-2], pixels.shape[-1], regions)[None, None].to(pixels.device)
    masks = np.arange(count_regions(regions))[:, None, None] == whole
    return _trace_regions(lambda drawing: decoder.prepare_image(drawing).pixels, image, masks)


def number_image(picture: PreparedImage, regions: ImagePlayers) -> np.ndarray:
    """Return the number of the region that each pixel of the whole image lies in: int64 of shape (height, width)."""
    if isinstance(regions, tuple):
        return _number_grid(picture.image.height, picture.image.width, regions).numpy()
    return np.where(regions.any(axis=0), regions.argmax(axis=0), len(regions))


def count_regions(regions: ImagePlayers) -> int:
    """Return the number of image players."""
    return math.prod(regions) if isinstance(regions, tuple) else len(regions)


def _number_grid(height: int, width: int, grid: tuple[int, int]) -> torch.Tensor:
    """Return the patch number of each pixel of a grid of rows and columns, row by row."""
    rows, columns = (
        torch.from_numpy(np.repeat(np.arange(parts), np.diff(np.round(np.linspace(0, size, parts + 1)).astype(int))))
        for size, parts in zip((height, width), grid, strict=True)
    )
    return rows[:, None] * grid[1] + columns[None]


def _trace_regions(
    prepare: Callable[[Image.Image], torch.Tensor], image: Image.Image, masks: np.ndarray
) -> torch.Tensor:
    """Return the region of each value of a prepared image, read off drawings of the regions in white on black.

    The drawings pass the model's processor, so that no rule of resizing, cropping or tiling need be known here.
    """
    black, white = (prepare(Image.new("RGB", image.size, colour)).float() for colour in ("black", "white"))
    half = (black + white) / 2
    cells = torch.full(black.shape, len(masks), dtype=torch.int64, device=black.device)
    for index, mask in enumerate(masks):
        drawing = Image.fromarray(np.where(mask, 255, 0).astype(np.uint8)).convert("RGB")
        cells[(prepare(drawing).float() > half) & (white > black)] = index
    return cells
