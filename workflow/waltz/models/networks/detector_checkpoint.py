"""Settings, sizes and weights of a detector, from its released files."""

import hashlib
import logging
import math
import pickle
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import huggingface_hub
import numpy as np
import torch
import yaml
from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

from waltz.core.errors import UserError, get_first_line
from waltz.model_registry import DETECTOR_CONFIGS, DETECTOR_KIND, ModelSpec
from waltz.models.checkpoint_file import find_checkpoint_file, get_shape, list_layers, load_weights, read_checkpoint
from waltz.models.networks.detector import Detector, DetectorSettings, DetectorSizes, StageSizes

log = logging.getLogger(__name__)

AnyDetector = TypeVar("AnyDetector")
PICKLE_SUFFIX = ".pkl"
"""End of the name of the weights as they were first released."""
COUNTER_SUFFIX = "num_batches_tracked"
"""End of the keys of what training counted."""
DIGEST_DIGITS = 16
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


def load_detector(file: Path, config: Path | None = None, allow_missing: Mapping[str, str] = {}) -> Detector:
    """Return a detector from its weights and configuration.

    Args:
        file: Weights in the layout of `pytorch_model.bin` of the released detector, or its pickle of NumPy arrays.
        config: Its configuration; None uses the `config.yaml` next to the weights, else the released values.
        allow_missing: Patterns of keys that may be missing or unexpected, with reasons.
    Raises:
        UserError: A file cannot be read, they are of different networks, or a weight is missing or unexpected.
    """
    weights = _read_arrays(file) if file.suffix == PICKLE_SUFFIX else read_checkpoint(file)
    sizes = _read_sizes(weights, str(file))
    adjacent = file.with_name(DETECTOR_CONFIGS[DETECTOR_KIND])
    config = config or (adjacent if adjacent.is_file() else None)
    settings = read_config(config, sizes) if config else DetectorSettings()
    with torch.device("meta"):
        network = Detector(name_detector(file, settings), sizes, settings)
    load_weights(network, weights, file, "", lambda key: key.endswith(COUNTER_SUFFIX), allow_missing)
    return network.eval().requires_grad_(False)


def load_configured_detector(
    spec: ModelSpec, kind: str, load: Callable[[Path, Path | None, Mapping[str, str]], AnyDetector]
) -> AnyDetector:
    """Return the detector that a model's entry names: a file, or a folder or hub id with one.

    Args:
        spec: The entry.
        kind: Kind of the detector, which determines the name of its configuration.
        load: Function that loads it from its weights, its configuration if that is not next to them, and the patterns
            of keys that may be missing.
    Raises:
        UserError: As `load` does, or the files cannot be had.
    """
    is_local = Path(spec.detector).exists()
    if not is_local and not spec.detector_revision:
        raise UserError(
            f"models.{spec.name}.detector: {spec.detector!r} is no file or folder, and a hub id needs a"
            " detector_revision (a full commit hash)"
        )
    try:
        file = find_checkpoint_file(replace(spec, weights=spec.detector, revision=spec.detector_revision))
        return load(file, None if is_local else _download_config(spec, DETECTOR_CONFIGS[kind]), spec.allow_missing)
    except UserError as error:
        prefix = f"models.{spec.name}"
        raise UserError(f"{prefix}.detector: {str(error).removeprefix(f'{prefix}: ')}") from None


def _download_config(spec: ModelSpec, name: str) -> Path | None:
    """Return the configuration of this name in a repository, or None if it has none; a failed request is an error.

    The hub's cache records absent files, for machines without a network.
    """
    repository = "/".join(spec.detector.split("/")[:2])
    cached = huggingface_hub.try_to_load_from_cache(repository, name, revision=spec.detector_revision)
    if cached is not None:
        return Path(cached) if isinstance(cached, str) else None
    try:
        return Path(huggingface_hub.hf_hub_download(repository, name, revision=spec.detector_revision))
    except LocalEntryNotFoundError as error:
        raise UserError(f"cannot load {name} of {repository}: {get_first_line(error)}; check the network") from None
    except EntryNotFoundError:
        return None


def name_detector(file: Path, settings: object) -> str:
    """Return the name of a file with a digest of its bytes and the settings."""
    with file.open("rb") as opened:
        hasher = hashlib.file_digest(opened, "sha256")
    hasher.update(f"Settings({repr(settings).partition('(')[2]}".encode())
    return f"{file.name}@{hasher.hexdigest()[:DIGEST_DIGITS]}"


def read_config(file: Path, sizes: DetectorSizes) -> DetectorSettings:
    """Return the settings of a YAML file with the keys of the released `config.yaml`, in any case.

    Missing keys have the released values. Unused keys, such as those of training, are listed in the log.

    Raises:
        UserError: The file cannot be read, a key has an invalid or unsupported value, or weights have other sizes.
    """
    values = read_config_values(file)
    check_fixed_values(file, values, FIXED_VALUES)
    named = {key: name for key, name in CONFIG_KEYS.items() if key in values}
    released = DetectorSettings()
    settings = DetectorSettings(
        **{name: parse_value(file, key, values[key], getattr(released, name)) for key, name in named.items()}
    )
    _check_settings(file, settings)
    size_keys = _check_sizes(file, values, sizes)
    if unread := sorted(values.keys() - CONFIG_KEYS.keys() - FIXED_VALUES.keys() - size_keys):
        log.info("%s: not read: %s", file, ", ".join(unread))
    return settings


