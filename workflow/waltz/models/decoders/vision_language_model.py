"""VL decoders: embeddings of an image take the place of its placeholder in the prompt."""

import copy
import inspect
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any
from weakref import WeakKeyDictionary

import torch
from PIL import Image

from waltz.core.errors import UserError
from waltz.models.decoders.continuations import generate_texts
from waltz.models.decoders.decoder import Decoder, PreparedImage, Prompt, PromptLayout, Turn

MAX_CACHED_IMAGES = 32
"""Maximum number of cached images: 90 MB of tiles of LLaVA-NeXT."""
TEXT_INPUTS = frozenset({"input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids", "pixel_values"})
"""Outputs of a processor that hold no extra information about the image."""
ZERO_DROPPING_FAMILIES = frozenset({"idefics2", "idefics3", "smolvlm"})
"""Families that treat a tile of zeros as padding, so that a fully masked tile would vanish."""
PROBE_SIZE = (90, 70)
"""Width and height of the test image for a loaded model."""


class CachedImageProcessor:
    """An image processor of transformers that caches its results for the last images.

    It passes for the processor that it stands before: all else is that one's own.

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
        while len(self.results) > MAX_CACHED_IMAGES:
            self.results.popitem(last=False)
        return copy.copy(self.results[key])


@dataclass(frozen=True, eq=False)
class ImageCache:
    """Results for images, kept as long as the images are in use.

    Attributes:
        embeddings: Embeddings of an unmasked image, of shape (1, features, width).
        layouts: Layouts of prompts with an image, by their text.
    """

    embeddings: WeakKeyDictionary[PreparedImage, torch.Tensor] = field(default_factory=WeakKeyDictionary)
    layouts: WeakKeyDictionary[PreparedImage, dict[str, PromptLayout]] = field(default_factory=WeakKeyDictionary)


def is_unmasked(picture: PreparedImage, pixels: torch.Tensor) -> bool:
    """Return whether a batch of variants is just the image itself, and no gradients are needed."""
    is_same = pixels.shape == (1, *picture.pixels.shape) and pixels.data_ptr() == picture.pixels.data_ptr()
    return is_same and pixels.dtype == picture.pixels.dtype and not torch.is_grad_enabled()


def _hash_images(images: Any) -> Hashable:
    """Return a hash of the content of images; other types than PIL's are never equal."""
    if isinstance(images, Image.Image):
        return images.mode, images.size, sha256(images.tobytes()).digest()
    return tuple(map(_hash_images, images)) if isinstance(images, list | tuple) else object()


def draw_probe(shade: int = 0) -> Image.Image:
    """Return a test image for a loaded model."""
    gradient = Image.linear_gradient("L").resize(PROBE_SIZE).convert("RGB")
    return gradient.point(lambda level: (level + shade) % 256) if shade else gradient


