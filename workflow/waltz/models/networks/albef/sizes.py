"""How large an ALBEF is, as the shapes of its weights say, or the settings it was trained with."""

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
"""Of the layer norms of the text side."""


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
        fusion: First layer that looks at the context; those before see the text alone.
        context: Width of the states that are looked at.
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
    """Shapes of a file's weights, asked for by key."""

    def __init__(self, weights: Mapping[str, torch.Tensor], where: str) -> None:
        """Keep the weights.

        Args:
            weights: Weights by key.
            where: How errors begin: the file, and the model's name in a study.
        """
        self.weights, self.where = weights, where

    def get_shape(self, key: str, axes: int) -> tuple[int, ...]:
        """The shape of a weight.

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
        """Numbers of the layers that have keys: what the group of a pattern at the start of a key matches."""
        found = (re.match(pattern, key) for key in self.weights)
        return sorted({int(match[1]) for match in found if match})


def read_vision_size(shapes: WeightShapes, config: Mapping[str, Any]) -> VisionSize:
    """The size of the image encoder: what the settings say, else what the shapes do.

    Args:
        shapes: Of the file.
        config: Settings of the release (`image_res`, `vision_width`, ...), may be empty.
    Raises:
        UserError: The shapes are none of an ALBEF, or leave the number of heads open.
    """
    own = shapes.get_shape("visual_encoder.cls_token", 3)[2]
    patch = shapes.get_shape("visual_encoder.patch_embed.proj.weight", 4)[3]
    positions = shapes.get_shape("visual_encoder.pos_embed", 3)[1]
    grid = math.isqrt(max(positions - 1, 0))
    if grid < 1 or grid**2 + 1 != positions:
        raise UserError(f"{shapes.where}: visual_encoder.pos_embed has {positions} positions, no square and one more")
    blocks = shapes.list_layers(r"visual_encoder\.blocks\.(\d+)\.")
    width, patch = _read_number(config, "vision_width", own, shapes), _read_number(config, "patch_size", patch, shapes)
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
    """The size of a text encoder or decoder: what the settings of its BERT say, else what the shapes do.

    Args:
        shapes: Of the file.
        config: The release's `bert_config` (`num_hidden_layers`, `num_attention_heads`, `fusion_layer`, ...), may be
            empty.
        prefix: What its keys begin with.
    Raises:
        UserError: As `vision_size`; or it has no layer that looks at a context, or another activation than GELU.
    """
    if config.get("hidden_act", "gelu") != "gelu":
        raise UserError(f"{shapes.where}: bert_config.hidden_act: {config['hidden_act']!r}; ALBEF has gelu")
    words = shapes.get_shape(f"{prefix}embeddings.word_embeddings.weight", 2)
    within = rf"{re.escape(prefix)}encoder\.layer\.(\d+)\."
    looking = shapes.list_layers(rf"{within}crossattention\.")
    if not looking:
        raise UserError(f"{shapes.where}: lacks {prefix}encoder.layer.*.crossattention.*; no layer sees an image")
    width = _read_number(config, "hidden_size", words[1], shapes)
    keys = shapes.get_shape(f"{prefix}encoder.layer.{looking[0]}.crossattention.self.key.weight", 2)
    return TextSize(
        width=width,
        depth=_read_number(config, "num_hidden_layers", 1 + max(shapes.list_layers(within)), shapes),
        heads=_read_heads(config, "num_attention_heads", width, shapes),
        hidden=_read_number(
            config,
            "intermediate_size",
            shapes.get_shape(f"{prefix}encoder.layer.0.intermediate.dense.weight", 2)[0],
            shapes,
        ),
        fusion=_read_number(config, "fusion_layer", looking[0], shapes),
        context=_read_number(config, "encoder_width", keys[1], shapes),
        vocabulary=words[0],
        positions=shapes.get_shape(f"{prefix}embeddings.position_embeddings.weight", 2)[0],
        segments=shapes.get_shape(f"{prefix}embeddings.token_type_embeddings.weight", 2)[0],
        epsilon=float(config.get("layer_norm_eps", EPSILON)),
    )


def get_bert_settings(config: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """The settings of the text side, `bert_config`; empty where there are none.

    Raises:
        UserError: They are no mapping, as where the release names a file.
    """
    found = config.get("bert_config", {})
    if not isinstance(found, Mapping):
        raise UserError(f"{where}: bert_config: {found!r} is no mapping; write the file's content in its place")
    return found


def _read_heads(config: Mapping[str, Any], key: str, width: int, shapes: WeightShapes) -> int:
    """Attention heads, which no shape tells: the settings', or heads of the released width."""
    if key not in config and width % HEAD_WIDTH:
        raise UserError(f"{shapes.where}: width {width} is no multiple of {HEAD_WIDTH}; say {key} in its JSON config")
    heads = _read_number(config, key, width // HEAD_WIDTH, shapes)
    if width % heads:
        raise UserError(f"{shapes.where}: {key} {heads} does not divide the width {width}")
    return heads


def _read_number(config: Mapping[str, Any], key: str, otherwise: int, shapes: WeightShapes) -> int:
    found = config.get(key, otherwise)
    if not isinstance(found, int) or isinstance(found, bool) or found < (0 if key == "fusion_layer" else 1):
        raise UserError(f"{shapes.where}: {key}: {found!r} is no positive whole number")
    return found
