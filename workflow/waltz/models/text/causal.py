"""Causal language models: the loss of each token of a text, and the mean log-likelihood of texts.

A causal model's state at a token depends on the tokens before it only. Sequences that begin alike therefore share
their prefix: prefix trees are one row of tokens in which each token attends to its ancestors and has the position of
its depth.
"""

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
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
from waltz.core.errors import UserError, get_first_line
from waltz.core.files import result_cache
from waltz.model_registry import ModelSpec, compute_fingerprint
from waltz.models.batches import Tokens, run_in_halves
from waltz.models.pretrained import TextModel, get_causal_window, load_pretrained, report_faults

log = logging.getLogger(__name__)
PROBE_SEQUENCES = ((7, 3, 5), (7, 4, 6, 3), (8, 3))
"""Three short sequences with a fork, to test whether a model reads trees."""
PROBE_TOLERANCE = 0.01
"""Maximum difference, relative to the spread of the losses, that counts as equal."""


@dataclass(frozen=True)
class PrefixTrees:
    """Prefix trees of some sequences, laid out depth first.

    Attributes:
        sequences: The sequences, in lexicographic order.
        tokens: Token of each node, int64 of shape (nodes,).
        parents: Index of each node's parent, -1 at a root, int64 of shape (nodes,).
        depths: Position of each node in its sequences, int64 of shape (nodes,).
        ends: Index of the node at which each sequence ends, int64 of shape (sequences,).
    """

    sequences: tuple[Tokens, ...]
    tokens: np.ndarray
    parents: np.ndarray
    depths: np.ndarray
    ends: np.ndarray

    def get_path(self, sequence: int) -> list[int]:
        """Return the nodes of a sequence, from its first token to its last."""
        nodes = []
        node = int(self.ends[sequence])
        while node >= 0:
            nodes.append(node)
            node = int(self.parents[node])
        return nodes[::-1]

    def build_ancestor_mask(self) -> np.ndarray:
        """Return the nodes that each node attends to, itself included: bool of shape (nodes, nodes)."""
        attended = np.zeros((len(self.tokens), len(self.tokens)), dtype=bool)
        for node, parent in enumerate(self.parents):
            if parent >= 0:
                attended[node] = attended[parent]
            attended[node, node] = True
        return attended


def batch_prefix_trees(sequences: Iterable[Tokens], budget: int) -> Iterator[PrefixTrees]:
    """Yield prefix trees of distinct sequences in lexicographic order, each of at most `budget` nodes.

    The batches depend only on the set of sequences and the budget. A sequence longer than the budget
    is a batch of its own.
    """
    pending: list[Tokens] = []
    nodes = 0
    for sequence in sorted(set(sequences)):
        new = len(sequence) - (_count_shared(pending[-1], sequence) if pending else 0)
        if pending and nodes + new > budget:
            yield build_prefix_trees(pending)
            pending, nodes, new = [], 0, len(sequence)
        pending.append(sequence)
        nodes += new
    if pending:
        yield build_prefix_trees(pending)


def build_prefix_trees(sequences: Sequence[Tokens]) -> PrefixTrees:
    """Return the prefix trees of distinct, non-empty sequences in lexicographic order.

    Raises:
        ValueError: A sequence is empty, repeated or out of order.
    """
    tokens: list[int] = []
    parents: list[int] = []
    depths: list[int] = []
    ends: list[int] = []
    path: list[int] = []
    previous: Tokens = ()
    for sequence in sequences:
        if sequence <= previous:
            raise ValueError("sequences are empty, repeated or out of order")
        del path[_count_shared(previous, sequence) :]
        for token in sequence[len(path) :]:
            parents.append(path[-1] if path else -1)
            depths.append(len(path))
            path.append(len(tokens))
            tokens.append(token)
        ends.append(path[-1])
        previous = sequence
    return PrefixTrees(
        tuple(sequences),
        *(np.asarray(values, dtype=np.int64) for values in (tokens, parents, depths, ends)),
    )


def _count_shared(first: Tokens, second: Tokens) -> int:
    for length, (first_token, second_token) in enumerate(zip(first, second, strict=False)):
        if first_token != second_token:
            return length
    return min(len(first), len(second))


@dataclass(frozen=True)
class CausalModel(TextModel):
    """A loaded causal language model.

    Attributes:
        start: Id of its start token, or None where it has none (GPT-1).
        reads_trees: Whether it applies a mask of ancestors, so that prefixes are shared.
    """

    start: int | None
    reads_trees: bool

    def tokenize(self, text: str) -> Tokens:
        """Return ids of a text without special tokens."""
        return tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"])


