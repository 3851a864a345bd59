"""VL decoders that are read by their own forward pass, because their images cannot be embedded
separately.

Each row is read from its start, image included: coalitions and the steps of a generation share
nothing. Masks change pixels and token ids only. So every causal model of
`AutoModelForImageTextToText` that reads images can be explained.
"""

import copy
import inspect
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import transformers
from PIL import Image
from tokenizers.processors import TemplateProcessing

from waltz.core.errors import UserError, get_first_line, shorten_value
from waltz.core.text_diff import Span
from waltz.models.decoders.decoder import (
    PreparedImage,
    Prompt,
    PromptLayout,
    expand_prompt,
)
from waltz.models.decoders.network import (
    PROMPT_IDS,
    SHARED_LETTERS,
    EncoderDecoderForward,
    ForwardRequest,
    OwnForward,
    RowImage,
)
from waltz.models.decoders.network_checks import find_options
from waltz.models.decoders.vision_language_model import VisionLanguageModel, draw_probe
from waltz.models.forward_checks import (
    FORWARD_ERRORS,
    LATER_TOKENS_SEEN,
    call_with_accepted,
    compute_reference,
    sees_last_token,
    select_entries,
)

log = logging.getLogger(__name__)

OWN_INPUTS = frozenset({"input_ids", "attention_mask", "labels"})
"""Outputs of a processor that are not passed on: ids and mask are built for each row, labels are
not used.
"""
MAX_MERGED = 2
"""Maximum number of tokens on each side of the image that may merge with the processor's text
around it.
"""
PLAIN_TEMPLATE = (
    "{%% for message in messages %%}{%% for part in message.content %%}"
    "{%% if part.type == 'image' %%}{{ %s }}{%% else %%}{{ part.text }}{%% endif %%}"
    "{%% endfor %%}{{ %s }}{%% endfor %%}"
)
"""Chat template without turn markers, for a placeholder and the end of a turn."""
WAY_ON = (
    "name another model, or score pairs with this one in a function of your own"
    " (docs/how-to/a-function-as-a-model.md)"
)
"""Advice about a model that cannot be read."""
MAX_APPENDED = 2
"""Maximum number of tokens that a processor may append to a prompt."""
PROBE_TEXTS = (" what is this ?", " what is this ? what")
"""Texts behind the image in tests of a loaded model; the second text continues the first."""
CONTINUATION_VALUES = {"paligemma": {"token_type_ids": 1}}
"""Values of inputs for tokens behind the prompt by model type, as `generate` gives them. PaliGemma's
prompt, of type 0, sees all of itself; what follows has type 1 and sees earlier tokens only.
"""
COMPARED_TOKENS = 3
"""Number of last tokens of a test prompt that are looked for in the processor's ids."""


