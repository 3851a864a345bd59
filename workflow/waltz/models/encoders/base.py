"""Base classes of encoders that read pixels, that read regions, or that compare a text vector with
an image vector.
"""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from PIL import Image

from waltz.core.errors import UserError, get_first_line
from waltz.core.jobs.devices import Device
from waltz.model_registry import (
    BERT_REVISION,
    BERT_TOKENIZER,
    TOKENIZER_FILES,
    ModelSpec,
)
from waltz.models import pretrained
from waltz.models.encoders.encoder import (
    Encoder,
    States,
    TokenizedText,
    find_masked_id,
    tokenize_text,
)
from waltz.models.regions import (
    DetectedRegions,
    ImageOrRegions,
    RegionProvider,
    load_region_provider,
)

TRIAL_IMAGE = Image.new("RGB", (64, 48))
"""Test image that shows damaged values of a processor before the weights are read."""
MAX_ASPECT_RATIO = 1333 / 800
"""Longest side of an image prepared for ViLT or BridgeTower, in units of the length of its shortest
side.
"""
Fields = dict[str, Any]
"""Values of the fields of an encoder's dataclass."""
PACKING_OPERATIONS = ("_reorder_linear_weight", "_linear_pointwise")
"""Operations of PyTorch that `PackedLinear` needs."""


@dataclass(frozen=True)
class BaseEncoder:
    """A loaded network with its tokenizer; an encoder adds `prepare_image`, `encode_image`,
    `encode_text` and `fuse`.

    Attributes:
        spec: The encoder's entry in the registry or the study.
        device: A torch device.
        network: The network, in evaluation mode.
        tokenizer: Its tokenizer.
        max_tokens: Maximum number of tokens, special tokens included.
        fallback_mask: Token that replaces a masked one if the tokenizer has neither a mask nor an
            unknown token.
        late: See `encoder.Encoder`.
        probability: See `encoder.Encoder`.
    """

    spec: ModelSpec
    device: str
    network: Any
    tokenizer: Any
    max_tokens: int
    fallback_mask: str = field(default="", kw_only=True)
    late: bool = field(default=False, kw_only=True)
    probability: bool = field(default=True, kw_only=True)

    @property
    def masked_id(self) -> int:
        """Token id that replaces a masked token; see `encoder.find_masked_id`."""
        return find_masked_id(self.tokenizer, self.spec, self.fallback_mask)

    def tokenize(self, text: str) -> TokenizedText:
        """Return the tokens of a text; see `encoder.Encoder`."""
        return tokenize_text(self.tokenizer, text, self.max_tokens, self.spec.name)


@dataclass(frozen=True)
class PixelEncoder(BaseEncoder):
    """An encoder that reads pixels; `processor` is its image processor."""

    processor: Any

    def prepare_image(self, image: Image.Image) -> torch.Tensor:
        """Return the prepared image; see `encoder.Encoder`."""
        # The processor takes and gives batches.
        pixels = self.processor(images=[image], return_tensors="pt")["pixel_values"][0]
        prepared: torch.Tensor = pixels.to(self.device, self.network.dtype)
        return prepared


def widen_thin_image(image: Image.Image, processor: Any) -> Image.Image:
    """Return an image whose shorter side is not less than a row of patches of a processor of ViLT
    or BridgeTower.
    """
    # The processor shrinks the longer side to this many patches.
    patches = (
        int(MAX_ASPECT_RATIO * processor.size["shortest_edge"])
        // processor.size_divisor
    )
    min_side = math.ceil(max(image.size) / patches)
    if min(image.size) >= min_side:
        return image
    return image.resize((max(image.width, min_side), max(image.height, min_side)))


@dataclass(frozen=True)
class RegionEncoder(BaseEncoder):
    """An encoder that reads regions; `provider` is their source."""

    provider: RegionProvider

    def prepare_image(self, image: ImageOrRegions) -> torch.Tensor:
        """Return the prepared image, or its regions."""
        return self.provider.prepare_image(image)


