"""How likely a causal language model finds texts."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from waltz.core.digest import digest
from waltz.core.files import result_cache
from waltz.models.text import causal
from waltz.models.text.causal import TextModel
from waltz.models.text.prefix_trees import Tokens, packs


@dataclass(frozen=True)
class Score:
    """What a text costs a model.

    Attributes:
        value: Minus the log perplexity in nats; None with an error.
        tokens: Tokens of the text, start token left out.
        error: Why there is no value.
    """

    value: float | None
    tokens: int
    error: str | None = None


def mean_scores(
    texts: Sequence[str], model: TextModel, tokens_per_batch: int, stored: Path, done: Callable[[int], object]
) -> dict[str, Score]:
    """Mean log-likelihood per token of each distinct text: minus its log perplexity.

    Each token counts after the start token and all tokens before it. Without a start token (GPT-1) the first token has
    no context and is not scored. Batches depend on the set of texts and `tokens_per_batch` alone.

    Args:
        texts: Texts.
        model: A loaded causal language model.
        tokens_per_batch: Most tokens in one forward pass.
        stored: Folder of finished batches.
        done: Told the number of texts that each batch finished, for a progress bar.
    """
    ids = {said: model.tokens(said) for said in dict.fromkeys(texts)}
    needed = {said: _with_start(tokens, model) for said, tokens in ids.items()}
    wanted = {sequence for sequences in needed.values() for sequence in sequences}
    losses = token_losses(wanted, model, tokens_per_batch, stored, done)
    return {said: _mean_score(ids[said], [losses[sequence] for sequence in needed[said]], model.window) for said in ids}


def token_losses(
    sequences: set[Tokens], model: TextModel, tokens_per_batch: int, stored: Path, done: Callable[[int], object]
) -> dict[Tokens, np.ndarray]:
    """Negative log-likelihood of each token of each sequence after the tokens before it.

    Returns:
        By sequence, float64 of its length, in nats; NaN at the first, which nothing comes before.
    """
    code = digest(causal.__file__)
    found: dict[Tokens, np.ndarray] = {}
    for trie in packs(sequences, tokens_per_batch):
        content = {
            "code": code,
            "model": model.fingerprint,
            "dtype": model.spec.dtype,
            "device": model.device.partition(":")[0],
            "sequences": trie.sequences,
        }
        values = result_cache.load_or_compute(stored, content, partial(causal.node_losses, model, trie))
        found |= {sequence: values[trie.path(index)] for index, sequence in enumerate(trie.sequences)}
        done(len(trie.sequences))
    return found


def _with_start(tokens: Tokens, model: TextModel) -> list[Tokens]:
    sequence = tokens if model.start is None else (model.start, *tokens)
    return [sequence] if 0 < len(sequence) <= model.window else []


def _mean_score(tokens: Tokens, losses: Sequence[np.ndarray], window: int) -> Score:
    if not losses:
        why = f"{len(tokens)} tokens do not fit into a window of {window}" if tokens else "the text is empty"
        return Score(None, len(tokens), why)
    scored = losses[0][1:]
    if not len(scored):
        return Score(None, len(tokens), "no token has a context")
    value = -math.fsum(scored) / len(scored)
    if not math.isfinite(value):
        return Score(None, len(tokens), f"the model's log-likelihood is {value}")
    return Score(value, len(tokens))
