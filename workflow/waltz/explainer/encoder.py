"""One image with a text, or with a caption and a foil, explained by an encoder: values, a figure, a table, HTML."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from PIL import Image

from waltz.attribution.attention_relevance import compute_clip_relevance
from waltz.attribution.mm_shap import Attribution, attribute_texts
from waltz.attribution.shapley.estimate import AttributionSettings, to_null
from waltz.attribution.shapley.interactions import compute_joint_share
from waltz.attribution.t_shap import count_evaluations_for_point
from waltz.explainer.html import render_panels
from waltz.explainer.values import (
    PlayerValues,
    build_image_values,
    build_text_values,
    describe_share,
    describe_strongest_pairs,
    list_rows,
    name_image_players,
    record_interactions,
    shorten_model_name,
)
from waltz.model_registry import ModelSpec
from waltz.models.batches import ProgressCallback, ignore_progress
from waltz.models.encoders.coalitions import Players
from waltz.models.encoders.encoder import Encoder
from waltz.models.regions import get_players_function
from waltz.models.visible_image import render_encoder_view
from waltz.reporting.figures.heatmaps import Heatmap, HeatmapPanel, draw_heatmaps, draw_interactions

SIDES = ("caption", "foil")


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """An image with a text, explained by an encoder.

    Attributes:
        caption: The text.
        attribution: Shapley values and what belongs to them.
        view: The image as the model sees it: RGB in [0, 1], of shape (height, width, 3).
        cells: Number of the image player that each of its pixels lies in, as `Players.cells`.
        probability: The model's own probability of a match, or None.
        relevance: Attention relevance, for CLIP.
        foil: The explanation of the foil, where there is one.
    """

    model: ModelSpec
    settings: AttributionSettings
    caption: str
    attribution: Attribution
    view: np.ndarray
    cells: np.ndarray
    probability: float | None
    relevance: Heatmap | None
    foil: "Explanation | None" = None

    @property
    def score(self) -> float:
        """The explained value, the logit of late fusion, else the probability of a match where there is one."""
        return self.attribution.score

    @property
    def t_shap(self) -> float:
        """Share of the text, between 0 and 1; NaN where it is undefined."""
        return self.attribution.t_shap

    @property
    def t_shap_se(self) -> float:
        """Standard error of T-SHAP; 0 for exact values."""
        return self.attribution.t_shap_se

    @property
    def t_shap_interval(self) -> tuple[float, float]:
        """95 % interval of T-SHAP by Student's t; NaN where there is no standard error."""
        return self.attribution.t_shap_interval

    @property
    def t_shap_corrected(self) -> float:
        """T-SHAP without most of the bias of few permutations; NaN for regressions, which have none to average out."""
        return self.attribution.t_shap_corrected

    @property
    def text(self) -> PlayerValues:
        """Shapley values of the text players, of shape (players,), with `tokens` and `spans`."""
        attribution = self.attribution
        phi = attribution.phi[: len(attribution.tokens), 0]
        return build_text_values(phi, self.caption, attribution.tokens, attribution.spans)

    @property
    def image(self) -> PlayerValues:
        """Shapley values of the image players, of shape (players,), with `boxes`."""
        return build_image_values(self.attribution.phi[len(self.attribution.tokens) :, 0], self.cells)

    @property
    def interactions(self) -> np.ndarray | None:
        """Shapley interaction indices of text and image players, (text players, image players), if requested."""
        return self.attribution.interactions

    @property
    def joint_share(self) -> float:
        """Share of the magnitude that text and image make together; NaN without interactions."""
        pairs = self.attribution.interactions
        return math.nan if pairs is None else compute_joint_share(self.attribution.phi[:, 0], pairs)

    def record(self) -> dict[str, Any]:
        """Return the record of `--json` (docs/tutorials/explain.md): plain values, None for NaN or infinity."""
        common = {"model": self.model.name, "revision": self.model.revision, "profile": self.settings.profile}
        foil = {"foil": self.foil._record_text()} if self.foil else {}
        return {**common, **self._record_text(), **foil}

    def to_frame(self) -> pd.DataFrame:
        """Return a row for each player: `role`, `modality`, `player`, `phi`, and its characters or its box."""
        return pd.DataFrame(
            row
            for role, part in zip(SIDES, self._parts(), strict=False)
            for row in list_rows(part.text, part.image, part._name_image_players(), role=role)
        )

    def plot(self) -> Figure:
        """Draw the caption next to the foil, with values as they are and renormalised per modality."""
        return draw_heatmaps(self.view, self._build_panels(), self._build_title())

    def plot_interactions(self) -> Figure:
        """Draw the image once for each text player, coloured by the interactions of its regions with that player.

        Raises:
            ValueError: Interactions were not requested.
        """
        if self.interactions is None:
            raise ValueError("interactions: not computed; explain with interactions=True")
        return draw_interactions(self.view, self.cells, self.text.tokens or (), self.interactions, self._build_title())

    def lines(self) -> Iterator[str]:
        """Yield a summary of each text: score, T-SHAP, and the value of each token."""
        for part in self._parts():
            attribution = part.attribution
            tokens = "  ".join(
                f"{token} {'NaN' if math.isnan(value) else format(value, '+.3g')}"
                for token, value in zip(part.text.tokens or (), part.text, strict=True)
            )
            joint = "" if attribution.interactions is None else f"; {part._describe_joint_share()}"
            yield part.caption
            yield f"  {part._describe_score()}{joint}; {attribution.requested} evaluations, {attribution.estimator}"
            yield f"  {tokens}"
            if attribution.interactions is not None:
                names = part._name_image_players()
                yield f"  {describe_strongest_pairs(attribution.interactions, part.text.tokens or (), names)}"

    def __repr__(self) -> str:
        """Return at most five lines: the model, then each text with its score and T-SHAP."""
        lines = [f"Explanation by {self._build_title()}"]
        for part in self._parts():
            lines += [f"  {_shorten(part.caption)}", f"    {part._describe_score()}"]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        headings = [f"{_shorten(part.caption)} ({part._describe_score()})" for part in self._parts()]
        return render_panels(self.view, self._build_panels(), headings)

    def _parts(self) -> list["Explanation"]:
        return [self, self.foil] if self.foil else [self]

    def _build_title(self) -> str:
        return f"{shorten_model_name(self.model)}, {self.settings.profile}"

    def _build_panels(self) -> list[HeatmapPanel]:
        return [
            HeatmapPanel(
                heading=heading if self.foil else "text",
                text=part.caption,
                tokens=part.attribution.tokens,
                spans=part.attribution.spans,
                cells=part.cells,
                phi=part.attribution.phi[:, 0],
                score=part.score,
                t_shap=part.t_shap,
                t_shap_se=part.t_shap_se,
                relevance=part.relevance,
            )
            for heading, part in zip(SIDES, self._parts(), strict=False)
        ]

    def _describe_score(self) -> str:
        score = f"{self.score:.6g}" if math.isfinite(self.score) else "not finite"
        reason = self._find_reason()
        share = "not defined" if math.isnan(self.t_shap) else f"{100 * self.t_shap:.2f} %"
        error = "" if math.isnan(self.t_shap_se) else f" ± {100 * self.t_shap_se:.2f}"
        return f"score {score}, T-SHAP {share}{error}{f' ({reason})' if reason else ''}"

    def _describe_joint_share(self) -> str:
        return describe_share("used together", self.joint_share, reason="nothing contributes")

    def _find_reason(self) -> str | None:
        attribution = self.attribution
        if not all(map(math.isfinite, (attribution.score, *attribution.phi[:, 0]))):
            return "the model's score is not finite"
        return attribution.reason

    def _name_image_players(self) -> list[str]:
        attribution = self.attribution
        return name_image_players(len(attribution.phi) - len(attribution.tokens), attribution.grid, self.cells)

    def _record_text(self) -> dict[str, Any]:
        attribution = self.attribution
        words = len(attribution.tokens)
        token_texts = [
            self.caption[span["start"] : span["end"]] or token
            for token, span in zip(attribution.tokens, attribution.spans, strict=True)
        ]
        return {
            "text": self.caption,
            "estimator": attribution.estimator,
            "score": to_null(attribution.score),
            "probability": to_null(self.probability),
            "t_shap": to_null(attribution.t_shap),
            "t_shap_se": to_null(attribution.t_shap_se),
            "t_shap_interval": list(map(to_null, attribution.t_shap_interval)),
            "t_shap_corrected": to_null(attribution.t_shap_corrected),
            "evaluations_for_1_point": to_null(
                count_evaluations_for_point(attribution.requested, attribution.t_shap_se)
            ),
            "reason": self._find_reason(),
            "players": [
                {"text": text, "modality": "text" if place < words else "image", "phi": to_null(value)}
                for place, (text, value) in enumerate(
                    zip([*token_texts, *self._name_image_players()], attribution.phi[:, 0], strict=True)
                )
            ],
            "evaluations": attribution.requested,
            "evaluated": attribution.evaluated,
            "base_value": to_null(attribution.base_value[0]),
            "value": to_null(attribution.value[0]),
            "residual": to_null(attribution.residual),
            "seed": attribution.seed,
            **record_interactions(attribution.interactions, self.joint_share),
        }


