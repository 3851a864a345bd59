"""VL decoders: embeddings of an image take the place of its placeholder in the prompt."""

import copy
import inspect
import logging
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any
from weakref import WeakKeyDictionary

import torch
import transformers
from PIL import Image

from waltz.core.devices import Device
from waltz.core.errors import UserError
from waltz.models import pretrained
from waltz.models.decoders import language_model, network, prompts
from waltz.models.decoders.decoder import PreparedImage, Prompt, PromptLayout, Sampling, Turn
from waltz.models.decoders.generation import generate_texts
from waltz.models.decoders.language_model import add_chat_template, build_loading_arguments, move_to_device
from waltz.models.decoders.network import Network
from waltz.models.registry import ModelSpec

MAX_CACHED_IMAGES = 32
"""Processed images that are kept: 90 MB of tiles of LLaVA-NeXT."""


class CachedImageProcessor:
    """An image processor of transformers that is asked about the same image again and again.

    It passes for the processor that it stands before: all else is that one's own.

    Attributes:
        own: The image processor.
        kept: What it made of the last images, by their content and the settings of the call.
    """

    def __init__(self, own: Any) -> None:
        """Stand before an image processor."""
        self.own = own
        self.kept: OrderedDict[Hashable, Any] = OrderedDict()

    def __getattr__(self, name: str) -> Any:
        """Whatever else the processor has."""
        return getattr(self.own, name)

    def __call__(self, images: Any, **settings: Any) -> Any:
        """The processed images; what the caller takes out of the mapping stays here."""
        key = (_hash_images(images), repr(sorted(settings.items())))
        if key not in self.kept:
            self.kept[key] = self.own(images, **settings)
        self.kept.move_to_end(key)
        while len(self.kept) > MAX_CACHED_IMAGES:
            self.kept.popitem(last=False)
        return copy.copy(self.kept[key])


@dataclass(frozen=True, eq=False)
class ImageCache:
    """What is known of pictures as long as somebody holds them.

    Attributes:
        seen: What the vision tower sees of a picture as it is, of shape (1, features, width).
        laid: How prompts with a picture lie in the network, by their text.
    """

    seen: WeakKeyDictionary[PreparedImage, torch.Tensor] = field(default_factory=WeakKeyDictionary)
    laid: WeakKeyDictionary[PreparedImage, dict[str, PromptLayout]] = field(default_factory=WeakKeyDictionary)


def is_unmasked(picture: PreparedImage, pixels: torch.Tensor) -> bool:
    """Whether some variants of a picture are the picture itself, and nobody asks for gradients."""
    same = pixels.shape == (1, *picture.pixels.shape) and pixels.data_ptr() == picture.pixels.data_ptr()
    return same and pixels.dtype == picture.pixels.dtype and not torch.is_grad_enabled()


def _hash_images(images: Any) -> Hashable:
    """What tells images from others; images of other kinds than PIL's are never the same."""
    if isinstance(images, Image.Image):
        return images.mode, images.size, sha256(images.tobytes()).digest()
    return tuple(map(_hash_images, images)) if isinstance(images, list | tuple) else object()


pass

log = logging.getLogger(__name__)

TEXT_INPUTS = frozenset({"input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids", "pixel_values"})
"""What a processor gives that says nothing beside the pixels about the image."""
ZERO_DROPPING_FAMILIES = frozenset({"idefics2", "idefics3", "smolvlm"})
"""Families that take a tile of zeros for padding, so that a wholly masked tile would vanish."""
PROBE_SIZE = (90, 70)
"""Width and height of the image by which a loaded model is tried."""


