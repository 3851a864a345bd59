"""Predictions of models that give the probability of a match, by the rules of each profile."""

import numpy as np

from waltz.fidelity import Fidelity

THRESHOLD = 0.5
"""Smallest probability with which a text is predicted to match its image."""


def compute_match_probability(logit: float, fidelity: Fidelity) -> float:
    """Return the probability of a match, the sigmoid of a logit.

    It is computed in single precision as in the published scripts, or in double precision
    (`equations`).
    """
    # The scripts of MM-SHAP compare probabilities in single precision.
    precision = np.float32 if fidelity.match_by == "probability" else np.float64
    unit = precision(1)
    # exp overflows for a very negative logit, and 1 / (1 + inf) is the right 0.
    with np.errstate(over="ignore"):
        return float(unit / (unit + np.exp(-precision(logit))))


def predict_pair_text(logit: float, probability: float, fidelity: Fidelity) -> str:
    """Predict whether a text of a pair matches its image, from the model's probability of a match.

    In `published` a probability of at least 0.5 is a match, a smaller one a mismatch. In
    `equations` a logit above 0 is a match, a logit below 0 a mismatch; a logit of 0 is neither, and
    therefore wrong for captions and foils.

    Returns:
        `match`, `mismatch`, or `tie` (in `equations` only).
    """
    if fidelity.match_by == "probability":
        return "match" if probability >= THRESHOLD else "mismatch"
    return _decide(logit)


def predict_probe_text(logit: float, probability: float, fidelity: Fidelity) -> str:
    """Predict whether a text of CV-Probes matches its image: `match`, `mismatch`, or `tie` if both
    are as probable.

    `published` compares probabilities in single precision, `equations` the logit with 0.
    """
    if fidelity.match_by == "probability":
        return _decide(probability - THRESHOLD)
    return _decide(logit)


def _decide(margin: float) -> str:
    """Return the prediction for a margin: `match` if it is positive, `mismatch` if negative, `tie`
    if 0.
    """
    if margin == 0:
        return "tie"
    return "match" if margin > 0 else "mismatch"
