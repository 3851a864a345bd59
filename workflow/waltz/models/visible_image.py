"""Images as a model sees them after its preprocessing: for drawing, and to detect cropping."""

from collections.abc import Callable

import numpy as np
import torch
from PIL import Image

from waltz.core.errors import UserError
from waltz.models.decoders.coalitions import Players
from waltz.models.decoders.decoder import Decoder, PreparedImage
from waltz.models.encoders.encoder import Encoder

WHITE = 255
"""White in an image file."""
LONG_SIDE, SHORT_SIDE, MARGIN = 240, 80, 12
"""Pixels of the test images, and of the margin around their common square, so that resizing does not
change the square."""


def render_decoder_view(
    decoder: Decoder, picture: PreparedImage, players: Players, whole: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the image that a decoder sees, RGB in [0, 1] of shape (height, width, 3), and the patch of each pixel.

    An image of one tile is returned as prepared, before normalisation; otherwise the whole image is returned.

    Args:
        players: The players of a prompt with that image.
        whole: Region of each pixel of the whole image where image players are no square grid: (height, width).
    """
    pixels, image = picture.pixels, picture.image
    if players.raw or pixels.ndim != 4 or len(pixels) != 1:
        levels = np.asarray(image.convert("RGB"), dtype=np.float64) / WHITE
        if whole is not None:
            return levels, whole
        return levels, players.cells.numpy() if players.raw else _number_patches(
            image.height, image.width, players.grid
        )
    black, white = (decoder.prepare_image(Image.new("RGB", image.size, colour)).pixels for colour in ("black", "white"))
    tile = ((pixels - black) / torch.where(white == black, 1, white - black)).clamp(0, 1)
    return tile[0].permute(1, 2, 0).cpu().numpy(), players.cells[0, 0].cpu().numpy()


def _number_patches(height: int, width: int, grid: int) -> np.ndarray:
    rows, columns = (((np.arange(size) + 0.5) * grid / size).astype(np.int64) for size in (height, width))
    return rows[:, None] * grid + columns


def crops_to_middle_square(prepare: Callable[[Image.Image], torch.Tensor]) -> bool:
    """Return whether pixels outside the central square of an image have no effect on a model's input.

    Args:
        prepare: From an RGB image to the network's input.
    Returns:
        Also False for a model that takes no new images, such as one that reads regions by file name.
    """
    try:
        return all(_ignores_margins(prepare, size) for size in ((LONG_SIDE, SHORT_SIDE), (SHORT_SIDE, LONG_SIDE)))
    except UserError:
        return False


def _ignores_margins(prepare: Callable[[Image.Image], torch.Tensor], size: tuple[int, int]) -> bool:
    black, framed = Image.new("RGB", size), Image.new("RGB", size, "white")
    margin = max(size) // 2 - SHORT_SIDE // 2 - MARGIN
    left_edge, top_edge = (margin if side == LONG_SIDE else 0 for side in size)
    framed.paste((0, 0, 0), (left_edge, top_edge, size[0] - left_edge, size[1] - top_edge))
    black_input, framed_input = prepare(black), prepare(framed)
    return black_input.shape == framed_input.shape and bool((black_input == framed_input).all())


def render_encoder_view(encoder: Encoder, image: Image.Image) -> np.ndarray:
    """Return the image that an encoder sees before normalisation: RGB in [0, 1], of shape (height, width, 3).

    Prepared black and white images give the normalisation; red, green and blue ones give the order of channels.
    """
    black, white = (
        encoder.prepare_image(Image.new("RGB", image.size, colour)).float() for colour in ("black", "white")
    )
    span = torch.where(white == black, 1, white - black)

    def levels(shown_image: Image.Image) -> torch.Tensor:
        return ((encoder.prepare_image(shown_image).float() - black) / span).clamp(0, 1)

    pure_colours = (levels(Image.new("RGB", image.size, colour)) for colour in ("red", "lime", "blue"))
    order = [int(channels.mean(dim=(1, 2)).argmax()) for channels in pure_colours]
    pixels: np.ndarray = levels(image)[order].permute(1, 2, 0).cpu().numpy()
    return pixels
