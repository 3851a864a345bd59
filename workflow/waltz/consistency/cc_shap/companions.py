"""Similarities of two vectors of ratios: the cosine, which is CC-SHAP, and the distances that are reported with it."""

from dataclasses import dataclass

import numpy as np

MAX_ROUNDING = 1e-12
"""Ratios that differ by at most this, relative to their size, are the same but for rounding."""


@dataclass(frozen=True)
class Companions:
    """Comparisons of the ratios of an answer with those of its explanation; all but the first depend on their unit.

    Attributes:
        correlation: 1 - correlation distance, in [-1, 1]; None where the ratios of one side are all the same.
        mse: 1 - mean squared difference.
        variance: 1 - variance of the squared differences.
        kl: 1 - Kullback-Leibler divergence (nats) of the explanation from the answer, after a softmax of the ratios.
        js: 1 - Jensen-Shannon distance (square root, nats) after a softmax of the ratios; at least 0.167.
    """

    correlation: float | None
    mse: float
    variance: float
    kl: float
    js: float


def compute_cosine(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return 1 - cosine distance of vectors of shape (..., players): in [-1, 1], NaN where one of them is 0 or NaN."""
    scales = [np.abs(vector).max(axis=-1, keepdims=True, initial=0) for vector in (first, second)]
    units = [
        np.divide(vector, scale, out=np.full_like(vector, np.nan), where=scale > 0)
        for vector, scale in zip((first, second), scales, strict=True)
    ]
    norms = [np.sqrt((unit**2).sum(axis=-1)) for unit in units]
    similarity: np.ndarray = np.clip((units[0] * units[1]).sum(axis=-1) / (norms[0] * norms[1]), -1, 1)
    return similarity


def compute_companions(answer: np.ndarray, explanation: np.ndarray) -> Companions:
    """Compare two vectors of ratios of one length, float64 of shape (players,), at least one.

    Source:
        CC-SHAP's released scripts; thesis 5.2 reports the cosine alone.
    """
    squares = (answer - explanation) ** 2
    logs = [_compute_log_softmax(vector) for vector in (answer, explanation)]
    middle = np.logaddexp(*logs) - np.log(2)
    js_divergence = (_compute_divergence(logs[0], middle) + _compute_divergence(logs[1], middle)) / 2
    return Companions(
        correlation=_compute_correlation(answer, explanation),
        mse=float(1 - squares.mean()),
        variance=float(1 - squares.var()),
        kl=1 - _compute_divergence(logs[1], logs[0]),
        js=float(1 - np.sqrt(max(0.0, js_divergence))),
    )


def _compute_correlation(first: np.ndarray, second: np.ndarray) -> float | None:
    centred = [vector - vector.mean() for vector in (first, second)]
    if any(np.ptp(vector) <= MAX_ROUNDING * np.abs(vector).max() for vector in (first, second)):
        return None
    return float(compute_cosine(*centred))


def _compute_log_softmax(vector: np.ndarray) -> np.ndarray:
    shifted = vector - vector.max()
    logs: np.ndarray = shifted - np.log(np.exp(shifted).sum())
    return logs


def _compute_divergence(logs: np.ndarray, reference: np.ndarray) -> float:
    """Return the Kullback-Leibler divergence, in nats, from log-probabilities."""
    return float((np.exp(logs) * (logs - reference)).sum())
