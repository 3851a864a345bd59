"""Attributions of one answer of a decoder and of its explanation: as values, as a figure, as lines of text."""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from waltz.attribution.prompt_attribution import PromptAttribution, PromptSettings
from waltz.attribution.shapley.estimate import to_null
from waltz.attribution.t_shap import TShap, compute_contribution_ratios, find_contributing_outputs
from waltz.consistency.cc_shap.pair_attribution import PairAttribution, SideAttribution
from waltz.model_registry import ModelSpec
from waltz.reporting.figures import explanations
from waltz.reporting.figures.explanations import draw_answer_and_explanation

NAMES = ("answer", "explanation")
START = "(start)"
"""A start token among the pieces of a text, which has no characters."""


@dataclass(frozen=True, eq=False)
class DecoderExplanation:
    """An answer and its explanation.

    Attributes:
        model: The model, with its revision.
        settings: How Shapley values were estimated.
        question: The question as the prompts word it, or None for ready prompts.
        label: The label that the model chose, where it had labels to choose from. In `published` the token that is
            explained may be another one.
        texts: The answer and the explanation.
        pair: Their attributions, CC-SHAP and T-SHAP.
        image: The image as the model sees it, RGB in [0, 1] of shape (height, width, 3); None without an image.
        cells: Of answer and explanation, number of the patch that each pixel lies in; None without an image.
    """

    model: ModelSpec
    settings: PromptSettings
    question: str | None
    label: str | None
    texts: tuple[str, str]
    pair: PairAttribution
    image: np.ndarray | None
    cells: tuple[np.ndarray | None, np.ndarray | None]

    @property
    def sides(self) -> tuple[SideAttribution, SideAttribution]:
        """Answer and explanation."""
        return self.pair.answer, self.pair.explanation

    def record(self) -> dict[str, Any]:
        """Return what `--json` writes, as plain values; `docs/explain.md` lists the fields. None is not a number."""
        cc_shap = self.pair.cc_shap
        return {
            "model": self.model.name,
            "revision": self.model.revision,
            "profile": self.settings.profile,
            "seed": self.settings.seed,
            "question": self.question,
            "label": self.label,
            "cc_shap": to_null(cc_shap.value),
            "cc_shap_se": to_null(cc_shap.standard_error),
            "cc_shap_reason": cc_shap.reason or cc_shap.standard_error_reason,
            "companions": None
            if cc_shap.companions is None
            else {name: to_null(value) for name, value in asdict(cc_shap.companions).items()},
            "weak_answer": cc_shap.weak_answer,
            "weak_explanation": cc_shap.weak_explanation,
            "cc_shap_with_weak": to_null(cc_shap.with_weak),
            "ratios_answer": [to_null(value) for value in cc_shap.ratios_answer],
            "ratios_explanation": [to_null(value) for value in cc_shap.ratios_explanation],
            **{name: _build_record(side, text) for name, side, text in zip(NAMES, self.sides, self.texts, strict=True)},
        }

    def figure(self) -> Figure:
        """Draw tokens and patches of the answer above those of the explanation, as they are and by modality."""
        name = Path(self.model.name).name if self.model.revision == "local" else self.model.name
        sides = [
            explanations.ExplainedText(
                name=side_name,
                generated_text=side_text,
                prompt=side.attribution.game.text,
                tokens=side.attribution.tokens,
                spans=side.attribution.spans,
                phi=_order_text_first(side.attribution),
                cells=cells,
                t_shap=None if cells is None else to_null(side.attribution.t_shap.value),
                t_shap_se=None if cells is None else to_null(side.attribution.t_shap.standard_error),
            )
            for side_name, side, side_text, cells in zip(NAMES, self.sides, self.texts, self.cells, strict=True)
        ]
        return draw_answer_and_explanation(
            sides, f"{name}, {self.settings.profile}: {self._describe_cc_shap()}", self.image
        )

    def lines(self) -> Iterator[str]:
        """Yield a summary: texts, T-SHAP, and the mean ratio of each token in percent; then CC-SHAP."""
        if self.question is not None:
            yield self.question
        for name, side, text in zip(NAMES, self.sides, self.texts, strict=True):
            attribution = side.attribution
            has_image = attribution.text != slice(0, len(attribution.estimate.phi))
            share = f" {_describe_t_shap(attribution.t_shap)};" if has_image else ""
            differs = name == "answer" and self.label is not None and self.label != text.strip()
            label = f" (of the labels, {self.label})" if differs else ""
            yield f"{name}: {' '.join(text.split()) or '(nothing to read)'}{label}"
            yield f" {share} {attribution.estimate.requested} evaluations, {attribution.estimator}; mean ratios in %:"
            means = _compute_percents(attribution)[attribution.text]
            yield "  " + "  ".join(
                f"{token} {'NaN' if math.isnan(mean) else format(mean, '+.1f')}"
                for token, mean in zip(_spell_tokens(attribution), means, strict=True)
            )
        yield self._describe_cc_shap()

    def _describe_cc_shap(self) -> str:
        cc_shap = self.pair.cc_shap
        if cc_shap.value is None:
            return f"CC-SHAP not defined ({cc_shap.reason})"
        error = "" if cc_shap.standard_error is None else f" ± {cc_shap.standard_error:.3f}"
        return f"CC-SHAP {cc_shap.value:.3f}{error}"


