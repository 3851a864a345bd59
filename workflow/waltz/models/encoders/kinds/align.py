"""ALIGN: EfficientNet and BERT, whose vectors meet in one dot product over a temperature."""

import transformers

from waltz.core.devices import Device
from waltz.models.encoders.inputs import on_pixels
from waltz.models.encoders.late import LateFusion
from waltz.models.registry import ModelSpec


def load(spec: ModelSpec, device: Device) -> LateFusion:
    """Load an ALIGN by hub id or folder.

    Raises:
        UserError: The weights cannot be had, or lack parameters of the network.
    """
    network, common = on_pixels(spec, device, transformers.AlignModel)
    return LateFusion(
        **common,
        longest=network.config.text_config.max_position_embeddings,
        scale=1 / float(network.temperature.detach()),
    )
