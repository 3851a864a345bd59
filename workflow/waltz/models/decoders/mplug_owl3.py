"""mPLUG-Owl3 as a decoder: image tiles take no position in the text, but later text attends to
them.

In the rows of games and generations, the embeddings of a tile follow the first id of its
placeholder. `SideNetwork` removes them from the text again, and lets each token attend to the tiles
before it.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import transformers
from PIL import Image
from tokenizers import AddedToken

from waltz.core.errors import UserError, get_first_line, shorten_value
from waltz.core.jobs.devices import Device
from waltz.model_registry import ModelSpec
from waltz.models.checkpoint_file import find_checkpoint_file, read_settings
from waltz.models.decoders.decoder import PreparedImage, Prompt, PromptLayout
from waltz.models.decoders.language_model import add_chat_template
from waltz.models.decoders.network import ForwardRequest, Network, States, build_cache
from waltz.models.decoders.network_checks import wrap_network
from waltz.models.decoders.vision_language_model import VisionLanguageModel
from waltz.models.networks.mplug_owl3 import (
    PLACEHOLDER,
    ImageStates,
    MplugOwl3,
    cut_image,
    load_mplug_owl3,
    spell_image,
)
from waltz.models.pretrained import META, LoadedSpec, fetch_folder

MODEL_TYPE = "mplugowl3"
"""The model type in `config.json`."""
CHAT_TEMPLATE = "mplug-owl3.jinja"
"""File with the chat template of the released processor; the tokenizer's file may hold Qwen2's
template, which adds a system prompt.
"""
ENDS = ("<|im_end|>", "<|endoftext|>")
"""Tokens that end a generation."""
SPACE = "Ġ"
"""A token of one space, as byte-level tokenizers spell it: the released script's masked token."""
FILES = ("*.json", "*.txt", "*.safetensors")
"""Patterns of the repository's files that are read; no code is among them."""


@dataclass(frozen=True)
class SideNetwork(Network):
    """The network with embeddings of tiles among the positions of the text.

    States hold the keys and values of the text by layer, then the keys and values of tiles by hyper
    layer, and last the masks of positions of the text and of the tiles that are not padding.

    Attributes:
        model: An `MplugOwl3`.
        image_id: Id of positions that hold an embedding of a tile.
    """

    image_id: int = 0

    def compute_logits(self, request: ForwardRequest) -> tuple[torch.Tensor, States]:
        """Compute the logits of some positions; see `Network.compute_logits`.

        All rows have the same number of positions with an embedding of a tile; the last positions
        have none.
        """
        ids, past = request.ids, request.past
        depth = len(self.model.language_model.model.layers)
        hyper_layers = self.model.hyper_layers

        # Text and tiles are taken apart: each is of shape (rows, its positions).
        is_tile = ids == self.image_id
        columns = torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
        text_visible = _select_positions(_get_new_visible(request), ~is_tile)
        tile_columns = _select_positions(columns, is_tile)
        tile_visible = torch.ones_like(tile_columns, dtype=torch.bool)
        # sees[row, t, k]: whether text position t stands behind tile position k.
        sees = tile_columns[:, None] < _select_positions(columns, ~is_tile)[..., None]

        tile_states = self._compute_tile_states(request, is_tile)
        if past:
            # Everything of this pass stands behind the tiles of earlier passes, and sees them.
            text_before, tiles_before = (mask[:, 0, :, 0] for mask in past[-1])
            sees = torch.cat(
                [tiles_before[:, None].expand(-1, sees.shape[1], -1), sees], dim=2
            )
            text_visible = torch.cat([text_before, text_visible], dim=1)
            tile_visible = torch.cat([tiles_before, tile_visible], dim=1)

        has_tiles = sees.shape[2] > 0
        seen = (
            ImageStates(dict(zip(hyper_layers, tile_states, strict=True)), sees)
            if has_tiles
            else None
        )
        cache = build_cache(past[:depth] if past else None)
        logits = self.model.compute_logits(
            _select_positions(ids, ~is_tile),
            _select_positions(request.positions, ~is_tile),
            seen,
            text_visible.long(),
            {self.cache_name: cache},
            request.last_count,
        )
        text_states = tuple((layer.keys, layer.values) for layer in cache.layers)
        # Masks get the four axes of keys and values, (rows, 1, positions, 1), so that rows are
        # selected alike.
        masks = text_visible[:, None, :, None], tile_visible[:, None, :, None]
        return logits, (*text_states, *tile_states, masks)

    def _compute_tile_states(
        self, request: ForwardRequest, is_tile: torch.Tensor
    ) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Return keys and values of all tiles so far, by hyper layer.

        Args:
            is_tile: Which positions of the request hold an embedding of a tile: bool of shape
                (rows, positions).
        """
        past, hyper_layers = request.past, self.model.hyper_layers
        depth = len(self.model.language_model.model.layers)
        earlier_states = list(past[depth:-1]) if past else []
        new_states = []
        if any(request.images):
            # embeddings: (rows, positions, width), of which the positions of tiles are projected by
            # hyper layer.
            embeddings = self.embed(request.ids, request.images)
            tile_embeddings = _select_positions(embeddings, is_tile)
            projected = self.model.project_images(
                tile_embeddings, _select_positions(request.positions, is_tile)
            )
            new_states = [projected[layer] for layer in hyper_layers]

        if earlier_states and new_states:
            return [
                _append(earlier, new)
                for earlier, new in zip(earlier_states, new_states, strict=True)
            ]
        return (
            earlier_states
            or new_states
            or [self._build_empty_states(len(request.ids))] * len(hyper_layers)
        )

    def _build_empty_states(self, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return keys and values of no tile, of shape (rows, heads, 0, width)."""
        config = self.model.language_model.config
        weight = self.model.vision2text_model.weight
        width = config.hidden_size // config.num_attention_heads
        empty = weight.new_empty(rows, config.num_key_value_heads, 0, width)
        return empty, empty


