"""What was found for one answer of a decoder and its explanation: as values, as a figure, as lines of text."""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from waltz.attribution.ratios import contributed, ratios
from waltz.consistency.explained import Explained, Side
from waltz.consistency.played import Rules
from waltz.models.registry import ModelSpec
from waltz.reporting.figures import answer_and_explanation
from waltz.reporting.figures.answer_and_explanation import answer_and_explanation as drawn

NAMES = ("answer", "explanation")
START = "(start)"
"""A start token among the pieces of a text, which has no characters."""


@dataclass(frozen=True, eq=False)
class DecoderExplanation:
    """An answer and its explanation.

    Attributes:
        model: What was asked, with its revision.
        rules: How contributions were estimated.
        asked: The question as it is worded, or None for ready prompts.
        label: The label that the model chose, where it had labels to choose from. In `published` the token that is
            explained may be another one.
        said: The answer and the explanation as texts.
        found: Their contributions, CC-SHAP and T-SHAP.
        image: What the model sees, RGB in [0, 1] of shape (height, width, 3); None without an image.
        cells: Of answer and explanation, number of the patch that each pixel lies in; None without an image.
    """

    model: ModelSpec
    rules: Rules
    asked: str | None
    label: str | None
    said: tuple[str, str]
    found: Explained
    image: np.ndarray | None
    cells: tuple[np.ndarray | None, np.ndarray | None]

    @property
    def sides(self) -> tuple[Side, Side]:
        """Answer and explanation."""
        return self.found.answer, self.found.explanation

    def record(self) -> dict[str, Any]:
        """Return what `--json` writes (docs/tutorials/explain.md): plain values, None for what is not a number."""
        both = self.found.cc_shap
        return {
            "model": self.model.name,
            "revision": self.model.revision,
            "profile": self.rules.profile,
            "seed": self.rules.seed,
            "question": self.asked,
            "label": self.label,
            "cc_shap": _finite(both.value),
            "cc_shap_se": _finite(both.standard_error),
            "cc_shap_reason": both.reason or both.standard_error_reason,
            "companions": None
            if both.companions is None
            else {name: _finite(one) for name, one in asdict(both.companions).items()},
            "weak_answer": both.weak_answer,
            "weak_explanation": both.weak_explanation,
            "cc_shap_with_weak": _finite(both.with_weak),
            "ratios_answer": [_finite(one) for one in both.ratios_answer],
            "ratios_explanation": [_finite(one) for one in both.ratios_explanation],
            **{name: _record(side, said) for name, side, said in zip(NAMES, self.sides, self.said, strict=True)},
        }

    def figure(self) -> Figure:
        """Tokens and patches for the answer above those for the explanation, as they are and by modality."""
        name = Path(self.model.name).name if self.model.revision == "local" else self.model.name
        sides = [
            answer_and_explanation.Side(
                name=side_name,
                said=said,
                prompt=side.part.text,
                tokens=side.played.tokens,
                spans=side.played.spans,
                phi=_text_first(side),
                cells=cells,
                t_shap=None if cells is None else _finite(side.t_shap.value),
                t_shap_se=None if cells is None else _finite(side.t_shap.standard_error),
            )
            for side_name, side, said, cells in zip(NAMES, self.sides, self.said, self.cells, strict=True)
        ]
        return drawn(sides, f"{name}, {self.rules.profile}: {self._cc_shap()}", self.image)

    def lines(self) -> Iterator[str]:
        """A printed summary: what was said, T-SHAP, and the mean ratio of each token in percent; then CC-SHAP."""
        if self.asked is not None:
            yield self.asked
        for name, side, said in zip(NAMES, self.sides, self.said, strict=True):
            share = "" if side.played.text == slice(0, len(side.contributions.estimate.phi)) else f" {_t_shap(side)};"
            asked = side.contributions.estimate.asked
            other = name == "answer" and self.label is not None and self.label != said.strip()
            chosen = f" (of the labels, {self.label})" if other else ""
            yield f"{name}: {' '.join(said.split()) or '(nothing to read)'}{chosen}"
            yield f" {share} {asked} evaluations, {side.played.estimator}; mean ratios in %:"
            means = _percents(side)[side.played.text]
            shown = zip(_shown_tokens(side), means, strict=True)
            yield "  " + "  ".join(
                f"{token} {'NaN' if math.isnan(one) else format(one, '+.1f')}" for token, one in shown
            )
        yield self._cc_shap()

    def _cc_shap(self) -> str:
        both = self.found.cc_shap
        if both.value is None:
            return f"CC-SHAP not defined ({both.reason})"
        error = "" if both.standard_error is None else f" ± {both.standard_error:.3f}"
        return f"CC-SHAP {both.value:.3f}{error}"


def _record(side: Side, said: str) -> dict[str, Any]:
    estimate = side.contributions.estimate
    patches = len(estimate.phi) - len(side.played.tokens)
    grid = math.isqrt(patches)
    words = [{"text": text, "modality": "text"} for text in _shown_tokens(side)]
    image = [{"text": f"patch {place // grid},{place % grid}", "modality": "image"} for place in range(patches)]
    return {
        "said": said,
        "target_ids": list(side.part.targets),
        "prompt": side.part.text,
        "tail": side.part.tail,
        "t_shap": _finite(side.t_shap.value),
        "t_shap_se": _finite(side.t_shap.standard_error),
        "reason": side.t_shap.reason or side.t_shap.standard_error_reason,
        "estimator": side.played.estimator,
        "evaluations": estimate.asked,
        "base_value": [_finite(one) for one in estimate.base_value],
        "value": [_finite(one) for one in estimate.value],
        "residual": _finite(estimate.residual),
        "shared": side.contributions.shared.tolist(),
        "players": [*image, *words] if side.played.text.start else [*words, *image],
        "phi": [[_finite(one) for one in row] for row in estimate.phi],
    }


def _shown_tokens(side: Side) -> list[str]:
    """The characters that each text player stands for, or the token itself where it stands for none of them."""
    spans = zip(side.played.tokens, side.played.spans, strict=True)
    return [side.part.text[span["start"] : span["end"]].strip() or token or START for token, span in spans]


def _text_first(side: Side) -> np.ndarray:
    phi = side.contributions.estimate.phi
    return np.concatenate([phi[side.played.text], np.delete(phi, np.arange(len(phi))[side.played.text], axis=0)])


def _percents(side: Side) -> np.ndarray:
    """Mean ratios of all players in percent, over the outputs to which more than next to nothing contributes."""
    phi = side.contributions.estimate.phi
    kept = contributed(phi)
    return 100 * ratios(phi[:, kept]).mean(axis=1) if kept.any() else np.full(len(phi), math.nan)


def _t_shap(side: Side) -> str:
    if math.isnan(side.t_shap.value):
        return f"T-SHAP not defined ({side.t_shap.reason})"
    error = "" if math.isnan(side.t_shap.standard_error) else f" ± {100 * side.t_shap.standard_error:.2f}"
    return f"T-SHAP {100 * side.t_shap.value:.2f} %{error}"


def _finite(value: float | None) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None
