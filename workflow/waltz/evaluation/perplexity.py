"""Caption against foil by a language model that reads no image (thesis 3.4, rows GPT1 and GPT2).

Both profiles give a score, minus the natural logarithm of the perplexity, so that higher is better:

- `equations`: minus the mean negative log-likelihood per token, given the start token and all tokens before
  it. Without a start token (GPT-1) the first token has no context and is not scored.
- `published`: the released script. No start token; windows of stride 3, each scored by the mean of its last
  three tokens, the means summed and divided by the number of windows *minus one*. A text of up to three
  tokens divides by zero: its perplexity is infinite.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from waltz.core.files import parquet
from waltz.core.files.group_files import DatasetFiles, DatasetResult
from waltz.core.job_records import show_progress
from waltz.core.schema import BENCHMARK
from waltz.evaluation.items import select_items
from waltz.evaluation.settings import PERPLEXITY
from waltz.fidelity import get_fidelity
from waltz.models.batches import Tokens
from waltz.models.text.causal import CausalModel, TextScore, compute_mean_log_likelihoods, compute_token_losses

STRIDE = 3


def score_pairs(
    items: Sequence[dict[str, Any]],
    model: CausalModel,
    profiles: Sequence[str],
    tokens_per_batch: int,
    stored: Path,
    done: Callable[[int], object],
) -> list[dict[str, Any]]:
    """Return rows of the evaluation layout: caption and foil of each item in each profile.

    Args:
        items: Rows of the benchmark layout.
        tokens_per_batch: Most tokens in one forward pass.
        done: Receives the number of texts of each finished batch.
    """
    rows: list[dict[str, Any]] = []
    texts = [item[role] for item in items for role in ("caption", "foil")]
    for profile in profiles:
        scores = score_texts(texts, model, profile, tokens_per_batch, stored, done)
        for item in items:
            caption, foil = scores[item["caption"]], scores[item["foil"]]
            prediction = predict_caption(caption, foil)
            for role, score in (("caption", caption), ("foil", foil)):
                rows.append(
                    {
                        "item_id": item["item_id"],
                        "role": role,
                        "profile": profile,
                        "setting": PERPLEXITY,
                        "image": item["image"],
                        "score": score.value,
                        "tokens": score.tokens,
                        "prediction": prediction,
                        "correct": None if prediction is None else prediction == "caption",
                        "error": score.error,
                    }
                )
    return rows


def predict_caption(caption: TextScore, foil: TextScore) -> str | None:
    """Return `caption` or `foil`, whichever scores strictly higher, else `tie`; None where a score is missing."""
    if caption.value is None or foil.value is None:
        return None
    if caption.value == foil.value:
        return "tie"
    return "caption" if caption.value > foil.value else "foil"


def count_ties(rows: Sequence[dict[str, Any]]) -> dict[str, int]:
    """Count ties and items without a score, summed over the profiles."""
    captions = [row for row in rows if row["role"] == "caption"]
    return {
        "ties": sum(row["prediction"] == "tie" for row in captions),
        "unscored_items": sum(row["prediction"] is None for row in captions),
    }


def score_texts(
    texts: Sequence[str],
    model: CausalModel,
    profile: str,
    tokens_per_batch: int,
    stored: Path,
    done: Callable[[int], object],
) -> dict[str, TextScore]:
    """Return the score of each distinct text; batches depend only on the set of texts and `tokens_per_batch`."""
    if get_fidelity(profile).perplexity == "mean":
        return compute_mean_log_likelihoods(texts, model, tokens_per_batch, stored, done)
    ids = {text: model.tokenize(text) for text in dict.fromkeys(texts)}
    sequences = {sequence for tokens in ids.values() for sequence in _cut_windows(tokens, model.window)}
    losses = compute_token_losses(sequences, model, tokens_per_batch, stored, done)
    return {text: _compute_strided_score(ids[text], losses, model.window) for text in ids}


def _cut_windows(tokens: Tokens, window: int) -> list[Tokens]:
    """Return the token sequences whose losses the strided windows need; one where the text fits the window."""
    return list(dict.fromkeys(tokens[begin : begin + window] for begin, _ in _list_window_spans(len(tokens), window)))


def _list_window_spans(length: int, window: int) -> list[tuple[int, int]]:
    """Return first and last (exclusive) token of each window of the released script."""
    return [(max(first + STRIDE - window, 0), min(first + STRIDE, length)) for first in range(0, length, STRIDE)]


def _compute_strided_score(tokens: Tokens, losses: dict[Tokens, np.ndarray], window: int) -> TextScore:
    if not tokens:
        return TextScore(None, 0, "the text is empty")
    spans = _list_window_spans(len(tokens), window)
    if len(spans) == 1:
        return TextScore(-math.inf, len(tokens))
    means = []
    for begin, end in spans:
        window_losses = losses[tokens[begin : begin + window]]
        scored = window_losses[max(end - begin - STRIDE, 1) : end - begin]
        means.append(math.fsum(scored) / len(scored))
    return TextScore(-math.fsum(means) / (len(spans) - 1), len(tokens))


def score_datasets(
    model: CausalModel,
    datasets: Iterable[DatasetFiles],
    profiles: Sequence[str],
    cache: Path,
    *,
    scored: str,
    sample: int | None,
    seed: int,
    tokens_per_batch: int,
) -> Iterator[DatasetResult]:
    """Score captions and foils with one language model; yield rows of the evaluation layout as `scores`.

    Args:
        scored: `valid` or `all` items.
        sample: Number of items per data set; None takes all.
        tokens_per_batch: Most tokens in one forward pass.
    """
    for dataset in datasets:
        items = select_items(parquet.read(dataset.rows, BENCHMARK), scored, sample, seed).to_pylist()
        label, own_profiles = f"{model.spec.name} {dataset.name}", dataset.select_profiles(profiles)
        with show_progress(2 * len(items) * len(own_profiles), "text", label) as bar:
            rows = score_pairs(items, model, own_profiles, tokens_per_batch, cache, bar.update)
        yield DatasetResult(dataset, {"scores": rows}, len(items), count_ties(rows))