def load_causal_model(spec: ModelSpec, device: Device) -> CausalModel:
    """Load a causal language model by hub id, folder or package.

    Raises:
        UserError: The weights cannot be had, or lack parameters of the network.
    """
    if spec.server:
        raise UserError(
            f"models.{spec.name}.server: perplexities are computed with the network itself, not by a server; remove"
            f" {spec.name} from these data sets, or name its weights"
        )
    network, tokenizer = load_pretrained(spec, transformers.AutoModelForCausalLM)
    with report_faults(spec):
        return wrap_causal_model(spec, network, tokenizer, device.name)


def wrap_causal_model(spec: ModelSpec, network: Any, tokenizer: Any, device: str) -> CausalModel:
    """Return a causal model from a network and tokenizer that are already loaded."""
    network = network.to(device).eval()
    window = get_causal_window(network.config)
    start = tokenizer.bos_token_id
    without_trees = CausalModel(spec, device, network, tokenizer, window, compute_fingerprint(spec), start, False)
    with_trees = replace(without_trees, reads_trees=True)
    model = with_trees if _reads_trees(with_trees, without_trees) else without_trees
    log.info("%s: start token %s, window %d, shares prefixes: %s", spec.name, start, window, model.reads_trees)
    return model


def compute_node_losses(model: CausalModel, trees: PrefixTrees) -> np.ndarray:
    """Return the negative log-likelihood of each node's token after its ancestors.

    Args:
        trees: Sequences of ids within the model's window.
    Returns:
        Nats, float64 of shape (nodes,); NaN at roots, which have no context.
    """

    def compute(first: int, last: int) -> list[np.ndarray]:
        subtrees = trees if last - first == len(trees.sequences) else build_prefix_trees(trees.sequences[first:last])
        part_losses = (
            _compute_tree_losses(model, subtrees) if model.reads_trees else _compute_row_losses(model, subtrees)
        )
        return [part_losses[subtrees.get_path(index)] for index in range(last - first)]

    by_sequence = run_in_halves(compute, len(trees.sequences), lambda parts: list(chain.from_iterable(parts)))
    losses = np.full(len(trees.tokens), np.nan)
    for index, sequence_losses in enumerate(by_sequence):
        losses[trees.get_path(index)] = sequence_losses
    return losses


@torch.inference_mode()
def _compute_tree_losses(model: CausalModel, trees: PrefixTrees) -> np.ndarray:
    tokens = torch.as_tensor(trees.tokens, device=model.device)
    mask = torch.zeros((len(trees.tokens),) * 2, dtype=model.network.dtype, device=model.device)
    mask.masked_fill_(~torch.as_tensor(trees.build_ancestor_mask(), device=model.device), torch.finfo(mask.dtype).min)
    logits = model.network(
        input_ids=tokens[None],
        attention_mask=mask[None, None],
        position_ids=torch.as_tensor(trees.depths, device=model.device)[None],
        use_cache=False,
    ).logits[0]
    children = torch.as_tensor(np.flatnonzero(trees.parents >= 0), device=model.device)
    parents = torch.as_tensor(trees.parents, device=model.device)[children]
    losses = np.full(len(trees.tokens), np.nan)
    losses[children.cpu().numpy()] = _compute_losses(logits, parents, tokens[children])
    return losses


@torch.inference_mode()
def _compute_row_losses(model: CausalModel, trees: PrefixTrees) -> np.ndarray:
    """Return the losses by plain rows, padded at the end, where no token attends."""
    losses = np.full(len(trees.tokens), np.nan)
    longest = max(len(sequence) for sequence in trees.sequences)
    ids = torch.zeros((len(trees.sequences), longest), dtype=torch.int64)
    mask = torch.zeros_like(ids)
    for row, sequence in enumerate(trees.sequences):
        ids[row, : len(sequence)] = torch.tensor(sequence)
        mask[row, : len(sequence)] = 1
    logits = model.network(input_ids=ids.to(model.device), attention_mask=mask.to(model.device)).logits
    for row in reversed(range(len(trees.sequences))):
        path = trees.get_path(row)
        before = torch.arange(len(path) - 1, device=model.device)
        losses[path[1:]] = _compute_losses(logits[row], before, ids[row, 1 : len(path)].to(model.device))
    return losses


