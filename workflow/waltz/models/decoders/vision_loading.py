"""Loading of VL decoders, which are read with embeddings of the image, or else by the model's own
forward pass.
"""

import copy
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
import transformers

from waltz.core.errors import UserError, get_first_line
from waltz.core.jobs.devices import Device
from waltz.model_registry import ModelSpec
from waltz.models.decoders.decoder import PreparedImage, PromptLayout
from waltz.models.decoders.language_model import (
    add_chat_template,
    build_loading_arguments,
    get_end_ids,
    move_to_device,
)
from waltz.models.decoders.network import Network, OwnForward, RowImage
from waltz.models.decoders.network_checks import (
    OPTION_NAMES,
    ProbeRows,
    find_reusing,
    read_whole,
    wrap_network,
)
from waltz.models.decoders.own_forward import (
    WAY_ON,
    list_pixel_arguments,
    wrap_own_forward,
    wrap_separate_image,
)
from waltz.models.decoders.vision_language_model import (
    CachedImageProcessor,
    ChangedTextError,
    VisionLanguageModel,
    draw_probe,
)
from waltz.models.forward_checks import (
    FORWARD_ERRORS,
    call_with_accepted,
    choose_probe_length,
    compute_reference,
    count_compared,
    draw_probe_ids,
    select_entries,
)
from waltz.models.pretrained import META, get_causal_window, load_pretrained

PROBE_LENGTHS = (3, 8)
"""Numbers of tokens before and behind the image of a test prompt."""
PROBE_TEXT = "what is this ? a dog and two small red birds near the old house"
"""Text of test prompts; its words are separated by spaces."""
FIRST_TOKENS = 4
"""Number of first tokens among which is the image that a processor places."""
CHANGED_TOKENS = 3
"""Position, counted from the end, of the token that differs between test rows."""


class PilProcessor:
    """Loader of a processor that resizes images with PIL, as in the published runs; other backends
    give other pixels.
    """

    @staticmethod
    def from_pretrained(source: str, **options: Any) -> Any:
        """Return the processor of a checkpoint."""
        processor = transformers.AutoProcessor.from_pretrained(source, **options)
        processor.image_processor = transformers.AutoImageProcessor.from_pretrained(
            source, backend="pil", **options
        )
        return processor


def load_vision_decoder(spec: ModelSpec, device: Device) -> VisionLanguageModel:
    """Load a VL decoder by hub id or folder.

    Raises:
        UserError: The weights cannot be loaded or lack parameters of the network, or the family is
            unknown.
    """
    model, processor = load_pretrained(
        spec,
        transformers.AutoModelForImageTextToText,
        processor_class=PilProcessor,
        device=device.name,
        **build_loading_arguments(spec),
    )
    _complete_processor(processor, model.config)
    add_chat_template(
        processor,
        bool(processor.chat_template or processor.tokenizer.chat_template),
        spec,
    )
    return wrap_vision_language_model(
        spec, move_to_device(model, device, spec), processor, device.name
    )


def _complete_processor(processor: Any, config: Any) -> None:
    """Set the fields that older LLaVA checkpoints lack in their processor's file.

    The commits that the published runs name have such old files.
    """
    if getattr(processor, "patch_size", 0) is None:
        processor.patch_size = config.vision_config.patch_size
        processor.vision_feature_select_strategy = config.vision_feature_select_strategy
        processor.num_additional_image_tokens = int(
            config.vision_config.model_type == "clip_vision_model"
        )


PLACEHOLDER_NAMES = (
    "image_placeholder_token",
    "image_token",
    "boi_token",
    "image_start_token",
)
"""Attributes of processors with the word for an image in a prompt, the first that one has. Kosmos-2
names only the token that begins its image; Qianfan OCR replaces the word by other tokens. The
`image_token` of Kosmos-2.5 is its start token.
"""

SEPARATE_PLACEHOLDER = "<image>"
"""Placeholder of models whose image takes no place among the tokens."""


