"""Settings of a detector from its `config.yaml`, and its sizes from the shapes of its weights."""

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
import yaml

from waltz.core.errors import UserError
from waltz.models.checkpoint_file import format_keys

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class DetectorSettings:
    """Settings that the released code reads from its configuration; defaults are those of the released weights.

    Attributes:
        shortest: Shorter side in pixels that an image is resized to.
        longest: Maximum of the longer side in pixels.
        mean: Of blue, green and red, in levels of 0 to 255; subtracted.
        deviation: Divisor after the mean is subtracted.
        anchor_offset: Where in a cell its anchors are centred, as a share of the stride.
        candidates: Number of anchors with the highest scores to consider.
        proposals: Maximum number of proposals.
        proposal_overlap: Intersection over union above which the worse of two candidates is removed.
        proposal_weights: Divisors of the proposals' deltas dx, dy, dw, dh.
        smallest: Candidates with a side of at most this length are removed.
        resolution: Cells a side that a proposal is pooled to.
        box_weights: Divisors of the regions' deltas.
        overlaps: The same limits for regions; the next one is tried if too few are left.
        fewest: Minimum number of regions of an image.
        most: Maximum number of regions of an image.
    """

    shortest: int = 800
    longest: int = 1333
    mean: tuple[float, ...] = (102.9801, 115.9465, 122.7717)
    deviation: tuple[float, ...] = (1.0, 1.0, 1.0)
    anchor_offset: float = 0.0
    candidates: int = 6000
    proposals: int = 300
    proposal_overlap: float = 0.7
    proposal_weights: tuple[float, ...] = (1.0, 1.0, 1.0, 1.0)
    smallest: float = 0.0
    resolution: int = 14
    box_weights: tuple[float, ...] = (10.0, 10.0, 5.0, 5.0)
    overlaps: tuple[float, ...] = (0.5, 0.6, 0.7)
    fewest: int = 36
    most: int = 36


CONFIG_KEYS = {
    "input.min_size_test": "shortest",
    "input.max_size_test": "longest",
    "model.pixel_mean": "mean",
    "model.pixel_std": "deviation",
    "anchor_generator.offset": "anchor_offset",
    "rpn.pre_nms_topk_test": "candidates",
    "rpn.post_nms_topk_test": "proposals",
    "rpn.nms_thresh": "proposal_overlap",
    "rpn.bbox_reg_weights": "proposal_weights",
    "proposal_generator.min_size": "smallest",
    "roi_box_head.pooler_resolution": "resolution",
    "roi_box_head.bbox_reg_weights": "box_weights",
    "roi_heads.nms_thresh_test": "overlaps",
    "min_detections": "fewest",
    "max_detections": "most",
}
"""Setting of each key of the configuration."""

FIXED_VALUES: dict[str, Any] = {
    "input.format": "BGR",
    "model.max_pool": True,
    "model.load_proposals": False,
    "resnets.norm": "BN",
    "resnets.stride_in_1x1": True,
    "resnets.out_features": ["res4"],
    "rpn.in_features": ["res4"],
    "roi_heads.in_features": ["res4"],
    "roi_box_head.res5halve": False,
    "roi_box_head.cls_agnostic_bbox_reg": False,
    "roi_box_head.attr": True,
    "size_divisibility": 0,
}
"""Supported values; other ones are errors."""

SHAPE_PARSERS: dict[str, Callable[[Any], int]] = {
    "roi_heads.num_classes": int,
    "roi_box_head.num_attrs": int,
    "proposal_generator.hidden_channels": int,
    "anchor_generator.sizes": lambda of_levels: len(of_levels[0]),
    "anchor_generator.aspect_ratios": lambda of_levels: len(of_levels[0]),
    "resnets.depth": int,
    "resnets.stem_out_channels": int,
    "resnets.res2_out_channels": int,
    "resnets.width_per_group": int,
    "resnets.num_groups": int,
}
"""Values that the shapes of the weights determine; the configuration must agree."""


@dataclass(frozen=True)
class DetectorConfig:
    """A configuration as read from its file.

    Attributes:
        settings: The settings.
        sizes: Sizes of weights that it states, by key of `SHAPE_PARSERS`; keys that it lacks are absent.
    """

    settings: DetectorSettings
    sizes: Mapping[str, int]


