"""Values of coalitions of a decoder's prompt and image: nothing that two coalitions share is computed twice.

All target tokens of a coalition come from one pass. Masked tokens stay in their places, so that rows of one game are of
one length, and coalitions that begin alike share keys and values of their beginning: rows are cut at the same places,
and each distinct beginning up to a cut is read once. The vision tower sees each distinct masked image once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from waltz.models.decoders.decoder import Decoder, Picture
from waltz.models.decoders.network import States, rows_of
from waltz.models.decoders.outcomes import VALUES, read_off, said_before
from waltz.models.decoders.players import Players

Row = tuple[int, ...]
"""Ids of a masked prompt and of the targets before the last; a masked image is a negative number in its place."""

PASS = 64
"""Positions that one more pass is worth."""
COPY = 64
"""Positions whose keys and values are copied in the time in which one is computed, and less."""
KEPT_BYTES = 2**30
"""Most bytes of what the vision tower saw that stay for later rounds."""


@dataclass(frozen=True, eq=False)
class Game:
    """What is explained of one prompt.

    Attributes:
        players: Who plays.
        targets: Token ids, of which each is an output; at least one.
        value: One of `outcomes.VALUES`.
    """

    players: Players
    targets: tuple[int, ...]
    value: str

    def __post_init__(self) -> None:
        """Refuse a game without outputs or with an unknown value."""
        if not self.targets or self.value not in VALUES:
            raise ValueError(f"{len(self.targets)} targets, value {self.value!r}; known are {', '.join(VALUES)}")


class Coalitions:
    """The games of one image (or none) with its prompts (answer, explanation), and what is known of them so far.

    Games whose players are masked alike share masked images, and what stands before and in them.

    Attributes:
        decoder: The model.
        picture: The prepared image, or None.
        games: The games.
        known: For each game, values, float64 of shape (outputs,), by coalition (as bytes of what is left visible).
        looks: Masked images that passed the vision tower.
        positions: Positions that passed the language model.
    """

    def __init__(self, decoder: Decoder, picture: Picture | None, games: Sequence[Game]) -> None:
        """Prepare the games, with nothing known.

        Args:
            decoder: The model.
            picture: What `decoder.image` made.
            games: Games whose prompts show the picture, or none where it is None.
        """
        self.decoder, self.picture, self.games = decoder, picture, list(games)
        self.known: list[dict[bytes, np.ndarray]] = [{} for _ in games]
        self.looks = self.positions = 0
        self._layouts = [decoder.layout(game.players.prompt, picture) for game in games]
        self._grids = [_first_alike(games, index) for index in range(len(games))]
        self._masks: list[tuple[int, bytes]] = []
        self._numbers: dict[tuple[int, bytes], int] = {}
        self._seen: dict[int, torch.Tensor] = {}

    @torch.inference_mode()
    def values(self, asked: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The values of each coalition of each game.

        Args:
            asked: For each game, bool of shape (k, players).
        Returns:
            For each game, float64 of shape (k, outputs).
        """
        wanted = [
            [row.tobytes() for row in masks | game.players.kept] for game, masks in zip(self.games, asked, strict=True)
        ]
        new: list[dict[Row, list[bytes]]] = [{} for _ in self.games]
        for index, keys in enumerate(wanted):
            for key in dict.fromkeys(keys):
                if key not in self.known[index]:
                    new[index].setdefault(self._row(index, key), []).append(key)
        self._evaluate(new)
        return [
            np.array([self.known[index][key] for key in keys]).reshape(len(keys), len(game.targets))
            for index, (game, keys) in enumerate(zip(self.games, wanted, strict=True))
        ]

    def _row(self, index: int, key: bytes) -> Row:
        game = self.games[index]
        mask = np.frombuffer(key, dtype=bool)
        ids = list(game.players.ids(mask[game.players.text]))
        if game.players.prompt.image_at is not None:
            look = self._grids[index], mask[game.players.image].tobytes()
            if look not in self._numbers:
                self._numbers[look] = len(self._masks)
                self._masks.append(look)
            ids[game.players.prompt.image_at] = -1 - self._numbers[look]
        return (*ids, *said_before(game.targets, game.value))

    def _evaluate(self, new: list[dict[Row, list[bytes]]]) -> None:
        """Add the values of new rows: first beginnings up to the image, shared by all games, then each game."""
        games = {index: sorted(rows) for index, rows in enumerate(new) if rows}
        begun = {index: self._begun(index) for index in games}
        widths = {index: self._widths(index, len(rows[0])) for index, rows in games.items()}
        stops = {index: self._stops(index, rows, widths[index]) for index, rows in games.items()}
        heads = sorted({(begun[index], row[: begun[index]], index) for index, rows in games.items() for row in rows})
        owners = {head: index for _, head, index in reversed(heads)}
        for length in sorted(set(begun.values())):
            owner = next(index for index in games if begun[index] == length)
            size = self.decoder.positions_per_batch // max(1, int(widths[owner][length]))
            for batch in _cut([head for head in owners if len(head) == length], size):
                parents = {head: place for place, head in enumerate(batch)}
                states = self._read(owner, batch, 0, length, widths[owner], None)[1] if length else ()
                for index, rows in games.items():
                    found = [row for row in rows if begun[index] == length and row[:length] in parents]
                    if found:
                        self._descend(index, new[index], found, stops[index], widths[index], states, parents)

    def _begun(self, index: int) -> int:
        """Symbols up to the image, which are read first; none where nothing follows it."""
        prompt = self.games[index].players.prompt
        at = prompt.image_at
        follows = at is not None and at + 1 < len(prompt.ids)
        return at + 1 if at is not None and follows and self.decoder.network.reuses else 0

    def _stops(self, index: int, rows: list[Row], widths: np.ndarray) -> list[int]:
        """Where the stretches of rows begin and end, so that the fewest positions are computed."""
        if not self.decoder.network.reuses:
            return [0, len(rows[0])]
        begun, steps = self._begun(index), self._steps(index)
        return [begun, *cuts(_distinct(rows), widths, begun, steps)]

    def _steps(self, index: int) -> int:
        """Positions whose logits are wanted."""
        return len(said_before(self.games[index].targets, self.games[index].value)) + 1

    def _descend(
        self,
        index: int,
        keys: dict[Row, list[bytes]],
        rows: list[Row],
        cuts: list[int],
        widths: np.ndarray,
        states: States,
        parents: dict[Row, int],
    ) -> None:
        """Read rows from the first cut to the second, then on; rows are in order, their beginnings are read."""
        start, stop = cuts[:2]
        nodes: dict[Row, list[Row]] = {}
        for row in rows:
            nodes.setdefault(row[:stop], []).append(row)
        for batch in _cut(list(nodes), self.decoder.positions_per_batch // int(widths[stop])):
            past = rows_of(states, [parents[node[:start]] for node in batch]) if start else None
            logits, after = self._read(index, batch, start, stop, widths, past)
            if len(cuts) == 2:
                game = self.games[index]
                found = read_off(logits, game.targets, game.value)
                for row, values in zip(batch, found, strict=True):
                    self.known[index].update(dict.fromkeys(keys[row], values))
            else:
                below = [row for node in batch for row in nodes[node]]
                here = {node: place for place, node in enumerate(batch)}
                self._descend(index, keys, below, cuts[1:], widths, after, here)

    def _read(
        self, index: int, nodes: list[Row], start: int, stop: int, widths: np.ndarray, past: States | None
    ) -> tuple[torch.Tensor, States]:
        """Read a stretch of rows of one game."""
        layout, at = self._layouts[index], self.games[index].players.prompt.image_at
        pictured = at is not None and start <= at < stop
        stretches = [
            [*node[start:at], *layout.block, *node[at + 1 : stop]]
            if pictured and at is not None
            else list(node[start:stop])
            for node in nodes
        ]
        ids = torch.tensor(stretches, device=self.decoder.device)
        embeds = None
        if pictured and at is not None:
            embeds = self.decoder.network.embedded(ids)
            places = [at - start + place for place in layout.features]
            embeds[:, places] = self._look([-1 - node[at] for node in nodes]).to(embeds.dtype)
        places_of = layout.followed(self._steps(index) - 1)[..., int(widths[start]) : int(widths[stop])]
        positions = places_of.unsqueeze(-2).expand(*places_of.shape[:-1], len(nodes), -1)
        self.positions += ids.numel()
        last = self._steps(index) if stop == len(widths) - 1 else 1
        return self.decoder.network.read(ids, positions, past, last, embeds)

    def _look(self, numbers: list[int]) -> torch.Tensor:
        """What the vision tower sees of masked images: (k, features, width)."""
        assert self.picture is not None
        new = [number for number in dict.fromkeys(numbers) if number not in self._seen]
        found = {number: self._seen[number] for number in numbers if number in self._seen}
        for grid in dict.fromkeys(self._masks[number][0] for number in new):
            batch = [number for number in new if self._masks[number][0] == grid]
            masks = np.stack([np.frombuffer(self._masks[number][1], dtype=bool) for number in batch])
            pixels = self.games[grid].players.hidden(self.decoder, self.picture, masks)
            found.update(zip(batch, self.decoder.look(self.picture, pixels), strict=True))
            self.looks += len(batch)
        for number, states in found.items():
            if (len(self._seen) + 1) * states.numel() * states.element_size() <= KEPT_BYTES:
                self._seen[number] = states
        return torch.stack([found[number] for number in numbers])

    def _widths(self, index: int, length: int) -> np.ndarray:
        """Positions before each symbol of a row, and in all: int64 of shape (length + 1,)."""
        each = np.ones(length, dtype=np.int64)
        at = self.games[index].players.prompt.image_at
        if at is not None:
            each[at] = len(self._layouts[index].block)
        return np.concatenate([[0], each.cumsum()])


def cuts(distinct: np.ndarray, widths: np.ndarray, begun: int, steps: int) -> list[int]:
    """The cuts of rows of one length that cost least.

    Reading a stretch costs its positions for each distinct beginning, a copy of what stands before, and a pass.

    Args:
        distinct: Number of distinct beginnings of each length, int64 of shape (length + 1,).
        widths: Positions before each symbol, of the same shape.
        begun: Symbols that are read already.
        steps: Last symbols that must be read in one pass.
    Returns:
        Ends of stretches, the last of which is the length.
    """
    length = len(widths) - 1
    cost, before = np.full(length + 1, np.inf), np.zeros(length + 1, dtype=int)
    cost[begun] = 0.0
    for stop in range(begun + 1, length + 1):
        start = np.arange(begun, stop if stop < length else max(begun, length - steps) + 1)
        read = distinct[stop] * (widths[stop] - widths[start] + widths[start] / COPY)
        total = cost[start] + read + PASS
        before[stop], cost[stop] = start[total.argmin()], total.min()
    found = [length]
    while before[found[0]] > begun:
        found.insert(0, int(before[found[0]]))
    return found


def _distinct(rows: list[Row]) -> np.ndarray:
    """Number of distinct beginnings of each length of rows in order: int64 of shape (length + 1,)."""
    table = np.array(rows, dtype=np.int64)
    new = np.maximum.accumulate(table[1:] != table[:-1], axis=1).sum(axis=0)
    return np.concatenate([[1], 1 + new])


def _first_alike(games: Sequence[Game], index: int) -> int:
    """The first game whose patches are those of this one."""
    mine = games[index].players
    for other, game in enumerate(games[:index]):
        theirs = game.players
        if mine.grid == theirs.grid and mine.raw == theirs.raw and torch.equal(mine.cells, theirs.cells):
            return other
    return index


def _cut(rows: list[Row], size: int) -> Iterator[list[Row]]:
    for first in range(0, len(rows), max(1, size)):
        yield rows[first : first + max(1, size)]
