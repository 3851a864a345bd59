"""Arguments of `waltz.Explainer`: images of every common type, masks of regions, messages; wrong ones are refused."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from waltz.attribution.own_players import TOKEN, WORDS, ImagePlayers, TextPlayers
from waltz.core.errors import UserError
from waltz.core.files.downloads import is_url
from waltz.sources.images import convert_image, load_image_file
from waltz.sources.raw_files import find_half_pair

ImageInput = str | Path | Image.Image | np.ndarray | torch.Tensor
"""An image: a file, a PIL image, or an array or tensor of one image with 1, 3 or 4 channels."""
CHANNELS = (1, 3, 4)
"""Channels of grey, RGB and RGBA."""
IMAGE_PART = {"type": "image"}


def read_image(image: ImageInput) -> Image.Image:
    """Return an image as RGB, upright.

    Args:
        image: A file, a PIL image, or an array or tensor of shape (height, width), (height, width, channels) or
            (channels, height, width): integers from 0 to 255, or floats from 0 to 1.
    Raises:
        UserError: There is no such file, or it is no image that can be read.
        TypeError: It is none of these types.
        ValueError: An array is of another shape or range.
    """
    if isinstance(image, Image.Image):
        return convert_image(image)
    if isinstance(image, str) and is_url(image):
        raise UserError(f"image: {image} is an address (expected a file or the image itself); download it first")
    if isinstance(image, str | Path):
        return load_image_file(Path(image))
    if isinstance(image, torch.Tensor):
        image = image.detach().float().cpu().numpy() if image.is_floating_point() else image.cpu().numpy()
    if not isinstance(image, np.ndarray):
        raise TypeError(
            f"image: no image (got {type(image).__name__}, expected a path, a PIL image, an array or a tensor)"
        )
    if image.dtype.kind not in "biuf":
        raise TypeError(f"image: array of type {image.dtype} (expected integers, floats or bool)")
    levels = image[0] if image.ndim == 4 and len(image) == 1 else image
    if levels.ndim == 3 and levels.shape[-1] not in CHANNELS and levels.shape[0] in CHANNELS:
        levels = np.moveaxis(levels, 0, -1)
    if not (levels.ndim == 2 or (levels.ndim == 3 and levels.shape[-1] in CHANNELS)) or not levels.size:
        raise ValueError(
            f"image: no single image (got shape {image.shape}, expected (height, width, 1, 3 or 4)); give several as a"
            " list"
        )
    is_float = np.issubdtype(levels.dtype, np.floating)
    if levels.dtype != bool and not 0 <= float(levels.min()) <= float(levels.max()) <= (1 if is_float else 255):
        raise ValueError(
            f"image: values out of range (got {levels.min():.4g} to {levels.max():.4g}, expected"
            f" {'0 to 1' if is_float else '0 to 255'}); give the image as it is before any normalisation"
        )
    scaled = np.rint(levels * 255) if is_float or levels.dtype == bool else levels
    pixels = scaled.astype(np.uint8)
    return convert_image(Image.fromarray(pixels[..., 0] if pixels.shape[2:] == (1,) else pixels))


def check_text(text: object, name: str) -> str:
    """Return a text with words in it.

    Raises:
        TypeError: It is no text.
        UserError: It is empty, or holds half of a surrogate pair.
    """
    if not isinstance(text, str):
        several = " or a list of texts" if name == "text" else ""
        raise TypeError(f"{name}: no text (got {type(text).__name__}, expected str{several})")
    if not text.strip():
        raise UserError(f"{name}: empty (got {text!r}, expected words); write a text")
    if fault := find_half_pair(text):
        raise UserError(f"{name}: {fault}; write whole characters")
    return text


def check_text_players(players: object) -> TextPlayers:
    """Return text players: `token`, `word`, or spans.

    Raises:
        TypeError: They are of another type.
        ValueError: The name is another one, or there are no spans.
    """
    if isinstance(players, str):
        if players not in (TOKEN, WORDS):
            raise ValueError(f"players: unknown (got {players!r}, expected 'token', 'word' or a list of spans)")
        return players
    if isinstance(players, np.ndarray):
        players = players.tolist()
    if not isinstance(players, Sequence):
        raise TypeError(f"players: got {type(players).__name__}, expected 'token', 'word' or a list of spans")
    for span in players:
        if not isinstance(span, str) and not (
            isinstance(span, Sequence) and len(span) == 2 and all(isinstance(place, int | np.integer) for place in span)
        ):
            raise TypeError(f"players: no span (got {span!r}, expected a piece of the text or (start, end))")
    if not players:
        raise ValueError("players: no spans (got an empty list, expected at least one)")
    return players


def check_regions(grid: object, size: tuple[int, int]) -> ImagePlayers | None:
    """Return image players: rows and columns, masks of regions, or None for the grid of the profile.

    Args:
        grid: None, a number of patches a side, (rows, columns), or masks of shape (regions, height, width).
        size: Width and height of the image.
    Raises:
        TypeError: It is of another type.
        ValueError: Numbers are below 1, or masks are of another shape, empty, or share pixels.
    """
    if grid is None:
        return None
    if isinstance(grid, int | np.integer):
        grid = (int(grid), int(grid))
    if isinstance(grid, np.ndarray) and grid.ndim == 1:
        grid = tuple(grid.tolist())
    if isinstance(grid, Sequence) and len(grid) == 2 and all(isinstance(side, int | np.integer) for side in grid):
        rows, columns = map(int, grid)
        if not (1 <= rows <= size[1] and 1 <= columns <= size[0]):
            raise ValueError(
                f"grid: got {rows} x {columns} patches, expected 1 to {size[1]} rows, 1 to {size[0]} columns"
            )
        return rows, columns
    if isinstance(grid, torch.Tensor):
        grid = grid.cpu().numpy()
    if not isinstance(grid, Sequence | np.ndarray) or isinstance(grid, str):
        raise TypeError(f"grid: got {type(grid).__name__}, expected (rows, columns) or boolean masks of regions")
    if len(grid) and all(np.ndim(mask) == 0 for mask in grid):
        raise ValueError(f"grid: got {grid!r}, expected two whole numbers (rows, columns) or boolean masks of regions")
    masks = np.stack([np.asarray(mask) for mask in grid]) if len(grid) else np.asarray(grid, dtype=bool)
    if masks.dtype != bool:
        raise TypeError(f"grid: masks of type {masks.dtype} (expected bool, or whole numbers (rows, columns))")
    if masks.ndim != 3 or masks.shape[1:] != size[::-1] or not len(masks):
        raise ValueError(
            f"grid: masks of shape {masks.shape} (expected (regions, {size[1]}, {size[0]}), the height and width of the"
            " image)"
        )
    if empty := np.flatnonzero(~masks.any(axis=(1, 2))).tolist():
        raise ValueError(f"grid: regions without a pixel (got region {', '.join(map(str, empty))}); leave them out")
    if (masks.sum(axis=0) > 1).any():
        raise ValueError("grid: masks share pixels (expected each pixel in one region at most)")
    return masks


def split_messages(messages: object) -> tuple[list[Mapping[str, Any]], ImageInput | None]:
    """Return messages with bare image parts, and the image in them if there is one.

    Raises:
        TypeError: They are no messages.
        ValueError: They show several images.
    """
    if not isinstance(messages, Sequence) or not all(
        isinstance(message, Mapping) and {"role", "content"} <= set(message) for message in messages
    ):
        raise TypeError("messages: expected a list of dictionaries with 'role' and 'content'")
    if not messages:
        raise ValueError("messages: no messages (got an empty list, expected at least one)")
    bare: list[Mapping[str, Any]] = []
    images: list[Any] = []
    for message in messages:
        content = message["content"]
        if not isinstance(content, str):
            if not isinstance(content, Sequence) or not all(isinstance(part, Mapping) for part in content):
                raise TypeError("messages: 'content' is no text (expected str, or a list of dictionaries with 'type')")
            if unread := [part for part in content if part.get("type") not in ("text", "image")]:
                raise ValueError(
                    f"messages: unknown part (got type {unread[0].get('type')!r}, expected 'text' or 'image')"
                )
            images += [_find_image(part) for part in content if part.get("type") == "image"]
            content = [IMAGE_PART if part.get("type") == "image" else dict(part) for part in content]
        bare.append({**message, "content": content})
    if len(images) > 1:
        raise ValueError(f"messages: {len(images)} images (expected at most one)")
    return bare, images[0] if images else None


def _find_image(part: Mapping[str, Any]) -> Any:
    return next((part[name] for name in ("image", "path", "url") if name in part), None)
