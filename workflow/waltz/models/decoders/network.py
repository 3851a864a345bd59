"""A causal network: one pass over some positions, given the keys and values of earlier positions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Any

import torch
from transformers.cache_utils import DynamicCache, DynamicLayer
from transformers.utils import ModelOutput

from waltz.models.batches import run_in_halves
from waltz.models.forward_checks import select_entries

PROMPT_IDS = "prompt_ids"
"""Name of the unmasked ids of a prompt that is read in two tokenizations, of shape (1, positions)."""
LISTED_INPUTS = frozenset({"num_local_patches", "patches_grid"})
"""Inputs with numbers of tiles, which networks take as lists and processors may return as lists."""
SHARED_LETTERS = "shared_letters"
"""Name of a table that says whether a token shares letters with one of the other tokenization: bool
of shape (1, positions, tokens).
"""
States = tuple[tuple[torch.Tensor, torch.Tensor], ...]
"""Keys and values of each layer, of shape (rows, heads, positions, width)."""


@dataclass(frozen=True, eq=False)
class RowImage:
    """The image of one row of a pass.

    Attributes:
        features: The embeddings of the image, of shape (features, width), with its features for
            deeper layers behind them, of shape (features, layers * width); or its pixels for a
            network that reads images itself.
        positions: Positions among the ids of the row that it fills.
        inputs: Further arguments of the forward pass of a network that reads images itself.
    """

    features: torch.Tensor
    positions: Sequence[int]
    inputs: Mapping[str, torch.Tensor] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class ForwardRequest:
    """The input of one pass of a network: some positions of rows of one length.

    Attributes:
        ids: Token ids, int64 of shape (rows, positions).
        positions: Their positions as the network counts them: int64 of shape (rows, positions), or
            (axes, rows, positions) where the network has several axes of positions.
        past: Keys and values of the earlier positions of the same rows, which the pass does not
            change; None without earlier positions.
        last_count: Number of last positions whose logits are needed.
        images: The image of each row, if the ids contain an image; empty without images.
        visible: 1 for each position that is not padding, earlier positions included: int64 of shape
            (rows, earlier + positions); None without padding.
    """

    ids: torch.Tensor
    positions: torch.Tensor
    past: States | None = None
    last_count: int = 1
    images: Sequence[RowImage | None] = ()
    visible: torch.Tensor | None = None

    def build_attention_mask(self) -> torch.Tensor:
        """Return 1 for each position that is not padding, and 0 for padding: int64 of shape (rows,
        earlier + positions).
        """
        if self.visible is not None:
            return self.visible
        earlier_count = self.past[0][0].shape[2] if self.past else 0
        rows, count = self.ids.shape
        return torch.ones(
            (rows, earlier_count + count), dtype=torch.int64, device=self.ids.device
        )


@dataclass(frozen=True)
class Network:
    """A causal network of transformers, in evaluation mode.

    Attributes:
        model: The network; its logits at a position predict the next token.
        device: A torch device.
        argument_names: Names of the optional arguments that its forward pass takes.
        reuses_prefixes: Whether keys and values of a prefix can be used again; if not, every row is
            read as a whole.
        cache_name: Argument for keys and values; empty if none works.
        pads_rows: Whether rows of different lengths can be read together, padded in front.
        checked_length: Maximum length of rows for which reuse and padding were tested; None without
            a limit.
        reason: Reason why the network is not read in a faster way; empty if this is the fastest.
    """

    model: Any
    device: str
    argument_names: frozenset[str]
    reuses_prefixes: bool
    cache_name: str = ""
    pads_rows: bool = False
    checked_length: int | None = None
    reason: str = ""

    def can_reuse(self, length: int) -> bool:
        """Return whether keys and values can be used again in rows of at most `length` positions."""
        return self.reuses_prefixes and self._is_checked(length)

    def can_pad(self, length: int) -> bool:
        """Return whether rows of different lengths, at most `length` positions, can be read
        together.
        """
        return self.pads_rows and self._is_checked(length)

    def _is_checked(self, length: int) -> bool:
        return self.checked_length is None or length <= self.checked_length

    def embed(
        self, ids: torch.Tensor, images: Sequence[RowImage | None]
    ) -> torch.Tensor:
        """Return embeddings of ids and images, of shape (rows, positions, width)."""
        embeddings: torch.Tensor = self.model.get_input_embeddings()(ids)
        for row, image in enumerate(images):
            if image is not None:
                embeddings[row, image.positions] = image.features.to(embeddings.dtype)
        return embeddings

    def compute_logits(self, request: ForwardRequest) -> tuple[torch.Tensor, States]:
        """Compute the logits of some positions of rows of one length.

        Returns:
            Logits of the token after each of the last positions, of shape (rows, last_count,
            vocabulary), and the keys and values of all positions so far; no states if prefixes are
            not used again.
        """
        inputs = self._build_token_inputs(request)
        options = {
            "attention_mask": request.build_attention_mask(),
            "position_ids": request.positions,
            "logits_to_keep": request.last_count,
            "use_cache": self.reuses_prefixes,
        }
        inputs |= select_entries(options, self.argument_names)

        # A network that does not take `logits_to_keep` returns the logits of all positions.
        if not self.reuses_prefixes:
            return self.model(**inputs).logits[:, -request.last_count :], ()
        # The pass appends to the cache by concatenation, so that `past` stays as it is.
        cache = build_cache(request.past)
        logits = self.model(**inputs, **{self.cache_name: cache}).logits
        states = tuple((layer.keys, layer.values) for layer in cache.layers)
        return logits[:, -request.last_count :], states

    def _build_token_inputs(self, request: ForwardRequest) -> dict[str, object]:
        """Return the arguments for ids and images: rows with an image are passed as embeddings, of
        which some are the image's, or with outputs of its vision tower; others as ids.
        """
        images = [image.features for image in request.images if image is not None]
        if not images:
            return {"input_ids": request.ids}
        width = self.model.get_input_embeddings().embedding_dim
        if images[0].shape[-1] == width:
            return {"inputs_embeds": self.embed(request.ids, request.images)}
        # From images of (features, layers * width) to layers of images of (features, width)
        layers_of_images = [
            image.reshape(len(image), -1, width).unbind(1) for image in images
        ]
        embeddings, *deeper = zip(*layers_of_images, strict=True)
        # Granite Docling copies the logits of its router of resolutions to its outputs.
        outputs = ModelOutput(
            pooler_output=embeddings, deepstack_features=deeper, router_logits=None
        )
        return {
            "input_ids": request.ids,
            "mm_encoder_outputs": {"image": outputs},
        }


@dataclass(frozen=True)
class OwnForward(Network):
    """A network that reads the pixels and ids of entire rows.

    The features of an image are its pixels.

    Attributes:
        pixels_name: Name of its argument for pixels.
        further_pixels: Names of its other arguments for pixels, of which an image may give some.
        ids_name: Name of its argument for the ids of the prompt.
        position_inputs: Names of further arguments that have a value for each position.
        joins_rows: Whether several rows can be read in one pass; if not, each row is read alone.
        continuation_values: Values of `position_inputs` for tokens behind the prompt, where they
            are not that of the prompt's last token.
        second_ids_name: Name of an argument for the prompt in another tokenization; empty without
            one.
        second_masked_id: Id of a masked token in that tokenization.
    """

    pixels_name: str = "pixel_values"
    further_pixels: tuple[str, ...] = ()
    ids_name: str = "input_ids"
    position_inputs: frozenset[str] = frozenset()
    joins_rows: bool = False
    continuation_values: Mapping[str, int] = field(default_factory=dict)
    second_ids_name: str = ""
    second_masked_id: int = 0

    def compute_logits(self, request: ForwardRequest) -> tuple[torch.Tensor, States]:
        """Compute the logits of the last positions of entire rows; see `Network.compute_logits`.

        The network numbers its positions itself; padding is removed.
        """
        inputs_of_rows = []
        for row, row_ids in enumerate(request.ids):
            if request.visible is not None:
                row_ids = row_ids[request.visible[row].bool()]
            image = request.images[row] if request.images else None
            inputs_of_rows.append(self._build_inputs(row_ids, image))

        # Neighboring rows with arguments of one shape can be read in one pass.
        logits = []
        for _, group in groupby(inputs_of_rows, key=_get_shapes):
            batch = list(group)
            parts = [batch] if self.joins_rows else [[inputs] for inputs in batch]
            for part in parts:
                read = partial(self._read_rows, part, request.last_count)
                logits.append(run_in_halves(read, len(part), _join))
        return _join(logits), ()

    def count_logits(self, length: int, image: RowImage) -> int:
        """Return the number of last positions of a row for which there are logits."""
        return length

    def _build_inputs(
        self, ids: torch.Tensor, image: RowImage | None
    ) -> dict[str, torch.Tensor]:
        """Return the arguments of the forward pass for one row."""
        options = {"attention_mask": torch.ones_like(ids)[None]}
        if image is not None:
            for name, values in image.inputs.items():
                if name in self.position_inputs:
                    behind = self.continuation_values.get(name)
                    values = _extend(values, len(ids), behind)
                options[name] = values
            for name, pixels in self._split_pixels(image).items():
                options[name] = pixels.to(self.model.dtype)
            if self.second_ids_name:
                options[self.second_ids_name] = self._mask_second_ids(ids, image)
        return {
            self.ids_name: ids[None],
            **select_entries(options, self.argument_names),
        }

    def find_pixels(self, inputs: Mapping[str, torch.Tensor]) -> list[str]:
        """Return which of the inputs for an image hold its pixels."""
        return [
            name for name in (self.pixels_name, *self.further_pixels) if name in inputs
        ]

    def _split_pixels(self, image: RowImage) -> dict[str, torch.Tensor]:
        """Return the pixels by their arguments; the inputs of an image have those of the unmasked
        image if there are several.
        """
        names = self.find_pixels(image.inputs)
        if not names:
            return {self.pixels_name: image.features}
        sizes = [image.inputs[name].numel() for name in names]
        parts = torch.split(image.features, sizes)
        return {
            name: part.view(image.inputs[name].shape)
            for name, part in zip(names, parts, strict=True)
        }

    def _mask_second_ids(self, ids: torch.Tensor, image: RowImage) -> torch.Tensor:
        """Return the ids of the prompt in the other tokenization, masked where ids are."""
        prompt_ids = image.inputs[PROMPT_IDS][0]
        is_masked = ids[: len(prompt_ids)] != prompt_ids
        # From (positions,) to (tokens of the other tokenization,)
        is_hidden = (is_masked[:, None] & image.inputs[SHARED_LETTERS][0]).any(dim=0)
        second_ids = image.inputs[self.second_ids_name]
        return second_ids.masked_fill(is_hidden, self.second_masked_id)

    def _read_rows(
        self,
        rows: Sequence[Mapping[str, torch.Tensor]],
        last_count: int,
        first: int,
        last: int,
    ) -> torch.Tensor:
        """Return the last logits of rows whose arguments have one shape: (last - first, last_count,
        vocabulary).
        """
        inputs: dict[str, object] = {}
        for name in rows[first]:
            values = _join([row[name] for row in rows[first:last]])
            inputs[name] = values.tolist() if name in LISTED_INPUTS else values
        options = {"logits_to_keep": last_count, "use_cache": False}
        inputs |= select_entries(options, self.argument_names)

        logits: torch.Tensor = self.model(**inputs).logits[:, -last_count:]
        # A network of other code may return other outputs, so type and shape are checked.
        has_shape = logits.ndim == 3 and logits.shape[:2] == (last - first, last_count)
        if not has_shape or not logits.is_floating_point():
            raise ValueError(
                f"its logits have type {logits.dtype} and shape {tuple(logits.shape)} (expected floating-point numbers"
                f" of shape ({last - first}, {last_count}, tokens))"
            )
        return logits


@dataclass(frozen=True)
class EncoderDecoderForward(OwnForward):
    """An encoder-decoder: its encoder reads image and prompt, its decoder the tokens behind them.

    Every row has an image, whose inputs include the attention mask of the prompt.

    Attributes:
        start_ids: Ids with which the decoder begins; the last one predicts the first token.
    """

    start_ids: tuple[int, ...] = ()

    def count_logits(self, length: int, image: RowImage) -> int:
        """Return the number of tokens behind the prompt, and one more."""
        return 1 + length - image.inputs["attention_mask"].shape[1]

    def _build_inputs(
        self, ids: torch.Tensor, image: RowImage | None
    ) -> dict[str, torch.Tensor]:
        if image is None:
            raise ValueError("an encoder-decoder reads rows with an image only")
        prompt_length = image.inputs["attention_mask"].shape[1]
        inputs = super()._build_inputs(ids[:prompt_length], image)
        decoder_ids = torch.cat([ids.new_tensor(self.start_ids), ids[prompt_length:]])
        return {**inputs, "decoder_input_ids": decoder_ids[None]}


def _join(rows: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.cat(list(rows))


def _get_shapes(
    inputs: Mapping[str, torch.Tensor],
) -> tuple[tuple[str, torch.Size], ...]:
    return tuple((name, values.shape) for name, values in inputs.items())


def _extend(values: torch.Tensor, length: int, behind: int | None) -> torch.Tensor:
    """Return values of positions, of shape (1, positions, ...), with one for each token behind
    them: the given value, otherwise that of the last position.
    """
    last = values[:, -1:] if behind is None else torch.full_like(values[:, -1:], behind)
    continuation = last.expand(-1, length - values.shape[1], *values.shape[2:])
    return torch.cat([values, continuation], dim=1)


def select_rows(states: States, rows: Sequence[int]) -> States:
    """Return keys and values of selected rows; a row may be selected several times."""
    if not states:
        return ()
    # The first axis of keys and values is the row.
    indices = torch.as_tensor(rows, device=states[0][0].device)
    return tuple((keys[indices], values[indices]) for keys, values in states)


def join_padded_rows(parts: Sequence[States]) -> tuple[States, torch.Tensor]:
    """Join rows of different lengths into one batch, padded at the start.

    Returns:
        Keys and values, each layer padded to its longest row, and the mask of the first layer's
        positions, 0 for padding: int64 of shape (rows, positions).
    """
    # Keys of a layer have the shape (rows, heads, positions, width).
    first_lengths = [states[0][0].shape[2] for states in parts]
    longest = max(first_lengths)

    joined = []
    for layer in range(len(parts[0])):
        keys = _join_padded([states[layer][0] for states in parts])
        values = _join_padded([states[layer][1] for states in parts])
        joined.append((keys, values))

    # A position is padding where it lies before the first one of its row.
    masks = []
    for states, length in zip(parts, first_lengths, strict=True):
        is_visible = torch.arange(longest) >= longest - length
        rows = states[0][0].shape[0]
        masks.append(is_visible.long().expand(rows, longest))
    device = parts[0][0][0].device
    return tuple(joined), torch.cat(masks).to(device)


def pad_front(rows: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return rows padded in front with zeros to one length."""
    longest = max(row.shape[-1] for row in rows)
    return [torch.nn.functional.pad(row, (longest - row.shape[-1], 0)) for row in rows]


def _join_padded(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return rows of different lengths in one tensor, padded at the start: (rows, heads, longest,
    width).
    """
    longest = max(part.shape[2] for part in parts)
    padded = []
    for part in parts:
        missing = longest - part.shape[2]
        # `pad` counts axes from the last: none at the width, `missing` zeros before the positions.
        padded.append(torch.nn.functional.pad(part, (0, 0, missing, 0)))
    return torch.cat(padded)


def build_cache(past: States | None) -> DynamicCache:
    """Return keys and values as a cache of transformers."""
    cache = DynamicCache()
    for keys, values in past or ():
        layer = DynamicLayer()
        layer.lazy_initialization(keys, values)
        layer.keys, layer.values = keys, values
        cache.layers.append(layer)
    return cache