def read_config(file: Path) -> DetectorConfig:
    """Return the settings of a YAML file with the keys of the released `config.yaml`, in any case.

    Missing keys have the released values. Unused keys, such as those of training, are listed in the log.

    Raises:
        UserError: The file cannot be read, or a key has an invalid or unsupported value.
    """
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        first_line = str(error).strip().splitlines()[0]
        raise UserError(f"{file}: cannot be read ({first_line}); name the detector's config.yaml") from None
    if not isinstance(content, Mapping):
        raise UserError(f"{file}: is no mapping of keys to values; name the detector's config.yaml")
    values = dict(_flatten(content))
    for key, value in FIXED_VALUES.items():
        if key in values and values[key] != value:
            raise UserError(
                f"{file}: {key}: unsupported value (got {values[key]!r}, expected {value!r}); use a supported detector"
            )
    kinds = {field.name: type(field.default) for field in fields(DetectorSettings)}
    settings = DetectorSettings(
        **{
            name: _parse_value(file, key, values[key], kinds[name])
            for key, name in CONFIG_KEYS.items()
            if key in values
        }
    )
    unread = sorted(values.keys() - CONFIG_KEYS.keys() - FIXED_VALUES.keys() - SHAPE_PARSERS.keys())
    if unread:
        log.info("%s: not read: %s", file, ", ".join(unread))
    return DetectorConfig(
        _check_settings(file, settings),
        {key: _parse_shape(file, key, values[key]) for key in SHAPE_PARSERS if key in values},
    )


