"""Explanation of one image with its caption and foil: as values, as a figure, as coloured text."""

import html
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from waltz.attribution.mm_shap import Attribution
from waltz.attribution.shapley.estimate import AttributionSettings
from waltz.model_registry import ModelSpec
from waltz.reporting.figures.heatmaps import Heatmap, HeatmapPanel, draw_heatmaps, map_to_colours

SIDES = ("caption", "foil")


@dataclass(frozen=True, eq=False)
class AttributedText:
    """One text of an explanation.

    Attributes:
        text: The text.
        attribution: Its Shapley values.
        cells: Number of the patch that each pixel lies in, as `Players.cells`.
        probability: The model's own probability of a match, or None where it has none.
        relevance: Attention relevance, for CLIP.
    """

    text: str
    attribution: Attribution
    cells: np.ndarray
    probability: float | None
    relevance: Heatmap | None


@dataclass(frozen=True, eq=False)
class Explanation:
    """An image with its caption, and its foil where there is one.

    Attributes:
        model: The explained model, with its revision.
        settings: Settings of the estimation.
        image: The image as the model receives it: RGB in [0, 1], of shape (height, width, 3).
        caption: The text.
        foil: The second text, if any.
    """

    model: ModelSpec
    settings: AttributionSettings
    image: np.ndarray
    caption: AttributedText
    foil: AttributedText | None

    @property
    def attributions(self) -> list[Attribution]:
        """Return the attributions of the caption, then of the foil."""
        return [part.attribution for part in self._parts()]

    def record(self) -> dict[str, Any]:
        """Return the record of `--json` (docs/tutorials/explain.md): plain values, None for NaN or infinity."""
        common = {"model": self.model.name, "revision": self.model.revision, "profile": self.settings.profile}
        foil = {"foil": _build_record(self.foil)} if self.foil else {}
        return {**common, **_build_record(self.caption), **foil}

    def figure(self) -> Figure:
        """Draw the caption next to the foil, with values as they are and renormalised per modality."""
        samples = []
        for heading, part in zip(SIDES, self._parts(), strict=False):
            attribution = part.attribution
            samples.append(
                HeatmapPanel(
                    heading=heading if self.foil else "text",
                    text=part.text,
                    tokens=attribution.tokens,
                    spans=attribution.spans,
                    cells=part.cells,
                    phi=attribution.phi[:, 0],
                    score=attribution.score,
                    t_shap=attribution.t_shap,
                    t_shap_se=attribution.t_shap_se,
                    relevance=part.relevance,
                )
            )
        name = Path(self.model.name).name if self.model.revision == "local" else self.model.name
        return draw_heatmaps(self.image, samples, f"{name}, {self.settings.profile}")

    def _parts(self) -> list[AttributedText]:
        return [self.caption, self.foil] if self.foil else [self.caption]

    def _repr_html_(self) -> str:
        """Return the texts with coloured tokens, for a notebook."""
        peak = max(float(np.nan_to_num(np.abs(attribution.phi)).max(initial=0)) for attribution in self.attributions)
        lines = []
        for part in self._parts():
            attribution = part.attribution
            tokens = "".join(
                _render_coloured(token, value, peak)
                for token, value in zip(attribution.tokens, attribution.phi[:, 0], strict=False)
            )
            lines.append(f"<p>score {attribution.score:.3g}, T-SHAP {100 * attribution.t_shap:.1f} %<br>{tokens}</p>")
        return "".join(lines)


def _build_record(part: AttributedText) -> dict[str, Any]:
    attribution = part.attribution
    words = len(attribution.tokens)
    token_texts = [
        part.text[span["start"] : span["end"]] or token
        for token, span in zip(attribution.tokens, attribution.spans, strict=True)
    ]
    places = [f"patch {row},{column}" for row in range(attribution.grid) for column in range(attribution.grid)]
    values = attribution.phi[:, 0]
    reason = attribution.reason
    if not all(map(math.isfinite, (attribution.score, *values))):
        reason = "the model's score is not finite"
    return {
        "text": part.text,
        "estimator": attribution.estimator,
        "score": _convert_finite(attribution.score),
        "probability": None if part.probability is None else _convert_finite(part.probability),
        "t_shap": _convert_finite(attribution.t_shap),
        "t_shap_se": _convert_finite(attribution.t_shap_se),
        "reason": reason,
        "players": [
            {"text": text, "modality": "text" if place < words else "image", "phi": _convert_finite(values[place])}
            for place, text in enumerate([*token_texts, *places])
        ],
        "evaluations": attribution.requested,
        "evaluated": attribution.evaluated,
        "base_value": _convert_finite(attribution.base_value[0]),
        "value": _convert_finite(attribution.value[0]),
        "residual": _convert_finite(attribution.residual),
        "seed": attribution.seed,
    }


def _convert_finite(value: float) -> float | None:
    """Return a finite value as float, else None."""
    return float(value) if math.isfinite(value) else None


def _render_coloured(token: str, value: float, peak: float) -> str:
    strength = 0.0 if math.isnan(value) or not peak else value / peak
    face = to_hex(tuple(map_to_colours(np.array(strength))))
    style = f"background:{face};color:#000;padding:1px 4px;margin:1px;display:inline-block"
    return f'<span style="{style}">{html.escape(token)} <small>{value:+.2g}</small></span>'
