"""Which images fit a text best, by a contrastive model of two encoders (CLIP)."""

import contextlib
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import transformers
from PIL import Image

from waltz.core.devices import Device
from waltz.core.errors import UserError
from waltz.models.registry import ModelSpec


@dataclass(frozen=True)
class Retriever:
    """A loaded model of two encoders.

    Attributes:
        network: The transformers CLIP model, in evaluation mode.
        processor: Its processor of texts and images.
        device: A torch device.
    """

    network: Any
    processor: Any
    device: str


def load_retriever(spec: ModelSpec, device: Device) -> Retriever:
    """Load a CLIP by hub id or folder.

    Raises:
        UserError: The weights cannot be had.
    """
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            options = {} if spec.revision == "local" else {"revision": spec.revision}
            network = transformers.CLIPModel.from_pretrained(spec.weights, dtype=getattr(torch, spec.dtype), **options)
            processor = transformers.AutoProcessor.from_pretrained(spec.weights, **options)
    except OSError as error:
        first_line = str(error).strip().splitlines()[0]
        raise UserError(f"cannot load {spec.weights} at {spec.revision}: {first_line}") from error
    return Retriever(network.to(device.name).eval(), processor, device.name)


@torch.inference_mode()
def image_vectors(retriever: Retriever, images: Iterable[Image.Image]) -> np.ndarray:
    """One vector of unit length an image, each read alone: float64 of shape (images, size)."""
    found = []
    for image in images:
        inputs = retriever.processor(images=[image], return_tensors="pt").to(retriever.device)
        found.append(_unit(retriever.network.get_image_features(**inputs).pooler_output))
    return np.stack(found)


@torch.inference_mode()
def text_vectors(retriever: Retriever, texts: Sequence[str]) -> np.ndarray:
    """One vector of unit length a text, each read alone: float64 of shape (texts, size)."""
    found = []
    for text in texts:
        inputs = retriever.processor(text=[text], truncation=True, return_tensors="pt").to(retriever.device)
        found.append(_unit(retriever.network.get_text_features(**inputs).pooler_output))
    return np.stack(found)


def _unit(vectors: torch.Tensor) -> np.ndarray:
    vector: np.ndarray = torch.nn.functional.normalize(vectors[0].double(), dim=0).cpu().numpy()
    return vector
