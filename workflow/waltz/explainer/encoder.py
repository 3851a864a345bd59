"""One image with a text, or a caption and a foil, explained by an encoder: as values, as a figure, as coloured text."""

import html
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from PIL import Image

from waltz.attribution.attention_relevance import compute_clip_relevance
from waltz.attribution.mm_shap import Attribution, attribute_texts
from waltz.attribution.shapley.estimate import AttributionSettings, to_null
from waltz.attribution.shapley.estimators import ESTIMATORS
from waltz.core.devices import Device, lease_device
from waltz.core.errors import UserError, build_name_error
from waltz.fidelity import get_fidelity
from waltz.model_registry import ModelSpec
from waltz.models.encoders import load_encoder
from waltz.models.encoders.coalitions import PROFILES
from waltz.models.encoders.encoder import Encoder
from waltz.models.resolve_name import resolve_encoder
from waltz.models.visible_image import render_encoder_view
from waltz.reporting.figures.heatmaps import Heatmap, HeatmapPanel, draw_heatmaps, map_to_colours
from waltz.sources.images import ImageSource, load_image

SIDES = ("caption", "foil")
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class AttributedText:
    """One text of an explanation.

    Attributes:
        cells: Number of the patch that each pixel lies in, as `Players.cells`.
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
        image: The image as the model receives it: RGB in [0, 1], of shape (height, width, 3).
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
        foil = {"foil": _record_text(self.foil)} if self.foil else {}
        return {**common, **_record_text(self.caption), **foil}

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


def _record_text(part: AttributedText) -> dict[str, Any]:
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
        "score": to_null(attribution.score),
        "probability": to_null(part.probability),
        "t_shap": to_null(attribution.t_shap),
        "t_shap_se": to_null(attribution.t_shap_se),
        "reason": reason,
        "players": [
            {"text": text, "modality": "text" if place < words else "image", "phi": to_null(values[place])}
            for place, text in enumerate([*token_texts, *places])
        ],
        "evaluations": attribution.requested,
        "evaluated": attribution.evaluated,
        "base_value": to_null(attribution.base_value[0]),
        "value": to_null(attribution.value[0]),
        "residual": to_null(attribution.residual),
        "seed": attribution.seed,
    }


def _render_coloured(token: str, value: float, peak: float) -> str:
    strength = 0.0 if math.isnan(value) or not peak else value / peak
    face = to_hex(tuple(map_to_colours(np.array(strength))))
    style = f"background:{face};color:#000;padding:1px 4px;margin:1px;display:inline-block"
    return f'<span style="{style}">{html.escape(token)} <small>{value:+.2g}</small></span>'


def explain(
    model: str,
    image: str | Path | Image.Image,
    text: str,
    foil: str | None = None,
    *,
    profile: str = "published",
    estimator: str = "auto",
    evaluations: int | None = None,
    seed: int = 0,
) -> Explanation:
    """Compute the contribution of each text token and each image patch to a model's score.

    Args:
        model: A registered model, a folder in transformers format, or a hub id, `owner/name` or `owner/name@revision`.
        text: The text, or the caption of a pair.
        foil: The second text of a pair.
        estimator: `auto`, or one of `shapley.estimators`.
        evaluations: Largest number of coalitions per text; None for the estimator's default.
        seed: Seed of the permutations, the same for each text.
    Raises:
        UserError: The model, image or settings cannot be used, or a text is longer than the model reads.
    """
    if profile not in PROFILES:
        raise build_name_error("profile", "profile", profile, PROFILES)
    for name, given in (("text", text), ("foil", foil)):
        if given is not None and not given.strip():
            raise UserError(f"{name}: empty (got {given!r}, expected words); write a text")
    if not 0 <= seed < 2**32:
        raise UserError(f"seed: out of range (got {seed}, expected 0 to {2**32 - 1}); choose another")
    if estimator not in ESTIMATORS:
        raise build_name_error("estimator", "estimator", estimator, ESTIMATORS)
    allowed = get_fidelity(profile).estimators
    if allowed and estimator not in allowed:
        raise UserError(f"estimator {estimator}: profile published draws permutations; take profile equations")
    settings = AttributionSettings(profile, estimator, evaluations, seed)
    picture = image.convert("RGB") if isinstance(image, Image.Image) else read_image_file(Path(image))
    spec = resolve_encoder(model)
    with load_model(load_encoder, spec) as encoder:
        texts = [text] if foil is None else [text, foil]
        attributions = attribute_texts(encoder, picture, texts, settings)
        parts = [
            _explain_text(encoder, picture, part, attribution, profile)
            for part, attribution in zip(texts, attributions, strict=True)
        ]
        view = render_encoder_view(encoder, picture)
    return Explanation(spec, settings, view, parts[0], None if foil is None else parts[1])


def read_image_file(path: Path) -> Image.Image:
    """Read an image file as RGB, upright.

    Raises:
        UserError: There is no such file, or it is no image that can be read.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such file; name an image")
    source = ImageSource(
        path.parent, {path.stem: (path.name,)}, lambda _: path.stat().st_size, lambda _: path.read_bytes()
    )
    return load_image(source, path.name)


@contextmanager
def load_model(load: Callable[[ModelSpec, Device], T], spec: ModelSpec) -> Iterator[T]:
    """Load a model on a leased device.

    Raises:
        UserError: It cannot be loaded, whatever its files make transformers raise.
    """
    with lease_device(spec.gpus, torch.get_num_threads()) as device:
        try:
            model = load(spec, device)
        except UserError:
            raise
        except Exception as error:
            first_line = (str(error).strip().splitlines() or [""])[0]
            raise UserError(f"{spec.name}: cannot be loaded: {type(error).__name__}: {first_line}") from error
        yield model


def _explain_text(
    encoder: Encoder, image: Image.Image, text: str, attribution: Attribution, profile: str
) -> AttributedText:
    prepared = encoder.prepare_image(image)
    tokenized = encoder.tokenize(text)
    players = PROFILES[profile](encoder, tokenized, prepared)
    relevance = None
    if encoder.spec.kind == "clip":
        clip_relevance = compute_clip_relevance(getattr(encoder, "network"), torch.tensor(tokenized.ids), prepared)  # noqa: B009
        relevance = Heatmap(clip_relevance.tokens[list(players.positions)], clip_relevance.patches)
    # the explained value is the probability of a match, except for encoders of late fusion
    probability = attribution.score if encoder.probability else None
    if encoder.probability and encoder.late:
        probability = float(torch.sigmoid(torch.tensor(attribution.score, dtype=torch.float64)))
    return AttributedText(text, attribution, players.cells.cpu().numpy(), probability, relevance)
