"""mPLUG-Owl3 as a decoder: tiles take no place in the text, but the text behind a placeholder's first id sees them.

To games and generations, the embeddings of a tile stand behind the first id of its placeholder. `SideNetwork` takes
them out again: what stands before a token is what it sees.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import transformers
from PIL import Image
from tokenizers import AddedToken

from waltz.core.devices import Device
from waltz.core.errors import UserError, get_first_line
from waltz.model_registry import ModelSpec
from waltz.models.checkpoint_file import find_checkpoint_file, read_settings
from waltz.models.decoders.decoder import PreparedImage, Prompt, PromptLayout
from waltz.models.decoders.language_model import add_chat_template
from waltz.models.decoders.network import Network, RowImage, States, build_cache
from waltz.models.decoders.vision_language_model import VisionLanguageModel
from waltz.models.networks.mplug_owl3 import (
    PLACEHOLDER,
    ImageStates,
    MplugOwl3,
    cut_image,
    load_mplug_owl3,
    spell_image,
)
from waltz.models.pretrained import LoadedSpec, fetch_folder

MODEL_TYPE = "mplugowl3"
"""What `config.json` says."""
CHAT_TEMPLATE = "mplug-owl3.jinja"
"""The turns as the released processor spells them; the tokenizer's file may have Qwen2's, with a system prompt."""
ENDS = ("<|im_end|>", "<|endoftext|>")
"""Tokens that end a generation."""
BLANK = "Ġ"
"""A token of one space, as byte-level tokenizers spell it: the released script's masked token."""
FILES = ("*.json", "*.txt", "*.safetensors")
"""Files of the repository that are read; none of them is code."""


