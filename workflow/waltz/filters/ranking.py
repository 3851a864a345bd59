"""Of several captions made for one image, the one that reads best (thesis A.1, actions)."""

from collections.abc import Mapping, Sequence
from typing import Any

READS_WORSE = "another caption of the image reads better"


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


def _best(scores: Mapping[str, tuple[float, float]]) -> str:
    ranks = [
        {value: place for place, value in enumerate(sorted({found[which] for found in scores.values()}))}
        for which in (0, 1)
    ]

    def order(caption: str) -> tuple[int, float, str]:
        grammaticality, perplexity = scores[caption]
        return ranks[0][grammaticality] + ranks[1][perplexity], perplexity, caption

    return min(scores, key=order)
