"""Late fusion: two encoders whose unit vectors are combined in one scaled dot product."""

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
    """Return text vectors by transformers' `get_text_features`."""
    vectors: torch.Tensor = network.get_text_features(input_ids=ids).pooler_output
    return vectors


def compute_image_features(network: Any, pixels: torch.Tensor) -> torch.Tensor:
    """Return image vectors by transformers' `get_image_features`."""
    vectors: torch.Tensor = network.get_image_features(pixel_values=pixels).pooler_output
    return vectors


@dataclass(frozen=True)
class LateFusionEncoder(PixelEncoder):
    """An encoder with two towers; its fields are those of `encoder.LateEncoder`.

    Attributes:
        scale: Factor of the dot product of unit vectors.
        bias: Added constant.
        padded_length: Length that texts are padded to if the network was trained so; it reads the padding; 0 for none.
        texts: From the network and ids of shape (batch, length) to text vectors.
        images: From the network and pixels of shape (batch, 3, height, width) to image vectors.
    """

    scale: float
    bias: float = 0.0
    padded_length: int = 0
    texts: VectorFunction = compute_text_features
    images: VectorFunction = compute_image_features
    late: bool = True
    probability: bool = False
    images_per_batch: int = 32
    texts_per_batch: int = 128
    pairs_per_batch: int = 4096

    def encode_image(self, images: torch.Tensor) -> States:
        """Return image vectors of unit length."""
        return (_normalise(self.images(self.network, images)),)

    def encode_text(self, ids: torch.Tensor) -> States:
        """Return text vectors of unit length."""
        if self.padded_length:
            pad_id = self.tokenizer.pad_token_id
            ids = torch.nn.functional.pad(ids, (0, self.padded_length - ids.shape[1]), value=pad_id)
        return (_normalise(self.texts(self.network, ids)),)

    def fuse(self, text: States, image: States) -> torch.Tensor:
        """Return the scaled cosine, plus the bias."""
        return self.scale * (text[0] * image[0]).sum(dim=-1) + self.bias


@torch.inference_mode()
def compute_image_vector(encoder: Encoder, image: Image.Image) -> np.ndarray:
    """Return an image's vector of unit length, encoded alone: float64 of shape (size,)."""
    return _to_array(encoder.encode_image(encoder.prepare_image(image)[None]))


@torch.inference_mode()
def compute_text_vector(encoder: Encoder, text: str) -> np.ndarray:
    """Return a text's vector of unit length, encoded alone: float64 of shape (size,).

    Raises:
        UserError: The text is too long for the model.
    """
    return _to_array(encoder.encode_text(torch.tensor([encoder.tokenize(text).ids], device=encoder.device)))


def _to_array(states: States) -> np.ndarray:
    vector: np.ndarray = states[0][0].double().cpu().numpy()
    return vector


def _normalise(vectors: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.normalize(vectors.float(), dim=-1)
