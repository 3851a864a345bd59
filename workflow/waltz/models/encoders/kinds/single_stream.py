"""ViLT and VisualBERT, one transformer over the tokens and the patches or regions."""

import math
from dataclasses import dataclass

import torch
import transformers
from PIL import Image

from waltz.core.devices import Device
from waltz.core.errors import UserError
from waltz.model_registry import ModelSpec
from waltz.models.encoders.base import (
    PixelEncoder,
    RegionEncoder,
    load_pixel_encoder,
    load_region_encoder,
)
from waltz.models.encoders.encoder import States, compute_log_odds

MATCH = 0
"""Index of a match in the output of VisualBERT's head."""
MAX_ASPECT_RATIO = 1333 / 800
"""Longest side of an image prepared for ViLT, in units of the length of its shortest side."""


@dataclass(frozen=True, kw_only=True)
class Vilt(PixelEncoder):
    """A loaded ViLT, whose logit ranks pairs but does not give log odds; see `encoder.Encoder`."""

    probability: bool = False
    images_per_batch: int = 32
    texts_per_batch: int = 128
    pairs_per_batch: int = 32

    def prepare_image(self, image: Image.Image) -> torch.Tensor:
        """Return the prepared image, with its aspect ratio; an image thinner than a row of patches
        is widened.
        """
        # The processor shrinks the longer side to this many patches.
        patches = (
            int(MAX_ASPECT_RATIO * self.processor.size["shortest_edge"])
            // self.processor.size_divisor
        )
        min_side = math.ceil(max(image.size) / patches)
        if min(image.size) < min_side:
            image = image.resize(
                (max(image.width, min_side), max(image.height, min_side))
            )
        return super().prepare_image(image)

    def encode_image(self, images: torch.Tensor) -> States:
        """Return embeddings of the patches in their order; transformers' forward pass shuffles
        them, without effect.
        """
        embeddings = self.network.vilt.embeddings
        patches = embeddings.patch_embeddings(images)
        # The learned positions of a square of patches, (1, width, rows, columns), resized to the
        # image's patches.
        rows = embeddings.config.image_size // embeddings.config.patch_size
        learned_positions = (
            embeddings.position_embeddings[:, 1:]
            .transpose(1, 2)
            .unflatten(2, (rows, rows))
        )
        positions = torch.nn.functional.interpolate(
            learned_positions,
            size=patches.shape[2:],
            mode="bilinear",
            align_corners=True,
        )
        # [CLS] keeps its position; (images, 1, width).
        first = (embeddings.cls_token + embeddings.position_embeddings[:, :1]).expand(
            len(images), -1, -1
        )
        states = torch.cat(
            [first, (patches + positions).flatten(2).transpose(1, 2)], dim=1
        )
        # Type 1 is the image, type 0 the text.
        return (states + embeddings.token_type_embeddings.weight[1],)

    def encode_text(self, ids: torch.Tensor) -> States:
        """Return embeddings of the tokens."""
        embeddings = self.network.vilt.embeddings
        return (
            embeddings.text_embeddings(input_ids=ids)
            + embeddings.token_type_embeddings.weight[0],
        )

    def fuse(self, text: States, image: States) -> torch.Tensor:
        """Return the ranking head's logit."""
        vilt = self.network.vilt
        states = vilt.layernorm(
            vilt.encoder(torch.cat([text[0], image[0]], dim=1)).last_hidden_state
        )
        ranks: torch.Tensor = self.network.rank_output(vilt.pooler(states))[
            :, 0
        ].float()
        return ranks


def load_vilt(spec: ModelSpec, device: Device) -> Vilt:
    """Load a ViLT for retrieval by hub id or folder."""
    fields = load_pixel_encoder(
        spec, device, transformers.ViltForImageAndTextRetrieval, "ranking head"
    )
    patches = fields["network"].config.max_image_length
    if patches > 0:
        raise UserError(
            f"models.{spec.name}: {spec.weights} looks at {patches} patches drawn at random;"
            " set max_image_length to -1 in its config.json"
        )
    return Vilt(**fields)


@dataclass(frozen=True)
class VisualBert(RegionEncoder):
    """A loaded VisualBERT; see `encoder.Encoder`."""

    images_per_batch: int = 128
    texts_per_batch: int = 128
    pairs_per_batch: int = 32

    def encode_image(self, images: torch.Tensor) -> States:
        """Return features of the regions; boxes are not used."""
        return (self.provider.compute_regions(images)[0].to(self.network.dtype),)

    def encode_text(self, ids: torch.Tensor) -> States:
        """Return the ids unchanged, because a single stream has no separate text encoder."""
        return (ids,)

    def fuse(self, text: States, image: States) -> torch.Tensor:
        """Return log odds of a match."""
        state = self.network.visual_bert(
            input_ids=text[0], visual_embeds=image[0]
        ).pooler_output
        return compute_log_odds(self.network.cls.seq_relationship(state), MATCH)


def load_visual_bert(spec: ModelSpec, device: Device) -> VisualBert:
    """Load a VisualBERT with its pre-training heads by hub id or folder."""
    fields = load_region_encoder(
        spec,
        device,
        transformers.VisualBertForPreTraining,
        "matching head",
        "visual_embedding_dim",
    )
    return VisualBert(**fields)
