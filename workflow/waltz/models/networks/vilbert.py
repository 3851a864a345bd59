"""ViLBERT and 12-in-1 in plain PyTorch: two streams and co-attention layers, for the original checkpoint files."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from waltz.core.errors import UserError
from waltz.models import checkpoint_file

Weights = Mapping[str, torch.Tensor]
"""A checkpoint's tensors by their names in the file."""

RELEASED_CONFIG: dict[str, Any] = {
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "vocab_size": 30522,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "v_feature_size": 2048,
    "v_hidden_size": 1024,
    "v_num_hidden_layers": 6,
    "v_num_attention_heads": 8,
    "v_intermediate_size": 1024,
    "bi_hidden_size": 1024,
    "bi_num_attention_heads": 8,
    "v_biattention_id": (0, 1, 2, 3, 4, 5),
    "t_biattention_id": (6, 7, 8, 9, 10, 11),
}
"""The released checkpoints, for a file that comes without a JSON."""
HEAD_COUNTS = ("num_attention_heads", "v_num_attention_heads", "bi_num_attention_heads")
"""Head counts, which no shape determines."""
CO_ATTENTION_POSITIONS = ("v_biattention_id", "t_biattention_id")
"""Positions of the co-attention layers, which no shape determines."""
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
LAYER_STACKS = {"num_hidden_layers": "layer", "v_num_hidden_layers": "v_layer", "meetings": "c_layer"}
"""Lists of layers whose lengths give the number of layers."""
TASK_EMBEDDINGS = "bert.embeddings.task_embeddings.weight"


@dataclass(frozen=True)
class VilbertConfig:
    """The dimensions of a ViLBERT, by the names of the release's JSON.

    Attributes:
        hidden_size: Width of the text stream.
        num_hidden_layers: Its layers.
        num_attention_heads: Its heads.
        intermediate_size: Width of its MLPs.
        vocab_size: Word pieces.
        max_position_embeddings: Positions of a text.
        type_vocab_size: Segments.
        v_feature_size: Numbers of a region's feature.
        v_hidden_size: Width of the image stream.
        v_num_hidden_layers: Its layers.
        v_num_attention_heads: Its heads.
        v_intermediate_size: Width of its MLPs.
        bi_hidden_size: Width of co-attention and of the pooled vectors.
        bi_num_attention_heads: Heads of co-attention.
        v_biattention_id: Of each co-attention layer, the image layers that come before it.
        t_biattention_id: Likewise the text layers.
        hidden_act: Activation of the text's MLPs.
        v_hidden_act: That of the image's.
        fusion_method: Whether the pooled vectors are multiplied (`mul`) or added (`sum`).
        tasks: Rows of the task embeddings, which no JSON has; 0 for a network without.
    """

    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    vocab_size: int
    max_position_embeddings: int
    type_vocab_size: int
    v_feature_size: int
    v_hidden_size: int
    v_num_hidden_layers: int
    v_num_attention_heads: int
    v_intermediate_size: int
    bi_hidden_size: int
    bi_num_attention_heads: int
    v_biattention_id: tuple[int, ...]
    t_biattention_id: tuple[int, ...]
    hidden_act: str = "gelu"
    v_hidden_act: str = "gelu"
    fusion_method: str = "mul"
    tasks: int = 0


