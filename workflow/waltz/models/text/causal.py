"""Causal language models: the loss of each token of a text, and the mean log-likelihood of texts."""

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from waltz.core.devices import Device
from waltz.core.digest import digest
from waltz.core.files import result_cache
from waltz.models.memory import run_in_halves
from waltz.models.pretrained import load_pretrained
from waltz.models.registry import ModelSpec
from waltz.models.text.prefix_trees import PrefixTrees, Tokens, batch_prefix_trees, build_prefix_trees
from waltz.models.weights import compute_fingerprint

log = logging.getLogger(__name__)

WINDOW_NAMES = ("max_position_embeddings", "n_positions", "seq_length")
DEFAULT_WINDOW = 1024
PROBE_SEQUENCES = ((7, 3, 5), (7, 4, 6, 3), (8, 3))
"""Three short sequences with a fork, by which a model shows whether it reads trees."""
PROBE_TOLERANCE = 0.01
"""Highest difference, as a share of the spread of the losses, that still counts as reading trees."""


@dataclass(frozen=True)
class CausalModel:
    """A loaded causal language model.

    Attributes:
        spec: What was loaded.
        device: A torch device.
        network: The transformers model, in evaluation mode.
        tokenizer: Its tokenizer.
        start: Id of its start token, or None where it has none (GPT-1).
        window: Most tokens that it can read.
        reads_trees: Whether it honours a mask of ancestors, so that prefixes are shared.
        fingerprint: What tells these weights from others.
    """

    spec: ModelSpec
    device: str
    network: Any
    tokenizer: Any
    start: int | None
    window: int
    reads_trees: bool
    fingerprint: str

    def tokenize(self, text: str) -> Tokens:
        """Ids of a text without special tokens."""
        return tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"])


def load_causal_model(spec: ModelSpec, device: Device) -> CausalModel:
    """Load a causal language model by hub id, folder or package.

    Raises:
        UserError: The weights cannot be had, or lack parameters of the network.
    """
    network, tokenizer = load_pretrained(spec, transformers.AutoModelForCausalLM)
    return wrap_causal_model(spec, network, tokenizer, device.name)


def wrap_causal_model(spec: ModelSpec, network: Any, tokenizer: Any, device: str) -> CausalModel:
    """A text model from a network and tokenizer that are loaded already."""
    network = network.to(device).eval()
    config = network.config
    window: int = next((size for name in WINDOW_NAMES if (size := getattr(config, name, None))), DEFAULT_WINDOW)
    start = tokenizer.bos_token_id
    rows = CausalModel(spec, device, network, tokenizer, start, window, False, compute_fingerprint(spec))
    trees = replace(rows, reads_trees=True)
    model = trees if _reads_trees(trees, rows) else rows
    log.info("%s: start token %s, window %d, shares prefixes: %s", spec.name, start, window, model.reads_trees)
    return model


def compute_node_losses(model: CausalModel, trie: PrefixTrees) -> np.ndarray:
    """Negative log-likelihood of each node's token after its ancestors.

    Args:
        model: A loaded language model.
        trie: Sequences of ids within the model's window.
    Returns:
        Nats, float64 of shape (nodes,); NaN at roots, which nothing comes before.
    """

    def compute(first: int, last: int) -> list[np.ndarray]:
        part = trie if last - first == len(trie.sequences) else build_prefix_trees(trie.sequences[first:last])
        part_losses = _compute_tree_losses(model, part) if model.reads_trees else _compute_row_losses(model, part)
        return [part_losses[part.get_path(index)] for index in range(last - first)]

    by_sequence = run_in_halves(compute, len(trie.sequences), lambda parts: list(chain.from_iterable(parts)))
    losses = np.full(len(trie.tokens), np.nan)
    for index, sequence_losses in enumerate(by_sequence):
        losses[trie.get_path(index)] = sequence_losses
    return losses


@torch.inference_mode()
def _compute_tree_losses(model: CausalModel, trie: PrefixTrees) -> np.ndarray:
    tokens = torch.as_tensor(trie.tokens, device=model.device)
    mask = torch.zeros((len(trie.tokens),) * 2, dtype=model.network.dtype, device=model.device)
    mask.masked_fill_(~torch.as_tensor(trie.build_ancestor_mask(), device=model.device), torch.finfo(mask.dtype).min)
    logits = model.network(
        input_ids=tokens[None],
        attention_mask=mask[None, None],
        position_ids=torch.as_tensor(trie.depths, device=model.device)[None],
        use_cache=False,
    ).logits[0]
    children = torch.as_tensor(np.flatnonzero(trie.parents >= 0), device=model.device)
    parents = torch.as_tensor(trie.parents, device=model.device)[children]
    losses = np.full(len(trie.tokens), np.nan)
    losses[children.cpu().numpy()] = _compute_losses(logits, parents, tokens[children])
    return losses