def read_config_values(file: Path) -> dict[str, Any]:
    """Return the values of a YAML or JSON file by the keys of all levels, joined by full stops and in lower case.

    Raises:
        UserError: The file cannot be read or is no mapping.
    """
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(f"{file}: cannot be read ({get_first_line(error)}); name the detector's config.yaml") from None
    if not isinstance(content, Mapping):
        raise UserError(f"{file}: is no mapping of keys to values; name the detector's config.yaml")
    return dict(_flatten(content))


def check_fixed_values(file: Path, values: Mapping[str, Any], fixed: Mapping[str, Any]) -> None:
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
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{name}.")
        else:
            yield name, value


def parse_value(file: Path, key: str, value: Any, released: Any) -> Any:
    """Return the value of a key of a configuration, of the type of the released one: a number or several.

    Raises:
        UserError: It is none.
    """
    if isinstance(released, tuple):
        elements = value if isinstance(value, (list, tuple)) else [value]
        if all(map(_is_number, elements)):
            return tuple(map(float, elements))
    elif _is_number(value) and (isinstance(released, float) or value == int(value)):
        return type(released)(value)
    raise UserError(f"{file}: {key}: {value!r} is invalid; the released value is {released}")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < math.inf


def _check_settings(file: Path, settings: DetectorSettings) -> None:
    """Refuse settings for which no image could be processed."""
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


def _check_sizes(file: Path, values: Mapping[str, Any], sizes: DetectorSizes) -> set[str]:
    """Refuse a configuration of another network than the weights, and return the keys that state sizes."""
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
    stated = {key: values[key] for key in actual if key in values}
    if stated.get("proposal_generator.hidden_channels") == -1:  # as many as go in
        stated["proposal_generator.hidden_channels"] = sizes.stages["res4"].outputs
    anchor_keys = ("anchor_generator.sizes", "anchor_generator.aspect_ratios")
    invalid = [key for key, value in stated.items() if not isinstance(value, int)]
    try:
        anchors = [len(values[key][0]) for key in anchor_keys if key in values]
    except (TypeError, LookupError):
        invalid += anchor_keys
    if invalid:
        raise UserError(f"{file}: {invalid[0]}: {values[invalid[0]]!r} is invalid; remove the key")
    if len(anchors) == len(anchor_keys):
        stated["anchors"], actual["anchors"] = math.prod(anchors), sizes.anchors
    if faults := [f"{key}: {value} for {actual[key]}" for key, value in stated.items() if value != actual[key]]:
        raise UserError(
            f"{file}: is of another detector than the weights: {'; '.join(faults)}; name its own config.yaml"
        )
    return {*actual, *anchor_keys}


def _read_sizes(weights: Mapping[str, torch.Tensor], where: str) -> DetectorSizes:
    """Return the sizes of a detector from the shapes of its weights."""
    proposals, heads = "proposal_generator.", "roi_heads.box_predictor."
    return DetectorSizes(
        stem=get_shape(weights, "backbone.stem.conv1.weight", 4, where)[0],
        stages={name: read_stage_sizes(weights, prefix, where) for name, prefix in STAGE_PREFIXES.items()},
        anchors=get_shape(weights, f"{proposals}anchor_generator.cell_anchors.0", 2, where)[0],
        hidden=get_shape(weights, f"{proposals}rpn_head.conv.weight", 4, where)[0],
        classes=get_shape(weights, f"{heads}cls_score.weight", 2, where)[0] - 1,
        attributes=get_shape(weights, f"{heads}attr_score.weight", 2, where)[0] - 1,
        embedding=get_shape(weights, f"{heads}cls_embedding.weight", 2, where)[1],
        mixed=get_shape(weights, f"{heads}fc_attr.weight", 2, where)[0],
    )


def read_stage_sizes(weights: Mapping[str, torch.Tensor], prefix: str, where: str) -> StageSizes:
    """Return the sizes of the stage whose keys begin with a prefix.

    Raises:
        UserError: A weight of its first block is missing or has another shape.
    """
    shapes = [get_shape(weights, f"{prefix}0.conv{number}.weight", 4, where) for number in (1, 2, 3)]
    width, group_width = shapes[0][0], shapes[1][1]
    if width % group_width:
        raise UserError(f"{where}: {prefix}0.conv2.weight: {width} channels are no groups of {group_width}")
    return StageSizes(
        blocks=1 + max(list_layers(weights, prefix)), width=width, outputs=shapes[2][0], groups=width // group_width
    )


def _read_arrays(file: Path) -> dict[str, torch.Tensor]:
    """Return the weights of a pickle of NumPy arrays by key; a `model` level around them is removed."""
    try:
        with file.open("rb") as opened:
            content: Any = _ArrayUnpickler(opened, encoding="latin1").load()
    except OSError as error:
        raise UserError(f"{file}: cannot be read: {error.strerror or error}; check the path") from None
    except Exception as error:  # a hostile or truncated file can raise anything
        first_line = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise UserError(
            f"{file}: is truncated or no pickle of arrays ({first_line[:100]}); fetch it again and compare its sha256"
        ) from None
    if isinstance(content, Mapping) and isinstance(content.get("model"), Mapping):
        content = content["model"]
    arrays = {str(key): value for key, value in content.items()} if isinstance(content, Mapping) else {}
    arrays = {key: value for key, value in arrays.items() if isinstance(value, np.ndarray)}
    invalid = [key for key, value in arrays.items() if value.dtype.kind not in "fiu"]
    if invalid or not arrays:
        fault = f"{invalid[0]} is no array of numbers" if invalid else "holds no arrays by name"
        raise UserError(f"{file}: {fault}; fetch it again")
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
