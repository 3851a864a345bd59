"""Images as a model sees them after its preprocessing: for drawing, and to detect cropping."""

from collections.abc import Callable

import numpy as np
import torch
from PIL import Image

from waltz.core.errors import UserError
from waltz.models.decoders.decoder import Decoder, PreparedImage
from waltz.models.decoders.players import Players
from waltz.models.encoders.encoder import Encoder

WHITE = 255
"""White in an image file."""


def render_decoder_view(decoder: Decoder, picture: PreparedImage, who: Players) -> tuple[np.ndarray, np.ndarray]:
    """What a decoder sees of an image, RGB in [0, 1] of shape (height, width, 3), and the patch of each pixel.

    An image that is one tile is shown as prepared, before its normalisation; else the whole image is shown.

    Args:
        decoder: The decoder.
        picture: The prepared image.
        who: The players of a prompt with that image.
    """
    pixels, image = picture.pixels, picture.image
    if who.raw or pixels.ndim != 4 or len(pixels) != 1:
        shown = np.asarray(image.convert("RGB"), dtype=np.float64) / WHITE
        return shown, who.cells.numpy() if who.raw else _number_patches(image.height, image.width, who.grid)
    black, white = (decoder.prepare_image(Image.new("RGB", image.size, colour)).pixels for colour in ("black", "white"))
    tile = ((pixels - black) / torch.where(white == black, 1, white - black)).clamp(0, 1)
    return tile[0].permute(1, 2, 0).cpu().numpy(), who.cells[0, 0].cpu().numpy()


def _number_patches(height: int, width: int, grid: int) -> np.ndarray:
    rows, columns = (((np.arange(size) + 0.5) * grid / size).astype(np.int64) for size in (height, width))
    return rows[:, None] * grid + columns


LONG_SIDE, SHORT_SIDE, MARGIN = 240, 80, 12
"""Pixels of the images that are tried, and of the rim around the square that they share, so that resizing carries
nothing into it."""


def crops_to_middle_square(prepare: Callable[[Image.Image], torch.Tensor]) -> bool:
    """Whether nothing outside the square in the middle of an image, wide or high, changes what a model is given.

    Args:
        prepare: From an RGB image to what the network takes.
    Returns:
        False as well of a model that takes no new images, such as one that reads regions by file name.
    """
    try:
        return all(_ignores_margins(prepare, size) for size in ((LONG_SIDE, SHORT_SIDE), (SHORT_SIDE, LONG_SIDE)))
    except UserError:
        return False


def _ignores_margins(prepare: Callable[[Image.Image], torch.Tensor], size: tuple[int, int]) -> bool:
    black, framed = Image.new("RGB", size), Image.new("RGB", size, "white")
    across = max(size) // 2 - SHORT_SIDE // 2 - MARGIN
    left, top = (across if side == LONG_SIDE else 0 for side in size)
    framed.paste((0, 0, 0), (left, top, size[0] - left, size[1] - top))
    one, other = prepare(black), prepare(framed)
    return one.shape == other.shape and bool((one == other).all())


def render_encoder_view(encoder: Encoder, image: Image.Image) -> np.ndarray:
    """What an encoder sees of an image, before its normalisation: RGB in [0, 1], of shape (height, width, 3).

    Black and white, prepared in the same way, tell what the normalisation is; red, green and blue, which channel is
    which.
    """
    black, white = (
        encoder.prepare_image(Image.new("RGB", image.size, colour)).float() for colour in ("black", "white")
    )
    span = torch.where(white == black, 1, white - black)

    def levels(shown: Image.Image) -> torch.Tensor:
        return ((encoder.prepare_image(shown).float() - black) / span).clamp(0, 1)

    pure = (levels(Image.new("RGB", image.size, colour)) for colour in ("red", "lime", "blue"))
    order = [int(found.mean(dim=(1, 2)).argmax()) for found in pure]
    pixels: np.ndarray = levels(image)[order].permute(1, 2, 0).cpu().numpy()
    return pixels
