"""BridgeTower by its matching head: each of the last layers of two towers passes its states to a
layer of both cross-modal streams.
"""

from dataclasses import dataclass
from typing import Any

import torch
import transformers
from PIL import Image

from waltz.core.jobs.devices import Device
from waltz.model_registry import ModelSpec
from waltz.models.encoders.base import (
    PixelEncoder,
    count_tokens,
    load_pixel_encoder,
    widen_thin_image,
)
from waltz.models.encoders.encoder import States, compute_log_odds

MATCH = 1
"""Index of a match in the head's output."""


@dataclass(frozen=True)
class BridgeTower(PixelEncoder):
    """A loaded BridgeTower; see `encoder.Encoder`."""

    images_per_batch: int = 8
    texts_per_batch: int = 64
    pairs_per_batch: int = 32

    def prepare_image(self, image: Image.Image) -> torch.Tensor:
        """Return the prepared image; a very thin image is widened."""
        return super().prepare_image(widen_thin_image(image, self.processor))

    def encode_image(self, images: torch.Tensor) -> States:
        """Return states of the patches for each cross-modal layer."""
        network = self.network.bridgetower
        vision = network.vision_model.visual
        # This tower has the positions first, (positions, images, width).
        states = vision.forward_pre(images)
        outputs = []
        for layer in vision.transformer.resblocks:
            states = layer(states)
            outputs.append(vision.forward_post(states))
        image_type = network.token_type_embeddings.weight[1]
        return self._bridge(outputs, network._apply_image_transform, image_type)

    def encode_text(self, ids: torch.Tensor) -> States:
        """Return states of the tokens for each cross-modal layer."""
        network = self.network.bridgetower
        states = network.text_model.embeddings(input_ids=ids)
        outputs = []
        for layer in network.text_model.encoder.layer:
            states = layer(states)
            outputs.append(states)
        text_type = network.token_type_embeddings.weight[0]
        return self._bridge(outputs, network._apply_text_transform, text_type)

    def _bridge(
        self, outputs: list[torch.Tensor], transform: Any, modality: torch.Tensor
    ) -> States:
        """Return the states of the last layers of a tower as its bridges pass them on."""
        last = outputs[-self.network.config.num_hidden_layers :]
        return tuple(
            transform(states, number) + modality for number, states in enumerate(last)
        )

    def fuse(self, text: States, image: States) -> torch.Tensor:
        """Return log odds of a match."""
        network = self.network.bridgetower
        tokens = network.cross_modal_text_layernorm(text[0])
        patches = network.cross_modal_image_layernorm(image[0])
        layers = zip(
            network.cross_modal_text_layers,
            network.cross_modal_image_layers,
            strict=True,
        )
        for number, (text_layer, image_layer) in enumerate(layers):
            if number > 0:
                text_link = network.cross_modal_text_link_tower[number - 1]
                image_link = network.cross_modal_image_link_tower[number - 1]
                tokens = text_link(text[number], tokens, None)
                patches = image_link(image[number], patches, None)
            # Both streams read each other's states before the layer.
            tokens, patches = (
                text_layer(tokens, patches)[0],
                image_layer(patches, tokens)[0],
            )
        state = network.get_cls_features(tokens, patches)
        return compute_log_odds(self.network.itm_score(state), MATCH)


def load_bridgetower(spec: ModelSpec, device: Device) -> BridgeTower:
    """Load a BridgeTower with its matching head by hub id or folder."""
    fields = load_pixel_encoder(
        spec,
        device,
        transformers.BridgeTowerForImageAndTextRetrieval,
        "matching head",
    )
    fields["max_tokens"] = count_tokens(fields["network"], fields["tokenizer"])
    return BridgeTower(**fields)
