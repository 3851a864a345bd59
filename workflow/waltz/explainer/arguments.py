"""Arguments of `waltz.Explainer`: images of every common type, masks of regions, messages; wrong
ones are refused.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
import torch
from PIL import Image

from waltz.attribution.custom_players import TOKEN, WORDS, ImagePlayers, TextPlayers
from waltz.core.downloads.urls import is_url
from waltz.core.errors import UserError
from waltz.core.text_diff import are_same_text, fold_text
from waltz.sources.images import convert_image, load_image_file
from waltz.sources.raw_files import find_half_pair

ImageInput = str | Path | Image.Image | np.ndarray | torch.Tensor
"""An image: a file, a PIL image, or an array or tensor of one image with 1, 3 or 4 channels."""
CHANNELS = (1, 3, 4)
"""Numbers of channels of gray, RGB and RGBA images."""
IMAGE_PART = {"type": "image"}
"""Part of a message that marks the position of the image, without the image itself."""
ChatMessage = Mapping[str, Any]
"""A message in the form that chat templates of transformers take."""


def read_image_argument(image: ImageInput) -> Image.Image:
    """Read an image and return it as RGB, upright.

    Args:
        image: A file, a PIL image, or an array or tensor of shape (height, width), (height, width,
            channels) or (channels, height, width): integers from 0 to 255, or floats from 0 to 1.
    Raises:
        UserError: There is no such file, or it cannot be read as an image.
        TypeError: The argument has another type.
        ValueError: An array has another shape or range.
    """
    if isinstance(image, Image.Image):
        return convert_image(image)
    if isinstance(image, str) and is_url(image):
        raise UserError(
            f"image: {image} is an address (expected a file or the image itself); download it first"
        )
    if isinstance(image, str | Path):
        return load_image_file(Path(image))
    if isinstance(image, torch.Tensor):
        image = _convert_tensor(image)
    if not isinstance(image, np.ndarray):
        raise TypeError(
            f"image: no image (got {type(image).__name__}, expected a path, a PIL image, an array or a tensor)"
        )
    return _convert_array(image)


def _convert_tensor(image: torch.Tensor) -> np.ndarray:
    if image.is_floating_point():
        # numpy has no bfloat16.
        image = image.detach().float()
    array: np.ndarray = image.cpu().numpy()
    return array


def _convert_array(image: np.ndarray) -> Image.Image:
    """Convert an array of one image to RGB."""
    if image.dtype.kind not in "biuf":
        raise TypeError(
            f"image: array of type {image.dtype} (expected integers, floats or bool)"
        )
    levels = _put_channels_last(image)
    # Integers are levels from 0 to 255; floats are shares of the brightest level, bool is black and
    # white.
    largest = 1
    if np.issubdtype(levels.dtype, np.integer):
        largest = 255
    lowest_level, highest_level = float(levels.min()), float(levels.max())
    if not 0 <= lowest_level <= highest_level <= largest:
        raise ValueError(
            f"image: values out of range (got {lowest_level:.4g} to {highest_level:.4g}, expected 0 to {largest}); give"
            " the image as it is before any normalization"
        )
    pixels = np.rint(levels * (255 / largest)).astype(np.uint8)
    # PIL takes a gray image without an axis of channels.
    if pixels.shape[-1] == 1:
        pixels = pixels[..., 0]
    return convert_image(Image.fromarray(pixels))


def _put_channels_last(image: np.ndarray) -> np.ndarray:
    """Return an array of one image with shape (height, width, channels).

    Raises:
        ValueError: The array has another shape, or is empty.
    """
    levels = image
    if image.ndim == 2:
        levels = image[..., np.newaxis]
    elif image.ndim == 4 and len(image) == 1:
        levels = image[0]
    # PyTorch puts channels first. The first axis counts as channels only if the last axis cannot be
    # channels.
    if levels.ndim == 3 and levels.shape[-1] not in CHANNELS:
        levels = np.moveaxis(levels, 0, -1)
    has_channels = levels.ndim == 3 and levels.shape[-1] in CHANNELS
    if not levels.size or not has_channels:
        raise ValueError(
            f"image: no single image (got shape {image.shape}, expected (height, width, 1, 3 or 4)); give several as a"
            " list"
        )
    return levels


def check_text(text: object, name: str) -> str:
    """Check that an argument is a text with words, and return it.

    Args:
        name: Name of the argument, for messages.
    Raises:
        TypeError: The argument is not a string.
        UserError: The text is empty, or contains half of a surrogate pair.
    """
    if not isinstance(text, str):
        expected = "str or a list of texts" if name == "text" else "str"
        raise TypeError(
            f"{name}: no text (got {type(text).__name__}, expected {expected})"
        )
    if not fold_text(text):
        raise UserError(f"{name}: empty (got {text!r}, expected words); write a text")
    if fault := find_half_pair(text):
        raise UserError(f"{name}: {fault}; write whole characters")
    return text


def check_foil(foil: object, text: str) -> str:
    """Check the foil of a text, and return it.

    Raises:
        TypeError: The foil is not a string.
        UserError: The foil is empty, contains half of a surrogate pair, or is the same text as the
            caption.
    """
    checked = check_text(foil, "foil")
    if are_same_text(checked, text):
        raise UserError(
            f"foil: the same text as the caption up to whitespace and Unicode form (got {checked!r}); write another one"
        )
    return checked


def check_text_players(players: object) -> TextPlayers:
    """Check the choice of text players, and return it: `token`, `word`, or spans.

    Raises:
        TypeError: The choice has another type.
        ValueError: The name is unknown, or the list of spans is empty.
    """
    if isinstance(players, str):
        if players not in (TOKEN, WORDS):
            raise ValueError(
                f"players: unknown (got {players!r}, expected 'token', 'word' or a list of spans)"
            )
        return players
    if isinstance(players, np.ndarray):
        players = players.tolist()
    if not isinstance(players, Sequence):
        raise TypeError(
            f"players: got {type(players).__name__}, expected 'token', 'word' or a list of spans"
        )
    for span in players:
        if not isinstance(span, str) and not _is_pair_of_numbers(span):
            raise TypeError(
                f"players: no span (got {span!r}, expected a piece of the text or (start, end))"
            )
    if not players:
        raise ValueError("players: no spans (got an empty list, expected at least one)")
    return players


def _is_pair_of_numbers(value: object) -> TypeGuard[Sequence[int]]:
    if not isinstance(value, Sequence) or len(value) != 2:
        return False
    return all(isinstance(number, int | np.integer) for number in value)


def check_regions(grid: object, size: tuple[int, int]) -> ImagePlayers | None:
    """Check the choice of image players, and return it: rows and columns, or masks of regions.

    None stays None and means the grid of the profile.

    Args:
        grid: None, a number of patches on a side, (rows, columns), or masks of shape (regions,
            height, width).
        size: Width and height of the image.
    Raises:
        TypeError: The choice has another type.
        ValueError: Numbers are below 1 or above the pixels of the image; or masks have another
            shape, are empty, or share pixels.
    """
    if grid is None:
        return None
    # A number, an array or a tensor of numbers becomes a list of two numbers.
    if isinstance(grid, int | np.integer):
        grid = [grid, grid]
    if isinstance(grid, torch.Tensor):
        grid = grid.cpu().numpy()
    if isinstance(grid, np.ndarray) and grid.ndim == 1:
        grid = grid.tolist()
    if _is_pair_of_numbers(grid):
        return _check_grid(int(grid[0]), int(grid[1]), size)
    is_list = isinstance(grid, Sequence | np.ndarray)
    if not is_list or isinstance(grid, str):
        raise TypeError(
            f"grid: got {type(grid).__name__}, expected (rows, columns) or boolean masks of regions"
        )
    return _check_masks(grid, size)


def _check_grid(rows: int, columns: int, size: tuple[int, int]) -> tuple[int, int]:
    """Return the rows and columns of a grid; refuse a grid with more rows or columns than the image
    has pixels.
    """
    width, height = size
    fits = 1 <= rows <= height and 1 <= columns <= width
    if not fits:
        raise ValueError(
            f"grid: got {rows} x {columns} patches, expected 1 to {height} rows, 1 to {width} columns"
        )
    return rows, columns


def _check_masks(grid: Any, size: tuple[int, int]) -> np.ndarray:
    """Return masks of regions as one array, bool of shape (regions, height, width); refuse wrong
    masks.
    """
    width, height = size
    masks = np.asarray(grid)
    if masks.ndim == 1:
        raise ValueError(
            f"grid: got {grid!r}, expected two whole numbers (rows, columns) or boolean masks of regions"
        )
    if not len(masks) or masks.shape[1:] != (height, width):
        raise ValueError(
            f"grid: masks of shape {masks.shape} (expected (regions, {height}, {width}), the height and width of the"
            " image)"
        )
    if masks.dtype != bool:
        raise TypeError(
            f"grid: masks of type {masks.dtype} (expected bool, or whole numbers (rows, columns))"
        )
    empty_regions = np.flatnonzero(~masks.any(axis=(1, 2)))
    if empty_regions.size:
        names = ", ".join(map(str, empty_regions))
        raise ValueError(
            f"grid: regions without a pixel (got region {names}); leave them out"
        )
    regions_of_pixel = masks.sum(axis=0)  # (height, width)
    if (regions_of_pixel > 1).any():
        raise ValueError(
            "grid: masks share pixels (expected each pixel in one region at most)"
        )
    return masks


def split_messages(messages: object) -> tuple[list[ChatMessage], ImageInput | None]:
    """Separate messages from their image: return messages with bare image parts, and the image or
    None.

    Raises:
        TypeError: The argument is not a list of messages.
        ValueError: The messages are empty, or show several images.
    """
    if not isinstance(messages, Sequence) or not all(map(_is_message, messages)):
        raise TypeError(
            "messages: expected a list of dictionaries with 'role' and 'content'"
        )
    if not messages:
        raise ValueError(
            "messages: no messages (got an empty list, expected at least one)"
        )
    bare_messages: list[ChatMessage] = []
    images: list[ImageInput | None] = []
    for message in messages:
        content = message["content"]
        if not isinstance(content, str):
            content, message_images = _split_parts(content)
            images += message_images
        bare_messages.append({**message, "content": content})
    if len(images) > 1:
        raise ValueError(f"messages: {len(images)} images (expected at most one)")
    return bare_messages, next(iter(images), None)


def _is_message(message: object) -> bool:
    return isinstance(message, Mapping) and {"role", "content"} <= set(message)


def _split_parts(
    content: Any,
) -> tuple[list[ChatMessage], list[ImageInput | None]]:
    """Return the parts of a message with bare image parts, and the images that they show.

    Raises:
        TypeError: The content is not a list of dictionaries.
        ValueError: A part is neither text nor an image.
    """
    is_list = isinstance(content, Sequence)
    if not is_list or not all(isinstance(part, Mapping) for part in content):
        raise TypeError(
            "messages: 'content' is not a text (expected str, or a list of dictionaries with 'type')"
        )
    parts: list[ChatMessage] = []
    images: list[ImageInput | None] = []
    for part in content:
        kind = part.get("type")
        if kind == "image":
            # Chat templates take a bare part for each image; the images themselves are passed
            # separately.
            parts.append(IMAGE_PART)
            images.append(part.get("image", part.get("path", part.get("url"))))
        elif kind == "text":
            parts.append(dict(part))
        else:
            raise ValueError(
                f"messages: unknown part (got type {kind!r}, expected 'text' or 'image')"
            )
    return parts, images
