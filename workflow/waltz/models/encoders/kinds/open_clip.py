"""CLIP in the layout of open_clip, whose weights are read into the network of transformers.

Only CLIP's own architecture is read: two transformers, a class token, the text's end token. Towers of timm or of the
hub, and settings that change the network in another way, are refused.
"""

import re
from collections.abc import Mapping
from typing import Any

import torch
import transformers

from waltz.core.devices import Device
from waltz.core.errors import UserError, get_first_line
from waltz.model_registry import ModelSpec
from waltz.models.checkpoint_file import load_weights, read_checkpoint, read_settings
from waltz.models.encoders.base import build_common_fields, read_scalar
from waltz.models.encoders.kinds.two_towers import EXCLAMATION_MARK, Clip
from waltz.models.implied_size import check_implied_size
from waltz.models.pretrained import META, OPEN_CLIP_CONFIG, fetch_folder

WEIGHTS = ("open_clip_model.safetensors", "open_clip_pytorch_model.bin")
"""Names of the file with the weights; the first that is there is read."""
FILES = (OPEN_CLIP_CONFIG, *WEIGHTS, "tokenizer*.json", "vocab.json", "merges.txt", "special_tokens_map.json")
"""Files of a repository that are read."""
MODEL_SETTINGS = {"embed_dim", "vision_cfg", "text_cfg", "quick_gelu", "init_logit_scale", "init_logit_bias"}
VISION_SETTINGS = {"image_size", "layers", "width", "patch_size", "head_width", "mlp_ratio", "patch_dropout"}
TEXT_SETTINGS = {"context_length", "vocab_size", "width", "heads", "layers", "hf_tokenizer_name", "mlp_ratio"}
"""Settings that are understood; `patch_dropout` is for training."""
MEAN, STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
"""Normalisation of images where the config names none: OpenAI's."""
INTERPOLATIONS = {"bicubic": 3, "bilinear": 2}
"""Filters of PIL by name."""
RENAMED = (
    (r"^visual\.conv1\.", "vision_model.embeddings.patch_embedding."),
    (r"^visual\.class_embedding$", "vision_model.embeddings.class_embedding"),
    (r"^visual\.positional_embedding$", "vision_model.embeddings.position_embedding.weight"),
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
TRANSPOSED = ("visual.proj", "text_projection")
"""Projections that open_clip multiplies from the right."""


def load_open_clip(spec: ModelSpec, device: Device) -> Clip:
    """Load a CLIP of open_clip by hub id or folder; its logit is the scaled cosine, plus the bias if it has one.

    Raises:
        UserError: A file is missing, the architecture is another one, or the weights do not fit it.
    """
    folder = fetch_folder(spec, FILES)
    settings = read_settings(folder / OPEN_CLIP_CONFIG)
    model_settings, image_settings = settings.get("model_cfg", settings), settings.get("preprocess_cfg", {})
    _check_settings(spec, model_settings, image_settings)
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise UserError(
            f"models.{spec.name}: {folder}: no tokenizer: {get_first_line(error)}; put that of"
            " openai/clip-vit-base-patch32 there"
        ) from error
    file = next((folder / name for name in WEIGHTS if (folder / name).is_file()), folder / WEIGHTS[0])
    weights = {key.removeprefix("text."): value for key, value in read_checkpoint(file).items()}
    bias = weights.pop("logit_bias", None)
    config = _build_config(model_settings, tokenizer)
    if device.name != META:
        check_implied_size(spec, transformers.CLIPModel, config, folder, OPEN_CLIP_CONFIG)
    with torch.device(META if device.name == META else "cpu"):
        network = transformers.CLIPModel(config)
    load_weights(network, _rename_weights(weights), file, spec.name, lambda key: key == "attn_mask", spec.allow_missing)
    return Clip(
        **build_common_fields(spec, device, network.to(getattr(torch, spec.dtype)), tokenizer),
        processor=_build_image_processor(model_settings["vision_cfg"]["image_size"], image_settings),
        fallback_mask=EXCLAMATION_MARK,
        scale=read_scalar(network.logit_scale.exp()),
        bias=0.0 if bias is None else read_scalar(bias),
    )


def _check_settings(spec: ModelSpec, model: Mapping[str, Any], images: Mapping[str, Any]) -> None:
    """Refuse settings of another network, or of another preparation of images."""
    vision, text = model.get("vision_cfg", {}), model.get("text_cfg", {})
    unknown = [
        *(set(model) - MODEL_SETTINGS),
        *(f"vision_cfg.{name}" for name in set(vision) - VISION_SETTINGS),
        *(f"text_cfg.{name}" for name in set(text) - TEXT_SETTINGS),
    ]
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


def _build_config(settings: Mapping[str, Any], tokenizer: Any) -> transformers.CLIPConfig:
    activation = {"hidden_act": "quick_gelu" if settings.get("quick_gelu") else "gelu"}
    vision, text = settings["vision_cfg"], settings["text_cfg"]

    def build_tower(tower: Mapping[str, Any], heads: int) -> dict[str, Any]:
        return {
            "hidden_size": tower["width"],
            "intermediate_size": int(tower["width"] * tower.get("mlp_ratio", 4.0)),
            "num_hidden_layers": tower["layers"],
            "num_attention_heads": heads,
            **activation,
        }

    return transformers.CLIPConfig(
        vision_config={
            **build_tower(vision, vision["width"] // vision.get("head_width", 64)),
            "image_size": vision["image_size"],
            "patch_size": vision["patch_size"],
        },
        text_config={
            **build_tower(text, text["heads"]),
            "vocab_size": text["vocab_size"],
            "max_position_embeddings": text["context_length"],
            "bos_token_id": tokenizer.bos_token_id,
            "eos_token_id": tokenizer.eos_token_id,
        },
        projection_dim=settings["embed_dim"],
    )


def _rename_weights(weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return weights by their names in transformers, where queries, keys and values have weights of their own."""
    renamed = {}
    for key, value in weights.items():
        name = key
        for pattern, replacement in RENAMED:
            name = re.sub(pattern, replacement, name)
        if ".in_proj_" in name:
            before, _, kind = name.partition("in_proj_")
            for part, part_value in zip("qkv", value.chunk(3), strict=True):
                renamed[f"{before}{part}_proj.{kind}"] = part_value
        else:
            renamed[name] = value.T if key in TRANSPOSED else value
    return renamed


def _build_image_processor(side: int, settings: Mapping[str, Any]) -> Any:
    square = {"height": side, "width": side}
    return transformers.CLIPImageProcessorPil(
        size=square if settings.get("resize_mode") == "squash" else {"shortest_edge": side},
        crop_size=square,
        resample=INTERPOLATIONS[settings.get("interpolation", "bicubic")],
        image_mean=list(settings.get("mean", MEAN)),
        image_std=list(settings.get("std", STD)),
    )