@dataclass(frozen=True, eq=False, kw_only=True)
class OwnForwardModel(VisionLanguageModel):
    """A loaded VL decoder that is read by its own forward pass.

    Attributes:
        appended_ids: Ids that the processor appends to a prompt with an image.
    """

    network: OwnForward
    appended_ids: tuple[int, ...] = ()

    def build_prompt(self, text: str) -> Prompt:
        """Return a rendered prompt; tokens that merge with the processor's text of the image belong
        to the placeholder, and tokens that the processor appends are special.
        """
        prompt = super().build_prompt(text)
        if prompt.image_position is None:
            return prompt
        prompt = self._append_ids(prompt)
        # The ids that differ between the prompt and the prompt with any image stand for the image.
        expanded = self._process(text, draw_probe())["input_ids"][0].tolist()
        before = _count_common(prompt.ids[: prompt.image_position], expanded)
        after = _count_common(
            prompt.ids[: prompt.image_position : -1], expanded[before:][::-1]
        )
        return _merge_tokens(prompt, before, len(prompt.ids) - after)

    def _append_ids(self, prompt: Prompt) -> Prompt:
        count = len(self.appended_ids)
        tokens = self.tokenizer.convert_ids_to_tokens(list(self.appended_ids))
        end = Span(start=len(prompt.text), end=len(prompt.text))
        return replace(
            prompt,
            ids=(*prompt.ids, *self.appended_ids),
            tokens=(*prompt.tokens, *tokens),
            spans=(*prompt.spans, *[end] * count),
            special=(*prompt.special, *[True] * count),
        )

    def build_continuation(self, prompt: Prompt, text: str) -> tuple[int, ...]:
        """Return the ids of a text behind a prompt and what the processor appends to it."""
        if prompt.image_position is None or not self.appended_ids:
            return super().build_continuation(prompt, text)
        end = self.tokenizer.decode(list(self.appended_ids))
        ids = super().build_continuation(
            replace(prompt, text=prompt.text + end), text.lstrip()
        )
        return ids[: -len(self.appended_ids)]

    def prepare_image(self, image: Image.Image) -> PreparedImage:
        """Return the prepared image, its pixels in one row if there are several tensors of them."""
        inputs = self._process(self.placeholder, image)
        names = self.network.find_pixels(inputs)
        pixels = inputs[names[0]]
        if len(names) > 1:
            pixels = torch.cat([inputs[name].flatten() for name in names])
        return PreparedImage(pixels.to(self.device, torch.float32), {}, image)

    def _encode_image(
        self, picture: PreparedImage, pixels: torch.Tensor
    ) -> torch.Tensor:
        """Return the pixels."""
        return self.fill_zeros(pixels)

    def _build_layout(
        self, prompt: Prompt, picture: PreparedImage, image_position: int
    ) -> PromptLayout:
        inputs = self._process(prompt.text, picture.image)
        ids = inputs["input_ids"]
        block = self._find_block(prompt, ids[0].tolist(), image_position)
        excluded = OWN_INPUTS
        if len(self.network.find_pixels(inputs)) == 1:
            excluded |= {self.network.pixels_name}
        extra_inputs = {}
        for name, values in inputs.items():
            if name not in excluded:
                extra_inputs[name] = values
        if self.network.second_ids_name:
            extra_inputs[PROMPT_IDS] = ids
            extra_inputs[SHARED_LETTERS] = self._compare_tokens(prompt, len(block))
        positions = self._compute_positions(ids, picture, None)
        return PromptLayout(block, tuple(range(len(block))), positions, extra_inputs)

    def _compare_tokens(self, prompt: Prompt, image_length: int) -> torch.Tensor:
        """Return which tokens of a prompt share letters with which tokens of its other tokenization:
        bool of shape (1, positions, tokens).
        """
        spans = list(prompt.spans)
        # The other tokenization is that of the text without its placeholder, which comes first.
        position = prompt.image_position or 0
        shift = spans[position]["end"]
        spans[position : position + 1] = [Span(start=0, end=0)] * image_length
        tokenizer = _get_second_tokenizer(self.processor, self.network.second_ids_name)
        text = prompt.text.replace(self.placeholder, "")
        offsets = tokenizer(text, return_offsets_mapping=True)["offset_mapping"]

        # From (positions, 2) and (tokens, 2)
        starts, ends = torch.tensor([(span["start"], span["end"]) for span in spans]).T
        second_starts, second_ends = torch.tensor(offsets).T + shift
        first_shared = torch.maximum(starts[:, None], second_starts)
        shares_letters = first_shared < torch.minimum(ends[:, None], second_ends)
        return shares_letters[None].to(self.device)

    def _compute_positions(
        self,
        ids: torch.Tensor,
        picture: PreparedImage | None,
        token_types: torch.Tensor | None,
    ) -> torch.Tensor:
        return torch.arange(ids.shape[1], device=self.device)


@dataclass(frozen=True, eq=False, kw_only=True)
class EncoderDecoderModel(OwnForwardModel):
    """A loaded encoder-decoder, whose encoder reads the image and the prompt."""

    network: EncoderDecoderForward

    def build_continuation(self, prompt: Prompt, text: str) -> tuple[int, ...]:
        """Return the ids of a text of the decoder, which begins with it."""
        ids = self.tokenizer(text.lstrip(), add_special_tokens=False)["input_ids"]
        return tuple(ids)

    def build_layout(
        self, prompt: Prompt, picture: PreparedImage | None
    ) -> PromptLayout:
        """Return the prompt as the processor expands it, with the mask of the encoder's positions.

        Raises:
            UserError: The prompt has no image.
        """
        if picture is None:
            raise UserError(
                f"models.{self.spec.name}: {shorten_value(repr(prompt.text))} has no image, which an encoder-decoder is"
                " shown with each prompt; give one, or name a model that continues its prompt"
            )
        layout = super().build_layout(prompt, picture)
        mask = torch.ones_like(layout.positions)[None]
        return replace(layout, inputs={**layout.inputs, "attention_mask": mask})


