"""Settings, sizes and weights of LXMERT's detector, from its released files; other detectors use
the same readers.
"""

import hashlib
import logging
import math
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import huggingface_hub
import torch
import yaml
from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

from waltz.core.errors import UserError, get_first_line
from waltz.core.files.bounded_yaml import read_yaml
from waltz.model_registry import DETECTOR_CONFIGS, DETECTOR_KIND, ModelSpec
from waltz.models.array_pickle import read_array_pickle
from waltz.models.checkpoint_file import (
    Settings,
    find_checkpoint_file,
    get_shape,
    list_layers,
    load_weights,
    read_checkpoint,
)
from waltz.models.networks.detector import (
    Detector,
    DetectorSettings,
    DetectorSizes,
    StageSizes,
)

log = logging.getLogger(__name__)

AnyDetector = TypeVar("AnyDetector")
PICKLE_SUFFIX = ".pkl"
"""End of the name of the weights as they were first released."""
COUNTER_SUFFIX = "num_batches_tracked"
"""End of the keys of counters of the training."""
DIGEST_DIGITS = 16
"""Hexadecimal digits of the digest in a detector's name."""
STAGE_PREFIXES = {
    "res2": "backbone.res2.",
    "res3": "backbone.res3.",
    "res4": "backbone.res4.",
    "res5": "roi_heads.res5.",
}
"""Prefixes of the keys of each stage."""
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

