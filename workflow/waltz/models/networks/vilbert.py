"""ViLBERT and 12-in-1 in plain PyTorch: two streams and co-attention layers, for the original
checkpoint files.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from transformers import BertConfig
from transformers.models.bert.modeling_bert import (
    BertIntermediate,
    BertLayer,
    BertOutput,
)

from waltz.core.errors import UserError
from waltz.models import checkpoint_file
from waltz.models.checkpoint_file import Settings

EPSILON = 1e-12
"""Added to the variance in every layer norm, inside the square root."""
MATCH = 0
"""Index of a match in the ITM head's output: in training, 0 for the image's caption and 1 for a
random one.
"""
TASK_EMBEDDINGS = "bert.embeddings.task_embeddings.weight"
Mask = torch.Tensor | None
"""Bias of attention scores, of shape (batch, 1, 1, keys); None if every key is visible."""


@dataclass(frozen=True)
class VilbertConfig:
    """Sizes of a ViLBERT, by the names of the release's JSON; the defaults are those of the
    released checkpoints.

    Names with `v_` belong to the image stream, those with `bi_` to co-attention and the pooled
    vectors.

    Attributes:
        v_biattention_id: Number of image layers before each co-attention layer.
        t_biattention_id: Number of text layers before each co-attention layer.
        fusion_method: Whether the pooled vectors are multiplied (`mul`) or added (`sum`).
        tasks: Rows of the task embeddings, which no JSON has; 0 for a network without them.
    """

    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    vocab_size: int = 30522
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    v_feature_size: int = 2048
    v_hidden_size: int = 1024
    v_num_hidden_layers: int = 6
    v_num_attention_heads: int = 8
    v_intermediate_size: int = 1024
    bi_hidden_size: int = 1024
    bi_num_attention_heads: int = 8
    v_biattention_id: tuple[int, ...] = (0, 1, 2, 3, 4, 5)
    t_biattention_id: tuple[int, ...] = (6, 7, 8, 9, 10, 11)
    hidden_act: str = "gelu"
    v_hidden_act: str = "gelu"
    fusion_method: str = "mul"
    tasks: int = 0

    def build_layer_config(self, stream: str) -> BertConfig:
        """Return BERT's configuration of a layer of one stream: `v_` for the image, empty for the
        text.
        """
        names = (
            "hidden_size",
            "num_attention_heads",
            "intermediate_size",
            "hidden_act",
        )
        sizes = {name: getattr(self, stream + name) for name in names}
        return BertConfig(**sizes, layer_norm_eps=EPSILON, attn_implementation="sdpa")


class CoAttention(nn.Module):
    """Queries of each stream over keys and values of the other, both from the layer's input; then
    an MLP for each.

    Source:
        Lu et al., ViLBERT (NeurIPS 2019), figure 2b.
    """

    def __init__(self, config: VilbertConfig) -> None:
        """Create a layer between both streams; number 1 is the image, 2 the text."""
        super().__init__()
        self.heads = config.bi_num_attention_heads
        image = config.v_hidden_size
        text = config.hidden_size
        inner = config.bi_hidden_size
        projections = {}
        for number, width in ((1, image), (2, text)):
            for name in ("query", "key", "value"):
                projections[f"{name}{number}"] = nn.Linear(width, inner)
        self.biattention = nn.ModuleDict(projections)
        self.biOutput = nn.ModuleDict(
            {
                "dense1": nn.Linear(inner, image),
                "LayerNorm1": nn.LayerNorm(image, EPSILON),
                "dense2": nn.Linear(inner, text),
                "LayerNorm2": nn.LayerNorm(text, EPSILON),
            }
        )
        image_config = config.build_layer_config("v_")
        text_config = config.build_layer_config("")
        self.v_intermediate = BertIntermediate(image_config)
        self.v_output = BertOutput(image_config)
        self.t_intermediate = BertIntermediate(text_config)
        self.t_output = BertOutput(text_config)

    def forward(
        self, text: torch.Tensor, image: torch.Tensor, text_mask: Mask, image_mask: Mask
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return states of both streams, text first."""
        # Both attentions read the layer's input, so that neither stream sees the other's new
        # states.
        image_context = self._attend(2, text, 1, image, image_mask)
        text_context = self._attend(1, image, 2, text, text_mask)
        text = self._add_residual(2, text, image_context)
        image = self._add_residual(1, image, text_context)
        return self.t_output(self.t_intermediate(text), text), self.v_output(
            self.v_intermediate(image), image
        )

    def _attend(
        self,
        query_stream: int,
        query_states: torch.Tensor,
        context_stream: int,
        context_states: torch.Tensor,
        mask: Mask,
    ) -> torch.Tensor:
        # Each of shape (batch, heads, positions, head width).
        queries = self._project("query", query_stream, query_states)
        keys = self._project("key", context_stream, context_states)
        values = self._project("value", context_stream, context_states)
        # softmax(Q Kᵀ / √d) V with queries of one stream and keys and values of the other.
        context = functional.scaled_dot_product_attention(
            queries, keys, values, attn_mask=mask
        )
        return context.transpose(1, 2).flatten(2)

    def _project(self, name: str, stream: int, states: torch.Tensor) -> torch.Tensor:
        projected = self.biattention[f"{name}{stream}"](states)
        by_head: torch.Tensor = projected.unflatten(-1, (self.heads, -1)).transpose(
            1, 2
        )
        return by_head

    def _add_residual(
        self, stream: int, states: torch.Tensor, context: torch.Tensor
    ) -> torch.Tensor:
        normed: torch.Tensor = self.biOutput[f"LayerNorm{stream}"](
            states + self.biOutput[f"dense{stream}"](context)
        )
        return normed


