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
    """What the released code reads of its configuration; the values are those of the released weights.

    Attributes:
        shortest: Shorter side in pixels that an image is resized to.
        longest: Most pixels of the longer side then.
        mean: Of blue, green and red, in levels of 0 to 255; subtracted.
        deviation: What the rest is divided by.
        anchor_offset: Where in a cell its anchors are centred, as a share of the stride.
        candidates: Anchors of the highest score that are looked at.
        proposals: Most proposals.
        proposal_overlap: Intersection over union above which the worse of two candidates goes.
        proposal_weights: What the proposals' deltas dx, dy, dw, dh are divided by.
        smallest: Candidates whose sides are not above it go.
        resolution: Cells a side that a proposal is pooled to.
        box_weights: What the regions' deltas are divided by.
        overlaps: The same limits for regions; the next one is tried where too few are left.
        fewest: Fewest regions of an image.
        most: Most regions of an image.
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
"""What the configuration calls each setting."""

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
"""What is built for these values alone: another one is an error."""

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
"""What the shapes of the weights decide; the configuration must say the same."""


@dataclass(frozen=True)
class DetectorConfig:
    """A configuration as it was read.

    Attributes:
        settings: The settings.
        said: What it says of the weights' shapes, by key of `SHAPES`; a key that it lacks is not there.
    """

    settings: DetectorSettings
    said: Mapping[str, int]


def read_config(file: Path) -> DetectorConfig:
    """Settings by a YAML file with the keys of the released `config.yaml`, in any case; what it lacks is as released.

    Keys that nothing here reads, such as those of training, are listed in the log.

    Raises:
        UserError: It is no such file, or a key has a value that cannot be or that this detector is not built for.
    """
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        first_line = str(error).strip().splitlines()[0]
        raise UserError(f"{file}: cannot be read ({first_line}); name the detector's config.yaml") from None
    if not isinstance(content, Mapping):
        raise UserError(f"{file}: is no mapping of keys to values; name the detector's config.yaml")
    given = dict(_flatten(content))
    for key, value in FIXED_VALUES.items():
        if key in given and given[key] != value:
            raise UserError(f"{file}: {key}: this detector is built for {value!r} alone, not {given[key]!r}")
    kinds = {field.name: type(field.default) for field in fields(DetectorSettings)}
    settings = DetectorSettings(
        **{name: _parse_value(file, key, given[key], kinds[name]) for key, name in CONFIG_KEYS.items() if key in given}
    )
    unread = sorted(given.keys() - CONFIG_KEYS.keys() - FIXED_VALUES.keys() - SHAPE_PARSERS.keys())
    if unread:
        log.info("%s: not read: %s", file, ", ".join(unread))
    return DetectorConfig(
        _check_settings(file, settings),
        {key: _parse_shape(file, key, given[key]) for key in SHAPE_PARSERS if key in given},
    )


def _flatten(content: Mapping[Any, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Keys of all levels, joined by full stops and in lower case."""
    for key, value in content.items():
        name = f"{before}{key}".lower()
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{name}.")
        else:
            yield name, value


def _parse_value(file: Path, key: str, value: Any, kind: type) -> Any:
    if kind is tuple:
        of_list = value if isinstance(value, list) else [value]
        return tuple(_parse_value(file, key, one, float) for one in of_list)
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if number and value >= 0 and (kind is float or value == int(value)):
        return kind(value)
    raise UserError(
        f"{file}: {key}: {value!r} cannot be; the released value is {getattr(DetectorSettings(), CONFIG_KEYS[key])}"
    )


def _parse_shape(file: Path, key: str, value: Any) -> int:
    try:
        return SHAPE_PARSERS[key](value)
    except (TypeError, ValueError, LookupError):
        raise UserError(f"{file}: {key}: {value!r} cannot be; leave it to the weights") from None


