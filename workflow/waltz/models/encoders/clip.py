"""CLIP: two encoders whose vectors meet in one scaled dot product."""

from dataclasses import dataclass
from typing import Any

import torch
import transformers
from PIL import Image

from waltz.core.devices import Device
from waltz.models import checkpoints
from waltz.models.encoders.encoder import States, Text, masked_id, tokenized
from waltz.models.registry import ModelSpec


@dataclass(frozen=True)
class Clip:
    """A loaded CLIP; its fields are those of `encoder.Encoder`.

    Attributes:
        network: The transformers model, in evaluation mode.
        processor: Its processor of texts and images.
    """

    spec: ModelSpec
    device: str
    network: Any
    processor: Any
    masked_id: int
    late: bool = True
    probability: bool = False
    images_per_batch: int = 32
    texts_per_batch: int = 128
    pairs_per_batch: int = 4096

    def text(self, text: str) -> Text:
        """Tokens of a text; see `encoder.Encoder`."""
        longest = self.network.config.text_config.max_position_embeddings
        return tokenized(self.processor.tokenizer, text, longest, self.spec.name)

    def image(self, image: Image.Image) -> torch.Tensor:
        """The prepared image; see `encoder.Encoder`."""
        pixels = self.processor.image_processor(images=[image], return_tensors="pt")["pixel_values"][0]
        prepared: torch.Tensor = pixels.to(self.device, self.network.dtype)
        return prepared

    def see(self, images: torch.Tensor) -> States:
        """Image vectors of unit length."""
        return (_unit(self.network.get_image_features(pixel_values=images).pooler_output),)

    def read(self, ids: torch.Tensor) -> States:
        """Text vectors of unit length."""
        return (_unit(self.network.get_text_features(input_ids=ids).pooler_output),)

    def fuse(self, text: States, image: States) -> torch.Tensor:
        """`logits_per_image`: logit scale times cosine."""
        logits: torch.Tensor = self.network.logit_scale.exp().float() * (text[0] * image[0]).sum(dim=-1)
        return logits


def load(spec: ModelSpec, device: Device) -> Clip:
    """Load a CLIP by hub id or folder.

    Raises:
        UserError: The weights cannot be had, or lack parameters of the network.
    """
    network, processor = checkpoints.load(spec, transformers.CLIPModel, reader=transformers.AutoProcessor)
    return Clip(spec, device.name, network.to(device.name).eval(), processor, masked_id(processor.tokenizer, spec))


def _unit(vectors: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.normalize(vectors.float(), dim=-1)