def _flatten(content: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield keys of all levels, joined by full stops and in lower case."""
    for key, value in content.items():
        name = f"{prefix}{key}".lower()
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{name}.")
        else:
            yield name, value


def _parse_value(file: Path, key: str, value: Any, kind: type) -> Any:
    if kind is tuple:
        elements = value if isinstance(value, list) else [value]
        return tuple(_parse_value(file, key, element, float) for element in elements)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if is_number and value >= 0 and (kind is float or value == int(value)):
        return kind(value)
    raise UserError(
        f"{file}: {key}: {value!r} is invalid; the released value is {getattr(DetectorSettings(), CONFIG_KEYS[key])}"
    )


def _parse_shape(file: Path, key: str, value: Any) -> int:
    try:
        return SHAPE_PARSERS[key](value)
    except (TypeError, ValueError, LookupError):
        raise UserError(f"{file}: {key}: {value!r} is invalid; remove the key") from None


def _check_settings(file: Path, settings: DetectorSettings) -> DetectorSettings:
    """Return the settings, or refuse settings for which no image could be processed."""
    lengths = {"mean": 3, "deviation": 3, "proposal_weights": 4, "box_weights": 4}
    key_of = {name: key for key, name in CONFIG_KEYS.items()}
    for name, length in lengths.items():
        if len(getattr(settings, name)) != length:
            raise UserError(f"{file}: {key_of[name]}: {length} numbers are expected, not {getattr(settings, name)}")
    for name in ("deviation", "proposal_weights", "box_weights"):
        if 0 in getattr(settings, name):
            raise UserError(f"{file}: {key_of[name]}: nothing can be divided by 0")
    for name in ("shortest", "longest", "candidates", "proposals", "resolution", "overlaps", "fewest"):
        if not getattr(settings, name):
            raise UserError(f"{file}: {key_of[name]}: must be above 0")
    if settings.fewest > settings.most:
        raise UserError(f"{file}: min_detections: {settings.fewest} is above max_detections, {settings.most}")
    return settings


STAGE_PREFIXES = {
    "res2": "backbone.res2",
    "res3": "backbone.res3",
    "res4": "backbone.res4",
    "res5": "roi_heads.res5",
}
"""Prefixes of the keys of each stage."""
STEM_KEY = "backbone.stem.conv1.weight"
ANCHORS_KEY = "proposal_generator.anchor_generator.cell_anchors.0"
HIDDEN_KEY = "proposal_generator.rpn_head.conv.weight"
CLASSES_KEY = "roi_heads.box_predictor.cls_score.weight"
EMBEDDING_KEY = "roi_heads.box_predictor.cls_embedding.weight"
MIXED_KEY = "roi_heads.box_predictor.fc_attr.weight"
ATTRIBUTES_KEY = "roi_heads.box_predictor.attr_score.weight"


@dataclass(frozen=True)
class StageSizes:
    """Sizes of a stage of bottlenecks.

    Attributes:
        blocks: Number of bottlenecks.
        width: Channels inside a bottleneck.
        outputs: Channels that come out of it.
        groups: Groups of its 3x3 convolution.
    """

    blocks: int
    width: int
    outputs: int
    groups: int


@dataclass(frozen=True)
class DetectorSizes:
    """Sizes of a detector.

    Attributes:
        stem: Channels of the stem.
        stages: Sizes of the stages `res2` to `res5`.
        anchors: Anchors of a cell.
        hidden: Channels inside the proposal head.
        classes: Number of classes, without background.
        attributes: Number of attributes, without "none".
        embedding: Width of a class's embedding.
        mixed: Width inside the attribute head.
    """

    stem: int
    stages: Mapping[str, StageSizes]
    anchors: int
    hidden: int
    classes: int
    attributes: int
    embedding: int
    mixed: int

    @property
    def width(self) -> int:
        """Number of features of a region."""
        return self.stages["res5"].outputs


def read_sizes(weights: Mapping[str, torch.Tensor], file: Path) -> DetectorSizes:
    """Return the sizes of a detector from the shapes of its weights.

    Args:
        weights: Weights by key.
        file: Where they come from, for errors.
    Raises:
        UserError: Weights that sizes are read from are absent, or of no shape that they can have.
    """
    dimensions = {
        STEM_KEY: 4,
        HIDDEN_KEY: 4,
        ANCHORS_KEY: 2,
        CLASSES_KEY: 2,
        EMBEDDING_KEY: 2,
        MIXED_KEY: 2,
        ATTRIBUTES_KEY: 2,
    }
    for where in STAGE_PREFIXES.values():
        dimensions |= {f"{where}.0.conv{number}.weight": 4 for number in (1, 2, 3)}
    absent = [key for key in dimensions if key not in weights]
    if absent:
        raise UserError(f"{file}: lacks {format_keys(absent)}; name the weights of the detector")
    invalid = [key for key, number in dimensions.items() if weights[key].ndim != number or not weights[key].numel()]
    if invalid:
        raise UserError(f"{file}: invalid shapes of {format_keys(invalid)}; name the weights of the detector")
    first_axis = {key: weights[key].shape[0] for key in dimensions}
    return DetectorSizes(
        stem=first_axis[STEM_KEY],
        stages={name: _read_stage_sizes(weights, where, file) for name, where in STAGE_PREFIXES.items()},
        anchors=first_axis[ANCHORS_KEY],
        hidden=first_axis[HIDDEN_KEY],
        classes=first_axis[CLASSES_KEY] - 1,
        attributes=first_axis[ATTRIBUTES_KEY] - 1,
        embedding=weights[EMBEDDING_KEY].shape[1],
        mixed=first_axis[MIXED_KEY],
    )


def check_config_sizes(sizes: DetectorSizes, config_sizes: Mapping[str, int], file: Path, config: Path) -> None:
    """Refuse a configuration that belongs to another network than the weights.

    Args:
        sizes: Sizes of the weights.
        config_sizes: Sizes stated by the configuration; see `SHAPE_PARSERS`.
        file: Where the weights come from.
        config: Where the configuration comes from.
    Raises:
        UserError: They differ.
    """
    res2 = sizes.stages["res2"]
    actual = {
        "roi_heads.num_classes": sizes.classes,
        "roi_box_head.num_attrs": sizes.attributes,
        "proposal_generator.hidden_channels": sizes.hidden,
        "resnets.depth": 2 + 3 * sum(stage.blocks for stage in sizes.stages.values()),
        "resnets.stem_out_channels": sizes.stem,
        "resnets.res2_out_channels": res2.outputs,
        "resnets.num_groups": res2.groups,
        "resnets.width_per_group": res2.width // res2.groups,
    }
    expected = dict(config_sizes)
    if expected.get("proposal_generator.hidden_channels") == -1:  # as many as go in
        expected["proposal_generator.hidden_channels"] = sizes.stages["res4"].outputs
    if "anchor_generator.sizes" in config_sizes and "anchor_generator.aspect_ratios" in config_sizes:
        expected["anchors"] = config_sizes["anchor_generator.sizes"] * config_sizes["anchor_generator.aspect_ratios"]
        actual["anchors"] = sizes.anchors
    faults = [
        f"{key}: {expected[key]} for {actual[key]}" for key in actual if expected.get(key, actual[key]) != actual[key]
    ]
    if faults:
        raise UserError(f"{config}: is of another detector than {file}: {'; '.join(faults)}; name its own config.yaml")


def _read_stage_sizes(weights: Mapping[str, torch.Tensor], where: str, file: Path) -> StageSizes:
    numbers = {key[len(where) + 1 :].partition(".")[0] for key in weights if key.startswith(f"{where}.")}
    width = weights[f"{where}.0.conv1.weight"].shape[0]
    group_width = weights[f"{where}.0.conv2.weight"].shape[1]
    if width % group_width:
        raise UserError(f"{file}: {where}.0.conv2.weight: {width} channels are no groups of {group_width}")
    return StageSizes(
        blocks=1 + max(int(number) for number in numbers if number.isdecimal()),
        width=width,
        outputs=weights[f"{where}.0.conv3.weight"].shape[0],
        groups=width // group_width,
    )