@dataclass(frozen=True, eq=False, kw_only=True)
class VisionLanguageModel(Decoder):
    """A loaded VL decoder.

    Attributes:
        processor: Its processor of texts and images.
        image_id: Id of the positions that the embeddings of the image fill.
        cache: Results for images that are still in use.
    """

    processor: Any
    image_id: int
    cache: ImageCache = field(default_factory=ImageCache, repr=False)

    generate = generate_texts

    @property
    def chat_renderer(self) -> Any:
        """Processor, whose chat template places the image; the tokenizer if only it has a chat template."""
        return self.processor if self.processor.chat_template else self.tokenizer

    def _build_message_content(self, turn: Turn) -> str | list[dict[str, str]]:
        """Return a turn as a processor wants it, a list of parts, or as a tokenizer does, with the placeholder."""
        if not self.processor.chat_template:
            return f"{self.placeholder}\n{turn.text}" if turn.image else turn.text
        return [*([{"type": "image"}] if turn.image else []), {"type": "text", "text": turn.text}]

    def prepare_image(self, image: Image.Image) -> PreparedImage:
        """Return the prepared image."""
        inputs = self._process(self.placeholder, image)
        extras = {
            name: value for name, value in inputs.items() if name not in TEXT_INPUTS and isinstance(value, torch.Tensor)
        }
        return PreparedImage(inputs["pixel_values"].to(self.device, torch.float32), extras, image)

    def encode_image(self, picture: PreparedImage, pixels: torch.Tensor) -> torch.Tensor:
        """Return embeddings of the image from vision tower and projector."""
        if not is_unmasked(picture, pixels):
            return self._encode_image(picture, pixels)
        if picture not in self.cache.embeddings:
            self.cache.embeddings[picture] = self._encode_image(picture, pixels)
        return self.cache.embeddings[picture]

    def _encode_image(self, picture: PreparedImage, pixels: torch.Tensor) -> torch.Tensor:
        if self.network.model.config.model_type in ZERO_DROPPING_FAMILIES:
            pixels = pixels.masked_fill(pixels == 0, torch.finfo(self.network.model.dtype).tiny)
        extras = {name: value.repeat_interleave(len(pixels), dim=0) for name, value in picture.extras.items()}
        parameters = inspect.signature(self.network.model.base_model.get_image_features).parameters
        outputs = self.network.model.get_image_features(
            pixel_values=pixels.flatten(0, 1).to(self.network.model.dtype),
            **{name: value for name, value in extras.items() if name in parameters},
        )
        embeddings = getattr(outputs, "pooler_output", outputs)
        if not isinstance(embeddings, torch.Tensor):
            return torch.stack(tuple(embeddings))
        return embeddings.reshape(len(pixels), -1, embeddings.shape[-1])

    def build_layout(self, prompt: Prompt, picture: PreparedImage | None) -> PromptLayout:
        """Return the prompt as the processor expands it."""
        if (picture is None) != (prompt.image_position is None):
            fault = "has a placeholder but no image" if picture is None else "has no placeholder for its image"
            raise UserError(f"models.{self.spec.name}: a prompt {fault}: {prompt.text[:60]!r}...")
        if picture is None or prompt.image_position is None:
            return PromptLayout(
                (), (), self._compute_positions(torch.tensor([prompt.ids], device=self.device), None, None)
            )
        layouts = self.cache.layouts.setdefault(picture, {})
        if prompt.text not in layouts:
            layouts[prompt.text] = self._build_layout(prompt, picture, prompt.image_position)
        return layouts[prompt.text]

    def _build_layout(self, prompt: Prompt, picture: PreparedImage, image_position: int) -> PromptLayout:
        inputs = self._process(prompt.text, picture.image)
        block = self._find_block(prompt, inputs["input_ids"][0].tolist(), image_position)
        features = tuple(position for position, token in enumerate(block) if token == self.image_id)
        return PromptLayout(
            block, features, self._compute_positions(inputs["input_ids"], picture, inputs.get("mm_token_type_ids"))
        )

    def _find_block(self, prompt: Prompt, ids: list[int], image_position: int) -> tuple[int, ...]:
        """Return the ids that stand for the placeholder among those of the expanded prompt."""
        tail = len(prompt.ids) - image_position - 1
        if (
            tuple(ids[:image_position]) != prompt.ids[:image_position]
            or tuple(ids[len(ids) - tail :]) != prompt.ids[image_position + 1 :]
        ):
            raise UserError(
                f"models.{self.spec.name}: the processor changes the text around the image, which is not known here;"
                f" this family cannot be explained yet: {prompt.text[:60]!r}..."
            )
        if len(ids) > self.window:
            raise UserError(
                f"models.{self.spec.name}: {len(ids)} positions with the image, at most {self.window} are read:"
                f" {prompt.text[:60]!r}...; shorten the prompt"
            )
        return tuple(ids[image_position : len(ids) - tail])

    def _process(self, text: str, image: Image.Image) -> dict[str, Any]:
        start = self.tokenizer.bos_token
        inputs = self.processor(
            text=[text],
            images=[image.convert("RGB")],
            add_special_tokens=not (start and text.startswith(start)),
            return_tensors="pt",
        )
        return {
            name: value.to(self.device) if isinstance(value, torch.Tensor) else value for name, value in inputs.items()
        }

    def _compute_positions(
        self, ids: torch.Tensor, picture: PreparedImage | None, token_types: torch.Tensor | None
    ) -> torch.Tensor:
        """Return positions of ids; Qwen counts those of an image by its rows and columns."""
        body = self.network.model.base_model
        if hasattr(body, "get_rope_index"):
            rope_positions, _ = body.get_rope_index(
                ids,
                mm_token_type_ids=torch.zeros_like(ids) if token_types is None else token_types,
                image_grid_thw=picture.extras["image_grid_thw"] if picture is not None else None,
            )
            positions: torch.Tensor = rope_positions[:, 0]
            return positions
        return torch.arange(ids.shape[1], device=self.device)
