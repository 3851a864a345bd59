"""Tiny random VL decoders of many families, of the real classes, as networks and processors before
they are wrapped.
"""

import types
from typing import Any

import numpy as np
import torch
import transformers

from stand_ins.models.tiny_decoders import TEXT, TOWER, WithoutVideos, random, tokenizer


class Qwen25VLProcessor(WithoutVideos, transformers.Qwen2_5_VLProcessor):
    """The real one."""


class Qwen3VLProcessor(WithoutVideos, transformers.Qwen3VLProcessor):
    """The real one."""


class InternVLProcessor(WithoutVideos, transformers.InternVLProcessor):
    """The real one."""


class LlavaOnevisionProcessor(WithoutVideos, transformers.LlavaOnevisionProcessor):
    """The real one."""


class Llama4Processor(WithoutVideos, transformers.Llama4Processor):
    """The real one."""


class TwoTiles:
    """An image processor in the place of Llama 4's, which needs torchvision: two tiles side by
    side, then the whole.
    """

    side = 16

    def fetch_images(self, images: Any) -> Any:
        return images

    def __call__(self, images: Any, **settings: Any) -> dict[str, Any]:
        (image,) = images
        wide, whole = (
            image.resize((width, self.side)) for width in (2 * self.side, self.side)
        )
        tiles = [
            wide.crop((left, 0, left + self.side, self.side)) for left in (0, self.side)
        ]
        pixels = [
            torch.from_numpy(np.array(tile)).permute(2, 0, 1) / 127.5 - 1
            for tile in (*tiles, whole)
        ]
        return {"pixel_values": torch.stack(pixels), "aspect_ratios": [(1, 2)]}


QWEN_TEXT = {
    **TEXT,
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 10000.0,
        "mrope_section": [1, 1, 2],
    },
}
QWEN_MARKS = {
    "image_token": "<|image_pad|>",
    "video_token": "<|video_pad|>",
    "vision_start_token": "<|vision_start|>",
    "vision_end_token": "<|vision_end|>",
}


def qwen_ids(words) -> dict[str, int]:
    return {
        f"{name}_id": words.convert_tokens_to_ids(mark)
        for name, mark in QWEN_MARKS.items()
    }


def qwen_images() -> Any:
    return transformers.Qwen2VLImageProcessorPil(
        patch_size=4,
        merge_size=2,
        temporal_patch_size=2,
        min_pixels=16 * 16,
        max_pixels=32 * 32,
    )


def qwen2_5_vl() -> tuple[Any, Any]:
    words = tokenizer(start=False, **QWEN_MARKS)
    config = transformers.Qwen2_5_VLConfig(
        vision_config={
            "depth": 2,
            "hidden_size": 16,
            "intermediate_size": 24,
            "out_hidden_size": 32,
            "num_heads": 2,
            "patch_size": 4,
            "window_size": 16,
            "fullatt_block_indexes": [1],
        },
        text_config={**QWEN_TEXT, "vocab_size": len(words)},
        **qwen_ids(words),
    )
    processor = Qwen25VLProcessor(qwen_images(), words)
    return transformers.Qwen2_5_VLForConditionalGeneration(config), processor


def qwen3_vl() -> tuple[Any, Any]:
    words = tokenizer(start=False, **QWEN_MARKS)
    config = transformers.Qwen3VLConfig(
        vision_config={
            "depth": 2,
            "hidden_size": 16,
            "intermediate_size": 24,
            "out_hidden_size": 32,
            "num_heads": 2,
            "patch_size": 4,
            "num_position_embeddings": 16,
            "deepstack_visual_indexes": [0],
        },
        text_config={**QWEN_TEXT, "head_dim": 8, "vocab_size": len(words)},
        **qwen_ids(words),
    )
    processor = Qwen3VLProcessor(qwen_images(), words)
    return transformers.Qwen3VLForConditionalGeneration(config), processor


