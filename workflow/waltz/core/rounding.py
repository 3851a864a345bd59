"""Rounding of scores by the precision of the network: two scores are tied if they differ by no more
than it.
"""

import math

import numpy as np

RELATIVE_ROUNDING = {
    "float32": 32 * 2.0**-23,
    "tf32": 2.0**-10,
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
}
"""Rounding of a score by dtype, as a share of its magnitude.

In half precision and TF32 it is one unit in the last place, because such networks sum in single
precision and round only the sums or factors. In single precision every addition of a sum rounds: the score of one text
differs by up to 30 units, depending on whether the text is scored alone, in a batch, or with tokens
after it that the model does not read.
"""


def compute_rounding(magnitude: float, dtype: str = "float32") -> float:
    """Return the difference up to which two scores are tied.

    Args:
        magnitude: Magnitude of the numbers that were rounded, in the unit of the score.
        dtype: Precision of the network; an unknown one, as of recorded scores, counts as float32.
    Returns:
        A number in the unit of the score; 0 for infinite magnitudes, since infinite scores are tied
        only if equal.
    """
    relative = RELATIVE_ROUNDING.get(dtype, RELATIVE_ROUNDING["float32"])
    return relative * abs(magnitude) if math.isfinite(magnitude) else 0.0


def compute_logit_rounding(logit: float, dtype: str) -> float:
    """Return the difference up to which two logits or log-probabilities are tied.

    Their terms have a magnitude of about 1 even if their sum is near 0, so the magnitude counts as
    at least 1.
    """
    return compute_rounding(max(1.0, abs(logit)), dtype)


def compute_ranking_credit(
    captions: np.ndarray, foils: np.ndarray, dtype: str
) -> np.ndarray:
    """Return for each pair 1 if the caption's logit is higher than the foil's, 0 if it is lower,
    and 0.5 if they tie.

    Args:
        captions: Logits, float64 of any shape.
        foils: Logits of the same shape.
        dtype: Precision of the network.
    """
    # The difference of two scores is as inexact as the larger one.
    magnitudes = np.maximum(np.abs(captions), np.abs(foils))
    # Logits count with a magnitude of at least 1, as in `compute_logit_rounding`.
    ties = np.abs(captions - foils) <= RELATIVE_ROUNDING[dtype] * np.maximum(
        1.0, magnitudes
    )
    credit: np.ndarray = np.where(ties, 0.5, (captions > foils).astype(np.float64))
    return credit


def is_tied(first: float, second: float, rounding: float) -> bool:
    """Return whether two scores are equal or differ by no more than their rounding."""
    return first == second or abs(first - second) <= rounding
