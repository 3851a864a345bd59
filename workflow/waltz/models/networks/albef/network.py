"""ALBEF as a network that matches images with texts, and as one that answers, each from a checkpoint file."""

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
from waltz.models.text.prefix_trees import batch_prefix_trees, build_prefix_trees

pass

UNUSED_KEYS = re.compile(
    r"""[^.]*_m(\..*)?                              # momentum copies of other weights
    | image_queue | text_queue | idx_queue | queue_ptr  # what training compared with
    | temp | (vision|text)_proj\..*                 # the contrastive score
    | (.*\.)?position_ids                           # the numbers from 0 on
    | text_encoder\.cls\..*                         # prediction of masked words
    | text_decoder\..* | itm_head\..*               # heads that another network has
    """,
    re.VERBOSE,
)
"""Keys of a release's file that a network may leave."""
DECODER_SETTINGS = ("num_attention_heads", "hidden_act", "layer_norm_eps")
"""Settings of the text encoder that are the decoder's too; every layer of it looks at the question."""


class MatchingNetwork(nn.Module):
    """Image encoder, text and fusion layers, and the head that tells a match from a mismatch."""

    def __init__(self, vision: VisionSize, text: TextSize) -> None:
        """Lay out the weights."""
        super().__init__()
        self.side, self.longest = vision.side, text.positions
        self.visual_encoder = ImageEncoder(vision)
        self.text_encoder = TextEncoder(text)
        self.itm_head = nn.Linear(text.width, 2)

    def logits(self, states: torch.Tensor, image: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        """Logits of a mismatch and a match, read off at the first token.

        Args:
            states: Of texts after `text_encoder.read`, of shape (batch, tokens, width).
            image: Of images after `visual_encoder`, of shape (batch, 1 + patches, width).
            bias: Added to the scores of attention to the text; see `language.padding`.
        Returns:
            Of shape (batch, 2).
        """
        found: torch.Tensor = self.itm_head(self.text_encoder.fuse(states, image, bias, wanted=1)[:, 0])
        return found


class AnsweringNetwork(nn.Module):
    """Image encoder, text and fusion layers over a question, and the decoder of an answer."""

    def __init__(self, vision: VisionSize, text: TextSize, decoder: TextSize) -> None:
        """Lay out the weights."""
        super().__init__()
        self.side, self.longest = vision.side, text.positions
        self.visual_encoder = ImageEncoder(vision)
        self.text_encoder = TextEncoder(text)
        self.text_decoder = AnswerDecoder(decoder)


def load_matching_network(
    file: Path, config: Mapping[str, Any] | None = None, name: str = "", allow_missing: Mapping[str, str] = {}
) -> MatchingNetwork:
    """The matching network of a checkpoint file.

    Args:
        file: A file of the release (`mscoco.pth`, `ALBEF.pth`, ...), or one in its layout at another size.
        config: The release's settings; those beside the file unless given.
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
    """The answering network of a checkpoint file, `vqa.pth`; see `matcher`."""
    weights, shapes, config = _open_checkpoint(file, config, name)
    bert = get_bert_settings(config, shapes.where)
    text = read_text_size(shapes, bert)
    own = {key: value for key, value in bert.items() if key in DECODER_SETTINGS}
    decoder = replace(read_text_size(shapes, own, "text_decoder.bert."), fusion=0, context=text.width)
    with torch.device("meta"):
        network = AnsweringNetwork(read_vision_size(shapes, config), text, decoder)
    checkpoint_file.load_weights(network, weights, file, name, _is_unused, allow_missing)
    return network.eval()


def _open_checkpoint(
    file: Path, config: Mapping[str, Any] | None, name: str
) -> tuple[dict[str, torch.Tensor], WeightShapes, Mapping[str, Any]]:
    """Weights of a file, without the level that pre-training puts around the text encoder's; shapes; settings."""
    weights = {
        key.replace("text_encoder.bert.", "text_encoder.", 1): value
        for key, value in checkpoint_file.read_checkpoint(file).items()
    }
    shapes = WeightShapes(weights, checkpoint_file.format_subject(name, file))
    return weights, shapes, checkpoint_file.read_adjacent_settings(file) if config is None else config


def _is_unused(key: str) -> bool:
    return UNUSED_KEYS.fullmatch(key) is not None


NODES_PER_BATCH = 512
"""Most nodes of the prefix trees that pass the decoder together."""


@dataclass(frozen=True, eq=False)
class AnswerTrees:
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


def build_answer_trees(
    answers: Sequence[Sequence[int]], start: int, end: int, device: str, nodes: int = NODES_PER_BATCH
) -> list[AnswerTrees]:
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
    return [_build_trees(many.sequences, places, end, device) for many in batch_prefix_trees(places, nodes)]


def _build_trees(
    sequences: Sequence[tuple[int, ...]], places: dict[tuple[int, ...], list[int]], end: int, device: str
) -> AnswerTrees:
    tree = build_prefix_trees(sequences)
    nodes = len(tree.tokens)
    inner = np.arange(1, nodes)  # the root is no step
    columns = [(number, place) for number, ids in enumerate(sequences) for place in places[ids]]
    taken = np.zeros((nodes - 1 + len(sequences), len(columns)))
    for column, (number, _) in enumerate(columns):
        taken[np.asarray(tree.get_path(number)[1:], dtype=int) - 1, column] = 1
        taken[nodes - 1 + number, column] = 1
    bias = np.where(tree.build_ancestor_mask(), 0.0, -np.inf).astype(np.float32)
    return AnswerTrees(
        torch.from_numpy(tree.tokens).to(device),
        torch.from_numpy(tree.depths).to(device),
        torch.from_numpy(bias).to(device),
        torch.from_numpy(np.concatenate([tree.parents[inner], tree.ends])).to(device),
        torch.from_numpy(np.concatenate([tree.tokens[inner], np.full(len(sequences), end)])).to(device),
        torch.from_numpy(taken).to(device),
        torch.tensor([place for _, place in columns], device=device),
    )


class AnswerDecoder(nn.Module):
    """The text decoder; its parameters have the names of the release's `text_decoder`."""

    def __init__(self, size: TextSize) -> None:
        """Lay out the weights."""
        super().__init__()
        self.bert = TextEncoder(size)
        transform = {
            "dense": nn.Linear(size.width, size.width),
            "LayerNorm": nn.LayerNorm(size.width, eps=size.epsilon),
        }
        self.cls = nn.ModuleDict({"predictions": PredictionHead(transform, size)})

    def forward(self, question: torch.Tensor, answers: Sequence[AnswerTrees]) -> torch.Tensor:
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


class PredictionHead(nn.Module):
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