@torch.inference_mode()
def _compute_row_losses(model: CausalModel, trie: PrefixTrees) -> np.ndarray:
    """The same for a model that knows plain rows only: padded at the end, where no token looks."""
    losses = np.full(len(trie.tokens), np.nan)
    longest = max(len(sequence) for sequence in trie.sequences)
    ids = torch.zeros((len(trie.sequences), longest), dtype=torch.int64)
    mask = torch.zeros_like(ids)
    for row, sequence in enumerate(trie.sequences):
        ids[row, : len(sequence)] = torch.tensor(sequence)
        mask[row, : len(sequence)] = 1
    logits = model.network(input_ids=ids.to(model.device), attention_mask=mask.to(model.device)).logits
    for row in reversed(range(len(trie.sequences))):
        path = trie.get_path(row)
        before = torch.arange(len(path) - 1, device=model.device)
        losses[path[1:]] = _compute_losses(logits[row], before, ids[row, 1 : len(path)].to(model.device))
    return losses


def _compute_losses(logits: torch.Tensor, positions: torch.Tensor, targets: torch.Tensor) -> np.ndarray:
    """-ln p(target) at each position, float64 of shape (positions,)."""
    normaliser = torch.logsumexp(logits.float(), dim=-1)[positions]
    return (normaliser - logits[positions, targets].float()).double().cpu().numpy()


def _reads_trees(trees: CausalModel, rows: CausalModel) -> bool:
    probe = build_prefix_trees(PROBE_SEQUENCES)
    try:
        found = _compute_tree_losses(trees, probe)
    except torch.OutOfMemoryError:  # a RuntimeError, which says nothing of how the model reads
        raise
    except (TypeError, ValueError, RuntimeError, IndexError) as error:
        log.info("%s reads plain rows only: %s", trees.spec.name, str(error).splitlines()[0])
        return False
    expected = _compute_row_losses(rows, probe)
    inner = probe.parents >= 0
    spread = float(np.std(expected[inner]))
    return bool(np.abs(found[inner] - expected[inner]).max() <= PROBE_TOLERANCE * spread)


pass


@dataclass(frozen=True)
class TextScore:
    """What a text costs a model.

    Attributes:
        value: Minus the log perplexity in nats; None with an error.
        tokens: Tokens of the text, start token left out.
        error: Why there is no value.
    """

    value: float | None
    tokens: int
    error: str | None = None


def compute_mean_log_likelihoods(
    texts: Sequence[str], model: CausalModel, tokens_per_batch: int, stored: Path, done: Callable[[int], object]
) -> dict[str, TextScore]:
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
    ids = {said: model.tokenize(said) for said in dict.fromkeys(texts)}
    needed = {said: _prepend_start(tokens, model) for said, tokens in ids.items()}
    wanted = {sequence for sequences in needed.values() for sequence in sequences}
    losses = compute_token_losses(wanted, model, tokens_per_batch, stored, done)
    return {
        said: _compute_text_score(ids[said], [losses[sequence] for sequence in needed[said]], model.window)
        for said in ids
    }


def compute_token_losses(
    sequences: set[Tokens], model: CausalModel, tokens_per_batch: int, stored: Path, done: Callable[[int], object]
) -> dict[Tokens, np.ndarray]:
    """Negative log-likelihood of each token of each sequence after the tokens before it.

    Returns:
        By sequence, float64 of its length, in nats; NaN at the first, which nothing comes before.
    """
    code = digest(__file__)
    found: dict[Tokens, np.ndarray] = {}
    for trie in batch_prefix_trees(sequences, tokens_per_batch):
        content = {
            "code": code,
            "model": model.fingerprint,
            "dtype": model.spec.dtype,
            "device": model.device.partition(":")[0],
            "sequences": trie.sequences,
        }
        values = result_cache.load_or_compute(stored, content, partial(compute_node_losses, model, trie))
        found |= {sequence: values[trie.get_path(index)] for index, sequence in enumerate(trie.sequences)}
        done(len(trie.sequences))
    return found


def _prepend_start(tokens: Tokens, model: CausalModel) -> list[Tokens]:
    sequence = tokens if model.start is None else (model.start, *tokens)
    return [sequence] if 0 < len(sequence) <= model.window else []


def _compute_text_score(tokens: Tokens, losses: Sequence[np.ndarray], window: int) -> TextScore:
    if not losses:
        why = f"{len(tokens)} tokens do not fit into a window of {window}" if tokens else "the text is empty"
        return TextScore(None, len(tokens), why)
    scored = losses[0][1:]
    if not len(scored):
        return TextScore(None, len(tokens), "no token has a context")
    value = -math.fsum(scored) / len(scored)
    if not math.isfinite(value):
        return TextScore(None, len(tokens), f"the model's log-likelihood is {value}")
    return TextScore(value, len(tokens))
