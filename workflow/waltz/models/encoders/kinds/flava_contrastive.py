"""FLAVA by its contrastive head: the vectors of its two towers, and no multimodal encoder."""

import transformers

from waltz.core.devices import Device
from waltz.model_registry import ModelSpec
from waltz.models.encoders.base import load_pixel_encoder
from waltz.models.encoders.late_fusion import LateFusionEncoder


def load_flava_contrastive(spec: ModelSpec, device: Device) -> LateFusionEncoder:
    """Load a FLAVA by hub id or folder; a study names this kind, since a checkpoint's own config says `flava`.

    Raises:
        UserError: The weights cannot be had, or lack parameters of the network.
    """
    network, common = load_pixel_encoder(spec, device, transformers.FlavaForPreTraining, "contrastive head")
    return LateFusionEncoder(
        **common,
        max_tokens=network.config.text_config.max_position_embeddings,
        texts=lambda network, ids: network.flava.get_text_features(input_ids=ids).pooler_output[:, 0],
        images=lambda network, pixels: network.flava.get_image_features(pixel_values=pixels).pooler_output[:, 0],
        scale=float(network.flava.logit_scale.detach().exp()),
    )
