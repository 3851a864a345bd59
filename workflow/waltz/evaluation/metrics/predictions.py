"""What a model takes a text for: a match, a mismatch, or neither, of pairs and of CV-Probes."""

from collections.abc import Mapping
from typing import Any

THRESHOLD = 0.5
NOT_APPLICABLE = "not applicable: the model has no probability of a match"
EXPECTED = {True: "match", False: "mismatch"}
"""What a model shall say, by the column `match`."""


def prediction(logit: float, probability: float, profile: str) -> str:
    """What a model with a probability of a match takes a text of a pair for.

    `published`: a probability of at least 0.5 is a match; anything below is a mismatch. `equations`: a logit above 0 is
    a match, one below a mismatch, and 0 is neither, so wrong for caption and foil alike.

    Args:
        logit: Log-odds of a match.
        probability: Probability of a match.
        profile: `published` or `equations`.
    Returns:
        `match`, `mismatch`, or `tie` (in `equations` alone).
    """
    if profile == "published":
        return "match" if probability >= THRESHOLD else "mismatch"
    return "tie" if logit == 0 else "match" if logit > 0 else "mismatch"


def judged(said: Mapping[str, Any], profile: str) -> str:
    """What a model takes a text of CV-Probes for: `match` or `mismatch`, whichever is strictly more probable, or `tie`.

    Args:
        said: Score and probability.
        profile: `published` compares probabilities in single precision, `equations` the logit with 0.
    """
    margin = said["probability"] - THRESHOLD if profile == "published" else said["score"]
    return "tie" if margin == 0 else "match" if margin > 0 else "mismatch"
