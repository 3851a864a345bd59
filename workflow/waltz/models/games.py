"""Cooperative games that models play: their players, and values of coalitions, each computed once.

A coalition is a row of booleans, true where a player takes part. This module holds what encoders
and decoders share; `encoders` and `decoders` define what a masked input is and how it is read.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import torch

from waltz.core.text_diff import Span
from waltz.models.batches import (
    ProgressCallback,
    ignore_progress,
    transfer_together,
)


@dataclass(frozen=True, eq=False, kw_only=True)
class Players:
    """The players of one text and image: tokens or groups of them, and patches of a square grid or
    other regions.

    Attributes:
        positions: Positions in the token ids that text players stand for.
        groups: Text player of each position, numbered from 0; None if each position is a separate
            player.
        masked_id: Token id that stands for a masked token.
        grid: Patches in each direction; there are grid x grid image players, row by row; 0 without
            an image, and for regions that do not form a square grid.
        cells: For each pixel the number of the image player that it belongs to, or the number of
            image players if it belongs to none: int64.
        always_visible: Whether each player's input is visible in all coalitions: bool of shape
            (players,).
        image_first: Whether image players stand before text players in a coalition.
    """

    positions: tuple[int, ...]
    masked_id: int
    grid: int
    cells: torch.Tensor
    always_visible: np.ndarray
    image_first: bool = False
    groups: tuple[int, ...] | None = None

    @property
    def n_text_players(self) -> int:
        """Number of text players."""
        if self.groups is None:
            return len(self.positions)
        return len(set(self.groups))

    @property
    def n_image_players(self) -> int:
        """Number of image players."""
        return len(self.always_visible) - self.n_text_players

    @property
    def text(self) -> slice:
        """Text players in a coalition."""
        if self.image_first:
            return slice(self.n_image_players, len(self))
        return slice(0, self.n_text_players)

    @property
    def image(self) -> slice:
        """Image players in a coalition."""
        if self.image_first:
            return slice(0, self.n_image_players)
        return slice(self.n_text_players, len(self))

    def __len__(self) -> int:
        """Number of all players."""
        return len(self.always_visible)

    def spread_text(self, masks: np.ndarray) -> np.ndarray:
        """Return masks of text players as masks of their positions.

        Args:
            masks: bool of shape (..., text players).
        Returns:
            bool of shape (..., positions).
        """
        if self.groups is None:
            return masks
        return masks[..., list(self.groups)]

    def list_positions(self) -> list[list[int]]:
        """Return the positions of each text player."""
        if self.groups is None:
            return [[position] for position in self.positions]
        # A group may have several positions, which need not be neighbors.
        members: list[list[int]] = [[] for _ in range(self.n_text_players)]
        for player, position in zip(self.groups, self.positions, strict=True):
            members[player].append(position)
        return members

    def label_text(
        self, tokens: Sequence[str], spans: Sequence[Span]
    ) -> tuple[tuple[str, ...], tuple[Span, ...]]:
        """Return the tokens of each text player, joined, and the characters that it stands for.

        Args:
            tokens: Tokens by position.
            spans: Characters of the text that each token stands for, by position.
        """
        labels, characters = [], []
        for positions in self.list_positions():
            labels.append("".join(tokens[position] for position in positions))
            start = min(spans[position]["start"] for position in positions)
            end = max(spans[position]["end"] for position in positions)
            characters.append(Span(start=start, end=end))
        return tuple(labels), tuple(characters)


GamePlayers = TypeVar("GamePlayers", bound=Players)


@dataclass(frozen=True, eq=False)
class WaitingValues:
    """Values of a batch that are still on their device.

    Attributes:
        game: Number of the game.
        keys_of_rows: The coalitions of each row, as bytes.
        values: Values of the rows, of shape (rows, outputs).
    """

    game: int
    keys_of_rows: Sequence[Sequence[bytes]]
    values: torch.Tensor


class CoalitionValues(ABC, Generic[GamePlayers]):
    """Games that share one image, and the values of their coalitions that are known so far.

    Attributes:
        players: Players of each game.
        known: For each game, values, float64 of shape (outputs,), by coalition (as bytes of the
            visible players). Values that are stored elsewhere may be put here and are then not
            computed.
        requested: For each game, the coalitions that `values` was called with.
        progress: Called with the number of coalitions whose values were computed.
    """

    def __init__(self, players: Sequence[GamePlayers], outputs: Sequence[int]) -> None:
        """Prepare the games, with no values known."""
        self.players = list(players)
        self.known: list[dict[bytes, np.ndarray]] = [{} for _ in players]
        self.requested: list[set[bytes]] = [set() for _ in players]
        self.progress: ProgressCallback = ignore_progress
        self._outputs = list(outputs)
        self._waiting: list[WaitingValues] = []

    @torch.inference_mode()
    def values(self, coalitions: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the values of coalitions of each game, computing those that are not known.

        Args:
            coalitions: For each game, bool of shape (k, players).
        Returns:
            For each game, float64 of shape (k, outputs).
        """
        # Coalitions that differ in players that are always visible have the same input, so the same
        # key.
        keys = []
        for players, masks in zip(self.players, coalitions, strict=True):
            keys.append(encode_masks(masks | players.always_visible))
        new = []
        for known, requested, game_keys in zip(
            self.known, self.requested, keys, strict=True
        ):
            requested.update(game_keys)
            # Each coalition once, in the order of the request.
            new.append([key for key in dict.fromkeys(game_keys) if key not in known])
        if any(new):
            self._evaluate(new)
            self._store_waiting()
        values = []
        for known, game_keys, n_outputs in zip(
            self.known, keys, self._outputs, strict=True
        ):
            game_values = np.array([known[key] for key in game_keys], dtype=np.float64)
            values.append(game_values.reshape(len(game_keys), n_outputs))
        return values

    @abstractmethod
    def _evaluate(self, new: list[list[bytes]]) -> None:
        """Add the values of new coalitions of each game, to `known` or by `_add_values`."""

    def _add_values(
        self, game: int, keys_of_rows: Sequence[Sequence[bytes]], values: torch.Tensor
    ) -> None:
        """Add the values of rows of a batch, of shape (rows, outputs), which stay on their device
        until all batches are computed; a row may be that of several coalitions.
        """
        self._waiting.append(WaitingValues(game, keys_of_rows, values))
        self.progress(sum(map(len, keys_of_rows)))

    def _store_waiting(self) -> None:
        """Bring the values of all batches to `known` by one transfer."""
        # What waits is taken first: after an error, nothing is stored twice.
        batches, self._waiting = self._waiting, []
        arrays = transfer_together([batch.values for batch in batches])
        for batch, array in zip(batches, arrays, strict=True):
            for keys, values in zip(batch.keys_of_rows, array, strict=True):
                self.known[batch.game].update(dict.fromkeys(keys, values))


