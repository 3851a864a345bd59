"""Tiny networks with two towers of the classes of transformers that have no kind of their own."""

from collections.abc import Callable
from typing import Any

import torch
import transformers

from stand_ins.models.tiny_encoders import (
    BERT,
    VOCABULARY,
    bert_tokenizer,
    ended_tokenizer,
)

SQUARE = {"height": 32, "width": 32}
VISION = {"image_size": 32, "patch_size": 8, **BERT}
CLIP_TEXT = {
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 20,
    "eos_token_id": 1,
    "bos_token_id": 3,
    "pad_token_id": 1,
    **BERT,
}
BERT_TEXT = {"vocab_size": VOCABULARY, "max_position_embeddings": 20, **BERT}


def _clip_processor() -> Any:
    return transformers.CLIPImageProcessor(
        size=SQUARE, crop_size=SQUARE, do_center_crop=False
    )


def _altclip() -> Any:
    # The first position of XLM-R is behind that of padding.
    text = {**BERT_TEXT, "max_position_embeddings": 22, "pad_token_id": 1}
    config = transformers.AltCLIPConfig(
        text_config={**text, "project_dim": 12},
        vision_config=VISION,
        projection_dim=10,
    )
    return transformers.AltCLIPModel(config), ended_tokenizer("<s>"), _clip_processor()


def _chinese_clip() -> Any:
    config = transformers.ChineseCLIPConfig(
        text_config=BERT_TEXT, vision_config=VISION, projection_dim=10
    )
    processor = transformers.ChineseCLIPImageProcessor(
        size=SQUARE, crop_size=SQUARE, do_center_crop=False
    )
    return transformers.ChineseCLIPModel(config), bert_tokenizer(), processor


def _clipseg() -> Any:
    config = transformers.CLIPSegConfig(
        text_config=CLIP_TEXT, vision_config=VISION, projection_dim=10
    )
    processor = transformers.ViTImageProcessor(size=SQUARE)
    return transformers.CLIPSegModel(config), ended_tokenizer("<s>"), processor


def _clipseg_segmenting() -> Any:
    config = transformers.CLIPSegConfig(
        text_config=CLIP_TEXT,
        vision_config=VISION,
        projection_dim=10,
        extract_layers=[0, 1],
        reduce_dim=8,
        decoder_num_attention_heads=2,
        decoder_intermediate_size=16,
    )
    _, tokenizer, processor = _clipseg()
    network = transformers.CLIPSegForImageSegmentation(config)
    return network, tokenizer, processor


def _groupvit() -> Any:
    vision = {
        **VISION,
        "depths": [1, 1, 1],
        "num_hidden_layers": 3,
        "num_group_tokens": [6, 3, 0],
        "num_output_groups": [6, 3, 0],
    }
    config = transformers.GroupViTConfig(
        text_config=CLIP_TEXT,
        vision_config=vision,
        projection_dim=10,
        projection_intermediate_dim=12,
    )
    return transformers.GroupViTModel(config), ended_tokenizer("<s>"), _clip_processor()


def _owl_config(config_class: Any) -> Any:
    return config_class(text_config=CLIP_TEXT, vision_config=VISION, projection_dim=10)


def _owlvit() -> Any:
    config = _owl_config(transformers.OwlViTConfig)
    processor = transformers.OwlViTImageProcessor(
        size=SQUARE, crop_size=SQUARE, do_center_crop=False
    )
    return transformers.OwlViTModel(config), ended_tokenizer("<s>"), processor


def _owlvit_detecting() -> Any:
    _, tokenizer, processor = _owlvit()
    config = _owl_config(transformers.OwlViTConfig)
    return transformers.OwlViTForObjectDetection(config), tokenizer, processor


def _owlv2() -> Any:
    config = _owl_config(transformers.Owlv2Config)
    processor = transformers.Owlv2ImageProcessor(size=SQUARE)
    return transformers.Owlv2Model(config), ended_tokenizer("<s>"), processor


def _vision_text_dual_encoder() -> Any:
    config = transformers.VisionTextDualEncoderConfig.from_vision_text_configs(
        transformers.ViTConfig(**VISION),
        transformers.BertConfig(**BERT_TEXT),
        projection_dim=10,
    )
    processor = transformers.ViTImageProcessor(size=SQUARE)
    network = transformers.VisionTextDualEncoderModel(config)
    return network, bert_tokenizer(), processor


def _aimv2() -> Any:
    vision = {**VISION, "use_head": True}
    config = transformers.Aimv2Config(
        text_config=CLIP_TEXT, vision_config=vision, projection_dim=10
    )
    # Beyond the limit of the config.
    config.max_logit_scale = 9.0
    return transformers.Aimv2Model(config), ended_tokenizer("<s>"), _clip_processor()


def _blip() -> Any:
    text = {**BERT_TEXT, "encoder_hidden_size": 16, "projection_dim": 10}
    text |= {"bos_token_id": 2, "sep_token_id": 3, "eos_token_id": 3}
    config = transformers.BlipConfig(
        text_config=text, vision_config=VISION, projection_dim=10
    )
    processor = transformers.BlipImageProcessor(size=SQUARE)
    return transformers.BlipModel(config), bert_tokenizer(), processor


def _tipsv2() -> Any:
    config = transformers.Tipsv2Config(
        text_config={**BERT_TEXT, "pad_token_id": 0}, vision_config=VISION
    )
    # Its own processor needs torchvision; as there, pixels are from 0 to 1.
    processor = transformers.ViTImageProcessor(size=SQUARE, do_normalize=False)
    return transformers.Tipsv2Model(config), bert_tokenizer(), processor


def siglip2() -> Any:
    text = {**BERT_TEXT, "max_position_embeddings": 14, "projection_size": 16}
    vision = {"num_patches": 16, "patch_size": 8, **BERT}
    config = transformers.Siglip2Config(text_config=text, vision_config=vision)
    processor = transformers.Siglip2ImageProcessor(patch_size=8, max_num_patches=16)
    return transformers.Siglip2Model(config), ended_tokenizer(), processor


TOWERS: dict[str, Callable[[], Any]] = {
    "aimv2": _aimv2,
    "altclip": _altclip,
    "blip": _blip,
    "chinese_clip": _chinese_clip,
    "clipseg": _clipseg,
    "clipseg segmenting": _clipseg_segmenting,
    "groupvit": _groupvit,
    "owlv2": _owlv2,
    "owlvit": _owlvit,
    "owlvit detecting": _owlvit_detecting,
    "tipsv2": _tipsv2,
    "vision-text-dual-encoder": _vision_text_dual_encoder,
}
"""Functions that build a network, its tokenizer and its image processor."""


def build_towers(build: Callable[[], Any]) -> list[Any]:
    """Network, tokenizer and image processor; vectors differ from input to input."""
    torch.manual_seed(5)
    network, tokenizer, processor = build()
    with torch.no_grad():
        for values in network.parameters():
            if values.ndim > 1:
                values.normal_(std=0.4)
    return [network.eval(), tokenizer, processor]