def gemma3() -> tuple[Any, Any]:
    marks = {
        "image_token": "<image_soft_token>",
        "boi_token": "<start_of_image>",
        "eoi_token": "<end_of_image>",
    }
    words = tokenizer(**marks)
    words.add_tokens(["\n", "\n\n", "\n\n\n"])  # the real one has such tokens, too
    ids = {name: words.convert_tokens_to_ids(mark) for name, mark in marks.items()}
    config = transformers.Gemma3Config(
        vision_config={"image_size": 16, "patch_size": 4, **TOWER},
        text_config={
            **TEXT,
            "head_dim": 8,
            "sliding_window": 8,
            "vocab_size": len(words),
        },
        mm_tokens_per_image=4,
        image_token_index=ids["image_token"],
        boi_token_index=ids["boi_token"],
        eoi_token_index=ids["eoi_token"],
    )
    images = transformers.Gemma3ImageProcessorPil(size={"height": 16, "width": 16})
    processor = transformers.Gemma3Processor(images, words, image_seq_length=4)
    return transformers.Gemma3ForConditionalGeneration(config), processor


def internvl() -> tuple[Any, Any]:
    words = tokenizer(
        start=False,
        start_image_token="<img>",
        end_image_token="</img>",
        context_image_token="<IMG_CONTEXT>",
        video_token="<video>",
    )
    config = transformers.InternVLConfig(
        vision_config={"image_size": [16, 16], "patch_size": [4, 4], **TOWER},
        text_config={"model_type": "qwen2", **TEXT, "vocab_size": len(words)},
        image_token_id=words.convert_tokens_to_ids("<IMG_CONTEXT>"),
        image_seq_length=4,
    )
    images = transformers.GotOcr2ImageProcessorPil(
        size={"height": 16, "width": 16},
        crop_to_patches=True,
        min_patches=1,
        max_patches=4,
    )
    processor = InternVLProcessor(images, words, image_seq_length=4)
    return transformers.InternVLForConditionalGeneration(config), processor


def idefics3() -> tuple[Any, Any]:
    words = tokenizer(start=False)
    images = transformers.Idefics3ImageProcessorPil(
        size={"longest_edge": 48}, max_image_size={"longest_edge": 24}
    )
    processor = transformers.Idefics3Processor(images, words, image_seq_len=4)
    config = transformers.Idefics3Config(
        vision_config={"image_size": 24, "patch_size": 6, **TOWER},
        text_config={"model_type": "llama", **TEXT, "vocab_size": len(words)},
        image_token_id=words.convert_tokens_to_ids("<image>"),
        scale_factor=2,
    )
    return transformers.Idefics3ForConditionalGeneration(config), processor


def llava_onevision() -> tuple[Any, Any]:
    words = tokenizer(start=False, video_token="<video>")
    grids = [[16, 32], [32, 16], [32, 32]]
    config = transformers.LlavaOnevisionConfig(
        vision_config={
            "model_type": "siglip_vision_model",
            "image_size": 16,
            "patch_size": 4,
            **TOWER,
        },
        text_config={"model_type": "qwen2", **TEXT, "vocab_size": len(words)},
        image_token_index=words.convert_tokens_to_ids("<image>"),
        video_token_index=words.convert_tokens_to_ids("<video>"),
        image_grid_pinpoints=grids,
    )
    images = transformers.LlavaOnevisionImageProcessorPil(
        size={"height": 16, "width": 16}, image_grid_pinpoints=grids
    )
    processor = LlavaOnevisionProcessor(
        images, words, num_image_tokens=16, vision_feature_select_strategy="full"
    )
    return transformers.LlavaOnevisionForConditionalGeneration(config), processor