def encode_masks(masks: np.ndarray) -> list[bytes]:
    """Return the booleans of each row as bytes."""
    rows = np.ascontiguousarray(masks, dtype=bool).tobytes()
    width = masks.shape[1]
    if width == 0:
        return [b""] * len(masks)
    return [rows[start : start + width] for start in range(0, len(rows), width)]


def decode_masks(rows: Sequence[bytes], width: int) -> np.ndarray:
    """Return rows of `encode_masks` as masks, bool of shape (rows, width)."""
    return np.frombuffer(b"".join(rows), dtype=bool).reshape(len(rows), width)


def pack_values(known: Mapping[bytes, np.ndarray]) -> np.ndarray:
    """Return known values of one game as a structured array of `coalition` and `values`; at least
    one is known.
    """
    # All coalitions of a game have one length, and all values one shape.
    coalition, values = next(iter(known.items()))
    layout = [("coalition", f"V{len(coalition)}"), ("values", "f8", (len(values),))]
    # V: bytes of fixed length that may end in zeros.
    return np.array(list(known.items()), dtype=layout)


def unpack_values(packed: np.ndarray) -> dict[bytes, np.ndarray]:
    """Return the known values that `pack_values` packed."""
    return {
        row.tobytes(): values
        for row, values in zip(packed["coalition"], packed["values"], strict=True)
    }
