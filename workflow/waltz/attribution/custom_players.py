"""Players that a user chooses: words or spans instead of tokens, and a grid or regions instead of
patches.
"""

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
"""Text players: `token`, `word`, or spans; a span is a piece of the text, or its first character
and its end.
"""
ImagePlayers = tuple[int, int] | np.ndarray
"""Image players: rows and columns of a grid, or masks of regions, bool of shape (regions, height,
width).
"""


def find_spans(
    text: str, players: Sequence[str | tuple[int, int]], first: int = 0
) -> list[Span]:
    """Return the start and end, in the text, of each span that the user chose.

    Args:
        players: Spans: pieces of the text, each of which occurs once, or pairs (start, end) of
            character numbers.
        first: Character of the text at which pairs begin to count.
    Raises:
        ValueError: A piece does not occur or occurs several times, or a pair does not lie in the
            text.
    """
    spans = []
    for player in players:
        if isinstance(player, str):
            spans.append(_find_piece(text, player))
            continue
        start, end = (first + int(character) for character in player)
        if not first <= start < end <= len(text):
            raise ValueError(
                f"players: no characters of the text (got {tuple(player)}, expected 0 <= start < end <="
                f" {len(text) - first}); correct the span"
            )
        spans.append(Span(start=start, end=end))
    return spans


def _find_piece(text: str, piece: str) -> Span:
    """Return the start and end of a piece that occurs once in a text."""
    # An empty piece would occur everywhere.
    occurrences = text.count(piece) if piece.strip() else 0
    if occurrences != 1:
        raise ValueError(
            f"players: {piece!r} occurs {occurrences} times in {text[-80:]!r}"
            " (expected once); name a longer piece, or its first and last character"
        )
    start = text.index(piece)
    return Span(start=start, end=start + len(piece))


def group_text_players(
    players: AnyPlayers,
    text: str,
    tokens: Sequence[Span],
    text_players: TextPlayers,
    first: int = 0,
) -> AnyPlayers:
    """Return players whose text players are words or spans; the image players stay.

    A token outside all words stays a player. A token outside all spans stays visible and does not
    play. A token that is never masked leaves the word or span that it shares with other tokens.

    Args:
        players: Players with one token for each text player.
        text: The text of the tokens.
        tokens: Start and end of each token in the text, by position.
        text_players: `token`, `word` or spans.
        first: Character of the text at which pairs (start, end) begin to count.
    Raises:
        ValueError: A span is not in the text, has no token, or shares a token with another span.
    """
    if isinstance(text_players, str) and text_players == TOKEN:
        return players
    if isinstance(text_players, str):
        spans = [
            Span(start=word.start(), end=word.end()) for word in WORD.finditer(text)
        ]
        members = _group_by_words(players, text, tokens, spans)
    else:
        spans = find_spans(text, text_players, first)
        members = _group_by_spans(players, text, tokens, spans)

    # A group plays with the tokens that can be masked. A group without such tokens is fixed: it
    # stays visible.
    is_masked = dict(
        zip(players.positions, ~players.always_visible[players.text], strict=True)
    )
    positions: list[int] = []
    groups: list[int] = []
    is_fixed = np.zeros(len(members), dtype=bool)
    for number, member_positions in enumerate(members):
        masked_positions = [
            position for position in member_positions if is_masked[position]
        ]
        is_fixed[number] = not masked_positions
        group_positions = masked_positions or member_positions
        positions += group_positions
        groups += [number] * len(group_positions)
    always_visible = _join_modalities(
        players, is_fixed, players.always_visible[players.image]
    )
    return replace(
        players,
        positions=tuple(positions),
        groups=tuple(groups),
        always_visible=always_visible,
    )


def _group_by_words(
    players: games.Players, text: str, tokens: Sequence[Span], words: Sequence[Span]
) -> list[list[int]]:
    """Return the positions of each word's tokens, and of each token outside any word, in the order
    of the text.
    """
    members: dict[tuple[str, int], list[int]] = {}
    for position in players.positions:
        # A token that reaches into two words belongs to the first.
        owners = _find_owners(text, tokens[position], words)
        key = ("word", owners[0]) if owners else ("token", position)
        members.setdefault(key, []).append(position)
    return list(members.values())


def _group_by_spans(
    players: games.Players, text: str, tokens: Sequence[Span], spans: Sequence[Span]
) -> list[list[int]]:
    """Return the positions of each span's tokens, in the order in which the spans are given."""
    members: dict[int, list[int]] = {}
    for position in players.positions:
        owners = _find_owners(text, tokens[position], spans)
        if len(owners) > 1:
            names = " and ".join(repr(_cut(text, spans[owner])) for owner in owners[:2])
            raise ValueError(
                f"players: {names} share a token; end the spans between tokens, such as at spaces"
            )
        if owners:
            members.setdefault(owners[0], []).append(position)
    for number, span in enumerate(spans):
        if number not in members:
            raise ValueError(
                f"players: {_cut(text, span)!r} has no token that could be masked; name a piece with a token"
            )
    return [members[number] for number in range(len(spans))]


