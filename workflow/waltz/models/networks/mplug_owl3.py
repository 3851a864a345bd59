"""mPLUG-Owl3 (Ye et al., 2024; release 240728) on transformers' Qwen2 and SigLIP, for the
checkpoint of its authors.

Images have no positions in the text. In a few layers (hyper layers) the queries of the text also
attend to the images that it has passed, and a gate mixes the result with the result of attention to
the text.
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
from transformers import (
    Qwen2Config,
    Qwen2ForCausalLM,
    SiglipVisionConfig,
    SiglipVisionModel,
)
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
from waltz.models.checkpoint_file import (
    Settings,
    format_keys,
    format_subject,
    load_weights,
    read_checkpoint,
)

PLACEHOLDER = "<|image|>"
"""Text that stands for an image or a tile; no special token of the tokenizer."""
GRIDS = ((2, 2), (1, 3), (1, 4), (3, 1), (4, 1), (2, 3), (3, 2))
"""Rows and columns that an image can be cut into."""
SHAPE_WEIGHT = 100
"""Weight of the aspect ratio against the size when a grid is chosen."""
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
"""Settings of the vision tower, in its `vision_config`; all others are the defaults of SigLIP."""


@dataclass(frozen=True, eq=False)
class ImageStates:
    """Images as the hyper layers attend to them.

    Attributes:
        states: Keys and values by number of the layer, each of shape (rows, key-value heads, image
            positions, width).
        visible: Whether a position of the text sees an image position: bool of shape (rows,
            positions, image positions).
    """

    states: Mapping[int, tuple[torch.Tensor, torch.Tensor]]
    visible: torch.Tensor


class HyperAttention(Qwen2Attention):  # type: ignore[misc]
    """Attention to the text, and by the same queries to images; its parameters have the names of
    the release.
    """

    def __init__(self, config: Qwen2Config, layer_idx: int) -> None:
        """Create the weights."""
        super().__init__(config, layer_idx)
        self.key_value_heads = config.num_key_value_heads
        self.v_kv_proj = nn.Linear(
            config.hidden_size, 2 * self.key_value_heads * self.head_dim
        )
        self.gate_proj = nn.Sequential(
            nn.Linear(self.head_dim, self.head_dim), nn.Sigmoid()
        )

    def project_images(
        self, features: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return keys and values of images.

        Args:
            features: Normalized embeddings, of shape (rows, image positions, width).
            cosines: Cosines of the rotation of keys, float32 of shape (rows, image positions, head
                width).
            sines: Sines of the rotation, of the same shape.
        Returns:
            Both of shape (rows, key-value heads, image positions, head width).
        """
        # (rows, image positions, heads, 2, head width): keys and values of the images.
        projected = self.v_kv_proj(features).unflatten(
            -1, (self.key_value_heads, 2, self.head_dim)
        )
        keys, values = projected.permute(3, 0, 2, 1, 4)
        # Rotary position embedding (Su et al., 2021): x cos + rotate_half(x) sin.
        rotated = (
            keys.float() * cosines[:, None] + rotate_half(keys.float()) * sines[:, None]
        )
        return rotated.to(keys.dtype), values

    def forward(
        self,
        hidden_states: torch.Tensor,
        position_embeddings: tuple[torch.Tensor, torch.Tensor],
        attention_mask: torch.Tensor | None,
        past_key_values: Any = None,
        images: ImageStates | None = None,
        cache: Any = None,
        **kwargs: Any,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return the states after attention, of the shape of `hidden_states`, and the weights of
        attention to text.

        Versions of transformers name keys and values `cache` or `past_key_values`.
        """
        if cache is None:
            cache = past_key_values
        heads = (*hidden_states.shape[:-1], -1, self.head_dim)
        # Each of shape (rows, heads, positions, head width).
        queries = self.q_proj(hidden_states).view(heads).transpose(1, 2)
        keys = self.k_proj(hidden_states).view(heads).transpose(1, 2)
        values = self.v_proj(hidden_states).view(heads).transpose(1, 2)
        queries, keys = apply_rotary_pos_emb(queries, keys, *position_embeddings)
        if cache is not None:
            keys, values = cache.update(keys, values, self.layer_idx)
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(
            self.config._attn_implementation, eager_attention_forward
        )
        # Attention to the text, as in Qwen2.
        context, weights = attend(
            self, queries, keys, values, attention_mask, scaling=self.scaling, **kwargs
        )
        if images is not None:
            context = self._mix_images(context.view(heads), queries, images)
        return self.o_proj(context.reshape(*hidden_states.shape[:-1], -1)), weights

    def _mix_images(
        self, context: torch.Tensor, queries: torch.Tensor, images: ImageStates
    ) -> torch.Tensor:
        """Return the context of each position, mixed with the context of the images if the position
        sees one.

        Args:
            context: Result of attention to the text, of shape (rows, positions, heads, head width).
            queries: Shape (rows, heads, positions, head width).
            images: The images.
        Returns:
            The shape of `context`.
        """
        image_keys, image_values = images.states[self.layer_idx]
        keys = repeat_kv(image_keys, self.num_key_value_groups)
        values = repeat_kv(image_values, self.num_key_value_groups)
        sees_any = images.visible.any(dim=-1)
        # A softmax over nothing has no value.
        mask = images.visible | ~sees_any[..., None]
        image_context = nn.functional.scaled_dot_product_attention(
            queries, keys, values, attn_mask=mask[:, None], scale=self.scaling
        ).transpose(1, 2)
        # The gate of each head decides how much of the images is mixed in.
        gate = self.gate_proj(context)
        mixed = context * (1 - gate) + image_context * gate
        return torch.where(sees_any[..., None, None], mixed, context)


class MplugOwl3(nn.Module):
    """The whole network; its parameters have the names of the release."""

    def __init__(
        self, text: Qwen2Config, vision: SiglipVisionConfig, hyper_layers: Sequence[int]
    ) -> None:
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
            self.language_model.model.layers[number].self_attn = HyperAttention(
                text, number
            )
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
    def tile_size(self) -> int:
        """Pixels of a tile in each direction."""
        return int(self.vision_model.config.image_size)

    @property
    def positions_per_tile(self) -> int:
        """Number of embeddings of a tile."""
        return int(self.tile_size // self.vision_model.config.patch_size) ** 2

    def encode_images(self, pixels: torch.Tensor) -> torch.Tensor:
        """Return embeddings of tiles: from (tiles, 3, height, width) to (tiles, positions, text
        width).

        They are the states before the last layer of the vision tower, projected. A border of the
        tile that is narrower than a patch is not seen.
        """
        states = self.vision_model.embeddings(
            pixels.to(self.vision2text_model.weight.dtype)
        )
        # The release reads the states before the last layer.
        for layer in self.vision_model.encoder.layers[:-1]:
            states = layer(states, None)
        projected: torch.Tensor = self.vision2text_model(states)
        return projected

    def project_images(
        self, features: torch.Tensor, positions: torch.Tensor
    ) -> dict[int, tuple[torch.Tensor, torch.Tensor]]:
        """Return keys and values of images in the hyper layers.

        Args:
            features: Embeddings of all tiles that a row can see, of shape (rows, image positions,
                width).
            positions: The position in the text of each image position: int64 of shape (rows, image
                positions).
        """
        body = self.language_model.model
        # An image has the position in the text of its placeholder.
        cosines, sines = body.rotary_emb(features.float(), positions)
        states = {}
        for number in self.hyper_layers:
            layer = body.layers[number]
            states[number] = layer.self_attn.project_images(
                layer.input_layernorm(features), cosines, sines
            )
        return states

    def compute_logits(
        self,
        ids: torch.Tensor,
        positions: torch.Tensor,
        images: ImageStates | None = None,
        visible: torch.Tensor | None = None,
        cache: Mapping[str, DynamicCache] | None = None,
        last_count: int = 0,
    ) -> torch.Tensor:
        """Return the logits of the token after each of the last positions.

        Args:
            ids: int64 of shape (rows, positions).
            positions: Position in the text of each id, of the same shape.
            images: The images; None without any.
            visible: Whether each position is not padding, the positions of the cache first: of shape
                (rows, all positions).
            cache: Keys and values of earlier positions, by the text network's name for them; the
                keys and values of these positions are appended.
            last_count: Number of last positions; 0 takes all.
        Returns:
            Shape (rows, last positions, vocabulary).
        """
        image_arguments = {} if images is None else {"images": images}
        outputs = self.language_model(
            input_ids=ids,
            position_ids=positions,
            attention_mask=visible,
            use_cache=cache is not None,
            logits_to_keep=last_count,
            **(cache or {}),
            **image_arguments,
        )
        logits: torch.Tensor = outputs.logits
        return logits


def load_mplug_owl3(
    file: Path, settings: Settings, name: str = "", dtype: torch.dtype = torch.float32
) -> MplugOwl3:
    """Load the network from the checkpoint of its authors, in evaluation mode.

    Args:
        file: The checkpoint.
        settings: The content of its `config.json`.
        name: Name of the model in the study, for errors; empty outside of one.
        dtype: Precision of the weights.
    Raises:
        UserError: The settings are incomplete or of another network, the file cannot be read, or
            its weights do not fit the network.
    """
    label = format_subject(name, file)
    network = build_network(settings, label, dtype)
    weights = read_checkpoint(file)
    later_keys = [
        key
        for key in weights
        if key.startswith("vision2text_model.0.") or key.endswith(".self_attn.gate")
    ]
    if later_keys:
        raise UserError(
            f"{label}: has {format_keys(later_keys)}, as the later releases of mPLUG-Owl3 do, which compute something"
            " else; name the release 240728"
        )
    load_weights(network, weights, file, name, lambda key: False, UNUSED_HEAD)
    # Buffers that no checkpoint holds: the network was created on the meta device.
    network.language_model.model.rotary_emb = Qwen2RotaryEmbedding(
        network.language_model.config
    )
    positions = torch.arange(network.positions_per_tile)[None]
    network.vision_model.embeddings.register_buffer(
        "position_ids", positions, persistent=False
    )
    return network.eval()


def build_network(
    settings: Settings, label: str, dtype: torch.dtype = torch.float32
) -> MplugOwl3:
    """Return the network of a checkpoint's settings on the meta device, without values.

    Raises:
        UserError: The settings are incomplete, or belong to another network.
    """
    vision = settings.get("vision_config")
    if not isinstance(vision, Mapping):
        vision = {}
    missing = [name for name in TEXT_FIELDS if settings.get(name) is None]
    missing += [
        f"vision_config.{name}" for name in TOWER_FIELDS if vision.get(name) is None
    ]
    if missing:
        raise UserError(
            f"{label}: its config.json lacks {', '.join(missing)}; fetch it again"
        )
    layers, depth = settings.get("hyper_layers"), settings["num_hidden_layers"]
    if not isinstance(layers, list) or not set(layers) <= set(range(1, depth + 1)):
        raise UserError(
            f"{label}: hyper_layers of its config.json are wrong (got {layers}, expected numbers from 1 to {depth});"
            " fetch it again"
        )
    if settings.get("use_sliding_window") or settings.get("tie_word_embeddings"):
        raise UserError(
            f"{label}: its config.json sets use_sliding_window or tie_word_embeddings, which the release 240728 does"
            " not; name that release"
        )
    text_settings = {
        name: settings[name] for name in TEXT_FIELDS if name != "rope_theta"
    }
    tower_settings = {name: vision[name] for name in TOWER_FIELDS}
    # The configuration counts layers from 1.
    hyper_layers = [layer - 1 for layer in layers]
    try:
        text = Qwen2Config(
            **text_settings,
            hidden_act=settings.get("hidden_act", "silu"),
            rope_parameters={
                "rope_type": "default",
                "rope_theta": float(settings["rope_theta"]),
            },
        )
        tower = SiglipVisionConfig(**tower_settings)
        with torch.device("meta"):
            network = MplugOwl3(text, tower, hyper_layers)
    except (TypeError, ValueError, RuntimeError, StrictDataclassError) as error:
        raise UserError(
            f"{label}: its config.json is not of mPLUG-Owl3: {get_first_line(error)}; fetch it again"
        ) from None
    return network.to(dtype)


def choose_grid(width: int, height: int, tile_size: int) -> tuple[int, int]:
    """Return the rows and columns that an image is cut into: the closest aspect ratio first, then
    the closest size.

    The arithmetic equals the release's, whose float32 and rounding down decide between close grids.
    """
    grids = torch.tensor(GRIDS)
    heights, widths = (grids * tile_size).unbind(dim=1)  # pixels of each grid
    # Of the image at the width of each grid.
    scaled_heights = (height / width * widths).long()
    # The shape compares the grid with the image at the same width, the size compares it with the
    # image itself.
    shape_score = _compute_overlap(widths, heights, widths, scaled_heights)
    size_score = _compute_overlap(
        widths, heights, torch.tensor(width), torch.tensor(height)
    )
    return GRIDS[int((SHAPE_WEIGHT * shape_score + size_score).argmax())]


def _compute_overlap(
    width1: torch.Tensor,
    height1: torch.Tensor,
    width2: torch.Tensor,
    height2: torch.Tensor,
) -> torch.Tensor:
    """Return the intersection over union of boxes with a common corner."""
    shared = torch.minimum(width1, width2) * torch.minimum(height1, height2)
    return shared / (width1 * height1 + width2 * height2 - shared + 1e-5)


def cut_image(
    image: Image.Image, tile_size: int
) -> tuple[torch.Tensor, tuple[int, int]]:
    """Return the tiles of an RGB image, row by row and then the complete image, and the rows and
    columns.

    Args:
        image: The image; its aspect ratio is not kept.
        tile_size: Pixels of a tile in each direction.
    Returns:
        Tiles of values from -1 to 1, float32 of shape (tiles, 3, tile_size, tile_size), and the
        grid.
    """
    rows, columns = choose_grid(*image.size, tile_size)
    resized = image.resize(
        (columns * tile_size, rows * tile_size), Image.Resampling.BICUBIC
    )
    tiles = []
    for row in range(rows):
        for column in range(columns):
            left, top = column * tile_size, row * tile_size
            tiles.append(resized.crop((left, top, left + tile_size, top + tile_size)))
    # The complete image comes last.
    tiles.append(image.resize((tile_size, tile_size), Image.Resampling.BICUBIC))
    # (tiles, height, width, RGB) -> (tiles, RGB, height, width), then from 0 to 255 to -1 to 1.
    levels = torch.stack([torch.from_numpy(np.array(tile)) for tile in tiles]).permute(
        0, 3, 1, 2
    )
    return (levels.float() / 255 - 0.5) / 0.5, (rows, columns)


def spell_image(rows: int, columns: int) -> str:
    """Return the text that stands for an image in this many tiles, with a placeholder for each."""
    lines = []
    for row in range(rows):
        lines.append(
            " ".join(
                f"subimg({row},{column}){PLACEHOLDER}" for column in range(columns)
            )
        )
    tiles = "\n".join(lines)
    return f"Cut to {rows} rows {columns} columns with a global view\n{tiles}\nglobal_view{PLACEHOLDER}"
