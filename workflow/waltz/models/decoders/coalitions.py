"""Players of a decoder (the tokens of a prompt and the patches of its image) and the values of
their coalitions.

One forward pass gives the logits of all target tokens of a coalition. Masked tokens keep their
positions, so that all rows of a game have the same length. Coalitions whose rows begin alike share
the keys and values of this beginning. The vision tower reads each distinct masked image once.
"""

import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from PIL import Image

from waltz.core.errors import UserError
from waltz.models import games
from waltz.models.batch_size import BatchSize
from waltz.models.batches import iterate_in_halves
from waltz.models.decoders.continuations import (
    MIN_SHARED,
    OUTCOMES,
    compute_outcomes,
    select_preceding_targets,
)
from waltz.models.decoders.decoder import Decoder, PreparedImage, Prompt
from waltz.models.decoders.network import ForwardRequest, RowImage, States, select_rows
from waltz.models.decoders.server import ServedPrompt, Server, encode_png
from waltz.models.games import CoalitionValues

PASS_COST = 64
"""Number of positions that cost as much as one more pass."""
COPY_POSITIONS = 256
"""Number of positions whose keys and values can be copied in the time that the network computes one
position.
"""
SERVED_ROWS = 64
"""Number of rows, with their masked images, that are sent to a server together."""
MAX_FEATURE_BYTES = 2**30
"""Maximum number of bytes of image features that are kept for later rounds of coalitions."""
Row = tuple[int, ...]
"""Ids of a masked prompt and of all targets but the last; a negative number stands for a masked
image.
"""
RowKeys = dict[Row, list[bytes]]
"""Rows in ascending order, each with the coalitions whose values it gives."""
NO_CELLS = torch.zeros(0, dtype=torch.int64)
"""Patch numbers without an image."""
NO_OUTCOMES = torch.zeros(0, 0)
"""Outcomes of rows that are not complete."""


@dataclass(frozen=True, eq=False, kw_only=True)
class DecoderPlayers(games.Players):
    """The players of one prompt of a decoder.

    `cells` broadcasts to the shape of the pixels, or is of shape (height, width) of the raw image
    where `raw`.

    Attributes:
        prompt: The prompt, its image one placeholder.
        raw: Whether patches are blackened in the raw image, before it is prepared.
    """

    prompt: Prompt
    raw: bool = False

    def mask_text(self, mask: np.ndarray) -> tuple[int, ...]:
        """Return the token ids of the prompt under a text mask, bool of shape (text players,)."""
        ids = list(self.prompt.ids)
        for position, visible in zip(
            self.positions, self.spread_text(mask), strict=True
        ):
            if not visible:
                ids[position] = self.masked_id
        return tuple(ids)

    def mask_image(
        self, decoder: Decoder, picture: PreparedImage, masks: np.ndarray
    ) -> torch.Tensor:
        """Return the prepared image with patches masked: from bool (k, patches) to (k,
        *pixels.shape).
        """
        # One more column, always visible, for pixels that lie in no patch: their cell is the number
        # of patches.
        outside = np.ones((len(masks), 1), dtype=bool)
        visible = torch.from_numpy(np.concatenate([masks, outside], axis=1))
        if not self.raw:
            factors = visible.to(picture.pixels.device, picture.pixels.dtype)
            return picture.pixels * factors[:, self.cells]

        levels = np.asarray(picture.image.convert("RGB"))  # (height, width, channels)
        masked_pixels = []
        for row in visible:
            is_visible = row[self.cells].numpy()  # (height, width)
            masked_image = Image.fromarray(levels * is_visible[..., None])
            masked_pixels.append(decoder.prepare_image(masked_image).pixels)
        return torch.stack(masked_pixels)

    def can_mask_text(self) -> bool:
        """Return whether masking changes the prompt; False if each token that may be masked is the
        masked token.
        """
        return self.mask_text(self.always_visible[self.text]) != self.prompt.ids

    def can_mask_image(self, picture: PreparedImage) -> bool:
        """Return whether masking changes the image; False if every pixel has the masked value."""
        inside = self.cells < self.n_image_players
        if self.raw:
            return bool(np.asarray(picture.image.convert("RGB"))[inside.numpy()].any())
        return bool((picture.pixels * inside.to(picture.pixels.device)).any())