@dataclass(frozen=True, kw_only=True)
class LateFusionEncoder(PixelEncoder):
    """An encoder with two towers; see `encoder.LateEncoder`.

    Attributes:
        scale: Factor of the cosine.
        bias: Number that is added to the scaled cosine.
        padded_length: Length to which texts are padded if the network was trained with padding that
            it reads; else 0.
    """

    scale: float
    bias: float = 0.0
    padded_length: int = 0
    late: bool = True
    probability: bool = False
    images_per_batch: int = 32
    texts_per_batch: int = 128
    pairs_per_batch: int = 4096

    def compute_image_vectors(self, images: torch.Tensor) -> torch.Tensor:
        """Return image vectors that are not normalized, by default from transformers'
        `get_image_features`.
        """
        vectors: torch.Tensor = self.network.get_image_features(
            pixel_values=images
        ).pooler_output
        return vectors

    def compute_text_vectors(self, ids: torch.Tensor) -> torch.Tensor:
        """Return text vectors that are not normalized, by default from transformers'
        `get_text_features`.
        """
        vectors: torch.Tensor = self.network.get_text_features(
            input_ids=ids
        ).pooler_output
        return vectors

    def encode_image(self, images: torch.Tensor) -> States:
        """Return image vectors of unit length."""
        return (
            torch.nn.functional.normalize(
                self.compute_image_vectors(images).float(), dim=-1
            ),
        )

    def encode_text(self, ids: torch.Tensor) -> States:
        """Return text vectors of unit length."""
        if self.padded_length:
            count = self.padded_length - ids.shape[1]
            # Padding on the side that the network was trained with.
            left, right = 0, count
            if self.tokenizer.padding_side == "left":
                left, right = count, 0
            ids = torch.nn.functional.pad(
                ids, (left, right), value=self.tokenizer.pad_token_id
            )
        return (
            torch.nn.functional.normalize(
                self.compute_text_vectors(ids).float(), dim=-1
            ),
        )

    def fuse(self, text: States, image: States) -> torch.Tensor:
        """Return the scaled cosine, plus the bias."""
        # CLIP (Radford et al., 2021), figure 3: exp(t) * <text, image>, of unit vectors; SigLIP
        # adds a bias.
        return self.scale * (text[0] * image[0]).sum(dim=-1) + self.bias


@torch.inference_mode()
def compute_image_vector(encoder: Encoder, image: Image.Image) -> np.ndarray:
    """Return an image's vector of unit length, encoded alone: float64 of shape (size,)."""
    vector: np.ndarray = (
        encoder.encode_image(encoder.prepare_image(image)[None])[0][0]
        .double()
        .cpu()
        .numpy()
    )
    return vector


@torch.inference_mode()
def compute_text_vector(encoder: Encoder, text: str) -> np.ndarray:
    """Return a text's vector of unit length, encoded alone: float64 of shape (size,).

    Raises:
        UserError: The text is too long for the model.
    """
    ids = torch.tensor([encoder.tokenize(text).ids], device=encoder.device)
    vector: np.ndarray = encoder.encode_text(ids)[0][0].double().cpu().numpy()
    return vector