def build_config(weights: Weights, settings: Mapping[str, Any] | None, has_tasks: bool, name: str) -> VilbertConfig:
    """Return the configuration of a checkpoint: sizes from its shapes, the rest from its JSON.

    Args:
        weights: The checkpoint.
        settings: The release's JSON, whose other keys do not matter here; None for a checkpoint of the released sizes.
        has_tasks: Whether it reads task tokens (12-in-1).
        name: Of the file, for errors.
    Raises:
        UserError: A parameter that tells a size is missing, the JSON disagrees with a shape, lacks what no shape tells,
            or asks for what is not built here.
    """
    shape_sizes = _read_sizes(weights, has_tasks, name)
    values = RELEASED_CONFIG if settings is None else settings
    source = f"{name}: it comes without a JSON, and the released" if settings is None else f"{name}: its JSON's"
    sizes = {key: size for key, size in shape_sizes.items() if key not in ("meetings", "tasks")}
    for key, size in sizes.items():
        if key in values and values[key] != size:
            raise UserError(f"{source} {key} is {values[key]}, its weights have {size}; use the JSON of these weights")
    heads = {key: _read_number(values, key, name) for key in HEAD_COUNTS}
    meetings = {key: _read_positions(values, key, name) for key in CO_ATTENTION_POSITIONS}
    options_read = {key: _read_option(values, key, name) for key in SUPPORTED_OPTIONS}
    _check_consistency(sizes | heads, meetings, shape_sizes["meetings"], name)
    numbers: dict[str, Any] = {**sizes, **heads, **meetings, "tasks": shape_sizes["tasks"]}
    options = {key: options_read[key] for key in ("hidden_act", "v_hidden_act", "fusion_method")}
    return VilbertConfig(**numbers, **options)


def _read_sizes(weights: Weights, has_tasks: bool, name: str) -> dict[str, int]:
    """Return the sizes that shapes determine."""
    sizes = {key: _read_size(weights, *place, name) for key, place in SIZE_AXES.items()}
    for key, stack in LAYER_STACKS.items():
        numbers = {
            int(match.group(1))
            for match in (re.match(rf"bert\.encoder\.{stack}\.(\d{{1,4}})\.", parameter) for parameter in weights)
            if match
        }
        sizes[key] = max(numbers, default=-1) + 1
    return sizes | {"tasks": _read_size(weights, TASK_EMBEDDINGS, 0, name) if has_tasks else 0}


def _read_size(weights: Weights, parameter: str, axis: int, name: str) -> int:
    weight = weights.get(parameter)
    if weight is None or weight.ndim != 2:
        fault = "is missing" if weight is None else f"is of shape {tuple(weight.shape)}, not a matrix"
        raise UserError(f"{name}: {parameter} {fault}; name a ViLBERT checkpoint of this kind")
    return int(weight.shape[axis])


def _read_number(settings: Mapping[str, Any], key: str, name: str) -> int:
    value = settings.get(key)
    if not isinstance(value, int) or value < 1:
        raise UserError(f"{name}: its JSON's {key} is {value!r}, a whole number above 0 is needed; add it to the JSON")
    return value


def _read_positions(settings: Mapping[str, Any], key: str, name: str) -> tuple[int, ...]:
    value = settings.get(key)
    if (
        isinstance(value, list | tuple)
        and all(isinstance(position, int) for position in value)
        and sorted(value) == [*value]
    ):
        return tuple(value)
    raise UserError(f"{name}: its JSON's {key} is {value!r}, ascending whole numbers are needed; correct the JSON")


def _read_option(settings: Mapping[str, Any], key: str, name: str) -> Any:
    supported = SUPPORTED_OPTIONS[key]
    value = settings.get(key, supported[0])
    if value not in supported:
        raise UserError(
            f"{name}: its JSON's {key} is {value!r}; only {', '.join(map(repr, supported))} can be computed"
        )
    return value


def _check_consistency(
    sizes: Mapping[str, int], meetings: Mapping[str, tuple[int, ...]], count: int, name: str
) -> None:
    """Refuse numbers that do not form a network."""
    for prefix in ("", "v_", "bi_"):
        width, heads = sizes[f"{prefix}hidden_size"], sizes[f"{prefix}num_attention_heads"]
        if width % heads:
            raise UserError(
                f"{name}: {prefix}hidden_size {width} is no multiple of {prefix}num_attention_heads {heads}; mend the"
                " JSON"
            )
    for prefix in ("v_", "t_"):
        positions = meetings[f"{prefix}biattention_id"]
        layers = sizes["v_num_hidden_layers" if prefix == "v_" else "num_hidden_layers"]
        if len(positions) != count or not all(0 <= position <= layers for position in positions):
            raise UserError(
                f"{name}: {prefix}biattention_id {[*positions]} does not fit {count} co-attention layers over {layers}"
                " layers; correct the JSON"
            )


