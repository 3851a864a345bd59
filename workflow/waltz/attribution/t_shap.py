"""T-SHAP: the share of an attribution's magnitude that the text tokens carry, and contribution ratios."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy

from waltz.attribution.shapley.estimate import Estimate
from waltz.fidelity import Profile, get_fidelity

MIN_CONTRIBUTION = 0.01
"""Share of an average token's total contribution below which a token counts as weak."""
ROUNDING = 1e-6
"""Mean |phi| of a player, in the unit of the value, that single precision leaves where nothing contributes."""
CONTRIBUTION_RATIO = "contribution ratio"
"""Explained value of attributions that hold contribution ratios in percent, as some recorded runs have them."""
POINT = 0.01
"""One point of T-SHAP."""
NORMAL_95 = 1.96
"""Half width of a normal interval of 95 percent, in standard errors."""
MAX_BALANCED_POINTS = 5.0
"""Points by which T-SHAP may differ from 50 without a skew; it fits every cell of thesis Tables 4.2 and B.1."""


@dataclass(frozen=True)
class TShap:
    """The share of text in one attribution.

    Attributes:
        value: T-SHAP, between 0 (image only) and 1 (text only); NaN where every Shapley value is 0.
        standard_error: What the draw of permutations adds to it, as a share.
        reason: Why one of them is NaN.
        parts: Independent parts that the error comes from; infinite where nothing was sampled.
        corrected: T-SHAP without most of the bias of few permutations, see `correct_t_shap`; the value itself where
            nothing was sampled, NaN where the values are no mean over independent parts.
    """

    value: float
    standard_error: float
    reason: str | None = None
    parts: float = math.inf
    corrected: float = math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval within 0 and 1, by Student's t with `parts` - 1 degrees of freedom; NaN without an error."""
        if math.isnan(self.standard_error):
            return math.nan, math.nan
        width = float(scipy.stats.t.ppf(0.975, self.parts - 1)) * self.standard_error
        return max(0.0, self.value - width), min(1.0, self.value + width)


def compute_contribution_ratios(phi: np.ndarray) -> np.ndarray:
    """Return the Shapley values of each output over the sum of their magnitudes.

    Args:
        phi: Shape (..., players, outputs).
    Returns:
        Of the same shape, in [-1, 1]; NaN for an output to which nothing contributes.
    Source:
        Thesis 5.2.
    """
    total = np.abs(phi).sum(axis=-2, keepdims=True)
    shares: np.ndarray = np.divide(phi, total, out=np.full_like(phi, np.nan), where=total > 0)
    return shares


def find_contributing_outputs(phi: np.ndarray, min_contribution: float = MIN_CONTRIBUTION) -> np.ndarray:
    """Return the outputs to which players contribute more than next to nothing: bool of shape (outputs,).

    Where a token follows from the tokens before it, as the rest of a word does, the prompt hardly counts, and ratios
    would give the remainder the weight of any other token. The thesis says that such tokens are caught, not how.

    Args:
        phi: Shape (players, outputs).
        min_contribution: Share of the mean over outputs of the sums of |phi|; with 0 only rounding counts as nothing.
    """
    total = np.abs(phi).sum(axis=0)
    contributing: np.ndarray = total > ROUNDING * len(phi)
    if contributing.any():
        contributing &= total >= min_contribution * total[contributing].mean()
    return contributing


def compute_t_shap(phi: np.ndarray, text_players: int) -> np.ndarray:
    """Return the sum of |phi| over text tokens and outputs, divided by the sum over all players and outputs.

    Noise adds to |phi| whatever its sign, most where phi is small, so that few permutations pull T-SHAP towards the
    side that has more players, or players that count for less; docs/reference/estimators.md says by how much.

    Args:
        phi: Shapley values, shape (..., players, outputs), text players first.
    Returns:
        Between 0 and 1, shape (...); NaN where every value is 0, since no share is defined.
    Source:
        T-SHAP, MM-SHAP paper (ACL 2023) and thesis 4.3; without the ratios per output of the thesis's longer outputs.
    """
    return _compute_text_share(np.abs(phi).sum(axis=-1), slice(0, text_players))


def compute_t_shap_of_outputs(
    phi: np.ndarray, text: slice | np.ndarray, profile: Profile, contributing: np.ndarray
) -> np.ndarray:
    """Return T-SHAP of an output of several tokens; of a single one, both profiles give what `compute_t_shap` gives.

    Args:
        phi: Shapley values, shape (..., players, outputs).
        text: Positions of the text players.
        profile: `equations` takes each token's ratios, averages them over the tokens, then takes magnitudes, so that a
            player for one token and against another counts less; `published` adds up magnitudes as they are, so that
            tokens with large values count more.
        contributing: For `equations`, tokens that count, bool of shape (outputs,).
    Returns:
        Between 0 and 1, shape (...); NaN where nothing contributes, or contributions cancel.
    Source:
        Thesis 5.2 (`equations`); the scripts of CC-SHAP-VLM (`published`).
    """
    if get_fidelity(profile).output_weights == "magnitudes":
        return _compute_text_share(np.abs(phi).sum(axis=-1), text)
    if not contributing.any():
        return np.full(phi.shape[:-2], np.nan)
    return _compute_text_share(np.abs(compute_contribution_ratios(phi[..., contributing]).mean(axis=-1)), text)


def measure_t_shap(estimate: Estimate, text_players: int) -> TShap:
    """Return T-SHAP of an estimate with its standard error: 0 without sampling, else the jackknife over its parts."""
    return _measure(estimate, lambda phi: compute_t_shap(phi, text_players))