class TextEmbeddings(nn.Module):
    """Embeddings of word, position and segment; for 12-in-1 a task's vector, without position and
    segment.
    """

    def __init__(self, config: VilbertConfig) -> None:
        """Create the tables."""
        super().__init__()
        width = config.hidden_size
        self.word_embeddings = nn.Embedding(config.vocab_size, width)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, width)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, width)
        self.LayerNorm = nn.LayerNorm(width, EPSILON)
        if config.tasks:
            self.task_embeddings = nn.Embedding(config.tasks, width)

    def forward(
        self, ids: torch.Tensor, segments: torch.Tensor, tasks: torch.Tensor | None
    ) -> torch.Tensor:
        """Return states of shape (batch, length, width); with tasks, the task's state is inserted
        at position 1.
        """
        positions = torch.arange(ids.shape[1], device=ids.device)
        states = (
            self.word_embeddings(ids)
            + self.position_embeddings(positions)
            + self.token_type_embeddings(segments)
        )
        if tasks is not None:
            # After [CLS]; the task has neither position nor segment.
            states = torch.cat(
                [states[:, :1], self.task_embeddings(tasks)[:, None], states[:, 1:]],
                dim=1,
            )
        normed: torch.Tensor = self.LayerNorm(states)
        return normed


class ImageEmbeddings(nn.Module):
    """Linear embeddings of a region's feature and location."""

    def __init__(self, config: VilbertConfig) -> None:
        """Create the linear maps."""
        super().__init__()
        self.image_embeddings = nn.Linear(config.v_feature_size, config.v_hidden_size)
        self.image_location_embeddings = nn.Linear(5, config.v_hidden_size)
        self.LayerNorm = nn.LayerNorm(config.v_hidden_size, EPSILON)

    def forward(self, features: torch.Tensor, locations: torch.Tensor) -> torch.Tensor:
        """Return states of shape (batch, regions, width)."""
        states = self.image_embeddings(features) + self.image_location_embeddings(
            locations
        )
        normed: torch.Tensor = self.LayerNorm(states)
        return normed


