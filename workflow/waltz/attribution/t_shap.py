"""T-SHAP: the share of an attribution's magnitude that the text tokens carry, and contribution
ratios.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy

from waltz.attribution.shapley.estimate import Estimate
from waltz.fidelity import Fidelity

MIN_CONTRIBUTION = 0.01
"""A token is weak if its total contribution is below this share of the contribution of an average
token.
"""
ROUNDING = 1e-6
"""Mean |phi| of a player, in the unit of the value, that single precision can leave if nothing
contributes.
"""
CONTRIBUTION_RATIO = "contribution ratio"
"""Name of the explained value of attributions that hold contribution ratios in percent, as some
recorded runs do.
"""
POINT = 0.01
"""One percentage point of T-SHAP, as a share."""
NORMAL_95 = 1.96
"""Half width of a 95 percent interval of the normal distribution, in standard errors."""
MAX_BALANCED_POINTS = 5.0
"""Percentage points by which T-SHAP may differ from 50 without a skew; fits every cell of thesis
Tables 4.2 and B.1.
"""


@dataclass(frozen=True)
class TShap:
    """Hold T-SHAP, the share of the text in one attribution, with its standard error.

    Attributes:
        value: T-SHAP, between 0 (image only) and 1 (text only); NaN if every Shapley value is 0.
        standard_error: Standard error that sampling the coalitions causes, a share; 0 if nothing
            was sampled.
        reason: Why the value or the error is NaN.
        parts: Number of permutations, or of pairs that a regression chose, behind the error;
            infinite if nothing was sampled.
        corrected: T-SHAP without most of the bias of few permutations, see `correct_t_shap`. It is
            the value itself if nothing was sampled, and NaN if the Shapley values are not the mean
            of independent parts.
    """

    value: float
    standard_error: float
    reason: str | None = None
    parts: float = math.inf
    corrected: float = math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """Return the 95 % interval by Student's t with `parts` - 1 degrees of freedom, within 0 and
        1.

        Both ends are NaN without a standard error.
        """
        if math.isnan(self.standard_error):
            return math.nan, math.nan
        width = float(scipy.stats.t.ppf(0.975, self.parts - 1)) * self.standard_error
        return max(0.0, self.value - width), min(1.0, self.value + width)


def compute_contribution_ratios(phi: np.ndarray) -> np.ndarray:
    """Return the contribution ratios: the Shapley values of each output, divided by the sum of
    their magnitudes.

    Args:
        phi: Shapley values of shape (..., players, outputs).
    Returns:
        Ratios of the same shape, in [-1, 1]; NaN for an output to which nothing contributes.
    Source:
        Thesis 5.2.
    """
    # r_ij = phi_ij / sum over players k of |phi_kj|, for player i and output j.
    total = np.abs(phi).sum(axis=-2, keepdims=True)  # (..., 1, outputs)
    ratios: np.ndarray = np.divide(
        phi, total, out=np.full_like(phi, np.nan), where=total > 0
    )
    return ratios


def find_contributing_outputs(
    phi: np.ndarray, min_contribution: float = MIN_CONTRIBUTION
) -> np.ndarray:
    """Return which outputs the players contribute to noticeably: bool of shape (outputs,).

    Some tokens, such as the rest of a word, follow from the generated tokens before them, and the
    prompt contributes hardly anything. Ratios would give such a token the same weight as any other
    token. The thesis says that these tokens are caught, but not how.

    Args:
        phi: Shapley values of shape (players, outputs).
        min_contribution: Smallest sum of |phi| of an output that counts, a share of the mean sum
            over outputs; with 0, only sums within rounding are skipped.
    """
    total = np.abs(phi).sum(axis=0)  # (outputs,)
    # Outputs within rounding are skipped first, so that they do not lower the mean.
    contributing: np.ndarray = total > ROUNDING * len(phi)
    if not contributing.any():
        return contributing
    average_total = total[contributing].mean()
    contributing &= total >= min_contribution * average_total
    return contributing


def compute_t_shap(phi: np.ndarray, text_players: int) -> np.ndarray:
    """Return the sum of |phi| over text tokens and outputs, divided by the sum over all players and
    outputs.

    Noise of either sign makes |phi| larger on average, and most so for small phi. With few
    permutations T-SHAP is therefore biased towards the modality that has more players or players
    that contribute less; docs/reference/estimators.md gives the size of this bias.

    Args:
        phi: Shapley values, shape (..., players, outputs), text players first.
    Returns:
        T-SHAP between 0 and 1, of shape (...); NaN where every value is 0, since no share is
        defined.
    Source:
        T-SHAP in the MM-SHAP paper (ACL 2023) and thesis 4.3; without the ratios of each output
        that the thesis uses for longer outputs.
    """
    # T-SHAP = sum over text players of |phi| / sum over all players of |phi|.
    magnitudes = np.abs(phi).sum(axis=-1)  # (..., players)
    return _compute_text_share(magnitudes, slice(0, text_players))


def compute_t_shap_of_outputs(
    phi: np.ndarray,
    text: slice | np.ndarray,
    fidelity: Fidelity,
    contributing: np.ndarray,
) -> np.ndarray:
    """Return T-SHAP of generated text with one or several tokens.

    For a single token both profiles give the same value as `compute_t_shap`.

    Args:
        phi: Shapley values, shape (..., players, outputs), one output for each generated token.
        text: Positions of the text players.
        fidelity: `equations` averages the ratios over the tokens and then takes magnitudes, so that
            a player that raises one token and lowers another counts less. `published` adds up the
            magnitudes as they are, so that tokens with large values count more.
        contributing: For `equations`, the tokens that count, bool of shape (outputs,).
    Returns:
        T-SHAP between 0 and 1, of shape (...); NaN where nothing contributes, or contributions
        cancel.
    Source:
        Thesis 5.2 (`equations`); the scripts of CC-SHAP-VLM (`published`).
    """
    if fidelity.output_weights == "magnitudes":
        magnitudes = np.abs(phi).sum(axis=-1)  # (..., players)
        return _compute_text_share(magnitudes, text)
    if not contributing.any():
        return np.full(phi.shape[:-2], np.nan)
    # Ratios of each token first, then their mean over tokens, then magnitudes.
    ratios = compute_contribution_ratios(phi[..., contributing])
    mean_ratios = ratios.mean(axis=-1)  # (..., players)
    return _compute_text_share(np.abs(mean_ratios), text)


def measure_t_shap(estimate: Estimate, text_players: int) -> TShap:
    """Return T-SHAP of an estimate with its standard error, which is 0 without sampling."""
    return _measure(estimate, lambda phi: compute_t_shap(phi, text_players))


def measure_t_shap_of_outputs(
    estimate: Estimate,
    text: slice | np.ndarray,
    fidelity: Fidelity,
    min_contribution: float = MIN_CONTRIBUTION,
) -> TShap:
    """Return T-SHAP of several outputs with its standard error; both skip the same weak tokens."""
    contributing = find_contributing_outputs(estimate.phi, min_contribution)
    return _measure(
        estimate,
        lambda phi: compute_t_shap_of_outputs(phi, text, fidelity, contributing),
    )


def drop_share_without_contrast(
    t_shap: TShap, can_mask_text: bool, can_mask_image: bool
) -> TShap:
    """Return T-SHAP, or NaN if masking the text changes nothing, or masking the image changes
    nothing.

    All Shapley values of that modality are then 0, even if the model uses it. A text with some
    unknown words keeps its T-SHAP, which comes from the words that masking changes.

    Args:
        can_mask_text: Whether masking all text players changes the text.
        can_mask_image: Whether masking all image players changes the image.
    """
    if not can_mask_text:
        return TShap(
            math.nan,
            math.nan,
            "every token of the text is the masked token, so masking changes nothing",
        )
    if not can_mask_image:
        return TShap(
            math.nan,
            math.nan,
            "every pixel has the masked value, so masking the image changes nothing",
        )
    return t_shap


def compute_t_shap_error(
    parts: np.ndarray, text_players: int, phi: np.ndarray | None = None
) -> float:
    """Return the standard error of T-SHAP.

    It covers the variation from the random draw, not the bias that `compute_t_shap` describes.

    Args:
        parts: Independent estimates, at least two, or draws of a regression; float64 of shape
            (parts, players, outputs).
        phi: Values of a regression, shape (players, outputs). None if the estimate is the mean of
            the parts.
    Returns:
        A share; NaN if T-SHAP is undefined when one part is left out, or in a draw.
    """
    return _compute_share_error(
        parts, phi, lambda values: compute_t_shap(values, text_players)
    )


def correct_t_shap(parts: np.ndarray, text_players: int) -> float:
    """Return T-SHAP without most of the bias of |phi|, by the jackknife over independent estimates.

    The correction makes the error of a single item larger, so that more permutations are the better
    remedy.

    Args:
        parts: Independent estimates, float64 of shape (parts, players, outputs), at least two.
    Returns:
        n T - (n - 1) times the mean of T without one part; a share that may lie outside [0, 1], or
        NaN if one of these values of T is undefined.
    Source:
        Quenouille (Biometrika 43, 1956).
    """
    return _correct_share(parts, lambda phi: compute_t_shap(phi, text_players))


def count_evaluations_for_point(evaluations: int, standard_error: float) -> float:
    """Return the number of evaluations with which T-SHAP of one item is right within 1 point in 95
    of 100 draws.

    The standard error is assumed to fall with the square root of the evaluations, as it does for
    permutations.

    Args:
        evaluations: Evaluations that were used.
        standard_error: Standard error of T-SHAP, a share.
    """
    return evaluations * (NORMAL_95 * standard_error / POINT) ** 2


def average_leaving_one_out(parts: np.ndarray) -> np.ndarray:
    """Return, for each part along the first axis, the mean of all other parts; the shape stays.

    Args:
        parts: At least two parts, float64 of shape (parts, ...).
    """
    means: np.ndarray = (parts.sum(axis=0) - parts) / (len(parts) - 1)
    return means


def compute_jackknife_error(left_out: np.ndarray) -> float:
    """Return the jackknife standard error of a statistic; NaN if one of its values is NaN.

    Args:
        left_out: float64 of shape (n,): the value of the statistic when each of n parts is left out
            in turn.
    Source:
        Tukey's jackknife: the root of (n - 1) / n times the sum of squared deviations.
    """
    # The mean of squares already divides the sum by n, so that the factor n - 1 is left.
    count = len(left_out)
    mean_square = np.mean((left_out - left_out.mean()) ** 2)
    return float(np.sqrt((count - 1) * mean_square))


def compute_draw_error(draws: np.ndarray, value: float) -> float:
    """Return the root mean square distance of a statistic's draws, of shape (draws,), from its value;
    NaN if one of them is NaN.
    """
    return float(np.sqrt(np.mean((draws - value) ** 2)))


def classify_skew(share: float) -> Literal["textual", "visual", "balanced"]:
    """Return the modality that a model uses more: a mean T-SHAP more than 5 points away from 50
    percent is a skew.

    Args:
        share: Mean T-SHAP between 0 and 1.
    Source:
        MM skew in thesis Tables 4.2 and B.1, which state no rule. Their balanced models are at most
        0.7 points away from 50 percent, the others at least 6 points.
    """
    # Without rounding, 55 percent can be 5.000000000000007 points away from 50.
    points_from_middle = round(abs(100 * share - 50), 9)
    if points_from_middle <= MAX_BALANCED_POINTS:
        return "balanced"
    if share > 0.5:
        return "textual"
    return "visual"


def _measure(
    estimate: Estimate, compute_share: Callable[[np.ndarray], np.ndarray]
) -> TShap:
    """Return the share of the text in an estimate, with its standard error or the reason why it has
    none.

    Args:
        compute_share: Function that takes Shapley values of shape (..., players, outputs) and
            returns shares (...).
    """
    # A share is undefined, exact, or sampled; only a sampled share has an error from its parts.
    value = float(compute_share(estimate.phi))
    parts = estimate.parts
    if math.isnan(value):
        return TShap(value, math.nan, _explain_undefined(estimate.phi))
    if estimate.exact:
        return TShap(value, 0.0, corrected=value)
    if parts is None:
        return TShap(value, math.nan, "the estimator gives no independent parts")
    if estimate.pairs is not None:
        return _measure_regression(estimate.phi, parts, estimate.pairs, compute_share)
    if len(parts) < 2:
        too_few = "one permutation with its reverse; a standard error needs two"
        return TShap(value, math.nan, too_few)

    error = _compute_share_error(parts, None, compute_share)
    corrected = _correct_share(parts, compute_share)
    is_undefined = math.isnan(error)
    reason = "T-SHAP is undefined without one permutation" if is_undefined else None
    return TShap(value, error, reason, len(parts), corrected)


def _measure_regression(
    phi: np.ndarray,
    draws: np.ndarray,
    pairs: int,
    compute_share: Callable[[np.ndarray], np.ndarray],
) -> TShap:
    """Return the share of the text of a regression with its standard error, which has a degree of
    freedom less than there are pairs.
    """
    value = float(compute_share(phi))
    if pairs < 2:
        too_few = "fewer than two pairs of coalitions beyond those that a regression needs; two give an error"
        return TShap(value, math.nan, too_few)
    error = _compute_share_error(draws, phi, compute_share)
    reason = "T-SHAP is undefined in a draw" if math.isnan(error) else None
    return TShap(value, error, reason, pairs)


def _correct_share(
    parts: np.ndarray, compute_share: Callable[[np.ndarray], np.ndarray]
) -> float:
    """Return the share of the mean of at least two parts, without most of its bias (Quenouille's
    jackknife).
    """
    count = len(parts)
    left_out = compute_share(average_leaving_one_out(parts))  # (parts,)
    # n T - (n - 1) mean of T without one part
    return float(
        count * compute_share(parts.mean(axis=0)) - (count - 1) * left_out.mean()
    )


def _compute_share_error(
    parts: np.ndarray,
    phi: np.ndarray | None,
    compute_share: Callable[[np.ndarray], np.ndarray],
) -> float:
    """Return the standard error of a share; see `compute_t_shap_error`."""
    if phi is None:
        return compute_jackknife_error(compute_share(average_leaving_one_out(parts)))
    return compute_draw_error(compute_share(parts), float(compute_share(phi)))


def _explain_undefined(phi: np.ndarray) -> str:
    if not np.isfinite(phi).all():
        return "the model's score is not a number"
    if phi.any():
        return "Shapley values are rounding, or tokens' ratios cancel, so no share is defined"
    return "every Shapley value is 0, so no share is defined"


def _compute_text_share(weight: np.ndarray, text: slice | np.ndarray) -> np.ndarray:
    """Return the weight of the text players over the weight of all players; NaN where all weights
    are 0.

    Args:
        weight: Weights of shape (..., players), at least 0.
    """
    total = weight.sum(axis=-1)
    text_total = weight[..., text].sum(axis=-1)
    share: np.ndarray = np.divide(
        text_total, total, out=np.full_like(total, np.nan), where=total > 0
    )
    return share