@dataclass(frozen=True, eq=False)
class VisionLanguageModel:
    """A loaded language model that sees; its fields are those of `decoder.Decoder`.

    Attributes:
        processor: Its processor of texts and images.
        placeholder: What stands for an image in a prompt.
        image_id: Id of the positions that what the vision tower saw fills.
        known: What was made of pictures that are still in use.
    """

    spec: ModelSpec
    device: str
    network: Network
    processor: Any
    placeholder: str
    image_id: int
    ends: frozenset[int]
    window: int
    positions_per_batch: int = 4096
    reads_images: bool = True
    known: ImageCache = field(default_factory=ImageCache, repr=False)

    @property
    def tokenizer(self) -> Any:
        """The processor's tokenizer."""
        return self.processor.tokenizer

    @property
    def has_chat_template(self) -> bool:
        """Whether processor or tokenizer has a chat template."""
        return bool(self.processor.chat_template or self.processor.tokenizer.chat_template)

    @property
    def masked_id(self) -> int:
        """Stands for a masked token; see `decoder.Decoder`.

        Raises:
            UserError: The entry names no token, and the tokenizer has none that can.
        """
        return prompts.find_masked_id(self.processor.tokenizer, self.spec)

    def render_chat(self, turns: Sequence[Turn]) -> str:
        """A conversation by the chat template; see `decoder.Decoder`."""
        return prompts.render_chat(
            self.processor.apply_chat_template, self.has_chat_template, turns, self.spec, parts=True
        )

    def build_prompt(self, text: str) -> Prompt:
        """Ids of a rendered prompt, with one placeholder; see `decoder.Decoder`."""
        return prompts.tokenize_prompt(self.processor.tokenizer, text, self.placeholder, self.window, self.spec)

    def prepare_image(self, image: Image.Image) -> PreparedImage:
        """The prepared image; see `decoder.Decoder`."""
        found = self._processed(self.placeholder, image)
        beside = {
            name: value for name, value in found.items() if name not in TEXT_INPUTS and isinstance(value, torch.Tensor)
        }
        return PreparedImage(found["pixel_values"].to(self.device, torch.float32), beside, image)

    def encode_image(self, picture: PreparedImage, pixels: torch.Tensor) -> torch.Tensor:
        """Vision tower and projector; see `decoder.Decoder`."""
        if not is_unmasked(picture, pixels):
            return self._look(picture, pixels)
        if picture not in self.known.seen:
            self.known.seen[picture] = self._look(picture, pixels)
        return self.known.seen[picture]

    def _look(self, picture: PreparedImage, pixels: torch.Tensor) -> torch.Tensor:
        if self.network.model.config.model_type in ZERO_DROPPING_FAMILIES:
            pixels = pixels.masked_fill(pixels == 0, torch.finfo(self.network.model.dtype).tiny)
        many = {name: value.repeat_interleave(len(pixels), dim=0) for name, value in picture.extras.items()}
        known = inspect.signature(self.network.model.base_model.get_image_features).parameters
        found = self.network.model.get_image_features(
            pixel_values=pixels.flatten(0, 1).to(self.network.model.dtype),
            **{name: value for name, value in many.items() if name in known},
        )
        seen = getattr(found, "pooler_output", found)
        return seen if isinstance(seen, torch.Tensor) else torch.stack(tuple(seen))

    def build_layout(self, prompt: Prompt, picture: PreparedImage | None) -> PromptLayout:
        """The prompt as the processor itself expands it; see `decoder.Decoder`."""
        if (picture is None) != (prompt.image_position is None):
            has = "has a placeholder but no image" if picture is None else "has no placeholder for its image"
            raise UserError(f"models.{self.spec.name}: a prompt {has}: {prompt.text[:60]!r}...")
        if picture is None or prompt.image_position is None:
            return PromptLayout((), (), self._positions(torch.tensor([prompt.ids], device=self.device), None, None))
        known = self.known.laid.setdefault(picture, {})
        if prompt.text not in known:
            known[prompt.text] = self._layout(prompt, picture, prompt.image_position)
        return known[prompt.text]

    def _layout(self, prompt: Prompt, picture: PreparedImage, at: int) -> PromptLayout:
        found = self._processed(prompt.text, picture.image)
        ids = found["input_ids"][0].tolist()
        after = len(prompt.ids) - at - 1
        if tuple(ids[:at]) != prompt.ids[:at] or tuple(ids[len(ids) - after :]) != prompt.ids[at + 1 :]:
            raise UserError(
                f"models.{self.spec.name}: the processor changes the text around the image, which is not known here;"
                f" this family cannot be explained yet: {prompt.text[:60]!r}..."
            )
        if len(ids) > self.window:
            raise UserError(
                f"models.{self.spec.name}: {len(ids)} positions with the image, at most {self.window} are read:"
                f" {prompt.text[:60]!r}...; shorten the prompt"
            )
        block = tuple(ids[at : len(ids) - after])
        features = tuple(place for place, token in enumerate(block) if token == self.image_id)
        return PromptLayout(
            block, features, self._positions(found["input_ids"], picture, found.get("mm_token_type_ids"))
        )

    def find_label_id(self, prompt: Prompt, label: str) -> int:
        """The first token of a label after a prompt; see `decoder.Decoder`."""
        return prompts.find_label_id(self.build_prompt, prompt, label, self.spec, self.processor.tokenizer.unk_token_id)

    def generate(
        self,
        prompts: Sequence[Prompt],
        images: Sequence[PreparedImage | None],
        most: int,
        sampling: Sampling | None,
        seeds: Sequence[int],
    ) -> list[tuple[int, ...]]:
        """What the model says; see `decoder.Decoder`."""
        return generate_texts(self, prompts, images, most, sampling, seeds)

    def decode_text(self, ids: Sequence[int]) -> str:
        """Tokens as text; see `decoder.Decoder`."""
        return str(self.processor.tokenizer.decode(list(ids), skip_special_tokens=True))

    def _processed(self, text: str, image: Image.Image) -> dict[str, Any]:
        start = self.processor.tokenizer.bos_token
        found = self.processor(
            text=[text],
            images=[image.convert("RGB")],
            add_special_tokens=not (start and text.startswith(start)),
            return_tensors="pt",
        )
        return {
            name: value.to(self.device) if isinstance(value, torch.Tensor) else value for name, value in found.items()
        }

    def _positions(self, ids: torch.Tensor, picture: PreparedImage | None, kinds: torch.Tensor | None) -> torch.Tensor:
        """Positions of ids; Qwen counts those of an image by its rows and columns."""
        body = self.network.model.base_model
        if hasattr(body, "get_rope_index"):
            places, _ = body.get_rope_index(
                ids,
                mm_token_type_ids=torch.zeros_like(ids) if kinds is None else kinds,
                image_grid_thw=picture.extras["image_grid_thw"] if picture is not None else None,
            )
            found: torch.Tensor = places[:, 0]
            return found
        return torch.arange(ids.shape[1], device=self.device)


