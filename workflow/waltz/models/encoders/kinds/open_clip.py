"""CLIP in the layout of open_clip, whose weights are read into the network of transformers.

Only CLIP's own architecture is supported: two transformers, of which the class token and the text's
end token are read. Towers of timm or of the hub, and other settings that change the network, are
refused.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import transformers

from waltz.core.errors import UserError, get_first_line
from waltz.core.jobs.devices import Device
from waltz.model_registry import (
    CLIP_REVISION,
    CLIP_TOKENIZER,
    TOKENIZER_FILES,
    ModelSpec,
    load_architectures,
    split_base,
)
from waltz.models.checkpoint_file import (
    Settings,
    align_keys,
    load_weights,
    read_checkpoint,
    read_settings,
)
from waltz.models.encoders.base import build_common_fields, read_single_value
from waltz.models.encoders.kinds.two_towers import EXCLAMATION_MARK, Clip
from waltz.models.hub import LoaderOptions, build_options
from waltz.models.implied_size import check_implied_size
from waltz.models.pretrained import META, OPEN_CLIP_CONFIG, fetch_folder

WEIGHTS = ("open_clip_model.safetensors", "open_clip_pytorch_model.bin")
"""Names of the file with the weights; the first that exists is read."""
SETTINGS_FILES = (
    OPEN_CLIP_CONFIG,
    "tokenizer*.json",
    "vocab.json",
    "merges.txt",
    "special_tokens_map.json",
)
"""Files of a repository that are read, next to its weights."""
MODEL_SETTINGS = {
    "embed_dim",
    "vision_cfg",
    "text_cfg",
    "quick_gelu",
    "init_logit_scale",
    "init_logit_bias",
}
VISION_SETTINGS = {
    "image_size",
    "layers",
    "width",
    "patch_size",
    "head_width",
    "mlp_ratio",
    "patch_dropout",
}
TEXT_SETTINGS = {
    "context_length",
    "vocab_size",
    "width",
    "heads",
    "layers",
    "hf_tokenizer_name",
    "mlp_ratio",
}
"""Settings that are supported; `patch_dropout` is used in training only."""
MEAN, STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
"""Normalization of images if the config names none: OpenAI's."""
INTERPOLATIONS = {"bicubic": 3, "bilinear": 2}
"""Filters of PIL by name."""
RENAMED = (
    (r"^visual\.conv1\.", "vision_model.embeddings.patch_embedding."),
    (r"^visual\.class_embedding$", "vision_model.embeddings.class_embedding"),
    (
        r"^visual\.positional_embedding$",
        "vision_model.embeddings.position_embedding.weight",
    ),
    (r"^visual\.ln_pre\.", "vision_model.pre_layrnorm."),
    (r"^visual\.ln_post\.", "vision_model.post_layernorm."),
    (r"^visual\.proj$", "visual_projection.weight"),
    (r"^visual\.transformer\.resblocks\.", "vision_model.encoder.layers."),
    (r"^transformer\.resblocks\.", "text_model.encoder.layers."),
    (r"^token_embedding\.", "text_model.embeddings.token_embedding."),
    (r"^positional_embedding$", "text_model.embeddings.position_embedding.weight"),
    (r"^ln_final\.", "text_model.final_layer_norm."),
    (r"^text_projection(\.weight)?$", "text_projection.weight"),
    (r"\.ln_(\d)\.", r".layer_norm\1."),
    (r"\.attn\.", ".self_attn."),
    (r"\.mlp\.c_fc\.", ".mlp.fc1."),
    (r"\.mlp\.c_proj\.", ".mlp.fc2."),
)
"""Names of weights in open_clip, and in transformers."""
FIRST_LAYER = "visual.conv1.weight"
"""Key of a weight that each network has."""
TRANSPOSED = ("visual.proj", "text_projection")
"""Projections that open_clip multiplies from the right."""


def load_open_clip(spec: ModelSpec, device: Device) -> Clip:
    """Load a CLIP of open_clip by hub id or folder; its logit is the scaled cosine, plus the bias
    if it has one.

    Raises:
        UserError: A file is missing, the architecture is another one, or the weights do not fit it.
    """
    settings, tokenizer, file = _find_parts(spec)
    folder = file.parent
    model_settings = settings.get("model_cfg", settings)
    image_settings = settings.get("preprocess_cfg", {})
    _check_settings(spec, model_settings, image_settings)
    # open_clip's CustomTextCLIP has a text tower under `text.`; its CLIP has none of this prefix.
    stored = align_keys(read_checkpoint(file), [FIRST_LAYER])
    weights = {key.removeprefix("text."): value for key, value in stored.items()}
    bias = weights.pop("logit_bias", None)
    config = _build_config(model_settings, tokenizer)
    if device.name != META:
        check_implied_size(
            spec, transformers.CLIPModel, config, folder, OPEN_CLIP_CONFIG
        )
    creation_device = META if device.name == META else "cpu"
    with torch.device(creation_device):
        network = transformers.CLIPModel(config)
    load_weights(
        network,
        _rename_weights(weights),
        file,
        spec.name,
        lambda key: key == "attn_mask",
        spec.allow_missing,
    )
    return Clip(
        **build_common_fields(
            spec, device, network.to(getattr(torch, spec.dtype)), tokenizer
        ),
        processor=_build_image_processor(
            model_settings["vision_cfg"]["image_size"], image_settings
        ),
        fallback_mask=EXCLAMATION_MARK,
        scale=read_single_value(network.logit_scale.exp()),
        bias=0.0 if bias is None else read_single_value(bias),
    )


