"""What decides a detector's regions beside its weights: the `config.yaml` of the released one, and its values."""

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import yaml

from waltz.core.errors import UserError

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Settings:
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


KEYS = {
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

FIXED: dict[str, Any] = {
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

SHAPES: dict[str, Callable[[Any], int]] = {
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
class Config:
    """A configuration as it was read.

    Attributes:
        settings: The settings.
        said: What it says of the weights' shapes, by key of `SHAPES`; a key that it lacks is not there.
    """

    settings: Settings
    said: Mapping[str, int]


def read_config(file: Path) -> Config:
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
    given = dict(_flat(content))
    for key, value in FIXED.items():
        if key in given and given[key] != value:
            raise UserError(f"{file}: {key}: this detector is built for {value!r} alone, not {given[key]!r}")
    kinds = {field.name: type(field.default) for field in fields(Settings)}
    settings = Settings(
        **{name: _value(file, key, given[key], kinds[name]) for key, name in KEYS.items() if key in given}
    )
    unread = sorted(given.keys() - KEYS.keys() - FIXED.keys() - SHAPES.keys())
    if unread:
        log.info("%s: not read: %s", file, ", ".join(unread))
    return Config(_checked(file, settings), {key: _shape(file, key, given[key]) for key in SHAPES if key in given})


def _flat(content: Mapping[Any, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Keys of all levels, joined by full stops and in lower case."""
    for key, value in content.items():
        name = f"{before}{key}".lower()
        if isinstance(value, Mapping):
            yield from _flat(value, f"{name}.")
        else:
            yield name, value


def _value(file: Path, key: str, value: Any, kind: type) -> Any:
    if kind is tuple:
        of_list = value if isinstance(value, list) else [value]
        return tuple(_value(file, key, one, float) for one in of_list)
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if number and value >= 0 and (kind is float or value == int(value)):
        return kind(value)
    raise UserError(f"{file}: {key}: {value!r} cannot be; the released value is {getattr(Settings(), KEYS[key])}")


def _shape(file: Path, key: str, value: Any) -> int:
    try:
        return SHAPES[key](value)
    except (TypeError, ValueError, LookupError):
        raise UserError(f"{file}: {key}: {value!r} cannot be; leave it to the weights") from None


def _checked(file: Path, settings: Settings) -> Settings:
    """The settings, refused where no image could be had by them."""
    lengths = {"mean": 3, "deviation": 3, "proposal_weights": 4, "box_weights": 4}
    of_setting = {name: key for key, name in KEYS.items()}
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