@dataclass(frozen=True)
class SideNetwork(Network):
    """The network with embeddings of tiles among the positions of the text.

    States hold keys and values of the text by layer, then those of tiles by hyper layer, and last which positions of
    the text and of the tiles are no padding.

    Attributes:
        model: An `MplugOwl3`.
        image_id: Id of positions that hold an embedding of a tile.
    """

    image_id: int = 0

    def compute_logits(
        self,
        ids: torch.Tensor,
        positions: torch.Tensor,
        past: States | None = None,
        last_count: int = 1,
        images: Sequence[RowImage | None] = (),
        visible: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, States]:
        """Compute the logits of some positions; see `Network.compute_logits`.

        All rows have the same number of positions with an embedding of a tile; the last positions have none.
        """
        rows, is_tile = len(ids), ids == self.image_id
        columns = torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
        fresh = torch.ones_like(ids, dtype=torch.bool) if visible is None else visible[:, -ids.shape[1] :].bool()

        def select(values: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
            return values[chosen].reshape(rows, -1, *values.shape[2:]) if chosen.any() else values[:, :0]

        depth, hyper_layers = len(self.model.language_model.model.layers), self.model.hyper_layers
        tile_states: list[tuple[torch.Tensor, torch.Tensor]] = list(past[depth:-1]) if past else []
        text_visible, tile_columns = select(fresh, ~is_tile), select(columns, is_tile)
        sees = tile_columns[:, None] < select(columns, ~is_tile)[..., None]
        tile_visible = torch.ones_like(tile_columns, dtype=torch.bool)
        if any(images):
            embeddings = self.embed(ids, images)
            projected = self.model.project_images(select(embeddings, is_tile), select(positions, is_tile))
            new = [projected[layer] for layer in hyper_layers]
            tile_states = (
                [_append(old, added) for old, added in zip(tile_states or new, new, strict=True)] if past else new
            )
        if past:
            text_before, tiles_before = (mask[:, 0, :, 0] for mask in past[-1])
            sees = torch.cat([tiles_before[:, None].expand(-1, sees.shape[1], -1), sees], dim=2)
            text_visible = torch.cat([text_before, text_visible], dim=1)
            tile_visible = torch.cat([tiles_before, tile_visible], dim=1)
        if not tile_states:
            tile_states = [self._build_empty_states(rows)] * len(hyper_layers)
        seen = ImageStates(dict(zip(hyper_layers, tile_states, strict=True)), sees) if sees.shape[2] else None
        cache = build_cache(past[:depth] if past else None)
        logits = self.model.compute_logits(
            select(ids, ~is_tile), select(positions, ~is_tile), seen, text_visible.long(), cache, last_count
        )
        masks = text_visible[:, None, :, None], tile_visible[:, None, :, None]
        return logits, (*((layer.keys, layer.values) for layer in cache.layers), *tile_states, masks)

    def _build_empty_states(self, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return keys and values of no tile."""
        config, weight = self.model.language_model.config, self.model.vision2text_model.weight
        head = config.hidden_size // config.num_attention_heads
        empty = weight.new_empty(rows, config.num_key_value_heads, 0, head)
        return empty, empty


@dataclass(frozen=True, eq=False, kw_only=True)
class MplugOwl3Decoder(VisionLanguageModel):
    """A loaded mPLUG-Owl3.

    Attributes:
        placeholder_ids: The ids by which the network reads a placeholder, of which there are several.
    """

    placeholder_ids: tuple[int, ...]

    @property
    def published_masked_id(self) -> int:
        """Token id of masked tokens in `published`: a blank."""
        return int(self.tokenizer.convert_tokens_to_ids(BLANK))

    def count_fixed_ids(self, prompt: Prompt) -> int:
        """Return the number of ids up to the image and one more."""
        return 0 if prompt.image_position is None else prompt.image_position + 2

    def prepare_image(self, image: Image.Image) -> PreparedImage:
        """Return the tiles of an image, the whole image last."""
        tiles, grid = cut_image(image.convert("RGB"), self.network.model.side)
        return PreparedImage(tiles.to(self.device), {"grid": torch.tensor(grid)}, image)

    def _encode_image(self, picture: PreparedImage, pixels: torch.Tensor) -> torch.Tensor:
        embeddings: torch.Tensor = self.network.model.encode_images(pixels.flatten(0, 1))
        return embeddings.reshape(len(pixels), -1, embeddings.shape[-1])

    def _build_layout(self, prompt: Prompt, picture: PreparedImage, image_position: int) -> PromptLayout:
        text = prompt.text.replace(PLACEHOLDER, spell_image(*picture.extras["grid"].tolist()), 1)
        ids = self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        after = len(prompt.ids) - image_position - 1
        stop = len(ids) - after
        if (
            tuple(ids[:image_position]) != prompt.ids[:image_position]
            or tuple(ids[stop:]) != prompt.ids[len(prompt.ids) - after :]
        ):
            raise UserError(
                f"models.{self.spec.name}: the text around the image joins that of its tiles: {prompt.text[:60]!r}...;"
                " put a line break before the image"
            )
        first, *others = self.placeholder_ids
        count = self.network.model.positions_per_tile
        block: list[int] = []
        places: list[int] = []
        positions = list(range(image_position))
        text_length = image_position
        for token in ids[image_position:stop]:
            if token == self.image_id:
                places.extend(range(len(block) + 1, len(block) + 1 + count))
                block.extend([first, *[self.image_id] * count, *others])
                behind = range(text_length + 1, text_length + 1 + len(others))
                positions.extend([text_length, *[text_length + 1] * count, *behind])
                text_length += len(self.placeholder_ids)
            else:
                block.append(token)
                positions.append(text_length)
                text_length += 1
        positions.extend(range(text_length, text_length + after))
        if positions[-1] >= self.window:
            raise UserError(
                f"models.{self.spec.name}: {positions[-1] + 1} positions with the image's text, at most {self.window}"
                f" are read: {prompt.text[:60]!r}...; shorten the prompt"
            )
        return PromptLayout(tuple(block), tuple(places), torch.tensor(positions, device=self.device))

    def _compute_positions(
        self, ids: torch.Tensor, picture: PreparedImage | None, token_types: torch.Tensor | None
    ) -> torch.Tensor:
        return torch.arange(ids.shape[1], device=self.device)


def is_mplug_owl3(spec: ModelSpec) -> bool:
    """Return whether the config of a hub id or folder says that it is mPLUG-Owl3; False where it cannot be read."""
    if isinstance(spec, LoadedSpec):
        return False
    options = {} if Path(spec.weights).is_dir() else {"revision": spec.revision}
    try:
        config, _ = transformers.PretrainedConfig.get_config_dict(spec.weights, **options)
    except Exception:  # a damaged config can raise anything
        return False
    return isinstance(config, dict) and config.get("model_type") == MODEL_TYPE


def load(spec: ModelSpec, device: Device) -> MplugOwl3Decoder:
    """Load mPLUG-Owl3 by hub id or folder; no code of it runs.

    Raises:
        UserError: The files cannot be had, or are not those of the network.
    """
    if spec.four_bit or spec.device_map:
        raise UserError(f"models.{spec.name}: four_bit and device_map are not for mPLUG-Owl3; remove them")
    folder = fetch_folder(spec, FILES)
    file = find_checkpoint_file(replace(spec, weights=str(folder)))
    try:
        tokenizer = transformers.Qwen2Tokenizer.from_pretrained(folder)
    except Exception as error:  # damaged files can raise anything
        raise UserError(
            f"models.{spec.name}: {folder}: no tokenizer: {get_first_line(error)}; copy it again"
        ) from error
    network = load_mplug_owl3(file, read_settings(folder / "config.json"), spec.name, getattr(torch, spec.dtype))
    return wrap_mplug_owl3(spec, network.to(device.name), tokenizer, device.name)


def wrap_mplug_owl3(spec: ModelSpec, network: MplugOwl3, tokenizer: Any, device: str) -> MplugOwl3Decoder:
    """Return a decoder from a network and tokenizer that are already loaded; the tokenizer gets the placeholder.

    Raises:
        UserError: The tokenizer is not one of Qwen2.
    """
    placeholder_ids = tokenizer(PLACEHOLDER, add_special_tokens=False)["input_ids"]
    tokenizer.add_tokens([AddedToken(PLACEHOLDER, special=True, normalized=False)])
    add_chat_template(tokenizer, False, replace(spec, chat_template=spec.chat_template or CHAT_TEMPLATE))
    image_id, vocabulary = tokenizer.convert_tokens_to_ids(PLACEHOLDER), tokenizer.get_vocab()
    if missing := [token for token in (*ENDS, BLANK) if token not in vocabulary]:
        raise UserError(
            f"models.{spec.name}: the tokenizer lacks {', '.join(missing)}; put that of Qwen2 into the folder"
        )
    config = network.language_model.config
    if image_id >= config.vocab_size:
        raise UserError(
            f"models.{spec.name}: the tokenizer has more tokens than the network ({image_id + 1} with the placeholder,"
            f" expected at most {config.vocab_size}); put its own into the folder"
        )
    takes = frozenset({"attention_mask", "position_ids"})
    return MplugOwl3Decoder(
        spec=spec,
        device=device,
        network=SideNetwork(network.eval(), device, takes, True, image_id),
        tokenizer=tokenizer,
        ends=frozenset(vocabulary[token] for token in ENDS),
        window=int(config.max_position_embeddings),
        placeholder=PLACEHOLDER,
        processor=tokenizer,
        image_id=image_id,
        placeholder_ids=tuple(placeholder_ids),
    )


def _append(
    before: tuple[torch.Tensor, torch.Tensor], after: tuple[torch.Tensor, torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return keys and values of positions and of those behind them."""
    return torch.cat([before[0], after[0]], dim=2), torch.cat([before[1], after[1]], dim=2)
