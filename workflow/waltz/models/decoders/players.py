"""Who plays: the tokens of a prompt and the patches of its image, under the rules of either profile."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image

from waltz.core.errors import UserError
from waltz.models.decoders.decoder import Decoder, Picture, Prompt


@dataclass(frozen=True, eq=False)
class Players:
    """The players of one prompt; a coalition is a row of booleans, true where a player takes part.

    Attributes:
        prompt: The prompt, its image one placeholder.
        positions: Place in the ids of each text player.
        masked_id: Id of a masked token.
        grid: Patches a side; there are grid x grid image players, row by row; 0 without an image.
        cells: Number of the patch that each value of the prepared image lies in, `grid ** 2` where none: int64 that
            broadcasts to the shape of the pixels, or of shape (height, width) of the raw image where `raw`.
        raw: Whether patches are made black in the raw image, before it is prepared.
        image_first: Whether image players stand before text players in a coalition.
        kept: Of each player, whether its input stays whatever the coalition says.
    """

    prompt: Prompt
    positions: tuple[int, ...]
    masked_id: int
    grid: int
    cells: torch.Tensor
    raw: bool
    image_first: bool
    kept: np.ndarray

    @property
    def words(self) -> int:
        """Number of text players."""
        return len(self.positions)

    @property
    def patches(self) -> int:
        """Number of image players."""
        return self.grid**2

    @property
    def text(self) -> slice:
        """Text players in a coalition."""
        return slice(self.patches, len(self)) if self.image_first else slice(0, self.words)

    @property
    def image(self) -> slice:
        """Image players in a coalition."""
        return slice(0, self.patches) if self.image_first else slice(self.words, len(self))

    def __len__(self) -> int:
        """Number of all players."""
        return self.words + self.patches

    def ids(self, mask: np.ndarray) -> tuple[int, ...]:
        """Ids of the prompt under a text mask, bool of shape (words,)."""
        ids = list(self.prompt.ids)
        for place, visible in zip(self.positions, mask, strict=True):
            if not visible:
                ids[place] = self.masked_id
        return tuple(ids)

    def hidden(self, decoder: Decoder, picture: Picture, masks: np.ndarray) -> torch.Tensor:
        """The prepared image with patches hidden: from bool (k, patches) to (k, *pixels.shape)."""
        seen = torch.from_numpy(np.concatenate([masks, np.ones((len(masks), 1), dtype=bool)], axis=1))
        if self.raw:
            raw = np.asarray(picture.image.convert("RGB"))
            black = [Image.fromarray(raw * row[self.cells].numpy()[..., None]) for row in seen]
            return torch.stack([decoder.image(image).pixels for image in black])
        table = seen.to(picture.pixels.device, picture.pixels.dtype)
        return picture.pixels * table[:, self.cells]


def equations(
    decoder: Decoder,
    prompt: Prompt,
    picture: Picture | None,
    *,
    positions: Sequence[int] | None = None,
    grid: int | None = None,
) -> Players:
    """The players of the thesis's definitions: no special tokens, every pixel of the image in some patch.

    Patches of an image that is one tile are those of the tile; of an image in several tiles, those of the whole image.

    Args:
        decoder: The model.
        prompt: The prompt.
        picture: Its image.
        positions: Places of the text players, where not all tokens that are not special play.
        grid: Patches a side; ceil(sqrt(n)) of the n text players where None.

    Source:
        Thesis 4.3 and 5.2.
    """
    plays = [place for place, special in enumerate(prompt.special) if not special]
    chosen = tuple(plays if positions is None else positions)
    side = _side(picture, len(chosen), grid)
    cells = _cells(decoder, picture, side) if picture is not None else torch.zeros(0, dtype=torch.int64)
    return _players(prompt, chosen, decoder.masked_id, side, cells, False, False, frozenset())


def published(
    decoder: Decoder,
    prompt: Prompt,
    picture: Picture | None,
    *,
    masked_id: int | None = None,
    kept_ids: Collection[int] = (),
    grid: int | None = None,
    raw: bool = False,
) -> Players:
    """The players of the released scripts for decoders: patches first, then all ids; the rest of the image is visible.

    Args:
        decoder: The model.
        prompt: The prompt.
        picture: Its image.
        masked_id: Id of a masked token; the decoder's own where None.
        kept_ids: Ids that play but are never masked, wherever they stand; the placeholder is one always.
        grid: Patches a side; ceil(sqrt(n)) of the n ids of the prompt where None. An explanation takes its answer's.
        raw: Whether patches are blackened in the raw image, as for LLaVA-NeXT and mPLUG-Owl3: they have the width of
            (side of the network's input) // grid and cover the upper left corner only.

    Raises:
        UserError: The prepared image is no single tile, and `raw` is not set.

    Source:
        CC-SHAP-VLM's released scripts.
    """
    side = _side(picture, len(prompt.ids), grid)
    cells = torch.zeros(0, dtype=torch.int64)
    if picture is not None:
        width = picture.pixels.shape[-1] // side
        if raw:
            cells = _squares(picture.image.height, picture.image.width, width, width, side)
        elif _one_tile(picture):
            height = picture.pixels.shape[-2] // side
            cells = _squares(*_size(picture), height, width, side)[None, None].to(picture.pixels.device)
        else:
            raise UserError(
                f"models.{decoder.spec.name}: its image is prepared as {tuple(picture.pixels.shape)}, no single tile;"
                " the published code masks such models in the raw image: set raw"
            )
    mask = decoder.masked_id if masked_id is None else masked_id
    return _players(prompt, tuple(range(len(prompt.ids))), mask, side, cells, raw, True, frozenset(kept_ids))


def _players(
    prompt: Prompt,
    positions: tuple[int, ...],
    masked_id: int,
    grid: int,
    cells: torch.Tensor,
    raw: bool,
    image_first: bool,
    kept_ids: frozenset[int],
) -> Players:
    """Players; those are kept whose ids are, or whose masking changes nothing."""
    words = [
        place == prompt.image_at or prompt.ids[place] in kept_ids or prompt.ids[place] == masked_id
        for place in positions
    ]
    covered = set(torch.bincount(cells.flatten(), minlength=1).nonzero().flatten().tolist())
    patches = [patch not in covered for patch in range(grid**2)]
    kept = np.array([*patches, *words] if image_first else [*words, *patches], dtype=bool)
    return Players(prompt, positions, masked_id, grid, cells, raw, image_first, kept)


def _side(picture: Picture | None, players: int, given: int | None) -> int:
    if picture is None:
        return 0
    return given if given is not None else max(1, math.ceil(math.sqrt(players)))


def _one_tile(picture: Picture) -> bool:
    return picture.pixels.ndim == 4 and picture.pixels.shape[0] == 1


def _size(picture: Picture) -> tuple[int, int]:
    """Height and width of a prepared image of one tile."""
    return picture.pixels.shape[-2], picture.pixels.shape[-1]


def _squares(height: int, width: int, patch_height: int, patch_width: int, grid: int) -> torch.Tensor:
    """Numbers of patches of one size from the upper left corner, `grid ** 2` behind them: (height, width)."""
    if not patch_height or not patch_width:
        return torch.full((height, width), grid**2)
    rows, columns = torch.arange(height) // patch_height, torch.arange(width) // patch_width
    inside = (rows < grid)[:, None] & (columns < grid)[None]
    return torch.where(inside, rows[:, None] * grid + columns[None], grid**2)


def _cells(decoder: Decoder, picture: Picture, grid: int) -> torch.Tensor:
    """Numbers of the patches that cover all of the prepared image."""
    if _one_tile(picture):
        height, width = _size(picture)
        rows, columns = _split(height, grid), _split(width, grid)
        return (rows[:, None] * grid + columns[None])[None, None].to(picture.pixels.device)
    return _traced(decoder, picture, grid)


def _split(size: int, grid: int) -> torch.Tensor:
    """Number of the equal part, of `grid`, that the middle of each of `size` pixels lies in."""
    return ((torch.arange(size) + 0.5) * grid / size).long()


def _traced(decoder: Decoder, picture: Picture, grid: int) -> torch.Tensor:
    """Numbers of the patches of an image in tiles, read off a picture of the grid sent through the processor.

    Red tells the column, green the row, and blue the image from padding, so that no rule of tiling, cropping or
    ordering need be known here.
    """
    width, height = picture.image.size
    step = 255 // max(1, grid - 1)
    rows, columns = (_split(height, grid) * step)[:, None], (_split(width, grid) * step)[None]
    drawn = torch.stack([columns.expand(height, width), rows.expand(height, width), torch.full((height, width), 255)])
    traced = decoder.image(Image.fromarray(drawn.permute(1, 2, 0).to(torch.uint8).numpy())).pixels
    blank = decoder.image(Image.new("RGB", (width, height))).pixels
    full = decoder.image(Image.new("RGB", (width, height), (255, 255, 255))).pixels
    axis = -3 if traced.ndim > 2 else 1
    shape = traced.shape if traced.ndim > 2 else (len(traced), 3, traced.shape[1] // 3)
    traced, blank, full = (one.reshape(shape).double() for one in (traced, blank, full))
    low, high = blank.amin(dim=_others(blank, axis), keepdim=True), full.amax(dim=_others(full, axis), keepdim=True)
    column, row, inside = ((traced - low) / (high - low) * 255).unbind(dim=axis)
    numbers = (row / step).round().clamp(0, grid - 1) * grid + (column / step).round().clamp(0, grid - 1)
    cells = torch.where(inside > 127, numbers, float(grid**2)).long().unsqueeze(axis)
    return cells.expand(shape).reshape(picture.pixels.shape)


def _others(values: torch.Tensor, axis: int) -> tuple[int, ...]:
    return tuple(place for place in range(values.ndim) if place != axis % values.ndim)
