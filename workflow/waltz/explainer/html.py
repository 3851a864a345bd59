"""Explanations in a notebook: the image, its heat map and the coloured tokens, as one piece of HTML."""

import base64
import html
from collections.abc import Sequence
from io import BytesIO

import numpy as np
from matplotlib.colors import to_hex
from PIL import Image

from waltz.reporting.figures.heatmaps import HeatmapPanel, colour_image, map_to_colours, split_layers

MIN_SIDE = 224
"""Pixels to which a smaller image is enlarged."""


def render_panels(image: np.ndarray | None, panels: Sequence[HeatmapPanel], headings: Sequence[str]) -> str:
    """Return panels as HTML without scripts: a heading, the image as the model sees it, its heat map, the tokens.

    Blue is for, red is against; the panels share one scale of colours.

    Args:
        image: RGB in [0, 1] of shape (height, width, 3); None without an image.
        panels: Texts with their values.
        headings: A line for each panel.
    """
    peak = max((float(np.nan_to_num(np.abs(panel.phi)).max(initial=0)) for panel in panels), default=0.0)
    parts = []
    for panel, heading in zip(panels, headings, strict=True):
        layer = split_layers(panel, peak)[0]
        pictures = ""
        if image is not None and panel.cells.size:
            pictures = _render_image(image, "image") + _render_image(
                colour_image(image, panel.cells, layer), "heat map"
            )
        tokens = "".join(
            _render_token(panel.text[span["start"] : span["end"]].strip() or token, strength, label)
            for token, span, strength, label in zip(
                panel.tokens, panel.spans, layer.tokens, layer.token_labels, strict=True
            )
        )
        parts.append(f"<div><p><b>{html.escape(heading)}</b></p>{pictures}<p>{tokens}</p></div>")
    return "".join(parts)


def _render_image(image: np.ndarray, title: str) -> str:
    picture = Image.fromarray(np.rint(np.clip(image, 0, 1) * 255).astype(np.uint8))
    scale = -(-MIN_SIDE // min(picture.size))
    if scale > 1:
        picture = picture.resize((picture.width * scale, picture.height * scale), Image.Resampling.NEAREST)
    buffer = BytesIO()
    picture.save(buffer, format="PNG")
    content = base64.b64encode(buffer.getvalue()).decode("ascii")
    return f'<img alt="{title}" src="data:image/png;base64,{content}" style="margin-right:8px;max-height:320px">'


def _render_token(token: str, strength: float, label: str) -> str:
    face = to_hex(tuple(map_to_colours(np.nan_to_num(np.array(strength)))))
    style = f"background:{face};color:#000;padding:1px 4px;margin:1px;display:inline-block"
    return f'<span style="{style}">{html.escape(token)} <small>{label}</small></span>'
