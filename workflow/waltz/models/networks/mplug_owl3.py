"""mPLUG-Owl3 (Ye et al., 2024; release 240728) on transformers' Qwen2 and SigLIP, for the checkpoint of its authors.

Images take no place in the text. In a few layers (hyper layers) the queries of the text also attend to the images that
it has passed, and a gate mixes the result with that of attention to the text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from huggingface_hub.errors import StrictDataclassError
from PIL import Image
from torch import nn
from transformers import Qwen2Config, Qwen2ForCausalLM, SiglipVisionConfig, SiglipVisionModel
from transformers.cache_utils import DynamicCache
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.qwen2.modeling_qwen2 import (
    Qwen2Attention,
    Qwen2RotaryEmbedding,
    apply_rotary_pos_emb,
    eager_attention_forward,
    repeat_kv,
    rotate_half,
)

from waltz.core.errors import UserError, get_first_line
from waltz.models.checkpoint_file import format_keys, format_subject, load_weights, read_checkpoint

PLACEHOLDER = "<|image|>"
"""Text that stands for an image or a tile; no special token of the tokenizer."""
GRIDS = ((2, 2), (1, 3), (1, 4), (3, 1), (4, 1), (2, 3), (3, 2))
"""Rows and columns that an image can be cut into."""
SHAPE_WEIGHT = 100
"""Weight of the aspect ratio against the size where a grid is chosen."""
UNUSED_HEAD = {"vision_model.head.*": "the pooling head of SigLIP is not used"}
"""Keys that a checkpoint may lack."""
TEXT_FIELDS = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "max_position_embeddings",
    "rms_norm_eps",
    "rope_theta",
)
"""Settings of the text decoder that a checkpoint's `config.json` must have."""
TOWER_FIELDS = (
    "hidden_size",
    "image_size",
    "patch_size",
    "intermediate_size",
    "num_attention_heads",
    "num_hidden_layers",
)
"""Settings of the vision tower, in its `vision_config`; all others are SigLIP's own."""


@dataclass(frozen=True, eq=False)
class ImageStates:
    """Images as the hyper layers attend to them.

    Attributes:
        states: Keys and values by number of the layer, each of shape (rows, key-value heads, image positions, width).
        visible: Which image positions a position of the text sees: bool of shape (rows, positions, image positions).
    """

    states: Mapping[int, tuple[torch.Tensor, torch.Tensor]]
    visible: torch.Tensor


class HyperAttention(Qwen2Attention):  # type: ignore[misc]
    """Attention to the text, and by the same queries to images; its parameters have the names of the release."""

    def __init__(self, config: Qwen2Config, layer_idx: int) -> None:
        """Create the weights."""
        super().__init__(config, layer_idx)
        self.key_value_heads = config.num_key_value_heads
        self.v_kv_proj = nn.Linear(config.hidden_size, 2 * self.key_value_heads * self.head_dim)
        self.gate_proj = nn.Sequential(nn.Linear(self.head_dim, self.head_dim), nn.Sigmoid())

    def project_images(
        self, features: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return keys and values of images.

        Args:
            features: Normalised embeddings, of shape (rows, image positions, width).
            cosines: Of the rotation of keys, float32 of shape (rows, image positions, head width).
            sines: Likewise.
        Returns:
            Both of shape (rows, key-value heads, image positions, head width).
        """
        projected = self.v_kv_proj(features).unflatten(-1, (self.key_value_heads, 2, self.head_dim))
        keys, values = projected.permute(3, 0, 2, 1, 4)
        rotated = keys.float() * cosines[:, None] + rotate_half(keys.float()) * sines[:, None]
        return rotated.to(keys.dtype), values

    def forward(
        self,
        hidden_states: torch.Tensor,
        position_embeddings: tuple[torch.Tensor, torch.Tensor],
        attention_mask: torch.Tensor | None,
        past_key_values: Any = None,
        images: ImageStates | None = None,
        **kwargs: Any,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return the states after attention, of the shape of `hidden_states`, and the weights of attention to text."""
        heads = (*hidden_states.shape[:-1], -1, self.head_dim)
        queries, keys, values = (
            projection(hidden_states).view(heads).transpose(1, 2)
            for projection in (self.q_proj, self.k_proj, self.v_proj)
        )
        queries, keys = apply_rotary_pos_emb(queries, keys, *position_embeddings)
        if past_key_values is not None:
            keys, values = past_key_values.update(keys, values, self.layer_idx)
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, eager_attention_forward)
        context, weights = attend(self, queries, keys, values, attention_mask, scaling=self.scaling, **kwargs)
        if images is not None:
            context = self._mix_images(context.view(heads), queries, images)
        return self.o_proj(context.reshape(*hidden_states.shape[:-1], -1)), weights

    def _mix_images(self, context: torch.Tensor, queries: torch.Tensor, images: ImageStates) -> torch.Tensor:
        """Return the context, (rows, positions, heads, width), mixed with that of the images where one is seen."""
        keys, values = (repeat_kv(states, self.num_key_value_groups) for states in images.states[self.layer_idx])
        sees_any = images.visible.any(dim=-1)
        mask = images.visible | ~sees_any[..., None]  # a softmax over nothing has no value
        seen = nn.functional.scaled_dot_product_attention(
            queries, keys, values, attn_mask=mask[:, None], scale=self.scaling
        ).transpose(1, 2)
        gate = self.gate_proj(context)
        return torch.where(sees_any[..., None, None], context * (1 - gate) + seen * gate, context)


