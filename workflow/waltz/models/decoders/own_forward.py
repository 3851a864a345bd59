"""VL decoders by their own forward pass, for families whose images cannot be embedded on their own.

Each row is read as a whole, image included: nothing is shared between coalitions, or between the steps of a generation.
Masks change pixels and token ids only, so that any model of `AutoModelForImageTextToText` can be explained whose
processor gives one tensor of pixels, and whose text reads from left to right.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any

import torch
from PIL import Image

from waltz.core.errors import UserError, get_first_line
from waltz.core.text_diff import Span
from waltz.models.batches import run_in_halves
from waltz.models.decoders.decoder import PreparedImage, Prompt, PromptLayout, expand_prompt
from waltz.models.decoders.network import (
    FORWARD_ERRORS,
    PROBE_TOLERANCES,
    Network,
    RowImage,
    States,
    get_argument_names,
    measure_difference,
)
from waltz.models.decoders.vision_language_model import VisionLanguageModel, draw_probe

log = logging.getLogger(__name__)

OWN_INPUTS = frozenset({"input_ids", "attention_mask", "labels"})
"""Outputs of a processor that are built anew for each row, or left out."""
MAX_MERGED = 2
"""Most tokens on a side of the image that may merge with the text that a processor puts around it."""
PROBE_TEXTS = (" what is this ?", " what is this ? what")
"""Texts behind the image for a loaded model; the second goes on where the first ends."""


@dataclass(frozen=True)
class OwnForward(Network):
    """A network that reads the pixels and ids of whole rows.

    The features of an image are its pixels.

    Attributes:
        pixels_name: Name of its argument for pixels.
        position_inputs: Names of further arguments that have a value for each position.
        joins_rows: Whether rows can be read in one pass; else each is read alone.
    """

    pixels_name: str = "pixel_values"
    position_inputs: frozenset[str] = frozenset()
    joins_rows: bool = False

    def compute_logits(
        self,
        ids: torch.Tensor,
        positions: torch.Tensor,
        past: States | None = None,
        last_count: int = 1,
        images: Sequence[RowImage | None] = (),
        visible: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, States]:
        """Compute the logits of the last positions of whole rows; see `Network.compute_logits`.

        The network numbers its positions itself; padding is removed.
        """
        rows = [
            self._build_inputs(row_ids if visible is None else row_ids[row_visible.bool()], image)
            for row_ids, row_visible, image in zip(
                ids, ids if visible is None else visible, images or [None] * len(ids), strict=True
            )
        ]
        logits = []
        for _, group in groupby(rows, key=_get_shapes):
            batch = list(group)
            for part in [batch] if self.joins_rows else [[row] for row in batch]:
                logits.append(run_in_halves(partial(self._read_rows, part, last_count), len(part), _join))
        return _join(logits), ()

    def _build_inputs(self, ids: torch.Tensor, image: RowImage | None) -> dict[str, torch.Tensor]:
        """Return the arguments of the forward pass for one row."""
        inputs = {"input_ids": ids[None], "attention_mask": torch.ones_like(ids)[None]}
        if image is not None:
            inputs[self.pixels_name] = image.features.to(self.model.dtype)
            for name, values in image.inputs.items():
                inputs[name] = _extend(values, len(ids)) if name in self.position_inputs else values
        return {name: values for name, values in inputs.items() if name in self.argument_names}

    def _read_rows(
        self, rows: Sequence[Mapping[str, torch.Tensor]], last_count: int, first: int, last: int
    ) -> torch.Tensor:
        """Return the last logits of rows with arguments of one shape."""
        inputs: dict[str, Any] = {name: _join([row[name] for row in rows[first:last]]) for name in rows[first]}
        options = {"logits_to_keep": last_count, "use_cache": False}
        inputs |= {name: value for name, value in options.items() if name in self.argument_names}
        logits: torch.Tensor = self.model(**inputs).logits[:, -last_count:]
        if not logits.is_floating_point() or logits.ndim != 3 or logits.shape[:2] != (last - first, last_count):
            raise ValueError(
                f"its logits have type {logits.dtype} and shape {tuple(logits.shape)} (expected floating-point numbers"
                f" of shape ({last - first}, {last_count}, tokens))"
            )
        return logits


def _join(rows: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.cat(list(rows))


def _get_shapes(inputs: Mapping[str, torch.Tensor]) -> tuple[tuple[str, torch.Size], ...]:
    return tuple((name, values.shape) for name, values in inputs.items())


def _extend(values: torch.Tensor, length: int) -> torch.Tensor:
    """Return values of positions, of shape (1, positions, ...), with the last one repeated for tokens behind them."""
    last = values[:, -1:].expand(-1, length - values.shape[1], *values.shape[2:])
    return torch.cat([values, last], dim=1)


@dataclass(frozen=True, eq=False, kw_only=True)
class OwnForwardModel(VisionLanguageModel):
    """A loaded VL decoder that is read by its own forward pass."""

    network: OwnForward

    @property
    def forward_pass(self) -> str:
        """How the network is read, in words."""
        return "the model's own forward pass for each row"

    def build_prompt(self, text: str) -> Prompt:
        """Return a rendered prompt; tokens that merge with the image's own text are part of the placeholder."""
        prompt = super().build_prompt(text)
        if prompt.image_position is None:
            return prompt
        expanded = self._process(text, draw_probe())["input_ids"][0].tolist()
        before = _count_common(prompt.ids[: prompt.image_position], expanded)
        after = _count_common(prompt.ids[: prompt.image_position : -1], expanded[before:][::-1])
        return _merge_tokens(prompt, before, len(prompt.ids) - after)

    def prepare_image(self, image: Image.Image) -> PreparedImage:
        """Return the prepared image."""
        pixels = self._process(self.placeholder, image)[self.network.pixels_name]
        return PreparedImage(pixels.to(self.device, torch.float32), {}, image)

    def _encode_image(self, picture: PreparedImage, pixels: torch.Tensor) -> torch.Tensor:
        """Return the pixels, where a masked one is not quite 0: some families take zeros for padding."""
        is_masked = (pixels == 0) & (picture.pixels != 0)
        return pixels.masked_fill(is_masked, torch.finfo(self.network.model.dtype).tiny)

    def _build_layout(self, prompt: Prompt, picture: PreparedImage, image_position: int) -> PromptLayout:
        inputs = self._process(prompt.text, picture.image)
        ids = inputs["input_ids"]
        block = self._find_block(prompt, ids[0].tolist(), image_position)
        others = {
            name: values
            for name, values in inputs.items()
            if isinstance(values, torch.Tensor) and name not in {*OWN_INPUTS, self.network.pixels_name}
        }
        positions = self._compute_positions(ids, picture, None)
        return PromptLayout(block, tuple(range(len(block))), positions, others)

    def _compute_positions(
        self, ids: torch.Tensor, picture: PreparedImage | None, token_types: torch.Tensor | None
    ) -> torch.Tensor:
        return torch.arange(ids.shape[1], device=self.device)


