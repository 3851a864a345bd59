"""ALBEF (Li et al., NeurIPS 2021) in plain PyTorch, for the checkpoint files of its authors at any size.

Text layers before `fusion` depend on the text alone, so a text passes them once, whatever images it is paired with.
Answers with a common prefix pass the decoder together, as prefix trees.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from waltz.core.errors import UserError
from waltz.models import checkpoint_file
from waltz.models.text.causal import batch_prefix_trees, build_prefix_trees

HEAD_WIDTH = 64
"""Width of an attention head of all released models."""
EPSILON = 1e-12
"""Epsilon of the text encoder's layer norms."""


@dataclass(frozen=True)
class VisionSize:
    """Size of the image encoder.

    Attributes:
        width: Of a patch's state.
        depth: Number of blocks.
        heads: Attention heads of a block.
        hidden: Width inside a block's perceptron.
        patch: Pixels of a patch's side.
        grid: Patches a side that the file has positions for.
        side: Pixels of an image's side.
    """

    width: int
    depth: int
    heads: int
    hidden: int
    patch: int
    grid: int
    side: int


@dataclass(frozen=True)
class TextSize:
    """Size of a text encoder or decoder.

    Attributes:
        width: Of a token's state.
        depth: Number of layers.
        heads: Attention heads of a layer.
        hidden: Width inside a layer's perceptron.
        fusion: First layer that attends to the context; earlier ones read only the text.
        context: Width of the context's states.
        vocabulary: Number of token ids.
        positions: Longest text in tokens.
        segments: Number of segment types.
        epsilon: Of the layer norms.
    """

    width: int
    depth: int
    heads: int
    hidden: int
    fusion: int
    context: int
    vocabulary: int
    positions: int
    segments: int
    epsilon: float = EPSILON


class WeightShapes:
    """Shapes of a file's weights by key."""

    def __init__(self, weights: Mapping[str, torch.Tensor], where: str) -> None:
        """Store the weights.

        Args:
            weights: Weights by key.
            where: Start of error messages: the file, and the model's name in a study.
        """
        self.weights, self.where = weights, where

    def get_shape(self, key: str, axes: int) -> tuple[int, ...]:
        """Return the shape of a weight.

        Raises:
            UserError: It is missing, or has another number of axes.
        """
        if key not in self.weights:
            raise UserError(f"{self.where}: lacks {key}; name a checkpoint file of ALBEF")
        shape = tuple(self.weights[key].shape)
        if len(shape) != axes:
            raise UserError(f"{self.where}: {key} has {len(shape)} axes, {axes} are expected; name an ALBEF checkpoint")
        return shape

    def list_layers(self, pattern: str) -> list[int]:
        """Return the numbers of the layers that have keys: the group of a pattern at the start of a key."""
        matches = (re.match(pattern, key) for key in self.weights)
        return sorted({int(match[1]) for match in matches if match})


def read_vision_size(shapes: WeightShapes, config: Mapping[str, Any]) -> VisionSize:
    """Return the size of the image encoder from the settings, else from the shapes.

    Args:
        shapes: Of the file.
        config: Settings of the release (`image_res`, `vision_width`, ...), may be empty.
    Raises:
        UserError: The shapes are not those of an ALBEF, or do not determine the number of heads.
    """
    state_width = shapes.get_shape("visual_encoder.cls_token", 3)[2]
    patch = shapes.get_shape("visual_encoder.patch_embed.proj.weight", 4)[3]
    positions = shapes.get_shape("visual_encoder.pos_embed", 3)[1]
    grid = math.isqrt(max(positions - 1, 0))
    if grid < 1 or grid**2 + 1 != positions:
        raise UserError(f"{shapes.where}: visual_encoder.pos_embed has {positions} positions, no square and one more")
    blocks = shapes.list_layers(r"visual_encoder\.blocks\.(\d+)\.")
    width, patch = (
        _read_number(config, "vision_width", state_width, shapes),
        _read_number(config, "patch_size", patch, shapes),
    )
    side = _read_number(config, "image_res", grid * patch, shapes)
    if side % patch:
        raise UserError(f"{shapes.where}: image_res {side} is no multiple of patch_size {patch}")
    return VisionSize(
        width=width,
        depth=_read_number(config, "vision_depth", 1 + max(blocks, default=-1), shapes),
        heads=_read_heads(config, "vision_heads", width, shapes),
        hidden=shapes.get_shape("visual_encoder.blocks.0.mlp.fc1.weight", 2)[0],
        patch=patch,
        grid=grid,
        side=side,
    )


