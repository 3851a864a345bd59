"""ALBEF's matching network and its answering network, each loaded from a checkpoint file.

An answer is decoded from [CLS] and ended by [SEP]; its logit is the logarithm of its probability. Answers with a common
prefix pass the decoder together, as prefix trees.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from waltz.models import checkpoint_file
from waltz.models.networks.albef.layers import ImageEncoder, TextEncoder
from waltz.models.networks.albef.sizes import (
    TextSize,
    VisionSize,
    WeightShapes,
    get_bert_settings,
    read_text_size,
    read_vision_size,
)
from waltz.models.text.causal import batch_prefix_trees, build_prefix_trees

UNUSED_KEYS = re.compile(
    r"""[^.]*_m(\..*)?                              # momentum copies of other weights
    | image_queue | text_queue | idx_queue | queue_ptr  # queues of contrastive training
    | temp | (vision|text)_proj\..*                 # the contrastive score
    | (.*\.)?position_ids                           # consecutive numbers
    | text_encoder\.cls\..*                         # prediction of masked words
    | text_decoder\..* | itm_head\..*               # heads that another network has
    """,
    re.VERBOSE,
)
"""Keys of a release's file that the network does not use."""
DECODER_SETTINGS = ("num_attention_heads", "hidden_act", "layer_norm_eps")
"""Settings of the text encoder that the decoder shares; each of its layers attends to the question."""


