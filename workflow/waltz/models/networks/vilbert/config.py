"""Configuration of a ViLBERT: sizes from the shapes of its checkpoint, the rest from its JSON."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from waltz.core.errors import UserError

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
