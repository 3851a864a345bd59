"""Values of coalitions: one image with some texts, where no masked text, masked image or pair is computed twice."""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import numpy as np
import torch

from waltz.models.encoders.encoder import Encoder, States
from waltz.models.encoders.players import Players
from waltz.models.memory import run_in_halves

Row = TypeVar("Row")

Outcome = Callable[[torch.Tensor], torch.Tensor]
"""From logits of shape (k,) to the explained value of the same shape."""

KEPT = 2**29
"""Most bytes of image states of early fusion that stay for later rounds; what is beyond is seen again."""


class Coalitions:
    """The games of one image with its texts (caption, foil), and what is known of them so far.

    What is computed together depends on what is asked alone, so that a budget of two rounds gives, for the first, the
    very numbers of a budget of one. Memory is bounded by the batch and by `KEPT`, but for one vector a masked image of
    late fusion, the states of masked texts, and the values.

    Attributes:
        encoder: The model.
        image: The prepared image.
        games: Players of each text.
        known: For each game, value by coalition (as bytes of what is left visible). What is stored elsewhere may be
            put here, and is then never computed.
        looks: Masked images that passed the encoder.
        readings: Masked texts that did.
        pairs: Pairs of both that were fused.
    """

    def __init__(self, encoder: Encoder, image: torch.Tensor, games: Sequence[Players], outcome: Outcome) -> None:
        """Prepare the games, with nothing known.

        Args:
            encoder: The model.
            image: What `encoder.image` made.
            games: Players of each text with this image.
            outcome: What is explained of a logit.
        """
        self.encoder, self.image, self.games = encoder, image, list(games)
        self.known: list[dict[bytes, float]] = [{} for _ in games]
        self.looks = self.readings = self.pairs = 0
        self._outcome = outcome
        self._texts = [_Side() for game in games]
        self._images = {game.grid: _Side() for game in games}

    @torch.inference_mode()
    def values(self, asked: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The value of each coalition of each game.

        Args:
            asked: For each game, bool of shape (k, players).
        Returns:
            For each game, float64 of shape (k, 1).
        """
        wanted = [_keys(masks | game.kept) for game, masks in zip(self.games, asked, strict=True)]
        new = [
            [key for key in dict.fromkeys(keys) if key not in known]
            for known, keys in zip(self.known, wanted, strict=True)
        ]
        for grid, side in self._images.items():
            here = [keys if game.grid == grid else [] for game, keys in zip(self.games, new, strict=True)]
            if any(here):
                self._evaluate(side, grid, here)
        return [
            np.fromiter(map(known.__getitem__, keys), dtype=np.float64, count=len(keys)).reshape(-1, 1)
            for known, keys in zip(self.known, wanted, strict=True)
        ]

    def _evaluate(self, side: "_Side", grid: int, new: list[list[bytes]]) -> None:
        """Add the values of new coalitions of the games with one grid, batch of images by batch of images."""
        texts = [self._read(index, [key[: self.games[index].words] for key in keys]) for index, keys in enumerate(new)]
        looks = [[key[self.games[index].words :] for key in keys] for index, keys in enumerate(new)]
        distinct = list(dict.fromkeys(look for many in looks for look in many))
        waiting = [look for look in distinct if look not in side.rows]
        if self.encoder.late:
            for batch in cut(waiting, self.encoder.images_per_batch):
                side.add(batch, self._see(grid, batch))
            for index, keys in enumerate(new):
                self._fuse(index, keys, texts[index], [side.rows[look] for look in looks[index]], side.states)
            return
        held = [look for look in distinct if look in side.rows]
        batches = [(batch, True) for batch in cut(held, self.encoder.images_per_batch)]
        batches += [(batch, False) for batch in cut(waiting, self.encoder.images_per_batch)]
        for batch, known in batches:
            states = side.taken(batch) if known else self._see(grid, batch)
            rows = {look: row for row, look in enumerate(batch)}
            for index, keys in enumerate(new):
                places = [place for place, look in enumerate(looks[index]) if look in rows]
                images = [rows[looks[index][place]] for place in places]
                chosen = [keys[place] for place in places]
                self._fuse(index, chosen, [texts[index][place] for place in places], images, states)
            if not known and side.size + _size(states) <= KEPT:
                side.add(batch, states)

    def _see(self, grid: int, looks: Sequence[bytes]) -> States:
        """States of some masked images."""
        game = next(game for game in self.games if game.grid == grid)
        self.looks += len(looks)
        return run_in_halves(
            lambda first, last: self.encoder.see(game.hidden(self.image, _masks(looks[first:last], game.patches))),
            len(looks),
            joined,
        )

    def _read(self, index: int, texts: list[bytes]) -> list[int]:
        """Rows of some masked texts among the states of a game's texts; those that are new are read."""
        game, side = self.games[index], self._texts[index]
        waiting = [text for text in dict.fromkeys(texts) if text not in side.rows]
        for batch in cut(waiting, self.encoder.texts_per_batch):
            ids = game.ids(_masks(batch, game.words)).to(self.encoder.device)
            side.add(batch, run_in_halves(partial(_part, self.encoder.read, ids), len(batch), joined))
            self.readings += len(batch)
        return [side.rows[text] for text in texts]

    def _fuse(self, index: int, keys: list[bytes], texts: list[int], images: list[int], states: States) -> None:
        """Add the values of coalitions whose texts and images are seen."""
        if not keys:
            return
        words = self._texts[index].states
        text, image = (torch.tensor(rows, device=self.encoder.device) for rows in (texts, images))
        for first in range(0, len(keys), self.encoder.pairs_per_batch):
            last = min(first + self.encoder.pairs_per_batch, len(keys))

            def logits(start: int, end: int, first: int = first) -> States:
                rows = slice(first + start, first + end)
                return (self.encoder.fuse(_taken(words, text[rows]), _taken(states, image[rows])),)

            found = self._outcome(run_in_halves(logits, last - first, joined)[0]).double().cpu().tolist()
            self.known[index].update(zip(keys[first:last], found, strict=True))
        self.pairs += len(keys)


class _Side:
    """States of masked texts or images, in the order in which they were computed.

    Attributes:
        rows: Row of a mask among the states.
        size: Bytes of the states.
    """

    def __init__(self) -> None:
        self.rows: dict[bytes, int] = {}
        self.size = 0
        self._parts: list[States] = []
        self._places: list[tuple[int, int]] = []

    def add(self, masks: Sequence[bytes], states: States) -> None:
        self.rows.update(zip(masks, range(len(self.rows), len(self.rows) + len(masks)), strict=True))
        self._places += [(len(self._parts), row) for row in range(len(masks))]
        self._parts.append(states)
        self.size += _size(states)

    @property
    def states(self) -> States:
        """All states; those of late fusion and of texts are small."""
        if len(self._parts) > 1:
            self._parts = [joined(self._parts)]
            self._places = [(0, row) for row in range(len(self._places))]
        return self._parts[0]

    def taken(self, masks: Sequence[bytes]) -> States:
        """States of some masks, without a copy of the others."""
        found = [tuple(tensor[row] for tensor in self._parts[part]) for part, row in map(self._place, masks)]
        return tuple(torch.stack(tensors) for tensors in zip(*found, strict=True))

    def _place(self, mask: bytes) -> tuple[int, int]:
        return self._places[self.rows[mask]]


def cut(rows: Sequence[Row], size: int) -> Iterator[Sequence[Row]]:
    """Rows in as few batches of at most `size` as can be, all of about one length: a short rest is slow a row."""
    batches = math.ceil(len(rows) / size)
    for number in range(batches):
        yield rows[number * len(rows) // batches : (number + 1) * len(rows) // batches]


def joined(parts: Sequence[States]) -> States:
    """States of one side, batch after batch."""
    return tuple(torch.cat(tensors) for tensors in zip(*parts, strict=True))


def _size(states: States) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in states)


def _part(read: Callable[[torch.Tensor], States], ids: torch.Tensor, first: int, last: int) -> States:
    return read(ids[first:last])


def _taken(states: States, rows: torch.Tensor) -> States:
    return tuple(tensor.index_select(0, rows) for tensor in states)


def _keys(masks: np.ndarray) -> list[bytes]:
    """Each row's booleans as bytes."""
    rows = np.ascontiguousarray(masks, dtype=bool).tobytes()
    width = masks.shape[1]
    return [rows[start : start + width] for start in range(0, len(rows), width)] if width else [b""] * len(masks)


def _masks(keys: Sequence[bytes], width: int) -> np.ndarray:
    return np.frombuffer(b"".join(keys), dtype=bool).reshape(len(keys), width)
