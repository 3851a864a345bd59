"""The players of a decoder: the tokens of a prompt and the patches of its image, under the rules of either profile."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image

from waltz.core.errors import UserError
from waltz.models import games
from waltz.models.decoders.decoder import Decoder, PreparedImage, Prompt


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
        for place, visible in zip(self.positions, mask, strict=True):
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
        decoder: The model.
        prompt: The prompt.
        picture: Its image.
        positions: Positions of the text players; None takes all tokens that are not special.
        grid: Patches a side; ceil(sqrt(n)) of the n text players where None.

    Source:
        Thesis 4.3 and 5.2.
    """
    if positions is None:
        positions = [position for position, special in enumerate(prompt.special) if not special]
    side = _choose_grid(picture, len(positions), grid)
    cells = _number_pixels(decoder, picture, side) if picture is not None else torch.zeros(0, dtype=torch.int64)
    return Players(
        prompt=prompt,
        positions=tuple(positions),
        masked_id=decoder.masked_id,
        grid=side,
        cells=cells,
        always_visible=_find_always_visible(prompt, positions, decoder.masked_id, side, cells, False, frozenset()),
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
) -> Players:
    """Return the players of the released scripts for decoders: patches, then all ids; other pixels stay visible.

    Args:
        decoder: The model.
        prompt: The prompt.
        picture: Its image.
        masked_id: Id of a masked token; the decoder's own where None.
        unmasked_ids: Ids that play but are never masked, wherever they stand; the placeholder is always one.
        grid: Patches a side; ceil(sqrt(n)) of the n ids of the prompt where None. An explanation takes its answer's.
        raw: Whether patches are blackened in the raw image, as for LLaVA-NeXT and mPLUG-Owl3: they have the width of
            (side of the network's input) // grid and cover the upper left corner only.

    Raises:
        UserError: The prepared image is no single tile, and `raw` is not set.

    Source:
        CC-SHAP-VLM's released scripts.
    """
    side = _choose_grid(picture, len(prompt.ids), grid)
    cells = torch.zeros(0, dtype=torch.int64)
    if picture is not None:
        width = picture.pixels.shape[-1] // side
        if raw:
            cells = _number_squares(picture.image.height, picture.image.width, width, width, side)
        elif _is_one_tile(picture):
            height = picture.pixels.shape[-2] // side
            cells = _number_squares(*_get_size(picture), height, width, side)[None, None].to(picture.pixels.device)
        else:
            raise UserError(
                f"models.{decoder.spec.name}: its image is prepared as {tuple(picture.pixels.shape)}, no single tile;"
                " the published code masks such models in the raw image: set raw"
            )
    masked_id = decoder.masked_id if masked_id is None else masked_id
    positions = tuple(range(len(prompt.ids)))
    return Players(
        prompt=prompt,
        positions=positions,
        masked_id=masked_id,
        grid=side,
        cells=cells,
        always_visible=_find_always_visible(prompt, positions, masked_id, side, cells, True, frozenset(unmasked_ids)),
        image_first=True,
        raw=raw,
    )


def _find_always_visible(
    prompt: Prompt,
    positions: Sequence[int],
    masked_id: int,
    grid: int,
    cells: torch.Tensor,
    image_first: bool,
    unmasked_ids: frozenset[int],
) -> np.ndarray:
    """Return for each player whether it is never masked, or masking it changes nothing."""
    words = [
        position == prompt.image_position or prompt.ids[position] in unmasked_ids or prompt.ids[position] == masked_id
        for position in positions
    ]
    covered = set(torch.bincount(cells.flatten(), minlength=1).nonzero().flatten().tolist())
    patches = [patch not in covered for patch in range(grid**2)]
    return np.array([*patches, *words] if image_first else [*words, *patches], dtype=bool)


def _choose_grid(picture: PreparedImage | None, players: int, grid: int | None) -> int:
    if picture is None:
        return 0
    return grid if grid is not None else max(1, math.ceil(math.sqrt(players)))


def _is_one_tile(picture: PreparedImage) -> bool:
    return picture.pixels.ndim == 4 and picture.pixels.shape[0] == 1


def _get_size(picture: PreparedImage) -> tuple[int, int]:
    """Return height and width of a prepared image of one tile."""
    return picture.pixels.shape[-2], picture.pixels.shape[-1]


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
        height, width = _get_size(picture)
        rows, columns = _number_parts(height, grid), _number_parts(width, grid)
        return (rows[:, None] * grid + columns[None])[None, None].to(picture.pixels.device)
    return _trace_patches(decoder, picture, grid)


def _number_parts(size: int, grid: int) -> torch.Tensor:
    """Return for each of `size` pixels in which of `grid` equal parts its middle lies."""
    return ((torch.arange(size) + 0.5) * grid / size).long()


def _trace_patches(decoder: Decoder, picture: PreparedImage, grid: int) -> torch.Tensor:
    """Return the patch number of each value of an image in tiles, read off a drawing of the grid.

    The drawing passes the model's processor: red stands for the column, green for the row, and blue tells the image
    from padding. So no rule of tiling, cropping or ordering need be known here.
    """
    width, height = picture.image.size
    step = 255 // max(1, grid - 1)
    rows, columns = (_number_parts(height, grid) * step)[:, None], (_number_parts(width, grid) * step)[None]
    drawing = torch.stack([columns.expand(height, width), rows.expand(height, width), torch.full((height, width), 255)])
    traced = decoder.prepare_image(Image.fromarray(drawing.permute(1, 2, 0).to(torch.uint8).numpy())).pixels
    blank = decoder.prepare_image(Image.new("RGB", (width, height))).pixels
    full = decoder.prepare_image(Image.new("RGB", (width, height), (255, 255, 255))).pixels
    axis = -3 if traced.ndim > 2 else 1
    shape = traced.shape if traced.ndim > 2 else (len(traced), 3, traced.shape[1] // 3)
    traced, blank, full = (one.reshape(shape).double() for one in (traced, blank, full))
    low, high = (
        blank.amin(dim=_list_other_axes(blank, axis), keepdim=True),
        full.amax(dim=_list_other_axes(full, axis), keepdim=True),
    )
    column, row, inside = ((traced - low) / (high - low) * 255).unbind(dim=axis)
    numbers = (row / step).round().clamp(0, grid - 1) * grid + (column / step).round().clamp(0, grid - 1)
    cells = torch.where(inside > 127, numbers, float(grid**2)).long().unsqueeze(axis)
    return cells.expand(shape).reshape(picture.pixels.shape)


def _list_other_axes(values: torch.Tensor, axis: int) -> tuple[int, ...]:
    return tuple(place for place in range(values.ndim) if place != axis % values.ndim)
