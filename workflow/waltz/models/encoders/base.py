"""Base classes of encoders: a network with its tokenizer that reads pixels, regions, or compares two vectors."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
import torch
import transformers
from PIL import Image

from waltz.core.devices import Device
from waltz.core.errors import UserError
from waltz.model_registry import ModelSpec
from waltz.models import pretrained
from waltz.models.encoders.encoder import Encoder, States, TokenizedText, find_masked_id, tokenize_text
from waltz.models.regions import ImageOrRegions, RegionProvider, load_detected_regions, open_stored_regions


@dataclass(frozen=True)
class Processors:
    """A checkpoint's tokenizer and image processor.

    Attributes:
        tokenizer_class: The transformers class of the tokenizer.
        tokenizer: A fast tokenizer.
        images: The image processor that resizes with PIL, whatever else is installed: others give other pixels.
    """

    tokenizer_class: ClassVar[Any] = transformers.AutoTokenizer
    tokenizer: Any
    images: Any

    @classmethod
    def from_pretrained(cls, source: str, **options: Any) -> Self:
        """Return tokenizer and image processor of a hub id or folder."""
        return cls(
            cls.tokenizer_class.from_pretrained(source, **options),
            transformers.AutoImageProcessor.from_pretrained(source, backend="pil", **options),
        )


@dataclass(frozen=True)
class BaseEncoder:
    """A loaded network with its tokenizer; an encoder adds the image, `encode_image`, `encode_text` and `fuse`.

    Attributes:
        network: The transformers model, in evaluation mode.
        tokenizer: Its tokenizer.
        max_tokens: Maximum number of tokens, special ones included.
        fallback_mask: Token that replaces a masked one if the tokenizer has neither a mask nor an unknown token.
    """

    spec: ModelSpec
    device: str
    network: Any
    tokenizer: Any
    max_tokens: int
    fallback_mask: str = field(default="", kw_only=True)

    @property
    def masked_id(self) -> int:
        """Token id that replaces a masked token; see `encoder.find_masked_id`."""
        return find_masked_id(self.tokenizer, self.spec, self.fallback_mask)

    def tokenize(self, text: str) -> TokenizedText:
        """Return the tokens of a text; see `encoder.Encoder`."""
        return tokenize_text(self.tokenizer, text, self.max_tokens, self.spec.name)


@dataclass(frozen=True)
class PixelEncoder(BaseEncoder):
    """An encoder that reads pixels.

    Attributes:
        processor: Image processor.
    """

    processor: Any

    def prepare_image(self, image: Image.Image) -> torch.Tensor:
        """Return the prepared image; see `encoder.Encoder`."""
        pixels = self.processor(images=[image], return_tensors="pt")["pixel_values"][0]
        prepared: torch.Tensor = pixels.to(self.device, self.network.dtype)
        return prepared


@dataclass(frozen=True)
class RegionEncoder(BaseEncoder):
    """An encoder that reads regions.

    Attributes:
        provider: Source of its regions.
    """

    provider: RegionProvider

    @property
    def detector(self) -> str:
        """Name of the expected detector; empty for any."""
        return ""

    @property
    def whole_image(self) -> bool:
        """Whether row 0 of prepared regions is the whole image."""
        return False

    def prepare_image(self, image: ImageOrRegions) -> torch.Tensor:
        """Return the prepared image, or its regions; see `regions.RegionProvider`."""
        return self.provider.prepare_image(image)


def load_pixel_encoder(
    spec: ModelSpec, device: Device, network_class: Any, head: str = "", processors_class: type[Processors] = Processors
) -> tuple[Any, dict[str, Any]]:
    """Return a network, and the fields of `PixelEncoder` for it except the maximum text length.

    Args:
        spec: A model by hub id or folder.
        device: The device.
        network_class: Its transformers class.
        head: Head that the class adds to a network, for the error about a checkpoint without it.
        processors_class: What reads its processors.
    Raises:
        UserError: The weights or tokenizer cannot be loaded, or lack parameters of the network.
    """
    network, processors = pretrained.load_pretrained(spec, network_class, head, processors_class)
    return network, {
        **_build_common_fields(spec, device, network, processors.tokenizer),
        "processor": processors.images,
    }


def load_region_encoder(
    spec: ModelSpec,
    device: Device,
    network_class: Any,
    head: str,
    width_key: str,
    tokenizer_class: Any = transformers.AutoTokenizer,
) -> tuple[Any, dict[str, Any]]:
    """Return a network, and the fields of `RegionEncoder` for it except the maximum text length.

    With a detector, each image passes `encode_image` alone: a batch would cost memory and save no time.

    Args:
        spec: A model by hub id or folder, whose entry names regions or a detector.
        device: The device.
        network_class: Its transformers class.
        head: Head that the class adds to a network, for the error about a checkpoint without it.
        width_key: What its config calls the number of a region's features.
        tokenizer_class: What reads its tokenizer.
    Raises:
        UserError: As `on_pixels` does, or the entry names neither regions nor a detector, or both.
    """
    where = f"models.{spec.name}"
    if spec.detector and (spec.regions or spec.masks):
        conflicting = "regions" if spec.regions else "masks"
        raise UserError(f"{where}.{conflicting}: needs stored regions, but a `detector` is named; remove one of them")
    network, tokenizer = pretrained.load_pretrained(spec, network_class, head, tokenizer_class)
    features = getattr(network.config, width_key)
    if not (spec.detector or spec.regions):
        raise UserError(
            f"{where}.regions: missing: this model reads regions of {features} features; name the .npz, .tsv or"
            " folder that holds them, or a `detector`"
        )
    common = _build_common_fields(spec, device, network, tokenizer)
    if spec.detector:
        return network, {
            **common,
            "provider": load_detected_regions(spec, features, device.name),
            "images_per_batch": 1,
        }
    return network, {**common, "provider": open_stored_regions(spec, features, device.name)}


def has_no_vocabulary(tokenizer: Any) -> bool:
    """Return whether a tokenizer knows only special tokens, as transformers creates it if there is no file."""
    return len(tokenizer) <= len(tokenizer.all_special_tokens)


def _build_common_fields(spec: ModelSpec, device: Device, network: Any, tokenizer: Any) -> dict[str, Any]:
    if has_no_vocabulary(tokenizer):
        raise UserError(f"models.{spec.name}: {spec.weights} has no tokenizer; copy the files of its tokenizer there")
    return {
        "spec": spec,
        "device": device.name,
        "network": network.to(device.name).eval(),
        "tokenizer": tokenizer,
    }


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


OPERATIONS = ("_reorder_linear_weight", "_linear_pointwise")


class PackedLinear(torch.nn.Module):
    """A linear layer whose weights are packed once; for inference only."""

    def __init__(self, layer: torch.nn.Linear) -> None:
        """Pack the weights of a layer on a CPU, in float32."""
        super().__init__()
        self.weight: torch.Tensor = torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach())
        self.bias = None if layer.bias is None else layer.bias.detach()

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Return states of shape (..., in) times the weights, plus the bias."""
        if torch.is_grad_enabled():  # the operation has no gradient
            return torch.nn.functional.linear(states, self.weight.to_dense(), self.bias)
        outputs: torch.Tensor = torch.ops.mkldnn._linear_pointwise(states, self.weight, self.bias, "none", [], "")
        return outputs


def pack_linear_layers(network: Any) -> None:
    """Replace the float32 linear layers of a network on a CPU; other layers and devices are unchanged."""
    if not all(hasattr(torch.ops.mkldnn, name) for name in OPERATIONS):
        return
    for name, layer in network.named_children():
        if type(layer) is not torch.nn.Linear:
            pack_linear_layers(layer)
        elif layer.weight.dtype == torch.float32 and layer.weight.device.type == "cpu":
            setattr(network, name, PackedLinear(layer))
