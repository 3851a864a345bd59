"""Contribution ratios: the share of each player in what contributes to an output token (thesis 5.2)."""

import numpy as np

MIN_CONTRIBUTION = 0.01
"""Share of an average token's total contribution below which a token counts as weak."""
ROUNDING = 1e-6
"""Mean |phi| of a player, in the unit of the value, that single precision leaves where nothing contributes."""


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
    """Return the outputs to which players contribute more than next to nothing.

    Where a token follows from the tokens before it, as the rest of a word does, the prompt hardly counts, and ratios
    would give the remainder the weight of any other token. The thesis says that such tokens are caught, not how.

    Args:
        phi: Shape (players, outputs).
        min_contribution: Share of the mean over outputs of the sums of |phi|; with 0 only rounding counts as nothing.
    Returns:
        Bool of shape (outputs,).
    """
    total = np.abs(phi).sum(axis=0)
    contributing: np.ndarray = total > ROUNDING * len(phi)
    if contributing.any():
        contributing &= total >= min_contribution * total[contributing].mean()
    return contributing
