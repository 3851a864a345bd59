"""Causal language models: what each token of a text costs them."""

import logging
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import torch
import transformers

from waltz.core.devices import Device
from waltz.models.checkpoints import load
from waltz.models.memory import run_in_halves
from waltz.models.registry import ModelSpec
from waltz.models.text.prefix_trees import Pack, Tokens, pack
from waltz.models.weights import fingerprint

log = logging.getLogger(__name__)

WINDOW_NAMES = ("max_position_embeddings", "n_positions", "seq_length")
DEFAULT_WINDOW = 1024
PROBE = ((7, 3, 5), (7, 4, 6, 3), (8, 3))
"""Three short sequences with a fork, by which a model shows whether it reads trees."""
PROBE_TOLERANCE = 0.01
"""Highest difference, as a share of the spread of the losses, that still counts as reading trees."""


@dataclass(frozen=True)
class TextModel:
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

    def tokens(self, text: str) -> Tokens:
        """Ids of a text without special tokens."""
        return tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"])


def load_text_model(spec: ModelSpec, device: Device) -> TextModel:
    """Load a causal language model by hub id, folder or package.

    Raises:
        UserError: The weights cannot be had, or lack parameters of the network.
    """
    network, tokenizer = load(spec, transformers.AutoModelForCausalLM)
    return adopt(spec, network, tokenizer, device.name)


def adopt(spec: ModelSpec, network: Any, tokenizer: Any, device: str) -> TextModel:
    """A text model from a network and tokenizer that are loaded already."""
    network = network.to(device).eval()
    config = network.config
    window: int = next((size for name in WINDOW_NAMES if (size := getattr(config, name, None))), DEFAULT_WINDOW)
    start = tokenizer.bos_token_id
    rows = TextModel(spec, device, network, tokenizer, start, window, False, fingerprint(spec))
    trees = replace(rows, reads_trees=True)
    model = trees if _agree(trees, rows) else rows
    log.info("%s: start token %s, window %d, shares prefixes: %s", spec.name, start, window, model.reads_trees)
    return model


def node_losses(model: TextModel, trie: Pack) -> np.ndarray:
    """Negative log-likelihood of each node's token after its ancestors.

    Args:
        model: A loaded language model.
        trie: Sequences of ids within the model's window.
    Returns:
        Nats, float64 of shape (nodes,); NaN at roots, which nothing comes before.
    """

    def compute(first: int, last: int) -> list[np.ndarray]:
        part = trie if last - first == len(trie.sequences) else pack(trie.sequences[first:last])
        part_losses = _tree_losses(model, part) if model.reads_trees else _row_losses(model, part)
        return [part_losses[part.path(index)] for index in range(last - first)]

    by_sequence = run_in_halves(compute, len(trie.sequences), lambda parts: list(chain.from_iterable(parts)))
    losses = np.full(len(trie.tokens), np.nan)
    for index, sequence_losses in enumerate(by_sequence):
        losses[trie.path(index)] = sequence_losses
    return losses


@torch.inference_mode()
def _tree_losses(model: TextModel, trie: Pack) -> np.ndarray:
    tokens = torch.as_tensor(trie.tokens, device=model.device)
    mask = torch.zeros((len(trie.tokens),) * 2, dtype=model.network.dtype, device=model.device)
    mask.masked_fill_(~torch.as_tensor(trie.ancestors(), device=model.device), torch.finfo(mask.dtype).min)
    logits = model.network(
        input_ids=tokens[None],
        attention_mask=mask[None, None],
        position_ids=torch.as_tensor(trie.depths, device=model.device)[None],
        use_cache=False,
    ).logits[0]
    children = torch.as_tensor(np.flatnonzero(trie.parents >= 0), device=model.device)
    parents = torch.as_tensor(trie.parents, device=model.device)[children]
    losses = np.full(len(trie.tokens), np.nan)
    losses[children.cpu().numpy()] = _losses(logits, parents, tokens[children])
    return losses


@torch.inference_mode()
def _row_losses(model: TextModel, trie: Pack) -> np.ndarray:
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
        path = trie.path(row)
        before = torch.arange(len(path) - 1, device=model.device)
        losses[path[1:]] = _losses(logits[row], before, ids[row, 1 : len(path)].to(model.device))
    return losses


def _losses(logits: torch.Tensor, positions: torch.Tensor, targets: torch.Tensor) -> np.ndarray:
    """-ln p(target) at each position, float64 of shape (positions,)."""
    normaliser = torch.logsumexp(logits.float(), dim=-1)[positions]
    return (normaliser - logits[positions, targets].float()).double().cpu().numpy()


def _agree(trees: TextModel, rows: TextModel) -> bool:
    probe = pack(PROBE)
    try:
        found = _tree_losses(trees, probe)
    except torch.OutOfMemoryError:  # a RuntimeError, which says nothing of how the model reads
        raise
    except (TypeError, ValueError, RuntimeError, IndexError) as error:
        log.info("%s reads plain rows only: %s", trees.spec.name, str(error).splitlines()[0])
        return False
    expected = _row_losses(rows, probe)
    inner = probe.parents >= 0
    spread = float(np.std(expected[inner]))
    return bool(np.abs(found[inner] - expected[inner]).max() <= PROBE_TOLERANCE * spread)
