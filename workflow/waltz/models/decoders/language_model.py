"""Language models without images: any causal checkpoint of transformers, or a GGUF file."""

import importlib.util
from dataclasses import dataclass
from typing import Any, TypedDict

import torch
import transformers
from PIL import Image

from waltz.core.errors import UserError
from waltz.core.files.resources import find_resource
from waltz.core.jobs.devices import Device
from waltz.model_registry import ModelSpec
from waltz.models.decoders.continuations import generate_texts
from waltz.models.decoders.decoder import (
    ChatTurn,
    Decoder,
    PreparedImage,
    Prompt,
    PromptLayout,
)
from waltz.models.decoders.network_checks import wrap_network
from waltz.models.pretrained import get_causal_window, load_pretrained
from waltz.models.user_text import check_user_text


@dataclass(frozen=True, eq=False)
class LanguageModel(Decoder):
    """A loaded causal language model, which reads no images."""

    generate = generate_texts

    def prepare_image(self, image: Image.Image) -> PreparedImage:
        """Refuse the image."""
        raise UserError(
            f"models.{self.spec.name}: a language model reads no images; name a VL decoder"
        )

    def encode_image(
        self, picture: PreparedImage, pixels: torch.Tensor
    ) -> torch.Tensor:
        """Refuse the image."""
        raise UserError(
            f"models.{self.spec.name}: a language model reads no images; name a VL decoder"
        )

    def build_layout(
        self, prompt: Prompt, picture: PreparedImage | None
    ) -> PromptLayout:
        """Return one position per token."""
        if picture is not None:
            raise UserError(
                f"models.{self.spec.name}: a language model reads no images; name a VL decoder"
            )
        return PromptLayout((), (), torch.arange(len(prompt.ids), device=self.device))


def load_language_model(spec: ModelSpec, device: Device) -> LanguageModel:
    """Load a causal language model by hub id, folder or package.

    Raises:
        UserError: The weights cannot be loaded, or lack parameters of the network.
    """
    model, tokenizer = load_pretrained(
        spec,
        transformers.AutoModelForCausalLM,
        device=device.name,
        **build_loading_arguments(spec),
    )
    add_chat_template(tokenizer, bool(tokenizer.chat_template), spec)
    return wrap_language_model(
        spec, move_to_device(model, device, spec), tokenizer, device.name
    )


def wrap_language_model(
    spec: ModelSpec, model: Any, tokenizer: Any, device: str
) -> LanguageModel:
    """Return a language model from a network and tokenizer that are already loaded.

    Raises:
        UserError: The tokenizer is not a fast tokenizer, so that it does not return the characters
            of tokens.
    """
    if not tokenizer.is_fast:
        raise UserError(
            f"models.{spec.name}: {spec.weights} has no fast tokenizer; install the one that it names"
        )
    network, ends = wrap_network(model, device), get_end_ids(model, tokenizer)
    decoder = LanguageModel(
        spec, device, network, tokenizer, ends, get_causal_window(model.config)
    )
    decoder.log_forward_pass()
    return decoder


def reply_to(decoder: LanguageModel, request: str, max_tokens: int = 64) -> str:
    """Return the model's greedy reply to a request.

    Args:
        request: Text of the user's turn if the model has a chat template, else a text that the
            model continues.
        max_tokens: Maximum number of tokens of the reply.
    Raises:
        UserError: The request is longer than the model reads, or spells a control token (an
            `ItemError`).
    """
    check_user_text(decoder.tokenizer, request, f"models.{decoder.spec.name}")
    text = request
    if decoder.has_chat_template:
        text = decoder.render_chat([ChatTurn("user", request)])
    prompt = decoder.build_prompt(text)
    (reply,) = decoder.generate([prompt], [None], max_tokens, None, [0])
    return decoder.decode_text(reply)


def get_end_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    """Return the ids that end a generation: the end tokens of the generation settings, else the
    tokenizer's.
    """
    # Chat models often end a turn with a token that only their generation settings name.
    end_ids = (
        model.generation_config.eos_token_id
        if model.generation_config is not None
        else None
    )
    if end_ids is None:
        end_ids = tokenizer.eos_token_id
    if end_ids is None:
        return frozenset()
    if isinstance(end_ids, int):
        return frozenset([end_ids])
    return frozenset(end_ids)


class LargeModelOptions(TypedDict, total=False):
    """Keyword arguments of `from_pretrained` for a large model.

    Attributes:
        quantization_config: How weights become four-bit numbers.
        device_map: Rule by which accelerate spreads the layers over devices.
    """

    quantization_config: transformers.BitsAndBytesConfig
    device_map: str


def build_loading_arguments(spec: ModelSpec) -> LargeModelOptions:
    """Return the keyword arguments of `from_pretrained` that a large model needs.

    Raises:
        UserError: A required package is not installed.
    """
    arguments: LargeModelOptions = {}
    if spec.four_bit:
        # Weights become NF4 while they are loaded; products are computed in the entry's precision.
        _require_package("bitsandbytes", "four_bit", spec)
        _require_package("accelerate", "four_bit", spec)
        arguments["quantization_config"] = transformers.BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_compute_dtype=getattr(torch, spec.dtype),
        )
    if spec.device_map:
        # accelerate spreads the layers over several devices.
        _require_package("accelerate", "device_map", spec)
        arguments["device_map"] = spec.device_map
    return arguments


def add_chat_template(reader: Any, has_template: bool, spec: ModelSpec) -> None:
    """Set the chat template that the model's entry names on a tokenizer or processor that has none.

    Raises:
        UserError: The named file does not exist.
    """
    if has_template or not spec.chat_template:
        return
    path = find_resource("chat-templates", spec.chat_template)
    if not path.is_file():
        raise UserError(
            f"models.{spec.name}.chat_template: {path}: no such file; correct it"
        )
    reader.chat_template = path.read_text(encoding="utf-8").rstrip("\n")


def move_to_device(model: Any, device: Device, spec: ModelSpec) -> Any:
    """Move the network to the job's device, unless accelerate or bitsandbytes have placed it."""
    if spec.four_bit or spec.device_map:
        return model
    return model.to(device.name)


def _require_package(package: str, option: str, spec: ModelSpec) -> None:
    if importlib.util.find_spec(package) is None:
        raise UserError(
            f"models.{spec.name}.{option}: the package {package!r} is not installed; run: pip install {package}"
        )
