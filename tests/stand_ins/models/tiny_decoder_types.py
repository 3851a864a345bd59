"""Tiny random VL decoders by their type in transformers, for the table of types.

Those that are not in `tiny_families` or `tiny_decoders` have their real processors, video parts
included, which need torchvision.
"""

import types
from functools import partial
from typing import Any

import transformers

from stand_ins.models import tiny_decoders, tiny_families
from stand_ins.models.tiny_decoders import TEXT, TOWER, random, tokenizer

SIDE = {"height": 16, "width": 16}
CLIP_TOWER = {
    "model_type": "clip_vision_model",
    "image_size": 16,
    "patch_size": 4,
    **TOWER,
}
SIGLIP_TOWER = {**CLIP_TOWER, "model_type": "siglip_vision_model"}
LLAMA = {"model_type": "llama", **TEXT}
QWEN2 = {"model_type": "qwen2", **TEXT}


def unwrap(wrap: Any) -> tuple[Any, Any]:
    """Return network and processor of a decoder that is built wrapped."""
    decoder = wrap()
    decoder.processor.image_processor = decoder.processor.image_processor.processor
    return decoder.network.model, decoder.processor


def vipllava() -> tuple[Any, Any]:
    words = tokenizer()
    config = transformers.VipLlavaConfig(
        vision_config=CLIP_TOWER,
        text_config={**LLAMA, "vocab_size": len(words)},
        image_token_index=words.convert_tokens_to_ids("<image>"),
        vision_feature_layers=[-2, -1],
        image_seq_length=16,
    )
    images = transformers.CLIPImageProcessorPil(
        size={"shortest_edge": 16}, crop_size=SIDE
    )
    processor = transformers.LlavaProcessor(
        images,
        words,
        patch_size=4,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
    )
    return transformers.VipLlavaForConditionalGeneration(config), processor


WRAPPED = types.MappingProxyType(
    {
        "llava": tiny_decoders.llava,
        "llava_next": tiny_decoders.llava_next,
        "smolvlm": tiny_decoders.smolvlm,
        "idefics2": tiny_decoders.idefics2,
        "qwen2_vl": tiny_decoders.qwen2_vl,
    }
)
TYPES = types.MappingProxyType(
    {
        name.replace("qwen2.5", "qwen2_5").replace("-", "_"): build
        for name, build in tiny_families.FAMILIES.items()
    }
    | {name: partial(unwrap, wrap) for name, wrap in WRAPPED.items()}
    | {
        "vipllava": vipllava,
    }
)


def build(model_type: str) -> tuple[Any, Any]:
    """The network of a type, with random weights, and its processor."""
    network, processor = TYPES[model_type]()
    return random(network), processor
