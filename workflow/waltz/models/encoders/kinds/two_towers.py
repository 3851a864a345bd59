"""Two encoders whose vectors meet in one scaled dot product: CLIP, SigLIP, and all other networks of
transformers with `get_text_features`, `get_image_features` and `logits_per_image`.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
import transformers
from PIL import Image

from waltz.core.errors import UserError
from waltz.core.jobs.devices import Device
from waltz.model_registry import ModelSpec
from waltz.models.encoders.base import (
    TRIAL_IMAGE,
    Fields,
    LateFusionEncoder,
    count_tokens,
    load_pixel_encoder,
    pack_linear_layers,
    read_single_value,
)
from waltz.models.pretrained import META, LoadedSpec

EXCLAMATION_MARK = "!"
"""CLIP's masked token: the unknown token of the published tokenizers is their end token, whose
state CLIP reads.
"""
TRIAL_TEXT = "a cat"
ROUNDINGS = 64
"""Roundings, in units of the largest possible logit, by which the model's own logit may differ from
that of its vectors.
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
    return load_two_towers(spec, device, transformers.MetaClip2Model)


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
    return LateFusionEncoder(**_add_sigmoid_fields(fields))


def _add_sigmoid_fields(fields: Fields) -> Fields:
    """Return the fields of a network whose logit has a bias, and whose texts are padded."""
    network = fields["network"]
    length = count_tokens(network, fields["tokenizer"])
    return {
        **fields,
        "max_tokens": length,
        "padded_length": length,
        "scale": read_single_value(network.logit_scale.exp()),
        "bias": read_single_value(network.logit_bias),
        "probability": True,
    }


def load_align(spec: ModelSpec, device: Device) -> LateFusionEncoder:
    """Load an ALIGN by hub id or folder; its logit is the cosine, divided by a temperature."""
    return load_two_towers(spec, device, transformers.AlignModel)


def load_two_towers(
    spec: ModelSpec, device: Device, network_class: Any = transformers.AutoModel
) -> LateFusionEncoder:
    """Load two towers of any class by hub id or folder; heads for other tasks are not used.

    Args:
        spec: The model, or a loaded one.
        device: The device.
        network_class: Transformers class of the network.
    Raises:
        UserError: As for `load_pixel_encoder`, or the model's logit is another function of the two
            vectors.
    """
    if isinstance(spec, LoadedSpec):
        # The towers inside a network for detection or segmentation.
        spec = replace(spec, network=spec.network.base_model)
        network_class = type(spec.network)
    fields = load_pixel_encoder(spec, device, network_class)
    network = fields["network"]
    fields["max_tokens"] = count_tokens(network, fields["tokenizer"])
    encoder = LateFusionEncoder(
        **fields, fallback_mask=EXCLAMATION_MARK, scale=_read_scale(network)
    )
    if device.name != META:
        check_logit(encoder)
    return encoder


def _read_scale(network: Any) -> float:
    """Return the factor of the cosine."""
    if hasattr(network, "temperature"):
        return 1 / read_single_value(network.temperature)
    # AIMv2 limits the parameter.
    limit = getattr(network, "max_log_logit_scale", math.inf)
    return read_single_value(network.logit_scale.clamp(max=limit).exp())


@torch.inference_mode()
def check_logit(encoder: LateFusionEncoder) -> None:
    """Refuse a network whose own logit of a text with an image is not that of its two vectors.

    Raises:
        UserError: The logits differ.
    """
    network = encoder.network
    ids = torch.tensor([encoder.tokenize(TRIAL_TEXT).ids], device=encoder.device)
    images = torch.stack(
        [
            encoder.prepare_image(image)
            for image in (TRIAL_IMAGE, Image.new("RGB", TRIAL_IMAGE.size, "red"))
        ]
    )
    text, image = encoder.encode_text(ids), encoder.encode_image(images)
    expected = encoder.fuse(text, image)
    logits = network(
        input_ids=ids, attention_mask=torch.ones_like(ids), pixel_values=images
    ).logits_per_image[:, 0]
    largest = encoder.scale + abs(encoder.bias)
    tolerance = ROUNDINGS * torch.finfo(network.dtype).eps * largest
    difference = float((logits.float() - expected).abs().max())
    if not difference <= tolerance:
        raise UserError(
            f"models.{encoder.spec.name}: the logit of {type(network).__name__} is not the scaled cosine of its vectors"
            f" (difference {difference:.2g}, expected at most {tolerance:.2g}); explain a function that returns its"
            " logit, see docs/how-to/a-function-as-a-model.md"
        )


@dataclass(frozen=True, kw_only=True)
class Siglip2(LateFusionEncoder):
    """A loaded SigLIP 2 of the NaFlex form, which reads images of any shape as rows of patches."""

    def prepare_image(self, image: Image.Image) -> torch.Tensor:
        """Return the prepared image, made of its patches, without the padding behind them."""
        inputs = self.processor(images=[image], return_tensors="pt")
        rows, columns = inputs["spatial_shapes"][0].tolist()
        size = self.network.config.vision_config.patch_size
        # (rows, columns, size, size, 3) of the first patches, as the processor cuts the image.
        patches = inputs["pixel_values"][0, : rows * columns].view(
            rows, columns, size, size, -1
        )
        pixels: torch.Tensor = patches.permute(4, 0, 2, 1, 3).reshape(
            -1, rows * size, columns * size
        )
        return pixels.to(self.device, self.network.dtype)

    def compute_image_vectors(self, images: torch.Tensor) -> torch.Tensor:
        """Return image vectors of prepared images of one shape, cut into patches again."""
        size = self.network.config.vision_config.patch_size
        count, _, height, width = images.shape
        rows, columns = height // size, width // size
        patches = images.view(count, -1, rows, size, columns, size)
        shapes = torch.tensor([[rows, columns]] * count, device=images.device)
        # Nothing is padded: each patch counts.
        vectors: torch.Tensor = self.network.get_image_features(
            pixel_values=patches.permute(0, 2, 4, 3, 5, 1).flatten(3).flatten(1, 2),
            pixel_attention_mask=torch.ones(
                (count, rows * columns), dtype=torch.int32, device=images.device
            ),
            spatial_shapes=shapes,
        ).pooler_output
        return vectors


def load_siglip2(spec: ModelSpec, device: Device) -> Siglip2:
    """Load a SigLIP 2 of the NaFlex form by hub id or folder; texts are padded as for `load_siglip`."""
    fields = load_pixel_encoder(
        spec,
        device,
        transformers.Siglip2Model,
        tokenizer_class=transformers.PreTrainedTokenizerFast,
    )
    return Siglip2(**_add_sigmoid_fields(fields))