@dataclass(frozen=True, eq=False, kw_only=True)
class SeparateImageModel(OwnForwardModel):
    """A loaded VL decoder whose image takes no place among the tokens, so that its placeholder is
    read by no network.
    """

    def build_prompt(self, text: str) -> Prompt:
        """Return a rendered prompt, as the tokenizer reads it."""
        return VisionLanguageModel.build_prompt(self, text)

    def _build_layout(
        self, prompt: Prompt, picture: PreparedImage, image_position: int
    ) -> PromptLayout:
        inputs = self._process(prompt.text, picture.image)
        del inputs[self.network.pixels_name], inputs[self.network.ids_name]
        positions = torch.arange(len(prompt.ids) - 1, device=self.device)
        return PromptLayout((), (), positions, inputs)

    def _process(self, text: str, image: Image.Image) -> dict[str, torch.Tensor]:
        """Return the tensors that the image processor makes of an image, and the ids of a text
        without its placeholder.
        """
        inputs = self.processor.image_processor(
            images=[image.convert("RGB")], return_tensors="pt"
        )
        ids = list(self.build_prompt(text).ids)
        ids.remove(self.image_id)
        outputs = {self.network.ids_name: torch.tensor([ids], device=self.device)}
        for name, value in inputs.items():
            outputs[name] = value.to(self.device)
        return outputs


def wrap_separate_image(decoder: VisionLanguageModel) -> OwnForwardModel:
    """Return a VL decoder whose processor has no placeholder: prompts begin with the token with which
    the network begins a text.

    Raises:
        UserError: See `wrap_own_forward`.
    """
    model = decoder.network.model
    ids_name = "decoder_input_ids" if model.config.is_encoder_decoder else "input_ids"
    network = OwnForward(model, decoder.device, frozenset(), False, ids_name=ids_name)
    tokenizer = _begin_texts(decoder.tokenizer, _get_start_ids(model)[0])
    # BERT's tokenizers end a text with a separator.
    ends = decoder.ends | {tokenizer.sep_token_id} - {None}
    tokenizer.add_tokens(decoder.placeholder, special_tokens=True)
    settings = {
        "network": network,
        "tokenizer": tokenizer,
        "ends": ends,
        "image_id": tokenizer.convert_tokens_to_ids(decoder.placeholder),
        "places_image": True,
    }
    return wrap_own_forward(
        SeparateImageModel(**{**vars(decoder), **settings}),
        "its processor has no placeholder for an image",
    )


def _begin_texts(tokenizer: Any, start_id: int) -> Any:
    """Return a copy of a tokenizer that puts a token before each text and nothing behind it."""
    tokenizer = copy.deepcopy(tokenizer)
    # BLIP's tokenizer lacks the token with which BLIP begins a text.
    while len(tokenizer) <= start_id:
        tokenizer.add_tokens(f"[unnamed {len(tokenizer)}]", special_tokens=True)
    start = tokenizer.convert_ids_to_tokens(start_id)
    tokenizer.bos_token = start
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=[start, "$A"], special_tokens=[(start, start_id)]
    )
    return tokenizer


def _count_common(ids: Sequence[int], expanded_ids: Sequence[int]) -> int:
    """Return the number of tokens with which two texts begin alike."""
    count = 0
    for token, expanded_token in zip(ids, expanded_ids, strict=False):
        if token != expanded_token:
            break
        count += 1
    return count


def _merge_tokens(prompt: Prompt, start: int, stop: int) -> Prompt:
    """Return a prompt whose placeholder replaces all tokens from `start` to `stop`; unchanged if
    these are too many.
    """
    position = prompt.image_position
    if position is None:
        return prompt
    before, behind = position - start, stop - position - 1
    if before > MAX_MERGED or behind > MAX_MERGED:
        return prompt
    # One span and one placeholder id replace all merged tokens.
    span = Span(start=prompt.spans[start]["start"], end=prompt.spans[stop - 1]["end"])
    return replace(
        prompt,
        ids=(*prompt.ids[:start], prompt.ids[position], *prompt.ids[stop:]),
        tokens=(*prompt.tokens[:start], prompt.tokens[position], *prompt.tokens[stop:]),
        spans=(*prompt.spans[:start], span, *prompt.spans[stop:]),
        special=(*prompt.special[:start], True, *prompt.special[stop:]),
        image_position=start,
    )


