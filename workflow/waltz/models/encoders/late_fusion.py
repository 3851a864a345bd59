"""Late fusion: two encoders whose vectors meet in one scaled dot product."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from PIL import Image

from waltz.models.encoders.base import PixelEncoder
from waltz.models.encoders.encoder import Encoder, States

VectorFunction = Callable[[Any, torch.Tensor], torch.Tensor]


def compute_text_features(network: Any, ids: torch.Tensor) -> torch.Tensor:
    """Text vectors, where transformers calls them so."""
    vectors: torch.Tensor = network.get_text_features(input_ids=ids).pooler_output
    return vectors


def compute_image_features(network: Any, pixels: torch.Tensor) -> torch.Tensor:
    """Image vectors, where transformers calls them so."""
    vectors: torch.Tensor = network.get_image_features(pixel_values=pixels).pooler_output
    return vectors


@dataclass(frozen=True)
class LateFusionEncoder(PixelEncoder):
    """A network of two towers; its fields are those of `encoder.LateEncoder`.

    Attributes:
        scale: What the dot product of unit vectors is multiplied by.
        bias: What is added then.
        padded: Length that texts are padded to, where the network was trained so; it sees the padding.
        texts: From the network and ids of shape (batch, length) to text vectors.
        images: From the network and pixels of shape (batch, 3, height, width) to image vectors.
    """

    scale: float
    bias: float = 0.0
    padded: int = 0
    texts: VectorFunction = compute_text_features
    images: VectorFunction = compute_image_features
    late: bool = True
    probability: bool = False
    images_per_batch: int = 32
    texts_per_batch: int = 128
    pairs_per_batch: int = 4096

    def encode_image(self, images: torch.Tensor) -> States:
        """Image vectors of unit length."""
        return (_normalise(self.images(self.network, images)),)

    def encode_text(self, ids: torch.Tensor) -> States:
        """Text vectors of unit length."""
        if self.padded:
            filler = self.tokenizer.pad_token_id
            ids = torch.nn.functional.pad(ids, (0, self.padded - ids.shape[1]), value=filler)
        return (_normalise(self.texts(self.network, ids)),)

    def fuse(self, text: States, image: States) -> torch.Tensor:
        """Scaled cosine, plus the bias."""
        return self.scale * (text[0] * image[0]).sum(dim=-1) + self.bias


@torch.inference_mode()
def compute_image_vector(encoder: Encoder, image: Image.Image) -> np.ndarray:
    """An image's vector of unit length, read alone: float64 of shape (size,)."""
    return _to_array(encoder.encode_image(encoder.prepare_image(image)[None]))


@torch.inference_mode()
def compute_text_vector(encoder: Encoder, text: str) -> np.ndarray:
    """A text's vector of unit length, read alone: float64 of shape (size,).

    Raises:
        UserError: It is longer than the model reads.
    """
    return _to_array(encoder.encode_text(torch.tensor([encoder.tokenize(text).ids], device=encoder.device)))


def _to_array(states: States) -> np.ndarray:
    vector: np.ndarray = states[0][0].double().cpu().numpy()
    return vector


def _normalise(vectors: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.normalize(vectors.float(), dim=-1)