def read_text_size(shapes: WeightShapes, config: Mapping[str, Any], prefix: str = "text_encoder.") -> TextSize:
    """Return the size of a text encoder or decoder from the settings of its BERT, else from the shapes.

    Args:
        shapes: Of the file.
        config: The release's `bert_config` (`num_hidden_layers`, `num_attention_heads`, `fusion_layer`, ...), may be
            empty.
        prefix: Prefix of its keys.
    Raises:
        UserError: As `vision_size`; or no layer attends to a context, or the activation is not GELU.
    """
    if config.get("hidden_act", "gelu") != "gelu":
        raise UserError(f"{shapes.where}: bert_config.hidden_act: {config['hidden_act']!r}; ALBEF has gelu")
    words = shapes.get_shape(f"{prefix}embeddings.word_embeddings.weight", 2)
    layer_pattern = rf"{re.escape(prefix)}encoder\.layer\.(\d+)\."
    context_layers = shapes.list_layers(rf"{layer_pattern}crossattention\.")
    if not context_layers:
        raise UserError(f"{shapes.where}: lacks {prefix}encoder.layer.*.crossattention.*; no layer attends to an image")
    width = _read_number(config, "hidden_size", words[1], shapes)
    keys = shapes.get_shape(f"{prefix}encoder.layer.{context_layers[0]}.crossattention.self.key.weight", 2)
    return TextSize(
        width=width,
        depth=_read_number(config, "num_hidden_layers", 1 + max(shapes.list_layers(layer_pattern)), shapes),
        heads=_read_heads(config, "num_attention_heads", width, shapes),
        hidden=_read_number(
            config,
            "intermediate_size",
            shapes.get_shape(f"{prefix}encoder.layer.0.intermediate.dense.weight", 2)[0],
            shapes,
        ),
        fusion=_read_number(config, "fusion_layer", context_layers[0], shapes),
        context=_read_number(config, "encoder_width", keys[1], shapes),
        vocabulary=words[0],
        positions=shapes.get_shape(f"{prefix}embeddings.position_embeddings.weight", 2)[0],
        segments=shapes.get_shape(f"{prefix}embeddings.token_type_embeddings.weight", 2)[0],
        epsilon=float(config.get("layer_norm_eps", EPSILON)),
    )