def wrap_own_forward(decoder: VisionLanguageModel, reason: str) -> OwnForwardModel:
    """Return a VL decoder that is read by its own forward pass, tested on small images.

    Args:
        decoder: The model, wrapped for embeddings of its image, which it cannot read.
        reason: Reason why it cannot read them.
    Raises:
        UserError: The processor returns no pixels, the forward pass fails or does not give finite
            logits of all tokens, or a token's logits depend on later tokens.
    """
    model = decoder.network.model
    location = f"models.{decoder.spec.name}: {model.config.model_type}"
    wrapper: type[OwnForwardModel] = OwnForwardModel
    if isinstance(decoder, SeparateImageModel):
        wrapper = SeparateImageModel
    elif model.config.is_encoder_decoder:
        wrapper = EncoderDecoderModel
    try:
        # Zeros are filled in the checks, so that a masked image reads as one of almost zeros.
        wrapped = wrapper(
            **{**vars(decoder), "network": _build_network(decoder, reason)}
        )
        wrapped = replace(
            wrapped, fills_zeros=True, appended_ids=_find_appended_ids(wrapped)
        )
        probe = _build_probe(wrapped)
        _check_logits(wrapped.network, probe, model.config.get_text_config().vocab_size)
        if _ignores_image(wrapped.network, probe):
            raise ValueError("its logits are the same without the image")
        fills_zeros = decoder.fills_zeros or _drops_zeros(wrapped.network, probe)
        wrapped = replace(wrapped, fills_zeros=fills_zeros)
        sees_later_tokens = _sees_later_tokens(wrapped.network, probe)
    except torch.OutOfMemoryError:
        raise
    except FORWARD_ERRORS as error:
        raise UserError(
            f"{location} cannot be read: {get_first_line(error)} (transformers {transformers.__version__});"
            f" {WAY_ON}"
        ) from error
    if sees_later_tokens:
        raise UserError(f"{location}: {LATER_TOKENS_SEEN}")
    _add_plain_template(wrapped)

    log.warning(
        "%s is read by its own forward pass for each coalition, which is slow: %s",
        location,
        reason,
    )
    # Reading rows together is faster, if the network allows it.
    joining = replace(wrapped.network, joins_rows=True)
    fault = _find_fault_of_joined_rows(joining, wrapped.network, probe)
    if fault:
        log.warning("%s reads its rows one by one: %s", location, fault)
        return wrapped
    return replace(wrapped, network=joining)


def _build_network(decoder: VisionLanguageModel, reason: str) -> OwnForward:
    """Return the network with the names of its arguments, found by comparing the processor's
    outputs of test inputs.
    """
    # Three inputs: the second has more text behind the image, the third another image.
    short_text, long_text = (decoder.placeholder + text for text in PROBE_TEXTS)
    inputs = decoder._process(short_text, draw_probe())
    inputs_of_long_text = decoder._process(long_text, draw_probe())
    inputs_of_second_image = decoder._process(short_text, draw_probe(shade=100))

    ids_name = getattr(decoder.network, "ids_name", "input_ids")
    second_names = [name for name in inputs if name.endswith("_input_ids")]
    second_ids_name = next((name for name in second_names if name != ids_name), "")
    second_masked_id, second_prefix = 0, second_ids_name.removesuffix("input_ids")
    if second_ids_name:
        second_masked_id = _find_second_masked_id(decoder, second_ids_name)

    # Pixels change with the image; inputs whose shape changes with the text have a value for each
    # position.
    pixels_names = _find_pixels(decoder, inputs, inputs_of_second_image)
    position_inputs = set()
    for name, values in inputs.items():
        is_second = bool(second_prefix) and name.startswith(second_prefix)
        if values.shape != inputs_of_long_text[name].shape and not is_second:
            position_inputs.add(name)

    model = decoder.network.model.eval()
    for name in pixels_names:
        inputs[name] = inputs[name].to(model.dtype)
    accepted_names = set(inspect.signature(model.forward).parameters)
    further_pixels = {*pixels_names, *list_pixel_arguments(model)} & accepted_names
    start_ids: tuple[int, ...] = ()
    if model.config.is_encoder_decoder and ids_name == "input_ids":
        start_ids = _get_start_ids(model)
        inputs["decoder_input_ids"] = torch.tensor([start_ids], device=decoder.device)
    _, input_names = call_with_accepted(model, inputs)
    options = find_options(model, select_entries(inputs, input_names))
    network = OwnForward(
        model,
        decoder.device,
        input_names | options | further_pixels,
        False,
        pads_rows=True,
        reason=reason,
        pixels_name=pixels_names[0],
        further_pixels=tuple(sorted(further_pixels - {pixels_names[0]})),
        ids_name=ids_name,
        position_inputs=frozenset(position_inputs),
        continuation_values=CONTINUATION_VALUES.get(model.config.model_type, {}),
        second_ids_name=second_ids_name,
        second_masked_id=second_masked_id,
    )
    if not start_ids:
        return network
    return EncoderDecoderForward(**vars(network), start_ids=start_ids)


