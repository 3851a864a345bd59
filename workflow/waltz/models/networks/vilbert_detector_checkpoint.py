"""Settings, sizes and weights of ViLBERT's detector, from its released files."""

import ast
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from waltz.core.errors import UserError
from waltz.model_registry import VILBERT_DETECTOR_KIND
from waltz.models.checkpoint_file import (
    Settings,
    get_shape,
    load_weights,
    read_checkpoint,
)
from waltz.models.networks.detector_checkpoint import (
    COUNTER_SUFFIX,
    check_fixed_values,
    check_stated_sizes,
    find_adjacent_config,
    log_unread_keys,
    name_detector,
    parse_value,
    read_config_values,
    read_stage_sizes,
)
from waltz.models.networks.vilbert_detector import (
    STAGES,
    PyramidDetector,
    PyramidSettings,
    PyramidSizes,
)

UNUSED_KEY = re.compile(
    r"roi_heads\.box\.predictor\.(bbox_pred|cls_embed|attr_linear1|attr_linear2)\.(weight|bias)",
    re.ASCII,
)
"""Keys that the features do not depend on: regression of boxes, and attributes."""
OTHER_RELEASE = (3, 4, 23, 3)
"""Blocks of the stages of a ResNeXt-101 that was released under the same file name for another
model.
"""
CONFIG_KEYS = {
    "input.min_size_test": "shortest",
    "input.max_size_test": "longest",
    "input.pixel_mean": "mean",
    "rpn.pre_nms_top_n_test": "candidates",
    "rpn.post_nms_top_n_test": "map_proposals",
    "rpn.fpn_post_nms_top_n_test": "proposals",
    "rpn.nms_thresh": "proposal_overlap",
    "rpn.min_size": "smallest",
    "roi_box_head.pooler_sampling_ratio": "samples",
    "min_size": "shortest",
    "max_size": "longest",
    "num_features": "most",
}
"""Setting of each key of the configuration, without its level `model`."""
SCRIPT_KEYS = ("min_size", "max_size", "num_features")
"""Keys that are names of the script, at any level."""
FIXED_VALUES: Settings = {
    "input.to_bgr255": True,
    "resnets.stride_in_1x1": False,
    "rpn.anchor_stride": [4, 8, 16, 32, 64],
    "rpn.use_fpn": True,
    "roi_heads.use_fpn": True,
    "roi_box_head.pooler_scales": [1 / 4, 1 / 8, 1 / 16, 1 / 32],
}
"""Supported values; other ones are errors."""
SIZE_KEYS: dict[str, Callable[[PyramidSizes], int]] = {
    "resnets.num_groups": lambda sizes: sizes.stages[STAGES[0]].groups,
    "resnets.width_per_group": lambda sizes: (
        sizes.stages[STAGES[0]].width // sizes.stages[STAGES[0]].groups
    ),
    "resnets.stem_out_channels": lambda sizes: sizes.stem,
    "resnets.res2_out_channels": lambda sizes: sizes.stages[STAGES[0]].outputs,
    "backbone.out_channels": lambda sizes: sizes.channels,
    "roi_box_head.pooler_resolution": lambda sizes: sizes.resolution,
    "roi_box_head.mlp_head_dim": lambda sizes: sizes.width,
    "roi_box_head.num_classes": lambda sizes: 1 + sizes.classes,
}
"""Keys that state sizes of the network, and functions that compute each from the sizes of the
weights.
"""
MAY_BE_ZERO = {"mean", "smallest", "proposal_overlap", "class_overlap"}
"""Settings that may be 0."""
MODEL_LEVEL = "model."
"""Level of the released configuration that holds the network's keys."""


def load_vilbert_detector(
    file: Path, config: Path | None = None, allow_missing: Mapping[str, str] = {}
) -> PyramidDetector:
    """Return ViLBERT's detector from its weights and configuration.

    Args:
        file: Weights in the layout of the released `detectron_model.pth`. The weights of the
            regression of boxes and of the attributes are not used and may be missing.
        config: Its configuration in YAML or JSON; None uses the `detectron_config.yaml` next to the
            weights, else the released values.
        allow_missing: Patterns of keys that may be missing or unexpected, with reasons.
    Raises:
        UserError: A file cannot be read, they are of different networks, or a weight is missing or
            unexpected.
    """
    weights = read_checkpoint(file)
    sizes = read_sizes(weights, str(file))
    config = config or find_adjacent_config(file, VILBERT_DETECTOR_KIND)
    settings = PyramidSettings()
    if config is not None:
        settings = read_pyramid_config(config, sizes)
    with torch.device("meta"):
        network = PyramidDetector(name_detector(file, settings), sizes, settings)
    load_weights(network, weights, file, "", _is_unused, allow_missing)
    return network.eval().requires_grad_(False)


