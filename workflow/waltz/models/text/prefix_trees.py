"""Token sequences as prefix trees, so that a common prefix is computed once.

A causal model's state at a token depends on the tokens before it only. Sequences that begin alike
therefore share their prefix: prefix trees are one row of tokens in which each token attends to
its ancestors and has the position of its depth.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

Tokens = tuple[int, ...]


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
