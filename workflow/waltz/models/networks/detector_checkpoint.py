"""Settings, sizes and weights of a detector, from its released files."""

import hashlib
import logging
import pickle
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import huggingface_hub
import numpy as np
import torch
import yaml
from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

from waltz.core.errors import UserError
from waltz.model_registry import DETECTOR_CONFIG, ModelSpec
from waltz.models.checkpoint_file import find_checkpoint_file, format_keys, load_weights, read_checkpoint
from waltz.models.networks.detector import Detector, DetectorSettings, DetectorSizes, StageSizes

log = logging.getLogger(__name__)


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


WEIGHTS_LEVEL = "model"
"""Key of the weights in the file."""


def read_arrays(file: Path) -> dict[str, torch.Tensor]:
    """Return the weights of a pickle of NumPy arrays by key; a `model` level around them is removed.

    Raises:
        UserError: The file cannot be read, holds anything but plain values and arrays of numbers, or no array.
    """
    try:
        with file.open("rb") as opened:
            content: Any = _ArrayUnpickler(opened, encoding="latin1").load()
    except UserError:
        raise
    except OSError as error:
        raise UserError(f"{file}: cannot be read: {error.strerror or error}; check the path") from None
    except Exception as error:  # a hostile or truncated file can raise anything
        first_line = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise UserError(
            f"{file}: is truncated or no pickle of arrays ({first_line[:100]}); fetch it again and compare its sha256"
        ) from None
    if isinstance(content, Mapping) and isinstance(content.get(WEIGHTS_LEVEL), Mapping):
        content = content[WEIGHTS_LEVEL]
    arrays = {str(key): value for key, value in content.items()} if isinstance(content, Mapping) else {}
    arrays = {key: value for key, value in arrays.items() if isinstance(value, np.ndarray)}
    invalid = [key for key, value in arrays.items() if value.dtype.kind not in "fiu"]
    if invalid or not arrays:
        raise UserError(
            f"{file}: {f'{invalid[0]} is no array of numbers' if invalid else 'holds no arrays by name'};"
            " fetch it again"
        )
    return {
        key: torch.from_numpy(np.array(value, dtype=value.dtype.newbyteorder("="))) for key, value in arrays.items()
    }


def _encode_bytes(text: str, encoding: str) -> bytes:
    """Return bytes as Python 2's protocol encodes them."""
    if encoding not in ("latin1", "latin-1"):
        raise pickle.UnpicklingError(f"bytes in {encoding}")
    return text.encode("latin-1")


def _collect_constructors() -> dict[tuple[str, str], Callable[..., Any]]:
    """Return the constructors of arrays, by their names in pickles of old and new NumPy."""
    array: Any = np.zeros(1)
    number: Any = np.float64(0)
    constructors: dict[tuple[str, str], Callable[..., Any]] = {
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
        ("collections", "OrderedDict"): OrderedDict,
        ("_codecs", "encode"): _encode_bytes,
    }
    for core in ("numpy.core", "numpy._core"):
        constructors[f"{core}.multiarray", "_reconstruct"] = array.__reduce__()[0]
        constructors[f"{core}.multiarray", "scalar"] = number.__reduce__()[0]
        constructors[f"{core}.numeric", "_frombuffer"] = array.__reduce_ex__(5)[0]
    return constructors


class _ArrayUnpickler(pickle.Unpickler):
    """An unpickler that creates arrays and refuses everything else."""

    constructors = _collect_constructors()

    def find_class(self, module: str, name: str) -> Any:
        """Return a constructor of arrays."""
        if (module, name) not in self.constructors:
            raise pickle.UnpicklingError(f"it holds an object of {module}.{name}, which is not loaded")
        return self.constructors[module, name]


PICKLE_SUFFIX = ".pkl"
"""End of the name of the weights as they were first released."""
COUNTER_SUFFIX = "num_batches_tracked"
"""End of the keys of what training counted."""
DIGEST_DIGITS = 16


def load_detector(file: Path, config: Path | None = None, allow_missing: Mapping[str, str] = {}) -> Detector:
    """Return a detector from its weights and configuration.

    Args:
        file: Weights in the layout of `pytorch_model.bin` of the released detector, or its pickle of NumPy arrays.
        config: Its configuration; None uses the `config.yaml` next to the weights, else the released values.
        allow_missing: Patterns of keys that may be missing or unexpected, with reasons.
    Raises:
        UserError: A file cannot be read, they are of different networks, or a weight is missing or unexpected.
    """
    weights = read_arrays(file) if file.suffix == PICKLE_SUFFIX else read_checkpoint(file)
    sizes = read_sizes(weights, file)
    adjacent = file.with_name(DETECTOR_CONFIG)
    config_file = config or (adjacent if adjacent.is_file() else None)
    config_read = read_config(config_file) if config_file else DetectorConfig(DetectorSettings(), {})
    if config_file:
        check_config_sizes(sizes, config_read.sizes, file, config_file)
    with torch.device("meta"):
        network = Detector(_name_detector(file, config_read.settings), sizes, config_read.settings)
    load_weights(network, weights, file, "", lambda key: key.endswith(COUNTER_SUFFIX), allow_missing)
    return network.eval().requires_grad_(False)


def load_configured_detector(spec: ModelSpec) -> Detector:
    """Return the detector that a model's entry names: a file, or a folder or hub id with one.

    Raises:
        UserError: As `load_detector` does, or the files cannot be had.
    """
    is_local = Path(spec.detector).exists()
    if not is_local and not spec.detector_revision:
        raise UserError(
            f"models.{spec.name}.detector: {spec.detector!r} is no file or folder, and a hub id needs a"
            " detector_revision (a full commit hash)"
        )
    try:
        file = find_checkpoint_file(replace(spec, weights=spec.detector, revision=spec.detector_revision))
        return load_detector(file, None if is_local else _download_config(spec), spec.allow_missing)
    except UserError as error:
        prefix = f"models.{spec.name}"
        raise UserError(f"{prefix}.detector: {str(error).removeprefix(f'{prefix}: ')}") from None


def _download_config(spec: ModelSpec) -> Path | None:
    """Return the configuration in a repository, or None if it has none; a failed request is an error.

    The hub's cache records absent files, for machines without a network.
    """
    repository = "/".join(spec.detector.split("/")[:2])
    cached = huggingface_hub.try_to_load_from_cache(repository, DETECTOR_CONFIG, revision=spec.detector_revision)
    if cached is not None:
        return Path(cached) if isinstance(cached, str) else None
    try:
        return Path(huggingface_hub.hf_hub_download(repository, DETECTOR_CONFIG, revision=spec.detector_revision))
    except LocalEntryNotFoundError as error:
        first_line = str(error).strip().splitlines()[0]
        raise UserError(f"cannot load {DETECTOR_CONFIG} of {repository}: {first_line}; check the network") from None
    except EntryNotFoundError:
        return None


def _name_detector(file: Path, settings: DetectorSettings) -> str:
    """Return the name of a file with a digest of its bytes and the settings."""
    with file.open("rb") as opened:
        hasher = hashlib.file_digest(opened, "sha256")
    hasher.update(f"Settings({repr(settings).partition('(')[2]}".encode())
    return f"{file.name}@{hasher.hexdigest()[:DIGEST_DIGITS]}"