def load_pixel_encoder(
    spec: ModelSpec,
    device: Device,
    network_class: Any,
    head: str = "",
    tokenizer_class: Any = transformers.AutoTokenizer,
) -> Fields:
    """Return the fields of a `PixelEncoder`, with its network.

    Args:
        spec: A model by hub id or folder, or a loaded model, whose network stays as it is.
        device: The device.
        network_class: Transformers class of the network.
        head: Name of the head that the class adds, for the error about a checkpoint without it.
        tokenizer_class: Class of the fast tokenizer.
    Raises:
        UserError: The weights or tokenizer cannot be loaded, or lack parameters of the network.
    """

    class Processors:
        """Loader of the tokenizer and of the image processor that resizes with PIL; other backends
        give different pixels.
        """

        @staticmethod
        def from_pretrained(source: str, **options: Any) -> tuple[Any, Any]:
            images = transformers.AutoImageProcessor.from_pretrained(
                source, backend="pil", **options
            )
            # A damaged value is found here.
            images(images=[TRIAL_IMAGE], return_tensors="pt")
            return tokenizer_class.from_pretrained(source, **options), images

    if isinstance(spec, pretrained.LoadedSpec):
        if not isinstance(spec.network, network_class):
            raise UserError(
                f"models.{spec.name}: {type(spec.network).__name__} gives no score of a text with an image (expected"
                f" {network_class.__name__}); load the checkpoint with that class"
            )
        # Layers are replaced below, and the user's network must not change.
        network = pretrained.share_weights(spec.network)
        tokenizer, processor = spec.processor.tokenizer, spec.processor.image_processor
    else:
        network, (tokenizer, processor) = pretrained.load_pretrained(
            spec, network_class, head, Processors, device.name
        )
    return {
        **build_common_fields(spec, device, network, tokenizer),
        "processor": processor,
    }


def load_region_encoder(
    spec: ModelSpec, device: Device, network_class: Any, head: str, width_key: str
) -> Fields:
    """Return the fields of a `RegionEncoder`, with its network.

    Args:
        spec: A model by hub id or folder, whose entry names regions or a detector.
        device: The device.
        network_class: Transformers class of the network.
        head: Head that the class adds to a network, for the error about a checkpoint without it.
        width_key: Key of the config with the number of features of a region.
    Raises:
        UserError: As for `load_pixel_encoder`, or the entry names neither regions nor a detector,
            or both.
    """
    network, tokenizer = pretrained.load_pretrained(
        spec, network_class, head, device=device.name
    )
    # Checkpoints of regions often come without the tokenizer, which is BERT's.
    if has_no_vocabulary(tokenizer):
        tokenizer = load_bert_tokenizer(spec)
    provider = load_region_provider(
        spec, getattr(network.config, width_key), device.name
    )
    return {
        **build_common_fields(spec, device, network, tokenizer),
        **build_provider_fields(provider),
    }


def build_provider_fields(provider: RegionProvider) -> Fields:
    """Return the fields of a `RegionEncoder` that depend on its source of regions.

    With a detector, each image passes `encode_image` alone: a batch would need more memory and save
    no time, and the images can have different numbers of regions.
    """
    if isinstance(provider, DetectedRegions):
        return {"provider": provider, "images_per_batch": 1}
    return {"provider": provider}


def read_single_value(parameter: torch.Tensor) -> float:
    """Return the number in a parameter of one element; NaN on the meta device, which has no values."""
    if parameter.is_meta:
        return math.nan
    return float(parameter.detach())


def load_bert_tokenizer(spec: ModelSpec, folder: Path | None = None) -> Any:
    """Return the fast tokenizer in the folder of a checkpoint file, or BERT's tokenizer if the
    folder has none.

    Args:
        spec: The model's entry.
        folder: Folder of the checkpoint file; None for BERT's tokenizer.
    Raises:
        UserError: The tokenizer cannot be loaded, or has no vocabulary.
    """
    files = []
    if folder is not None:
        files = [name for name in TOKENIZER_FILES if (folder / name).is_file()]
    # BERT's tokenizer, at a fixed commit, if the folder has no tokenizer.
    source, options = BERT_TOKENIZER, {"revision": BERT_REVISION}
    if files:
        source, options = str(folder), {}
    tokenizer_class: Any = transformers.AutoTokenizer
    if files == ["vocab.txt"]:  # without settings that name a class
        tokenizer_class = transformers.BertTokenizer
    try:
        tokenizer = tokenizer_class.from_pretrained(
            source, trust_remote_code=False, **options
        )
    except Exception as error:  # damaged files can raise anything
        raise UserError(
            f"models.{spec.name}: cannot load the tokenizer {source}: {get_first_line(error)}; check the network,"
            f" or copy the files of {BERT_TOKENIZER} next to the weights"
        ) from error
    # Slow tokenizers do not return the characters of tokens, which the display of players needs.
    if has_no_vocabulary(tokenizer) or not getattr(tokenizer, "is_fast", False):
        raise UserError(
            f"models.{spec.name}: {source} has no fast tokenizer; copy the files of {BERT_TOKENIZER} there"
        )
    return tokenizer


