"""T-SHAP: the share of an attribution's magnitude that the text tokens carry, with its standard error."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from waltz.attribution.estimate import Estimate

BALANCED = 5.0
"""Points by which T-SHAP may differ from 50 without a skew; it fits every cell of thesis Tables 4.2 and B.1."""


@dataclass(frozen=True)
class TShap:
    """The share of text in one attribution.

    Attributes:
        value: T-SHAP, between 0 (image only) and 1 (text only); NaN where every Shapley value is 0.
        standard_error: What the draw of permutations adds to it, as a share; NaN with a reason.
        reason: Why the value is NaN.
        standard_error_reason: Why the standard error is NaN.
    """

    value: float
    standard_error: float
    reason: str | None = None
    standard_error_reason: str | None = None


def t_shap(phi: np.ndarray, text_players: int) -> float:
    """Sum of |phi| over text tokens and outputs, divided by the sum over all players and outputs.

    Noise adds to |phi| whatever its sign, most where phi is small, so that few permutations pull T-SHAP towards the
    side that has more players, or players that count for less; docs/estimators.md says by how much.

    Args:
        phi: Shapley values, shape (..., players, outputs), text players first.
        text_players: Number of text players.
    Returns:
        Between 0 and 1; NaN where every value is 0, since no share is defined.
    Source:
        T-SHAP, MM-SHAP paper (ACL 2023) and thesis 4.3; without the ratios per output of the thesis's longer outputs.
    """
    return float(_shares(phi, text_players))


def measure(estimate: Estimate, text_players: int) -> TShap:
    """T-SHAP of an estimate with its standard error: 0 where nothing is sampled, else the jackknife over its parts."""
    value = t_shap(estimate.phi, text_players)
    if math.isnan(value):
        finite = bool(np.isfinite(estimate.phi).all())
        reason = "every Shapley value is 0, so no share is defined" if finite else "the model's score is not a number"
        return TShap(value, math.nan, reason, reason)
    if estimate.exact:
        return TShap(value, 0.0)
    if estimate.parts is None:
        return TShap(value, math.nan, None, "the estimator gives no independent parts")
    if len(estimate.parts) < 2:
        return TShap(value, math.nan, None, "one permutation with its reverse; a standard error needs two")
    error = jackknife(estimate.parts, text_players)
    return TShap(value, error, None, "T-SHAP is undefined without one permutation" if math.isnan(error) else None)


def jackknife(parts: np.ndarray, text_players: int) -> float:
    """Standard error of T-SHAP from independent estimates of the Shapley values, leaving out one at a time.

    It covers what the draw of permutations adds, not the bias that `t_shap` tells of.

    Args:
        parts: float64 of shape (parts, players, outputs), at least two.
        text_players: Number of text players.
    Returns:
        A share; NaN where T-SHAP is undefined without one part.
    Raises:
        ValueError: There are fewer than two parts.
    """
    count = len(parts)
    if count < 2:
        raise ValueError(f"{count} parts give no standard error")
    shares = _shares((parts.sum(axis=0) - parts) / (count - 1), text_players)
    return float(np.sqrt((count - 1) * np.mean((shares - shares.mean()) ** 2)))


def skew(share: float) -> Literal["textual", "visual", "balanced"]:
    """The modality that a model leans to, by a mean T-SHAP between 0 and 1: more than 5 points from 50.

    Raises:
        ValueError: The share is NaN.
    Source:
        MM skew, thesis Tables 4.2 and B.1, which state no rule; their models lie at most 0.7 and at least 6 points off.
    """
    if math.isnan(share):
        raise ValueError("no skew without a T-SHAP")
    if round(abs(100 * share - 50), 9) <= BALANCED:
        return "balanced"
    return "textual" if share > 0.5 else "visual"


def _shares(phi: np.ndarray, text_players: int) -> np.ndarray:
    """T-SHAP of each of several attributions, shape (..., players, outputs)."""
    weight = np.abs(phi).sum(axis=-1)
    total = weight.sum(axis=-1)
    share: np.ndarray = np.divide(
        weight[..., :text_players].sum(axis=-1), total, out=np.full_like(total, np.nan), where=total > 0
    )
    return share