@torch.inference_mode()
def wrap_vision_language_model(
    spec: ModelSpec, model: Any, processor: Any, device: str
) -> VisionLanguageModel:
    """Return a VL decoder from a loaded network and processor, after testing it on a small image.

    If embeddings of the image do not give the logits of the model's own forward pass, this pass is
    used for every row.

    Raises:
        UserError: The processor prepares no images, the model writes by diffusion, or it cannot be
            read by its own forward pass either.
    """
    _check_kind(spec, model, processor)
    named_placeholder = _find_placeholder(processor)
    placeholder = named_placeholder or SEPARATE_PLACEHOLDER
    # A copy, so that the caller's processor does not get the cache.
    processor, tokenizer = copy.copy(processor), processor.tokenizer
    processor.image_processor = CachedImageProcessor(processor.image_processor)
    decoder = VisionLanguageModel(
        spec=spec,
        device=device,
        network=Network(model.eval(), device, frozenset(OPTION_NAMES), False),
        tokenizer=tokenizer,
        ends=get_end_ids(model, tokenizer),
        window=get_causal_window(model.config),
        placeholder=placeholder,
        processor=processor,
        image_id=getattr(model.config, "image_token_id", None)
        or tokenizer.convert_tokens_to_ids(placeholder),
    )
    if device == META:
        return decoder
    if named_placeholder is None:
        return wrap_separate_image(decoder)
    decoder = replace(decoder, wrapped_placeholder=_wrap_placeholder(decoder))
    decoder = replace(decoder, places_image=_places_image(decoder))
    reason = _describe_inputs(model)
    if reason:
        return wrap_own_forward(decoder, reason)
    try:
        decoder = replace(decoder, fills_zeros=_drops_zeros(decoder))
        decoder = replace(
            decoder, network=_check_embeddings(decoder, wrap_network(model, device))
        )
    except torch.OutOfMemoryError:
        raise
    except ChangedTextError:
        fault = "its processor changes the text around an image between line breaks"
    except KeyError as error:
        fault = f"its processor gives no {error.args[0]}"
    except (UserError, *FORWARD_ERRORS) as error:
        fault = get_first_line(error).removeprefix(f"models.{spec.name}: ")
    else:
        decoder.log_forward_pass()
        return decoder
    return wrap_own_forward(decoder, fault)


def _check_kind(spec: ModelSpec, model: Any, processor: Any) -> None:
    """Raise a UserError if a processor prepares no images or a model writes by diffusion."""
    model_type = model.config.model_type
    if getattr(processor, "image_processor", None) is None:
        raise UserError(
            f"models.{spec.name}: the processor of {model_type} prepares no images; {WAY_ON}"
        )
    if getattr(model.config, "canvas_length", None):
        raise UserError(
            f"models.{spec.name}: {model_type} writes blocks of tokens by diffusion, without log-probabilities from"
            f" left to right; {WAY_ON}"
        )


def _describe_inputs(model: Any) -> str:
    """Return why embeddings of one image and a prefix cannot be what a network reads; empty if they
    can.
    """
    if model.config.is_encoder_decoder:
        return "it is an encoder-decoder"
    names = list_pixel_arguments(model)
    if len(names) > 1:
        return f"it has {len(names)} arguments for pixels ({', '.join(names)})"
    return ""


def _find_placeholder(processor: Any) -> str | None:
    """Return the word for an image in a prompt; None if the processor names none."""
    for name in PLACEHOLDER_NAMES:
        word = getattr(processor, name, None)
        if word and word != processor.tokenizer.bos_token:
            return str(word)
    # Idefics' processor names an id only.
    image_id = getattr(processor, "image_token_id", None)
    if image_id is None:
        return None
    return str(processor.tokenizer.convert_ids_to_tokens(image_id))


def _wrap_placeholder(decoder: VisionLanguageModel) -> str:
    """Return the placeholder between the words that begin and end an image, if the processor takes
    it only there; empty otherwise.
    """
    start = getattr(decoder.processor, "image_start_token", None)
    end = getattr(decoder.processor, "image_end_token", None)
    if not (start and end) or _takes_text(decoder, decoder.placeholder):
        return ""
    wrapped = f"{start}{decoder.placeholder}{end}"
    return wrapped if _takes_text(decoder, wrapped) else ""


