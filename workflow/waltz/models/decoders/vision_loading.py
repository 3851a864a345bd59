"""Loading of VL decoders, which are read with embeddings of the image, or else by their own forward pass."""

import copy
import inspect
from dataclasses import replace
from typing import Any

import torch
import transformers

from waltz.core.devices import Device
from waltz.core.errors import UserError, get_first_line
from waltz.model_registry import ModelSpec
from waltz.models.decoders.decoder import expand_prompt
from waltz.models.decoders.language_model import (
    add_chat_template,
    build_loading_arguments,
    get_end_ids,
    move_to_device,
)
from waltz.models.decoders.network import (
    FORWARD_ERRORS,
    PROBE_TOLERANCES,
    Network,
    RowImage,
    get_argument_names,
    measure_difference,
    wrap_network,
)
from waltz.models.decoders.own_forward import wrap_own_forward
from waltz.models.decoders.vision_language_model import CachedImageProcessor, VisionLanguageModel, draw_probe
from waltz.models.pretrained import META, get_causal_window, load_pretrained


class PilProcessor:
    """Loader of a processor whose images are resized with PIL, as in the published runs: others give other pixels."""

    @staticmethod
    def from_pretrained(source: str, **options: Any) -> Any:
        """Return the processor of a checkpoint."""
        processor = transformers.AutoProcessor.from_pretrained(source, **options)
        processor.image_processor = transformers.AutoImageProcessor.from_pretrained(source, backend="pil", **options)
        return processor


def load(spec: ModelSpec, device: Device) -> VisionLanguageModel:
    """Load a model that sees by hub id or folder.

    Raises:
        UserError: The weights cannot be had, or lack parameters of the network; or the family is not known here.
    """
    model, processor = load_pretrained(
        spec,
        transformers.AutoModelForImageTextToText,
        processor_class=PilProcessor,
        device=device.name,
        **build_loading_arguments(spec),
    )
    _complete_processor(processor, model.config)
    add_chat_template(processor, bool(processor.chat_template or processor.tokenizer.chat_template), spec)
    return wrap_vision_language_model(spec, move_to_device(model, device, spec), processor, device.name)


def _complete_processor(processor: Any, config: Any) -> None:
    """Set the fields that older LLaVA checkpoints lack in their processor's file.

    The commits that the published runs name are of that time.
    """
    if getattr(processor, "patch_size", 0) is None:
        processor.patch_size = config.vision_config.patch_size
        processor.vision_feature_select_strategy = config.vision_feature_select_strategy
        processor.num_additional_image_tokens = int(config.vision_config.model_type == "clip_vision_model")


@torch.inference_mode()
def wrap_vision_language_model(spec: ModelSpec, model: Any, processor: Any, device: str) -> VisionLanguageModel:
    """Return a VL decoder from a network and processor that are already loaded, tested on a small image.

    Where embeddings of the image do not give the logits of the model's own forward pass, that pass itself is used.

    Raises:
        UserError: The model cannot be read by its own forward pass either.
    """
    placeholder = getattr(processor, "image_token", None)
    if not placeholder:
        raise UserError(
            f"models.{spec.name}: the processor of {model.config.model_type} has no placeholder for an image in a"
            " prompt; such models cannot be explained"
        )
    processor, tokenizer = copy.copy(processor), processor.tokenizer
    processor.image_processor = CachedImageProcessor(processor.image_processor)
    decoder = VisionLanguageModel(
        spec=spec,
        device=device,
        network=Network(model.eval(), device, get_argument_names(model), False),
        tokenizer=tokenizer,
        ends=get_end_ids(model, tokenizer),
        window=get_causal_window(model.config),
        placeholder=str(placeholder),
        processor=processor,
        image_id=getattr(model.config, "image_token_id", None) or tokenizer.convert_tokens_to_ids(placeholder),
    )
    try:
        decoder = replace(decoder, network=wrap_network(model, device))
        fault = "" if device == META else _find_fault(decoder)
    except torch.OutOfMemoryError:
        raise
    except (UserError, *FORWARD_ERRORS) as error:
        fault = get_first_line(error)
    return wrap_own_forward(decoder, fault) if fault else decoder


def _find_fault(decoder: VisionLanguageModel) -> str:
    """Return why logits with embeddings of the image are not the model's own; empty if they are.

    They are compared from the start and after a prefix.
    """
    image = draw_probe()
    prompt = decoder.build_prompt(f"{decoder.placeholder} what is this ?")
    picture = decoder.prepare_image(image)
    layout = decoder.build_layout(prompt, picture)
    inputs = decoder._process(prompt.text, image)
    model = decoder.network.model
    inputs = {name: value for name, value in inputs.items() if name in inspect.signature(model.forward).parameters}
    inputs["pixel_values"] = inputs["pixel_values"].to(model.dtype)
    expected = model(**inputs).logits[:, -2:]
    ids, (_, filled) = inputs["input_ids"], expand_prompt(prompt, layout)
    features = decoder.encode_image(picture, picture.pixels[None])[0]
    if len(filled) != len(features):
        return f"it has {len(features)} embeddings of an image for {len(filled)} positions"
    images, positions = [RowImage(features, filled)], layout.positions.unsqueeze(-2)
    logits, _ = decoder.network.compute_logits(ids, positions, last_count=2, images=images)
    differences = [measure_difference(logits, expected)]
    if decoder.network.reuses_prefixes:
        _, states = decoder.network.compute_logits(ids[:, :-2], positions[..., :-2], images=images)
        continued, _ = decoder.network.compute_logits(ids[:, -2:], positions[..., -2:], states, last_count=2)
        differences.append(measure_difference(continued, expected))
    if max(differences) <= PROBE_TOLERANCES[model.dtype]:
        return ""
    return f"with embeddings of the image, logits differ by {max(differences):.2g} of their spread"