def paligemma() -> tuple[Any, Any]:
    words = tokenizer()
    words.add_tokens(["\n"])  # the processor ends a prompt with it
    images = transformers.SiglipImageProcessorPil(size={"height": 16, "width": 16})
    images.image_seq_length = 16
    processor = transformers.PaliGemmaProcessor(images, words)
    config = transformers.PaliGemmaConfig(
        vision_config={
            "model_type": "siglip_vision_model",
            "image_size": 16,
            "patch_size": 4,
            "projection_dim": 32,
            **TOWER,
        },
        text_config={
            "model_type": "gemma",
            **TEXT,
            "head_dim": 8,
            "vocab_size": len(words),
        },
        image_token_index=words.convert_tokens_to_ids("<image>"),
        projection_dim=32,
        hidden_size=32,
    )
    return transformers.PaliGemmaForConditionalGeneration(config), processor


def mllama() -> tuple[Any, Any]:
    words = tokenizer(image_token="<|image|>")
    config = transformers.MllamaConfig(
        vision_config={
            "hidden_size": 16,
            "intermediate_size": 24,
            "num_hidden_layers": 2,
            "num_global_layers": 1,
            "attention_heads": 2,
            "vision_output_dim": 32,
            "image_size": 16,
            "patch_size": 4,
            "max_num_tiles": 4,
            "intermediate_layers_indices": [0],
        },
        text_config={
            **{
                name: value
                for name, value in TEXT.items()
                if name not in ("bos_token_id", "eos_token_id")
            },
            "num_hidden_layers": 3,
            "cross_attention_layers": [1],
            "vocab_size": len(words),
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
        },
        image_token_index=words.convert_tokens_to_ids("<|image|>"),
    )
    images = transformers.MllamaImageProcessorPil(
        size={"height": 16, "width": 16}, max_image_tiles=4
    )
    network = transformers.MllamaForConditionalGeneration(config)
    for name, parameter in network.named_parameters():
        if "gate" in name and parameter.ndim == 1:
            parameter.data.fill_(1)  # at 0, as they begin, nothing of the image passes
    return network, transformers.MllamaProcessor(images, words)


def llama4() -> tuple[Any, Any]:
    words = tokenizer(
        image_token="<|image|>",
        opening="<|image_start|>",
        closing="<|image_end|>",
        patch="<|patch|>",
        tile_x="<|tile_x_separator|>",
        tile_y="<|tile_y_separator|>",
    )
    config = transformers.Llama4Config(
        vision_config={
            **TOWER,
            "image_size": 16,
            "patch_size": 4,
            "intermediate_size": 64,
            "vision_output_dim": 32,
            "projector_input_dim": 32,
            "projector_output_dim": 32,
            "pixel_shuffle_ratio": 0.5,
        },
        text_config={
            **TEXT,
            "head_dim": 8,
            "intermediate_size_mlp": 48,
            "num_local_experts": 2,
            "attention_chunk_size": 16,
            "vocab_size": len(words),
        },
        image_token_index=words.convert_tokens_to_ids("<|patch|>"),
        boi_token_index=words.convert_tokens_to_ids("<|image_start|>"),
        eoi_token_index=words.convert_tokens_to_ids("<|image_end|>"),
    )
    return transformers.Llama4ForConditionalGeneration(config), Llama4Processor(
        TwoTiles(), words, patch_size=4
    )


FAMILIES = types.MappingProxyType(
    {
        "qwen2.5-vl": qwen2_5_vl,
        "qwen3-vl": qwen3_vl,
        "gemma3": gemma3,
        "internvl": internvl,
        "idefics3": idefics3,
        "llava-onevision": llava_onevision,
        "paligemma": paligemma,
        "mllama": mllama,
        "llama4": llama4,
    }
)


def build(family: str) -> tuple[Any, Any]:
    """The network of a family, with random weights, and its processor."""
    network, processor = FAMILIES[family]()
    return random(network), processor


def build_chat_template(placeholder: str) -> str:
    """A chat template of parts, as processors have it."""
    return (
        "{% for message in messages %}{{ message.role.upper() }} : {% for part in message.content %}"
        f"{{% if part.type == 'image' %}}{placeholder} {{% else %}}{{{{ part.text }}}}{{% endif %}}"
        "{% endfor %} {% endfor %}{% if add_generation_prompt %}ASSISTANT :{% endif %}"
    )
