"""Scores of whole sentences by a causal language model, which rank the foils that rules allow."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from waltz.core.jobs.devices import Device
from waltz.foils.candidates import MakerOptions
from waltz.model_registry import ModelSpec
from waltz.models.batches import ProgressCallback
from waltz.models.text.causal import (
    CausalModel,
    compute_mean_log_likelihoods,
    load_causal_model,
)

BATCH_TOKENS = 2048
"""Number of tokens in one forward pass; a constant, because the last digits of scores may depend on
it.
"""


def load_ranker(
    spec: ModelSpec,
    device: Device,
    most_tokens: int | None,
    cache_file: Path | None,
    on_progress: ProgressCallback,
) -> MakerOptions:
    """Load a causal language model for the instruments whose foils it ranks.

    Args:
        most_tokens: Highest number of tokens of a caption; None for no limit.
        cache_file: File in which scores are kept; None for none.
        on_progress: Called with the number of scored texts.
    """
    model = load_causal_model(spec, device)
    return MakerOptions(
        score_texts=partial(
            score_texts, model=model, cache_file=cache_file, on_progress=on_progress
        ),
        count_tokens=lambda text: len(model.tokenize(text)),
        most_tokens=most_tokens,
    )


def score_texts(
    texts: Sequence[str],
    model: CausalModel,
    cache_file: Path | None,
    on_progress: ProgressCallback,
) -> Mapping[str, float]:
    """Return the mean log-likelihood per token of each distinct text that the model can read, in
    nats.
    """
    scores = compute_mean_log_likelihoods(
        texts, model, BATCH_TOKENS, cache_file, on_progress
    )
    return {
        text: score.value for text, score in scores.items() if score.value is not None
    }
