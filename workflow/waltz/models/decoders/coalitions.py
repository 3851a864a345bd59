"""Values of coalitions of a decoder's prompt and image: nothing that two coalitions share is computed twice.

All target tokens of a coalition come from one pass. Masked tokens stay in their places, so that rows of one game are of
one length, and coalitions that begin alike share keys and values of their beginning: rows are cut at the same places,
and each distinct beginning up to a cut is read once. The vision tower sees each distinct masked image once.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from waltz.models.decoders.decoder import Decoder, Picture
from waltz.models.decoders.network import States, rows_of
from waltz.models.decoders.outcomes import VALUES, read_off, said_before
from waltz.models.decoders.players import Players
from waltz.models.decoders.shared_prefixes import Row, cuts, distinct_beginnings

SHARED = 8
"""Least number of tokens that games read together behind the image."""
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
        """Add the values of new rows."""
        rows = {index: sorted(found) for index, found in enumerate(new) if found}
        for group in self._groups(list(rows)):
            begun = self._begun(group)
            stops = {index: self._stops(index, rows[index], begun[-1]) for index in group}
            self._begin({index: rows[index] for index in group}, new, begun, stops, (), {})

    def _groups(self, games: list[int]) -> list[list[int]]:
        """Games that begin alike up to the image, which are read together; else each by itself."""
        alike = all(self._shared(games) > (self.games[index].players.prompt.image_at or 0) for index in games)
        return [games] if games and alike else [[index] for index in games]

    def _shared(self, games: list[int]) -> int:
        """Tokens with which the prompts of games begin alike."""
        columns = zip(*(self.games[index].players.prompt.ids for index in games), strict=False)
        return sum(1 for _ in itertools.takewhile(lambda ids: len(set(ids)) == 1, columns))

    def _begun(self, games: list[int]) -> list[int]:
        """Where the stretches that games share begin and end: at the image, and where their prompts part."""
        ends = [0]
        if not self.decoder.network.reuses:
            return ends
        prompts = [self.games[index].players.prompt for index in games]
        shortest, at = min(len(prompt.ids) for prompt in prompts), prompts[0].image_at
        if at is not None and at + 1 < shortest:
            ends.append(at + 1)
        shared = min(self._shared(games), shortest - 1)
        if len(games) > 1 and shared - ends[-1] >= SHARED:
            ends.append(shared)
        return ends

    def _stops(self, index: int, rows: list[Row], begun: int) -> list[int]:
        """Where the stretches of one game begin and end, so that the fewest positions are computed."""
        if not self.decoder.network.reuses:
            return [0, len(rows[0])]
        return [begun, *cuts(distinct_beginnings(rows), self._widths(index, len(rows[0])), begun, self._steps(index))]

    def _begin(
        self,
        rows: dict[int, list[Row]],
        new: list[dict[Row, list[bytes]]],
        begun: list[int],
        stops: dict[int, list[int]],
        states: States,
        parents: dict[Row, int],
    ) -> None:
        """Read the next stretch that games share, or each game's own where none is left."""
        if len(begun) == 1:
            for index, found in rows.items():
                if found:
                    widths = self._widths(index, len(found[0]))
                    self._descend(index, new[index], found, stops[index], widths, states, parents)
            return
        start, stop = begun[:2]
        owner = next(index for index, found in rows.items() if found)
        widths = self._widths(owner, len(rows[owner][0]))
        nodes = sorted({row[:stop] for found in rows.values() for row in found})
        for batch in _cut(nodes, self.decoder.positions_per_batch // int(widths[stop])):
            past = rows_of(states, [parents[node[:start]] for node in batch]) if start else None
            after = self._read(owner, batch, start, stop, widths, past)[1]
            here = {node: place for place, node in enumerate(batch)}
            below = {index: [row for row in found if row[:stop] in here] for index, found in rows.items()}
            self._begin(below, new, begun[1:], stops, after, here)

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
