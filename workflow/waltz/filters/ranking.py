"""Selection of the best of an image's captions, and of a foil's wordings (thesis A.1, actions)."""

from collections.abc import Mapping, Sequence
from typing import Any

READS_WORSE = "another caption of the image reads better"
WORDED_WORSE = "another wording of the foil reads better"


def select_best_captions(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the caption of each image with the lowest sum of its ranks by grammaticality and by perplexity.

    Equal sums are decided by perplexity, then by the caption's letters.

    Args:
        rows: Candidates with image, caption, caption_grammaticality (higher is better) and caption_perplexity (lower
            is better).
    Returns:
        The best caption by image.
    """
    captions: dict[str, dict[str, tuple[float, float]]] = {}
    for row in rows:
        scores = (-row["caption_grammaticality"], row["caption_perplexity"])
        captions.setdefault(row["image"], {})[row["caption"]] = scores
    return {image: _select_best(scores) for image, scores in captions.items()}


def find_worse_captions(rows: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the ids of the candidates whose caption is not the best of its image."""
    best = select_best_captions(rows)
    return {row["item_id"] for row in rows if row["caption"] != best[row["image"]]}


def find_worse_wordings(rows: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the ids of the candidates that are not the most grammatical of those with the same exchange in a caption.

    Equal ones are decided by the foil's letters, and of equal texts the first is kept.
    """
    best: dict[tuple[Any, ...], tuple[float, str, str]] = {}
    for row in rows:
        key, order = _get_exchange(row), (-row["grammaticality"], row["foil"], row["item_id"])
        best[key] = min(best.get(key, order), order)
    return {row["item_id"] for row in rows if row["item_id"] != best[_get_exchange(row)][2]}


def _get_exchange(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["image"], row["caption"], tuple(row["caption_phrases"]), tuple(row["foil_phrases"])


def _select_best(scores: Mapping[str, tuple[float, float]]) -> str:
    ranks = [
        {value: rank for rank, value in enumerate(sorted({values[index] for values in scores.values()}))}
        for index in (0, 1)
    ]

    def get_order(caption: str) -> tuple[int, float, str]:
        grammaticality, perplexity = scores[caption]
        return ranks[0][grammaticality] + ranks[1][perplexity], perplexity, caption

    return min(scores, key=get_order)
