"""ALBEF (Li et al., NeurIPS 2021) in plain PyTorch, for the checkpoint files of its authors at any
size.

Text layers before `fusion_layer` depend on the text alone, so a text passes them once, whatever
images it is paired with.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import BertConfig
from transformers.models.bert.modeling_bert import (
    BertAttention,
    BertIntermediate,
    BertLMPredictionHead,
    BertOutput,
)

from waltz.core.errors import UserError
from waltz.models import checkpoint_file
from waltz.models.checkpoint_file import Settings, get_shape, list_layers
from waltz.models.networks.answer_trees import AnswerTrees, rank_answers

HEAD_WIDTH = 64
"""Width of an attention head of all released models."""
TEXT_EPSILON, IMAGE_EPSILON = 1e-12, 1e-6
"""Epsilon of the layer norms of the text encoder, unless its settings have another, and of the
image encoder.
"""


class TextLayer(nn.Module):
    """BERT's attention to the text, then to the context if the layer attends to one, then a
    perceptron.

    The context is the image for ALBEF's fusion layers, and the question for the answer decoder.
    """

    def __init__(self, config: BertConfig, has_context: bool) -> None:
        """Create the weights."""
        super().__init__()
        self.attention = BertAttention(config, is_cross_attention=True)
        if has_context:
            self.crossattention = BertAttention(config, is_cross_attention=True)
            # The context may have another width than the text.
            self.crossattention.self.key = nn.Linear(
                config.encoder_width, config.hidden_size
            )
            self.crossattention.self.value = nn.Linear(
                config.encoder_width, config.hidden_size
            )
        self.intermediate = BertIntermediate(config)
        self.output = BertOutput(config)

    def forward(
        self,
        queries: torch.Tensor,
        states: torch.Tensor,
        context: torch.Tensor | None = None,
        bias: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return states of some tokens after the layer.

        Args:
            queries: States of these tokens, of shape (batch, count, width).
            states: States of all tokens, of shape (batch, tokens, width).
            context: States of the context, of shape (batch, positions, context width).
            bias: Number that is added to the scores of attention to the text.
        Returns:
            Shape (batch, count, width).
        """
        # BERT's self-attention, called as cross-attention so that some tokens alone are queries.
        attended = self.attention(
            queries, encoder_hidden_states=states, encoder_attention_mask=bias
        )[0]
        if context is not None:
            attended = self.crossattention(attended, encoder_hidden_states=context)[0]
        outputs: torch.Tensor = self.output(self.intermediate(attended), attended)
        return outputs