def _compute_losses(logits: torch.Tensor, positions: torch.Tensor, targets: torch.Tensor) -> np.ndarray:
    """Return -ln p(target) at each position, float64 of shape (positions,)."""
    normaliser = torch.logsumexp(logits.float(), dim=-1)[positions]
    return (normaliser - logits[positions, targets].float()).double().cpu().numpy()


def _reads_trees(with_trees: CausalModel, without_trees: CausalModel) -> bool:
    probe = build_prefix_trees(PROBE_SEQUENCES)
    try:
        losses = _compute_tree_losses(with_trees, probe)
    except torch.OutOfMemoryError:  # a RuntimeError that does not depend on the model
        raise
    except (TypeError, ValueError, RuntimeError, IndexError) as error:
        log.info("%s reads plain rows only: %s", with_trees.spec.name, get_first_line(error))
        return False
    expected = _compute_row_losses(without_trees, probe)
    inner_nodes = probe.parents >= 0
    spread = float(np.std(expected[inner_nodes]))
    return bool(np.abs(losses[inner_nodes] - expected[inner_nodes]).max() <= PROBE_TOLERANCE * spread)


@dataclass(frozen=True)
class TextScore:
    """Log-likelihood of a text.

    Attributes:
        value: Minus the log perplexity in nats; None with an error.
        tokens: Number of tokens, without the start token.
        error: Reason why there is no value.
    """

    value: float | None
    tokens: int
    error: str | None = None


def compute_mean_log_likelihoods(
    texts: Sequence[str],
    model: CausalModel,
    tokens_per_batch: int,
    cache_file: Path,
    on_progress: Callable[[int], object],
) -> dict[str, TextScore]:
    """Return the mean log-likelihood per token of each distinct text: minus its log perplexity.

    Each token counts after the start token and all tokens before it. Without a start token (GPT-1) the first token has
    no context and is not scored. Batches depend only on the set of texts and `tokens_per_batch`.

    Args:
        texts: Texts.
        tokens_per_batch: Maximum number of tokens in one forward pass.
        on_progress: Called with the number of texts of each finished batch, for a progress bar.
    """
    ids = {text: model.tokenize(text) for text in dict.fromkeys(texts)}
    sequences_of = {text: _prepend_start(tokens, model) for text, tokens in ids.items()}
    sequences = {sequence for sequences in sequences_of.values() for sequence in sequences}
    losses = compute_token_losses(sequences, model, tokens_per_batch, cache_file, on_progress)
    return {
        text: _compute_text_score(ids[text], [losses[sequence] for sequence in sequences_of[text]], model.window)
        for text in ids
    }


def compute_token_losses(
    sequences: set[Tokens],
    model: CausalModel,
    tokens_per_batch: int,
    cache_file: Path,
    on_progress: Callable[[int], object],
) -> dict[Tokens, np.ndarray]:
    """Return the negative log-likelihood of each token of each sequence after the tokens before it.

    Returns:
        By sequence, float64 of its length, in nats; NaN at the first token, which has no context.
    """
    content = model.build_cache_content(digest(__file__))
    token_losses: dict[Tokens, np.ndarray] = {}
    for trees in batch_prefix_trees(sequences, tokens_per_batch):
        values = result_cache.load_or_compute(
            cache_file, {**content, "sequences": trees.sequences}, partial(compute_node_losses, model, trees)
        )
        token_losses |= {sequence: values[trees.get_path(index)] for index, sequence in enumerate(trees.sequences)}
        on_progress(len(trees.sequences))
    return token_losses


def _prepend_start(tokens: Tokens, model: CausalModel) -> list[Tokens]:
    sequence = tokens if model.start is None else (model.start, *tokens)
    return [sequence] if 0 < len(sequence) <= model.window else []


def _compute_text_score(tokens: Tokens, losses: Sequence[np.ndarray], window: int) -> TextScore:
    if not losses:
        reason = f"{len(tokens)} tokens do not fit into a window of {window}" if tokens else "the text is empty"
        return TextScore(None, len(tokens), reason)
    scored = losses[0][1:]
    if not len(scored):
        return TextScore(None, len(tokens), "no token has a context")
    value = -math.fsum(scored) / len(scored)
    if not math.isfinite(value):
        return TextScore(None, len(tokens), f"the model's log-likelihood is {value}")
    return TextScore(value, len(tokens))