def build_equations_players(
    decoder: Decoder,
    prompt: Prompt,
    picture: PreparedImage | None,
    *,
    positions: Sequence[int] | None = None,
    grid: int | None = None,
) -> DecoderPlayers:
    """Return the players of the thesis's definitions: tokens that are not special, and patches that
    cover the image.

    If the prepared image is one tile, the patches divide this tile; if it has several tiles, they
    divide the raw image.

    Args:
        positions: Positions of the text players; None takes all tokens that are not special.
        grid: Patches in each direction; None for ceil(sqrt(n)), with n the number of text players.

    Source:
        Thesis 4.3 and 5.2.
    """
    if positions is None:
        # Special tokens and the placeholder of the image are not players.
        positions = [
            position for position, special in enumerate(prompt.special) if not special
        ]
    if picture is None:
        grid, cells = 0, NO_CELLS
    else:
        if grid is None:
            grid = _choose_grid(len(positions))
        cells = _number_pixels(decoder, picture, grid)
    # A player whose masking changes nothing is always visible.
    fixed_text = _find_fixed_text(prompt, positions, {decoder.masked_id})
    fixed_patches = _find_empty_patches(cells, grid)
    return DecoderPlayers(
        prompt=prompt,
        positions=tuple(positions),
        masked_id=decoder.masked_id,
        grid=grid,
        cells=cells,
        always_visible=np.array([*fixed_text, *fixed_patches], dtype=bool),
    )


def build_published_players(
    decoder: Decoder,
    prompt: Prompt,
    picture: PreparedImage | None,
    *,
    masked_id: int | None = None,
    unmasked_ids: Collection[int] = (),
    grid: int | None = None,
    raw: bool = False,
) -> DecoderPlayers:
    """Return the players of the released scripts for decoders: first patches, then all ids; other
    pixels stay visible.

    Args:
        masked_id: Id of a masked token; None for the decoder's masked id.
        unmasked_ids: Ids that play but are never masked, at any position; the placeholder is never
            masked either.
        grid: Patches in each direction; None for ceil(sqrt(n)), with n the number of ids of the
            prompt less `Decoder.count_fixed_ids`. An explanation uses the grid of its answer.
        raw: Whether patches are blackened in the raw image, as for LLaVA-NeXT and mPLUG-Owl3: they
            have the width of (side of the network's input) // grid and cover the upper left corner
            only.

    Raises:
        UserError: The prepared image is not a single tile, and `raw` is not set.

    Source:
        CC-SHAP-VLM's released scripts.
    """
    if masked_id is None:
        masked_id = decoder.masked_id
    if picture is None:
        grid, cells = 0, NO_CELLS
    else:
        if grid is None:
            grid = choose_published_grid(decoder, prompt)
        cells = _number_published_pixels(decoder, picture, grid, raw)
    # Every id is a player, also special tokens (released scripts of CC-SHAP-VLM).
    positions = range(len(prompt.ids))
    fixed_text = _find_fixed_text(
        prompt, positions, {*unmasked_ids, masked_id}, decoder.count_fixed_ids(prompt)
    )
    fixed_patches = _find_empty_patches(cells, grid)
    return DecoderPlayers(
        prompt=prompt,
        positions=tuple(positions),
        masked_id=masked_id,
        grid=grid,
        cells=cells,
        always_visible=np.array([*fixed_patches, *fixed_text], dtype=bool),
        image_first=True,
        raw=raw,
    )


def _find_fixed_text(
    prompt: Prompt,
    positions: Sequence[int],
    unmasked_ids: Collection[int],
    first_count: int = 0,
) -> list[bool]:
    """Return for each text player whether it is always visible.

    Args:
        unmasked_ids: Ids that are never masked, or that masking does not change.
        first_count: Number of first ids that are never masked.
    """
    fixed = []
    for position in positions:
        is_first = position < first_count
        is_image = position == prompt.image_position
        is_unmasked = prompt.ids[position] in unmasked_ids
        fixed.append(is_first or is_image or is_unmasked)
    return fixed


def _find_empty_patches(cells: torch.Tensor, grid: int) -> list[bool]:
    """Return for each patch whether it contains no pixel, so that masking it does not change the
    image.
    """
    covered = set(torch.unique(cells).tolist())
    return [patch not in covered for patch in range(grid**2)]


