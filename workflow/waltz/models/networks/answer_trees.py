"""Answers as prefix trees, so that answers with a common prefix pass a decoder together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from waltz.models.text.causal import batch_prefix_trees, build_prefix_trees

NODES_PER_BATCH = 512
"""Maximum number of nodes that pass the decoder at once."""


@dataclass(frozen=True, eq=False)
class AnswerTrees:
    """A batch of answers as prefix trees with the start token as the root.

    Attributes:
        tokens: Token of each node, int64 of shape (nodes,).
        depths: Position of each node, int64 of shape (nodes,).
        bias: Number that is added to attention scores, so that a node sees its ancestors and
            itself: of shape (nodes, nodes).
        parents: Node before each step, int64 of shape (steps,).
        steps: Token of each step, int64 of shape (steps,); the end token at the end of an answer.
        transitions: 1 if an answer takes a step, else 0: float64 of shape (steps, answers).
        indices: Indices of these answers in the list, int64 of shape (answers,).
    """

    tokens: torch.Tensor
    depths: torch.Tensor
    bias: torch.Tensor
    parents: torch.Tensor
    steps: torch.Tensor
    transitions: torch.Tensor
    indices: torch.Tensor


def build_answer_trees(
    answers: Sequence[Sequence[int]],
    start: int,
    end: int,
    device: str,
    max_nodes: int = NODES_PER_BATCH,
) -> list[AnswerTrees]:
    """Return batches of answers as prefix trees.

    Args:
        answers: Token ids of each answer, without special tokens.
        start: Id of the start token.
        end: Id of the end token.
        device: A torch device.
        max_nodes: Maximum number of nodes of a batch.
    """
    # Answers with the same tokens are one sequence.
    indices_of: dict[tuple[int, ...], list[int]] = {}
    for index, ids in enumerate(answers):
        indices_of.setdefault((start, *ids), []).append(index)
    batches = batch_prefix_trees(indices_of, max_nodes)
    return [_build_trees(batch.sequences, indices_of, end, device) for batch in batches]


def _build_trees(
    sequences: Sequence[tuple[int, ...]],
    indices_of: dict[tuple[int, ...], list[int]],
    end: int,
    device: str,
) -> AnswerTrees:
    """Return answers as prefix trees.

    Args:
        sequences: Distinct answers as token ids, the start token first.
        indices_of: Indices in the list of the answers with these token ids.
        end: Id of the end token.
        device: A torch device.
    """
    tree = build_prefix_trees(sequences)
    nodes = len(tree.tokens)
    columns = [
        (row, index) for row, ids in enumerate(sequences) for index in indices_of[ids]
    ]
    # Steps: one to each node except the root, then one to the end of each sequence.
    inner = np.arange(1, nodes)
    transitions = np.zeros((nodes - 1 + len(sequences), len(columns)))
    for column, (row, _) in enumerate(columns):
        path = np.asarray(tree.get_path(row)[1:], dtype=int)
        transitions[path - 1, column] = 1
        transitions[nodes - 1 + row, column] = 1
    parents = np.concatenate([tree.parents[inner], tree.ends])
    steps = np.concatenate([tree.tokens[inner], np.full(len(sequences), end)])
    bias = np.where(tree.build_ancestor_mask(), 0.0, -np.inf).astype(np.float32)
    return AnswerTrees(
        tokens=torch.from_numpy(tree.tokens).to(device),
        depths=torch.from_numpy(tree.depths).to(device),
        bias=torch.from_numpy(bias).to(device),
        parents=torch.from_numpy(parents).to(device),
        steps=torch.from_numpy(steps).to(device),
        transitions=torch.from_numpy(transitions).to(device),
        indices=torch.tensor([index for _, index in columns], device=device),
    )


def rank_answers(
    compute_logits: Callable[[AnswerTrees], torch.Tensor],
    question: torch.Tensor,
    answers: Sequence[AnswerTrees],
) -> torch.Tensor:
    """Return the logarithm of the probability of each answer: float32 of shape (batch, answers).

    Args:
        compute_logits: Function that returns the logits of the token after each node, of shape
            (batch, nodes, vocabulary).
        question: States of questions, of shape (batch, tokens, width).
        answers: Batches of the answers.
    """
    count = sum(len(trees.indices) for trees in answers)
    log_probabilities = torch.zeros(len(question), count, device=question.device)
    for trees in answers:
        # All nodes pass the decoder at once: `bias` hides the nodes that are not ancestors.
        logits = compute_logits(trees).float()
        # Log-probability of each step's token after its parent, (batch, steps); an answer has the
        # sum of its steps.
        normalizers = logits.logsumexp(dim=-1)
        steps = logits[:, trees.parents, trees.steps] - normalizers[:, trees.parents]
        # float64, as an answer may have many steps.
        log_probabilities[:, trees.indices] = (
            steps.double() @ trees.transitions
        ).float()
    return log_probabilities