def explain_texts(
    encoder: Encoder,
    image: Image.Image,
    texts: Sequence[str],
    settings: AttributionSettings,
    *,
    regroup: Callable[[Players, str], Players] | None = None,
    interactions: bool = False,
    progress: ProgressCallback = ignore_progress,
) -> list[Explanation]:
    """Compute the contribution of each text and image player to an encoder's score of each text with one image.

    Args:
        texts: Texts, whose masked images are shared.
        regroup: See `mm_shap.attribute_texts`.
        interactions: See `mm_shap.attribute_texts`.
        progress: See `mm_shap.attribute_texts`.
    Raises:
        UserError: The settings do not fit the model, or a text is longer than it reads.
    """
    attributions = attribute_texts(
        encoder, image, texts, settings, regroup=regroup, interactions=interactions, progress=progress
    )
    prepared = encoder.prepare_image(image)
    view = render_encoder_view(encoder, image)
    explanations = []
    for text, attribution in zip(texts, attributions, strict=True):
        tokenized = encoder.tokenize(text)
        players = get_players_function(encoder, settings.profile)(encoder, tokenized, prepared)
        if regroup is not None:
            players = regroup(players, text)
        relevance = None
        if encoder.spec.kind == "clip":
            clip_relevance = compute_clip_relevance(getattr(encoder, "network"), torch.tensor(tokenized.ids), prepared)  # noqa: B009
            tokens = np.array([clip_relevance.tokens[positions].sum() for positions in players.list_positions()])
            relevance = Heatmap(tokens, clip_relevance.patches)
        explanations.append(
            Explanation(
                model=encoder.spec,
                settings=settings,
                caption=text,
                attribution=attribution,
                view=view,
                cells=players.cells.cpu().numpy(),
                probability=_compute_probability(encoder, attribution.score),
                relevance=relevance,
            )
        )
    return explanations


def pair_with_foil(explanations: Sequence[Explanation]) -> Explanation:
    """Return the explanation of a caption with that of its foil."""
    caption, foil = explanations
    return replace(caption, foil=foil)


def _compute_probability(encoder: Encoder, score: float) -> float | None:
    """Return the probability of a match; it is the explained value, except for encoders of late fusion."""
    if encoder.probability and encoder.late:
        return float(torch.sigmoid(torch.tensor(score, dtype=torch.float64)))
    return score if encoder.probability else None


def _shorten(text: str, most: int = 80) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