def _find_owners(text: str, token: Span, spans: Sequence[Span]) -> list[int]:
    """Return the numbers of the spans that share at least one character, other than spaces, with a
    token.
    """
    return [number for number, span in enumerate(spans) if _overlap(text, token, span)]


def _cut(text: str, span: Span) -> str:
    return text[span["start"] : span["end"]]


def _overlap(text: str, token: Span, span: Span) -> bool:
    """Return whether a token and a span share at least one character other than spaces."""
    start = max(token["start"], span["start"])
    end = min(token["end"], span["end"])
    return bool(text[start:end].strip())


def _join_modalities(
    players: games.Players, text: np.ndarray, image: np.ndarray
) -> np.ndarray:
    """Join the values of text players and of image players in the order of the game."""
    if players.image_first:
        return np.concatenate([image, text])
    return np.concatenate([text, image])


def replace_image_players(
    players: AnyPlayers, cells: torch.Tensor, count: int
) -> AnyPlayers:
    """Return players whose image players are the given regions; the text players stay.

    Args:
        cells: Number of the region of each pixel, or `count` for a pixel outside all regions, as in
            `games.Players`.
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
    no_region = np.zeros(count, dtype=bool)
    always_visible = _join_modalities(
        players, players.always_visible[players.text], no_region
    )
    return replace(players, grid=0, cells=cells, always_visible=always_visible)


def number_encoder_pixels(
    encoder: Encoder, image: Image.Image, regions: ImagePlayers
) -> torch.Tensor:
    """Return the number of the region of each pixel of an encoder's input: int64 of shape (height,
    width).
    """
    prepared = encoder.prepare_image(image)
    if isinstance(regions, tuple):
        return _number_grid(prepared.shape[-2], prepared.shape[-1], regions).to(
            prepared.device
        )
    return _trace_regions(encoder.prepare_image, image, regions)[0]


def number_decoder_pixels(
    decoder: Decoder, picture: PreparedImage, regions: ImagePlayers, raw: bool
) -> torch.Tensor:
    """Return the number of the region of each value of a decoder's input, as in
    `DecoderPlayers`.

    A grid covers the prepared image if the image is a single tile, else the raw image.

    Args:
        raw: Whether regions are blackened in the raw image, as `published` does for images in
            several tiles.
    """
    pixels = picture.pixels
    image_regions = number_image(picture, regions)
    if raw:
        return torch.from_numpy(image_regions)
    is_one_tile = pixels.ndim == 4 and len(pixels) == 1
    if isinstance(regions, tuple) and is_one_tile:
        return _number_grid(pixels.shape[-2], pixels.shape[-1], regions)[None, None].to(
            pixels.device
        )
    # Regions of several tiles are traced through the model's processor.
    # (regions, height, width)
    masks = np.arange(count_regions(regions))[:, None, None] == image_regions
    return _trace_regions(
        lambda drawing: decoder.prepare_image(drawing).pixels, picture.image, masks
    )


def number_image(picture: PreparedImage, regions: ImagePlayers) -> np.ndarray:
    """Return the number of the region of each pixel of the raw image: int64 of shape (height,
    width).
    """
    if isinstance(regions, tuple):
        return _number_grid(picture.image.height, picture.image.width, regions).numpy()
    # Axis 0 is the regions, which do not overlap; pixels outside all regions get the number of
    # regions.
    return np.where(regions.any(axis=0), regions.argmax(axis=0), len(regions))


def count_regions(regions: ImagePlayers) -> int:
    """Return the number of image players."""
    if isinstance(regions, tuple):
        return math.prod(regions)
    return len(regions)


def _number_grid(height: int, width: int, grid: tuple[int, int]) -> torch.Tensor:
    """Return the number of the patch of each pixel, counted row by row: int64 of shape (height,
    width).
    """
    rows = _number_intervals(height, grid[0])  # (height,)
    columns = _number_intervals(width, grid[1])  # (width,)
    return rows[:, None] * grid[1] + columns[None]


def _number_intervals(size: int, parts: int) -> torch.Tensor:
    """Cut a length into about equal intervals and return the interval of each pixel: int64 of shape
    (size,).
    """
    edges = np.round(np.linspace(0, size, parts + 1)).astype(int)
    return torch.from_numpy(np.repeat(np.arange(parts), np.diff(edges)))


def _trace_regions(
    prepare: Callable[[Image.Image], torch.Tensor],
    image: Image.Image,
    masks: np.ndarray,
) -> torch.Tensor:
    """Return the number of the region of each value of a prepared image.

    Each region is drawn in white on a black image, and the drawing passes through the model's
    processor. No rule of resizing, cropping or tiling is therefore repeated here.
    """
    black = prepare(Image.new("RGB", image.size, "black")).float()
    white = prepare(Image.new("RGB", image.size, "white")).float()
    gray = (black + white) / 2
    # Padding has the same value for every image, so that white does not exceed black there.
    is_image = white > black
    cells = torch.full(black.shape, len(masks), dtype=torch.int64, device=black.device)
    for region, mask in enumerate(masks):
        drawing = Image.fromarray(np.where(mask, 255, 0).astype(np.uint8)).convert(
            "RGB"
        )
        cells[(prepare(drawing).float() > gray) & is_image] = region
    return cells