class TwoStreams(nn.Module):
    """Both streams with the ITM head, and for 12-in-1 the retrieval head; parameters as the
    released files name them.

    `compute_match_logits(fuse(encode_text(...), encode_image(...)))` is the forward pass.
    """

    def __init__(self, config: VilbertConfig) -> None:
        """Create a network, with task tokens and retrieval head if it has tasks."""
        super().__init__()
        self.config = config
        text = config.build_layer_config("")
        image = config.build_layer_config("v_")
        inner = config.bi_hidden_size
        stacks = {
            "layer": nn.ModuleList(
                BertLayer(text) for _ in range(config.num_hidden_layers)
            ),
            "v_layer": nn.ModuleList(
                BertLayer(image) for _ in range(config.v_num_hidden_layers)
            ),
            "c_layer": nn.ModuleList(
                CoAttention(config) for _ in config.v_biattention_id
            ),
        }
        self.bert: Any = nn.ModuleDict(
            {
                "embeddings": TextEmbeddings(config),
                "v_embeddings": ImageEmbeddings(config),
                "encoder": nn.ModuleDict(stacks),
                "t_pooler": nn.ModuleDict(
                    {"dense": nn.Linear(config.hidden_size, inner)}
                ),
                "v_pooler": nn.ModuleDict(
                    {"dense": nn.Linear(config.v_hidden_size, inner)}
                ),
            }
        )
        self.cls: Any = nn.ModuleDict({"bi_seq_relationship": nn.Linear(inner, 2)})
        if config.tasks:
            self.vil_logit = nn.Linear(inner, 1)

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the weights."""
        dtype: torch.dtype = self.cls["bi_seq_relationship"].weight.dtype
        return dtype

    def encode_text(
        self,
        ids: torch.Tensor,
        segments: torch.Tensor | None = None,
        tasks: torch.Tensor | None = None,
        mask: Mask = None,
    ) -> torch.Tensor:
        """Return states of texts before the first co-attention.

        Args:
            ids: Word pieces, int64 of shape (batch, length).
            segments: Segment of each word piece, of the same shape; None for segment 0.
            tasks: Numbers of tasks, int64 of shape (batch,), for a network with task tokens.
            mask: Bias of attention scores, task token included.
        Returns:
            Shape (batch, length, width); the length is one more with tasks.
        """
        if segments is None:
            segments = torch.zeros_like(ids)
        states = self.bert["embeddings"](ids, segments, tasks)
        return self._apply_layers("layer", 0, states, mask)

    def encode_image(
        self, features: torch.Tensor, locations: torch.Tensor, mask: Mask = None
    ) -> torch.Tensor:
        """Return states of regions before the first co-attention.

        Args:
            features: Features, of shape (batch, regions, v_feature_size); row 0 is the whole image.
            locations: Left, top, right, bottom and area as shares of the image, of shape (batch,
                regions, 5).
            mask: Bias of attention scores.
        Returns:
            Shape (batch, regions, v_hidden_size).
        """
        states = self.bert["v_embeddings"](features, locations)
        return self._apply_layers("v_layer", 0, states, mask)

    def fuse(
        self,
        text: torch.Tensor,
        image: torch.Tensor,
        text_mask: Mask = None,
        image_mask: Mask = None,
    ) -> torch.Tensor:
        """Return the joint vector of encoded texts and images, of shape (batch, bi_hidden_size)."""
        # A co-attention, then the layers of each stream up to the next one.
        for number, co_attention in enumerate(self.bert["encoder"]["c_layer"], start=1):
            text, image = co_attention(text, image, text_mask, image_mask)
            text = self._apply_layers("layer", number, text, text_mask)
            image = self._apply_layers("v_layer", number, image, image_mask)
        # The pooled vectors are those of [CLS] and of the whole image.
        text_vector = functional.relu(self.bert["t_pooler"]["dense"](text[:, 0]))
        image_vector = functional.relu(self.bert["v_pooler"]["dense"](image[:, 0]))
        if self.config.fusion_method == "mul":
            return text_vector * image_vector
        return text_vector + image_vector

    def compute_match_logits(self, joint: torch.Tensor) -> torch.Tensor:
        """Return both logits of the ITM head, of shape (batch, 2): match, then mismatch."""
        logits: torch.Tensor = self.cls["bi_seq_relationship"](joint)
        return logits

    def compute_retrieval_logit(self, joint: torch.Tensor) -> torch.Tensor:
        """Return the logit of the retrieval head, of shape (batch, 1); it has no meaningful zero."""
        logit: torch.Tensor = self.vil_logit(joint)
        return logit

    def _apply_layers(
        self, stack: str, co_attentions: int, states: torch.Tensor, mask: Mask
    ) -> torch.Tensor:
        """Return states after the layers of one stream between two co-attention layers."""
        positions = self.config.v_biattention_id
        if stack == "layer":
            positions = self.config.t_biattention_id
        # Layers between co-attention k - 1 and k are those from positions[k - 1] to positions[k].
        bounds = [0, *positions, None]
        first, last = bounds[co_attentions : co_attentions + 2]
        for layer in self.bert["encoder"][stack][first:last]:
            states = layer(states, mask)
        return states


SIZE_AXES = {
    "vocab_size": ("bert.embeddings.word_embeddings.weight", 0),
    "hidden_size": ("bert.embeddings.word_embeddings.weight", 1),
    "max_position_embeddings": ("bert.embeddings.position_embeddings.weight", 0),
    "type_vocab_size": ("bert.embeddings.token_type_embeddings.weight", 0),
    "v_hidden_size": ("bert.v_embeddings.image_embeddings.weight", 0),
    "v_feature_size": ("bert.v_embeddings.image_embeddings.weight", 1),
    "intermediate_size": ("bert.encoder.layer.0.intermediate.dense.weight", 0),
    "v_intermediate_size": ("bert.encoder.v_layer.0.intermediate.dense.weight", 0),
    "bi_hidden_size": ("bert.t_pooler.dense.weight", 0),
}
"""Parameter and axis of each size."""
SUPPORTED_OPTIONS: dict[str, tuple[Any, ...]] = {
    "hidden_act": ("gelu", "relu"),
    "v_hidden_act": ("gelu", "relu"),
    "fusion_method": ("mul", "sum"),
    "with_coattention": (True,),
    "dynamic_attention": (False,),
    "in_batch_pairs": (False,),
    "model": ("bert",),
}
"""Supported values of options that change the computation, the release's default first."""
UNUSED_KEYS = {
    "mlm": r"cls\.predictions\.(bias|decoder\.weight|transform\.(dense|LayerNorm)\.(weight|bias))",
    "region": r"cls\.imagePredictions\.(decoder|transform\.(dense|LayerNorm))\.(weight|bias)",
    "retrieval": r"vil_logit\.(weight|bias)",
    "vqa, gqa": r"vil_prediction(_gqa)?\.logit_fc\.[023]\.(weight|bias)",
    "nlvr2": r"vil_binary_prediction\.logit_fc\.[023]\.(weight|bias)",
    "entailment": r"vil_tri_prediction\.(weight|bias)",
    "grounding": r"vision_logit\.(weight|bias)",
    "unused": r"linguisic_logit\.(weight|bias)|bert\.encoder\.c_layer\.\d+\.biOutput\.q_dense[12]\.(weight|bias)",
}
"""Keys that no score needs, by their role; a network with a retrieval head still loads its keys."""
OLD_NORM_NAMES = {"gamma": "weight", "beta": "bias"}
"""Names of weight and bias of a layer norm in very old files."""