def _takes_text(decoder: VisionLanguageModel, text: str) -> bool:
    """Return whether the processor takes a text with an image."""
    try:
        decoder._process(text, draw_probe())
    except FORWARD_ERRORS:
        return False
    return True


def _places_image(decoder: VisionLanguageModel) -> bool:
    """Return whether the processor places the image before the text, wherever its placeholder is."""
    placing = replace(decoder, places_image=True)
    text = PROBE_TEXT + decoder.placeholder
    try:
        ids = decoder._process(text, draw_probe())["input_ids"][0]
    except FORWARD_ERRORS:
        # Two images in the text, that of the placeholder and the processor's own, are refused.
        pass
    else:
        return decoder.image_id in ids[:FIRST_TOKENS]
    try:
        ids = placing._process(text, draw_probe())["input_ids"][0]
    except FORWARD_ERRORS:
        return False
    return bool((ids == decoder.image_id).any())


@dataclass(frozen=True, eq=False)
class ImageProbe:
    """Test rows of one prompt with three images, the last completely masked, and a different token
    behind each image.

    Attributes:
        picture: The prepared image, for the sizes of its parts.
        pixels: Pixels of the three images, of shape (images, *pixels.shape).
        layout: The prompt as the processor expands it.
        start: Position of the image in the expanded prompt.
        ids: Ids of the rows, int64 of shape (images, positions).
        inputs: The processor's outputs, which the own forward pass takes.
        compared_count: Number of last positions whose logits are compared.
    """

    picture: PreparedImage
    pixels: torch.Tensor
    layout: PromptLayout
    start: int
    ids: torch.Tensor
    inputs: Mapping[str, torch.Tensor]
    compared_count: int


def _build_image_probe(
    decoder: VisionLanguageModel, before: int, behind: int
) -> ImageProbe:
    """Return test rows with given numbers of tokens before and behind the image, set off by line
    breaks as in templates.
    """
    model, image = decoder.network.model, draw_probe()
    text = f"{_spell_tokens(decoder, before)}\n{decoder.placeholder}\n{_spell_tokens(decoder, behind)}"
    prompt, picture = decoder.build_prompt(text), decoder.prepare_image(image)
    layout = decoder.build_layout(prompt, picture)
    inputs = decoder._process(text, image)
    # Three images: the probe, one of another shade, and one that is masked completely.
    second_pixels = decoder.prepare_image(draw_probe(shade=100)).pixels
    pixels = torch.stack(
        [picture.pixels, second_pixels, torch.zeros_like(second_pixels)]
    )
    ids = inputs["input_ids"].repeat(len(pixels), 1)
    vocabulary = model.config.get_text_config(decoder=True).vocab_size
    ids[:, -CHANGED_TOKENS] = draw_probe_ids(vocabulary, len(pixels)).to(ids.device)
    compared_count = count_compared(ids.shape[1], vocabulary)
    return ImageProbe(
        picture, pixels, layout, prompt.image_position or 0, ids, inputs, compared_count
    )


def _spell_tokens(decoder: VisionLanguageModel, count: int) -> str:
    """Return a text with the given number of tokens."""
    text = " ".join(itertools.islice(itertools.cycle(PROBE_TEXT.split()), count))
    offsets = decoder.tokenizer(
        text, add_special_tokens=False, return_offsets_mapping=True
    )["offset_mapping"]
    return text[: offsets[count - 1][1]]


def _read_alone(decoder: VisionLanguageModel, probe: ImageProbe) -> torch.Tensor:
    """Return the logits of the own forward pass of each row alone, called with the processor's
    outputs.
    """
    model = decoder.network.model
    options = select_entries(
        {"logits_to_keep": probe.compared_count}, decoder.network.argument_names
    )
    # The own forward pass takes ids and pixels and embeds the image itself.
    rows = []
    for ids, pixels in zip(probe.ids, probe.pixels, strict=True):
        inputs = {
            **probe.inputs,
            "input_ids": ids[None],
            "pixel_values": decoder.fill_zeros(pixels),
            **options,
        }
        outputs, _ = call_with_accepted(model, inputs)
        rows.append(outputs.logits[:, -probe.compared_count :])
    return torch.cat(rows)


