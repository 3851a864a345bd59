"""Images for the detector: blue, green, red, in levels of 0 to 255 minus their mean, at one scale."""

import warnings
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps, UnidentifiedImageError
from torch.nn import functional

from waltz.core.errors import UserError
from waltz.models.networks.detector.settings import DetectorSettings


def read_upright_image(file: Path) -> Image.Image:
    """Return an image file as OpenCV reads it, but RGB: rotated by its EXIF data, grey in three channels, no alpha.

    `sources.images` differs where there is alpha, which becomes white there.

    Raises:
        UserError: It is no image that can be read, or too large a one.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(file) as opened:
                return _convert_to_rgb(ImageOps.exif_transpose(opened))
    except UnidentifiedImageError:
        raise UserError(f"{file}: is no image of a known format; name an image") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise UserError(f"{file}: has more than {Image.MAX_IMAGE_PIXELS} pixels; make it smaller") from None
    except Exception as error:  # image decoders can raise anything
        first_line = (str(error) or type(error).__name__).splitlines()[0]
        raise UserError(f"{file}: cannot be read: {first_line}; get the image again") from None


def compute_resized_size(height: int, width: int, shortest: int, longest: int) -> tuple[int, int]:
    """Return height and width after resizing.

    Args:
        height: Of the image.
        width: Of the image.
        shortest: Length of the shorter side after resizing.
        longest: Maximum length of the longer side; the image is scaled down to it.
    """
    scale = shortest / min(height, width)
    down, right = (shortest, scale * width) if height < width else (scale * height, shortest)
    if max(down, right) > longest:
        reduction = longest / max(down, right)
        down, right = down * reduction, right * reduction
    return int(down + 0.5), int(right + 0.5)


def prepare_image(image: Image.Image, settings: DetectorSettings) -> torch.Tensor:
    """Return an upright image prepared for the detector: resized as floats, without antialiasing.

    Args:
        image: An image of any mode; all but RGB is converted.
        settings: Sizes, mean and deviation.
    Returns:
        float32 of shape (3, height, width).
    """
    size = compute_resized_size(image.height, image.width, settings.shortest, settings.longest)
    levels = torch.from_numpy(np.asarray(_convert_to_rgb(image), dtype=np.float32)[..., ::-1].transpose(2, 0, 1).copy())
    resized = functional.interpolate(levels[None], size, mode="bilinear", align_corners=False)[0]
    mean, deviation = (torch.tensor(values)[:, None, None] for values in (settings.mean, settings.deviation))
    return (resized - mean) / deviation


def _convert_to_rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I;16"):  # Pillow cuts such levels off at 255
        return Image.fromarray((np.asarray(image).astype(np.uint16) >> 8).astype(np.uint8)).convert("RGB")
    if image.mode in ("I", "F"):
        raise ValueError(f"pixels of mode {image.mode} have no fixed range")
    return image.convert("RGB")
