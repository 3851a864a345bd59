"""Rows of the evaluation layout as pairs of caption and foil that can be ranked."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from waltz.core.errors import UserError

ALIGNMENT = "alignment"
"""Setting of what encoders score; instrument of items whose foil is the text of another image."""
PERPLEXITY = "perplexity"
"""Setting of what language models without an image score."""
SINGLE = "single"
"""Setting of decoders' answers whether a text describes its image."""
PAIRWISE = "pairwise"
"""Setting of decoders' answers which of caption and foil does."""
CHOICE = "choice"
"""Setting of answers to questions with labels about text alone."""
AFTER_COT = "-after-cot"
"""Ends the setting of answers after a chain of thought."""
MISMATCHED = "mismatched"
"""Role of such a foil."""
FOILS = ("foil", MISMATCHED)
"""Roles of the text that is wrong for its image."""
RIGHT = {"caption": "match", "foil": "mismatch", MISMATCHED: "mismatch"}
"""What is right to say of a text, by its role."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """The items of one data set of which caption and foil have a score.

    Attributes:
        items: Ids, in order.
        images: Image of each item.
        caption: What ranks each caption, float64 of shape (items,).
        foil: What ranks each foil, of the same shape.
        right: Whether the model takes each caption for a match and each foil for a mismatch, bool of shape (items, 2);
            None for a score without a probability of a match.
        unscored: Items left out because a text of theirs has no score.
    """

    items: tuple[str, ...]
    images: tuple[str, ...]
    caption: np.ndarray
    foil: np.ndarray
    right: np.ndarray | None
    unscored: int = 0

    def take(self, places: Sequence[int]) -> "Pairs":
        """The items at some places, in their order."""
        index = np.asarray(places, dtype=np.int64)
        return Pairs(
            tuple(self.items[place] for place in places),
            tuple(self.images[place] for place in places),
            self.caption[index],
            self.foil[index],
            None if self.right is None else self.right[index],
            self.unscored,
        )


def pairs(rows: Iterable[Mapping[str, Any]], profile: str) -> Pairs:
    """Pair the rows of one data set, of one setting.

    Args:
        rows: Rows of the evaluation layout; those of other profiles are passed over.
        profile: `published` or `equations`.
    Raises:
        UserError: A score is not a number, or an item has no caption or no foil.
    """
    sides: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        if row["profile"] == profile:
            sides.setdefault(row["item_id"], {})["foil" if row["role"] in FOILS else row["role"]] = row
    items: list[tuple[str, str]] = []
    scores: list[tuple[float, float]] = []
    right: list[tuple[bool, bool]] = []
    for item, texts in sides.items():
        if set(texts) != {"caption", "foil"}:
            raise UserError(
                f"item {item}, profile {profile}: rows of {sorted(texts)}, not of caption and foil; run again"
            )
        if any(text["score"] is None for text in texts.values()):
            continue
        pair = (texts["caption"], texts["foil"])
        ranks = [_rank(text, profile) for text in pair]
        items.append((item, pair[0]["image"]))
        scores.append((ranks[0], ranks[1]))
        if pair[0].get("probability") is not None:
            right.append((bool(pair[0]["correct"]), bool(pair[1]["correct"])))
    if right and len(right) < len(items):
        raise UserError(f"{len(right)} of {len(items)} items have a probability; score the data set again")
    numbers = np.array(scores, dtype=np.float64).reshape(-1, 2)
    return Pairs(
        tuple(item for item, _ in items),
        tuple(image for _, image in items),
        numbers[:, 0],
        numbers[:, 1],
        np.array(right, dtype=bool) if right else None,
        len(sides) - len(items),
    )


def preferred(rows: Iterable[Mapping[str, Any]], profile: str) -> Pairs:
    """Choices between caption and foil as pairs whose caption ranks above its foil where it was chosen.

    Args:
        rows: Rows of the evaluation layout of one setting with a row an item, as in `pairwise`; those of other profiles
            are passed over.
        profile: `published` or `equations`.
    """
    mine = [row for row in rows if row["profile"] == profile]
    chosen = [row for row in mine if row["correct"] is not None]
    right = np.array([bool(row["correct"]) for row in chosen], dtype=np.float64)
    items, images = (tuple(str(row[name]) for row in chosen) for name in ("item_id", "image"))
    return Pairs(items, images, right, 1 - right, None, len(mine) - len(chosen))


def _rank(row: Mapping[str, Any], profile: str) -> float:
    """What ranks a text in a profile."""
    said = row.get("probability") if profile == "published" else None
    value = float(row["score"] if said is None else said)
    if np.isnan(value) or np.isnan(row["score"]):
        raise UserError(f"item {row['item_id']}, {row['role']}: the score is not a number; score the data set again")
    return value