def _drops_zeros(decoder: VisionLanguageModel) -> bool:
    """Return whether the own forward pass gives other logits for an image of zeros than for an
    image of almost zeros.
    """
    probe = _build_image_probe(decoder, *PROBE_LENGTHS)
    black = replace(probe, pixels=probe.pixels[-1:], ids=probe.ids[-1:])
    filling = replace(decoder, fills_zeros=True)
    reference = compute_reference(
        decoder.network.model, partial(_read_alone, filling, black)
    )
    return bool(reference.find_exact_fault(partial(_read_alone, decoder, black)))


def _embed_images(decoder: VisionLanguageModel, probe: ImageProbe) -> ProbeRows:
    """Return the test rows with embeddings of their images, which are encoded in one batch.

    Raises:
        ValueError: An image has more or fewer embeddings than positions.
    """
    stop = probe.start + len(probe.layout.block)
    length = probe.ids.shape[1]
    filled = [probe.start + offset for offset in probe.layout.features]
    features = decoder._encode_image(probe.picture, probe.pixels)
    if features.shape[:2] != (len(probe.pixels), len(filled)):
        raise ValueError(
            f"it has {features.shape[1]} embeddings of an image for {len(filled)} positions"
        )
    # From (positions,) or (axes, positions) to one row for each image: (rows, positions) or (axes,
    # rows, positions).
    positions = probe.layout.positions.unsqueeze(-2)
    positions = positions.expand(*positions.shape[:-2], len(probe.ids), length)
    # Stretches end before and behind the image, within the text behind it, and before the last
    # token.
    cuts = sorted(
        {probe.start, stop, stop + (length - stop) // 2, length - 1} - {0, length}
    )
    return ProbeRows(
        probe.ids,
        positions,
        [RowImage(row, filled) for row in features],
        cuts,
        probe.compared_count,
    )


def _build_image_probes(decoder: VisionLanguageModel) -> Iterator[ImageProbe]:
    """Yield a short test prompt and, if the network has sliding windows, a long prompt whose image
    lies outside of them.
    """
    short = _build_image_probe(decoder, *PROBE_LENGTHS)
    yield short
    # As much text before the image as behind it.
    room = (decoder.window - len(short.layout.block) - sum(PROBE_LENGTHS)) // 2
    length = choose_probe_length(decoder.network.model.config, max(PROBE_LENGTHS), room)
    if length > max(PROBE_LENGTHS):
        yield _build_image_probe(decoder, length, length)


def _check_embeddings(decoder: VisionLanguageModel, network: Network) -> Network:
    """Return the network, set to read prefixes once only if this gives the model's own logits with
    images, too.

    Raises:
        UserError: Logits with embeddings of the image differ from the logits of the model's own
            forward pass.
    """
    # The text alone can be read by the own forward pass only, which needs no embeddings.
    if isinstance(network, OwnForward):
        raise UserError(network.reason)
    decoder = replace(decoder, network=network)
    for probe in _build_image_probes(decoder):
        reference = compute_reference(
            network.model, partial(_read_alone, decoder, probe)
        )
        embed_images = partial(_embed_images, decoder, probe)
        fault = reference.find_fault(partial(_read_whole_rows, network, embed_images))
        if fault:
            raise UserError(f"with embeddings of the image, {fault}")
        # Reuse of prefixes was tested with text; images can break it.
        if network.reuses_prefixes:
            network = find_reusing(network, embed_images, reference)
    return network


def _read_whole_rows(
    network: Network, build_rows: Callable[[], ProbeRows]
) -> torch.Tensor:
    return read_whole(replace(network, reuses_prefixes=False), build_rows())