def _get_second_tokenizer(processor: Any, ids_name: str) -> Any:
    """Return the tokenizer of an input such as `qformer_input_ids`; None if the processor has none."""
    return getattr(processor, ids_name.removesuffix("input_ids") + "tokenizer", None)


def _find_second_masked_id(decoder: VisionLanguageModel, ids_name: str) -> int:
    """Return the id of a masked token in the other tokenization of a prompt.

    Raises:
        UserError: The letters of its tokens are not known.
    """
    tokenizer = _get_second_tokenizer(decoder.processor, ids_name)
    if tokenizer is None or not tokenizer.is_fast:
        raise UserError(
            f"models.{decoder.spec.name}: the processor of {decoder.network.model.config.model_type} gives the prompt a"
            f" second time, as {ids_name}, where words cannot be masked; {WAY_ON}"
        )
    if tokenizer.mask_token_id is None:
        return int(tokenizer.unk_token_id)
    return int(tokenizer.mask_token_id)


def _add_plain_template(decoder: OwnForwardModel) -> None:
    """Set a chat template of image and plain text on the processor of a model that was trained with
    prompts instead of conversations and has none.
    """
    is_plain = decoder.places_image or isinstance(decoder, EncoderDecoderModel)
    if decoder.has_chat_template or not (is_plain or decoder.appended_ids):
        return
    # A line break of the prompt would merge with the one that a processor appends.
    end = " " if decoder.appended_ids else "\n"
    decoder.processor.chat_template = PLAIN_TEMPLATE % (
        repr(decoder.placeholder),
        repr(end),
    )


def _get_start_ids(model: Any) -> tuple[int, ...]:
    """Return the ids with which a generation begins: the start of the decoder, and a first token that
    the generation settings demand, as BART's do.

    Raises:
        ValueError: Neither the generation settings nor the config name the start of the decoder.
    """
    start_id = _find_setting(model, "decoder_start_token_id")
    # As in `generate`, a decoder without a start token begins with that of texts.
    if start_id is None:
        start_id = _find_setting(model, "bos_token_id")
    if start_id is None:
        raise ValueError("its generation settings name no decoder_start_token_id")
    forced_id = _find_setting(model, "forced_bos_token_id")
    return (start_id,) if forced_id is None else (start_id, forced_id)


def _find_setting(model: Any, name: str) -> int | None:
    """Return a token id of the generation settings, else of the config of the text; None without
    one.
    """
    value: int | None = getattr(model.generation_config, name, None)
    if value is None:
        value = getattr(model.config.get_text_config(decoder=True), name, None)
    return value


def _find_appended_ids(decoder: OwnForwardModel) -> tuple[int, ...]:
    """Return the ids that the processor appends to a prompt with an image."""
    text = decoder.placeholder + PROBE_TEXTS[0]
    last_ids = list(decoder.build_prompt(text).ids[-COMPARED_TOKENS:])
    inputs = decoder._process(text, draw_probe())
    ids = inputs[decoder.network.ids_name][0].tolist()
    for count in range(MAX_APPENDED + 1):
        stop = len(ids) - count
        if ids[stop - COMPARED_TOKENS : stop] == last_ids:
            return tuple(ids[stop:])
    return ()


def list_pixel_arguments(model: Any) -> list[str]:
    """Return the names of a network's arguments for the pixels of an image."""
    names = inspect.signature(model.forward).parameters
    return [name for name in names if "pixel_values" in name and "video" not in name]