def _is_unused(key: str) -> bool:
    return key.endswith(COUNTER_SUFFIX) or UNUSED_KEY.fullmatch(key) is not None


def read_sizes(weights: Mapping[str, torch.Tensor], label: str) -> PyramidSizes:
    """Return the sizes of a detector from the shapes of its weights.

    Raises:
        UserError: A weight is missing or of another shape, or the network is the ResNeXt-101 of
            another release.
    """
    stages = {
        name: read_stage_sizes(weights, f"backbone.body.{name}.", label)
        for name in STAGES
    }
    # Both releases have a file of this name.
    blocks = tuple(stage.blocks for stage in stages.values())
    if blocks == OTHER_RELEASE:
        raise UserError(
            f"{label}: is a ResNeXt-101, which another model released under this file name (23 blocks in layer3,"
            " expected 36); name the ResNeXt-152 of vilbert-multi-task"
        )
    head = "roi_heads.box."
    channels = get_shape(weights, "backbone.fpn.fpn_inner1.weight", 4, label)[0]
    width, inputs = get_shape(weights, f"{head}feature_extractor.fc6.weight", 2, label)
    # The first linear layer reads all cells of a pooled proposal: channels x resolution x
    # resolution.
    resolution = math.isqrt(inputs // channels)
    if channels * resolution**2 != inputs:
        raise UserError(
            f"{label}: {head}feature_extractor.fc6.weight has {inputs} inputs, which are not a square of cells with"
            f" {channels} channels; name a checkpoint of this very network"
        )
    return PyramidSizes(
        stem=get_shape(weights, "backbone.body.stem.conv1.weight", 4, label)[0],
        stages=stages,
        channels=channels,
        anchors=get_shape(weights, "rpn.anchor_generator.cell_anchors.0", 2, label)[0],
        resolution=resolution,
        width=width,
        hidden=get_shape(weights, f"{head}feature_extractor.fc7.weight", 2, label)[0],
        classes=get_shape(weights, f"{head}predictor.cls_score.weight", 2, label)[0]
        - 1,
    )


def read_pyramid_config(file: Path, sizes: PyramidSizes) -> PyramidSettings:
    """Return the settings of a YAML or JSON file with the keys of the released configuration, in
    any case.

    A key may be written without its levels. Missing keys have the released values. `MIN_SIZE`,
    `MAX_SIZE` and `num_features` are those of the released script. Unused keys, such as those of
    training and of detections that the script throws away, are listed in the log.

    Raises:
        UserError: The file cannot be read, a key has an invalid or unsupported value, or weights
            have other sizes.
    """
    values = {
        _complete_key(key): _parse_tuple(value)
        for key, value in read_config_values(file).items()
    }
    check_fixed_values(file, values, FIXED_VALUES)
    key_of = {name: key for key, name in CONFIG_KEYS.items() if key in values}
    released = PyramidSettings()
    changes = {}
    for name, key in key_of.items():
        changes[name] = parse_value(file, key, values[key], getattr(released, name))
    settings = replace(released, **changes)
    if len(settings.mean) != 3:
        raise UserError(
            f"{file}: {key_of['mean']}: 3 numbers are expected, not {settings.mean}; correct the file"
        )
    for name, value in changes.items():
        if name not in MAY_BE_ZERO and not value:
            raise UserError(
                f"{file}: {key_of[name]}: must be above 0; correct the file"
            )
    stated = {key: values[key] for key in SIZE_KEYS if key in values}
    actual = {key: compute(sizes) for key, compute in SIZE_KEYS.items()}
    check_stated_sizes(file, stated, actual, "name its own configuration")
    log_unread_keys(
        file, values, CONFIG_KEYS.keys() | FIXED_VALUES.keys() | SIZE_KEYS.keys()
    )
    return settings


def _complete_key(key: str) -> str:
    """Return a key with its level but without `model`."""
    key = key.removeprefix(MODEL_LEVEL)
    known = (*CONFIG_KEYS, *FIXED_VALUES, *SIZE_KEYS)
    if key in known:
        return key
    _, _, last_part = key.rpartition(".")
    if last_part in SCRIPT_KEYS:
        return last_part
    for known_key in known:  # a key without its levels
        if known_key.endswith(f".{key}"):
            return known_key
    return key


def _parse_tuple(value: Any) -> Any:
    """Return the list of a value that is a Python tuple in a YAML file, and any other value
    unchanged.
    """
    if not isinstance(value, str) or not value.startswith("("):
        return value
    try:
        parsed = ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return value
    if isinstance(parsed, tuple):
        return list(parsed)
    return value
