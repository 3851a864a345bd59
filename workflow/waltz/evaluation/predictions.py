"""Predictions of models that give the probability of a match, by the rules of each profile."""

from collections.abc import Mapping
from typing import Any

from waltz.fidelity import get_fidelity

THRESHOLD = 0.5
"""Probability from which on a text is predicted to match its image."""


def predict_pair_text(logit: float, probability: float, profile: str) -> str:
    """Return the prediction of a model with a probability of a match for a text of a pair.

    `published`: a probability of at least 0.5 is a match; anything below is a mismatch. `equations`: a logit above 0 is
    a match, one below a mismatch, and 0 is neither, so wrong for caption and foil alike.

    Returns:
        `match`, `mismatch`, or `tie` (in `equations` alone).
    """
    if get_fidelity(profile).match_by == "probability":
        return "match" if probability >= THRESHOLD else "mismatch"
    return "tie" if logit == 0 else "match" if logit > 0 else "mismatch"


def predict_probe_text(columns: Mapping[str, Any], profile: str) -> str:
    """Return the prediction for a text of CV-Probes: `match` or `mismatch`, whichever is more probable, or `tie`.

    Args:
        columns: Score and probability.
        profile: `published` compares probabilities in single precision, `equations` the logit with 0.
    """
    margin = columns["probability"] - THRESHOLD if get_fidelity(profile).match_by == "probability" else columns["score"]
    return "tie" if margin == 0 else "match" if margin > 0 else "mismatch"