def has_no_vocabulary(tokenizer: Any) -> bool:
    """Return whether a tokenizer knows only special tokens, as transformers creates it without a
    vocabulary file.
    """
    return len(tokenizer) <= len(tokenizer.all_special_tokens)


def build_common_fields(
    spec: ModelSpec, device: Device, network: Any, tokenizer: Any
) -> Fields:
    """Return the fields of a `BaseEncoder`.

    Raises:
        UserError: The tokenizer has no vocabulary.
    """
    if has_no_vocabulary(tokenizer):
        raise UserError(
            f"models.{spec.name}: {spec.weights} has no tokenizer; copy the files of its tokenizer there"
        )
    # Models with two towers have a config for each.
    text_config = getattr(network.config, "text_config", network.config)
    return {
        "spec": spec,
        "device": device.name,
        "network": network.to(device.name).eval(),
        "tokenizer": tokenizer,
        "max_tokens": text_config.max_position_embeddings,
    }


def count_tokens(network: Any, tokenizer: Any) -> int:
    """Return the maximum number of tokens: positions of the network, or of its tokenizer if it has
    fewer.
    """
    counts: list[int] = [
        network.config.text_config.max_position_embeddings,
        tokenizer.model_max_length,
    ]
    for name, layer in network.named_modules():
        # Positions of RoBERTa begin behind that of padding.
        starts_late = getattr(layer, "padding_idx", None) is not None
        if starts_late and name.endswith("position_embeddings"):
            counts.append(layer.num_embeddings - layer.padding_idx - 1)
    return min(counts)


class PackedLinear(torch.nn.Module):
    """A linear layer for inference on a CPU, whose weights are packed in the layout that oneDNN
    multiplies fastest.

    PyTorch uses another library for float32 layers, which packs no weights beforehand and took 1.1
    to 1.4 times as long on the processors that were measured. PyTorch's compiler emits the same
    operations.
    """

    def __init__(self, layer: torch.nn.Linear) -> None:
        """Pack the weights of a float32 layer on a CPU."""
        super().__init__()
        self.weight: torch.Tensor = torch.ops.mkldnn._reorder_linear_weight(
            layer.weight.detach()
        )
        self.bias: torch.Tensor | None = None
        if layer.bias is not None:
            self.bias = layer.bias.detach()

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Return states of shape (..., in) times the weights, plus the bias."""
        if torch.is_grad_enabled():  # the operation has no gradient
            return torch.nn.functional.linear(states, self.weight.to_dense(), self.bias)
        outputs: torch.Tensor = torch.ops.mkldnn._linear_pointwise(
            states, self.weight, self.bias, "none", [], ""
        )
        return outputs


def pack_linear_layers(network: Any) -> None:
    """Replace the float32 linear layers of a network on a CPU; other layers and devices are
    unchanged.
    """
    if not all(hasattr(torch.ops.mkldnn, name) for name in PACKING_OPERATIONS):
        return
    for name, layer in network.named_children():
        # A subclass may compute something else.
        if type(layer) is not torch.nn.Linear:
            pack_linear_layers(layer)
            continue
        is_on_cpu = layer.weight.device.type == "cpu"
        if is_on_cpu and layer.weight.dtype == torch.float32:
            setattr(network, name, PackedLinear(layer))
