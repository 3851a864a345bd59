"""FLAVA by its image-text matching head over a multimodal encoder, or by the contrastive head of
its two towers.
"""

from dataclasses import dataclass

import torch
import transformers

from waltz.core.jobs.devices import Device
from waltz.model_registry import ModelSpec
from waltz.models.encoders.base import (
    LateFusionEncoder,
    PixelEncoder,
    load_pixel_encoder,
    read_single_value,
)
from waltz.models.encoders.encoder import States, compute_log_odds

MATCH = 1
"""Index of a match in the head's output."""


@dataclass(frozen=True)
class Flava(PixelEncoder):
    """A loaded FLAVA; see `encoder.Encoder`."""

    images_per_batch: int = 16
    texts_per_batch: int = 64
    pairs_per_batch: int = 32

    def encode_image(self, images: torch.Tensor) -> States:
        """Return image states before the tower's last layer norm, projected for the multimodal
        encoder.
        """
        flava = self.network.flava
        # The last hidden state of transformers would be normed.
        states = flava.image_model(
            pixel_values=images, output_hidden_states=True
        ).hidden_states
        return (flava.image_to_mm_projection(states[-1]),)

    def encode_text(self, ids: torch.Tensor) -> States:
        """Return text states before the tower's last layer norm, projected for the multimodal
        encoder.
        """
        flava = self.network.flava
        states = flava.text_model(
            input_ids=ids, output_hidden_states=True
        ).hidden_states
        return (flava.text_to_mm_projection(states[-1]),)

    def fuse(self, text: States, image: States) -> torch.Tensor:
        """Return log odds of a match."""
        # The multimodal encoder adds a [CLS] token, which the head reads.
        states = self.network.flava.multimodal_model(
            torch.cat([image[0], text[0]], dim=1)
        ).last_hidden_state
        return compute_log_odds(self.network.itm_head(states), MATCH)


@dataclass(frozen=True)
class FlavaContrastive(LateFusionEncoder):
    """A loaded FLAVA without its multimodal encoder."""

    def compute_image_vectors(self, images: torch.Tensor) -> torch.Tensor:
        """Return image vectors of the contrastive head."""
        vectors: torch.Tensor = self.network.get_image_features(
            pixel_values=images
        ).pooler_output[:, 0]
        return vectors

    def compute_text_vectors(self, ids: torch.Tensor) -> torch.Tensor:
        """Return text vectors of the contrastive head."""
        vectors: torch.Tensor = self.network.get_text_features(
            input_ids=ids
        ).pooler_output[:, 0]
        return vectors


def load_flava(spec: ModelSpec, device: Device) -> Flava:
    """Load a FLAVA with its pre-training heads by hub id or folder."""
    fields = load_pixel_encoder(
        spec, device, transformers.FlavaForPreTraining, "matching head"
    )
    return Flava(**fields)


def load_flava_contrastive(spec: ModelSpec, device: Device) -> LateFusionEncoder:
    """Load the towers of a FLAVA by hub id or folder; a study has to name this kind for a checkpoint
    with heads, whose class is `FlavaForPreTraining`.
    """
    fields = load_pixel_encoder(
        spec, device, transformers.FlavaModel, "contrastive head"
    )
    return FlavaContrastive(
        **fields, scale=read_single_value(fields["network"].logit_scale.exp())
    )
