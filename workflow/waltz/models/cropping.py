"""Whether a model crops images to the square in their middle, as CLIP's own processor does."""

from collections.abc import Callable

import torch
from PIL import Image

from waltz.core.errors import UserError

LONG, SHORT, MARGIN = 240, 80, 12
"""Pixels of the images that are tried, and of the rim around the square that they share, so that resizing carries
nothing into it."""


def sees_middle_square(prepare: Callable[[Image.Image], torch.Tensor]) -> bool:
    """Whether nothing outside the square in the middle of an image, wide or high, changes what a model is given.

    Args:
        prepare: From an RGB image to what the network takes.
    Returns:
        False as well of a model that takes no new images, such as one that reads regions by file name.
    """
    try:
        return all(_same(prepare, size) for size in ((LONG, SHORT), (SHORT, LONG)))
    except UserError:
        return False


def _same(prepare: Callable[[Image.Image], torch.Tensor], size: tuple[int, int]) -> bool:
    black, framed = Image.new("RGB", size), Image.new("RGB", size, "white")
    across = max(size) // 2 - SHORT // 2 - MARGIN
    left, top = (across if side == LONG else 0 for side in size)
    framed.paste((0, 0, 0), (left, top, size[0] - left, size[1] - top))
    one, other = prepare(black), prepare(framed)
    return one.shape == other.shape and bool((one == other).all())
