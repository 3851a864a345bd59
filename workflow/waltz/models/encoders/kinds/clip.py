"""CLIP: two encoders whose vectors meet in one scaled dot product."""

import transformers

from waltz.core.devices import Device
from waltz.models.encoders.inputs import on_pixels
from waltz.models.encoders.late import LateFusion
from waltz.models.registry import ModelSpec

EXCLAMATION = "!"
"""Stands for a masked token: the unknown token of the published tokenizers is their end token, where CLIP pools."""


def load(spec: ModelSpec, device: Device) -> LateFusion:
    """Load a CLIP by hub id or folder; its logit is `logits_per_image`.

    Raises:
        UserError: The weights cannot be had, or lack parameters of the network.
    """
    network, common = on_pixels(spec, device, transformers.CLIPModel)
    return LateFusion(
        **common,
        longest=network.config.text_config.max_position_embeddings,
        spare=EXCLAMATION,
        scale=float(network.logit_scale.exp()),
    )
