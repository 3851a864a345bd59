"""Of several captions made for one image, and of several wordings of a foil, the best (thesis A.1, actions)."""

from collections.abc import Mapping, Sequence
from typing import Any

READS_WORSE = "another caption of the image reads better"
WORDED_WORSE = "another wording of the foil reads better"


def best_captions(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The caption of each image whose ranks by grammaticality and by perplexity add up to the least.

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
    return {image: _best(scores) for image, scores in captions.items()}


def worse_captions(rows: Sequence[Mapping[str, Any]]) -> set[str]:
    """Ids of the candidates whose caption is not the best of its image."""
    best = best_captions(rows)
    return {row["item_id"] for row in rows if row["caption"] != best[row["image"]]}


def worse_wordings(rows: Sequence[Mapping[str, Any]]) -> set[str]:
    """Ids of the candidates that are not the most grammatical of those that exchange the same words in one caption.

    Equal ones are decided by the foil's letters, and the first of the same texts is kept.
    """
    best: dict[tuple[Any, ...], tuple[float, str, str]] = {}
    for row in rows:
        key, order = _exchange(row), (-row["grammaticality"], row["foil"], row["item_id"])
        best[key] = min(best.get(key, order), order)
    return {row["item_id"] for row in rows if row["item_id"] != best[_exchange(row)][2]}


def _exchange(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["image"], row["caption"], tuple(row["caption_phrases"]), tuple(row["foil_phrases"])


def _best(scores: Mapping[str, tuple[float, float]]) -> str:
    ranks = [
        {value: place for place, value in enumerate(sorted({found[which] for found in scores.values()}))}
        for which in (0, 1)
    ]

    def order(caption: str) -> tuple[int, float, str]:
        grammaticality, perplexity = scores[caption]
        return ranks[0][grammaticality] + ranks[1][perplexity], perplexity, caption

    return min(scores, key=order)
