"""SigLIP: two encoders, trained so that the sigmoid of their scaled, shifted dot product is a probability."""

import transformers

from waltz.core.devices import Device
from waltz.models.encoders.inputs import Processors, on_pixels
from waltz.models.encoders.late import LateFusion
from waltz.models.registry import ModelSpec


class TokenizerFile(Processors):
    """Processors with the tokenizer of tokenizer.json; transformers' own SigLIP tokenizer names no characters."""

    reader = transformers.PreTrainedTokenizerFast


def load(spec: ModelSpec, device: Device) -> LateFusion:
    """Load a SigLIP by hub id or folder.

    It was trained on texts padded to its full length and pools at the last position, so padding is added to what is
    read; no token of the padding is a player.

    Raises:
        UserError: The weights cannot be had, or lack parameters of the network.
    """
    network, common = on_pixels(spec, device, transformers.SiglipModel, reader=TokenizerFile)
    length = network.config.text_config.max_position_embeddings
    return LateFusion(
        **common,
        longest=length,
        scale=float(network.logit_scale.detach().exp()),
        bias=float(network.logit_bias.detach()),
        padded=length,
        probability=True,
    )
