"""ALIGN: EfficientNet and BERT, whose vectors meet in one dot product over a temperature."""

import transformers

from waltz.core.devices import Device
from waltz.model_registry import ModelSpec
from waltz.models.encoders.base import load_pixel_encoder
from waltz.models.encoders.late_fusion import LateFusionEncoder


def load_align(spec: ModelSpec, device: Device) -> LateFusionEncoder:
    """Load an ALIGN by hub id or folder.

    Raises:
        UserError: The weights cannot be had, or lack parameters of the network.
    """
    network, common = load_pixel_encoder(spec, device, transformers.AlignModel)
    return LateFusionEncoder(
        **common,
        max_tokens=network.config.text_config.max_position_embeddings,
        scale=1 / float(network.temperature.detach()),
    )
