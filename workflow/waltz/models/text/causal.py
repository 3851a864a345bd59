"""Causal language models: the loss of each token of a text, and the mean log-likelihood of texts.

A causal model's state at a token depends only on this token and the tokens before it. Sequences
that begin alike therefore share their prefix. Prefix trees are read as one row of tokens, in which
each token attends to its ancestors and its position is its depth.
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

from waltz.core.digest import digest
from waltz.core.errors import ItemError, UserError
from waltz.core.files import result_cache
from waltz.core.jobs.devices import Device
from waltz.model_registry import ModelSpec, compute_fingerprint
from waltz.models.batches import Tokens, run_in_halves
from waltz.models.forward_checks import (
    LATER_TOKENS_SEEN,
    choose_probe_length,
    compute_reference,
    draw_probe_ids,
    find_checked_length,
    sees_last_token,
)
from waltz.models.pretrained import (
    TextModel,
    get_causal_window,
    load_pretrained,
    report_faults,
)
from waltz.models.user_text import check_user_text

log = logging.getLogger(__name__)
PROBE_TOKENS = 8
"""Minimum length of the longest test sequences, which exceed the network's sliding windows if its
window allows it.
"""


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
        """Return the nodes that each node attends to, itself included: bool of shape (nodes,
        nodes).
        """
        attended = np.zeros((len(self.tokens), len(self.tokens)), dtype=bool)
        for node, parent in enumerate(self.parents):
            if parent >= 0:
                attended[node] = attended[parent]
            attended[node, node] = True
        return attended


def batch_prefix_trees(
    sequences: Iterable[Tokens], budget: int
) -> Iterator[PrefixTrees]:
    """Yield prefix trees of distinct sequences in lexicographic order, each batch with at most
    `budget` nodes.

    The batches depend only on the set of sequences and the budget. A sequence longer than the
    budget is a batch of one sequence.
    """
    pending: list[Tokens] = []
    node_count = 0
    for sequence in sorted(set(sequences)):
        # A sequence adds one node for each token that it does not share with the one before it.
        new_count = len(sequence)
        if pending:
            new_count -= _count_shared(pending[-1], sequence)
            if node_count + new_count > budget:
                yield build_prefix_trees(pending)
                pending, node_count, new_count = [], 0, len(sequence)
        pending.append(sequence)
        node_count += new_count
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
    path: list[int] = []  # nodes of the sequence so far
    previous: Tokens = ()
    for sequence in sequences:
        if sequence <= previous:
            raise ValueError("sequences are empty, repeated or out of order")
        # Keep the nodes that the sequence shares with the one before it, and append nodes for its
        # other tokens.
        del path[_count_shared(previous, sequence) :]
        for token in sequence[len(path) :]:
            parents.append(path[-1] if path else -1)
            depths.append(len(path))
            path.append(len(tokens))
            tokens.append(token)
        ends.append(path[-1])
        previous = sequence
    arrays = (
        np.asarray(values, dtype=np.int64) for values in (tokens, parents, depths, ends)
    )
    return PrefixTrees(tuple(sequences), *arrays)


def _count_shared(first: Tokens, second: Tokens) -> int:
    for length, (first_token, second_token) in enumerate(
        zip(first, second, strict=False)
    ):
        if first_token != second_token:
            return length
    return min(len(first), len(second))


@dataclass(frozen=True)
class CausalModel(TextModel):
    """A loaded causal language model.

    Attributes:
        start: Id of the start token; None without one, as for GPT-1.
        reads_trees: Whether the network applies a mask of ancestors, so that prefixes are shared.
        pads_rows: Whether sequences of different lengths can be read together, padded at the end.
        checked_length: Maximum length of sequences for which trees and padding were tested; None
            without a limit.
        reason: Reason why prefixes are not shared; empty if they are shared.
    """

    start: int | None
    reads_trees: bool
    pads_rows: bool = False
    checked_length: int | None = None
    reason: str = ""

    def can_share(self, trees: PrefixTrees) -> bool:
        """Return whether the prefixes of sequences can be shared."""
        return self.reads_trees and self._is_checked(trees)

    def can_pad(self, trees: PrefixTrees) -> bool:
        """Return whether sequences of different lengths can be read together."""
        return self.pads_rows and self._is_checked(trees)

    def _is_checked(self, trees: PrefixTrees) -> bool:
        longest = max(len(sequence) for sequence in trees.sequences)
        return self.checked_length is None or longest <= self.checked_length

    def tokenize(self, text: str) -> Tokens:
        """Return ids of a text without special tokens.

        Raises:
            ItemError: The text holds a control token.
        """
        check_user_text(self.tokenizer, text, f"models.{self.spec.name}")
        return tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def tokenize_texts(
        self, texts: Iterable[str]
    ) -> tuple[dict[str, Tokens], dict[str, "TextScore"]]:
        """Return the ids of each distinct text that can be read, and for other texts a score that
        holds the reason.
        """
        ids: dict[str, Tokens] = {}
        unreadable: dict[str, TextScore] = {}
        for text in dict.fromkeys(texts):
            try:
                ids[text] = self.tokenize(text)
            except ItemError as error:
                unreadable[text] = TextScore(None, 0, str(error))
        return ids, unreadable


def load_causal_model(spec: ModelSpec, device: Device) -> CausalModel:
    """Load a causal language model by hub id, folder or package.

    Raises:
        UserError: The weights cannot be loaded, or lack parameters of the network.
    """
    if spec.server:
        raise UserError(
            f"models.{spec.name}.server: perplexities are computed with the network itself, not by a server; remove"
            f" {spec.name} from these data sets, or name its weights"
        )
    network, tokenizer = load_pretrained(spec, transformers.AutoModelForCausalLM)
    with report_faults(spec):
        return wrap_causal_model(spec, network, tokenizer, device.name)


def wrap_causal_model(
    spec: ModelSpec, network: Any, tokenizer: Any, device: str
) -> CausalModel:
    """Return a causal model from a network and tokenizer that are already loaded.

    Raises:
        UserError: A token's logits depend on later tokens, so that its likelihood has no meaning.
    """
    network = network.to(device).eval()
    window = get_causal_window(network.config)
    model = CausalModel(
        spec,
        device,
        network,
        tokenizer,
        window,
        compute_fingerprint(spec),
        start=tokenizer.bos_token_id,
        reads_trees=False,
        checked_length=find_checked_length(network.config),
    )
    # Trees and padding are used only if they give the logits of the network's own pass on test
    # sequences.
    probe = _build_probe(network, window)
    with torch.inference_mode():
        ids = torch.tensor(
            [max(probe.sequences, key=len)[:PROBE_TOKENS]], device=device
        )
        if sees_last_token(network, ids, lambda row: network(input_ids=row).logits):
            raise UserError(
                f"models.{spec.name}: {type(network).__name__}: {LATER_TOKENS_SEEN}"
            )
        reference = compute_reference(
            network, lambda: torch.cat(_read_alone(model, probe))
        )
        fault = reference.find_fault(lambda: torch.cat(_read_tree_paths(model, probe)))
        pads_rows = not reference.find_fault(
            lambda: torch.cat(_read_padded(model, probe))
        )
    model = replace(model, reads_trees=not fault, pads_rows=pads_rows, reason=fault)
    reading = f"whole rows: {fault}" if fault else "shares prefixes"
    log.info(
        "%s: start token %s, window %d, %s", spec.name, model.start, window, reading
    )
    return model


def compute_node_losses(model: CausalModel, trees: PrefixTrees) -> np.ndarray:
    """Return the negative log-likelihood of each node's token given the tokens of its ancestors.

    Args:
        trees: Sequences of ids within the model's window.
    Returns:
        Losses in nats, float64 of shape (nodes,); NaN at roots, which have no context.
    """
    compute_losses = (
        _compute_tree_losses if model.can_share(trees) else _compute_row_losses
    )

    def compute(first: int, last: int) -> list[np.ndarray]:
        """Return the losses of consecutive sequences: of all sequences, unless the device has too
        little memory.
        """
        subtrees = trees
        if last - first < len(trees.sequences):
            subtrees = build_prefix_trees(trees.sequences[first:last])
        part_losses = compute_losses(model, subtrees)
        return [part_losses[subtrees.get_path(index)] for index in range(last - first)]

    # Trees are halved by sequences if the device has too little memory.
    by_sequence = run_in_halves(
        compute, len(trees.sequences), lambda parts: list(chain.from_iterable(parts))
    )
    # Sequences that share a node give it the same loss but for rounding; the last sequence's loss
    # stays.
    losses = np.full(len(trees.tokens), np.nan)
    for index, sequence_losses in enumerate(by_sequence):
        losses[trees.get_path(index)] = sequence_losses
    return losses


@torch.inference_mode()
def _compute_tree_losses(model: CausalModel, trees: PrefixTrees) -> np.ndarray:
    logits = _read_tree(model, trees)  # (nodes, vocabulary)
    tokens = torch.as_tensor(trees.tokens, device=model.device)
    # The logits after a node are those of its children's tokens.
    children = torch.as_tensor(np.flatnonzero(trees.parents >= 0), device=model.device)
    parents = torch.as_tensor(trees.parents, device=model.device)[children]
    losses = np.full(len(trees.tokens), np.nan)
    losses[children.cpu().numpy()] = _compute_losses(logits, parents, tokens[children])
    return losses


def _read_tree(model: CausalModel, trees: PrefixTrees) -> torch.Tensor:
    """Return the logits after each node, of shape (nodes, vocabulary), read in one pass."""
    tokens = torch.as_tensor(trees.tokens, device=model.device)
    # mask[i, j] is added to the attention of node i to node j: 0 for its ancestors and itself, else
    # the lowest number.
    is_ancestor = torch.as_tensor(trees.build_ancestor_mask(), device=model.device)
    mask = torch.zeros(
        (len(trees.tokens),) * 2, dtype=model.network.dtype, device=model.device
    )
    mask.masked_fill_(~is_ancestor, torch.finfo(mask.dtype).min)
    logits: torch.Tensor = model.network(
        input_ids=tokens[None],
        attention_mask=mask[None, None],
        position_ids=torch.as_tensor(trees.depths, device=model.device)[None],
        use_cache=False,
    ).logits[0]
    return logits


@torch.inference_mode()
def _compute_row_losses(model: CausalModel, trees: PrefixTrees) -> np.ndarray:
    """Return the losses of the nodes, with each sequence read as a row of its own tokens: float64
    of shape (nodes,).
    """
    read = _read_padded if model.can_pad(trees) else _read_alone
    losses = np.full(len(trees.tokens), np.nan)
    rows = list(zip(trees.sequences, read(model, trees), strict=True))
    # A node that several sequences share has their losses, which differ by rounding; the first
    # sequence's stays.
    for row, (sequence, logits) in reversed(list(enumerate(rows))):
        before = torch.arange(len(sequence) - 1, device=model.device)
        targets = torch.tensor(sequence[1:], dtype=torch.int64, device=model.device)
        losses[trees.get_path(row)[1:]] = _compute_losses(logits, before, targets)
    return losses


def _read_alone(model: CausalModel, trees: PrefixTrees) -> list[torch.Tensor]:
    """Return the logits of each sequence, of shape (length, vocabulary), read alone by the
    network's own forward pass.
    """
    logits = []
    for sequence in trees.sequences:
        ids = torch.tensor([sequence], device=model.device)
        logits.append(model.network(input_ids=ids).logits[0])
    return logits


def _read_padded(model: CausalModel, trees: PrefixTrees) -> list[torch.Tensor]:
    """Return the logits of each sequence; all sequences are read in one pass, padded at the end."""
    longest = max(len(sequence) for sequence in trees.sequences)
    # (sequences, longest): zeros stand behind the shorter sequences, where a causal model does not
    # look.
    ids = torch.zeros((len(trees.sequences), longest), dtype=torch.int64)
    mask = torch.zeros_like(ids)
    for row, sequence in enumerate(trees.sequences):
        ids[row, : len(sequence)] = torch.tensor(sequence)
        mask[row, : len(sequence)] = 1
    logits = model.network(
        input_ids=ids.to(model.device), attention_mask=mask.to(model.device)
    ).logits
    return [
        row[: len(sequence)]
        for row, sequence in zip(logits, trees.sequences, strict=True)
    ]


def _compute_losses(
    logits: torch.Tensor, positions: torch.Tensor, targets: torch.Tensor
) -> np.ndarray:
    """Return -ln p(target) at each position, float64 of shape (positions,)."""
    # -ln p(t) = ln(sum_v exp z_v) - z_t
    normalizer = torch.logsumexp(logits.float(), dim=-1)[positions]
    return (normalizer - logits[positions, targets].float()).double().cpu().numpy()


def _build_probe(network: Any, window: int) -> PrefixTrees:
    """Return the prefix trees of three test sequences; the two longer sequences exceed the
    network's sliding windows.
    """
    length = choose_probe_length(network.config, PROBE_TOKENS, window)
    vocabulary_size = network.config.get_text_config(decoder=True).vocab_size
    stem, first, second = (
        draw_probe_ids(vocabulary_size, 3 * length).reshape(3, length).tolist()
    )
    # Two sequences that share their first half, and a short one that shares nothing.
    middle = length // 2
    sequences = [
        (*stem[:middle], *first[middle:]),
        (*stem[:middle], *second[middle:-1]),
        tuple(second[: PROBE_TOKENS // 2]),
    ]
    return build_prefix_trees(sorted(sequences))


def _read_tree_paths(model: CausalModel, trees: PrefixTrees) -> list[torch.Tensor]:
    """Return the logits of each sequence, selected along its path in the trees."""
    logits = _read_tree(model, trees)
    return [logits[trees.get_path(index)] for index in range(len(trees.sequences))]


@dataclass(frozen=True)
class TextScore:
    """Log-likelihood of a text.

    Attributes:
        value: Minus the log perplexity in nats; None with an error.
        tokens: Number of tokens, without the start token.
        error: Reason why the text has no value; empty with a value.
    """

    value: float | None
    tokens: int
    error: str | None = None


def compute_mean_log_likelihoods(
    texts: Sequence[str],
    model: CausalModel,
    tokens_per_batch: int,
    cache_file: Path | None,
    on_progress: Callable[[int], object],
) -> dict[str, TextScore]:
    """Return the mean log-likelihood per token of each distinct text, which is minus its log
    perplexity.

    Each token is predicted from the start token and all tokens before it. Without a start token
    (GPT-1) the first token has no context and is not scored. Batches depend only on the set of
    texts and `tokens_per_batch`.

    Args:
        texts: Texts.
        tokens_per_batch: Maximum number of tokens in one forward pass.
        on_progress: Called with the number of texts of each finished batch, for a progress bar.
    """
    ids, scores = model.tokenize_texts(texts)
    sequences_of_texts = {
        text: _prepend_start(tokens, model) for text, tokens in ids.items()
    }
    sequences = set(chain.from_iterable(sequences_of_texts.values()))
    losses = compute_token_losses(
        sequences, model, tokens_per_batch, cache_file, on_progress
    )
    for text, text_sequences in sequences_of_texts.items():
        # A text has one sequence, or none if the model cannot read it.
        text_losses = [losses[sequence] for sequence in text_sequences]
        scores[text] = _compute_text_score(ids[text], text_losses, model.window)
    return scores


def compute_token_losses(
    sequences: set[Tokens],
    model: CausalModel,
    tokens_per_batch: int,
    cache_file: Path | None,
    on_progress: Callable[[int], object],
) -> dict[Tokens, np.ndarray]:
    """Return the negative log-likelihood of each token of each sequence given the tokens before it.

    Returns:
        For each sequence, float64 of shape (length,), in nats; NaN at the first token, which has no
        context.
    """
    content = model.build_cache_content(digest(__file__))
    token_losses: dict[Tokens, np.ndarray] = {}
    for trees in batch_prefix_trees(sequences, tokens_per_batch):
        # The trees depend on the set of sequences and the budget only, so that a batch is found
        # again in the cache.
        key = {**content, "sequences": trees.sequences}
        node_losses = result_cache.load_or_compute(
            cache_file, key, partial(compute_node_losses, model, trees)
        )
        for index, sequence in enumerate(trees.sequences):
            token_losses[sequence] = node_losses[trees.get_path(index)]
        on_progress(len(trees.sequences))
    return token_losses


def _prepend_start(tokens: Tokens, model: CausalModel) -> list[Tokens]:
    """Return the list of the text's only sequence, start token first; an empty list if it is empty
    or exceeds the window.
    """
    sequence = tokens if model.start is None else (model.start, *tokens)
    fits = 0 < len(sequence) <= model.window
    return [sequence] if fits else []


def _compute_text_score(
    tokens: Tokens, losses: Sequence[np.ndarray], window: int
) -> TextScore:
    """Return the score of a text from the losses of its tokens, or the reason why it has no score.

    Args:
        losses: Losses of the text's only sequence, float64 of shape (length,); empty where the
            model does not read it.
    """
    if not tokens and not losses:
        return TextScore(None, 0, "the text is empty")
    if not losses:
        return TextScore(
            None,
            len(tokens),
            f"{len(tokens)} tokens do not fit into a window of {window}",
        )
    scored = losses[0][1:]  # the first token has no context
    if not len(scored):
        return TextScore(None, len(tokens), "no token has a context")
    # fsum adds without rounding errors, so that the mean does not depend on the order.
    value = -math.fsum(scored) / len(scored)
    if not math.isfinite(value):
        return TextScore(None, len(tokens), f"the model's log-likelihood is {value}")
    return TextScore(value, len(tokens))
