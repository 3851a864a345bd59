"""CLIP, MetaCLIP 2, SigLIP and ALIGN, two encoders whose vectors meet in one scaled dot product."""

from dataclasses import dataclass

import torch
import transformers

from waltz.core.devices import Device
from waltz.model_registry import ModelSpec
from waltz.models.encoders.base import (
    LateFusionEncoder,
    load_pixel_encoder,
    pack_linear_layers,
    read_single_value,
)

EXCLAMATION_MARK = "!"
"""CLIP's masked token: the unknown token of the published tokenizers is their end token, whose
state CLIP reads.
"""


@dataclass(frozen=True)
class Clip(LateFusionEncoder):
    """A loaded CLIP."""

    def compute_image_vectors(self, images: torch.Tensor) -> torch.Tensor:
        """Return image vectors of shape (batch, size).

        Only the class token at the first position is read, so the last layer computes no other
        query.
        """
        tower = self.network.vision_model
        states = tower.pre_layrnorm(tower.embeddings(images))
        for layer in tower.encoder.layers[:-1]:
            states = layer(states, attention_mask=None)
        # The last layer: attention of the class token to all positions, of shape (batch, heads,
        # positions, head size).
        last = tower.encoder.layers[-1]
        weights, normed = last.self_attn, last.layer_norm1(states)
        n_images, n_positions, _ = normed.shape
        keys = (
            weights.k_proj(normed)
            .view(n_images, n_positions, -1, weights.head_dim)
            .transpose(1, 2)
        )
        values = (
            weights.v_proj(normed)
            .view(n_images, n_positions, -1, weights.head_dim)
            .transpose(1, 2)
        )
        query = (
            weights.q_proj(normed[:, :1])
            .view(n_images, 1, -1, weights.head_dim)
            .transpose(1, 2)
        )
        # softmax(q Kᵀ / √d) V of one query.
        attended = torch.nn.functional.scaled_dot_product_attention(
            query, keys, values, scale=weights.scale
        )
        # The rest of the layer for the class token: residual, then perceptron.
        first = states[:, :1] + weights.out_proj(attended.transpose(1, 2).flatten(2))
        first = first + last.mlp(last.layer_norm2(first))
        vectors: torch.Tensor = self.network.visual_projection(
            tower.post_layernorm(first[:, 0])
        )
        return vectors


def load_clip(spec: ModelSpec, device: Device) -> LateFusionEncoder:
    """Load a CLIP by hub id or folder; its logit is `logits_per_image`."""
    fields = load_pixel_encoder(spec, device, transformers.CLIPModel)
    network = fields["network"]
    # Most of the time goes into these layers.
    pack_linear_layers(network.vision_model.encoder)
    pack_linear_layers(network.text_model.encoder)
    return Clip(
        **fields,
        fallback_mask=EXCLAMATION_MARK,
        scale=read_single_value(network.logit_scale.exp()),
    )


def load_metaclip_2(spec: ModelSpec, device: Device) -> LateFusionEncoder:
    """Load a MetaCLIP 2 by hub id or folder: CLIP's architecture with a tokenizer of many
    languages.
    """
    fields = load_pixel_encoder(spec, device, transformers.MetaClip2Model)
    return LateFusionEncoder(
        **fields, scale=read_single_value(fields["network"].logit_scale.exp())
    )


def load_siglip(spec: ModelSpec, device: Device) -> LateFusionEncoder:
    """Load a SigLIP, or a SigLIP 2 of one resolution, by hub id or folder; the sigmoid of its logit
    is a probability.

    It was trained on texts padded to its full length and pools at the last position, so texts are
    padded; padding tokens are not players.
    """
    # Read from tokenizer.json, because the SigLIP tokenizer of transformers gives no characters of
    # tokens.
    fields = load_pixel_encoder(
        spec,
        device,
        transformers.SiglipModel,
        tokenizer_class=transformers.PreTrainedTokenizerFast,
    )
    network = fields["network"]
    return LateFusionEncoder(
        **fields,
        scale=read_single_value(network.logit_scale.exp()),
        bias=read_single_value(network.logit_bias),
        padded_length=fields["max_tokens"],
        probability=True,
    )


def load_align(spec: ModelSpec, device: Device) -> LateFusionEncoder:
    """Load an ALIGN by hub id or folder; its logit is the cosine, divided by a temperature."""
    fields = load_pixel_encoder(spec, device, transformers.AlignModel)
    return LateFusionEncoder(
        **fields, scale=1 / read_single_value(fields["network"].temperature)
    )