def _build_record(side: SideAttribution, text: str) -> dict[str, Any]:
    attribution, estimate = side.attribution, side.attribution.estimate
    patches = len(estimate.phi) - len(attribution.tokens)
    grid = math.isqrt(patches)
    words = [{"text": token, "modality": "text"} for token in _spell_tokens(attribution)]
    image = [{"text": f"patch {patch // grid},{patch % grid}", "modality": "image"} for patch in range(patches)]
    return {
        "said": text,
        "target_ids": list(attribution.game.targets),
        "prompt": attribution.game.text,
        "tail": attribution.game.query_suffix,
        "t_shap": to_null(attribution.t_shap.value),
        "t_shap_se": to_null(attribution.t_shap.standard_error),
        "reason": attribution.t_shap.reason or attribution.t_shap.standard_error_reason,
        "estimator": attribution.estimator,
        "evaluations": estimate.requested,
        "base_value": [to_null(value) for value in estimate.base_value],
        "value": [to_null(value) for value in estimate.value],
        "residual": to_null(estimate.residual),
        "shared": side.shared.tolist(),
        "players": [*image, *words] if attribution.text.start else [*words, *image],
        "phi": [[to_null(value) for value in row] for row in estimate.phi],
    }


def _spell_tokens(attribution: PromptAttribution) -> list[str]:
    """Return the characters that each text player stands for, or the token itself where it stands for none."""
    text = attribution.game.text
    spans = zip(attribution.tokens, attribution.spans, strict=True)
    return [text[span["start"] : span["end"]].strip() or token or START for token, span in spans]


def _order_text_first(attribution: PromptAttribution) -> np.ndarray:
    """Return the Shapley values of text players, then of patches."""
    phi = attribution.estimate.phi
    return np.concatenate([phi[attribution.text], np.delete(phi, attribution.text, axis=0)])


def _compute_percents(attribution: PromptAttribution) -> np.ndarray:
    """Return the mean ratios of all players in percent, over outputs to which more than next to nothing contributes."""
    phi = attribution.estimate.phi
    strong = find_contributing_outputs(phi)
    if not strong.any():
        return np.full(len(phi), math.nan)
    percents: np.ndarray = 100 * compute_contribution_ratios(phi[:, strong]).mean(axis=1)
    return percents


def _describe_t_shap(t_shap: TShap) -> str:
    if math.isnan(t_shap.value):
        return f"T-SHAP not defined ({t_shap.reason})"
    error = "" if math.isnan(t_shap.standard_error) else f" ± {100 * t_shap.standard_error:.2f}"
    return f"T-SHAP {100 * t_shap.value:.2f} %{error}"
