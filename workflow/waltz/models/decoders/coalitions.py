"""Players of a decoder (the tokens of a prompt and the patches of its image) and the values of their coalitions.

All target tokens of a coalition come from one pass. Masked tokens stay in their places, so that rows of one game are
of one length, and coalitions that begin alike share keys and values of their beginning. The vision tower sees each
distinct masked image once.
"""

import itertools
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image

from waltz.core.errors import UserError
from waltz.models import games
from waltz.models.decoders.continuations import OUTCOMES, compute_outcomes, select_preceding_targets
from waltz.models.decoders.decoder import Decoder, PreparedImage, Prompt
from waltz.models.decoders.network import RowImage, States, select_rows
from waltz.models.decoders.server import ServedPrompt, Server, encode_png
from waltz.models.games import CoalitionValues

PASS_COST = 64
"""Positions that one more pass is worth."""
COPY_POSITIONS = 256
"""Positions whose keys and values are copied in the time in which one is computed, and less."""
MIN_SHARED = 8
"""Fewest tokens behind the image that games read together."""
SERVED_ROWS = 64
"""Rows, with their masked images, that are sent to a server together."""
MAX_FEATURE_BYTES = 2**30
"""Most bytes of image features that stay for later rounds."""
Row = tuple[int, ...]
"""Ids of a masked prompt and of the targets before the last; a masked image is a negative number in its place."""
NO_CELLS = torch.zeros(0, dtype=torch.int64)
"""Patch numbers without an image."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Players(games.Players):
    """The players of one prompt of a decoder.

    `cells` broadcasts to the shape of the pixels, or is of shape (height, width) of the raw image where `raw`.

    Attributes:
        prompt: The prompt, its image one placeholder.
        raw: Whether patches are blackened in the raw image, before it is prepared.
    """

    prompt: Prompt
    raw: bool = False

    def mask_text(self, mask: np.ndarray) -> tuple[int, ...]:
        """Return the token ids of the prompt under a text mask, bool of shape (words,)."""
        ids = list(self.prompt.ids)
        for place, visible in zip(self.positions, self.spread_text(mask), strict=True):
            if not visible:
                ids[place] = self.masked_id
        return tuple(ids)

    def mask_image(self, decoder: Decoder, picture: PreparedImage, masks: np.ndarray) -> torch.Tensor:
        """Return the prepared image with patches masked: from bool (k, patches) to (k, *pixels.shape)."""
        visible = torch.from_numpy(np.concatenate([masks, np.ones((len(masks), 1), dtype=bool)], axis=1))
        if self.raw:
            raw = np.asarray(picture.image.convert("RGB"))
            masked = [Image.fromarray(raw * row[self.cells].numpy()[..., None]) for row in visible]
            return torch.stack([decoder.prepare_image(image).pixels for image in masked])
        table = visible.to(picture.pixels.device, picture.pixels.dtype)
        return picture.pixels * table[:, self.cells]


def build_equations_players(
    decoder: Decoder,
    prompt: Prompt,
    picture: PreparedImage | None,
    *,
    positions: Sequence[int] | None = None,
    grid: int | None = None,
) -> Players:
    """Return the players of the thesis's definitions: no special tokens, every pixel of the image in some patch.

    Patches of an image that is one tile are those of the tile; of an image in several tiles, those of the whole image.

    Args:
        positions: Positions of the text players; None takes all tokens that are not special.
        grid: Patches a side; ceil(sqrt(n)) of the n text players where None.

    Source:
        Thesis 4.3 and 5.2.
    """
    if positions is None:
        positions = [position for position, special in enumerate(prompt.special) if not special]
    side = _choose_grid(picture, len(positions), grid)
    cells = _number_pixels(decoder, picture, side) if picture is not None else NO_CELLS
    return _build_players(prompt, positions, decoder.masked_id, side, cells)


def build_published_players(
    decoder: Decoder,
    prompt: Prompt,
    picture: PreparedImage | None,
    *,
    masked_id: int | None = None,
    unmasked_ids: Collection[int] = (),
    grid: int | None = None,
    raw: bool = False,
) -> Players:
    """Return the players of the released scripts for decoders: patches, then all ids; other pixels stay visible.

    Args:
        masked_id: Id of a masked token; the decoder's own where None.
        unmasked_ids: Ids that play but are never masked, wherever they stand; the placeholder is always one.
        grid: Patches a side; ceil(sqrt(n)) where None, of the n ids of the prompt but for `Decoder.count_fixed_ids`. An
            explanation takes its answer's.
        raw: Whether patches are blackened in the raw image, as for LLaVA-NeXT and mPLUG-Owl3: they have the width of
            (side of the network's input) // grid and cover the upper left corner only.

    Raises:
        UserError: The prepared image is no single tile, and `raw` is not set.

    Source:
        CC-SHAP-VLM's released scripts.
    """
    fixed = decoder.count_fixed_ids(prompt)
    side = 0
    if picture is not None:
        side = choose_published_grid(decoder, prompt) if grid is None else grid
    cells = NO_CELLS
    if picture is not None:
        height, width = picture.pixels.shape[-2:]
        if raw:
            cells = _number_squares(picture.image.height, picture.image.width, width // side, width // side, side)
        elif _is_one_tile(picture):
            squares = _number_squares(height, width, height // side, width // side, side)
            cells = squares[None, None].to(picture.pixels.device)
        else:
            raise UserError(
                f"models.{decoder.spec.name}: its image is prepared as {tuple(picture.pixels.shape)}, no single tile;"
                " the published code masks such models in the raw image: set raw"
            )
    masked_id = decoder.masked_id if masked_id is None else masked_id
    return _build_players(
        prompt, range(len(prompt.ids)), masked_id, side, cells, unmasked_ids, fixed, image_first=True, raw=raw
    )


def _build_players(
    prompt: Prompt,
    positions: Sequence[int],
    masked_id: int,
    grid: int,
    cells: torch.Tensor,
    unmasked_ids: Collection[int] = (),
    fixed: int = 0,
    *,
    image_first: bool = False,
    raw: bool = False,
) -> Players:
    """Return players, of which those that are never masked, or that masking does not change, are always visible."""
    words = [
        position < fixed or position == prompt.image_position or prompt.ids[position] in (*unmasked_ids, masked_id)
        for position in positions
    ]
    covered = set(torch.unique(cells).tolist())
    patches = [patch not in covered for patch in range(grid**2)]
    return Players(
        prompt=prompt,
        positions=tuple(positions),
        masked_id=masked_id,
        grid=grid,
        cells=cells,
        always_visible=np.array([*patches, *words] if image_first else [*words, *patches], dtype=bool),
        image_first=image_first,
        raw=raw,
    )


def choose_published_grid(decoder: Decoder, prompt: Prompt) -> int:
    """Return the patches a side of the released scripts for the image of a prompt."""
    return max(1, math.ceil(math.sqrt(len(prompt.ids) - decoder.count_fixed_ids(prompt))))


def _choose_grid(picture: PreparedImage | None, players: int, grid: int | None) -> int:
    if picture is None:
        return 0
    return grid if grid is not None else max(1, math.ceil(math.sqrt(players)))


def _is_one_tile(picture: PreparedImage) -> bool:
    return picture.pixels.ndim == 4 and picture.pixels.shape[0] == 1


def _number_squares(height: int, width: int, patch_height: int, patch_width: int, grid: int) -> torch.Tensor:
    """Return the patch number of each pixel for patches of one size from the upper left corner: (height, width)."""
    if not patch_height or not patch_width:
        return torch.full((height, width), grid**2)
    rows, columns = torch.arange(height) // patch_height, torch.arange(width) // patch_width
    inside = (rows < grid)[:, None] & (columns < grid)[None]
    return torch.where(inside, rows[:, None] * grid + columns[None], grid**2)


def _number_pixels(decoder: Decoder, picture: PreparedImage, grid: int) -> torch.Tensor:
    """Return the patch number of each value where patches cover all of the prepared image."""
    if _is_one_tile(picture):
        height, width = picture.pixels.shape[-2:]
        rows, columns = _number_parts(height, grid), _number_parts(width, grid)
        return (rows[:, None] * grid + columns[None])[None, None].to(picture.pixels.device)
    return _trace_patches(decoder, picture, grid)


def _number_parts(size: int, grid: int) -> torch.Tensor:
    """Return for each of `size` pixels in which of `grid` equal parts its middle lies."""
    return ((torch.arange(size) + 0.5) * grid / size).long()


def _trace_patches(decoder: Decoder, picture: PreparedImage, grid: int) -> torch.Tensor:
    """Return the patch number of each value of an image in tiles, read off drawings of the grid.

    The drawings pass the model's processor: their grey stands for the column or the row. A value that is the same in
    black and white images is padding. So no rule of tiling, cropping or ordering need be known here.
    """
    width, height = picture.image.size
    step = 255 // max(1, grid - 1)
    rows, columns = (_number_parts(height, grid) * step)[:, None], (_number_parts(width, grid) * step)[None]
    black, white, row, column = (
        decoder.prepare_image(
            Image.fromarray(grey.expand(height, width).to(torch.uint8).numpy()).convert("RGB")
        ).pixels.to(device="cpu", dtype=torch.float64)
        for grey in (torch.zeros(1, 1), torch.full((1, 1), 255), rows, columns)
    )
    span = white - black
    inside = span > span.amax() / 2
    row, column = (((shade - black) / span * 255 / step).round().clamp(0, grid - 1) for shade in (row, column))
    return torch.where(inside, row * grid + column, float(grid**2)).long().to(picture.pixels.device)


def choose_cuts(distinct: np.ndarray, widths: np.ndarray, start_at: int, steps: int) -> list[int]:
    """Return the cuts of rows of one length that cost least.

    Reading a stretch costs its positions for each distinct beginning, a copy of what stands before, and a pass.

    Args:
        distinct: Number of distinct beginnings of each length, int64 of shape (length + 1,).
        widths: Positions before each symbol, of the same shape.
        start_at: Symbols that were read before.
        steps: Last symbols that must be read in one pass.
    Returns:
        Ends of stretches, the last of which is the length.
    """
    length = len(widths) - 1
    cost, before = np.full(length + 1, np.inf), np.zeros(length + 1, dtype=int)
    cost[start_at] = 0.0
    for stop in range(start_at + 1, length + 1):
        start = np.arange(start_at, stop if stop < length else max(start_at, length - steps) + 1)
        read = distinct[stop] * (widths[stop] - widths[start] + widths[start] / COPY_POSITIONS)
        total = cost[start] + read + PASS_COST
        before[stop], cost[stop] = start[total.argmin()], total.min()
    ends = [length]
    while before[ends[0]] > start_at:
        ends.insert(0, int(before[ends[0]]))
    return ends


def count_distinct_beginnings(rows: list[Row]) -> np.ndarray:
    """Return the number of distinct beginnings of each length of rows in order: int64 of shape (length + 1,)."""
    table = np.array(rows, dtype=np.int64)
    new = np.maximum.accumulate(table[1:] != table[:-1], axis=1).sum(axis=0)
    return np.concatenate([[1], 1 + new])


@dataclass(frozen=True, eq=False)
class Game:
    """A prompt, its players and its outputs.

    Attributes:
        players: The players.
        targets: Token ids, of which each is an output; at least one.
        value: A key of `continuations.OUTCOMES`.
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
        image_count: Masked images that passed the vision tower.
        position_count: Positions that passed the language model.
    """

    def __init__(self, decoder: Decoder, picture: PreparedImage | None, games: Sequence[Game]) -> None:
        """Prepare games whose prompts show the picture (or no image where it is None), with no values known."""
        super().__init__([game.players for game in games], [len(game.targets) for game in games])
        self.decoder, self.picture, self.games = decoder, picture, list(games)
        self.image_count = self.position_count = 0
        self._layouts = [decoder.build_layout(game.players.prompt, picture) for game in games]
        self._preceding = [select_preceding_targets(game.targets, game.value) for game in games]
        self._widths = [self._count_positions(index) for index in range(len(games))]
        self._grids = [_find_first_alike(games, index) for index in range(len(games))]
        self._masks: list[tuple[int, bytes]] = []
        self._numbers: dict[tuple[int, bytes], int] = {}
        self._seen: dict[int, torch.Tensor] = {}

    def _count_positions(self, index: int) -> np.ndarray:
        """Return the positions before each symbol of a game's rows, and in all: int64 of shape (length + 1,)."""
        prompt = self.games[index].players.prompt
        each = np.ones(len(prompt.ids) + len(self._preceding[index]), dtype=np.int64)
        if prompt.image_position is not None:
            each[prompt.image_position] = len(self._layouts[index].block)
        return np.concatenate([[0], each.cumsum()])

    def _evaluate(self, new: list[list[bytes]]) -> None:
        keys_of_rows: list[dict[Row, list[bytes]]] = [{} for _ in self.games]
        for index, keys in enumerate(new):
            for key in keys:
                keys_of_rows[index].setdefault(self._build_row(index, key), []).append(key)
        rows = {index: sorted(keys) for index, keys in enumerate(keys_of_rows) if keys}
        if self.decoder.server is not None:
            for index, game_rows in rows.items():
                self._read_served(self.decoder.server, index, game_rows, keys_of_rows[index])
            return
        for group in self._group_games(list(rows)):
            shared_ends = self._find_shared_ends(group)
            cuts = {index: self._cut_rows(index, rows[index], shared_ends[-1]) for index in group}
            self._read_shared({index: rows[index] for index in group}, keys_of_rows, shared_ends, cuts, (), {})

    def _read_served(self, server: Server, index: int, rows: list[Row], keys: dict[Row, list[bytes]]) -> None:
        """Let a server read the rows of one game."""
        game = self.games[index]
        for first in range(0, len(rows), SERVED_ROWS):
            batch = rows[first : first + SERVED_ROWS]
            prompts = [self._build_served_prompt(server, game.players.prompt, row) for row in batch]
            values_of_rows = server.score([(prompt, game.targets) for prompt in prompts], game.value)
            for row, values in zip(batch, values_of_rows, strict=True):
                self.position_count += len(row)
                self.known[index].update(dict.fromkeys(keys[row], values))
                self.progress(len(keys[row]))

    def _build_served_prompt(self, server: Server, prompt: Prompt, row: Row) -> ServedPrompt:
        """Return the prompt of a row with its masked image."""
        ids, position = list(row[: len(prompt.ids)]), prompt.image_position
        if position is None or self.picture is None:
            return ServedPrompt(ids)
        grid, mask = self._masks[-1 - ids[position]]
        ids[position] = prompt.ids[position]
        masks = np.frombuffer(mask, dtype=bool)[None]
        pixels = self.games[grid].players.mask_image(self.decoder, self.picture, masks)[0]
        return ServedPrompt(ids, encode_png(server.render_pixels(pixels)))

    def _build_row(self, index: int, key: bytes) -> Row:
        players = self.games[index].players
        mask = np.frombuffer(key, dtype=bool)
        ids = list(players.mask_text(mask[players.text]))
        if players.prompt.image_position is not None:
            look = self._grids[index], mask[players.image].tobytes()
            if look not in self._numbers:
                self._numbers[look] = len(self._masks)
                self._masks.append(look)
            ids[players.prompt.image_position] = -1 - self._numbers[look]
        return (*ids, *self._preceding[index])

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
        shortest, image_position = min(len(prompt.ids) for prompt in prompts), prompts[0].image_position
        if image_position is not None and image_position + 1 < shortest:
            ends.append(image_position + 1)
        shared = min(self._count_shared(games), shortest - 1)
        if len(games) > 1 and shared - ends[-1] >= MIN_SHARED:
            ends.append(shared)
        return ends

    def _cut_rows(self, index: int, rows: list[Row], shared_end: int) -> list[int]:
        """Return where the stretches of one game begin and end, so that the fewest positions are computed."""
        if not self.decoder.network.reuses_prefixes:
            return [0, len(rows[0])]
        steps = len(self._preceding[index]) + 1
        return [shared_end, *choose_cuts(count_distinct_beginnings(rows), self._widths[index], shared_end, steps)]

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
                    self._read_own(index, keys_of_rows[index], game_rows, own_cuts[index], states, parents)
            return
        start, stop = shared_ends[:2]
        owner = next(index for index, game_rows in rows.items() if game_rows)
        nodes = sorted({row[:stop] for game_rows in rows.values() for row in game_rows})
        for batch in self._cut_batches(owner, nodes, stop):
            past = select_rows(states, [parents[node[:start]] for node in batch]) if start else None
            _, after = self._read_stretch(owner, batch, start, stop, past)
            here = {node: place for place, node in enumerate(batch)}
            below = {index: [row for row in game_rows if row[:stop] in here] for index, game_rows in rows.items()}
            self._read_shared(below, keys_of_rows, shared_ends[1:], own_cuts, after, here)

    def _read_own(
        self,
        index: int,
        keys: dict[Row, list[bytes]],
        rows: list[Row],
        cuts: list[int],
        states: States,
        parents: dict[Row, int],
    ) -> None:
        """Read rows from the first cut to the second, then on; rows are in order, their beginnings are read."""
        start, stop = cuts[:2]
        nodes: dict[Row, list[Row]] = {}
        for row in rows:
            nodes.setdefault(row[:stop], []).append(row)
        for batch in self._cut_batches(index, list(nodes), stop):
            past = select_rows(states, [parents[node[:start]] for node in batch]) if start else None
            logits, after = self._read_stretch(index, batch, start, stop, past)
            if len(cuts) == 2:
                game = self.games[index]
                for row, values in zip(batch, compute_outcomes(logits, game.targets, game.value), strict=True):
                    self.known[index].update(dict.fromkeys(keys[row], values))
                    self.progress(len(keys[row]))
            else:
                below = [row for node in batch for row in nodes[node]]
                here = {node: place for place, node in enumerate(batch)}
                self._read_own(index, keys, below, cuts[1:], after, here)

    def _cut_batches(self, index: int, nodes: list[Row], stop: int) -> Iterator[list[Row]]:
        """Yield rows in batches that fit on the device when they are read up to a symbol."""
        size = max(1, self.decoder.positions_per_batch // int(self._widths[index][stop]))
        for first in range(0, len(nodes), size):
            yield nodes[first : first + size]

    def _read_stretch(
        self, index: int, nodes: list[Row], start: int, stop: int, past: States | None
    ) -> tuple[torch.Tensor, States]:
        """Read a stretch of rows of one game; return logits and states."""
        layout, widths, steps = self._layouts[index], self._widths[index], len(self._preceding[index]) + 1
        image_position = self.games[index].players.prompt.image_position
        if image_position is not None and start <= image_position < stop:
            stretches = [
                [*node[start:image_position], *layout.block, *node[image_position + 1 : stop]] for node in nodes
            ]
            filled = [image_position - start + offset for offset in layout.features]
            features = self._encode_images([-1 - node[image_position] for node in nodes])
            images = [RowImage(of_row, filled, layout.inputs) for of_row in features]
        else:
            stretches = [[*node[start:stop]] for node in nodes]
            images = []
        ids = torch.tensor(stretches, device=self.decoder.device)
        positions = layout.extend_positions(steps - 1)[..., int(widths[start]) : int(widths[stop])]
        positions = positions.unsqueeze(-2).expand(*positions.shape[:-1], len(nodes), -1)
        self.position_count += ids.numel()
        last_count = steps if stop == len(widths) - 1 else 1
        return self.decoder.network.compute_logits(ids, positions, past, last_count, images)

    def _encode_images(self, numbers: list[int]) -> list[torch.Tensor]:
        """Return the features of each masked image."""
        assert self.picture is not None
        new = [number for number in dict.fromkeys(numbers) if number not in self._seen]
        features = {number: self._seen[number] for number in numbers if number in self._seen}
        for grid in dict.fromkeys(self._masks[number][0] for number in new):
            batch = [number for number in new if self._masks[number][0] == grid]
            masks = np.stack([np.frombuffer(self._masks[number][1], dtype=bool) for number in batch])
            pixels = self.games[grid].players.mask_image(self.decoder, self.picture, masks)
            features.update(zip(batch, self.decoder.encode_image(self.picture, pixels), strict=True))
            self.image_count += len(batch)
        for number, states in features.items():
            if (len(self._seen) + 1) * states.numel() * states.element_size() <= MAX_FEATURE_BYTES:
                self._seen[number] = states
        return [features[number] for number in numbers]


def _find_first_alike(games: Sequence[Game], index: int) -> int:
    """Return the first game whose patches are those of this one."""
    mine = games[index].players
    for other, game in enumerate(games[:index]):
        theirs = game.players
        if mine.grid == theirs.grid and mine.raw == theirs.raw and torch.equal(mine.cells, theirs.cells):
            return other
    return index
