"""VL decoders that replace the placeholder in a prompt by embeddings of the image."""

import copy
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any
from weakref import WeakKeyDictionary

import torch
from PIL import Image

from waltz.core.errors import UserError, shorten_value
from waltz.models.decoders.continuations import generate_texts
from waltz.models.decoders.decoder import (
    ChatTurn,
    Decoder,
    PreparedImage,
    Prompt,
    PromptLayout,
)
from waltz.models.decoders.network import LISTED_INPUTS
from waltz.models.forward_checks import call_with_accepted

MAX_CACHED_IMAGES = 32
"""Maximum number of cached images: 90 MB of tiles of LLaVA-NeXT."""
TEXT_INPUTS = frozenset(
    {
        "input_ids",
        "attention_mask",
        "token_type_ids",
        "mm_token_type_ids",
        "pixel_values",
    }
)
"""Outputs of a processor that describe the text, not the image."""
SMALLEST_FLOAT16 = 2.0**-24
"""The smallest positive number of float16. With its smallest normal number, 2**-14, a normalization
would make a visible image of the filled zeros.
"""
PROBE_SIZE = (90, 70)
"""Width and height of the test image for a loaded model."""


class CachedImageProcessor:
    """An image processor of transformers that caches its results for the last images.

    It is used in place of the wrapped processor: all other attributes are those of that processor.

    Attributes:
        processor: The wrapped image processor.
        results: Processed images by their content and the settings of the call, most recent last.
    """

    def __init__(self, processor: Any) -> None:
        """Wrap an image processor."""
        self.processor = processor
        self.results: OrderedDict[Hashable, Any] = OrderedDict()

    def __getattr__(self, name: str) -> Any:
        """Return any other attribute of the wrapped processor."""
        return getattr(self.processor, name)

    def __call__(self, images: Any, **settings: Any) -> Any:
        """Return the processed images as a copy of the cached mapping."""
        key = (_hash_images(images), repr(sorted(settings.items())))
        if key not in self.results:
            self.results[key] = self.processor(images, **settings)
        self.results.move_to_end(key)
        # The least recently used image leaves the cache first.
        while len(self.results) > MAX_CACHED_IMAGES:
            self.results.popitem(last=False)
        return copy.copy(self.results[key])


def _stack_images(
    features: torch.Tensor | Sequence[torch.Tensor], count: int
) -> torch.Tensor:
    """Return features of images of one size, of shape (images, features, width), from one tensor
    for each image or for all.
    """
    if not isinstance(features, torch.Tensor):
        return torch.stack(tuple(features))
    return features.reshape(count, -1, features.shape[-1])


class ChangedTextError(UserError):
    """A processor changes the text around an image, so that its tokens differ from the prompt's."""


@dataclass(frozen=True, eq=False)
class ImageCache:
    """Results for images, kept as long as the images are in use.

    Attributes:
        embeddings: Embeddings of an unmasked image, of shape (1, features, width).
        layouts: Layouts of prompts with an image, by their text.
    """

    embeddings: WeakKeyDictionary[PreparedImage, torch.Tensor] = field(
        default_factory=WeakKeyDictionary
    )
    layouts: WeakKeyDictionary[PreparedImage, dict[str, PromptLayout]] = field(
        default_factory=WeakKeyDictionary
    )


def is_unmasked(picture: PreparedImage, pixels: torch.Tensor) -> bool:
    """Return whether a batch of variants contains only the unmasked image, and no gradients are
    needed.
    """
    # The same memory: a batch of one masked variant has other pixels in other memory.
    is_same = (
        pixels.shape == (1, *picture.pixels.shape)
        and pixels.data_ptr() == picture.pixels.data_ptr()
    )
    if not is_same or pixels.dtype != picture.pixels.dtype:
        return False
    return not torch.is_grad_enabled()


def _hash_images(images: Any) -> Hashable:
    """Return a hash of the content of PIL images; inputs of other types are never equal."""
    if isinstance(images, Image.Image):
        return images.mode, images.size, sha256(images.tobytes()).digest()
    if isinstance(images, list | tuple):
        return tuple(map(_hash_images, images))
    return object()


def draw_probe(shade: int = 0) -> Image.Image:
    """Return a test image for a loaded model."""
    gradient = Image.linear_gradient("L").resize(PROBE_SIZE).convert("RGB")
    if not shade:
        return gradient
    return gradient.point(lambda level: (level + shade) % 256)


