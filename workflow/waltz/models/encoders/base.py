"""What encoders of transformers share: a network with what prepares its texts and images."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import torch
import transformers
from PIL import Image

from waltz.core.devices import Device
from waltz.core.errors import UserError
from waltz.models import pretrained
from waltz.models.encoders.encoder import TokenizedText, find_masked_id, tokenize_text
from waltz.models.networks.detector.regions import load_detected_regions
from waltz.models.regions import ImageOrRegions, RegionProvider, open_stored_regions
from waltz.models.registry import ModelSpec


@dataclass(frozen=True)
class Processors:
    """A checkpoint's tokenizer and image processor.

    Attributes:
        reader: The transformers class that reads the tokenizer.
        tokenizer: A fast tokenizer.
        images: The image processor that resizes with PIL, whatever else is installed: others give other pixels.
    """

    reader: ClassVar[Any] = transformers.AutoTokenizer
    tokenizer: Any
    images: Any

    @classmethod
    def from_pretrained(cls, source: str, **options: Any) -> Self:
        """Both of a hub id or folder."""
        return cls(
            cls.reader.from_pretrained(source, **options),
            transformers.AutoImageProcessor.from_pretrained(source, backend="pil", **options),
        )


@dataclass(frozen=True)
class BaseEncoder:
    """A loaded network with its tokenizer; an encoder adds the image, `see`, `read` and `fuse` (`encoder.Encoder`).

    Attributes:
        network: The transformers model, in evaluation mode.
        tokenizer: Its tokenizer.
        longest: Most tokens that it reads, special ones included.
        spare: Token that stands for a masked one where the tokenizer has neither a mask nor an unknown token.
    """

    spec: ModelSpec
    device: str
    network: Any
    tokenizer: Any
    longest: int
    spare: str = field(default="", kw_only=True)

    @property
    def masked_id(self) -> int:
        """Token id that stands for a masked token; see `encoder.masked_id`."""
        return find_masked_id(self.tokenizer, self.spec, self.spare)

    def tokenize(self, text: str) -> TokenizedText:
        """Tokens of a text; see `encoder.Encoder`."""
        return tokenize_text(self.tokenizer, text, self.longest, self.spec.name)


@dataclass(frozen=True)
class PixelEncoder(BaseEncoder):
    """A network that sees pixels.

    Attributes:
        processor: What prepares an image.
    """

    processor: Any

    def prepare_image(self, image: Image.Image) -> torch.Tensor:
        """The prepared image; see `encoder.Encoder`."""
        pixels = self.processor(images=[image], return_tensors="pt")["pixel_values"][0]
        prepared: torch.Tensor = pixels.to(self.device, self.network.dtype)
        return prepared


@dataclass(frozen=True)
class RegionEncoder(BaseEncoder):
    """A network that sees regions.

    Attributes:
        provider: Where its regions come from.
    """

    provider: RegionProvider

    @property
    def detector(self) -> str:
        """The detector that it expects; empty for any."""
        return ""

    @property
    def whole_image(self) -> bool:
        """Whether the first row of prepared regions is the whole image."""
        return False

    def prepare_image(self, image: ImageOrRegions) -> torch.Tensor:
        """The prepared image, or its regions; see `regions.Provider`."""
        return self.provider.prepare_image(image)


def load_pixel_encoder(
    spec: ModelSpec, device: Device, network_class: Any, head: str = "", reader: type[Processors] = Processors
) -> tuple[Any, dict[str, Any]]:
    """A network, and the fields of `OnPixels` for it but for the longest text.

    Args:
        spec: A model by hub id or folder.
        device: Where it shall run.
        network_class: Its transformers class.
        head: What the class adds to a network, for the error about a checkpoint without it.
        reader: What reads its processors.
    Raises:
        UserError: The weights or tokenizer cannot be had, or lack parameters of the network.
    """
    network, processors = pretrained.load_pretrained(spec, network_class, head, reader)
    return network, {
        **_build_common_fields(spec, device, network, processors.tokenizer),
        "processor": processors.images,
    }


def load_region_encoder(
    spec: ModelSpec, device: Device, network_class: Any, head: str, width: str, reader: Any = transformers.AutoTokenizer
) -> tuple[Any, dict[str, Any]]:
    """A network, and the fields of `OnRegions` for it but for the longest text.

    With a detector, an image passes `see` alone: what is looked at together would cost memory and save no time.

    Args:
        spec: A model by hub id or folder, whose entry names regions or a detector.
        device: Where it shall run.
        network_class: Its transformers class.
        head: What the class adds to a network, for the error about a checkpoint without it.
        width: What its config calls the number of a region's features.
        reader: What reads its tokenizer.
    Raises:
        UserError: As `on_pixels` does, or the entry names neither regions nor a detector, or both.
    """
    where = f"models.{spec.name}"
    if spec.detector and (spec.regions or spec.masks):
        other = "regions" if spec.regions else "masks"
        raise UserError(f"{where}.{other}: goes with regions found before, and a `detector` is named; leave one out")
    network, tokenizer = pretrained.load_pretrained(spec, network_class, head, reader)
    features = getattr(network.config, width)
    if not (spec.detector or spec.regions):
        raise UserError(
            f"{where}.regions: missing: this model sees regions of {features} features; name the .npz, .tsv or"
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
    """Whether a tokenizer knows special tokens alone, as one that transformers makes up where there is no file."""
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
