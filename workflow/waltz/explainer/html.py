"""Explanations in a notebook: the image, its heat map and the colored tokens, as one piece of HTML."""

import base64
import html
import math
from collections.abc import Sequence
from io import BytesIO

import numpy as np
from matplotlib.colors import to_hex
from PIL import Image

from waltz.reporting.figures.heatmaps import (
    HeatmapPanel,
    Layer,
    color_image,
    find_peak,
    map_to_colors,
    split_layers,
)

MIN_SIDE = 224
"""Minimum length, in pixels, of the shorter side of an image that is shown; smaller images are
enlarged.
"""


def render_panels(
    image: np.ndarray | None, panels: Sequence[HeatmapPanel], headings: Sequence[str]
) -> str:
    """Return panels as HTML without scripts: a heading, the image as the model sees it, its heat
    map, the tokens.

    Blue players raise the score, red players lower it; all panels share one color scale.

    Args:
        image: RGB in [0, 1] of shape (height, width, 3); None without an image.
        panels: Texts with their values.
        headings: A line for each panel.
    """
    # All panels have one color scale, so that caption and foil can be compared.
    peak = find_peak(panels)
    rendered_panels = []
    for panel, heading in zip(panels, headings, strict=True):
        layer = split_layers(panel, peak)[0]
        pictures = ""
        if image is not None and panel.cells.size:
            heat_map = color_image(image, panel.cells, layer)
            pictures = _render_image(image, "image") + _render_image(
                heat_map, "heat map"
            )
        tokens = _render_tokens(panel, layer)
        rendered_panels.append(
            f"<div><p><b>{html.escape(heading)}</b></p>{pictures}<p>{tokens}</p></div>"
        )
    return "".join(rendered_panels)


def _render_tokens(panel: HeatmapPanel, layer: Layer) -> str:
    """Return the tokens of a panel as HTML, colored by the strength of their contribution."""
    tokens = []
    for token, span, strength, label in zip(
        panel.tokens, panel.spans, layer.tokens, layer.token_labels, strict=True
    ):
        # A special token has no characters in the text, so that its name is shown.
        characters = panel.text[span["start"] : span["end"]].strip()
        tokens.append(_render_token(characters or token, strength, label))
    return "".join(tokens)


def _render_image(image: np.ndarray, title: str) -> str:
    picture = Image.fromarray(np.rint(np.clip(image, 0, 1) * 255).astype(np.uint8))
    # Browsers would blur a small image when they enlarge it, so that it is enlarged here without
    # blurring.
    scale = math.ceil(MIN_SIDE / min(picture.size))
    if scale > 1:
        picture = picture.resize(
            (picture.width * scale, picture.height * scale), Image.Resampling.NEAREST
        )
    buffer = BytesIO()
    picture.save(buffer, format="PNG")
    content = base64.b64encode(buffer.getvalue()).decode("ascii")
    return f'<img alt="{title}" src="data:image/png;base64,{content}" style="margin-right:8px;max-height:320px">'


def _render_token(token: str, strength: float, label: str) -> str:
    face = to_hex(tuple(map_to_colors(np.array(strength))))
    style = (
        f"background:{face};color:#000;padding:1px 4px;margin:1px;display:inline-block"
    )
    return f'<span style="{style}">{html.escape(token)} <small>{label}</small></span>'