def _check_settings(file: Path, settings: DetectorSettings) -> DetectorSettings:
    """The settings, refused where no image could be had by them."""
    lengths = {"mean": 3, "deviation": 3, "proposal_weights": 4, "box_weights": 4}
    of_setting = {name: key for key, name in CONFIG_KEYS.items()}
    for name, length in lengths.items():
        if len(getattr(settings, name)) != length:
            raise UserError(f"{file}: {of_setting[name]}: {length} numbers are wanted, not {getattr(settings, name)}")
    for name in ("deviation", "proposal_weights", "box_weights"):
        if 0 in getattr(settings, name):
            raise UserError(f"{file}: {of_setting[name]}: nothing can be divided by 0")
    for name in ("shortest", "longest", "candidates", "proposals", "resolution", "overlaps", "fewest"):
        if not getattr(settings, name):
            raise UserError(f"{file}: {of_setting[name]}: must be above 0")
    if settings.fewest > settings.most:
        raise UserError(f"{file}: min_detections: {settings.fewest} is above max_detections, {settings.most}")
    return settings


STAGE_PREFIXES = {
    "res2": "backbone.res2",
    "res3": "backbone.res3",
    "res4": "backbone.res4",
    "res5": "roi_heads.res5",
}
"""Where the weights of each stage stand."""
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
        width: Channels inside of a bottleneck.
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
        hidden: Channels inside of the head that proposes.
        classes: Classes, background left out.
        attributes: Attributes, "none" left out.
        embedding: Width of a class's embedding.
        mixed: Width inside of the head of attributes.
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
    """Sizes of the detector that some weights are of.

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
    odd = [key for key, number in dimensions.items() if weights[key].ndim != number or not weights[key].numel()]
    if odd:
        raise UserError(f"{file}: has of no shape that can be: {format_keys(odd)}; name the weights of the detector")
    first = {key: weights[key].shape[0] for key in dimensions}
    return DetectorSizes(
        stem=first[STEM_KEY],
        stages={name: _read_stage_sizes(weights, where, file) for name, where in STAGE_PREFIXES.items()},
        anchors=first[ANCHORS_KEY],
        hidden=first[HIDDEN_KEY],
        classes=first[CLASSES_KEY] - 1,
        attributes=first[ATTRIBUTES_KEY] - 1,
        embedding=weights[EMBEDDING_KEY].shape[1],
        mixed=first[MIXED_KEY],
    )


def check_config_sizes(sizes: DetectorSizes, said: Mapping[str, int], file: Path, config: Path) -> None:
    """Refuse a configuration that is of another network than the weights.

    Args:
        sizes: Sizes of the weights.
        said: What the configuration says of them; see `settings.SHAPES`.
        file: Where the weights come from.
        config: Where the configuration comes from.
    Raises:
        UserError: They differ.
    """
    res2 = sizes.stages["res2"]
    own = {
        "roi_heads.num_classes": sizes.classes,
        "roi_box_head.num_attrs": sizes.attributes,
        "proposal_generator.hidden_channels": sizes.hidden,
        "resnets.depth": 2 + 3 * sum(stage.blocks for stage in sizes.stages.values()),
        "resnets.stem_out_channels": sizes.stem,
        "resnets.res2_out_channels": res2.outputs,
        "resnets.num_groups": res2.groups,
        "resnets.width_per_group": res2.width // res2.groups,
    }
    wanted = dict(said)
    if wanted.get("proposal_generator.hidden_channels") == -1:  # as many as go in
        wanted["proposal_generator.hidden_channels"] = sizes.stages["res4"].outputs
    if "anchor_generator.sizes" in said and "anchor_generator.aspect_ratios" in said:
        wanted["anchors"] = said["anchor_generator.sizes"] * said["anchor_generator.aspect_ratios"]
        own["anchors"] = sizes.anchors
    faults = [f"{key}: {wanted[key]} for {own[key]}" for key in own if wanted.get(key, own[key]) != own[key]]
    if faults:
        raise UserError(f"{config}: is of another detector than {file}: {'; '.join(faults)}; name its own config.yaml")


def _read_stage_sizes(weights: Mapping[str, torch.Tensor], where: str, file: Path) -> StageSizes:
    numbers = {key[len(where) + 1 :].partition(".")[0] for key in weights if key.startswith(f"{where}.")}
    width = weights[f"{where}.0.conv1.weight"].shape[0]
    of_group = weights[f"{where}.0.conv2.weight"].shape[1]
    if width % of_group:
        raise UserError(f"{file}: {where}.0.conv2.weight: {width} channels are no groups of {of_group}")
    return StageSizes(
        blocks=1 + max(int(number) for number in numbers if number.isdecimal()),
        width=width,
        outputs=weights[f"{where}.0.conv3.weight"].shape[0],
        groups=width // of_group,
    )
