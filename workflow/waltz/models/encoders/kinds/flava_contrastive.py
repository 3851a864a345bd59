"""FLAVA by its contrastive head: the vectors of its two towers, and no multimodal encoder."""

import transformers

from waltz.core.devices import Device
from waltz.models.encoders.inputs import on_pixels
from waltz.models.encoders.late import LateFusion
from waltz.models.registry import ModelSpec


def load(spec: ModelSpec, device: Device) -> LateFusion:
    """Load a FLAVA by hub id or folder; a study names this kind, since a checkpoint's own config says `flava`.

    Raises:
        UserError: The weights cannot be had, or lack parameters of the network.
    """
    network, common = on_pixels(spec, device, transformers.FlavaForPreTraining, "contrastive head")
    return LateFusion(
        **common,
        longest=network.config.text_config.max_position_embeddings,
        texts=lambda network, ids: network.flava.get_text_features(input_ids=ids).pooler_output[:, 0],
        images=lambda network, pixels: network.flava.get_image_features(pixel_values=pixels).pooler_output[:, 0],
        scale=float(network.flava.logit_scale.detach().exp()),
    )
