"""What a page carries in itself: pictures as data URIs, data as JSON that cannot end its script."""

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
"""Larger drawings, which hold pictures, are carried as pictures themselves."""
WIDEST, LEAST = 1400, 640
"""Pixels of a figure's longer side, where there is room and where there is none."""
PICTURES_BYTES = 4_500_000
"""Room for all figures that are carried as pictures."""
MARGIN = 0.9
"""Part of the room that a picture is sized for, since bytes grow a little faster than pixels."""
FIGURE_QUALITY, LEAST_QUALITY, SAMPLE_QUALITY = 60, 35, 75


def escape_json(data: Any) -> str:
    """Data as JSON to stand in a `<script type="application/json">`: nothing in it begins a tag or a comment.

    Raises:
        ValueError: A number is not finite.
    """
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def hash_script(script: str) -> str:
    """What a content security policy calls an inline script."""
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"


def inline_figures(files: Sequence[str | Path]) -> list[str]:
    """Figures as they are where they are small drawings, else as WebP; the more of these, the smaller.

    Args:
        files: SVGs or pictures. Of a large SVG, the PNG beside it is taken where there is one.
    """
    carried = [_select_format(Path(file)) for file in files]
    room = PICTURES_BYTES // max(1, sum(file.suffix != ".svg" for file in carried))
    return [
        _make_uri("image/svg+xml", file.read_bytes()) if file.suffix == ".svg" else _fit_figure(file, room)
        for file in carried
    ]


def read_figure_size(file: str | Path) -> tuple[int, int] | None:
    """Width and height of a figure, in pixels or points; None for an SVG that does not say."""
    file = Path(file)
    if file.suffix != ".svg":
        with Image.open(file) as image:
            return image.size
    root = re.search(r"<svg\b[^>]*>", file.read_text(encoding="utf-8"))
    found = [re.search(rf'\s{side}="([\d.]+)', root[0]) if root else None for side in ("width", "height")]
    width, height = found
    return (round(float(width[1])), round(float(height[1]))) if width and height else None


def _select_format(file: Path) -> Path:
    if file.suffix == ".svg" and file.stat().st_size > SVG_BYTES and file.with_suffix(".png").is_file():
        return file.with_suffix(".png")
    return file


def _fit_figure(file: Path, room: int) -> str:
    """A picture as large as there is room for, in bytes."""
    with Image.open(file) as image:
        image.load()
        content = _encode_webp(image, LEAST, FIGURE_QUALITY)
        side = min(WIDEST, int(LEAST * math.sqrt(MARGIN * room / len(content))))
        if side > LEAST and max(image.size) > LEAST:
            larger = _encode_webp(image, side, FIGURE_QUALITY)
            content = larger if len(larger) <= room else content
        if len(content) > room:
            content = _encode_webp(image, LEAST, LEAST_QUALITY)
    return _make_uri("image/webp", content)


def inline_image(image: Image.Image, side: int) -> str:
    """An image as a WebP of at most `side` pixels a side, in its own proportions."""
    return _make_uri("image/webp", _encode_webp(image, side, SAMPLE_QUALITY))


def _encode_webp(image: Image.Image, side: int, quality: int) -> bytes:
    scale = min(1.0, side / max(image.size))
    size = (max(1, math.floor(image.width * scale)), max(1, math.floor(image.height * scale)))
    small = image.convert("RGB").resize(size, Image.Resampling.LANCZOS, reducing_gap=3.0)
    content = io.BytesIO()
    small.save(content, "WEBP", quality=quality, method=2)
    return content.getvalue()


def _make_uri(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"