def load_two_streams(
    file: Path,
    settings: Settings | None,
    has_tasks: bool,
    name: str = "",
    dtype: torch.dtype = torch.float32,
    allow_missing: Mapping[str, str] = {},
) -> TwoStreams:
    """Return a network of the sizes of its checkpoint, in evaluation mode.

    Args:
        file: An original checkpoint, also as training scripts save it (`model_state_dict`,
            `module.`).
        settings: The release's JSON; None for the JSON next to the file, or the released sizes.
        has_tasks: Whether it has task tokens and a retrieval head, as 12-in-1 does.
        name: Name of the model in the study; empty outside of one.
        dtype: Precision of its weights.
        allow_missing: See `checkpoint_file.load_weights`.
    Raises:
        UserError: The file is not such a checkpoint, a key is missing or unexpected, or the JSON does
            not fit.
    """
    weights = _rename_old_norms(checkpoint_file.read_checkpoint(file))
    label = checkpoint_file.format_subject(name, file)
    if TASK_EMBEDDINGS in weights and not has_tasks:
        raise UserError(
            f"{label}: it reads task tokens ({TASK_EMBEDDINGS}); set its kind to vilbert-12in1"
        )
    if settings is None:
        settings = checkpoint_file.read_adjacent_settings(file) or None
    # Without values, which the checkpoint brings.
    with torch.device("meta"):
        network = TwoStreams(
            read_vilbert_config(weights, settings, has_tasks, label)
        ).to(dtype)
    checkpoint_file.load_weights(network, weights, file, name, is_unused, allow_missing)
    return network.eval().requires_grad_(False)


def is_unused(key: str) -> bool:
    """Return whether a checkpoint's key belongs to a head that scores no match, or is not used at
    all.
    """
    return any(re.fullmatch(pattern, key) for pattern in UNUSED_KEYS.values())


