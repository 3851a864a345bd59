"""Images as a model sees them after its preprocessing: for drawing, and to detect cropping."""

from collections.abc import Callable

import numpy as np
import torch
from PIL import Image

from waltz.core.errors import UserError
from waltz.models.decoders.coalitions import DecoderPlayers
from waltz.models.decoders.decoder import Decoder, PreparedImage
from waltz.models.encoders.encoder import Encoder

WHITE = 255
"""White in an image file."""
LONG_SIDE, SHORT_SIDE, MARGIN = 240, 80, 12
"""Pixels of the test images, and of the margin around their common square, so that resizing does
not change the square.
"""


def render_decoder_view(
    decoder: Decoder,
    picture: PreparedImage,
    players: DecoderPlayers,
    regions: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the image that a decoder sees, RGB in [0, 1] of shape (height, width, 3), and the
    patch of each pixel.

    An image of one tile is returned as prepared, before normalization; otherwise the complete image
    is returned.

    Args:
        decoder: The decoder.
        picture: The image with its prepared pixels.
        players: The players of a prompt with that image.
        regions: Region of each pixel of the complete image if image players do not form a square grid:
            (height, width).
    """
    pixels, image = picture.pixels, picture.image
    # Several tiles, or a grid of patches, are not a picture that can be drawn.
    is_one_tile = pixels.ndim == 4 and len(pixels) == 1
    if players.raw or not is_one_tile:
        levels = np.asarray(image.convert("RGB"), dtype=np.float64) / WHITE
        if regions is not None:
            return levels, regions
        if players.raw:
            return levels, players.cells.numpy()
        return levels, _number_patches(image.height, image.width, players.grid)
    # Normalization is linear in each channel: prepared black and white give its two constants.
    black = decoder.prepare_image(Image.new("RGB", image.size, "black")).pixels
    white = decoder.prepare_image(Image.new("RGB", image.size, "white")).pixels
    tile = ((pixels - black) / torch.where(white == black, 1, white - black)).clamp(
        0, 1
    )
    return tile[0].permute(1, 2, 0).cpu().numpy(), players.cells[0, 0].cpu().numpy()


def _number_patches(height: int, width: int, grid: int) -> np.ndarray:
    """Return the number of the patch that the center of each pixel lies in: int64 of shape (height,
    width).
    """
    rows = ((np.arange(height) + 0.5) * grid / height).astype(np.int64)
    columns = ((np.arange(width) + 0.5) * grid / width).astype(np.int64)
    return rows[:, None] * grid + columns


def crops_to_middle_square(prepare: Callable[[Image.Image], torch.Tensor]) -> bool:
    """Return whether pixels outside the central square of an image have no effect on a model's
    input.

    Args:
        prepare: From an RGB image to the network's input.
    Returns:
        Also False for a model that takes no new images, such as one that reads regions by file
        name.
    """
    try:
        return _ignores_margins(prepare, LONG_SIDE, SHORT_SIDE) and _ignores_margins(
            prepare, SHORT_SIDE, LONG_SIDE
        )
    except UserError:
        return False


def _ignores_margins(
    prepare: Callable[[Image.Image], torch.Tensor], width: int, height: int
) -> bool:
    """Return whether white margins at the ends of the long side of a black image change nothing."""
    # The black part is the central square, and a little more.
    margin = LONG_SIDE // 2 - SHORT_SIDE // 2 - MARGIN
    left, top = (margin, 0) if width == LONG_SIDE else (0, margin)
    black = Image.new("RGB", (width, height))
    framed = Image.new("RGB", (width, height), "white")
    framed.paste((0, 0, 0), (left, top, width - left, height - top))
    black_input, framed_input = prepare(black), prepare(framed)
    return black_input.shape == framed_input.shape and bool(
        (black_input == framed_input).all()
    )


def render_encoder_view(encoder: Encoder, image: Image.Image) -> np.ndarray:
    """Return the image that an encoder sees before normalization: RGB in [0, 1], of shape (height,
    width, 3).

    Prepared black and white images give the normalization; red, green and blue ones give the order
    of channels.
    """
    black = encoder.prepare_image(Image.new("RGB", image.size, "black")).float()
    white = encoder.prepare_image(Image.new("RGB", image.size, "white")).float()
    span = torch.where(white == black, 1, white - black)

    def compute_levels(shown_image: Image.Image) -> torch.Tensor:
        return ((encoder.prepare_image(shown_image).float() - black) / span).clamp(0, 1)

    order = []  # channel of the network for red, green and blue ("lime" is pure green)
    for color in ("red", "lime", "blue"):
        levels = compute_levels(Image.new("RGB", image.size, color))
        order.append(int(levels.mean(dim=(1, 2)).argmax()))
    pixels: np.ndarray = compute_levels(image)[order].permute(1, 2, 0).cpu().numpy()
    return pixels
