"""ALBEF's answers: a text decoder over the states of a question, by which each answer of a list is weighed.

An answer is decoded from [CLS] on and ended by [SEP]; its logit is the logarithm of its probability. Answers that begin
alike pass the decoder together, as prefix trees.

Source:
    Li et al. (NeurIPS 2021), on VQA. The release weighs the 128 answers alone whose first token is likeliest, which
    saves time; here every answer of the list is weighed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from waltz.models.networks.albef.dimensions import TextSize
from waltz.models.networks.albef.language import Language
from waltz.models.text.prefix_trees import pack, packs

NODES = 512
"""Most nodes of the prefix trees that pass the decoder together."""


@dataclass(frozen=True, eq=False)
class Answers:
    """Some answers as one pack of prefix trees, [CLS] being the root.

    Attributes:
        tokens: Token of each node, int64 of shape (nodes,).
        depths: Position of each node, int64 of shape (nodes,).
        bias: Added to attention scores, so that a node sees its ancestors and itself: of shape (nodes, nodes).
        parents: Node before each step, int64 of shape (steps,).
        steps: Token of each step, int64 of shape (steps,); [SEP] where an answer ends.
        taken: How often each answer takes each step (once or never): float64 of shape (steps, answers).
        places: Which answers of the list these are, int64 of shape (answers,).
    """

    tokens: torch.Tensor
    depths: torch.Tensor
    bias: torch.Tensor
    parents: torch.Tensor
    steps: torch.Tensor
    taken: torch.Tensor
    places: torch.Tensor


def planned(answers: Sequence[Sequence[int]], start: int, end: int, device: str, nodes: int = NODES) -> list[Answers]:
    """The packs of a list of answers.

    Args:
        answers: Token ids of each, without special ones.
        start: Id of [CLS].
        end: Id of [SEP].
        device: Where they shall lie.
        nodes: Most nodes of a pack.
    """
    places: dict[tuple[int, ...], list[int]] = {}
    for place, ids in enumerate(answers):
        places.setdefault((start, *ids), []).append(place)
    return [_planned(many.sequences, places, end, device) for many in packs(places, nodes)]


def _planned(
    sequences: Sequence[tuple[int, ...]], places: dict[tuple[int, ...], list[int]], end: int, device: str
) -> Answers:
    tree = pack(sequences)
    nodes = len(tree.tokens)
    inner = np.arange(1, nodes)  # the root is no step
    columns = [(number, place) for number, ids in enumerate(sequences) for place in places[ids]]
    taken = np.zeros((nodes - 1 + len(sequences), len(columns)))
    for column, (number, _) in enumerate(columns):
        taken[np.asarray(tree.path(number)[1:], dtype=int) - 1, column] = 1
        taken[nodes - 1 + number, column] = 1
    bias = np.where(tree.ancestors(), 0.0, -np.inf).astype(np.float32)
    return Answers(
        torch.from_numpy(tree.tokens).to(device),
        torch.from_numpy(tree.depths).to(device),
        torch.from_numpy(bias).to(device),
        torch.from_numpy(np.concatenate([tree.parents[inner], tree.ends])).to(device),
        torch.from_numpy(np.concatenate([tree.tokens[inner], np.full(len(sequences), end)])).to(device),
        torch.from_numpy(taken).to(device),
        torch.tensor([place for _, place in columns], device=device),
    )


class Decoder(nn.Module):
    """The text decoder; its parameters have the names of the release's `text_decoder`."""

    def __init__(self, size: TextSize) -> None:
        """Lay out the weights."""
        super().__init__()
        self.bert = Language(size)
        transform = {
            "dense": nn.Linear(size.width, size.width),
            "LayerNorm": nn.LayerNorm(size.width, eps=size.epsilon),
        }
        self.cls = nn.ModuleDict({"predictions": Predictions(transform, size)})

    def forward(self, question: torch.Tensor, answers: Sequence[Answers]) -> torch.Tensor:
        """Logarithm of the probability of each answer.

        Args:
            question: States of questions, of shape (batch, tokens, width).
            answers: Packs of the answers.
        Returns:
            float32 of shape (batch, answers).
        """
        count = sum(len(many.places) for many in answers)
        found = torch.zeros(len(question), count, device=question.device)
        for many in answers:
            ids = many.tokens.expand(len(question), -1)
            states = self.bert.embed(ids, positions=many.depths)
            states = self.bert.fuse(states, question, many.bias.to(states.dtype))
            steps = self.cls["predictions"](states, many.parents, many.steps)
            found[:, many.places] = (steps @ many.taken).float()
        return found


class Predictions(nn.Module):
    """The head that predicts the next token."""

    def __init__(self, transform: dict[str, nn.Module], size: TextSize) -> None:
        """Lay out the weights."""
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(size.vocabulary))
        self.transform = nn.ModuleDict(transform)
        self.decoder = nn.Linear(size.width, size.vocabulary)

    def forward(self, states: torch.Tensor, parents: torch.Tensor, steps: torch.Tensor) -> torch.Tensor:
        """Logarithm of the probability of some steps.

        Args:
            states: Of nodes, of shape (batch, nodes, width).
            parents: Node before each step, of shape (steps,).
            steps: Token of each step, of shape (steps,).
        Returns:
            float64 of shape (batch, steps).
        """
        states = self.transform["LayerNorm"](nn.functional.gelu(self.transform["dense"](states)))
        logits = self.decoder(states).float()
        found: torch.Tensor = logits[:, parents, steps] - logits.logsumexp(dim=-1)[:, parents]
        return found.double()
