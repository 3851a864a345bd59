"""Modality ablation: scores with all of the text, or all of the image, masked (thesis 4.4.5)."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from waltz.evaluation.metrics.scored_pairs import RIGHT_PREDICTION, THRESHOLD, predict_pair_text

if TYPE_CHECKING:
    from waltz.models.encoders.coalitions import Coalitions
    from waltz.models.encoders.players import Players

MASKED_PARTS = ("nothing", "text", "image")
"""What is masked, in the order of the masks."""
SETTINGS = {masked: f"without {masked}" for masked in ("text", "image")}
"""Names of the ablated scores among the settings of the evaluation layout."""


def build_masks(game: "Players") -> np.ndarray:
    """Return the coalitions of all players, of the patches alone and of the text alone.

    Returns:
        bool of shape (3, players), true where a player takes part; rows as in `MASKED_PARTS`.
    """
    text = np.arange(len(game)) < game.words
    return np.array([np.ones_like(text), ~text, text])


def compute_ablated_values(coalitions: "Coalitions") -> list[np.ndarray]:
    """Compute the values of each game unmasked, without its text and without the image.

    All three are coalitions of MM-SHAP's game, so values that its estimator has requested are not computed again. Each
    text and each patch grid is encoded at most twice: unmasked and masked.

    Args:
        coalitions: The games of an image's texts, under either profile.
    Returns:
        For each game, float64 of shape (3,); entries as in `MASKED_PARTS`.
    """
    return [values[:, 0] for values in coalitions.values([build_masks(game) for game in coalitions.players])]


def build_ablated_rows(
    item: Mapping[str, Any], roles: Sequence[str], profile: str, values: Sequence[np.ndarray], probability: bool
) -> list[dict[str, Any]]:
    """Build rows of the evaluation layout for one item, to which the metrics of whole inputs apply.

    A caption and a foil of equal length are the same once their texts are masked: they tie, which is wrong in acc_r.

    Args:
        item: Its item_id and image.
        roles: Role of each text: caption, foil, mismatched.
        profile: Profile whose masking rules apply.
        values: Result of `compute_ablated_values`, text by text.
        probability: Whether the values are the model's own probabilities of a match.
    """
    rows = []
    for column, masked in list(enumerate(MASKED_PARTS))[1:]:
        for role, value in zip(roles, values, strict=True):
            score = float(value[column])
            prediction = predict_pair_text(score - THRESHOLD, score, profile) if probability else None
            rows.append(
                {
                    "item_id": item["item_id"],
                    "role": role,
                    "profile": profile,
                    "setting": SETTINGS[masked],
                    "image": item["image"],
                    "score": score,
                    "tokens": None,
                    "probability": score if probability else None,
                    "prediction": prediction,
                    "correct": None if prediction is None else prediction == RIGHT_PREDICTION[role],
                    "error": None,
                }
            )
    return rows
