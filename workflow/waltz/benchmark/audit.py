"""The blind audit: how well judges that see the texts but not the image distinguish captions from foils.

The accuracy of such a judge should be close to chance, 50 %. If it is far from chance, in either direction, the texts
have a bias that a model can use instead of the image.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from waltz.benchmark.statistics import compute_share
from waltz.core.intervals import Resampling
from waltz.core.text_diff import WORD
from waltz.filters.gruen import score_texts
from waltz.filters.nli import infer_relations
from waltz.filters.pipeline import RANKING_TOKENS, FilterModels
from waltz.models.batches import ProgressCallback
from waltz.models.text.causal import compute_mean_log_likelihoods
from waltz.models.text.masked import compute_pseudo_log_likelihoods

NO_SCORES = "no item has a score for both of its texts"

Scores = Mapping[str, Mapping[str, float | None]]
"""By judge (a language model, GRUEN, ...), a score by text; a higher one means a caption."""
Contradictions = Mapping[tuple[str, str], float]
"""Probability of contradiction by premise and hypothesis."""


def score_blindly(
    items: Sequence[Mapping[str, Any]], models: FilterModels, cache_file: Path, on_progress: ProgressCallback
) -> tuple[Scores, Contradictions]:
    """Return the judges' scores of all captions and foils, and contradictions in both directions of each item.

    Args:
        items: Rows with caption and foil.
        models: All four models.
        on_progress: Called with the number of texts of each batch, five times in all for each text.
    """
    masked, acceptability, nli, causal = models.likelihood, models.acceptability, models.nli, models.ranking
    assert masked is not None
    assert acceptability is not None
    assert nli is not None
    assert causal is not None
    texts = sorted({item[side] for item in items for side in ("caption", "foil")})
    pairs = [(item[a], item[b]) for item in items for a, b in (("caption", "foil"), ("foil", "caption"))]
    tokens = {text: masked.tokenize(text) for text in texts}
    pseudo = compute_pseudo_log_likelihoods(masked, tokens.values(), cache_file, on_progress)
    likelihoods = compute_mean_log_likelihoods(texts, causal, RANKING_TOKENS, cache_file, on_progress)
    scores: Scores = {
        "causal LM": {text: score.value for text, score in likelihoods.items()},
        "GRUEN": score_texts(texts, masked, acceptability, cache_file, on_progress),
        "masked LM": {text: pseudo[ids] for text, ids in tokens.items()},
    }
    inferences = infer_relations(pairs, nli, cache_file, on_progress)
    return scores, {pair: inference.contradiction for pair, inference in inferences.items()}


def audit_blind_judges(
    instrument: str,
    items: Sequence[Mapping[str, Any]],
    scores: Scores,
    contradictions: Contradictions | None = None,
    *,
    threshold: float,
    resampling: Resampling,
) -> list[dict[str, Any]]:
    """Compute the pairwise accuracy of each blind judge on the items of one instrument.

    Args:
        items: Rows with caption, foil, image.
        scores: A text without a score is absent or None, and its item is skipped for that judge.
        contradictions: Those of both directions of each item; the judge `nli` prefers the text that contradicts the
            other text more.
        threshold: Percent above which a judge gets a warning, for captions or for foils.
        resampling: Bootstrap of images.
    Returns:
        Rows of the audit layout, one for each judge, including `length`, which prefers the shorter text. Values are in
        percent; a tie counts one half.
    """
    captions_and_foils = [(item["caption"], item["foil"]) for item in items]
    judges: dict[str, list[tuple[float | None, float | None]]] = {
        name: [(values.get(caption), values.get(foil)) for caption, foil in captions_and_foils]
        for name, values in scores.items()
    }
    if contradictions is not None:
        judges["nli"] = [(contradictions.get(pair), contradictions.get(pair[::-1])) for pair in captions_and_foils]
    judges["length"] = [(-count_words(caption), -count_words(foil)) for caption, foil in captions_and_foils]
    rows = []
    for judge, pairs in judges.items():
        wins, images = [], []
        for (caption, foil), item in zip(pairs, items, strict=True):
            if caption is not None and foil is not None:
                wins.append(0.5 if caption == foil else float(caption > foil))
                images.append(item["image"])
        share = compute_share(wins, images, f"{instrument}:blind {judge}", resampling, NO_SCORES)
        warning = _describe_bias(judge, share.value, threshold)
        rows.append({"instrument": instrument, "judge": judge, **vars(share), "warning": warning})
    return rows


def count_words(text: str) -> int:
    """Return the number of words and punctuation marks of a text."""
    return len(WORD.findall(text))


def _describe_bias(judge: str, value: float | None, threshold: float) -> str | None:
    """Return a warning where a judge is further from chance than the threshold."""
    if value is None or 100 - threshold <= value <= threshold:
        return None
    side = "caption" if value > threshold else "foil"
    share = max(value, 100 - value)
    return f"{judge} alone prefers the {side} in {share:.1f} % of the items; {threshold:g} % is the limit"