def choose_published_grid(decoder: Decoder, prompt: Prompt) -> int:
    """Return the number of patches in each direction that the released scripts use for the image of
    a prompt.
    """
    return _choose_grid(len(prompt.ids) - decoder.count_fixed_ids(prompt))


def _choose_grid(text_players: int) -> int:
    """Return the patches in each direction of the smallest square grid with at least one patch for
    each text player.
    """
    return max(1, math.ceil(math.sqrt(text_players)))


def _is_one_tile(picture: PreparedImage) -> bool:
    return picture.pixels.ndim == 4 and picture.pixels.shape[0] == 1


def _number_published_pixels(
    decoder: Decoder, picture: PreparedImage, grid: int, raw: bool
) -> torch.Tensor:
    """Return the patch number of each pixel as in the released scripts, whose patches have whole
    pixels as width.

    Returns:
        int64 of shape (height, width) of the raw image where `raw`, else (1, 1, height, width) of
        the one tile.
    Raises:
        UserError: The prepared image is not a single tile, and `raw` is not set.
    """
    height, width = picture.pixels.shape[-2:]
    if raw:
        # The released script divides the width of the network's input, and uses the result in the
        # raw image.
        return _number_squares(
            picture.image.height,
            picture.image.width,
            width // grid,
            width // grid,
            grid,
        )
    if _is_one_tile(picture):
        squares = _number_squares(height, width, height // grid, width // grid, grid)
        return squares[None, None].to(picture.pixels.device)
    raise UserError(
        f"models.{decoder.spec.name}: its image is prepared as {tuple(picture.pixels.shape)}, no single tile;"
        " the published code masks such models in the raw image: set raw"
    )


def _number_squares(
    height: int, width: int, patch_height: int, patch_width: int, grid: int
) -> torch.Tensor:
    """Return the patch number of each pixel for patches of one size from the upper left corner:
    (height, width).
    """
    if not patch_height or not patch_width:
        return torch.full((height, width), grid**2)
    rows = torch.arange(height) // patch_height
    columns = torch.arange(width) // patch_width
    inside = (rows < grid)[:, None] & (columns < grid)[None]
    return torch.where(inside, rows[:, None] * grid + columns[None], grid**2)


def _number_pixels(decoder: Decoder, picture: PreparedImage, grid: int) -> torch.Tensor:
    """Return the patch number of each value where patches cover all of the prepared image."""
    if _is_one_tile(picture):
        height, width = picture.pixels.shape[-2:]
        rows, columns = _number_parts(height, grid), _number_parts(width, grid)
        return (rows[:, None] * grid + columns[None])[None, None].to(
            picture.pixels.device
        )
    return _trace_patches(decoder, picture, grid)


def _number_parts(size: int, grid: int) -> torch.Tensor:
    """Return for each of `size` pixels in which of `grid` equal parts its middle lies."""
    return ((torch.arange(size) + 0.5) * grid / size).long()


def _trace_patches(decoder: Decoder, picture: PreparedImage, grid: int) -> torch.Tensor:
    """Return the patch number of each value of a tiled image, found with test images whose gray
    levels encode the grid.

    The model's processor prepares the test images, whose gray level is the column or the row of a
    patch. A value that is equal in a black and a white image is padding. So no rule of tiling,
    cropping or ordering must be known here.
    """
    width, height = picture.image.size
    # Difference of gray between neighboring rows or columns.
    step = 255 // max(1, grid - 1)
    prepare_gray = partial(_prepare_gray, decoder, picture)
    black = prepare_gray(torch.zeros(1, 1))
    white = prepare_gray(torch.full((1, 1), 255))
    row_shades = prepare_gray((_number_parts(height, grid) * step)[:, None])
    column_shades = prepare_gray((_number_parts(width, grid) * step)[None])
    # Black and white are the same if each image is normalized by its own mean and spread.
    if torch.equal(black, white):
        inside = _find_image_values(decoder, picture)
        numbers = _rank_shades(row_shades, inside, grid) * grid
        numbers += _rank_shades(column_shades, inside, grid)
        return numbers.masked_fill(~inside, grid**2).to(picture.pixels.device)

    # Normalization is linear in each channel: black and white give its offset and scale, so the
    # gray can be read off.
    scale = white - black
    inside = scale > scale.amax() / 2

    def read_numbers(shades: torch.Tensor) -> torch.Tensor:
        return ((shades - black) / scale * 255 / step).round().clamp(0, grid - 1)

    numbers = read_numbers(row_shades) * grid + read_numbers(column_shades)
    return torch.where(inside, numbers, float(grid**2)).long().to(picture.pixels.device)


def _prepare_gray(
    decoder: Decoder, picture: PreparedImage, levels: torch.Tensor
) -> torch.Tensor:
    """Return the prepared pixels of a gray image of the picture's size, to which its levels
    broadcast: float64.
    """
    width, height = picture.image.size
    gray = levels.expand(height, width).to(torch.uint8).numpy()
    image = Image.fromarray(gray).convert("RGB")
    return decoder.prepare_image(image).pixels.to(device="cpu", dtype=torch.float64)


def _find_image_values(decoder: Decoder, picture: PreparedImage) -> torch.Tensor:
    """Return which prepared values depend on the image: those that change where black and white are
    exchanged.
    """
    width, height = picture.image.size
    changes = torch.zeros(picture.pixels.shape, dtype=torch.bool)
    # A third of the image is white, so that neither black nor white is the mean of the image.
    for part in (_number_parts(height, 3)[:, None], _number_parts(width, 3)[None]):
        third = (part == 0) * 255
        pixels = _prepare_gray(decoder, picture, third)
        changes |= pixels != _prepare_gray(decoder, picture, 255 - third)
    return changes


def _rank_shades(shades: torch.Tensor, inside: torch.Tensor, grid: int) -> torch.Tensor:
    """Return which of `grid` gray levels each value has, from the darkest: int64."""
    darkest, brightest = shades[inside].min(), shades[inside].max()
    spread = (brightest - darkest).clamp(min=torch.finfo(shades.dtype).tiny)
    ranks = (shades - darkest) / spread * (grid - 1)
    return ranks.round().clamp(0, grid - 1).long()


def choose_cuts(
    distinct: np.ndarray, widths: np.ndarray, start_at: int, steps: int
) -> list[int]:
    """Return the positions at which rows of one length are cut so that reading them costs least.

    Reading a stretch costs its positions for each distinct beginning, a copy of the states before
    it, and a pass.

    Args:
        distinct: Number of distinct beginnings of each length, int64 of shape (length + 1,).
        widths: Positions before each symbol, of the same shape.
        start_at: Number of symbols that were read before.
        steps: Number of last symbols that must be read in one pass.
    Returns:
        Ends of the stretches; the last end is the length of the rows.
    """
    length = len(widths) - 1
    # Shortest path over the ends of stretches: cost[stop] is the least cost of reading all rows up
    # to symbol `stop`, and previous[stop] is where the last stretch of that path starts.
    cost = np.full(length + 1, np.inf)
    previous = np.zeros(length + 1, dtype=int)
    cost[start_at] = 0.0
    for stop in range(start_at + 1, length + 1):
        # The last stretch holds all steps whose logits are wanted.
        last_start = stop - 1 if stop < length else max(start_at, length - steps)
        start = np.arange(start_at, last_start + 1)
        positions_per_row = (
            widths[stop] - widths[start] + widths[start] / COPY_POSITIONS
        )
        total = cost[start] + distinct[stop] * positions_per_row + PASS_COST
        previous[stop], cost[stop] = start[total.argmin()], total.min()

    ends = [length]
    while previous[ends[0]] > start_at:
        ends.insert(0, int(previous[ends[0]]))
    return ends


def count_distinct_beginnings(rows: Sequence[Row]) -> np.ndarray:
    """Return for each length the number of distinct beginnings of sorted rows: int64 of shape
    (length + 1,).
    """
    table = np.array(rows, dtype=np.int64)
    # Rows are sorted, so a beginning is new where a row differs from the one above it in any symbol
    # so far.
    differs = np.maximum.accumulate(table[1:] != table[:-1], axis=1)
    return np.concatenate([[1], 1 + differs.sum(axis=0)])


@dataclass(frozen=True, eq=False)
class Game:
    """A prompt, its players and its outputs.

    Attributes:
        players: The players.
        targets: Token ids; each id is an output of the game, and there is at least one.
        value: A key of `continuations.OUTCOMES`.
    """

    players: DecoderPlayers
    targets: tuple[int, ...]
    value: str

    def __post_init__(self) -> None:
        """Refuse a game without outputs or with an unknown value."""
        if not self.targets or self.value not in OUTCOMES:
            raise ValueError(
                f"{len(self.targets)} targets, value {self.value!r}; known are {', '.join(OUTCOMES)}"
            )

    @property
    def image_position(self) -> int | None:
        """Position of the image's placeholder in the prompt; None without an image."""
        return self.players.prompt.image_position

    @property
    def preceding_targets(self) -> tuple[int, ...]:
        """Target tokens that the network reads behind the prompt."""
        return select_preceding_targets(self.targets, self.value)

    @property
    def step_count(self) -> int:
        """Number of steps whose logits are needed: one after the prompt and one after each
        preceding target.
        """
        return len(self.preceding_targets) + 1


@dataclass(frozen=True)
class MaskedImage:
    """A masked image: the game whose players mask it, and the visible patches as bytes of bool."""

    game: int
    visible: bytes

    def get_mask(self) -> np.ndarray:
        """Return the visible patches: bool of shape (patches,)."""
        return np.frombuffer(self.visible, dtype=bool)


@dataclass(frozen=True, eq=False)
class ReadBeginnings:
    """Beginnings of rows that were read.

    Attributes:
        numbers: Number of each beginning.
        states: Keys and values; row i of each layer belongs to beginning i. Complete rows have none.
        outcomes: Outcomes of complete rows, of shape (rows, targets); empty for others.
    """

    numbers: dict[Row, int] = field(default_factory=dict)
    states: States = ()
    outcomes: torch.Tensor = NO_OUTCOMES

    def select(self, beginnings: Iterable[Row]) -> States | None:
        """Return keys and values of beginnings in this order; None if nothing was read yet."""
        if not self.numbers:
            return None
        return select_rows(
            self.states, [self.numbers[beginning] for beginning in beginnings]
        )


class DecoderCoalitions(CoalitionValues[DecoderPlayers]):
    """The games of one image (or none) with its prompts (answer, explanation), and the values that
    are known so far.

    Games whose players are masked alike share masked images, and keys and values of the text before
    and in them.

    Attributes:
        decoder: The model.
        picture: The prepared image, or None.
        games: The games.
        image_count: Masked images that passed the vision tower.
        position_count: Positions that passed the language model.
    """

    def __init__(
        self, decoder: Decoder, picture: PreparedImage | None, games: Sequence[Game]
    ) -> None:
        """Prepare games whose prompts show the picture (or no image where it is None), with no
        values known.
        """
        super().__init__(
            [game.players for game in games], [len(game.targets) for game in games]
        )
        self.decoder, self.picture, self.games = decoder, picture, list(games)
        self.image_count = self.position_count = 0
        self._layouts = [
            decoder.build_layout(game.players.prompt, picture) for game in games
        ]
        self._widths = [self._count_positions(index) for index in range(len(games))]
        # Games with equal patches share masked images: each refers to the first game with its
        # patches.
        self._masking_games = [
            _find_first_alike(games, index) for index in range(len(games))
        ]
        self._masked_images: list[MaskedImage] = []
        self._image_numbers: dict[MaskedImage, int] = {}
        self._features: dict[int, torch.Tensor] = {}
        # By game and stretch, whose rows need different memory.
        self._batch_sizes: dict[tuple[int, int, int], BatchSize] = {}

    def _count_positions(self, index: int) -> np.ndarray:
        """Return the number of positions before each symbol of a game's rows, then of all: int64 of
        shape (length + 1,).
        """
        game = self.games[index]
        length = len(game.players.prompt.ids) + len(game.preceding_targets)
        widths = np.ones(length, dtype=np.int64)
        if game.image_position is not None:
            widths[game.image_position] = len(self._layouts[index].block)
        return np.concatenate([[0], widths.cumsum()])

    def _evaluate(self, new: list[list[bytes]]) -> None:
        # Different coalitions can have the same row, which is read once.
        rows_of_games: dict[int, RowKeys] = {}
        for index, keys in enumerate(new):
            if keys:
                rows_of_games[index] = self._group_by_row(index, keys)

        # A server keeps its keys and values to itself: its rows are sent complete.
        if self.decoder.server is not None:
            for index, rows in rows_of_games.items():
                self._read_served(self.decoder.server, index, rows)
            return
        for group in self._group_games(list(rows_of_games)):
            shared_ends = self._find_shared_ends(group)
            group_rows = {index: rows_of_games[index] for index in group}
            cuts = {
                index: self._cut_rows(index, list(group_rows[index]), shared_ends[-1])
                for index in group
            }
            self._read_shared(group_rows, shared_ends, cuts, ReadBeginnings())

    def _group_by_row(self, index: int, keys: Iterable[bytes]) -> RowKeys:
        """Return the rows of a game in ascending order, each with the coalitions whose values it
        gives.

        Coalitions share a row if they differ only in tokens whose id equals the id of a masked
        token.
        """
        keys_of_rows: RowKeys = {}
        for key in keys:
            keys_of_rows.setdefault(self._build_row(index, key), []).append(key)
        return {row: keys_of_rows[row] for row in sorted(keys_of_rows)}

    def _read_served(self, server: Server, index: int, rows: RowKeys) -> None:
        """Let a server read the rows of one game."""
        game = self.games[index]
        ordered_rows = list(rows)
        for first in range(0, len(ordered_rows), SERVED_ROWS):
            batch = ordered_rows[first : first + SERVED_ROWS]
            prompts = [
                self._build_served_prompt(server, game.players.prompt, row)
                for row in batch
            ]
            values_of_rows = server.score(
                [(prompt, game.targets) for prompt in prompts], game.value
            )
            for row, values in zip(batch, values_of_rows, strict=True):
                self.position_count += len(row)
                self.known[index].update(dict.fromkeys(rows[row], values))
                self.progress(len(rows[row]))

    def _build_served_prompt(
        self, server: Server, prompt: Prompt, row: Row
    ) -> ServedPrompt:
        """Return the prompt of a row with its masked image."""
        ids, position = list(row[: len(prompt.ids)]), prompt.image_position
        if position is None or self.picture is None:
            return ServedPrompt(ids)
        # The symbol of the masked image becomes the placeholder's id, and the image is sent as
        # pixels.
        masked_image = self._masked_images[_decode_image_number(ids[position])]
        ids[position] = prompt.ids[position]
        players = self.games[masked_image.game].players
        pixels = players.mask_image(
            self.decoder, self.picture, masked_image.get_mask()[None]
        )[0]
        return ServedPrompt(ids, encode_png(server.render_pixels(pixels)))

    def _build_row(self, index: int, key: bytes) -> Row:
        """Return the row of a coalition: masked ids, a negative number for the masked image,
        preceding targets.
        """
        game = self.games[index]
        mask = np.frombuffer(key, dtype=bool)
        ids = list(game.players.mask_text(mask[game.players.text]))
        if game.image_position is not None:
            masked_image = MaskedImage(
                self._masking_games[index], mask[game.players.image].tobytes()
            )
            # Each distinct masked image gets a number when it is met first.
            if masked_image not in self._image_numbers:
                self._image_numbers[masked_image] = len(self._masked_images)
                self._masked_images.append(masked_image)
            ids[game.image_position] = _encode_image_number(
                self._image_numbers[masked_image]
            )
        return (*ids, *game.preceding_targets)

    def _group_games(self, games: list[int]) -> list[list[int]]:
        """Return the groups of games that share passes: all games if they begin alike up to the
        image, else single games.
        """
        shared = self._count_shared(games)
        begin_alike = all(
            shared > (self.games[index].image_position or 0) for index in games
        )
        if games and begin_alike:
            return [games]
        return [[index] for index in games]

    def _count_shared(self, games: list[int]) -> int:
        """Return the number of tokens with which the prompts of games begin alike."""
        columns = zip(
            *(self.games[index].players.prompt.ids for index in games), strict=False
        )
        return sum(
            1 for _ in itertools.takewhile(lambda ids: len(set(ids)) == 1, columns)
        )

    def _can_reuse(self, index: int) -> bool:
        """Return whether rows of a game can share keys and values of their beginnings."""
        return self.decoder.network.can_reuse(int(self._widths[index][-1]))

    def _find_shared_ends(self, games: list[int]) -> list[int]:
        """Return the ends of the stretches that games share: behind the image, and at the first
        token that differs.
        """
        ends = [0]
        if not all(self._can_reuse(index) for index in games):
            return ends
        prompts = [self.games[index].players.prompt for index in games]
        shortest = min(len(prompt.ids) for prompt in prompts)
        image_position = prompts[0].image_position
        if image_position is not None and image_position + 1 < shortest:
            ends.append(image_position + 1)
        # The last token of a prompt is read by its game, since its logits are wanted.
        shared = min(self._count_shared(games), shortest - 1)
        if len(games) > 1 and shared - ends[-1] >= MIN_SHARED:
            ends.append(shared)
        return ends

    def _cut_rows(self, index: int, rows: list[Row], shared_end: int) -> list[int]:
        """Return the beginnings and ends of the stretches of one game that cost least; see
        `choose_cuts`.
        """
        # Without stored keys and values, a row is one stretch.
        if not self._can_reuse(index):
            return [0, len(rows[0])]
        distinct = count_distinct_beginnings(rows)
        return [
            shared_end,
            *choose_cuts(
                distinct, self._widths[index], shared_end, self.games[index].step_count
            ),
        ]

    def _read_shared(
        self,
        rows_of_games: dict[int, RowKeys],
        shared_ends: list[int],
        cuts_of_games: dict[int, list[int]],
        read: ReadBeginnings,
    ) -> None:
        """Read the next stretch that games share, or, if none is left, the rest of each game.

        Args:
            read: All beginnings of the rows up to the first of `shared_ends`.
        """
        if len(shared_ends) == 1:
            for index, rows in rows_of_games.items():
                if rows:
                    self._read_game(index, rows, cuts_of_games[index], read)
            return

        start, stop = shared_ends[:2]
        # The stretch has the same ids in each game, so that the layout of any one of them serves.
        reading_game = next(index for index, rows in rows_of_games.items() if rows)
        beginnings: set[Row] = set()
        for rows in rows_of_games.values():
            beginnings.update(row[:stop] for row in rows)
        for read_batch in self._read_batches(
            reading_game, sorted(beginnings), start, stop, read
        ):
            rows_below = {
                index: {
                    row: keys
                    for row, keys in rows.items()
                    if row[:stop] in read_batch.numbers
                }
                for index, rows in rows_of_games.items()
            }
            self._read_shared(rows_below, shared_ends[1:], cuts_of_games, read_batch)

    def _read_game(
        self, index: int, rows: RowKeys, cuts: list[int], read: ReadBeginnings
    ) -> None:
        """Read rows of one game from the first cut to the second, then recursively to their end.

        Args:
            read: All beginnings of the rows up to the first of `cuts`.
        """
        start, stop = cuts[:2]
        is_end = len(cuts) == 2
        # The rows that continue each distinct beginning up to `stop`.
        rows_below: dict[Row, RowKeys] = {}
        for row, keys in rows.items():
            rows_below.setdefault(row[:stop], {})[row] = keys

        for read_batch in self._read_batches(
            index, list(rows_below), start, stop, read
        ):
            if is_end:
                keys_of_rows = [rows[row] for row in read_batch.numbers]
                self._add_values(index, keys_of_rows, read_batch.outcomes)
                continue
            # The states of this batch are needed by its rows only, so these are finished before the
            # next batch.
            batch_rows: RowKeys = {}
            for beginning in read_batch.numbers:
                batch_rows |= rows_below[beginning]
            self._read_game(index, batch_rows, cuts[1:], read_batch)

    def _read_batches(
        self,
        index: int,
        beginnings: list[Row],
        start: int,
        stop: int,
        read: ReadBeginnings,
    ) -> Iterator[ReadBeginnings]:
        """Read the symbols from `start` to `stop` of rows of one game, in batches that fit on the
        device.

        Args:
            read: All beginnings of the rows up to `start`.
        """
        size = self._get_batch_size(index, start, stop)
        width = int(self._widths[index][stop])
        remaining = beginnings
        while remaining:
            # A row that is longer than the limit is read alone.
            rows = max(1, size.limit // width)
            batch, remaining = remaining[:rows], remaining[rows:]

            def read_part(
                first: int, last: int, batch: list[Row] = batch
            ) -> ReadBeginnings:
                with size.measure((last - first) * width):
                    return self._read_stretch(
                        index, batch[first:last], start, stop, read
                    )

            # A batch that does not fit into memory is halved.
            yield from iterate_in_halves(read_part, len(batch))

    def _get_batch_size(self, index: int, start: int, stop: int) -> BatchSize:
        """Return the number of positions of one game that are read together between two symbols."""
        stretch = (index, start, stop)
        if stretch not in self._batch_sizes:
            self._batch_sizes[stretch] = BatchSize(
                self.decoder.device, self.decoder.positions_per_batch
            )
        return self._batch_sizes[stretch]

    def _read_stretch(
        self,
        index: int,
        beginnings: list[Row],
        start: int,
        stop: int,
        read: ReadBeginnings,
    ) -> ReadBeginnings:
        """Read the symbols from `start` to `stop` of rows of one game in one pass; `read` has their
        beginnings up to `start`.
        """
        game = self.games[index]
        layout = self._layouts[index]
        widths = self._widths[index]
        image_position = game.image_position
        if image_position is None or not start <= image_position < stop:
            stretches = [[*beginning[start:stop]] for beginning in beginnings]
            images: list[RowImage] = []
        else:
            # The ids of the image replace its symbol; its embeddings fill some of their positions.
            stretches = []
            for beginning in beginnings:
                before = beginning[start:image_position]
                behind = beginning[image_position + 1 : stop]
                stretches.append([*before, *layout.block, *behind])
            filled = [image_position - start + offset for offset in layout.features]
            numbers = [
                _decode_image_number(beginning[image_position])
                for beginning in beginnings
            ]
            images = [
                RowImage(features, filled, layout.inputs)
                for features in self._encode_images(numbers)
            ]
        ids = torch.tensor(stretches, device=self.decoder.device)

        # Positions are those of the layout, (positions,) or (axes, positions), repeated for each
        # row.
        positions = layout.extend_positions(len(game.preceding_targets))
        positions = positions[..., int(widths[start]) : int(widths[stop])].unsqueeze(-2)
        positions = positions.expand(*positions.shape[:-2], len(beginnings), -1)

        # Steps with targets lie at the end of the row, in its last stretch.
        is_end = stop == len(widths) - 1
        # The states before it, copied for each row that continues them.
        past = read.select(beginning[:start] for beginning in beginnings)
        last_count = game.step_count if is_end else 1
        logits, states = self.decoder.network.compute_logits(
            ForwardRequest(ids, positions, past, last_count, images)
        )
        rows = {beginning: row for row, beginning in enumerate(beginnings)}
        read_stretch = ReadBeginnings(rows, states)
        if is_end:
            outcomes = compute_outcomes(logits, game.targets, game.value)
            read_stretch = ReadBeginnings(rows, outcomes=outcomes)
        self.position_count += ids.numel()
        return read_stretch

    def _encode_images(self, numbers: list[int]) -> list[torch.Tensor]:
        """Return the features of each masked image, of shape (features, width)."""
        assert self.picture is not None
        features = {
            number: self._features[number]
            for number in numbers
            if number in self._features
        }
        # Masks of one game have one length, so those of each game are encoded in one batch.
        new_numbers: dict[int, list[int]] = {}
        for number in dict.fromkeys(numbers):
            if number not in features:
                new_numbers.setdefault(self._masked_images[number].game, []).append(
                    number
                )
        for game, batch in new_numbers.items():
            masks = np.stack(
                [self._masked_images[number].get_mask() for number in batch]
            )
            pixels = self.games[game].players.mask_image(
                self.decoder, self.picture, masks
            )
            features.update(
                zip(batch, self.decoder.encode_image(self.picture, pixels), strict=True)
            )
            self.image_count += len(batch)

        for number, embeddings in features.items():
            image_bytes = embeddings.numel() * embeddings.element_size()
            if (len(self._features) + 1) * image_bytes <= MAX_FEATURE_BYTES:
                self._features[number] = embeddings
        return [features[number] for number in numbers]


def _encode_image_number(number: int) -> int:
    """Return the symbol of a masked image in a row: negative, so that it is not a token id."""
    return -1 - number


def _decode_image_number(symbol: int) -> int:
    return -1 - symbol


def _find_first_alike(games: Sequence[Game], index: int) -> int:
    """Return the first game whose patches are equal to the patches of this one."""
    players = games[index].players
    for first, game in enumerate(games[:index]):
        earlier = game.players
        same_settings = players.grid == earlier.grid and players.raw == earlier.raw
        if same_settings and torch.equal(players.cells, earlier.cells):
            return first
    return index