@dataclass(frozen=True, eq=False, kw_only=True)
class VisionLanguageModel(Decoder):
    """A loaded VL decoder.

    Attributes:
        processor: Its processor of texts and images.
        image_id: Id of the positions that the embeddings of the image fill.
        places_image: Whether the processor places the image itself, before the text, so that it must
            not get the placeholder.
        wrapped_placeholder: The placeholder between the words that begin and end an image, where the
            processor takes it only there; empty otherwise.
        fills_zeros: Whether the network drops tiles of zeros as padding, so that completely masked
            tiles need other values.
        cache: Results for images that are still in use.
    """

    processor: Any
    image_id: int
    places_image: bool = False
    wrapped_placeholder: str = ""
    fills_zeros: bool = False
    cache: ImageCache = field(default_factory=ImageCache, repr=False)

    generate = generate_texts

    @property
    def forward_pass(self) -> str:
        """Description of how the network is read."""
        description = super().forward_pass
        if description == "whole rows":
            return f"the image embedded once, {description}"
        return description

    @property
    def chat_renderer(self) -> Any:
        """Processor, whose chat template places the image; the tokenizer if only it has a chat
        template.
        """
        if self.processor.chat_template:
            return self.processor
        return self.tokenizer

    def _build_message_content(self, turn: ChatTurn) -> str | list[dict[str, str]]:
        """Return a turn's content: a list of parts for a processor's template, or text with the
        placeholder for a tokenizer's.
        """
        if not self.processor.chat_template:
            return f"{self.placeholder}\n{turn.text}" if turn.image else turn.text
        text_part = {"type": "text", "text": turn.text}
        return [{"type": "image"}, text_part] if turn.image else [text_part]

    def prepare_image(self, image: Image.Image) -> PreparedImage:
        """Return the prepared image."""
        inputs = self._process(self.placeholder, image)
        extras = {}
        for name, value in inputs.items():
            if name not in TEXT_INPUTS:
                extras[name] = value
        return PreparedImage(
            inputs["pixel_values"].to(self.device, torch.float32), extras, image
        )

    def fill_zeros(self, pixels: torch.Tensor) -> torch.Tensor:
        """Return pixels in the network's precision; if it drops zeros, replace them by the smallest
        number.
        """
        pixels = pixels.to(self.network.model.dtype)
        if not self.fills_zeros:
            return pixels
        smallest = (
            SMALLEST_FLOAT16
            if pixels.dtype == torch.float16
            else torch.finfo(pixels.dtype).tiny
        )
        return pixels.masked_fill(pixels == 0, smallest)

    def encode_image(
        self, picture: PreparedImage, pixels: torch.Tensor
    ) -> torch.Tensor:
        """Return embeddings of the image from vision tower and projector."""
        if not is_unmasked(picture, pixels):
            return self._encode_image(picture, pixels)
        if picture not in self.cache.embeddings:
            self.cache.embeddings[picture] = self._encode_image(picture, pixels)
        return self.cache.embeddings[picture]

    def _encode_image(
        self, picture: PreparedImage, pixels: torch.Tensor
    ) -> torch.Tensor:
        compute_features = self.network.model.get_image_features
        # Variants and tiles share the first axis: from (variants, tiles, ...) to (variants * tiles,
        # ...).
        extras = {
            name: value.repeat_interleave(len(pixels), dim=0)
            for name, value in picture.extras.items()
        }
        inputs = {"pixel_values": self.fill_zeros(pixels).flatten(0, 1), **extras}
        outputs, _ = call_with_accepted(compute_features, inputs)
        embeddings = getattr(outputs, "pooler_output", outputs)
        # Qwen3-VL adds further features of the image to the states behind its first layers.
        deeper = getattr(outputs, "deepstack_features", None) or []
        layers = [_stack_images(layer, len(pixels)) for layer in (embeddings, *deeper)]
        return torch.cat(layers, dim=-1)

    def build_layout(
        self, prompt: Prompt, picture: PreparedImage | None
    ) -> PromptLayout:
        """Return the prompt as the processor expands it."""
        if picture is None and prompt.image_position is None:
            ids = torch.tensor([prompt.ids], device=self.device)
            return PromptLayout((), (), self._compute_positions(ids, None, None))
        if picture is None or prompt.image_position is None:
            fault = (
                "has a placeholder but no image"
                if picture is None
                else "has no placeholder for its image"
            )
            raise UserError(
                f"models.{self.spec.name}: a prompt {fault}: {shorten_value(repr(prompt.text))}"
            )
        # A prompt is laid out once for each image.
        layouts = self.cache.layouts.setdefault(picture, {})
        if prompt.text not in layouts:
            layouts[prompt.text] = self._build_layout(
                prompt, picture, prompt.image_position
            )
        return layouts[prompt.text]

    def _build_layout(
        self, prompt: Prompt, picture: PreparedImage, image_position: int
    ) -> PromptLayout:
        inputs = self._process(prompt.text, picture.image)
        block = self._find_block(
            prompt, inputs["input_ids"][0].tolist(), image_position
        )
        features = tuple(
            position for position, token in enumerate(block) if token == self.image_id
        )
        positions = self._compute_positions(
            inputs["input_ids"], picture, inputs.get("mm_token_type_ids")
        )
        return PromptLayout(block, features, positions)

    def _find_block(
        self, prompt: Prompt, ids: list[int], image_position: int
    ) -> tuple[int, ...]:
        """Return the ids of the expanded prompt that replace the placeholder."""
        # The text before and behind the image must have the tokens of the prompt; the ids between
        # are the block.
        tail = len(prompt.ids) - image_position - 1
        keeps_start = tuple(ids[:image_position]) == prompt.ids[:image_position]
        keeps_end = tuple(ids[len(ids) - tail :]) == prompt.ids[image_position + 1 :]
        if not (keeps_start and keeps_end):
            fault, advice = (
                "changes the text around the image",
                "word the prompt otherwise there",
            )
            if self.places_image:
                fault, advice = (
                    "places the image before the text",
                    "begin the prompt with its placeholder",
                )
            raise ChangedTextError(
                f"models.{self.spec.name}: the processor {fault}: {shorten_value(repr(prompt.text))}; {advice}"
            )
        if len(ids) > self.window:
            raise UserError(
                f"models.{self.spec.name}: {len(ids)} positions with the image, at most {self.window} are read:"
                f" {shorten_value(repr(prompt.text))}; shorten the prompt"
            )
        return tuple(ids[image_position : len(ids) - tail])

    def _process(self, text: str, image: Image.Image) -> dict[str, torch.Tensor]:
        """Return the tensors that the processor makes of a text and an image, on the device."""
        # As in `build_prompt`, a start token in the text is not added again.
        start = self.tokenizer.bos_token
        options = {
            "add_special_tokens": not (start and text.startswith(start)),
        }
        if self.places_image:
            text, options = text.replace(self.placeholder, ""), {}
        # The processor of Cosmos 3 Edge returns types of tokens, which the network needs, on demand.
        if "mm_token_type_ids" in getattr(self.processor, "model_input_names", ()):
            options["return_mm_token_type_ids"] = True
        if self.wrapped_placeholder and self.wrapped_placeholder not in text:
            text = text.replace(self.placeholder, self.wrapped_placeholder)
        inputs = self.processor(
            text=[text],
            images=[image.convert("RGB")],
            return_tensors="pt",
            **options,
        )
        outputs = {}
        for name, value in inputs.items():
            # Unlimited-OCR's processor returns the numbers of tiles as lists.
            if name in LISTED_INPUTS:
                value = torch.as_tensor(value)
            if isinstance(value, torch.Tensor):
                outputs[name] = value.to(self.device)
        return outputs

    def _compute_positions(
        self,
        ids: torch.Tensor,
        picture: PreparedImage | None,
        token_types: torch.Tensor | None,
    ) -> torch.Tensor:
        """Return positions of ids; Qwen numbers the positions of an image by rows and columns."""
        body = self.network.model.base_model
        # Most networks count positions one by one; Qwen's have three axes: time, row and column.
        if not hasattr(body, "get_rope_index"):
            return torch.arange(ids.shape[1], device=self.device)
        inputs = {
            "input_ids": ids,
            "attention_mask": torch.ones_like(ids),
            "mm_token_type_ids": torch.zeros_like(ids)
            if token_types is None
            else token_types,
            "image_grid_thw": picture.extras["image_grid_thw"]
            if picture is not None
            else None,
        }
        (rope_positions, _), _ = call_with_accepted(body.get_rope_index, inputs)
        # From (axes, rows, positions) to (axes, positions)
        positions: torch.Tensor = rope_positions[:, 0]
        return positions