def measure_t_shap_of_outputs(
    estimate: Estimate, text: slice | np.ndarray, profile: Profile, min_contribution: float = MIN_CONTRIBUTION
) -> TShap:
    """Return T-SHAP of several outputs with its standard error, which skips the same tokens as T-SHAP itself."""
    contributing = find_contributing_outputs(estimate.phi, min_contribution)
    return _measure(estimate, lambda phi: compute_t_shap_of_outputs(phi, text, profile, contributing))


def compute_t_shap_error(parts: np.ndarray, text_players: int, phi: np.ndarray | None = None) -> float:
    """Return the standard error of T-SHAP by the jackknife over independent estimates of the Shapley values.

    It covers what the draw of permutations adds, not the bias that `compute_t_shap` describes.

    Args:
        parts: float64 of shape (parts, players, outputs), at least two.
        phi: The values of a regression, (players, outputs), whose T-SHAP differs from that of the parts' mean: the
            difference counts as an error too. None where `phi` is that mean.
    Returns:
        A share; NaN where T-SHAP is undefined without one part.
    """
    return _compute_share_error(parts, phi, lambda values: compute_t_shap(values, text_players))


def correct_t_shap(parts: np.ndarray, text_players: int) -> float:
    """Return T-SHAP without most of the bias of |phi|, by the jackknife over independent estimates.

    The error of a single item grows, so that more permutations serve better.

    Args:
        parts: float64 of shape (parts, players, outputs), at least two.
    Returns:
        n T - (n - 1) mean T without one part, a share that may lie outside [0, 1]; NaN where one is undefined.
    Source:
        Quenouille (Biometrika 43, 1956).
    """
    return _correct_share(parts, lambda phi: compute_t_shap(phi, text_players))


def count_evaluations_for_point(evaluations: int, standard_error: float) -> float:
    """Return the evaluations with which T-SHAP of one item lies within 1 point in 95 of 100 draws.

    The standard error is taken to fall with the root of the evaluations, as it does for permutations.

    Args:
        evaluations: Evaluations that were used.
        standard_error: Standard error of T-SHAP, a share.
    """
    return evaluations * (NORMAL_95 * standard_error / POINT) ** 2


def average_leaving_one_out(parts: np.ndarray) -> np.ndarray:
    """Return for each of at least two parts, along the first axis, the mean of all others; the shape stays."""
    means: np.ndarray = (parts.sum(axis=0) - parts) / (len(parts) - 1)
    return means


def compute_jackknife_error(left_out: np.ndarray) -> float:
    """Return the standard error of a statistic from its values without each of n parts; NaN where one is NaN."""
    count = len(left_out)
    return float(np.sqrt((count - 1) * np.mean((left_out - left_out.mean()) ** 2)))


def classify_skew(share: float) -> Literal["textual", "visual", "balanced"]:
    """Return the modality that a model leans to, by a mean T-SHAP between 0 and 1: more than 5 points from 50.

    Source:
        MM skew, thesis Tables 4.2 and B.1, which state no rule; their models lie at most 0.7 and at least 6 points off.
    """
    if round(abs(100 * share - 50), 9) <= MAX_BALANCED_POINTS:
        return "balanced"
    return "textual" if share > 0.5 else "visual"


def _measure(estimate: Estimate, compute_share: Callable[[np.ndarray], np.ndarray]) -> TShap:
    """Return a share of Shapley values, of shape (..., players, outputs), with its standard error."""
    value = float(compute_share(estimate.phi))
    if math.isnan(value):
        return TShap(value, math.nan, _explain_undefined(estimate.phi))
    if estimate.exact:
        return TShap(value, 0.0, corrected=value)
    if estimate.parts is None:
        return TShap(value, math.nan, "the estimator gives no independent parts")
    if len(estimate.parts) < 2:
        part = "one random pair of coalitions" if estimate.fitted else "one permutation with its reverse"
        return TShap(value, math.nan, f"{part}; a standard error needs two")
    error = _compute_share_error(estimate.parts, estimate.phi if estimate.fitted else None, compute_share)
    reason = "T-SHAP is undefined without one permutation" if math.isnan(error) else None
    corrected = math.nan if estimate.fitted else _correct_share(estimate.parts, compute_share)
    return TShap(value, error, reason, len(estimate.parts), corrected)


def _correct_share(parts: np.ndarray, compute_share: Callable[[np.ndarray], np.ndarray]) -> float:
    """Return a share of the mean of at least two parts without most of its bias, by the jackknife."""
    left_out, count = compute_share(average_leaving_one_out(parts)), len(parts)
    return float(count * compute_share(parts.mean(axis=0)) - (count - 1) * left_out.mean())


def _compute_share_error(
    parts: np.ndarray, phi: np.ndarray | None, compute_share: Callable[[np.ndarray], np.ndarray]
) -> float:
    error = compute_jackknife_error(compute_share(average_leaving_one_out(parts)))
    return error if phi is None else math.hypot(error, float(compute_share(phi) - compute_share(parts.mean(axis=0))))


def _explain_undefined(phi: np.ndarray) -> str:
    if not np.isfinite(phi).all():
        return "the model's score is not a number"
    if phi.any():
        return "Shapley values are rounding, or tokens' ratios cancel, so no share is defined"
    return "every Shapley value is 0, so no share is defined"


def _compute_text_share(weight: np.ndarray, text: slice | np.ndarray) -> np.ndarray:
    """Return the share of text in the weights of players, shape (..., players)."""
    total = weight.sum(axis=-1)
    share: np.ndarray = np.divide(
        weight[..., text].sum(axis=-1), total, out=np.full_like(total, np.nan), where=total > 0
    )
    return share