def get_bert_settings(config: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """Return the settings of the text encoder, `bert_config`; empty if there are none.

    Raises:
        UserError: They are no mapping, as where the release names a file.
    """
    settings = config.get("bert_config", {})
    if not isinstance(settings, Mapping):
        raise UserError(f"{where}: bert_config: {settings!r} is no mapping; write the file's content in its place")
    return settings


def _read_heads(config: Mapping[str, Any], key: str, width: int, shapes: WeightShapes) -> int:
    """Return the number of attention heads: the settings', or the one for heads of the released width."""
    if key not in config and width % HEAD_WIDTH:
        raise UserError(f"{shapes.where}: width {width} is no multiple of {HEAD_WIDTH}; say {key} in its JSON config")
    heads = _read_number(config, key, width // HEAD_WIDTH, shapes)
    if width % heads:
        raise UserError(f"{shapes.where}: {key} {heads} does not divide the width {width}")
    return heads


def _read_number(config: Mapping[str, Any], key: str, default: int, shapes: WeightShapes) -> int:
    value = config.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < (0 if key == "fusion_layer" else 1):
        raise UserError(f"{shapes.where}: {key}: {value!r} is no positive whole number")
    return value


class TextAttention(nn.Module):
    """Attention of states to a context, added to the states and normalised."""

    def __init__(self, size: TextSize, context: int) -> None:
        """Create the weights, for a context of the given width."""
        super().__init__()
        self.heads = size.heads
        self.self = nn.ModuleDict(
            {
                "query": nn.Linear(size.width, size.width),
                "key": nn.Linear(context, size.width),
                "value": nn.Linear(context, size.width),
            }
        )
        self.output = _build_residual(size.width, size)

    def forward(self, states: torch.Tensor, context: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        """Return the states after attention to the context.

        Args:
            states: Of shape (batch, tokens, width).
            context: Of shape (batch, positions, its width).
            bias: Added to the scores, to be broadcast to (batch, heads, tokens, positions).
        Returns:
            Of shape (batch, tokens, width).
        """
        queries = self._by_head(self.self["query"](states))
        keys, values = (self._by_head(self.self[name](context)) for name in ("key", "value"))
        mixed = nn.functional.scaled_dot_product_attention(queries, keys, values, attn_mask=bias)
        mixed = mixed.transpose(1, 2).reshape(states.shape)
        normed: torch.Tensor = self.output["LayerNorm"](states + self.output["dense"](mixed))
        return normed

    def _by_head(self, states: torch.Tensor) -> torch.Tensor:
        """Return states as (batch, heads, positions, width of a head)."""
        batch, positions, width = states.shape
        return states.view(batch, positions, self.heads, width // self.heads).transpose(1, 2)


class TextLayer(nn.Module):
    """Attention to the text, to the context if the layer attends to one, and a perceptron."""

    def __init__(self, size: TextSize, has_context: bool) -> None:
        """Create the weights."""
        super().__init__()
        self.attention = TextAttention(size, size.width)
        if has_context:
            self.crossattention = TextAttention(size, size.context)
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(size.width, size.hidden)})
        self.output = _build_residual(size.hidden, size)

    def forward(
        self,
        queries: torch.Tensor,
        states: torch.Tensor,
        context: torch.Tensor | None = None,
        bias: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return states of some tokens after the layer.

        Args:
            queries: The tokens wanted, of shape (batch, wanted, width).
            states: All tokens, of shape (batch, tokens, width).
            context: The context, of shape (batch, positions, its width).
            bias: Added to the scores of attention to the text.
        Returns:
            Of shape (batch, count, width).
        """
        attended: torch.Tensor = self.attention(queries, states, bias)
        if context is not None:
            attended = self.crossattention(attended, context)
        inner = nn.functional.gelu(self.intermediate["dense"](attended))
        attended = self.output["LayerNorm"](attended + self.output["dense"](inner))
        return attended


class TextLayers(nn.Module):
    """Layers under the name that they have in the release's files."""

    def __init__(self, layers: Iterable[TextLayer]) -> None:
        """Store the layers."""
        super().__init__()
        self.layer = nn.ModuleList(layers)


class TextEncoder(nn.Module):
    """A text encoder, or the body of a decoder; its parameters have the names of the release's `text_encoder`."""

    def __init__(self, size: TextSize) -> None:
        """Create the weights."""
        super().__init__()
        self.fusion, self.vocabulary, self.segments = size.fusion, size.vocabulary, size.segments
        self.embeddings = nn.ModuleDict(
            {
                "word_embeddings": nn.Embedding(size.vocabulary, size.width),
                "position_embeddings": nn.Embedding(size.positions, size.width),
                "token_type_embeddings": nn.Embedding(size.segments, size.width),
                "LayerNorm": nn.LayerNorm(size.width, eps=size.epsilon),
            }
        )
        self.encoder = TextLayers(TextLayer(size, number >= size.fusion) for number in range(size.depth))

    def embed(
        self, ids: torch.Tensor, positions: torch.Tensor | None = None, segments: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return states of tokens before the first layer.

        Args:
            ids: Of shape (batch, tokens).
            positions: Of shape (tokens,); counted from 0 unless given.
            segments: Of shape (batch, tokens); all 0 unless given.
        Returns:
            Of shape (batch, tokens, width).
        """
        tables = self.embeddings
        positions = torch.arange(ids.shape[1], device=ids.device) if positions is None else positions
        segments = torch.zeros_like(ids) if segments is None else segments
        states = tables["word_embeddings"](ids) + tables["token_type_embeddings"](segments)
        normed: torch.Tensor = tables["LayerNorm"](states + tables["position_embeddings"](positions))
        return normed

    def encode_text(
        self, ids: torch.Tensor, bias: torch.Tensor | None = None, segments: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return states of tokens after the layers that read only the text, of shape (batch, tokens, width)."""
        states = self.embed(ids, segments=segments)
        for layer in self.encoder.layer[: self.fusion]:
            states = layer(states, states, bias=bias)
        return states

    def fuse(
        self, states: torch.Tensor, context: torch.Tensor, bias: torch.Tensor | None = None, count: int | None = None
    ) -> torch.Tensor:
        """Return states of tokens after the layers that attend to a context.

        Args:
            states: Of shape (batch, tokens, width), after the layers before.
            context: Of shape (batch, positions, its width).
            bias: Added to the scores of attention to the text.
            count: Number of tokens, from the first, to return; all by default.
        Returns:
            Of shape (batch, count, width).
        """
        layers = self.encoder.layer[self.fusion :]
        for number, layer in enumerate(layers, start=1):
            # no later layer reads the states of the other tokens
            queries = states[:, :count] if number == len(layers) else states
            states = layer(queries, states, context, bias)
        return states


def _build_residual(width: int, size: TextSize) -> nn.ModuleDict:
    """Return a projection whose output is added to its layer's input, and the norm of the sum."""
    return nn.ModuleDict(
        {"dense": nn.Linear(width, size.width), "LayerNorm": nn.LayerNorm(size.width, eps=size.epsilon)}
    )


IMAGE_EPSILON = 1e-6
"""Epsilon of the image encoder's layer norms; the text encoder has another."""


class ImageAttention(nn.Module):
    """Self-attention with one matrix for queries, keys and values."""

    def __init__(self, width: int, heads: int) -> None:
        """Create the weights."""
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Return states of the same shape (batch, positions, width)."""
        batch, positions, width = states.shape
        parts = self.qkv(states).view(batch, positions, 3, self.heads, width // self.heads)
        queries, keys, values = parts.permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(queries, keys, values)
        outputs: torch.Tensor = self.proj(mixed.transpose(1, 2).reshape(batch, positions, width))
        return outputs


class ImageBlock(nn.Module):
    """Self-attention and a perceptron, each added to its input."""

    def __init__(self, size: VisionSize) -> None:
        """Create the weights."""
        super().__init__()
        self.norm1 = nn.LayerNorm(size.width, eps=IMAGE_EPSILON)
        self.attn = ImageAttention(size.width, size.heads)
        self.norm2 = nn.LayerNorm(size.width, eps=IMAGE_EPSILON)
        self.mlp = nn.ModuleDict({"fc1": nn.Linear(size.width, size.hidden), "fc2": nn.Linear(size.hidden, size.width)})

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Return states of the same shape (batch, positions, width)."""
        states = states + self.attn(self.norm1(states))
        inner = nn.functional.gelu(self.mlp["fc1"](self.norm2(states)))
        outputs: torch.Tensor = states + self.mlp["fc2"](inner)
        return outputs


class ImageEncoder(nn.Module):
    """The image encoder; its parameters have the names of the release's `visual_encoder`."""

    def __init__(self, size: VisionSize) -> None:
        """Create the weights."""
        super().__init__()
        self.grid, self.patch = size.grid, size.patch
        self.cls_token = nn.Parameter(torch.zeros(1, 1, size.width))
        self.pos_embed = nn.Parameter(torch.zeros(1, size.grid**2 + 1, size.width))
        projection = nn.Conv2d(3, size.width, kernel_size=size.patch, stride=size.patch)
        self.patch_embed = nn.ModuleDict({"proj": projection})
        self.blocks = nn.ModuleList(ImageBlock(size) for _ in range(size.depth))
        self.norm = nn.LayerNorm(size.width, eps=IMAGE_EPSILON)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the state of the [CLS] token, then those of the patches, row by row.

        Args:
            images: Prepared images, of shape (batch, 3, side, side), the side a multiple of the patch's.
        Returns:
            Of shape (batch, 1 + patches, width).
        """
        patches = self.patch_embed["proj"](images)
        grid = patches.shape[-1]
        cls = self.cls_token.expand(len(images), -1, -1)
        states = torch.cat([cls, patches.flatten(2).transpose(1, 2)], dim=1)
        states = states + resize_positions(self.pos_embed, self.grid, grid)
        for block in self.blocks:
            states = block(states)
        normed: torch.Tensor = self.norm(states)
        return normed


def resize_positions(positions: torch.Tensor, old: int, new: int) -> torch.Tensor:
    """Return position vectors for another grid: that of [CLS] is kept, the others are interpolated bicubically.

    Args:
        positions: Of shape (1, 1 + old ** 2, width).
        old: Patches per side of the given vectors.
        new: Patches per side of the result.
    Returns:
        Of shape (1, 1 + new ** 2, width).
    """
    if old == new:
        return positions
    grid_vectors: Any = positions[:, 1:].float().reshape(1, old, old, -1).permute(0, 3, 1, 2)
    grid_vectors = nn.functional.interpolate(grid_vectors, size=(new, new), mode="bicubic", align_corners=False)
    return torch.cat([positions[:, :1], grid_vectors.flatten(2).transpose(1, 2).to(positions.dtype)], dim=1)


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
            bias: Added to the scores of attention to the text.
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