def _find_parts(spec: ModelSpec) -> tuple[Settings, Any, Path]:
    """Return the settings, the tokenizer and the file of weights of a model.

    A checkpoint of a training script is a file alone: its base is an architecture, with the
    tokenizer next to the file or else CLIP's, or a folder or hub id that has both.
    """
    file = Path(spec.weights)
    if spec.base in load_architectures():
        settings: Settings = {"model_cfg": load_architectures()[spec.base]}
        for name in TOKENIZER_FILES:
            if file.with_name(name).is_file():
                return settings, _load_tokenizer(spec, str(file.parent), ""), file
        tokenizer = _load_tokenizer(spec, CLIP_TOKENIZER, CLIP_REVISION)
        return settings, tokenizer, file

    if spec.base:
        weights, revision = split_base(spec)
        base = replace(spec, weights=weights, revision=revision)
        folder = fetch_folder(base, SETTINGS_FILES)
    else:
        folder = fetch_folder(spec, (*SETTINGS_FILES, *WEIGHTS))
        file = _find_weights(folder)
    settings = read_settings(folder / OPEN_CLIP_CONFIG)
    return settings, _load_tokenizer(spec, str(folder), ""), file


def _load_tokenizer(spec: ModelSpec, source: str, revision: str) -> Any:
    """Return the tokenizer of a folder or hub id; a folder has an empty revision."""
    options: LoaderOptions = {}
    if revision:
        options = build_options(revision)
    try:
        return transformers.AutoTokenizer.from_pretrained(
            source, trust_remote_code=False, **options
        )
    except (OSError, ValueError) as error:
        raise UserError(
            f"models.{spec.name}: {source}: no tokenizer: {get_first_line(error)}; copy the tokenizer of"
            f" {CLIP_TOKENIZER} next to the weights"
        ) from error


def _find_weights(folder: Path) -> Path:
    """Return the file with the weights; if there is none, the first possible name, whose absence
    the reader reports.
    """
    for name in WEIGHTS:
        if (folder / name).is_file():
            return folder / name
    return folder / WEIGHTS[0]


def _check_settings(spec: ModelSpec, model: Settings, images: Settings) -> None:
    """Refuse settings of a network or an image preparation that CLIP does not have."""
    vision, text = model.get("vision_cfg", {}), model.get("text_cfg", {})
    unknown = list(set(model) - MODEL_SETTINGS)
    unknown += [f"vision_cfg.{name}" for name in set(vision) - VISION_SETTINGS]
    unknown += [f"text_cfg.{name}" for name in set(text) - TEXT_SETTINGS]
    # A list of layers describes a ResNet, a number a transformer.
    if not isinstance(vision.get("layers"), int):
        unknown.append("vision_cfg.layers")
    if images.get("interpolation", "bicubic") not in INTERPOLATIONS:
        unknown.append("preprocess_cfg.interpolation")
    if images.get("resize_mode", "shortest") not in ("shortest", "squash"):
        unknown.append("preprocess_cfg.resize_mode")
    if unknown:
        raise UserError(
            f"models.{spec.name}: {spec.weights}/{OPEN_CLIP_CONFIG}: settings of a network that is not CLIP's own: "
            f"{', '.join(sorted(unknown))}; name a checkpoint in transformers format"
        )


def _build_config(settings: Settings, tokenizer: Any) -> transformers.CLIPConfig:
    """Return the config of transformers for the settings of open_clip."""
    activation = "quick_gelu" if settings.get("quick_gelu") else "gelu"
    vision, text = settings["vision_cfg"], settings["text_cfg"]
    # open_clip states the width of a head in the image tower, 64 by default, and the number of
    # heads in the text tower.
    vision_heads = vision["width"] // vision.get("head_width", 64)
    return transformers.CLIPConfig(
        vision_config={
            **_build_tower(vision, vision_heads, activation),
            "image_size": vision["image_size"],
            "patch_size": vision["patch_size"],
        },
        text_config={
            **_build_tower(text, text["heads"], activation),
            "vocab_size": text["vocab_size"],
            "max_position_embeddings": text["context_length"],
            "bos_token_id": tokenizer.bos_token_id,
            "eos_token_id": tokenizer.eos_token_id,
        },
        projection_dim=settings["embed_dim"],
    )


def _build_tower(tower: Settings, heads: int, activation: str) -> Settings:
    """Return the settings that both towers have in transformers."""
    return {
        "hidden_size": tower["width"],
        "intermediate_size": int(tower["width"] * tower.get("mlp_ratio", 4.0)),
        "num_hidden_layers": tower["layers"],
        "num_attention_heads": heads,
        "hidden_act": activation,
    }


def _rename_weights(weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return weights by their names in transformers, which stores those of queries, keys and values
    separately.
    """
    renamed = {}
    for key, value in weights.items():
        name = key
        for pattern, replacement in RENAMED:
            name = re.sub(pattern, replacement, name)
        if ".in_proj_" in name:
            before, _, kind = name.partition("in_proj_")
            # Rows of queries, then of keys, then of values.
            for part, part_value in zip("qkv", value.chunk(3), strict=True):
                renamed[f"{before}{part}_proj.{kind}"] = part_value
        elif key in TRANSPOSED:
            renamed[name] = value.T
        else:
            renamed[name] = value
    return renamed


def _build_image_processor(length: int, settings: Settings) -> Any:
    """Return the processor of images to squares of `length` pixels in each direction."""
    # The crop is square whatever the resize mode.
    square = {"height": length, "width": length}
    size = {"shortest_edge": length}  # the longer edge is cropped
    if settings.get("resize_mode") == "squash":
        size = square
    return transformers.CLIPImageProcessorPil(
        size=size,
        crop_size=square,
        resample=INTERPOLATIONS[settings.get("interpolation", "bicubic")],
        image_mean=list(settings.get("mean", MEAN)),
        image_std=list(settings.get("std", STD)),
    )