EPSILON = 1e-12
"""Of every layer norm, inside the square root."""
ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {"gelu": functional.gelu, "relu": functional.relu}
Mask = torch.Tensor | None
"""Bias of attention scores, of shape (batch, 1, 1, keys); None if every key is visible."""


class Residual(nn.Module):
    """A linear layer whose output is added to the residual, then normalised."""

    def __init__(self, inner: int, width: int) -> None:
        """Create a layer from `inner` to `width` features."""
        super().__init__()
        self.dense = nn.Linear(inner, width)
        self.LayerNorm = nn.LayerNorm(width, EPSILON)

    def forward(self, states: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        """Return states of the width of the residual."""
        normed: torch.Tensor = self.LayerNorm(residual + self.dense(states))
        return normed


class Dense(nn.Module):
    """A linear layer and an activation under the release's names."""

    def __init__(self, inner: int, width: int, act: str) -> None:
        """Create a layer from `inner` to `width` features with an activation."""
        super().__init__()
        self.dense = nn.Linear(inner, width)
        self.act = ACTIVATIONS[act]

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Return states of the new width."""
        return self.act(self.dense(states))


class StreamLayer(nn.Module):
    """Self-attention and MLP of one stream."""

    def __init__(self, width: int, heads: int, inner: int, act: str) -> None:
        """Create a layer with `heads` heads and an MLP of width `inner`."""
        super().__init__()
        self.heads = heads
        projections = {name: nn.Linear(width, width) for name in ("query", "key", "value")}
        self.attention: Any = nn.ModuleDict({"self": nn.ModuleDict(projections), "output": Residual(width, width)})
        self.intermediate = Dense(width, inner, act)
        self.output = Residual(inner, width)

    def forward(self, states: torch.Tensor, mask: Mask) -> torch.Tensor:
        """Return states of shape (batch, length, width)."""
        queries, keys, values = (self.attention["self"][name](states) for name in ("query", "key", "value"))
        states = self.attention["output"](compute_attention(queries, keys, values, self.heads, mask), states)
        outputs: torch.Tensor = self.output(self.intermediate(states), states)
        return outputs


class CoAttention(nn.Module):
    """Queries of each stream over keys and values of the other, both from the layer's input; then an MLP for each."""

    def __init__(self, config: VilbertConfig) -> None:
        """Create a layer between both streams; number 1 is the image, 2 the text."""
        super().__init__()
        self.heads = config.bi_num_attention_heads
        image, text, inner = config.v_hidden_size, config.hidden_size, config.bi_hidden_size
        self.biattention = nn.ModuleDict(
            {
                f"{name}{number}": nn.Linear(width, inner)
                for number, width in ((1, image), (2, text))
                for name in ("query", "key", "value")
            }
        )
        self.biOutput = nn.ModuleDict(
            {
                "dense1": nn.Linear(inner, image),
                "LayerNorm1": nn.LayerNorm(image, EPSILON),
                "dense2": nn.Linear(inner, text),
                "LayerNorm2": nn.LayerNorm(text, EPSILON),
            }
        )
        self.v_intermediate = Dense(image, config.v_intermediate_size, config.v_hidden_act)
        self.v_output = Residual(config.v_intermediate_size, image)
        self.t_intermediate = Dense(text, config.intermediate_size, config.hidden_act)
        self.t_output = Residual(config.intermediate_size, text)

    def forward(
        self, text: torch.Tensor, image: torch.Tensor, text_mask: Mask, image_mask: Mask
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return states of both streams, text first."""
        image_context = self._attend(2, text, 1, image, image_mask)
        text_context = self._attend(1, image, 2, text, text_mask)
        text, image = self._add_residual(2, text, image_context), self._add_residual(1, image, text_context)
        return self.t_output(self.t_intermediate(text), text), self.v_output(self.v_intermediate(image), image)

    def _attend(
        self,
        query_stream: int,
        query_states: torch.Tensor,
        context_stream: int,
        context_states: torch.Tensor,
        mask: Mask,
    ) -> torch.Tensor:
        parts = self.biattention
        queries, keys, values = (
            parts[f"query{query_stream}"](query_states),
            parts[f"key{context_stream}"](context_states),
            parts[f"value{context_stream}"](context_states),
        )
        return compute_attention(queries, keys, values, self.heads, mask)

    def _add_residual(self, stream: int, states: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        normed: torch.Tensor = self.biOutput[f"LayerNorm{stream}"](states + self.biOutput[f"dense{stream}"](context))
        return normed


def compute_attention(
    queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, heads: int, mask: Mask
) -> torch.Tensor:
    """Return values weighted by softmax(q k / sqrt(size) + mask), per head: of shape (batch, queries, width)."""
    query_heads, key_heads, value_heads = (
        states.view(*states.shape[:2], heads, -1).transpose(1, 2) for states in (queries, keys, values)
    )
    context = functional.scaled_dot_product_attention(query_heads, key_heads, value_heads, attn_mask=mask)
    return context.transpose(1, 2).flatten(2)


MATCH = 0
"""Index of a match in the ITM head's output: 0 own caption, 1 random caption in training."""


class TextEmbeddings(nn.Module):
    """Embeddings of word, position and segment; for 12-in-1 a task's vector, without position and segment."""

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

    def forward(self, ids: torch.Tensor, segments: torch.Tensor, tasks: torch.Tensor | None) -> torch.Tensor:
        """Return states of shape (batch, length, width), one longer with tasks: theirs is at position 1."""
        positions = torch.arange(ids.shape[1], device=ids.device)
        states = self.word_embeddings(ids) + self.position_embeddings(positions) + self.token_type_embeddings(segments)
        if tasks is not None:
            states = torch.cat([states[:, :1], self.task_embeddings(tasks)[:, None], states[:, 1:]], dim=1)
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
        states: torch.Tensor = self.LayerNorm(
            self.image_embeddings(features) + self.image_location_embeddings(locations)
        )
        return states


class TwoStreams(nn.Module):
    """Both streams with the ITM head, and for 12-in-1 the retrieval head; parameters as the released files name them.

    `match_logits(fuse(encode_text(...), encode_image(...)))` is the forward pass.
    """

    def __init__(self, config: VilbertConfig) -> None:
        """Create a network, with task tokens and retrieval head if it has tasks."""
        super().__init__()
        self.config = config
        text = (config.hidden_size, config.num_attention_heads, config.intermediate_size, config.hidden_act)
        image = (config.v_hidden_size, config.v_num_attention_heads, config.v_intermediate_size, config.v_hidden_act)
        inner = config.bi_hidden_size
        stacks = {
            "layer": nn.ModuleList(StreamLayer(*text) for _ in range(config.num_hidden_layers)),
            "v_layer": nn.ModuleList(StreamLayer(*image) for _ in range(config.v_num_hidden_layers)),
            "c_layer": nn.ModuleList(CoAttention(config) for _ in config.v_biattention_id),
        }
        self.bert: Any = nn.ModuleDict(
            {
                "embeddings": TextEmbeddings(config),
                "v_embeddings": ImageEmbeddings(config),
                "encoder": nn.ModuleDict(stacks),
                "t_pooler": Dense(config.hidden_size, inner, "relu"),
                "v_pooler": Dense(config.v_hidden_size, inner, "relu"),
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
            segments: Of the same shape; None for segment 0 throughout.
            tasks: Numbers of tasks, int64 of shape (batch,), for a network with task tokens.
            mask: Bias of attention scores, task token included.
        Returns:
            Of shape (batch, length, width); the length is one more with tasks.
        """
        states = self.bert["embeddings"](ids, torch.zeros_like(ids) if segments is None else segments, tasks)
        return self._apply_layers("layer", 0, states, mask)

    def encode_image(self, features: torch.Tensor, locations: torch.Tensor, mask: Mask = None) -> torch.Tensor:
        """Return states of regions before the first co-attention.

        Args:
            features: Of shape (batch, regions, v_feature_size); row 0 is the whole image.
            locations: Left, top, right, bottom and area as shares of the image, of shape (batch, regions, 5).
            mask: Bias of attention scores.
        Returns:
            Of shape (batch, regions, v_hidden_size).
        """
        return self._apply_layers("v_layer", 0, self.bert["v_embeddings"](features, locations), mask)

    def fuse(
        self, text: torch.Tensor, image: torch.Tensor, text_mask: Mask = None, image_mask: Mask = None
    ) -> torch.Tensor:
        """Return the joint vector of encoded texts and images, of shape (batch, bi_hidden_size)."""
        for number, co_attention in enumerate(self.bert["encoder"]["c_layer"]):
            text, image = co_attention(text, image, text_mask, image_mask)
            text = self._apply_layers("layer", number + 1, text, text_mask)
            image = self._apply_layers("v_layer", number + 1, image, image_mask)
        text_vector, image_vector = self.bert["t_pooler"](text[:, 0]), self.bert["v_pooler"](image[:, 0])
        joint: torch.Tensor = (
            text_vector * image_vector if self.config.fusion_method == "mul" else text_vector + image_vector
        )
        return joint

    def match_logits(self, joint: torch.Tensor) -> torch.Tensor:
        """Return both logits of the ITM head, of shape (batch, 2): match, then mismatch."""
        logits: torch.Tensor = self.cls["bi_seq_relationship"](joint)
        return logits

    def retrieval_logit(self, joint: torch.Tensor) -> torch.Tensor:
        """Return the logit of the retrieval head, of shape (batch, 1); it has no meaningful zero."""
        logit: torch.Tensor = self.vil_logit(joint)
        return logit

    def _apply_layers(self, stack: str, co_attentions: int, states: torch.Tensor, mask: Mask) -> torch.Tensor:
        """Return states after the layers of one stream between two co-attention layers."""
        config = self.config
        positions = config.t_biattention_id if stack == "layer" else config.v_biattention_id
        layers = self.bert["encoder"][stack]
        first, last = [0, *positions, len(layers)][co_attentions : co_attentions + 2]
        for layer in layers[first:last]:
            states = layer(states, mask)
        return states


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
OLD_NORM_KEY = re.compile(r"(.*\bLayerNorm[12]?)\.(gamma|beta)")
"""Names of weight and bias of a layer norm in very old files."""


def load_two_streams(
    file: Path,
    settings: Mapping[str, Any] | None,
    has_tasks: bool,
    name: str = "",
    dtype: torch.dtype = torch.float32,
    allow_missing: Mapping[str, str] = {},
) -> TwoStreams:
    """Return a network of the sizes of its checkpoint, in evaluation mode.

    Args:
        file: An original checkpoint, also one of training scripts (`model_state_dict`, `module.`).
        settings: The release's JSON; None for the one next to the file, or the released sizes.
        has_tasks: Whether it has task tokens and a retrieval head, as 12-in-1 does.
        name: Name of the model in the study; empty outside of one.
        dtype: Precision of its weights.
        allow_missing: See `checkpoint_file.load_weights`.
    Raises:
        UserError: The file is no such checkpoint, a key lacks or is unexpected, or the JSON does not fit.
    """
    weights = rename_old_keys(checkpoint_file.read_checkpoint(file))
    where = checkpoint_file.format_subject(name, file)
    if TASK_EMBEDDINGS in weights and not has_tasks:
        raise UserError(f"{where}: it reads task tokens ({TASK_EMBEDDINGS}); say that it is of kind vilbert-12in1")
    if settings is None:
        settings = checkpoint_file.read_adjacent_settings(file) or None
    with torch.device("meta"):
        network = TwoStreams(build_config(weights, settings, has_tasks, where)).to(dtype)
    checkpoint_file.load_weights(network, weights, file, name, is_unused, allow_missing)
    return network.eval().requires_grad_(False)


def is_unused(key: str) -> bool:
    """Return whether a checkpoint's key belongs to a head that scores no match, or to nothing."""
    return any(re.fullmatch(pattern, key) for pattern in UNUSED_KEYS.values())


def rename_old_keys(weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the tensors with old names of layer norms replaced, unless the new name is taken."""
    renamed = {}
    for key, tensor in weights.items():
        old = OLD_NORM_KEY.fullmatch(key)
        new = f"{old[1]}.{'weight' if old[2] == 'gamma' else 'bias'}" if old else key
        renamed[key if new in weights else new] = tensor
    return renamed
