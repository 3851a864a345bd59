"""What a decoder sees of an image, and which patch each of its pixels lies in, to be drawn."""

import numpy as np
import torch
from PIL import Image

from waltz.models.decoders.decoder import Decoder, Picture
from waltz.models.decoders.players import Players

RAW = 255
"""White in an image file."""


def seen(decoder: Decoder, picture: Picture, who: Players) -> tuple[np.ndarray, np.ndarray]:
    """What a decoder sees of an image, RGB in [0, 1] of shape (height, width, 3), and the patch of each pixel.

    An image that is one tile is shown as prepared, before its normalisation; else the whole image is shown.

    Args:
        decoder: The decoder.
        picture: The prepared image.
        who: The players of a prompt with that image.
    """
    pixels, image = picture.pixels, picture.image
    if who.raw or pixels.ndim != 4 or len(pixels) != 1:
        shown = np.asarray(image.convert("RGB"), dtype=np.float64) / RAW
        return shown, who.cells.numpy() if who.raw else _equal_parts(image.height, image.width, who.grid)
    black, white = (decoder.image(Image.new("RGB", image.size, colour)).pixels for colour in ("black", "white"))
    tile = ((pixels - black) / torch.where(white == black, 1, white - black)).clamp(0, 1)
    return tile[0].permute(1, 2, 0).cpu().numpy(), who.cells[0, 0].cpu().numpy()


def _equal_parts(height: int, width: int, grid: int) -> np.ndarray:
    rows, columns = (((np.arange(size) + 0.5) * grid / size).astype(np.int64) for size in (height, width))
    return rows[:, None] * grid + columns
