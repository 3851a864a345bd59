"""Sizes of an ALBEF, from the shapes of its weights or its training settings."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from waltz.core.errors import UserError

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
