"""Causal language models without an image: any checkpoint of transformers, or a GGUF file in a package."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from PIL import Image

from waltz.core.devices import Device
from waltz.core.errors import UserError
from waltz.models import checkpoints
from waltz.models.decoders import network, prompts
from waltz.models.decoders.decoder import Layout, Picture, Prompt, Sampling, Turn
from waltz.models.decoders.generation import generated
from waltz.models.decoders.loading import arguments, placed, with_template
from waltz.models.decoders.network import Network
from waltz.models.registry import ModelSpec

WINDOW_NAMES = ("max_position_embeddings", "n_positions", "seq_length")
DEFAULT_WINDOW = 1024


@dataclass(frozen=True, eq=False)
class Language:
    """A loaded causal language model; its fields are those of `decoder.Decoder`.

    Attributes:
        tokenizer: Its fast tokenizer.
    """

    spec: ModelSpec
    device: str
    network: Network
    tokenizer: Any
    ends: frozenset[int]
    window: int
    positions_per_batch: int = 4096
    sees: bool = False

    @property
    def masked_id(self) -> int:
        """Stands for a masked token; see `decoder.Decoder`.

        Raises:
            UserError: The entry names no token, and the tokenizer has none that can.
        """
        return prompts.masked_id(self.tokenizer, self.spec)

    def rendered(self, turns: Sequence[Turn]) -> str:
        """A conversation by the chat template; see `decoder.Decoder`."""
        has_template = bool(getattr(self.tokenizer, "chat_template", None))
        return prompts.rendered(self.tokenizer.apply_chat_template, has_template, turns, self.spec, parts=False)

    def prompt(self, text: str) -> Prompt:
        """Ids of a rendered prompt; see `decoder.Decoder`."""
        return prompts.tokenized(self.tokenizer, text, "", self.window, self.spec)

    def image(self, image: Image.Image) -> Picture:
        """Nothing: this model sees no images."""
        raise UserError(f"models.{self.spec.name}: a language model sees no images; name a model that does")

    def look(self, picture: Picture, pixels: torch.Tensor) -> torch.Tensor:
        """Nothing: this model sees no images."""
        raise UserError(f"models.{self.spec.name}: a language model sees no images; name a model that does")

    def layout(self, prompt: Prompt, picture: Picture | None) -> Layout:
        """One position a token; see `decoder.Decoder`."""
        if picture is not None:
            raise UserError(f"models.{self.spec.name}: a language model sees no images; name a model that does")
        return Layout((), (), torch.arange(len(prompt.ids), device=self.device))

    def label_id(self, prompt: Prompt, label: str) -> int:
        """The first token of a label after a prompt; see `decoder.Decoder`."""
        return prompts.label_id(self.prompt, prompt, label, self.spec, self.tokenizer.unk_token_id)

    def generate(
        self,
        prompts: Sequence[Prompt],
        images: Sequence[Picture | None],
        most: int,
        sampling: Sampling | None,
        seeds: Sequence[int],
    ) -> list[tuple[int, ...]]:
        """What the model says; see `decoder.Decoder`."""
        return generated(self, prompts, images, most, sampling, seeds)

    def said(self, ids: Sequence[int]) -> str:
        """Tokens as text; see `decoder.Decoder`."""
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=True))


def load(spec: ModelSpec, device: Device) -> Language:
    """Load a causal language model by hub id, folder or package.

    Raises:
        UserError: The weights cannot be had, or lack parameters of the network.
    """
    model, tokenizer = checkpoints.load(spec, transformers.AutoModelForCausalLM, **arguments(spec))
    with_template(tokenizer, bool(getattr(tokenizer, "chat_template", None)), spec)
    return adopt(spec, placed(model, device, spec), tokenizer, device.name)


def adopt(spec: ModelSpec, model: Any, tokenizer: Any, device: str) -> Language:
    """A language model from a network and tokenizer that are loaded already.

    Raises:
        UserError: The tokenizer is a slow one, which knows no characters of tokens.
    """
    if not tokenizer.is_fast:
        raise UserError(f"models.{spec.name}: {spec.weights} has no fast tokenizer; install the one that it names")
    return Language(
        spec,
        device,
        network.adopt(model, device),
        tokenizer,
        ends(model, tokenizer),
        window(model.config),
    )


def reply(decoder: Language, request: str, most: int = 64) -> str:
    """What a model answers to a request, greedily.

    Args:
        decoder: A loaded language model.
        request: A user's turn where the model has a chat template, else a text to go on with.
        most: Most tokens of the answer.
    Raises:
        UserError: The request is longer than the model reads.
    """
    has_template = bool(getattr(decoder.tokenizer, "chat_template", None))
    prompt = decoder.prompt(decoder.rendered([Turn("user", request)]) if has_template else request)
    return decoder.said(decoder.generate([prompt], [None], most, None, [0])[0])


def ends(model: Any, tokenizer: Any) -> frozenset[int]:
    """Ids that end an answer: those of the checkpoint's settings of generation, else the tokenizer's."""
    named = model.generation_config.eos_token_id if model.generation_config is not None else None
    named = tokenizer.eos_token_id if named is None else named
    return frozenset() if named is None else frozenset([named] if isinstance(named, int) else named)


def window(config: Any) -> int:
    """Most positions that a network reads."""
    text = config.get_text_config(decoder=True)
    return int(next((size for name in WINDOW_NAMES if (size := getattr(text, name, None))), DEFAULT_WINDOW))
