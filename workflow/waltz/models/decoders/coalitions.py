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

from waltz.models.decoders.decoder import Decoder, PreparedImage
from waltz.models.decoders.network import States, select_rows
from waltz.models.decoders.outcomes import OUTCOMES, compute_outcomes, select_preceding_targets
from waltz.models.decoders.players import Players
from waltz.models.decoders.shared_prefixes import Row, choose_cuts, count_distinct_beginnings
from waltz.models.games import CoalitionValues

MIN_SHARED = 8
"""Fewest tokens behind the image that games read together."""
MAX_FEATURE_BYTES = 2**30
"""Most bytes of image features that stay for later rounds."""


@dataclass(frozen=True, eq=False)
class Game:
    """A prompt, its players and its outputs.

    Attributes:
        players: The players.
        targets: Token ids, of which each is an output; at least one.
        value: One of `outcomes.VALUES`.
    """

    players: Players
    targets: tuple[int, ...]
    value: str

    def __post_init__(self) -> None:
        """Refuse a game without outputs or with an unknown value."""
        if not self.targets or self.value not in OUTCOMES:
            raise ValueError(f"{len(self.targets)} targets, value {self.value!r}; known are {', '.join(OUTCOMES)}")


class Coalitions(CoalitionValues[Players]):
    """The games of one image (or none) with its prompts (answer, explanation), and the values that are known so far.

    Games whose players are masked alike share masked images, and what stands before and in them.

    Attributes:
        decoder: The model.
        picture: The prepared image, or None.
        games: The games.
        looks: Masked images that passed the vision tower.
        read_positions: Positions that passed the language model.
    """

    def __init__(self, decoder: Decoder, picture: PreparedImage | None, games: Sequence[Game]) -> None:
        """Prepare the games, with no values known.

        Args:
            decoder: The model.
            picture: Prepared by `decoder.prepare_image`.
            games: Games whose prompts show the picture, or no image where it is None.
        """
        super().__init__([game.players for game in games], [len(game.targets) for game in games])
        self.decoder, self.picture, self.games = decoder, picture, list(games)
        self.looks = self.read_positions = 0
        self._layouts = [decoder.build_layout(game.players.prompt, picture) for game in games]
        self._grids = [_find_first_alike(games, index) for index in range(len(games))]
        self._masks: list[tuple[int, bytes]] = []
        self._numbers: dict[tuple[int, bytes], int] = {}
        self._seen: dict[int, torch.Tensor] = {}

    def _evaluate(self, new: list[list[bytes]]) -> None:
        keys_of_rows: list[dict[Row, list[bytes]]] = [{} for _ in self.games]
        for index, keys in enumerate(new):
            for key in keys:
                keys_of_rows[index].setdefault(self._build_row(index, key), []).append(key)
        rows = {index: sorted(keys) for index, keys in enumerate(keys_of_rows) if keys}
        for group in self._group_games(list(rows)):
            shared_ends = self._find_shared_ends(group)
            cuts = {index: self._cut_rows(index, rows[index], shared_ends[-1]) for index in group}
            self._read_shared({index: rows[index] for index in group}, keys_of_rows, shared_ends, cuts, (), {})

    def _build_row(self, index: int, key: bytes) -> Row:
        game = self.games[index]
        mask = np.frombuffer(key, dtype=bool)
        ids = list(game.players.mask_text(mask[game.players.text]))
        if game.players.prompt.image_position is not None:
            look = self._grids[index], mask[game.players.image].tobytes()
            if look not in self._numbers:
                self._numbers[look] = len(self._masks)
                self._masks.append(look)
            ids[game.players.prompt.image_position] = -1 - self._numbers[look]
        return (*ids, *select_preceding_targets(game.targets, game.value))

    def _group_games(self, games: list[int]) -> list[list[int]]:
        """Return groups of games that are read together: all that begin alike up to the image, else each alone."""
        alike = all(
            self._count_shared(games) > (self.games[index].players.prompt.image_position or 0) for index in games
        )
        return [games] if games and alike else [[index] for index in games]

    def _count_shared(self, games: list[int]) -> int:
        """Return the number of tokens with which the prompts of games begin alike."""
        columns = zip(*(self.games[index].players.prompt.ids for index in games), strict=False)
        return sum(1 for _ in itertools.takewhile(lambda ids: len(set(ids)) == 1, columns))

    def _find_shared_ends(self, games: list[int]) -> list[int]:
        """Return where the stretches that games share end: at the image, and where their prompts part."""
        ends = [0]
        if not self.decoder.network.reuses_prefixes:
            return ends
        prompts = [self.games[index].players.prompt for index in games]
        shortest, at = min(len(prompt.ids) for prompt in prompts), prompts[0].image_position
        if at is not None and at + 1 < shortest:
            ends.append(at + 1)
        shared = min(self._count_shared(games), shortest - 1)
        if len(games) > 1 and shared - ends[-1] >= MIN_SHARED:
            ends.append(shared)
        return ends

    def _cut_rows(self, index: int, rows: list[Row], shared_end: int) -> list[int]:
        """Return where the stretches of one game begin and end, so that the fewest positions are computed."""
        if not self.decoder.network.reuses_prefixes:
            return [0, len(rows[0])]
        widths = self._count_positions(index, len(rows[0]))
        return [shared_end, *choose_cuts(count_distinct_beginnings(rows), widths, shared_end, self._count_steps(index))]

    def _read_shared(
        self,
        rows: dict[int, list[Row]],
        keys_of_rows: list[dict[Row, list[bytes]]],
        shared_ends: list[int],
        own_cuts: dict[int, list[int]],
        states: States,
        parents: dict[Row, int],
    ) -> None:
        """Read the next stretch that games share, or each game's own where none is left."""
        if len(shared_ends) == 1:
            for index, game_rows in rows.items():
                if game_rows:
                    widths = self._count_positions(index, len(game_rows[0]))
                    self._read_own(index, keys_of_rows[index], game_rows, own_cuts[index], widths, states, parents)
            return
        start, stop = shared_ends[:2]
        owner = next(index for index, game_rows in rows.items() if game_rows)
        widths = self._count_positions(owner, len(rows[owner][0]))
        nodes = sorted({row[:stop] for game_rows in rows.values() for row in game_rows})
        for batch in _cut_batches(nodes, self.decoder.positions_per_batch // int(widths[stop])):
            past = select_rows(states, [parents[node[:start]] for node in batch]) if start else None
            after = self._read_stretch(owner, batch, start, stop, widths, past)[1]
            here = {node: place for place, node in enumerate(batch)}
            below = {index: [row for row in game_rows if row[:stop] in here] for index, game_rows in rows.items()}
            self._read_shared(below, keys_of_rows, shared_ends[1:], own_cuts, after, here)

    def _count_steps(self, index: int) -> int:
        """Return the number of positions whose logits are used."""
        return len(select_preceding_targets(self.games[index].targets, self.games[index].value)) + 1

    def _read_own(
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
        for batch in _cut_batches(list(nodes), self.decoder.positions_per_batch // int(widths[stop])):
            past = select_rows(states, [parents[node[:start]] for node in batch]) if start else None
            logits, after = self._read_stretch(index, batch, start, stop, widths, past)
            if len(cuts) == 2:
                game = self.games[index]
                for row, values in zip(batch, compute_outcomes(logits, game.targets, game.value), strict=True):
                    self.known[index].update(dict.fromkeys(keys[row], values))
            else:
                below = [row for node in batch for row in nodes[node]]
                here = {node: place for place, node in enumerate(batch)}
                self._read_own(index, keys, below, cuts[1:], widths, after, here)

    def _read_stretch(
        self, index: int, nodes: list[Row], start: int, stop: int, widths: np.ndarray, past: States | None
    ) -> tuple[torch.Tensor, States]:
        """Read a stretch of rows of one game; return logits and states."""
        layout, at = self._layouts[index], self.games[index].players.prompt.image_position
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
            embeds = self.decoder.network.embed(ids)
            places = [at - start + place for place in layout.features]
            embeds[:, places] = self._encode_images([-1 - node[at] for node in nodes]).to(embeds.dtype)
        places_of = layout.extend_positions(self._count_steps(index) - 1)[..., int(widths[start]) : int(widths[stop])]
        positions = places_of.unsqueeze(-2).expand(*places_of.shape[:-1], len(nodes), -1)
        self.read_positions += ids.numel()
        last = self._count_steps(index) if stop == len(widths) - 1 else 1
        return self.decoder.network.compute_logits(ids, positions, past, last, embeds)

    def _encode_images(self, numbers: list[int]) -> torch.Tensor:
        """Return the image features of masked images: (k, features, width)."""
        assert self.picture is not None
        new = [number for number in dict.fromkeys(numbers) if number not in self._seen]
        features = {number: self._seen[number] for number in numbers if number in self._seen}
        for grid in dict.fromkeys(self._masks[number][0] for number in new):
            batch = [number for number in new if self._masks[number][0] == grid]
            masks = np.stack([np.frombuffer(self._masks[number][1], dtype=bool) for number in batch])
            pixels = self.games[grid].players.mask_image(self.decoder, self.picture, masks)
            features.update(zip(batch, self.decoder.encode_image(self.picture, pixels), strict=True))
            self.looks += len(batch)
        for number, states in features.items():
            if (len(self._seen) + 1) * states.numel() * states.element_size() <= MAX_FEATURE_BYTES:
                self._seen[number] = states
        return torch.stack([features[number] for number in numbers])

    def _count_positions(self, index: int, length: int) -> np.ndarray:
        """Return the positions before each symbol of a row, and in all: int64 of shape (length + 1,)."""
        each = np.ones(length, dtype=np.int64)
        at = self.games[index].players.prompt.image_position
        if at is not None:
            each[at] = len(self._layouts[index].block)
        return np.concatenate([[0], each.cumsum()])


def _find_first_alike(games: Sequence[Game], index: int) -> int:
    """Return the first game whose patches are those of this one."""
    mine = games[index].players
    for other, game in enumerate(games[:index]):
        theirs = game.players
        if mine.grid == theirs.grid and mine.raw == theirs.raw and torch.equal(mine.cells, theirs.cells):
            return other
    return index


def _cut_batches(rows: list[Row], size: int) -> Iterator[list[Row]]:
    for first in range(0, len(rows), max(1, size)):
        yield rows[first : first + max(1, size)]