def _select_positions(values: torch.Tensor, selection: torch.Tensor) -> torch.Tensor:
    """Return values of selected positions, equally many in each row: from (rows, positions, ...) to
    (rows, selected, ...).
    """
    if not selection.any():
        return values[:, :0]
    return values[selection].reshape(len(values), -1, *values.shape[2:])


def _get_new_visible(request: ForwardRequest) -> torch.Tensor:
    """Return a mask of this pass's positions, False for padding: bool of shape (rows, positions)."""
    if request.visible is None:
        return torch.ones_like(request.ids, dtype=torch.bool)
    return request.visible[:, -request.ids.shape[1] :].bool()


@dataclass(frozen=True, eq=False, kw_only=True)
class MplugOwl3Decoder(VisionLanguageModel):
    """A loaded mPLUG-Owl3.

    Attributes:
        placeholder_ids: The several ids that the network reads for a placeholder.
    """

    placeholder_ids: tuple[int, ...]

    @property
    def published_masked_id(self) -> int:
        """Token id of masked tokens in `published`: a space."""
        return int(self.tokenizer.convert_tokens_to_ids(SPACE))

    def count_fixed_ids(self, prompt: Prompt) -> int:
        """Return the number of ids up to the placeholder, plus 1 for the id behind it."""
        if prompt.image_position is None:
            return 0
        return prompt.image_position + 2

    def prepare_image(self, image: Image.Image) -> PreparedImage:
        """Return the tiles of an image; the last tile is the whole image."""
        tiles, grid = cut_image(image.convert("RGB"), self.network.model.tile_size)
        return PreparedImage(tiles.to(self.device), {"grid": torch.tensor(grid)}, image)

    def _encode_image(
        self, picture: PreparedImage, pixels: torch.Tensor
    ) -> torch.Tensor:
        # From (batch, tiles, 3, height, width) to (batch, tiles x positions, width).
        embeddings: torch.Tensor = self.network.model.encode_images(
            pixels.flatten(0, 1)
        )
        return embeddings.reshape(len(pixels), -1, embeddings.shape[-1])

    def _build_layout(
        self, prompt: Prompt, picture: PreparedImage, image_position: int
    ) -> PromptLayout:
        # The release spells each tile with a placeholder and the text between tiles; the text
        # around must not merge.
        text = prompt.text.replace(
            PLACEHOLDER, spell_image(*picture.extras["grid"].tolist()), 1
        )
        ids = self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        after = len(prompt.ids) - image_position - 1
        stop = len(ids) - after
        keeps_start = tuple(ids[:image_position]) == prompt.ids[:image_position]
        keeps_end = tuple(ids[stop:]) == prompt.ids[len(prompt.ids) - after :]
        if not (keeps_start and keeps_end):
            raise UserError(
                f"models.{self.spec.name}: the text around the image joins that of its tiles:"
                f" {shorten_value(repr(prompt.text))}; put a line break before the image"
            )

        # `block` replaces the placeholder: ids of text, and for each tile the first id of its
        # placeholder, as many image ids as the tile has embeddings, and the other ids of the
        # placeholder. Embeddings take no position of the text: all of a tile have the position of
        # the id behind them.
        first, *last_ids = self.placeholder_ids
        embedding_count = self.network.model.positions_per_tile
        block: list[int] = []
        features: list[int] = []
        positions = list(range(image_position))
        text_length = image_position
        for token in ids[image_position:stop]:
            if token != self.image_id:
                block.append(token)
                positions.append(text_length)
                text_length += 1
                continue
            features.extend(range(len(block) + 1, len(block) + 1 + embedding_count))
            block.extend([first, *[self.image_id] * embedding_count, *last_ids])
            behind = range(text_length + 1, text_length + 1 + len(last_ids))
            positions.extend(
                [text_length, *[text_length + 1] * embedding_count, *behind]
            )
            text_length += len(self.placeholder_ids)
        positions.extend(range(text_length, text_length + after))

        if positions[-1] >= self.window:
            raise UserError(
                f"models.{self.spec.name}: {positions[-1] + 1} positions with the image's text, at most {self.window}"
                f" are read: {shorten_value(repr(prompt.text))}; shorten the prompt"
            )
        return PromptLayout(
            tuple(block), tuple(features), torch.tensor(positions, device=self.device)
        )

    def _compute_positions(
        self,
        ids: torch.Tensor,
        picture: PreparedImage | None,
        token_types: torch.Tensor | None,
    ) -> torch.Tensor:
        return torch.arange(ids.shape[1], device=self.device)