def _find_pixels(
    decoder: VisionLanguageModel,
    inputs: Mapping[str, torch.Tensor],
    changed_inputs: Mapping[str, torch.Tensor],
) -> list[str]:
    """Return the names of the inputs that hold pixels: the floating-point numbers that change with
    the image.

    Raises:
        UserError: No input holds pixels.
    """
    names = []
    for name, values in inputs.items():
        if values.is_floating_point() and not torch.equal(values, changed_inputs[name]):
            names.append(name)
    if not names:
        raise UserError(
            f"models.{decoder.spec.name}: the processor of {decoder.network.model.config.model_type} gives no pixels;"
            f" {WAY_ON}"
        )
    return names


@dataclass(frozen=True, eq=False)
class Probe:
    """A prompt about a test image: its ids in the network, and the image without and with all
    pixels masked.
    """

    ids: list[int]
    image: RowImage
    masked_image: RowImage


def _build_probe(decoder: OwnForwardModel) -> Probe:
    picture = decoder.prepare_image(draw_probe())
    prompt = decoder.build_prompt(decoder.placeholder + PROBE_TEXTS[0])
    layout = decoder.build_layout(prompt, picture)
    ids, positions = expand_prompt(prompt, layout)
    # One image as it is, one with every pixel masked.
    masks = torch.stack(
        [torch.ones_like(picture.pixels), torch.zeros_like(picture.pixels)]
    )
    features, masked_features = decoder.encode_image(picture, picture.pixels * masks)
    image = RowImage(features, positions, layout.inputs)
    return Probe(ids, image, replace(image, features=masked_features))


def _read_all(
    network: OwnForward, ids: torch.Tensor, images: Sequence[RowImage]
) -> torch.Tensor:
    """Return the logits of all positions of rows that have some: (rows, positions, vocabulary).

    The network numbers positions itself, so that the request may contain any positions.
    """
    count = network.count_logits(ids.shape[1], images[0])
    return network.compute_logits(
        ForwardRequest(ids, ids, last_count=count, images=images)
    )[0]


def _check_logits(network: OwnForward, probe: Probe, token_count: int) -> None:
    """Raise a ValueError if the logits do not cover all tokens or are not finite."""
    ids = torch.tensor([probe.ids], device=network.device)
    logits, _ = network.compute_logits(ForwardRequest(ids, ids, images=[probe.image]))
    if logits.shape[-1] < token_count:
        raise ValueError(
            f"its logits are for {logits.shape[-1]} tokens, its config has {token_count}"
        )
    if not logits.amax().isfinite():
        raise ValueError("its logits for an image and a short text are not finite")


def _ignores_image(network: OwnForward, probe: Probe) -> bool:
    """Return whether a masked image gives the same logits as the image."""
    ids = torch.tensor([probe.ids], device=network.device)
    logits = _read_all(network, ids, [probe.image])
    return torch.equal(logits, _read_all(network, ids, [probe.masked_image]))


def _drops_zeros(network: OwnForward, probe: Probe) -> bool:
    """Return whether an image of zeros gives other logits than an image of almost zeros."""
    ids = torch.tensor([probe.ids], device=network.device)
    black = replace(
        probe.masked_image, features=torch.zeros_like(probe.masked_image.features)
    )
    reference = compute_reference(
        network.model, lambda: _read_all(network, ids, [probe.masked_image])
    )
    return bool(reference.find_exact_fault(lambda: _read_all(network, ids, [black])))


def _sees_later_tokens(network: OwnForward, probe: Probe) -> bool:
    """Return whether the logits of a prompt change with a later token."""
    # The prompt with one more token behind it: no earlier logits may change with that token.
    ids = torch.tensor([[*probe.ids, probe.ids[-2]]], device=network.device)
    return sees_last_token(
        network.model, ids, lambda row_ids: _read_all(network, row_ids, [probe.image])
    )


def _find_fault_of_joined_rows(
    joining: OwnForward, network: OwnForward, probe: Probe
) -> str:
    """Return the fault of reading rows with different pixels and ids in one pass instead of alone;
    empty without one.
    """
    # Two rows of one length that differ in the image and in the last token.
    ids = torch.tensor(
        [probe.ids, [*probe.ids[:-1], probe.ids[-2]]], device=network.device
    )
    images = [probe.image, probe.masked_image]
    reference = compute_reference(
        network.model, lambda: _read_all(network, ids, images)
    )
    return reference.find_fault(lambda: _read_all(joining, ids, images))
