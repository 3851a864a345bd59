"""Contents embedded in the page: images as data URIs, data as JSON that cannot end its script."""

import base64
import hashlib
import io
import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image

SVG_BYTES = 120_000
"""Largest SVG that is embedded as it is; a larger one is embedded as a raster image."""
MAX_SIDE, MIN_SIDE = 1400, 640
"""Pixels of a figure's longer side, at most and at least."""
PICTURES_BYTES = 4_500_000
"""Bytes of all figures that are embedded as raster images."""
MARGIN = 0.9
"""Share of the bytes that an image is sized for, since bytes grow a little faster than pixels."""
FIGURE_QUALITY, MIN_QUALITY, EXAMPLE_QUALITY = 60, 35, 75


def escape_json(data: Any) -> str:
    """Format data as JSON for a `<script type="application/json">`: nothing in it begins a tag or a comment.

    Raises:
        ValueError: A number is not finite.
    """
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def hash_script(script: str) -> str:
    """Return the hash by which a content security policy names an inline script."""
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"


def inline_figures(files: Sequence[str | Path]) -> list[str]:
    """Return figures as data URIs: small SVGs as they are, others as WebP; the more of these, the smaller.

    Args:
        files: SVGs or raster images. A large SVG is replaced by the PNG next to it if there is one.
    """
    sources = [_select_format(Path(file)) for file in files]
    room = PICTURES_BYTES // max(1, sum(file.suffix != ".svg" for file in sources))
    return [
        _make_uri("image/svg+xml", file.read_bytes()) if file.suffix == ".svg" else _fit_figure(file, room)
        for file in sources
    ]


def read_figure_size(file: str | Path) -> tuple[int, int] | None:
    """Return width and height of a figure, in pixels or points; None for an SVG without them."""
    file = Path(file)
    if file.suffix != ".svg":
        with Image.open(file) as image:
            return image.size
    root = re.search(r"<svg\b[^>]*>", file.read_text(encoding="utf-8"))
    width, height = (re.search(rf'\s{side}="([\d.]+)', root[0]) if root else None for side in ("width", "height"))
    return (round(float(width[1])), round(float(height[1]))) if width and height else None


def _select_format(file: Path) -> Path:
    """Return the PNG next to a large SVG if there is one, else the file."""
    if file.suffix == ".svg" and file.stat().st_size > SVG_BYTES and file.with_suffix(".png").is_file():
        return file.with_suffix(".png")
    return file


def _fit_figure(file: Path, room: int) -> str:
    """Return an image as large as the given number of bytes allows."""
    with Image.open(file) as image:
        image.load()
        content = _encode_webp(image, MIN_SIDE, FIGURE_QUALITY)
        side = min(MAX_SIDE, int(MIN_SIDE * math.sqrt(MARGIN * room / len(content))))
        if side > MIN_SIDE and max(image.size) > MIN_SIDE:
            larger = _encode_webp(image, side, FIGURE_QUALITY)
            content = larger if len(larger) <= room else content
        if len(content) > room:
            content = _encode_webp(image, MIN_SIDE, MIN_QUALITY)
    return _make_uri("image/webp", content)


def inline_image(image: Image.Image, side: int) -> str:
    """Return an image as a WebP of at most `side` pixels a side, in its own proportions."""
    return _make_uri("image/webp", _encode_webp(image, side, EXAMPLE_QUALITY))


def _encode_webp(image: Image.Image, side: int, quality: int) -> bytes:
    scale = min(1.0, side / max(image.size))
    size = (max(1, math.floor(image.width * scale)), max(1, math.floor(image.height * scale)))
    small = image.convert("RGB").resize(size, Image.Resampling.LANCZOS, reducing_gap=3.0)
    content = io.BytesIO()
    small.save(content, "WEBP", quality=quality, method=2)
    return content.getvalue()


def _make_uri(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"
