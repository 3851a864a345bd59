"""The blind audit: the accuracy of judges that read caption and foil but do not see the image.

The accuracy of such a judge should be close to chance, 50 %. If it is far from chance, in either
direction, the texts have a bias that a model can use instead of the image.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from waltz.benchmark.statistics import compute_share
from waltz.core.intervals import Resampling
from waltz.core.schema import AuditRecord, PairRecord
from waltz.core.text_diff import WORD
from waltz.filters.gruen import score_texts
from waltz.filters.nli import infer_relations
from waltz.filters.pipeline import RANKING_TOKENS, FilterModels
from waltz.models.batches import ProgressCallback
from waltz.models.text.causal import compute_mean_log_likelihoods
from waltz.models.text.masked import compute_pseudo_log_likelihoods
from waltz.models.user_text import select_readable

NO_SCORES = "no item has a score for both of its texts"

Scores = Mapping[str, Mapping[str, float | None]]
"""Scores of each judge (a language model, GRUEN, ...) by text; the higher score is taken for the
caption.
"""
ScorePair = tuple[float | None, float | None]
"""Scores of caption and foil; None where a text has no score."""
Contradictions = Mapping[tuple[str, str], float]
"""Probability of contradiction by premise and hypothesis."""


def score_blindly(
    items: Sequence[PairRecord],
    models: FilterModels,
    cache_file: Path,
    on_progress: ProgressCallback,
) -> tuple[Scores, Contradictions]:
    """Return each judge's scores of all captions and foils, and the contradictions of each item in
    both directions.

    Texts that spell a control token of a judge's model have no score of that judge.

    Args:
        items: Pairs of caption and foil.
        models: All four models.
        on_progress: Called with the number of texts of each batch, five times in all for each text.
    """
    masked = models.likelihood
    acceptability = models.acceptability
    nli = models.nli
    causal = models.ranking
    # The audit always loads all four models; the assertions tell the type checker.
    assert masked is not None
    assert acceptability is not None
    assert nli is not None
    assert causal is not None
    texts = sorted({item.caption for item in items} | {item.foil for item in items})

    # Each judge reads only the texts that its tokenizers can represent; GRUEN needs both of its
    # models.
    masked_texts = select_readable(texts, masked.tokenizer)
    tokens = {text: masked.tokenize(text) for text in masked_texts}
    pseudo_likelihoods = compute_pseudo_log_likelihoods(
        masked, tokens.values(), cache_file, on_progress
    )
    likelihoods = compute_mean_log_likelihoods(
        texts, causal, RANKING_TOKENS, cache_file, on_progress
    )
    gruen_texts = select_readable(texts, masked.tokenizer, acceptability.tokenizer)
    scores: Scores = {
        "causal LM": {text: score.value for text, score in likelihoods.items()},
        "GRUEN": score_texts(
            gruen_texts, masked, acceptability, cache_file, on_progress
        ),
        "masked LM": {text: pseudo_likelihoods[ids] for text, ids in tokens.items()},
    }

    # The inference model reads each item twice: the caption is the premise once, and the foil once.
    nli_texts = set(select_readable(texts, nli.tokenizer))
    pairs: list[tuple[str, str]] = []
    for item in items:
        if {item.caption, item.foil} <= nli_texts:
            pairs += [(item.caption, item.foil), (item.foil, item.caption)]
    inferences = infer_relations(pairs, nli, cache_file, on_progress)
    return scores, {
        pair: inference.contradiction for pair, inference in inferences.items()
    }


def audit_blind_judges(
    instrument: str,
    items: Sequence[PairRecord],
    scores: Scores,
    contradictions: Contradictions | None = None,
    *,
    threshold: float,
    resampling: Resampling,
) -> list[AuditRecord]:
    """Compute the pairwise accuracy of each blind judge on the items of one instrument.

    Args:
        items: Pairs of caption and foil.
        scores: A text without a score is absent or None, and its item is skipped for that judge.
        contradictions: Probability of contradiction in both directions of each item; the judge
            `nli` prefers the text that contradicts the other text more.
        threshold: Percent above which a judge gets a warning, for captions or for foils.
        resampling: Bootstrap of images.
    Returns:
        A record for each judge, including `length`, which prefers the shorter
        text. Values are in percent; a tie counts one half.
    """
    records = []
    for judge, pairs in _list_score_pairs(items, scores, contradictions).items():
        # Each scored item wins (1), ties (0.5) or loses (0); its image is the unit of the
        # bootstrap.
        wins: list[float] = []
        images: list[str] = []
        for (caption_score, foil_score), item in zip(pairs, items, strict=True):
            if caption_score is None or foil_score is None:
                continue
            is_tie = caption_score == foil_score
            wins.append(0.5 if is_tie else float(caption_score > foil_score))
            images.append(item.image)
        # The label seeds the resampling of each judge.
        share = compute_share(
            wins, images, f"{instrument}:blind {judge}", resampling, NO_SCORES
        )
        warning = _describe_bias(judge, share.value, threshold)
        records.append(
            AuditRecord(
                instrument=instrument, judge=judge, measure=share, warning=warning
            )
        )
    return records


def _list_score_pairs(
    items: Sequence[PairRecord],
    scores: Scores,
    contradictions: Contradictions | None,
) -> dict[str, list[ScorePair]]:
    """Return for each judge the scores of caption and foil, one pair for each item."""
    texts = [(item.caption, item.foil) for item in items]
    pairs: dict[str, list[ScorePair]] = {}
    for judge, values in scores.items():
        pairs[judge] = [
            (values.get(caption), values.get(foil)) for caption, foil in texts
        ]
    if contradictions is not None:
        # The text that contradicts the other one more is taken for the caption.
        pairs["nli"] = [
            (contradictions.get((caption, foil)), contradictions.get((foil, caption)))
            for caption, foil in texts
        ]
    # Negated, since this judge prefers the shorter text.
    pairs["length"] = [
        (-count_words(caption), -count_words(foil)) for caption, foil in texts
    ]
    return pairs


def count_words(text: str) -> int:
    """Return the number of words and punctuation marks of a text."""
    return len(WORD.findall(text))


def _describe_bias(judge: str, value: float | None, threshold: float) -> str | None:
    """Return a warning where the accuracy of a judge is further from chance than the threshold;
    else None.
    """
    # Both directions count: a judge that prefers foils reveals them as well.
    if value is None or 100 - threshold <= value <= threshold:
        return None
    preferred = "caption" if value > threshold else "foil"
    share = max(value, 100 - value)
    return f"{judge} alone prefers the {preferred} in {share:.1f} % of the items; {threshold:g} % is the limit"