def _count_common(ids: Sequence[int], others: Sequence[int]) -> int:
    """Return the number of tokens with which two texts begin alike."""
    count = 0
    for token, other in zip(ids, others, strict=False):
        if token != other:
            break
        count += 1
    return count


def _merge_tokens(prompt: Prompt, start: int, stop: int) -> Prompt:
    """Return a prompt whose placeholder stands for the tokens from `start` to `stop`, few on each side of its own."""
    position = prompt.image_position
    if position is None or not position - start <= MAX_MERGED or not stop - position - 1 <= MAX_MERGED:
        return prompt
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
        decoder: The model, as it cannot be read.
        reason: Why it cannot.
    Raises:
        UserError: Its processor gives several tensors of pixels, its forward pass fails or gives no finite logits of
            all tokens, or its tokens see those behind them.
    """
    model, where = decoder.network.model, f"models.{decoder.spec.name}: {decoder.network.model.config.model_type}"
    if model.config.is_encoder_decoder:
        raise UserError(f"{where} is an encoder-decoder; only decoders that go on with their prompt can be explained")
    try:
        own = OwnForwardModel(**{**vars(decoder), "network": _build_network(decoder)})
        probe = _build_probe(own)
        _check_logits(own.network, probe, model.config.get_text_config().vocab_size)
        sees_later_tokens = _sees_later_tokens(own.network, probe)
    except torch.OutOfMemoryError:
        raise
    except FORWARD_ERRORS as error:
        raise UserError(
            f"{where} cannot be read: {get_first_line(error)}; check that the processor is the model's own,"
            " or update transformers"
        ) from error
    if sees_later_tokens:
        raise UserError(f"{where}: its tokens see those behind them; only causal networks can be explained")
    log.warning("%s is read by its own forward pass for each coalition, which is slow: %s", where, reason)
    joining = replace(own.network, joins_rows=True)
    return replace(own, network=joining) if _joins_rows(joining, own.network, probe) else own


def _build_network(decoder: VisionLanguageModel) -> OwnForward:
    """Return the network with the names of its arguments, read off what the processor makes of images and texts."""
    texts = [decoder.placeholder + text for text in PROBE_TEXTS]
    short, long = (decoder._process(text, draw_probe()) for text in texts)
    other = decoder._process(texts[0], draw_probe(shade=100))
    tensors = {name: values for name, values in short.items() if isinstance(values, torch.Tensor)}
    pixels = [
        name
        for name, values in tensors.items()
        if values.is_floating_point() and (values.shape != other[name].shape or not torch.equal(values, other[name]))
    ]
    if len(pixels) != 1:
        raise UserError(
            f"models.{decoder.spec.name}: the processor of {decoder.network.model.config.model_type} gives"
            f" {len(pixels)} tensors of pixels ({', '.join(pixels) or 'none'}), expected 1; it cannot be explained yet"
        )
    return OwnForward(
        decoder.network.model.eval(),
        decoder.device,
        get_argument_names(decoder.network.model),
        False,
        pixels_name=pixels[0],
        position_inputs=frozenset(name for name, values in tensors.items() if values.shape != long[name].shape),
    )


@dataclass(frozen=True, eq=False)
class Probe:
    """A prompt about a test image: its ids as the network reads them, and the image with and without a mask."""

    ids: list[int]
    image: RowImage
    masked_image: RowImage


def _build_probe(decoder: OwnForwardModel) -> Probe:
    picture = decoder.prepare_image(draw_probe())
    prompt = decoder.build_prompt(decoder.placeholder + PROBE_TEXTS[0])
    layout = decoder.build_layout(prompt, picture)
    ids, positions = expand_prompt(prompt, layout)
    masks = torch.stack([torch.ones_like(picture.pixels), torch.zeros_like(picture.pixels)])
    image, masked_image = (
        RowImage(pixels, positions, layout.inputs) for pixels in decoder.encode_image(picture, picture.pixels * masks)
    )
    return Probe(ids, image, masked_image)


def _check_logits(network: OwnForward, probe: Probe, token_count: int) -> None:
    """Raise a ValueError if there are not logits for all tokens, or they are no numbers."""
    ids = torch.tensor([probe.ids], device=network.device)
    logits, _ = network.compute_logits(
        ids, torch.arange(ids.shape[1], device=network.device)[None], images=[probe.image]
    )
    if logits.shape[-1] < token_count:
        raise ValueError(f"its logits are for {logits.shape[-1]} tokens, its config has {token_count}")
    if not logits.amax().isfinite():
        raise ValueError("its logits for an image and a short text are not finite")


def _sees_later_tokens(network: OwnForward, probe: Probe) -> bool:
    """Return whether logits change with a later token."""
    ids = torch.tensor([[*probe.ids, probe.ids[-2]]], device=network.device)
    positions = torch.arange(ids.shape[1], device=network.device)[None]
    expected, _ = network.compute_logits(ids[:, :-1], positions[:, :-1], images=[probe.image])
    logits, _ = network.compute_logits(ids, positions, last_count=2, images=[probe.image])
    return measure_difference(logits[:, :1], expected) > PROBE_TOLERANCES[network.model.dtype]


def _joins_rows(joining: OwnForward, network: OwnForward, probe: Probe) -> bool:
    """Return whether rows with different pixels and ids have the same logits in one pass as alone."""
    ids = torch.tensor([probe.ids, [*probe.ids[:-1], probe.ids[-2]]], device=network.device)
    positions = torch.arange(ids.shape[1], device=network.device).expand_as(ids)
    images = [probe.image, probe.masked_image]
    expected, _ = network.compute_logits(ids, positions, images=images)
    try:
        logits, _ = joining.compute_logits(ids, positions, images=images)
    except torch.OutOfMemoryError:
        raise
    except FORWARD_ERRORS as error:
        log.info("%s reads rows one by one: %s", type(network.model).__name__, get_first_line(error))
        return False
    return measure_difference(logits, expected) <= PROBE_TOLERANCES[network.model.dtype]