def load(spec: ModelSpec, device: Device) -> VisionLanguageModel:
    """Load a model that sees by hub id or folder.

    Raises:
        UserError: The weights cannot be had, or lack parameters of the network; or the family is not known here.
    """
    model, processor = pretrained.load_pretrained(
        spec,
        transformers.AutoModelForImageTextToText,
        reader=transformers.AutoProcessor,
        **build_loading_arguments(spec),
    )
    _complete_processor(processor, model.config)
    add_chat_template(processor, bool(processor.chat_template or processor.tokenizer.chat_template), spec)
    return wrap_vision_language_model(spec, move_to_device(model, device, spec), processor, device.name)


def _complete_processor(processor: Any, config: Any) -> None:
    """Tell a LLaVA's processor what its own file left to the network before processors counted an image's positions.

    The commits that the published runs name are of that time.
    """
    if getattr(processor, "patch_size", 0) is None:
        processor.patch_size = config.vision_config.patch_size
        processor.vision_feature_select_strategy = config.vision_feature_select_strategy
        processor.num_additional_image_tokens = int(config.vision_config.model_type == "clip_vision_model")


@torch.inference_mode()
def wrap_vision_language_model(spec: ModelSpec, model: Any, processor: Any, device: str) -> VisionLanguageModel:
    """A model from a network and processor that are loaded already, tried on a small image.

    Raises:
        UserError: Its own forward pass gives other logits than the path taken here, so that numbers would be wrong.
    """
    placeholder = getattr(processor, "image_token", None)
    if not placeholder or not hasattr(model, "get_image_features"):
        raise UserError(f"models.{spec.name}: {model.config.model_type} takes images in a way that is not known here")
    processor, tokenizer = copy.copy(processor), processor.tokenizer
    processor.image_processor = CachedImageProcessor(processor.image_processor)
    found = VisionLanguageModel(
        spec,
        device,
        network.wrap_network(model, device),
        processor,
        str(placeholder),
        int(model.config.image_token_id),
        language_model.get_end_ids(model, tokenizer),
        language_model.get_max_positions(model.config),
    )
    _check_forward_pass(found)
    return found


def _check_forward_pass(decoder: VisionLanguageModel) -> None:
    """Refuse a model whose own forward pass gives other logits, from the start or after a prefix."""
    image = Image.linear_gradient("L").resize(PROBE_SIZE).convert("RGB")
    prompt = decoder.build_prompt(f"{decoder.placeholder} what is this ?")
    picture = decoder.prepare_image(image)
    layout = decoder.build_layout(prompt, picture)
    given = decoder._processed(prompt.text, image)
    model = decoder.network.model
    given = {name: value for name, value in given.items() if name in inspect.signature(model.forward).parameters}
    given["pixel_values"] = given["pixel_values"].to(model.dtype)
    expected = model(**given).logits[:, -2:]
    ids = given["input_ids"]
    embeds = decoder.network.embed(ids)
    assert prompt.image_position is not None
    places = [prompt.image_position + place for place in layout.features]
    seen = decoder.encode_image(picture, picture.pixels[None])[0]
    if len(places) == len(seen):
        embeds[:, places] = seen.to(embeds.dtype)
        positions = layout.positions.unsqueeze(-2)
        found, _ = decoder.network.compute_logits(ids, positions, last=2, embeds=embeds)
        differences = [found - expected]
        if decoder.network.reuses_prefixes:
            _, states = decoder.network.compute_logits(ids[:, :-2], positions[..., :-2], embeds=embeds[:, :-2])
            again, _ = decoder.network.compute_logits(ids[:, -2:], positions[..., -2:], states, last=2)
            differences.append(again - expected)
        allowed = network.PROBE_TOLERANCE * expected.float().std()
        if all(bool(one.abs().max() <= allowed) for one in differences):
            return
    raise UserError(
        f"models.{decoder.spec.name}: {model.config.model_type} reads images in a way that is not known here (its own"
        " logits differ); this family cannot be explained yet"
    )
