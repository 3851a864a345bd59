"""SigLIP: two encoders, trained so that the sigmoid of their scaled, shifted dot product is a probability."""

import transformers

from waltz.core.devices import Device
from waltz.model_registry import ModelSpec
from waltz.models.encoders.base import Processors, load_pixel_encoder
from waltz.models.encoders.late_fusion import LateFusionEncoder


class TokenizerFileProcessors(Processors):
    """Processors with the tokenizer of tokenizer.json; transformers' own SigLIP tokenizer names no characters."""

    tokenizer_class = transformers.PreTrainedTokenizerFast


def load_siglip(spec: ModelSpec, device: Device) -> LateFusionEncoder:
    """Load a SigLIP by hub id or folder.

    It was trained on texts padded to its full length and pools at the last position, so texts are padded; padding
    tokens are no players.

    Raises:
        UserError: The weights cannot be had, or lack parameters of the network.
    """
    network, common = load_pixel_encoder(
        spec, device, transformers.SiglipModel, processors_class=TokenizerFileProcessors
    )
    length = network.config.text_config.max_position_embeddings
    return LateFusionEncoder(
        **common,
        max_tokens=length,
        scale=float(network.logit_scale.detach().exp()),
        bias=float(network.logit_bias.detach()),
        padded_length=length,
        probability=True,
    )
