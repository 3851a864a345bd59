"""What was found for one image with its caption and foil: as values, as a figure, as coloured text."""

import html
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from waltz.attribution.mm_shap import Attribution
from waltz.attribution.settings import AttributionSettings
from waltz.model_registry import ModelSpec
from waltz.reporting.figures.heatmap import Heatmap, HeatmapPanel, draw_heatmaps, map_to_colours

SIDES = ("caption", "foil")


@dataclass(frozen=True, eq=False)
class Explained:
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
        model: What was asked, with its revision.
        settings: How values were estimated.
        image: What the model sees: RGB in [0, 1], of shape (height, width, 3).
        caption: The text.
        foil: The other text, if any.
    """

    model: ModelSpec
    settings: AttributionSettings
    image: np.ndarray
    caption: Explained
    foil: Explained | None

    @property
    def attributions(self) -> list[Attribution]:
        """Of the caption, then of the foil."""
        return [part.attribution for part in self._parts()]

    def record(self) -> dict[str, Any]:
        """Return what `--json` writes (docs/tutorials/explain.md): plain values, None for what is not a number."""
        common = {"model": self.model.name, "revision": self.model.revision, "profile": self.settings.profile}
        foil = {"foil": _record(self.foil)} if self.foil else {}
        return {**common, **_record(self.caption), **foil}

    def figure(self) -> Figure:
        """The sample's figure: caption beside foil, values as they are and renormalised per modality."""
        samples = []
        for heading, part in zip(SIDES, self._parts(), strict=False):
            found = part.attribution
            samples.append(
                HeatmapPanel(
                    heading=heading if self.foil else "text",
                    text=part.text,
                    tokens=found.tokens,
                    spans=found.spans,
                    cells=part.cells,
                    phi=found.phi[:, 0],
                    score=found.score,
                    t_shap=found.t_shap,
                    t_shap_se=found.t_shap_se,
                    relevance=part.relevance,
                )
            )
        name = Path(self.model.name).name if self.model.revision == "local" else self.model.name
        return draw_heatmaps(self.image, samples, f"{name}, {self.settings.profile}")

    def _parts(self) -> list[Explained]:
        return [self.caption, self.foil] if self.foil else [self.caption]

    def _repr_html_(self) -> str:
        """Texts with coloured tokens, for a notebook."""
        peak = max(float(np.nan_to_num(np.abs(found.phi)).max(initial=0)) for found in self.attributions)
        lines = []
        for part in self._parts():
            found = part.attribution
            tokens = "".join(
                _coloured(token, value, peak) for token, value in zip(found.tokens, found.phi[:, 0], strict=False)
            )
            lines.append(f"<p>score {found.score:.3g}, T-SHAP {100 * found.t_shap:.1f} %<br>{tokens}</p>")
        return "".join(lines)


def _record(part: Explained) -> dict[str, Any]:
    found = part.attribution
    words = len(found.tokens)
    said = [
        part.text[span["start"] : span["end"]] or token for token, span in zip(found.tokens, found.spans, strict=True)
    ]
    places = [f"patch {row},{column}" for row in range(found.grid) for column in range(found.grid)]
    values = found.phi[:, 0]
    reason = found.reason
    if not all(map(math.isfinite, (found.score, *values))):
        reason = "the model's score is not finite"
    return {
        "text": part.text,
        "estimator": found.estimator,
        "score": _finite(found.score),
        "probability": None if part.probability is None else _finite(part.probability),
        "t_shap": _finite(found.t_shap),
        "t_shap_se": _finite(found.t_shap_se),
        "reason": reason,
        "players": [
            {"text": shown, "modality": "text" if place < words else "image", "phi": _finite(values[place])}
            for place, shown in enumerate([*said, *places])
        ],
        "evaluations": found.requested,
        "evaluated": found.evaluated,
        "base_value": _finite(found.base_value[0]),
        "value": _finite(found.value[0]),
        "residual": _finite(found.residual),
        "seed": found.seed,
    }


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _coloured(token: str, value: float, peak: float) -> str:
    strong = 0.0 if math.isnan(value) or not peak else value / peak
    face = to_hex(tuple(map_to_colours(np.array(strong))))
    look = f"background:{face};color:#000;padding:1px 4px;margin:1px;display:inline-block"
    return f'<span style="{look}">{html.escape(token)} <small>{value:+.2g}</small></span>'