class TextEncoder(nn.Module):
    """A text encoder, or the body of a decoder; its parameters have the names of the release's
    `text_encoder`.
    """

    def __init__(self, config: BertConfig) -> None:
        """Create the weights."""
        super().__init__()
        self.config = config
        self.embeddings = nn.ModuleDict(
            {
                "word_embeddings": nn.Embedding(config.vocab_size, config.hidden_size),
                "position_embeddings": nn.Embedding(
                    config.max_position_embeddings, config.hidden_size
                ),
                "token_type_embeddings": nn.Embedding(
                    config.type_vocab_size, config.hidden_size
                ),
                "LayerNorm": nn.LayerNorm(
                    config.hidden_size, eps=config.layer_norm_eps
                ),
            }
        )
        layers = (
            TextLayer(config, number >= config.fusion_layer)
            for number in range(config.num_hidden_layers)
        )
        self.encoder: Any = nn.ModuleDict({"layer": nn.ModuleList(layers)})

    def embed(
        self,
        ids: torch.Tensor,
        positions: torch.Tensor | None = None,
        segments: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return states of tokens before the first layer.

        Args:
            ids: Token ids, of shape (batch, tokens).
            positions: Position of each token, of shape (tokens,); counted from 0 by default.
            segments: Segment of each token, of shape (batch, tokens); all 0 by default.
        Returns:
            Shape (batch, tokens, width).
        """
        tables = self.embeddings
        if positions is None:
            positions = torch.arange(ids.shape[1], device=ids.device)
        if segments is None:
            segments = torch.zeros_like(ids)
        # BERT: the sum of the three embeddings, then a layer norm.
        states = tables["word_embeddings"](ids) + tables["token_type_embeddings"](
            segments
        )
        normed: torch.Tensor = tables["LayerNorm"](
            states + tables["position_embeddings"](positions)
        )
        return normed

    def encode_text(
        self,
        ids: torch.Tensor,
        bias: torch.Tensor | None = None,
        segments: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return states of tokens after the layers that read only the text, of shape (batch,
        tokens, width).
        """
        states = self.embed(ids, segments=segments)
        for layer in self.encoder["layer"][: self.config.fusion_layer]:
            states = layer(states, states, bias=bias)
        return states

    def fuse(
        self,
        states: torch.Tensor,
        context: torch.Tensor,
        bias: torch.Tensor | None = None,
        count: int | None = None,
    ) -> torch.Tensor:
        """Return states of tokens after the layers that attend to a context.

        Args:
            states: States after the earlier layers, of shape (batch, tokens, width).
            context: States of the context, of shape (batch, positions, context width).
            bias: Number that is added to the scores of attention to the text.
            count: Number of tokens, from the first, to return; all by default.
        Returns:
            Shape (batch, count, width).
        """
        layers = self.encoder["layer"][self.config.fusion_layer :]
        for number, layer in enumerate(layers, start=1):
            queries = states
            # No later layer reads the states of the remaining tokens.
            if number == len(layers):
                queries = states[:, :count]
            states = layer(queries, states, context, bias)
        return states


@dataclass(frozen=True)
class VisionSize:
    """Size of the image encoder.

    Attributes:
        width: Width of a patch's state.
        depth: Number of blocks.
        heads: Attention heads of a block.
        hidden: Width inside a block's perceptron.
        patch: Pixels of a patch in each direction.
        grid: Patches in each direction that the file has positions for.
        image_size: Pixels of an image in each direction.
    """

    width: int
    depth: int
    heads: int
    hidden: int
    patch: int
    grid: int
    image_size: int


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
        parts = self.qkv(states).view(
            batch, positions, 3, self.heads, width // self.heads
        )
        # Each (batch, heads, positions, head width)
        queries, keys, values = parts.permute(2, 0, 3, 1, 4)
        # Vaswani et al., equation 1: softmax(Q Kᵀ / √d) V, for each head.
        mixed = nn.functional.scaled_dot_product_attention(queries, keys, values)
        outputs: torch.Tensor = self.proj(
            mixed.transpose(1, 2).reshape(batch, positions, width)
        )
        return outputs


class ImageBlock(nn.Module):
    """Self-attention and a perceptron, each added to its input."""

    def __init__(self, size: VisionSize) -> None:
        """Create the weights."""
        super().__init__()
        self.norm1 = nn.LayerNorm(size.width, eps=IMAGE_EPSILON)
        self.attn = ImageAttention(size.width, size.heads)
        self.norm2 = nn.LayerNorm(size.width, eps=IMAGE_EPSILON)
        self.mlp = nn.ModuleDict(
            {
                "fc1": nn.Linear(size.width, size.hidden),
                "fc2": nn.Linear(size.hidden, size.width),
            }
        )

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Return states of the same shape (batch, positions, width)."""
        # Pre-norm (Dosovitskiy et al., equations 2 and 3): x + attention(norm(x)), then x +
        # perceptron(norm(x)).
        states = states + self.attn(self.norm1(states))
        inner = nn.functional.gelu(self.mlp["fc1"](self.norm2(states)))
        outputs: torch.Tensor = states + self.mlp["fc2"](inner)
        return outputs


class ImageEncoder(nn.Module):
    """A vision transformer with pre-norm; its parameters have the names of the release's
    `visual_encoder`.

    Source:
        Dosovitskiy et al., ICLR 2021.
    """

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
        """Return the state of the [CLS] token, then the states of the patches, row by row.

        Args:
            images: Prepared square images, of shape (batch, 3, height, width); a patch's size
                divides both.
        Returns:
            Shape (batch, 1 + patches, width).
        """
        patches = self.patch_embed["proj"](images)  # (batch, width, rows, columns)
        cls = self.cls_token.expand(len(images), -1, -1)
        # (batch, 1 + patches, width), the patches row by row.
        states = torch.cat([cls, patches.flatten(2).transpose(1, 2)], dim=1)
        # An image may have another size than the images of the training.
        states = states + resize_positions(self.pos_embed, self.grid, patches.shape[-1])
        for block in self.blocks:
            states = block(states)
        normed: torch.Tensor = self.norm(states)
        return normed


def resize_positions(positions: torch.Tensor, old: int, new: int) -> torch.Tensor:
    """Return position vectors for another grid: the vector of [CLS] stays, the others are
    interpolated bicubically.

    Args:
        positions: Vectors of [CLS] and of the patches, of shape (1, 1 + old ** 2, width).
        old: Patches in each direction of `positions`.
        new: Patches in each direction of the result.
    Returns:
        Shape (1, 1 + new ** 2, width).
    """
    if old == new:
        return positions
    # (1, width, old, old)
    grid_vectors: Any = (
        positions[:, 1:].float().reshape(1, old, old, -1).permute(0, 3, 1, 2)
    )
    grid_vectors = nn.functional.interpolate(
        grid_vectors, size=(new, new), mode="bicubic", align_corners=False
    )
    # (1, new ** 2, width)
    patch_vectors = grid_vectors.flatten(2).transpose(1, 2).to(positions.dtype)
    return torch.cat([positions[:, :1], patch_vectors], dim=1)


class AlbefNetwork(nn.Module):
    """Image encoder, text and fusion layers, which all networks of the release have.

    Attributes:
        image_size: Pixels of an image in each direction.
        longest: Maximum length of a text in tokens.
    """

    def __init__(self, vision: VisionSize, text: BertConfig) -> None:
        """Create the weights."""
        super().__init__()
        self.image_size, self.longest = vision.image_size, text.max_position_embeddings
        self.visual_encoder = ImageEncoder(vision)
        self.text_encoder = TextEncoder(text)


class MatchingNetwork(AlbefNetwork):
    """The network with the matching head."""

    def __init__(self, vision: VisionSize, text: BertConfig) -> None:
        """Create the weights."""
        super().__init__(vision, text)
        self.itm_head = nn.Linear(text.hidden_size, 2)

    def compute_logits(
        self,
        states: torch.Tensor,
        image: torch.Tensor,
        bias: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return logits of a mismatch and a match, read at the first token.

        Args:
            states: States of texts after `text_encoder.encode_text`, of shape (batch, tokens,
                width).
            image: States of images after `visual_encoder`, of shape (batch, 1 + patches, width).
            bias: Number that is added to the scores of attention to the text.
        Returns:
            Shape (batch, 2).
        """
        joint = self.text_encoder.fuse(states, image, bias, count=1)
        logits: torch.Tensor = self.itm_head(joint[:, 0])
        return logits


class AnsweringNetwork(AlbefNetwork):
    """The network with the answer decoder, whose texts are questions."""

    def __init__(
        self, vision: VisionSize, text: BertConfig, decoder: BertConfig
    ) -> None:
        """Create the weights."""
        super().__init__(vision, text)
        self.text_decoder = AnswerDecoder(decoder)


class AnswerDecoder(nn.Module):
    """The text decoder; its parameters have the names of the release's `text_decoder`.

    An answer is decoded from [CLS] and ended by [SEP]; its logit is the logarithm of its
    probability.
    """

    def __init__(self, config: BertConfig) -> None:
        """Create the weights."""
        super().__init__()
        self.bert = TextEncoder(config)
        self.cls = nn.ModuleDict({"predictions": BertLMPredictionHead(config)})

    def forward(
        self, question: torch.Tensor, answers: Sequence[AnswerTrees]
    ) -> torch.Tensor:
        """Return the logarithm of the probability of each answer.

        Args:
            question: States of questions, of shape (batch, tokens, width).
            answers: Batches of the answers.
        Returns:
            float32 of shape (batch, answers).
        """
        return rank_answers(partial(self._compute_logits, question), question, answers)

    def _compute_logits(
        self, question: torch.Tensor, trees: AnswerTrees
    ) -> torch.Tensor:
        """Return logits of the token after each node, of shape (batch, nodes, vocabulary)."""
        ids = trees.tokens.expand(len(question), -1)
        states = self.bert.embed(ids, positions=trees.depths)
        states = self.bert.fuse(states, question, trees.bias.to(states.dtype))
        logits: torch.Tensor = self.cls["predictions"](states)
        return logits


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
"""Settings of the text encoder that the decoder shares; each of its layers attends to the question.
"""


def load_matching_network(
    file: Path,
    config: Settings | None = None,
    name: str = "",
    allow_missing: Mapping[str, str] = {},
) -> MatchingNetwork:
    """Return the matching network of a checkpoint file.

    Args:
        file: A file of the release (`mscoco.pth`, `ALBEF.pth`, ...), or a file in its layout at
            another size.
        config: The release's settings; by default the settings next to the file.
        name: Name of the model in the study, for errors.
        allow_missing: See `checkpoint_file.load_weights`.
    Raises:
        UserError: The file or settings cannot be read, or a weight is missing, unexpected or of
            another shape; a checkpoint for answering has no matching head.
    """
    weights, config, label = _open_checkpoint(file, config, name)
    vision = _read_vision_size(weights, config, label)
    text = _read_text_config(weights, _get_bert_settings(config, label), label)
    # Without values, which the checkpoint brings.
    with torch.device("meta"):
        network = MatchingNetwork(vision, text)
    checkpoint_file.load_weights(
        network, weights, file, name, _is_unused, allow_missing
    )
    return network.eval()


def load_answering_network(
    file: Path,
    config: Settings | None = None,
    name: str = "",
    allow_missing: Mapping[str, str] = {},
) -> AnsweringNetwork:
    """Return the answering network of a checkpoint file, `vqa.pth`; see `load_matching_network`."""
    weights, config, label = _open_checkpoint(file, config, name)
    vision = _read_vision_size(weights, config, label)
    bert = _get_bert_settings(config, label)
    text = _read_text_config(weights, bert, label)
    # The decoder has its own layers, all of which attend to the question.
    settings = {key: value for key, value in bert.items() if key in DECODER_SETTINGS}
    settings |= {"fusion_layer": 0, "encoder_width": text.hidden_size}
    decoder = _read_text_config(weights, settings, label, "text_decoder.bert.")
    with torch.device("meta"):
        network = AnsweringNetwork(vision, text, decoder)
    checkpoint_file.load_weights(
        network, weights, file, name, _is_unused, allow_missing
    )
    return network.eval()


def _open_checkpoint(
    file: Path, config: Settings | None, name: str
) -> tuple[dict[str, torch.Tensor], Settings, str]:
    """Return a file's weights without the extra level of pre-training, its settings, and the start
    of errors.
    """
    checkpoint = checkpoint_file.read_checkpoint(file)
    weights = {
        key.replace("text_encoder.bert.", "text_encoder.", 1): value
        for key, value in checkpoint.items()
    }
    if config is None:
        config = checkpoint_file.read_adjacent_settings(file)
    return weights, config, checkpoint_file.format_subject(name, file)


def _is_unused(key: str) -> bool:
    return UNUSED_KEYS.fullmatch(key) is not None


def _get_bert_settings(config: Settings, label: str) -> Settings:
    """Return the settings of the text encoder; the release names a file instead of them."""
    settings = config.get("bert_config", {})
    if not isinstance(settings, Mapping):
        raise UserError(
            f"{label}: bert_config: {settings!r} is not a mapping; write the content of that file instead"
        )
    return settings


def _read_vision_size(
    weights: Mapping[str, torch.Tensor], config: Settings, label: str
) -> VisionSize:
    """Return the size of the image encoder from the settings (`image_res`, `vision_width`, ...),
    else from shapes.
    """
    state_width = get_shape(weights, "visual_encoder.cls_token", 3, label)[2]
    patch = get_shape(weights, "visual_encoder.patch_embed.proj.weight", 4, label)[3]
    positions = get_shape(weights, "visual_encoder.pos_embed", 3, label)[1]
    # One position is that of [CLS].
    grid = math.isqrt(positions - 1)
    if grid < 1 or grid**2 + 1 != positions:
        raise UserError(
            f"{label}: visual_encoder.pos_embed has {positions} positions, no square and one more; name a checkpoint of"
            " ALBEF"
        )
    blocks = list_layers(weights, "visual_encoder.blocks.")
    width = _read_number(config, "vision_width", state_width, label)
    patch = _read_number(config, "patch_size", patch, label)
    image_size = _read_number(config, "image_res", grid * patch, label)
    if image_size % patch:
        raise UserError(
            f"{label}: image_res {image_size} is not a multiple of patch_size {patch}; correct its JSON config"
        )
    return VisionSize(
        width=width,
        depth=_read_number(config, "vision_depth", 1 + max(blocks, default=-1), label),
        heads=_read_heads(config, "vision_heads", width, label),
        hidden=get_shape(weights, "visual_encoder.blocks.0.mlp.fc1.weight", 2, label)[
            0
        ],
        patch=patch,
        grid=grid,
        image_size=image_size,
    )


def _read_text_config(
    weights: Mapping[str, torch.Tensor],
    settings: Settings,
    label: str,
    prefix: str = "text_encoder.",
) -> BertConfig:
    """Return BERT's configuration from the release's `bert_config`, else from shapes.

    `fusion_layer` is the first layer that attends to a context, whose states are of width
    `encoder_width`.
    """
    if settings.get("hidden_act", "gelu") != "gelu":
        raise UserError(
            f"{label}: bert_config.hidden_act: unsupported (got {settings['hidden_act']!r}, expected 'gelu'); name a"
            " checkpoint of ALBEF"
        )
    layer = f"{prefix}encoder.layer."
    context_layers = list_layers(weights, layer, "crossattention.")
    if not context_layers:
        raise UserError(
            f"{label}: lacks {layer}*.crossattention.*; no layer attends to an image; name a checkpoint of ALBEF"
        )
    context_key = f"{layer}{context_layers[0]}.crossattention.self.key.weight"
    words, width = get_shape(
        weights, f"{prefix}embeddings.word_embeddings.weight", 2, label
    )
    positions, _ = get_shape(
        weights, f"{prefix}embeddings.position_embeddings.weight", 2, label
    )
    segments, _ = get_shape(
        weights, f"{prefix}embeddings.token_type_embeddings.weight", 2, label
    )
    # Shapes of linear layers are (outputs, inputs).
    defaults = {
        "hidden_size": width,
        "num_hidden_layers": 1 + max(list_layers(weights, layer)),
        "intermediate_size": get_shape(
            weights, f"{layer}0.intermediate.dense.weight", 2, label
        )[0],
        "fusion_layer": context_layers[0],
        "encoder_width": get_shape(weights, context_key, 2, label)[1],
    }
    sizes = {
        key: _read_number(settings, key, default, label)
        for key, default in defaults.items()
    }
    return BertConfig(
        **sizes,
        num_attention_heads=_read_heads(
            settings, "num_attention_heads", sizes["hidden_size"], label
        ),
        vocab_size=words,
        max_position_embeddings=positions,
        type_vocab_size=segments,
        layer_norm_eps=float(settings.get("layer_norm_eps", TEXT_EPSILON)),
        attn_implementation="sdpa",
    )


def _read_heads(config: Settings, key: str, width: int, label: str) -> int:
    """Return the number of attention heads from the settings, or for heads of the released width."""
    if key not in config and width % HEAD_WIDTH:
        raise UserError(
            f"{label}: width {width} is not a multiple of {HEAD_WIDTH}; set {key} in its JSON config"
        )
    heads = _read_number(config, key, width // HEAD_WIDTH, label)
    if width % heads:
        raise UserError(
            f"{label}: {key} {heads} does not divide the width {width}; correct its JSON config"
        )
    return heads


def _read_number(config: Settings, key: str, default: int, label: str) -> int:
    """Return a positive whole number of the settings, or the default; the first fusion layer may be
    number 0.
    """
    value = config.get(key, default)
    minimum = 0 if key == "fusion_layer" else 1
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if not is_whole or value < minimum:
        raise UserError(
            f"{label}: {key}: {value!r} is not a positive whole number; correct its JSON config"
        )
    return int(value)
