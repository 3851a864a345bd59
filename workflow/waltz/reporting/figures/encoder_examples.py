"""Figures of attributed items, from rows of the layout ATTRIBUTION (thesis 4.1, B.1 to B.10)."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from waltz.core.sampling import sample
from waltz.models.encoders.encoder import Encoder
from waltz.models.encoders.players import PROFILES
from waltz.models.visible_image import render_encoder_view
from waltz.reporting.figures.heatmap import HeatmapPanel, draw_heatmaps


def select_example_items(rows: Sequence[Mapping[str, Any]], n: int, seed: int) -> list[str]:
    """Return the ids of the items to show: a seeded sample of those without an error, in that order.

    Args:
        rows: Rows of one data set and profile.
        n: Largest number of items.
        seed: The study's seed.
    """
    failed = {row["item_id"] for row in rows if row["error"] is not None}
    ids = sorted({row["item_id"] for row in rows} - failed)
    return sample(ids, min(n, len(ids)), seed)


def draw_encoder_example(encoder: Encoder, rows: Sequence[Mapping[str, Any]], image: Image.Image, title: str) -> Figure:
    """Draw the texts of one item with its image and the contributions in its rows.

    Args:
        encoder: The encoder that was attributed.
        rows: The item's rows of one profile.
        image: Its image, RGB.
        title: Heading of the figure.
    """
    prepared = encoder.prepare_image(image)
    panels = []
    for row in rows:
        players = PROFILES[row["profile"]](encoder, encoder.tokenize(row["text"]), prepared)
        panels.append(
            HeatmapPanel(
                heading=row["role"],
                text=row["text"],
                tokens=row["tokens"],
                spans=row["spans"],
                cells=players.cells.cpu().numpy(),
                phi=np.array(row["phi"], dtype=np.float64)[:, 0],
                score=row["score"],
                t_shap=_fill_missing(row["t_shap"]),
                t_shap_se=_fill_missing(row["t_shap_se"]),
            )
        )
    return draw_heatmaps(render_encoder_view(encoder, image), panels, title)


def _fill_missing(value: float | None) -> float:
    """Return a value, NaN for None."""
    return math.nan if value is None else value