def is_mplug_owl3(spec: ModelSpec) -> bool:
    """Return whether the config of a hub id or folder says that it is mPLUG-Owl3; False where it
    cannot be read.
    """
    if isinstance(spec, LoadedSpec):
        return False
    options = {} if Path(spec.weights).is_dir() else {"revision": spec.revision}
    try:
        config, _ = transformers.PretrainedConfig.get_config_dict(
            spec.weights, **options
        )
    except Exception:  # a damaged config can raise anything
        return False
    return isinstance(config, dict) and config.get("model_type") == MODEL_TYPE


def load_mplug_owl3_decoder(spec: ModelSpec, device: Device) -> MplugOwl3Decoder:
    """Load mPLUG-Owl3 by hub id or folder, without running the repository's code.

    Raises:
        UserError: The files cannot be fetched, or do not belong to this network.
    """
    if spec.four_bit or spec.device_map:
        raise UserError(
            f"models.{spec.name}: four_bit and device_map are not for mPLUG-Owl3; remove them"
        )
    folder = fetch_folder(spec, FILES)
    file = find_checkpoint_file(replace(spec, weights=str(folder)))
    try:
        tokenizer = transformers.Qwen2Tokenizer.from_pretrained(folder)
    except Exception as error:  # damaged files can raise anything
        raise UserError(
            f"models.{spec.name}: {folder}: no tokenizer: {get_first_line(error)}; copy it again"
        ) from error
    network = load_mplug_owl3(
        file,
        read_settings(folder / "config.json"),
        spec.name,
        getattr(torch, spec.dtype),
    )
    return wrap_mplug_owl3(spec, network.to(device.name), tokenizer, device.name)


def wrap_mplug_owl3(
    spec: ModelSpec, network: MplugOwl3, tokenizer: Any, device: str
) -> MplugOwl3Decoder:
    """Return a decoder from a network and tokenizer that are already loaded; the tokenizer gets the
    placeholder.

    Raises:
        UserError: The tokenizer is not a tokenizer of Qwen2.
    """
    # The network reads several ids for a placeholder; games need one id, so the placeholder becomes
    # a token.
    placeholder_ids = tokenizer(PLACEHOLDER, add_special_tokens=False)["input_ids"]
    tokenizer.add_tokens([AddedToken(PLACEHOLDER, special=True, normalized=False)])
    add_chat_template(
        tokenizer,
        False,
        replace(spec, chat_template=spec.chat_template or CHAT_TEMPLATE),
    )
    image_id = tokenizer.convert_tokens_to_ids(PLACEHOLDER)
    vocabulary = tokenizer.get_vocab()
    missing = [token for token in (*ENDS, SPACE) if token not in vocabulary]
    if missing:
        raise UserError(
            f"models.{spec.name}: the tokenizer lacks {', '.join(missing)}; put Qwen2's tokenizer into the folder"
        )
    config = network.language_model.config
    if image_id >= config.vocab_size:
        raise UserError(
            f"models.{spec.name}: the tokenizer has more tokens than the network ({image_id + 1} with the placeholder,"
            f" expected at most {config.vocab_size}); put its own into the folder"
        )
    # Tiles among the text need a cache and padding in front, which are tested on the text decoder
    # alone.
    text_network = wrap_network(network.language_model.eval(), device)
    reads_fast = text_network.reuses_prefixes and text_network.pads_rows
    if device != META and not reads_fast:  # a network without values is not tested
        fault = text_network.reason or "rows cannot be padded"
        raise UserError(
            f"models.{spec.name}: transformers {transformers.__version__} reads its text in another way: {fault};"
            " install the version of constraints.txt"
        )
    return MplugOwl3Decoder(
        spec=spec,
        device=device,
        network=SideNetwork(
            **{**vars(text_network), "model": network.eval()}, image_id=image_id
        ),
        tokenizer=tokenizer,
        ends=frozenset(vocabulary[token] for token in ENDS),
        window=int(config.max_position_embeddings),
        placeholder=PLACEHOLDER,
        processor=tokenizer,
        image_id=image_id,
        placeholder_ids=tuple(placeholder_ids),
    )


def _append(
    earlier: tuple[torch.Tensor, torch.Tensor], new: tuple[torch.Tensor, torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return keys and values of earlier and of new positions, of shape (rows, heads, positions,
    width).
    """
    return torch.cat([earlier[0], new[0]], dim=2), torch.cat(
        [earlier[1], new[1]], dim=2
    )