class MplugOwl3(nn.Module):
    """The whole network; its parameters have the names of the release."""

    def __init__(self, text: Qwen2Config, vision: SiglipVisionConfig, hyper_layers: Sequence[int]) -> None:
        """Create the weights.

        Args:
            text: Settings of the text decoder.
            vision: Settings of the vision tower.
            hyper_layers: Numbers, from 0, of the layers that attend to images.
        """
        super().__init__()
        self.hyper_layers = tuple(hyper_layers)
        self.language_model = Qwen2ForCausalLM(text)
        for number in self.hyper_layers:
            self.language_model.model.layers[number].self_attn = HyperAttention(text, number)
        self.vision_model = SiglipVisionModel(vision)
        self.vision2text_model = nn.Linear(vision.hidden_size, text.hidden_size)

    @property
    def generation_config(self) -> Any:
        """Settings of generations: the defaults of transformers, as the release uses them."""
        return self.language_model.generation_config

    def get_input_embeddings(self) -> nn.Module:
        """Return the embeddings of ids of the text."""
        embeddings: nn.Module = self.language_model.get_input_embeddings()
        return embeddings

    @property
    def side(self) -> int:
        """Side of a tile in pixels."""
        return int(self.vision_model.config.image_size)

    @property
    def positions_per_tile(self) -> int:
        """Number of embeddings of a tile."""
        return int(self.side // self.vision_model.config.patch_size) ** 2

    def encode_images(self, pixels: torch.Tensor) -> torch.Tensor:
        """Return embeddings of tiles: from (tiles, 3, side, side) to (tiles, `positions_per_tile`, text width).

        They are the states before the last layer of the vision tower, projected. A border of the tile that is narrower
        than a patch is not seen.
        """
        states = self.vision_model.embeddings(pixels.to(self.vision2text_model.weight.dtype))
        for layer in self.vision_model.encoder.layers[:-1]:
            states = layer(states, None)
        projected: torch.Tensor = self.vision2text_model(states)
        return projected

    def project_images(
        self, features: torch.Tensor, positions: torch.Tensor
    ) -> dict[int, tuple[torch.Tensor, torch.Tensor]]:
        """Return keys and values of images in the hyper layers.

        Args:
            features: Embeddings of all tiles that a row can see, of shape (rows, image positions, width).
            positions: The place of each in the text: int64 of shape (rows, image positions).
        """
        body = self.language_model.model
        cosines, sines = body.rotary_emb(features.float(), positions)
        return {
            number: body.layers[number].self_attn.project_images(
                body.layers[number].input_layernorm(features), cosines, sines
            )
            for number in self.hyper_layers
        }

    def compute_logits(
        self,
        ids: torch.Tensor,
        positions: torch.Tensor,
        images: ImageStates | None = None,
        visible: torch.Tensor | None = None,
        cache: DynamicCache | None = None,
        last_count: int = 0,
    ) -> torch.Tensor:
        """Return the logits of the token after each of the last positions.

        Args:
            ids: int64 of shape (rows, positions).
            positions: Their places in the text, of the same shape.
            images: The images; None without any.
            visible: Which positions are no padding, those of the cache first: of shape (rows, all positions).
            cache: Keys and values of what stands before; those of these positions are appended.
            last_count: Number of last positions; 0 takes all.
        Returns:
            Of shape (rows, last positions, vocabulary).
        """
        given = {} if images is None else {"images": images}
        outputs = self.language_model(
            input_ids=ids,
            position_ids=positions,
            attention_mask=visible,
            past_key_values=cache,
            use_cache=cache is not None,
            logits_to_keep=last_count,
            **given,
        )
        logits: torch.Tensor = outputs.logits
        return logits


def load_mplug_owl3(
    file: Path, settings: Mapping[str, Any], name: str = "", dtype: torch.dtype = torch.float32
) -> MplugOwl3:
    """Load the network from the checkpoint of its authors, in evaluation mode.

    Args:
        file: The checkpoint.
        settings: The content of its `config.json`.
        name: Name of the model in the study, for errors; empty outside of one.
        dtype: Precision of the weights.
    Raises:
        UserError: The settings are incomplete or of another network, the file cannot be read, or its weights are not
            those of the network.
    """
    where = format_subject(name, file)
    network = build_network(settings, where, dtype)
    weights = read_checkpoint(file)
    others = [key for key in weights if key.startswith("vision2text_model.0.") or key.endswith(".self_attn.gate")]
    if others:
        raise UserError(
            f"{where}: has {format_keys(others)}, as the later releases of mPLUG-Owl3 do, which compute something else;"
            " name the release 240728"
        )
    load_weights(network, weights, file, name, lambda key: False, UNUSED_HEAD)
    network.language_model.model.rotary_emb = Qwen2RotaryEmbedding(network.language_model.config)
    positions = torch.arange(network.positions_per_tile)[None]
    network.vision_model.embeddings.register_buffer("position_ids", positions, persistent=False)
    return network.eval()


def build_network(settings: Mapping[str, Any], where: str, dtype: torch.dtype = torch.float32) -> MplugOwl3:
    """Return the network of a checkpoint's settings on the meta device, without values.

    Raises:
        UserError: The settings are incomplete, or those of another network.
    """
    vision, layers = settings.get("vision_config"), settings.get("hyper_layers")
    vision = vision if isinstance(vision, Mapping) else {}
    missing = [name for name in TEXT_FIELDS if settings.get(name) is None]
    missing += [f"vision_config.{name}" for name in TOWER_FIELDS if vision.get(name) is None]
    if missing:
        raise UserError(f"{where}: its config.json lacks {', '.join(missing)}; fetch it again")
    depth = settings["num_hidden_layers"]
    if not isinstance(layers, list) or not set(layers) <= set(range(1, depth + 1)):
        raise UserError(
            f"{where}: hyper_layers of its config.json are wrong (got {layers}, expected numbers from 1 to {depth});"
            " fetch it again"
        )
    if settings.get("use_sliding_window") or settings.get("tie_word_embeddings"):
        raise UserError(
            f"{where}: its config.json sets use_sliding_window or tie_word_embeddings, which the release 240728 does"
            " not; name that release"
        )
    try:
        text = Qwen2Config(
            **{name: settings[name] for name in TEXT_FIELDS if name != "rope_theta"},
            hidden_act=settings.get("hidden_act", "silu"),
            rope_parameters={"rope_type": "default", "rope_theta": float(settings["rope_theta"])},
        )
        tower = SiglipVisionConfig(**{name: vision[name] for name in TOWER_FIELDS})
        with torch.device("meta"):
            network = MplugOwl3(text, tower, [layer - 1 for layer in layers])
    except (TypeError, ValueError, RuntimeError, StrictDataclassError) as error:
        raise UserError(
            f"{where}: its config.json is not of mPLUG-Owl3: {get_first_line(error)}; fetch it again"
        ) from None
    return network.to(dtype)


def choose_grid(width: int, height: int, side: int) -> tuple[int, int]:
    """Return the rows and columns that an image is cut into: the aspect ratio first, then the size closest to its own.

    The arithmetic is that of the release, whose float32 and rounding down decide between close grids.
    """
    grids = torch.tensor(GRIDS)
    heights, widths = (grids * side).unbind(dim=1)
    scaled = (height / width * widths).long()
    shape = _compute_overlap(widths, heights, widths, scaled)
    size = _compute_overlap(widths, heights, torch.tensor(width), torch.tensor(height))
    return GRIDS[int((SHAPE_WEIGHT * shape + size).argmax())]


def _compute_overlap(
    width: torch.Tensor, height: torch.Tensor, other_width: torch.Tensor, other_height: torch.Tensor
) -> torch.Tensor:
    """Return the intersection over union of boxes with a common corner."""
    shared = torch.minimum(width, other_width) * torch.minimum(height, other_height)
    return shared / (width * height + other_width * other_height - shared + 1e-5)


def cut_image(image: Image.Image, side: int) -> tuple[torch.Tensor, tuple[int, int]]:
    """Return the tiles of an RGB image, row by row and then the whole image, and the rows and columns.

    Args:
        image: The image; its aspect ratio is not kept.
        side: Side of a tile in pixels.
    Returns:
        Tiles of values from -1 to 1, float32 of shape (tiles, 3, side, side), and the grid.
    """
    rows, columns = choose_grid(*image.size, side)
    resized = image.resize((columns * side, rows * side), Image.Resampling.BICUBIC)
    boxes = [(column * side, row * side) for row in range(rows) for column in range(columns)]
    tiles = [resized.crop((left, top, left + side, top + side)) for left, top in boxes]
    tiles.append(image.resize((side, side), Image.Resampling.BICUBIC))
    pixels = torch.stack([torch.from_numpy(np.array(tile)) for tile in tiles]).permute(0, 3, 1, 2)
    return (pixels.float() / 255 - 0.5) / 0.5, (rows, columns)


def spell_image(rows: int, columns: int) -> str:
    """Return the text that stands for an image in this many tiles, with a placeholder for each."""
    lines = [" ".join(f"subimg({row},{column}){PLACEHOLDER}" for column in range(columns)) for row in range(rows)]
    tiles = "\n".join(lines)
    return f"Cut to {rows} rows {columns} columns with a global view\n{tiles}\nglobal_view{PLACEHOLDER}"
