"""Scored pairs of caption and foil, from rows of the evaluation layout, and the prediction for each text."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from waltz.core.errors import UserError

ALIGNMENT = "alignment"
"""Setting of encoders' scores; instrument of items whose foil is the text of another image."""
PERPLEXITY = "perplexity"
"""Setting of scores by language models without an image."""
SINGLE = "single"
"""Setting of decoders' answers to the question whether a text describes its image."""
PAIRWISE = "pairwise"
"""Setting of decoders' choices between caption and foil."""
CHOICE = "choice"
"""Setting of answers to questions with labels about text alone."""
AFTER_COT = "-after-cot"
"""Suffix of the setting of answers after a chain of thought."""
MISMATCHED = "mismatched"
"""Role of a foil that is the text of another image."""
FOILS = ("foil", MISMATCHED)
"""Roles of the text that is wrong for its image."""
RIGHT_PREDICTION = {"caption": "match", "foil": "mismatch", MISMATCHED: "mismatch"}
"""Right prediction for a text, by its role."""


@dataclass(frozen=True, eq=False)
class ScoredPairs:
    """The items of one data set whose caption and foil have a score.

    Attributes:
        items: Ids, in order.
        images: Image of each item.
        caption: Score that ranks each caption, float64 of shape (items,).
        foil: Score that ranks each foil, of the same shape.
        right: Whether the model predicts a match for each caption and a mismatch for each foil, bool of shape
            (items, 2); None for a score without a probability of a match.
        unscored: Number of items skipped because one of their texts has no score.
    """

    items: tuple[str, ...]
    images: tuple[str, ...]
    caption: np.ndarray
    foil: np.ndarray
    right: np.ndarray | None
    unscored: int = 0

    def take(self, positions: Sequence[int]) -> "ScoredPairs":
        """Return the items at some positions, in this order."""
        index = np.asarray(positions, dtype=np.int64)
        return ScoredPairs(
            tuple(self.items[position] for position in positions),
            tuple(self.images[position] for position in positions),
            self.caption[index],
            self.foil[index],
            None if self.right is None else self.right[index],
            self.unscored,
        )


def pair_scores(rows: Iterable[Mapping[str, Any]], profile: str) -> ScoredPairs:
    """Pair the rows of one data set, of one setting.

    Args:
        rows: Rows of the evaluation layout; those of other profiles are ignored.
        profile: `published` or `equations`.
    Raises:
        UserError: A score is not a number, or an item has no caption or no foil.
    """
    texts_by_item: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        if row["profile"] == profile:
            texts_by_item.setdefault(row["item_id"], {})["foil" if row["role"] in FOILS else row["role"]] = row
    items: list[tuple[str, str]] = []
    scores: list[tuple[float, float]] = []
    right: list[tuple[bool, bool]] = []
    for item, texts in texts_by_item.items():
        if set(texts) != {"caption", "foil"}:
            raise UserError(
                f"item {item}, profile {profile}: rows of {sorted(texts)}, not of caption and foil; run again"
            )
        if any(text["score"] is None for text in texts.values()):
            continue
        pair = (texts["caption"], texts["foil"])
        ranking = [_get_ranking_score(text, profile) for text in pair]
        items.append((item, pair[0]["image"]))
        scores.append((ranking[0], ranking[1]))
        if pair[0].get("probability") is not None:
            right.append((bool(pair[0]["correct"]), bool(pair[1]["correct"])))
    if right and len(right) < len(items):
        raise UserError(f"{len(right)} of {len(items)} items have a probability; score the data set again")
    numbers = np.array(scores, dtype=np.float64).reshape(-1, 2)
    return ScoredPairs(
        tuple(item for item, _ in items),
        tuple(image for _, image in items),
        numbers[:, 0],
        numbers[:, 1],
        np.array(right, dtype=bool) if right else None,
        len(texts_by_item) - len(items),
    )


def pair_choices(rows: Iterable[Mapping[str, Any]], profile: str) -> ScoredPairs:
    """Return choices between caption and foil as pairs whose caption ranks above its foil where it was chosen.

    Args:
        rows: Rows of the evaluation layout of one setting with one row per item, as in `pairwise`; those of other
            profiles are ignored.
        profile: `published` or `equations`.
    """
    profile_rows = [row for row in rows if row["profile"] == profile]
    decided = [row for row in profile_rows if row["correct"] is not None]
    right = np.array([bool(row["correct"]) for row in decided], dtype=np.float64)
    items, images = (tuple(str(row[name]) for row in decided) for name in ("item_id", "image"))
    return ScoredPairs(items, images, right, 1 - right, None, len(profile_rows) - len(decided))


def _get_ranking_score(row: Mapping[str, Any], profile: str) -> float:
    """Return the score that ranks a text in a profile."""
    probability = row.get("probability") if profile == "published" else None
    value = float(row["score"] if probability is None else probability)
    if np.isnan(value) or np.isnan(row["score"]):
        raise UserError(f"item {row['item_id']}, {row['role']}: the score is not a number; score the data set again")
    return value


THRESHOLD = 0.5
NOT_APPLICABLE = "not applicable: the model has no probability of a match"
EXPECTED_PREDICTION = {True: "match", False: "mismatch"}
"""Right prediction for a row of CV-Probes, by its column `match`."""


def predict_pair_text(logit: float, probability: float, profile: str) -> str:
    """Return the prediction of a model with a probability of a match for a text of a pair.

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


def predict_probe_text(columns: Mapping[str, Any], profile: str) -> str:
    """Return the prediction for a text of CV-Probes: `match` or `mismatch`, whichever is more probable, or `tie`.

    Args:
        columns: Score and probability.
        profile: `published` compares probabilities in single precision, `equations` the logit with 0.
    """
    margin = columns["probability"] - THRESHOLD if profile == "published" else columns["score"]
    return "tie" if margin == 0 else "match" if margin > 0 else "mismatch"