class MatchingNetwork(nn.Module):
    """Image encoder, text and fusion layers, and the matching head."""

    def __init__(self, vision: VisionSize, text: TextSize) -> None:
        """Create the weights."""
        super().__init__()
        self.side, self.longest = vision.side, text.positions
        self.visual_encoder = ImageEncoder(vision)
        self.text_encoder = TextEncoder(text)
        self.itm_head = nn.Linear(text.width, 2)

    def logits(self, states: torch.Tensor, image: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        """Return logits of a mismatch and a match, read at the first token.

        Args:
            states: Of texts after `text_encoder.encode_text`, of shape (batch, tokens, width).
            image: Of images after `visual_encoder`, of shape (batch, 1 + patches, width).
            bias: Added to the scores of attention to the text; see `layers.build_padding_bias`.
        Returns:
            Of shape (batch, 2).
        """
        logits: torch.Tensor = self.itm_head(self.text_encoder.fuse(states, image, bias, count=1)[:, 0])
        return logits


class AnsweringNetwork(nn.Module):
    """Image encoder, text and fusion layers over a question, and the answer decoder."""

    def __init__(self, vision: VisionSize, text: TextSize, decoder: TextSize) -> None:
        """Create the weights."""
        super().__init__()
        self.side, self.longest = vision.side, text.positions
        self.visual_encoder = ImageEncoder(vision)
        self.text_encoder = TextEncoder(text)
        self.text_decoder = AnswerDecoder(decoder)


def load_matching_network(
    file: Path, config: Mapping[str, Any] | None = None, name: str = "", allow_missing: Mapping[str, str] = {}
) -> MatchingNetwork:
    """Return the matching network of a checkpoint file.

    Args:
        file: A file of the release (`mscoco.pth`, `ALBEF.pth`, ...), or one in its layout at another size.
        config: The release's settings; those next to the file by default.
        name: Name of the model in the study, for errors.
        allow_missing: See `checkpoint_file.load_weights`.
    Raises:
        UserError: The file or settings cannot be read, or a weight is missing, unexpected or of another shape; a
            checkpoint for answering has no matching head.
    """
    weights, shapes, config = _open_checkpoint(file, config, name)
    with torch.device("meta"):
        network = MatchingNetwork(
            read_vision_size(shapes, config), read_text_size(shapes, get_bert_settings(config, shapes.where))
        )
    checkpoint_file.load_weights(network, weights, file, name, _is_unused, allow_missing)
    return network.eval()


def load_answering_network(
    file: Path, config: Mapping[str, Any] | None = None, name: str = "", allow_missing: Mapping[str, str] = {}
) -> AnsweringNetwork:
    """Return the answering network of a checkpoint file, `vqa.pth`; see `load_matching_network`."""
    weights, shapes, config = _open_checkpoint(file, config, name)
    bert = get_bert_settings(config, shapes.where)
    text = read_text_size(shapes, bert)
    settings = {key: value for key, value in bert.items() if key in DECODER_SETTINGS}
    decoder = replace(read_text_size(shapes, settings, "text_decoder.bert."), fusion=0, context=text.width)
    with torch.device("meta"):
        network = AnsweringNetwork(read_vision_size(shapes, config), text, decoder)
    checkpoint_file.load_weights(network, weights, file, name, _is_unused, allow_missing)
    return network.eval()


def _open_checkpoint(
    file: Path, config: Mapping[str, Any] | None, name: str
) -> tuple[dict[str, torch.Tensor], WeightShapes, Mapping[str, Any]]:
    """Return a file's weights without the extra level of pre-training checkpoints, their shapes, and the settings."""
    weights = {
        key.replace("text_encoder.bert.", "text_encoder.", 1): value
        for key, value in checkpoint_file.read_checkpoint(file).items()
    }
    shapes = WeightShapes(weights, checkpoint_file.format_subject(name, file))
    return weights, shapes, checkpoint_file.read_adjacent_settings(file) if config is None else config


def _is_unused(key: str) -> bool:
    return UNUSED_KEYS.fullmatch(key) is not None


NODES_PER_BATCH = 512
"""Maximum number of nodes that pass the decoder at once."""


@dataclass(frozen=True, eq=False)
class AnswerTrees:
    """A batch of answers as prefix trees with [CLS] as the root.

    Attributes:
        tokens: Token of each node, int64 of shape (nodes,).
        depths: Position of each node, int64 of shape (nodes,).
        bias: Added to attention scores, so that a node sees its ancestors and itself: of shape (nodes, nodes).
        parents: Node before each step, int64 of shape (steps,).
        steps: Token of each step, int64 of shape (steps,); [SEP] where an answer ends.
        transitions: Number of times that each answer takes each step (0 or 1): float64 of shape (steps, answers).
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
    answers: Sequence[Sequence[int]], start: int, end: int, device: str, max_nodes: int = NODES_PER_BATCH
) -> list[AnswerTrees]:
    """Return batches of answers as prefix trees.

    Args:
        answers: Token ids of each, without special ones.
        start: Id of [CLS].
        end: Id of [SEP].
        device: The device.
        max_nodes: Most nodes of a pack.
    """
    indices_of: dict[tuple[int, ...], list[int]] = {}
    for index, ids in enumerate(answers):
        indices_of.setdefault((start, *ids), []).append(index)
    return [
        _build_trees(trees.sequences, indices_of, end, device) for trees in batch_prefix_trees(indices_of, max_nodes)
    ]


def _build_trees(
    sequences: Sequence[tuple[int, ...]], indices_of: dict[tuple[int, ...], list[int]], end: int, device: str
) -> AnswerTrees:
    tree = build_prefix_trees(sequences)
    nodes = len(tree.tokens)
    inner = np.arange(1, nodes)  # the root is no step
    columns = [(row, index) for row, ids in enumerate(sequences) for index in indices_of[ids]]
    transitions = np.zeros((nodes - 1 + len(sequences), len(columns)))
    for column, (row, _) in enumerate(columns):
        transitions[np.asarray(tree.get_path(row)[1:], dtype=int) - 1, column] = 1
        transitions[nodes - 1 + row, column] = 1
    bias = np.where(tree.build_ancestor_mask(), 0.0, -np.inf).astype(np.float32)
    return AnswerTrees(
        torch.from_numpy(tree.tokens).to(device),
        torch.from_numpy(tree.depths).to(device),
        torch.from_numpy(bias).to(device),
        torch.from_numpy(np.concatenate([tree.parents[inner], tree.ends])).to(device),
        torch.from_numpy(np.concatenate([tree.tokens[inner], np.full(len(sequences), end)])).to(device),
        torch.from_numpy(transitions).to(device),
        torch.tensor([index for _, index in columns], device=device),
    )


class AnswerDecoder(nn.Module):
    """The text decoder; its parameters have the names of the release's `text_decoder`."""

    def __init__(self, size: TextSize) -> None:
        """Create the weights."""
        super().__init__()
        self.bert = TextEncoder(size)
        transform = {
            "dense": nn.Linear(size.width, size.width),
            "LayerNorm": nn.LayerNorm(size.width, eps=size.epsilon),
        }
        self.cls = nn.ModuleDict({"predictions": PredictionHead(transform, size)})

    def forward(self, question: torch.Tensor, answers: Sequence[AnswerTrees]) -> torch.Tensor:
        """Return the logarithm of the probability of each answer.

        Args:
            question: States of questions, of shape (batch, tokens, width).
            answers: Packs of the answers.
        Returns:
            float32 of shape (batch, answers).
        """
        count = sum(len(trees.indices) for trees in answers)
        log_probabilities = torch.zeros(len(question), count, device=question.device)
        for trees in answers:
            ids = trees.tokens.expand(len(question), -1)
            states = self.bert.embed(ids, positions=trees.depths)
            states = self.bert.fuse(states, question, trees.bias.to(states.dtype))
            steps = self.cls["predictions"](states, trees.parents, trees.steps)
            log_probabilities[:, trees.indices] = (steps @ trees.transitions).float()
        return log_probabilities


class PredictionHead(nn.Module):
    """The head that predicts the next token."""

    def __init__(self, transform: dict[str, nn.Module], size: TextSize) -> None:
        """Create the weights."""
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(size.vocabulary))
        self.transform = nn.ModuleDict(transform)
        self.decoder = nn.Linear(size.width, size.vocabulary)

    def forward(self, states: torch.Tensor, parents: torch.Tensor, steps: torch.Tensor) -> torch.Tensor:
        """Return the logarithm of the probability of some steps.

        Args:
            states: Of nodes, of shape (batch, nodes, width).
            parents: Node before each step, of shape (steps,).
            steps: Token of each step, of shape (steps,).
        Returns:
            float64 of shape (batch, steps).
        """
        states = self.transform["LayerNorm"](nn.functional.gelu(self.transform["dense"](states)))
        logits = self.decoder(states).float()
        log_probabilities: torch.Tensor = logits[:, parents, steps] - logits.logsumexp(dim=-1)[:, parents]
        return log_probabilities.double()
