"""BLIP-2 by its image-text matching head: a ViT whose patches the Q-Former attends to while it reads the text."""

from dataclasses import dataclass

import torch
import transformers

from waltz.core.devices import Device
from waltz.model_registry import ModelSpec
from waltz.models.encoders.base import PixelEncoder, load_pixel_encoder
from waltz.models.encoders.encoder import States, compute_log_odds
from waltz.models.encoders.kinds.blip import MATCH


@dataclass(frozen=True)
class Blip2(PixelEncoder):
    """A loaded BLIP-2; see `encoder.Encoder`."""

    late: bool = False
    probability: bool = True
    images_per_batch: int = 8
    texts_per_batch: int = 128
    pairs_per_batch: int = 32

    def encode_image(self, images: torch.Tensor) -> States:
        """Return states of the image's patches."""
        return (self.network.vision_model(pixel_values=images).last_hidden_state,)

    def encode_text(self, ids: torch.Tensor) -> States:
        """Return embeddings of the tokens; the Q-Former mixes text and image from its first layer on."""
        return (self.network.embeddings(input_ids=ids),)

    def fuse(self, text: States, image: States) -> torch.Tensor:
        """Return log odds of a match: the mean over the queries, as in the model."""
        queries = self.network.query_tokens.expand(len(text[0]), -1, -1).to(text[0].dtype)
        states = self.network.qformer(
            query_embeds=torch.cat([queries, text[0]], dim=1),
            query_length=queries.shape[1],
            encoder_hidden_states=image[0],
        ).last_hidden_state[:, : queries.shape[1]]
        return compute_log_odds(self.network.itm_head(states.to(self.network.itm_head.weight.dtype)).mean(dim=1), MATCH)


def load_blip_2(spec: ModelSpec, device: Device) -> Blip2:
    """Load a BLIP-2 for retrieval by hub id or folder.

    Raises:
        UserError: The weights cannot be had, or lack parameters of the network.
    """
    network, common = load_pixel_encoder(spec, device, transformers.Blip2ForImageTextRetrieval, "matching head")
    return Blip2(**common, max_tokens=network.config.qformer_config.max_position_embeddings)
