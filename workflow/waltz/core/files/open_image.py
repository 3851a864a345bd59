"""Opening of image files, limited to the usual formats of photos."""

from pathlib import Path
from typing import IO

from PIL import Image

IMAGE_FORMATS = ("BMP", "GIF", "JPEG", "PNG", "TIFF", "WEBP")
"""Formats that are decoded, whatever the suffix. For others, such as PostScript, Pillow would run
Ghostscript.
"""


def open_image(file: str | Path | IO[bytes]) -> Image.Image:
    """Open an image file without decoding its pixels.

    Raises:
        UnidentifiedImageError: The file has no format of `IMAGE_FORMATS`.
    """
    return Image.open(file, formats=IMAGE_FORMATS)
