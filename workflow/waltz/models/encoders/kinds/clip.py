"""CLIP: two encoders whose vectors meet in one scaled dot product."""

from typing import Any

import torch
import transformers

from waltz.core.devices import Device
from waltz.models.encoders.inputs import on_pixels
from waltz.models.encoders.late import LateFusion
from waltz.models.encoders.packed import pack
from waltz.models.registry import ModelSpec

EXCLAMATION = "!"
"""Stands for a masked token: the unknown token of the published tokenizers is their end token, where CLIP pools."""


def load(spec: ModelSpec, device: Device) -> LateFusion:
    """Load a CLIP by hub id or folder; its logit is `logits_per_image`.

    Raises:
        UserError: The weights cannot be had, or lack parameters of the network.
    """
    network, common = on_pixels(spec, device, transformers.CLIPModel)
    pack(network.vision_model.encoder)
    pack(network.text_model.encoder)
    return LateFusion(
        **common,
        longest=network.config.text_config.max_position_embeddings,
        spare=EXCLAMATION,
        scale=float(network.logit_scale.detach().exp()),
        images=pooled,
    )


def pooled(network: Any, pixels: torch.Tensor) -> torch.Tensor:
    """Image vectors of a CLIP; they are read off at the first position, so the last layer asks for no other."""
    tower = network.vision_model
    states = tower.pre_layrnorm(tower.embeddings(pixels))
    for layer in tower.encoder.layers[:-1]:
        states = layer(states, attention_mask=None)
    last = tower.encoder.layers[-1]
    weights, seen = last.self_attn, last.layer_norm1(states)
    shape = (*seen.shape[:2], -1, weights.head_dim)
    keys, values = (project(seen).view(shape).transpose(1, 2) for project in (weights.k_proj, weights.v_proj))
    query = weights.q_proj(seen[:, :1]).view(len(seen), 1, -1, weights.head_dim).transpose(1, 2)
    attended = torch.nn.functional.scaled_dot_product_attention(query, keys, values, scale=weights.scale)
    first = states[:, :1] + weights.out_proj(attended.transpose(1, 2).flatten(2))
    first = first + last.mlp(last.layer_norm2(first))
    vectors: torch.Tensor = network.visual_projection(tower.post_layernorm(first[:, 0]))
    return vectors