def read_vilbert_config(
    weights: Mapping[str, torch.Tensor],
    settings: Settings | None,
    has_tasks: bool,
    label: str,
) -> VilbertConfig:
    """Return the configuration of a checkpoint.

    Sizes come from the shapes of the weights, which the JSON must agree with, and everything else
    from the JSON.

    Args:
        weights: The checkpoint.
        settings: The release's JSON, of which other keys are ignored; None for a checkpoint of the
            released sizes.
        has_tasks: Whether the network reads task tokens (12-in-1).
        label: Start of error messages.
    Raises:
        UserError: A parameter that determines a size is missing, or the JSON disagrees with a
            shape, lacks a setting that no shape determines, or has an option that is not supported.
    """
    values = asdict(VilbertConfig())
    source = f"{label}: it comes without a JSON, and the released"
    if settings is not None:
        values = dict(settings)
        source = f"{label}: its JSON's"
    sizes = _read_sizes(weights, label)
    # A JSON that disagrees belongs to another network, and so do its settings that no shape shows.
    for key, size in sizes.items():
        if values.get(key, size) != size:
            raise UserError(
                f"{source} {key} is {values[key]}, its weights have {size}; use the JSON of these weights"
            )
    options = {}
    for key, supported in SUPPORTED_OPTIONS.items():
        options[key] = values.get(key, supported[0])
        if options[key] not in supported:
            choices = ", ".join(map(repr, supported))
            raise UserError(
                f"{label}: its JSON's {key} is {options[key]!r}; only {choices} can be computed; name a checkpoint with"
                " that"
            )
    tasks = 0
    if has_tasks:
        tasks, _ = checkpoint_file.get_shape(weights, TASK_EMBEDDINGS, 2, label)
    co_attentions = _count_layers(weights, "c_layer")
    image_layers, text_layers = sizes["v_num_hidden_layers"], sizes["num_hidden_layers"]
    return VilbertConfig(
        **sizes,
        num_attention_heads=_read_heads(values, "", sizes, label),
        v_num_attention_heads=_read_heads(values, "v_", sizes, label),
        bi_num_attention_heads=_read_heads(values, "bi_", sizes, label),
        v_biattention_id=_read_positions(
            values, "v_biattention_id", co_attentions, image_layers, label
        ),
        t_biattention_id=_read_positions(
            values, "t_biattention_id", co_attentions, text_layers, label
        ),
        hidden_act=options["hidden_act"],
        v_hidden_act=options["v_hidden_act"],
        fusion_method=options["fusion_method"],
        tasks=tasks,
    )


def _read_sizes(weights: Mapping[str, torch.Tensor], label: str) -> dict[str, int]:
    """Return the sizes that shapes and numbers of layers determine, by their names in the JSON."""
    sizes = {}
    for key, (name, axis) in SIZE_AXES.items():
        sizes[key] = checkpoint_file.get_shape(weights, name, 2, label)[axis]
    sizes["num_hidden_layers"] = _count_layers(weights, "layer")
    sizes["v_num_hidden_layers"] = _count_layers(weights, "v_layer")
    return sizes


def _count_layers(weights: Mapping[str, torch.Tensor], stack: str) -> int:
    return 1 + max(
        checkpoint_file.list_layers(weights, f"bert.encoder.{stack}."), default=-1
    )


def _read_heads(
    values: Settings, stream: str, sizes: Mapping[str, int], label: str
) -> int:
    """Return the number of attention heads of a stream, which no shape determines."""
    key, width = f"{stream}num_attention_heads", sizes[f"{stream}hidden_size"]
    heads = values.get(key)
    if not isinstance(heads, int) or heads < 1:
        raise UserError(
            f"{label}: its JSON's {key} is {heads!r}, a whole number above 0 is needed; add it to the JSON"
        )
    if width % heads:
        raise UserError(
            f"{label}: {stream}hidden_size {width} is not a multiple of {key} {heads}; correct the JSON"
        )
    return heads


def _read_positions(
    values: Settings, key: str, count: int, layers: int, label: str
) -> tuple[int, ...]:
    """Return the positions of the co-attention layers in a stream, which no shape determines."""
    positions: Any = values.get(key)
    is_list = isinstance(positions, list | tuple)
    if not (
        is_list
        and all(isinstance(position, int) for position in positions)
        and _are_ascending(positions)
    ):
        raise UserError(
            f"{label}: its JSON's {key} is {positions!r}, ascending whole numbers are needed; correct the JSON"
        )
    is_within_layers = all(0 <= position <= layers for position in positions)
    if len(positions) != count or not is_within_layers:
        raise UserError(
            f"{label}: {key} {[*positions]} does not fit {count} co-attention layers over {layers} layers; correct the"
            " JSON"
        )
    return tuple(positions)


def _are_ascending(positions: Sequence[int]) -> bool:
    return sorted(positions) == [*positions]


def _rename_old_norms(weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the tensors with old names of layer norms replaced, unless the new name is taken."""
    renamed = {}
    for key, tensor in weights.items():
        layer, _, parameter = key.rpartition(".")
        new_key = key
        if "LayerNorm" in layer:
            new_key = f"{layer}.{OLD_NORM_NAMES.get(parameter, parameter)}"
        if new_key in weights:
            new_key = key
        renamed[new_key] = tensor
    return renamed