FIXED_VALUES: Settings = {
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


def load_detector(
    file: Path, config: Path | None = None, allow_missing: Mapping[str, str] = {}
) -> Detector:
    """Return a detector from its weights and configuration.

    Args:
        file: Weights in the layout of `pytorch_model.bin` of the released detector, or its pickle
            of NumPy arrays.
        config: Its configuration; None uses the `config.yaml` next to the weights, else the
            released values.
        allow_missing: Patterns of keys that may be missing or unexpected, with reasons.
    Raises:
        UserError: A file cannot be read, they are of different networks, or a weight is missing or
            unexpected.
    """
    weights = (
        read_arrays(file) if file.suffix == PICKLE_SUFFIX else read_checkpoint(file)
    )
    sizes = _read_sizes(weights, str(file))
    config = config or find_adjacent_config(file, DETECTOR_KIND)
    settings = DetectorSettings()
    if config is not None:
        settings = read_detector_config(config, sizes)
    with torch.device("meta"):
        network = Detector(name_detector(file, settings), sizes, settings)
    load_weights(
        network,
        weights,
        file,
        "",
        lambda key: key.endswith(COUNTER_SUFFIX),
        allow_missing,
    )
    return network.eval().requires_grad_(False)


def find_adjacent_config(file: Path, kind: str) -> Path | None:
    """Return the configuration of a kind of detector next to the weights; None if there is none."""
    config = file.with_name(DETECTOR_CONFIGS[kind])
    if config.is_file():
        return config
    return None


def load_configured_detector(
    spec: ModelSpec,
    kind: str,
    load: Callable[[Path, Path | None, Mapping[str, str]], AnyDetector],
) -> AnyDetector:
    """Return the detector that a model's entry names: a file, or a folder or hub id with one.

    Args:
        spec: The entry.
        kind: Kind of the detector, which determines the name of its configuration.
        load: Function that loads it from its weights, its configuration if that is not next to
            them, and the patterns of keys that may be missing.
    Raises:
        UserError: `load` raises it, or the files cannot be fetched.
    """
    is_local = Path(spec.detector).exists()
    if not is_local and not spec.detector_revision:
        raise UserError(
            f"models.{spec.name}.detector: {spec.detector!r} is not a file or folder, and a hub id needs a"
            " detector_revision (a full commit hash)"
        )
    try:
        # A detector is found like the weights of a model.
        file = find_checkpoint_file(
            replace(spec, weights=spec.detector, revision=spec.detector_revision)
        )
        config = None
        if not is_local:
            config = _download_config(spec, DETECTOR_CONFIGS[kind])
        return load(file, config, spec.allow_missing)
    except UserError as error:
        prefix = f"models.{spec.name}"
        raise UserError(
            f"{prefix}.detector: {str(error).removeprefix(f'{prefix}: ')}"
        ) from None


def _download_config(spec: ModelSpec, name: str) -> Path | None:
    """Return the configuration of this name in a repository, or None if it has none; a failed
    request is an error.

    The hub's cache records absent files, for machines without a network.
    """
    repository = "/".join(spec.detector.split("/")[:2])
    # A path, or a mark that the repository lacks the file, or None if that is not known.
    cached = huggingface_hub.try_to_load_from_cache(
        repository, name, revision=spec.detector_revision
    )
    if isinstance(cached, str):
        return Path(cached)
    if cached is not None:  # the repository is known to lack the file
        return None
    try:
        return Path(
            huggingface_hub.hf_hub_download(
                repository, name, revision=spec.detector_revision
            )
        )
    except LocalEntryNotFoundError as error:
        raise UserError(
            f"cannot load {name} of {repository}: {get_first_line(error)}; check the network"
        ) from None
    except EntryNotFoundError:
        return None


def name_detector(file: Path, settings: object) -> str:
    """Return the name of a file with a digest of its bytes and the settings."""
    with file.open("rb") as opened:
        hasher = hashlib.file_digest(opened, "sha256")
    # The class's name is left out, so that renaming it changes no stored region.
    hasher.update(f"Settings({repr(settings).partition('(')[2]}".encode())
    return f"{file.name}@{hasher.hexdigest()[:DIGEST_DIGITS]}"


def read_detector_config(file: Path, sizes: DetectorSizes) -> DetectorSettings:
    """Return the settings of a YAML file with the keys of the released `config.yaml`, in any case.

    Missing keys have the released values. Unused keys, such as those of training, are listed in the
    log.

    Raises:
        UserError: The file cannot be read, a key has an invalid or unsupported value, or weights
            have other sizes.
    """
    values = read_config_values(file)
    check_fixed_values(file, values, FIXED_VALUES)
    released = DetectorSettings()
    changes = {}
    for key, name in CONFIG_KEYS.items():
        if key in values:
            changes[name] = parse_value(file, key, values[key], getattr(released, name))
    settings = replace(released, **changes)
    _check_settings(file, settings)
    size_keys = _check_sizes(file, values, sizes)
    log_unread_keys(file, values, CONFIG_KEYS.keys() | FIXED_VALUES.keys() | size_keys)
    return settings


def log_unread_keys(file: Path, values: Settings, known: Set[str]) -> None:
    """List the keys of a configuration that are not used in the log."""
    unread = sorted(values.keys() - known)
    if unread:
        log.info("%s: not read: %s", file, ", ".join(unread))


def read_config_values(file: Path) -> Settings:
    """Return the values of a YAML or JSON file by the keys of all levels, joined by full stops and
    in lower case.

    Raises:
        UserError: The file cannot be read or is not a mapping.
    """
    try:
        content = read_yaml(file)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(
            f"{file}: cannot be read ({get_first_line(error)}); name the detector's config.yaml"
        ) from None
    if not isinstance(content, Mapping):
        raise UserError(
            f"{file}: is not a mapping of keys to values; name the detector's config.yaml"
        )
    return dict(_flatten(content))


def check_fixed_values(file: Path, values: Settings, fixed: Settings) -> None:
    """Refuse values of a configuration that are not supported.

    Raises:
        UserError: A key has another value than the supported one.
    """
    for key, value in fixed.items():
        if key in values and values[key] != value:
            raise UserError(
                f"{file}: {key}: unsupported value (got {values[key]!r}, expected {value!r}); use a supported detector"
            )


def _flatten(content: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield keys of all levels, joined by full stops and in lower case."""
    for key, value in content.items():
        name = f"{prefix}{key}".lower()
        # Levels are joined by full stops.
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{name}.")
        else:
            yield name, value


def parse_value(file: Path, key: str, value: Any, released: Any) -> Any:
    """Return the value of a key of a configuration: a number of the released value's type, or a
    tuple of numbers.

    Raises:
        UserError: The value is another one.
    """
    if isinstance(released, tuple):
        elements = value if isinstance(value, (list, tuple)) else [value]
        if all(map(_is_number, elements)):
            return tuple(map(float, elements))
    elif _is_number(value):
        is_exact = isinstance(released, float) or value == int(value)
        if is_exact:
            return type(released)(value)
    raise UserError(
        f"{file}: {key}: {value!r} is invalid; the released value is {released}; correct the file"
    )


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and 0 <= value < math.inf


def _check_settings(file: Path, settings: DetectorSettings) -> None:
    """Refuse settings for which no image could be processed."""
    lengths = {"mean": 3, "deviation": 3, "proposal_weights": 4, "box_weights": 4}
    key_of = {name: key for key, name in CONFIG_KEYS.items()}
    for name, length in lengths.items():
        value = getattr(settings, name)
        if len(value) != length:
            raise UserError(
                f"{file}: {key_of[name]}: {length} numbers are expected, not {value}; correct the file"
            )
    for name in ("deviation", "proposal_weights", "box_weights"):
        if 0 in getattr(settings, name):
            raise UserError(
                f"{file}: {key_of[name]}: nothing can be divided by 0; correct the file"
            )
    for name in (
        "shortest",
        "longest",
        "candidates",
        "proposals",
        "resolution",
        "overlaps",
        "fewest",
    ):
        if not getattr(settings, name):
            raise UserError(
                f"{file}: {key_of[name]}: must be above 0; correct the file"
            )
    if settings.fewest > settings.most:
        raise UserError(
            f"{file}: min_detections: {settings.fewest} is above max_detections, {settings.most}; correct the file"
        )


ANCHOR_KEYS = ("anchor_generator.sizes", "anchor_generator.aspect_ratios")
"""Keys of the sizes and aspect ratios of anchors, whose product is their number in a cell."""
HIDDEN_KEY = "proposal_generator.hidden_channels"
"""Key of the channels inside the proposal head; -1 for as many as its input has."""


def _check_sizes(file: Path, values: Settings, sizes: DetectorSizes) -> set[str]:
    """Refuse a configuration of another network than the weights, and return the keys that state
    sizes.
    """
    res2 = sizes.stages["res2"]
    actual = {
        "roi_heads.num_classes": sizes.classes,
        "roi_box_head.num_attrs": sizes.attributes,
        HIDDEN_KEY: sizes.hidden,
        # Three convolutions of each bottleneck, the first convolution and the last layer.
        "resnets.depth": 2 + 3 * sum(stage.blocks for stage in sizes.stages.values()),
        "resnets.stem_out_channels": sizes.stem,
        "resnets.res2_out_channels": res2.outputs,
        "resnets.num_groups": res2.groups,
        "resnets.width_per_group": res2.width // res2.groups,
    }
    stated = {key: values[key] for key in actual if key in values}
    if stated.get(HIDDEN_KEY) == -1:
        stated[HIDDEN_KEY] = sizes.stages["res4"].outputs
    for key, value in stated.items():
        if not isinstance(value, int):
            raise UserError(f"{file}: {key}: {value!r} is invalid; remove the key")
    anchors = _count_anchors(file, values)
    if anchors is not None:
        stated["anchors"], actual["anchors"] = anchors, sizes.anchors
    check_stated_sizes(file, stated, actual, "name its own config.yaml")
    return {*actual, *ANCHOR_KEYS}


def _count_anchors(file: Path, values: Settings) -> int | None:
    """Return the number of anchors of a cell that a configuration states; None if it does not."""
    counts = []
    for key in ANCHOR_KEYS:
        if key not in values:
            continue
        try:
            counts.append(len(values[key][0]))
        except (TypeError, LookupError):
            raise UserError(
                f"{file}: {key}: {values[key]!r} is invalid; remove the key"
            ) from None
    if len(counts) < len(ANCHOR_KEYS):
        return None
    return math.prod(counts)


def check_stated_sizes(
    file: Path, stated: Settings, actual: Mapping[str, int], advice: str
) -> None:
    """Refuse sizes of a configuration that are not the sizes of the weights.

    Raises:
        UserError: A size differs.
    """
    faults = [
        f"{key}: {value} for {actual[key]}"
        for key, value in stated.items()
        if value != actual[key]
    ]
    if faults:
        raise UserError(
            f"{file}: is of another detector than the weights: {'; '.join(faults)}; {advice}"
        )


def _read_sizes(weights: Mapping[str, torch.Tensor], label: str) -> DetectorSizes:
    """Return the sizes of a detector from the shapes of its weights."""
    proposals, heads = "proposal_generator.", "roi_heads.box_predictor."
    return DetectorSizes(
        stem=get_shape(weights, "backbone.stem.conv1.weight", 4, label)[0],
        stages={
            name: read_stage_sizes(weights, prefix, label)
            for name, prefix in STAGE_PREFIXES.items()
        },
        anchors=get_shape(
            weights, f"{proposals}anchor_generator.cell_anchors.0", 2, label
        )[0],
        hidden=get_shape(weights, f"{proposals}rpn_head.conv.weight", 4, label)[0],
        classes=get_shape(weights, f"{heads}cls_score.weight", 2, label)[0] - 1,
        attributes=get_shape(weights, f"{heads}attr_score.weight", 2, label)[0] - 1,
        embedding=get_shape(weights, f"{heads}cls_embedding.weight", 2, label)[1],
        mixed=get_shape(weights, f"{heads}fc_attr.weight", 2, label)[0],
    )


def read_stage_sizes(
    weights: Mapping[str, torch.Tensor], prefix: str, label: str
) -> StageSizes:
    """Return the sizes of the stage whose keys begin with a prefix.

    Raises:
        UserError: A weight of its first block is missing or has another shape.
    """
    # Shapes of convolutions: (output channels, input channels of a group, rows, columns).
    width = get_shape(weights, f"{prefix}0.conv1.weight", 4, label)[0]
    group_width = get_shape(weights, f"{prefix}0.conv2.weight", 4, label)[1]
    outputs = get_shape(weights, f"{prefix}0.conv3.weight", 4, label)[0]
    if width % group_width:
        raise UserError(
            f"{label}: {prefix}0.conv2.weight: {width} channels are not groups of {group_width}; name a checkpoint of"
            " this very network"
        )
    blocks = 1 + max(list_layers(weights, prefix))
    return StageSizes(
        blocks=blocks, width=width, outputs=outputs, groups=width // group_width
    )


def read_arrays(file: Path) -> dict[str, torch.Tensor]:
    """Return the weights of a pickle of NumPy arrays by key; a `model` level around them is
    removed.

    Raises:
        UserError: The file cannot be read, is truncated, or holds anything but plain values and
            arrays of numbers.
    """
    try:
        arrays = read_array_pickle(file)
    except OSError as error:
        raise UserError(
            f"{file}: cannot be read: {error.strerror or error}; check the path"
        ) from None
    except Exception as error:  # a hostile or truncated file can raise anything
        raise UserError(
            f"{file}: is truncated or no pickle of arrays ({get_first_line(error)[:100]}); fetch it again and compare"
            " its sha256"
        ) from None
    if not arrays:
        raise UserError(f"{file}: holds no arrays by name; fetch it again")
    return {key: torch.from_numpy(array) for key, array in arrays.items()}
