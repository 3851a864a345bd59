"""Image files, of the formats that photos come in."""

from pathlib import Path
from typing import IO

from PIL import Image

IMAGE_FORMATS = ("BMP", "GIF", "JPEG", "PNG", "TIFF", "WEBP")
"""Formats that are decoded, whatever a file's suffix; Pillow's others include PostScript, which runs Ghostscript."""


def open_image(file: str | Path | IO[bytes]) -> Image.Image:
    """Open an image file without decoding its pixels.

    Raises:
        UnidentifiedImageError: It is of no format in `IMAGE_FORMATS`.
    """
    return Image.open(file, formats=IMAGE_FORMATS)
