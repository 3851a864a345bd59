"""Models for `waltz.Explainer`: by name, or loaded by the user."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from waltz.core.downloads.urls import is_url
from waltz.core.errors import UserError, get_first_line
from waltz.core.jobs.devices import Device
from waltz.model_registry import DECODER_KINDS, DTYPE_BYTES, TF32, ModelSpec
from waltz.models.decoders import load_decoder
from waltz.models.decoders.decoder import Decoder
from waltz.models.encoders import load_encoder
from waltz.models.encoders.encoder import Encoder
from waltz.models.encoders.kinds.function import describe_function, is_function
from waltz.models.pretrained import META, LoadedSpec
from waltz.models.resolve_name import describe_loaded, resolve_decoder, resolve_encoder


def load_model(spec: ModelSpec, device: str | torch.device | None) -> Encoder | Decoder:
    """Load a model and return its adapter: an encoder or a decoder.

    Args:
        device: A torch device; None takes the device of a loaded model, else the first GPU, else
            the CPU.
    Raises:
        ValueError: There is no such device, or a loaded model does not fit its processor.
    """
    chosen_device = _choose_device(spec, device)
    if spec.kind in DECODER_KINDS:
        return load_decoder(spec, chosen_device)
    encoder = load_encoder(spec, chosen_device)
    if isinstance(spec, LoadedSpec):
        _check_processor(encoder, spec)
    return encoder


def describe_model(
    model: Any, processor: Any, dtype: str | torch.dtype | None
) -> ModelSpec:
    """Return the registry's entry of a model, given by name, file, address or as a loaded network.

    Args:
        model: See `Explainer`.
        processor: See `Explainer`.
        dtype: See `Explainer`.
    Raises:
        TypeError: The processor or dtype does not fit the model.
        ValueError: There is no such model or dtype.
    """
    if isinstance(model, ModelSpec):
        return model
    if is_function(model):
        _check_function_arguments(model, processor, dtype)
        return describe_function(model)
    if not isinstance(model, str | Path):
        spec = describe_loaded(model, processor)
        if dtype is not None:
            raise ValueError(
                f"dtype: a loaded model keeps its own (got {dtype}); convert it first, model.to(dtype)"
            )
        return spec
    if is_url(str(model)):
        return _describe_server(str(model), processor, dtype)
    if processor is not None:
        raise TypeError(
            "processor: belongs to a loaded model; a name loads its own, leave it out"
        )
    # A name that is not a decoder must be an encoder; else an error lists names that could be
    # meant.
    named_spec = resolve_decoder(str(model)) or resolve_encoder(str(model))
    if dtype is None:
        return named_spec
    name = str(dtype).removeprefix("torch.")
    if name not in DTYPE_BYTES:
        raise ValueError(f"dtype: got {dtype}, expected {', '.join(DTYPE_BYTES)}")
    if name == TF32 and named_spec.kind in DECODER_KINDS:
        raise ValueError("dtype: tf32 is for encoders; take bfloat16 or float32")
    return replace(named_spec, dtype=name)


def _check_function_arguments(
    model: object, processor: Any, dtype: str | torch.dtype | None
) -> None:
    """Refuse arguments that only models with a network have."""
    if processor is not None or dtype is not None:
        raise TypeError(
            f"model: no transformers model (got {type(model).__name__}); leave out processor and dtype if it is a"
            " function of images and texts (FunctionModel takes a tokenizer)"
        )


def _describe_server(
    url: str, processor: Any, dtype: str | torch.dtype | None
) -> ModelSpec:
    """Return the entry of a model behind a server.

    Args:
        processor: Name of a tokenizer, or None.
    """
    if dtype is not None or not isinstance(processor, str | Path | None):
        raise TypeError(
            "model: a server has its own dtype, and its processor is the name of a tokenizer; leave out both"
        )
    spec = resolve_decoder(url, str(processor or ""))
    assert spec is not None
    return spec


def _choose_device(spec: ModelSpec, device: str | torch.device | None) -> Device:
    """Return the device of a loaded model; else the device that the user names, the first GPU, or
    the CPU.
    """
    threads = torch.get_num_threads()
    if isinstance(spec, LoadedSpec):
        _check_loaded_weights(spec, device)
        return Device(str(spec.network.device), threads, "where the model is")
    if device is None:
        device = "cuda:0" if torch.cuda.is_available() else "cpu"
    try:
        chosen = torch.device(device)
    except RuntimeError as error:
        raise ValueError(
            f"device: got {device!r}, expected such as 'cpu' or 'cuda:0'"
        ) from error
    if chosen.type == "cuda" and (chosen.index or 0) >= torch.cuda.device_count():
        raise ValueError(
            f"device: torch sees {torch.cuda.device_count()} GPUs (got {device!r}); take another, or 'cpu'"
        )
    if chosen.type == META:
        raise ValueError(
            "device: weights on the device meta have no values; take 'cpu' or 'cuda:0'"
        )
    try:
        torch.zeros(1, device=chosen)
    except (RuntimeError, AssertionError, ImportError) as error:
        raise ValueError(
            f"device: torch cannot use {chosen} here ({get_first_line(error)}); take another, or 'cpu'"
        ) from error
    return Device(str(chosen), threads, "named by the user, or the first")


def _check_loaded_weights(spec: LoadedSpec, device: str | torch.device | None) -> None:
    """Refuse a loaded model whose weights lack values or gradients, and a device other than the
    device of the model.
    """
    tensors = [*spec.network.parameters(), *spec.network.buffers()]
    has_empty = any(tensor.is_meta for tensor in tensors)
    # accelerate reads such weights only for the time of a forward pass.
    if has_empty and spec.device_map:
        raise ValueError(
            "model: device_map left weights on disk or in main memory, where they cannot be read; load them onto"
            " GPUs or onto 'cpu' alone, or in fewer bits"
        )
    if has_empty:
        raise ValueError(
            "model: weights on the device meta have no values; load them onto 'cpu' or 'cuda:0'"
        )
    if any(tensor.is_inference() for tensor in tensors):
        raise ValueError(
            "model: loaded within torch.inference_mode(), so that its weights have no gradients; load it outside"
        )
    if device is not None and torch.device(device) != spec.network.device:
        raise ValueError(
            f"device: a loaded model stays where it is (got {device}, expected {spec.network.device}); move it"
            " first, model.to(device)"
        )


@torch.inference_mode()
def _check_processor(encoder: Encoder, spec: LoadedSpec) -> None:
    """Refuse a processor whose output the loaded encoder cannot read."""
    # A processor of another model often fails at the first image or text; it is better to fail here
    # than during a run.
    try:
        encoder.encode_image(
            encoder.prepare_image(Image.new("RGB", (32, 32), "gray"))[None]
        )
        encoder.encode_text(
            torch.tensor([encoder.tokenize("a").ids], device=encoder.device)
        )
    except (UserError, torch.OutOfMemoryError):
        # An encoder of stored regions reads no image.
        return
    except Exception as error:
        name = type(spec.network).__name__
        raise ValueError(
            f"processor: {type(spec.processor).__name__} does not fit this {name} ({get_first_line(error)}); give the"
            " one that was saved with the model"
        ) from error
