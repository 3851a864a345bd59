"""Tiny random VL decoders by their type in transformers, for the table of types.

Those that are not in `tiny_families` or `tiny_decoders` have their real processors, video parts
included, which need torchvision.
"""

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import transformers
from tokenizers import processors

from stand_ins.models import tiny_decoders, tiny_families
from stand_ins.models.tiny_captioners import CAPTIONERS, bert_tokenizer
from stand_ins.models.tiny_decoders import TEXT, TOWER, random, tokenizer
from stand_ins.models.tiny_families import (
    QWEN_MARKS,
    QWEN_TEXT,
    qwen_ids,
    qwen_images,
)

Pair = tuple[Any, Any]
"""A network and its processor."""
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


def unwrap(wrap: Any) -> Pair:
    """Return network and processor of a decoder that is built wrapped."""
    decoder = wrap()
    decoder.processor.image_processor = decoder.processor.image_processor.processor
    return decoder.network.model, decoder.processor


def vipllava() -> Pair:
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


def llava_next_video() -> Pair:
    words = tokenizer(video_token="<video>")
    grids = [[16, 32], [32, 16], [32, 32]]
    config = transformers.LlavaNextVideoConfig(
        vision_config=CLIP_TOWER,
        text_config={**LLAMA, "vocab_size": len(words)},
        image_token_index=words.convert_tokens_to_ids("<image>"),
        video_token_index=words.convert_tokens_to_ids("<video>"),
        image_grid_pinpoints=grids,
        image_seq_length=16,
    )
    images = transformers.LlavaNextImageProcessorPil(
        size={"shortest_edge": 16}, crop_size=SIDE, image_grid_pinpoints=grids
    )
    processor = transformers.LlavaNextVideoProcessor(
        video_processor=transformers.LlavaNextVideoVideoProcessor(),
        image_processor=images,
        tokenizer=words,
        patch_size=4,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
    )
    return transformers.LlavaNextVideoForConditionalGeneration(config), processor


PIXTRAL_MARKS = {
    "image": "[IMG]",
    "image_break_token": "[IMG_BREAK]",
    "image_end_token": "[IMG_END]",
}
PIXTRAL_TOWER = {
    "model_type": "pixtral",
    "image_size": 64,
    "patch_size": 4,
    "head_dim": 8,
    **TOWER,
}


def mistral3() -> Pair:
    words = tokenizer(**PIXTRAL_MARKS)
    config = transformers.Mistral3Config(
        vision_config=PIXTRAL_TOWER,
        text_config={
            "model_type": "mistral",
            **TEXT,
            "head_dim": 8,
            "vocab_size": len(words),
        },
        image_token_index=words.convert_tokens_to_ids("[IMG]"),
        spatial_merge_size=2,
    )
    images = transformers.PixtralImageProcessorPil(
        patch_size=4, size={"longest_edge": 16}
    )
    return transformers.Mistral3ForConditionalGeneration(
        config
    ), transformers.PixtralProcessor(images, words, patch_size=4, spatial_merge_size=2)


def lighton_ocr() -> Pair:
    words = tokenizer(**PIXTRAL_MARKS)
    config = transformers.LightOnOcrConfig(
        vision_config=PIXTRAL_TOWER,
        text_config={
            "model_type": "qwen3",
            **TEXT,
            "head_dim": 8,
            "vocab_size": len(words),
        },
        image_token_id=words.convert_tokens_to_ids("[IMG]"),
        spatial_merge_size=2,
    )
    images = transformers.PixtralImageProcessorPil(
        patch_size=8, size={"longest_edge": 16}
    )
    return transformers.LightOnOcrForConditionalGeneration(
        config
    ), transformers.LightOnOcrProcessor(
        images, words, patch_size=4, spatial_merge_size=2
    )


def aya_vision() -> Pair:
    words = tokenizer(
        **{
            n: n
            for n in (
                "<|START_OF_IMG|>",
                "<|END_OF_IMG|>",
                "<|IMG_PATCH|>",
                "<|IMG_LINE_BREAK|>",
                "TILE",
                "TILE_GLOBAL",
                "TILE_1",
            )
        }
    )
    config = transformers.AyaVisionConfig(
        vision_config=SIGLIP_TOWER,
        text_config={
            "model_type": "cohere2",
            **TEXT,
            "head_dim": 8,
            "vocab_size": len(words),
        },
        image_token_index=words.convert_tokens_to_ids("<|IMG_PATCH|>"),
        downsample_factor=2,
        adapter_layer_norm_eps=1e-6,
        alignment_intermediate_size=32,
    )
    images = transformers.GotOcr2ImageProcessorPil(
        size=SIDE, crop_to_patches=True, min_patches=1, max_patches=2
    )
    return transformers.AyaVisionForConditionalGeneration(
        config
    ), transformers.AyaVisionProcessor(
        images, words, patch_size=4, img_size=16, downsample_factor=2
    )


def cohere2_vision() -> Pair:
    words = tokenizer(
        image="<|IMG_PATCH|>",
        boi_token="<|START_OF_IMG|>",
        eoi_token="<|END_OF_IMG|>",
        img_line_break_token="<|IMG_LINE_BREAK|>",
    )
    config = transformers.Cohere2VisionConfig(
        vision_config=SIGLIP_TOWER,
        text_config={
            "model_type": "cohere2",
            **TEXT,
            "head_dim": 8,
            "vocab_size": len(words),
        },
        image_token_id=words.convert_tokens_to_ids("<|IMG_PATCH|>"),
        downsample_factor=2,
        alignment_intermediate_size=32,
    )
    images = transformers.Cohere2VisionImageProcessor(
        size=SIDE, min_patches=1, max_patches=2, patch_size=2
    )
    return transformers.Cohere2VisionForConditionalGeneration(
        config
    ), transformers.Cohere2VisionProcessor(images, words)


def got_ocr2() -> Pair:
    words = tokenizer(
        **{n: n for n in ("<img>", "</img>", "<imgpad>", "<|im_start|>", "<|im_end|>")}
    )
    config = transformers.GotOcr2Config(
        vision_config={
            "hidden_size": 16,
            "output_channels": 8,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "image_size": 64,
            "patch_size": 8,
            "window_size": 4,
            "global_attn_indexes": [1],
            "mlp_dim": 24,
        },
        text_config={**QWEN2, "vocab_size": len(words)},
        image_token_index=words.convert_tokens_to_ids("<imgpad>"),
        image_seq_length=4,
    )
    images = transformers.GotOcr2ImageProcessorPil(size={"height": 64, "width": 64})
    processor = transformers.GotOcr2Processor(images, words)
    processor.num_image_tokens = 4
    return transformers.GotOcr2ForConditionalGeneration(config), processor


def aria() -> Pair:
    words = tokenizer()
    config = transformers.AriaConfig(
        vision_config={
            "model_type": "idefics3_vision",
            "image_size": 980,
            "patch_size": 140,
            **TOWER,
        },
        text_config={
            "model_type": "aria_text",
            **TEXT,
            "moe_num_experts": 4,
            "vocab_size": len(words),
        },
        projector_patch_to_query_dict={49: 4},
        image_token_index=words.convert_tokens_to_ids("<image>"),
        vision_feature_layer=-1,
    )
    images = transformers.AriaImageProcessorPil(max_image_size=980, min_image_size=336)
    return transformers.AriaForConditionalGeneration(
        config
    ), transformers.AriaProcessor(images, words, size_conversion={980: 4})


def deepseek_vl() -> Pair:
    words = tokenizer()
    config = transformers.DeepseekVLConfig(
        vision_config=SIGLIP_TOWER,
        text_config={**LLAMA, "vocab_size": len(words)},
        image_token_id=words.convert_tokens_to_ids("<image>"),
    )
    images = transformers.DeepseekVLImageProcessorPil(size=SIDE, min_size=4)
    return transformers.DeepseekVLForConditionalGeneration(
        config
    ), transformers.DeepseekVLProcessor(images, words, num_image_tokens=16)


def deepseek_vl_hybrid() -> Pair:
    words = tokenizer()
    config = transformers.DeepseekVLHybridConfig(
        vision_config={**SIGLIP_TOWER, "image_size": 64, "patch_size": 16},
        text_config={**LLAMA, "vocab_size": len(words)},
        image_token_id=words.convert_tokens_to_ids("<image>"),
        high_res_vision_config={
            "model_type": "sam_vision_model",
            "hidden_size": 16,
            "output_channels": 8,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "image_size": 128,
            "patch_size": 8,
            "window_size": 4,
            "global_attn_indexes": [1],
            "mlp_dim": 24,
        },
    )
    images = transformers.DeepseekVLHybridImageProcessorPil(
        size={"height": 64, "width": 64},
        high_res_size={"height": 128, "width": 128},
        min_size=4,
    )
    return transformers.DeepseekVLHybridForConditionalGeneration(
        config
    ), transformers.DeepseekVLHybridProcessor(images, words, num_image_tokens=16)


def janus() -> Pair:
    words = tokenizer(boi_token="<begin_of_image>", eoi_token="<end_of_image>")
    config = transformers.JanusConfig(
        vision_config={
            "hidden_size": 16,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "image_size": 16,
            "patch_size": 4,
            "projection_dim": 32,
            "num_image_tokens": 16,
            "mlp_ratio": 2,
        },
        text_config={**LLAMA, "vocab_size": len(words)},
        vq_config={
            "embed_dim": 4,
            "num_embeddings": 8,
            "latent_channels": 8,
            "base_channels": 32,
            "channel_multiplier": [1, 1],
            "num_res_blocks": 1,
            "num_patches": 4,
            "projection_dim": 32,
            "image_token_embed_dim": 32,
        },
        image_token_id=words.convert_tokens_to_ids("<image>"),
    )
    images = transformers.JanusImageProcessorPil(size=SIDE, min_size=4)
    return transformers.JanusForConditionalGeneration(
        config
    ), transformers.JanusProcessor(images, words, num_image_tokens=16)


def ovis2() -> Pair:
    marks = ("<IMG_START>", "<IMG_GRID>", "<IMG_COL>", "<IMG_ROW>", "<IMG_END>")
    words = tokenizer(atom="<IMG_ATOM>", **{m: m for m in marks})
    config = transformers.Ovis2Config(
        vision_config={
            **TOWER,
            "image_size": 16,
            "patch_size": 4,
            "vocab_size": 24,
            "hidden_stride": 2,
        },
        text_config={**QWEN2, "vocab_size": len(words)},
        vocab_size=len(words),
        hidden_size=32,
        image_token_id=words.convert_tokens_to_ids("<IMG_ATOM>"),
        visual_indicator_token_ids=[words.convert_tokens_to_ids(m) for m in marks],
    )
    images = transformers.Ovis2ImageProcessorPil(
        size=SIDE, crop_to_patches=True, max_patches=2
    )
    return transformers.Ovis2ForConditionalGeneration(
        config
    ), transformers.Ovis2Processor(images, words, image_seq_length=4)


def lfm2_vl() -> Pair:
    words = tokenizer(
        image_start_token="<|image_start|>",
        image_end_token="<|image_end|>",
        image_thumbnail_token="<|img_thumbnail|>",
    )
    config = transformers.Lfm2VlConfig(
        vision_config={
            "model_type": "siglip2_vision_model",
            **TOWER,
            "patch_size": 4,
            "num_patches": 16,
        },
        text_config={
            "model_type": "lfm2",
            **TEXT,
            "vocab_size": len(words),
            "layer_types": ["conv", "full_attention"],
        },
        image_token_id=words.convert_tokens_to_ids("<image>"),
        projector_hidden_size=24,
    )
    images = transformers.Lfm2VlImageProcessor(
        size=SIDE,
        tile_size=16,
        encoder_patch_size=4,
        min_tiles=1,
        max_tiles=2,
        min_image_tokens=4,
        max_image_tokens=4,
        do_image_splitting=False,
        max_num_patches=16,
    )
    return transformers.Lfm2VlForConditionalGeneration(
        config
    ), transformers.Lfm2VlProcessor(images, words)


def smolvlm() -> Pair:
    words = tokenizer(start=False, global_image_token="<global-img>")
    config = transformers.SmolVLMConfig(
        vision_config={"image_size": 24, "patch_size": 6, **TOWER},
        text_config={**LLAMA, "vocab_size": len(words)},
        image_token_id=words.convert_tokens_to_ids("<image>"),
        scale_factor=2,
        pad_token_id=2,
    )
    images = transformers.SmolVLMImageProcessorPil(
        size={"longest_edge": 48},
        max_image_size={"longest_edge": 24},
        do_image_splitting=True,
    )
    return transformers.SmolVLMForConditionalGeneration(
        config
    ), transformers.SmolVLMProcessor(
        images, words, transformers.SmolVLMVideoProcessor(), image_seq_len=4
    )


def build_glm(
    name: str,
    images_name: str = "Glm4v",
    config_name: str = "",
    text: Mapping[str, Any] = MappingProxyType({}),
    vision: Mapping[str, Any] = MappingProxyType({}),
) -> Pair:
    marks = {
        "image": "<|image|>",
        "video_token": "<|video|>",
        "image_start_token": "<|begin_of_image|>",
        "image_end_token": "<|end_of_image|>",
        "video_start_token": "<|begin_of_video|>",
        "video_end_token": "<|end_of_video|>",
    }
    words = tokenizer(start=False, **marks)
    marks["image_token"] = marks.pop("image")
    config = getattr(transformers, f"{config_name or name}Config")(
        vision_config={
            "depth": 2,
            "hidden_size": 16,
            "intermediate_size": 24,
            "num_heads": 2,
            "image_size": 16,
            "patch_size": 4,
            "out_hidden_size": 32,
            **vision,
        },
        text_config={
            **QWEN_TEXT,
            "rope_parameters": {
                **QWEN_TEXT["rope_parameters"],
                "partial_rotary_factor": 1.0,
            },
            "vocab_size": len(words),
            **text,
        },
        **{f"{n}_id": words.convert_tokens_to_ids(m) for n, m in marks.items()},
    )
    sizes = {"shortest_edge": 256, "longest_edge": 1024}
    images = getattr(transformers, f"{images_name}ImageProcessorPil")(
        patch_size=4, size=sizes
    )
    videos = getattr(transformers, f"{images_name}VideoProcessor")(
        patch_size=4, size=sizes
    )
    network = getattr(transformers, f"{name}ForConditionalGeneration")(config)
    return network, getattr(transformers, f"{images_name}Processor")(
        images, words, videos
    )


def glm4v() -> Pair:
    return build_glm("Glm4v")


def glm46v() -> Pair:
    return build_glm(
        "Glm46V",
        images_name="Glm46V",
        text={"model_type": "glm4v_text"},
        vision={"model_type": "glm4v_vision"},
    )


def glm_ocr() -> Pair:
    return build_glm("GlmOcr", images_name="Glm46V", text={"head_dim": 8})


def glm4v_moe() -> Pair:
    return build_glm(
        "Glm4vMoe",
        text={
            "moe_intermediate_size": 24,
            "num_experts_per_tok": 2,
            "n_routed_experts": 4,
        },
    )


def build_qwen(
    name: str, text: Mapping[str, Any], vision: Mapping[str, Any] = MappingProxyType({})
) -> Pair:
    words = tokenizer(start=False, **QWEN_MARKS)
    config = getattr(transformers, f"{name}Config")(
        vision_config={
            "depth": 2,
            "hidden_size": 16,
            "intermediate_size": 24,
            "out_hidden_size": 32,
            "num_heads": 2,
            "patch_size": 4,
            "num_position_embeddings": 16,
            **vision,
        },
        text_config={**QWEN_TEXT, "head_dim": 8, "vocab_size": len(words), **text},
        **qwen_ids(words),
    )
    videos = transformers.Qwen3VLVideoProcessor(patch_size=4)
    return getattr(transformers, f"{name}ForConditionalGeneration")(
        config
    ), transformers.Qwen3VLProcessor(qwen_images(), words, videos)


MOE = {"moe_intermediate_size": 24, "num_experts_per_tok": 2, "num_experts": 4}
LINEAR = {
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "layer_types": ["linear_attention", "full_attention"],
    "rope_parameters": {**QWEN_TEXT["rope_parameters"], "partial_rotary_factor": 1.0},
}


def qwen3_vl_moe() -> Pair:
    return build_qwen("Qwen3VLMoe", MOE, {"deepstack_visual_indexes": [0]})


def qwen3_5() -> Pair:
    return build_qwen("Qwen3_5", LINEAR)


def qwen3_5_moe() -> Pair:
    return build_qwen(
        "Qwen3_5Moe", {**LINEAR, **MOE, "shared_expert_intermediate_size": 24}
    )


def qwen4_exp() -> Pair:
    return build_qwen(
        "Qwen4Exp",
        {
            **LINEAR,
            **MOE,
            "shared_expert_intermediate_size": 24,
            "ple_layer_ids": [],
            "indexer_n_heads": 2,
            "indexer_kv_heads": 1,
            "indexer_head_dim": 8,
            "indexer_budget": 64,
            "indexer_compress_ratio": 4,
            "hc_lowrank": 8,
            "hc_count": 2,
        },
    )


def cosmos3_omni() -> Pair:
    network, processor = build_qwen("Qwen3VL", {}, {"deepstack_visual_indexes": [0]})
    config = transformers.Cosmos3OmniConfig(
        text_config=network.config.text_config,
        vision_config=network.config.vision_config,
        **qwen_ids(processor.tokenizer),
    )
    return transformers.Cosmos3OmniForConditionalGeneration(config), processor


def cosmos3_edge() -> Pair:
    words = tokenizer(start=False, **QWEN_MARKS)
    config = transformers.Cosmos3EdgeConfig(
        vision_config={**TOWER, "patch_size": 4, "num_patches": 16},
        text_config={**QWEN_TEXT, "head_dim": 8, "vocab_size": len(words)},
        projector_hidden_size=24,
        **qwen_ids(words),
    )
    images = transformers.Cosmos3EdgeImageProcessorPil(
        patch_size=4, size={"shortest_edge": 16 * 16, "longest_edge": 24 * 24}
    )
    return transformers.Cosmos3EdgeForConditionalGeneration(
        config
    ), transformers.Cosmos3EdgeProcessor(
        images, words, transformers.Cosmos3EdgeVideoProcessor(patch_size=4)
    )


def build_muse(
    name: str,
    text: Mapping[str, Any] = MappingProxyType({}),
    audio: Mapping[str, Any] = MappingProxyType({}),
    **parts: Any,
) -> Pair:
    """A Muse with more settings of its text model and config, and more parts of its processor."""
    words = tokenizer(
        image="<|patch|>",
        image_start_token="<|image_start|>",
        image_end_token="<|image_end|>",
        video_token="<|video|>",
        audio_token="<|audio|>",
    )
    config = getattr(transformers, f"{name}Config")(
        vision_config={
            **TOWER,
            "patch_size": 4,
            "pos_emb_height": 4,
            "pos_emb_width": 4,
            "layer_types": ["window_attention", "full_attention"],
        },
        text_config={
            **TEXT,
            "head_dim": 8,
            "sliding_window": 8,
            "layer_types": ["sliding_attention", "full_attention"],
            "layer_rope_theta": [10000.0, 0],
            "vocab_size": len(words),
            **text,
        },
        out_hidden_size=4 * TOWER["hidden_size"],
        projector_hidden_size=24,
        image_token_id=words.convert_tokens_to_ids("<|patch|>"),
        video_token_id=words.convert_tokens_to_ids("<|video|>"),
        **audio,
    )
    images = transformers.MuseGlimmerImageProcessor(patch_size=4, max_image_tokens=6)
    videos = transformers.MuseGlimmerVideoProcessor(patch_size=4)
    network = getattr(transformers, f"{name}ForConditionalGeneration")(config)
    return network, getattr(transformers, f"{name}Processor")(
        images, videos, words, **parts
    )


def muse_glimmer() -> Pair:
    return build_muse("MuseGlimmer")


def muse_spark() -> Pair:
    text = {
        "moe_hidden_size": 16,
        "moe_intermediate_size": 24,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "mlp_layer_types": ["dense", "sparse"],
    }
    audio = {
        "hidden_sizes": [4, 4, 4, 4],
        "depths": [1, 1, 1, 1],
        "out_hidden_size": TEXT["hidden_size"],
    }
    return build_muse(
        "MuseSpark",
        text,
        {"audio_config": audio},
        feature_extractor=transformers.MuseSparkFeatureExtractor(),
    )


INKLING_TEXT = {
    **TEXT,
    "head_dim": 8,
    "swa_num_attention_heads": 4,
    "swa_num_key_value_heads": 2,
    "swa_head_dim": 8,
    "sliding_window_size": 8,
    "d_rel": 4,
    "rel_extent": 16,
    "layer_types": ["hybrid_sliding", "hybrid"],
    "moe_intermediate_size": 24,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
}
INKLING_MARKS = {
    "image": "<|unused_200054|>",
    "audio_token": "<|unused_200053|>",
    "image_bos_token": "<|content_image|>",
    "audio_bos_token": "<|content_audio_input|>",
}


def inkling_mm_model() -> Pair:
    words = tokenizer(start=False, **INKLING_MARKS)
    config = transformers.InklingConfig(
        vision_config={**TOWER, "patch_size": 40},
        audio_config={"n_mel_bins": 8, "mel_vocab_size": 4},
        text_config={
            **INKLING_TEXT,
            "vocab_size": len(words),
            "mlp_layer_types": ["dense", "sparse"],
        },
        image_token_id=words.convert_tokens_to_ids(INKLING_MARKS["image"]),
        audio_token_id=words.convert_tokens_to_ids(INKLING_MARKS["audio_token"]),
    )
    return transformers.InklingForConditionalGeneration(
        config
    ), transformers.InklingProcessor(
        transformers.InklingFeatureExtractor(),
        transformers.InklingImageProcessor(),
        words,
    )


def inkling2() -> Pair:
    words = tokenizer(start=False, **INKLING_MARKS)
    config = transformers.Inkling2Config(
        vision_config={
            **TOWER,
            "patch_size": 20,
            "posemb_grid_size": 4,
            "projection_hidden_dim": 24,
            "text_hidden_size": 32,
        },
        text_config={
            **INKLING_TEXT,
            "vocab_size": len(words),
            "unpadded_vocab_size": len(words),
            "n_layers_per_attn_res_block": 1,
        },
        image_token_id=words.convert_tokens_to_ids(INKLING_MARKS["image"]),
    )
    return transformers.Inkling2ForConditionalGeneration(
        config
    ), transformers.Inkling2Processor(transformers.Inkling2ImageProcessor(), words)


def nemotron_h_omni() -> Pair:
    words = tokenizer(
        start=False,
        image_start_token="<img>",
        image_end_token="</img>",
        video_token="<video>",
        audio_token="<so_embedding>",
    )
    config = transformers.NemotronH_Omni_Reasoning_V3_Config(
        vision_config={
            **TOWER,
            "model_type": "radio",
            "patch_size": 4,
            "image_size": 16,
            "max_img_size": 64,
            "video_temporal_patch_size": 2,
        },
        text_config={
            **TEXT,
            "model_type": "nemotron_h",
            "head_dim": 8,
            "layers_block_type": ["linear_attention", "moe", "full_attention", "mlp"],
            "ssm_state_size": 8,
            "mamba_num_heads": 4,
            "mamba_head_dim": 8,
            "n_groups": 2,
            "n_routed_experts": 4,
            "moe_intermediate_size": 24,
            "moe_shared_expert_intermediate_size": 24,
            "vocab_size": len(words),
        },
        projector_hidden_size=24,
        vision_hidden_size=TOWER["hidden_size"],
        image_token_id=words.convert_tokens_to_ids("<image>"),
    )
    images = transformers.NemotronH_Omni_Reasoning_V3ImageProcessor(
        patch_size=4, min_num_patches=16, max_num_patches=24
    )
    return transformers.NemotronH_Omni_Reasoning_V3(
        config
    ), transformers.NemotronH_Omni_Reasoning_V3Processor(
        images,
        transformers.NemotronH_Omni_Reasoning_V3VideoProcessor(),
        words,
        transformers.ParakeetFeatureExtractor(),
    )


def video_llama_3() -> Pair:
    words = tokenizer(start=False, image="<|image_pad|>", video_token="<|video_pad|>")
    config = transformers.VideoLlama3Config(
        vision_config={**TOWER, "patch_size": 4},
        text_config={**QWEN2, "vocab_size": len(words)},
        image_token_id=words.convert_tokens_to_ids("<|image_pad|>"),
        video_token_id=words.convert_tokens_to_ids("<|video_pad|>"),
    )
    images = transformers.VideoLlama3ImageProcessorPil(
        patch_size=4, merge_size=1, size={"shortest_edge": 64, "longest_edge": 256}
    )
    return transformers.VideoLlama3ForConditionalGeneration(
        config
    ), transformers.VideoLlama3Processor(
        images, words, transformers.VideoLlama3VideoProcessor(patch_size=4)
    )


def paddleocr_vl() -> Pair:
    words = tokenizer(image="<|IMAGE_PLACEHOLDER|>", video_token="<|video|>")
    config = transformers.PaddleOCRVLConfig(
        vision_config={**TOWER, "image_size": 16, "patch_size": 4},
        text_config={**QWEN_TEXT, "head_dim": 8, "vocab_size": len(words)},
        image_token_id=words.convert_tokens_to_ids("<|IMAGE_PLACEHOLDER|>"),
        video_token_id=words.convert_tokens_to_ids("<|video|>"),
    )
    images = transformers.PaddleOCRVLImageProcessorPil(
        patch_size=4, size={"shortest_edge": 256, "longest_edge": 1024}
    )
    return transformers.PaddleOCRVLForConditionalGeneration(
        config
    ), transformers.PaddleOCRVLProcessor(images, words)


def ernie4_5_vl_moe() -> Pair:
    marks = {
        "image": "<|IMAGE_PLACEHOLDER|>",
        "video_token": "<|VIDEO_PLACEHOLDER|>",
        "image_start_token": "<|IMAGE_START|>",
        "image_end_token": "<|IMAGE_END|>",
        "video_start_token": "<|VIDEO_START|>",
        "video_end_token": "<|VIDEO_END|>",
    }
    words = tokenizer(**marks)
    marks["image_token"] = marks.pop("image")
    config = transformers.Ernie4_5_VLMoeConfig(
        vision_config={
            "depth": 2,
            "hidden_size": 16,
            "intermediate_size": 24,
            "num_heads": 2,
            "patch_size": 4,
        },
        text_config={
            **QWEN_TEXT,
            "vocab_size": len(words),
            "moe_intermediate_size": [24, 24],
            "moe_k": 2,
            "moe_num_experts": 4,
            "mlp_layer_types": ["dense", "sparse"],
        },
        **{f"{n}_id": words.convert_tokens_to_ids(m) for n, m in marks.items()},
    )
    images = transformers.Ernie4_5_VLMoeImageProcessorPil(
        patch_size=4, size={"shortest_edge": 256, "longest_edge": 1024}
    )
    return transformers.Ernie4_5_VLMoeForConditionalGeneration(
        config
    ), transformers.Ernie4_5_VLMoeProcessor(
        images, words, transformers.Ernie4_5_VLMoeVideoProcessor(patch_size=4)
    )


def video_llava() -> Pair:
    words = tokenizer(video_token="<video>")
    config = transformers.VideoLlavaConfig(
        vision_config=CLIP_TOWER,
        text_config={**LLAMA, "vocab_size": len(words)},
        image_token_index=words.convert_tokens_to_ids("<image>"),
        video_token_index=words.convert_tokens_to_ids("<video>"),
        image_seq_length=16,
    )
    images = transformers.VideoLlavaImageProcessor(
        size={"shortest_edge": 16}, crop_size=SIDE
    )
    return transformers.VideoLlavaForConditionalGeneration(
        config
    ), transformers.VideoLlavaProcessor(
        images,
        transformers.VideoLlavaVideoProcessor(),
        words,
        patch_size=4,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
    )


def shieldgemma2() -> Pair:
    network, processor = tiny_families.gemma3()
    config = transformers.ShieldGemma2Config(
        **{
            k: v
            for k, v in network.config.to_dict().items()
            if k not in ("model_type", "architectures")
        }
    )
    return transformers.Gemma3ForConditionalGeneration(config), processor


def gemma4() -> Pair:
    words = tokenizer(
        image="<|image|>",
        boi_token="<|image>",
        eoi_token="<image|>",
        audio_token="<|audio|>",
        boa_token="<|audio>",
        eoa_token="<audio|>",
    )
    ids = {
        f"{n}_id": words.convert_tokens_to_ids(m)
        for n, m in {
            "boi_token": "<|image>",
            "eoi_token": "<image|>",
            "image_token": "<|image|>",
            "audio_token": "<|audio|>",
        }.items()
    }
    words.add_tokens(["<|video|>"])
    config = transformers.Gemma4Config(
        vision_config={
            **TOWER,
            "num_key_value_heads": 2,
            "head_dim": 8,
            "patch_size": 4,
            "pooling_kernel_size": 2,
            "position_embedding_size": 64,
        },
        text_config={
            **TEXT,
            "head_dim": 8,
            "global_head_dim": 8,
            "sliding_window": 8,
            "vocab_size": len(words),
            "vocab_size_per_layer_input": len(words),
            "hidden_size_per_layer_input": 8,
            "layer_types": ["sliding_attention", "full_attention"],
            "use_bidirectional_attention": "vision",
        },
        video_token_id=words.convert_tokens_to_ids("<|video|>"),
        **ids,
    )
    images = transformers.Gemma4ImageProcessorPil(
        patch_size=4, pooling_kernel_size=2, max_soft_tokens=70
    )
    return transformers.Gemma4ForConditionalGeneration(
        config
    ), transformers.Gemma4Processor(
        transformers.Gemma4AudioFeatureExtractor(),
        images,
        words,
        transformers.Gemma4VideoProcessor(patch_size=4, pooling_kernel_size=2),
    )


def ids_of(words: Any, **marks: str) -> dict[str, int]:
    return {n: words.convert_tokens_to_ids(m) for n, m in marks.items()}


def cohere_compass() -> Pair:
    words = tokenizer(
        start=False,
        image="<|IMAGE_PAD|>",
        video_token="<|VIDEO_PAD|>",
        vision_start_token="<|VISION_START|>",
        vision_end_token="<|VISION_END|>",
    )
    config = transformers.CohereCompassConfig(
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
        text_config={
            **TEXT,
            "vocab_size": len(words),
            "sliding_window": 16,
            "layer_types": ["sliding_attention", "full_attention"],
            "logit_scale": 1.0,
            "rope_parameters": {
                kind: {
                    "rope_type": "default",
                    "rope_theta": 10000.0,
                    "mrope_section": [1, 1, 2],
                }
                for kind in ("sliding_attention", "full_attention")
            },
        },
        **ids_of(
            words,
            image_token_id="<|IMAGE_PAD|>",
            video_token_id="<|VIDEO_PAD|>",
            vision_start_token_id="<|VISION_START|>",
            vision_end_token_id="<|VISION_END|>",
        ),
    )
    images = transformers.CohereCompassImageProcessorPil(
        patch_size=4, size={"shortest_edge": 256, "longest_edge": 1024}
    )
    return transformers.CohereCompassForConditionalGeneration(
        config
    ), transformers.CohereCompassProcessor(
        images, words, transformers.CohereCompassVideoProcessor(patch_size=4)
    )


def exaone4_5() -> Pair:
    words = tokenizer(start=False, **QWEN_MARKS)
    config = transformers.Exaone4_5_Config(
        vision_config={
            "depth": 2,
            "hidden_size": 16,
            "intermediate_size": 24,
            "out_hidden_size": 32,
            "num_heads": 2,
            "num_key_value_heads": 2,
            "patch_size": 4,
            "window_size": 16,
            "fullatt_block_indexes": [1],
        },
        text_config={
            "model_type": "exaone4",
            **TEXT,
            "head_dim": 8,
            "vocab_size": len(words),
            "sliding_window": 16,
            "layer_types": ["sliding_attention", "full_attention"],
        },
        **ids_of(words, image_token_id="<|image_pad|>", video_token_id="<|video_pad|>"),
    )
    return transformers.Exaone4_5_ForConditionalGeneration(
        config
    ), transformers.Exaone4_5_Processor(
        qwen_images(), words, transformers.Qwen2VLVideoProcessor(patch_size=4)
    )


def hyperclovax_vision_v2() -> Pair:
    words = tokenizer(start=False, **QWEN_MARKS)
    config = transformers.HyperCLOVAXVisionV2Config(
        vision_config={
            "model_type": "qwen2_5_vl_vision",
            "depth": 2,
            "hidden_size": 16,
            "intermediate_size": 24,
            "out_hidden_size": 32,
            "num_heads": 2,
            "patch_size": 4,
            "window_size": 16,
            "fullatt_block_indexes": [1],
        },
        text_config={
            "model_type": "hyperclovax",
            **TEXT,
            "head_dim": 8,
            "vocab_size": len(words),
        },
        **ids_of(words, image_token_id="<|image_pad|>", video_token_id="<|video_pad|>"),
    )
    return transformers.HyperCLOVAXVisionV2ForConditionalGeneration(
        config
    ), transformers.HyperCLOVAXVisionV2Processor(
        qwen_images(), words, transformers.Qwen2VLVideoProcessor(patch_size=4)
    )


def glmga() -> Pair:
    return build_glm(
        "Glm46V",
        images_name="Glm46V",
        config_name="Glmga",
        text={"model_type": "glm4v_text"},
        vision={"model_type": "glm4v_vision"},
    )


def lfm3_vl() -> Pair:
    words = tokenizer(start=False, **QWEN_MARKS)
    config = transformers.Lfm3VlConfig(
        vision_config={**TOWER, "num_key_value_heads": 2, "patch_size": 4},
        text_config={
            "model_type": "lfm3",
            **TEXT,
            "vocab_size": len(words),
            "layer_types": ["conv", "full_attention"],
        },
        projector_hidden_size=24,
        **qwen_ids(words),
    )
    return transformers.Lfm3VlForConditionalGeneration(
        config
    ), transformers.Lfm3VlProcessor(
        qwen_images(), words, transformers.Qwen3VLVideoProcessor(patch_size=4)
    )


def hunyuan_vl() -> Pair:
    words = tokenizer(
        image="<image>",
        image_start_token="<img>",
        image_end_token="</img>",
        newline="<newline>",
    )
    config = transformers.HunYuanVLConfig(
        vision_config={
            **TOWER,
            "out_hidden_size": 32,
            "text_hidden_size": 32,
            "patch_size": 4,
            "max_image_size": 64,
            "min_image_size": 16,
        },
        text_config={
            **TEXT,
            "vocab_size": len(words),
            "head_dim": 8,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10000.0,
                "xdrope_section": [1, 1, 1, 1],
                "mrope_section": [1, 1, 1, 1],
            },
        },
        **ids_of(
            words,
            image_token_id="<image>",
            im_start_id="<img>",
            im_end_id="</img>",
            im_newline_id="<newline>",
        ),
    )
    images = transformers.HunYuanVLImageProcessorPil(
        patch_size=4,
        merge_size=2,
        temporal_patch_size=1,
        size={"shortest_edge": 256, "longest_edge": 1024},
    )
    return transformers.HunYuanVLForConditionalGeneration(
        config
    ), transformers.HunYuanVLProcessor(images, words)


def gemma4_unified() -> Pair:
    words = tokenizer(
        image="<|image|>",
        boi_token="<|image>",
        eoi_token="<image|>",
        audio_token="<|audio|>",
        boa_token="<|audio>",
        eoa_token="<audio|>",
    )
    words.add_tokens(["<|video|>"])
    config = transformers.Gemma4UnifiedConfig(
        vision_config={
            "patch_size": 4,
            "pooling_kernel_size": 2,
            "mm_embed_dim": 16,
            "mm_posemb_size": 64,
            "output_proj_dims": 16,
        },
        text_config={
            **TEXT,
            "head_dim": 8,
            "global_head_dim": 8,
            "sliding_window": 8,
            "vocab_size": len(words),
            "layer_types": ["sliding_attention", "full_attention"],
        },
        **ids_of(
            words,
            boi_token_id="<|image>",
            eoi_token_id="<image|>",
            image_token_id="<|image|>",
            audio_token_id="<|audio|>",
            video_token_id="<|video|>",
        ),
    )
    images = transformers.Gemma4UnifiedImageProcessor(
        patch_size=4, pooling_kernel_size=2, max_soft_tokens=70
    )
    return transformers.Gemma4UnifiedForConditionalGeneration(
        config
    ), transformers.Gemma4UnifiedProcessor(
        transformers.Gemma4UnifiedAudioFeatureExtractor(),
        images,
        words,
        transformers.Gemma4UnifiedVideoProcessor(patch_size=4, pooling_kernel_size=2),
    )


def granite4_vision() -> Pair:
    words = tokenizer()
    grids = [[16, 32], [32, 16], [32, 32]]
    config = transformers.Granite4VisionConfig(
        vision_config={**SIGLIP_TOWER, "hidden_size": 128},
        text_config={**TEXT, "vocab_size": len(words)},
        image_token_index=words.convert_tokens_to_ids("<image>"),
        vision_feature_select_strategy="full",
        image_grid_pinpoints=grids,
        image_seq_length=4,
        downsample_rate="1/2",
        deepstack_layer_map=[[-1, 0]],
        spatial_target_layers=[1],
        qformer_config={
            "model_type": "blip_2_qformer",
            "hidden_size": 128,
            "num_attention_heads": 2,
            "intermediate_size": 24,
            "encoder_hidden_size": 128,
            "num_hidden_layers": 1,
        },
    )
    images = transformers.LlavaNextImageProcessorPil(
        size={"shortest_edge": 16}, crop_size=SIDE, image_grid_pinpoints=grids
    )
    return transformers.Granite4VisionForConditionalGeneration(
        config
    ), transformers.Granite4VisionProcessor(
        images,
        words,
        patch_size=4,
        vision_feature_select_strategy="full",
        downsample_rate="1/2",
    )


OMNI_MARKS = {
    # First, so that its id is outside of those that test rows draw: sound has to follow it.
    "audio_bos_token": "<|audio_bos|>",
    "image": "<|IMAGE|>",
    "audio_token": "<|AUDIO|>",
    "video_token": "<|VIDEO|>",
    "vision_bos_token": "<|vision_bos|>",
    "vision_eos_token": "<|vision_eos|>",
    "audio_eos_token": "<|audio_eos|>",
}
AUDIO = {
    "num_mel_bins": 128,
    "encoder_layers": 1,
    "encoder_attention_heads": 2,
    "encoder_ffn_dim": 16,
    "d_model": 16,
    "output_dim": 32,
}


def qwen2_5_omni_thinker() -> Pair:
    words = tokenizer(start=False, **OMNI_MARKS)
    config = transformers.Qwen2_5OmniThinkerConfig(
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
        audio_config=AUDIO,
        text_config={**QWEN_TEXT, "vocab_size": len(words)},
        **ids_of(
            words,
            audio_token_index="<|AUDIO|>",
            image_token_index="<|IMAGE|>",
            video_token_index="<|VIDEO|>",
            audio_start_token_id="<|audio_bos|>",
            audio_end_token_id="<|audio_eos|>",
        ),
    )
    config.vision_start_token_id, config.vision_end_token_id = (
        words.convert_tokens_to_ids(m) for m in ("<|vision_bos|>", "<|vision_eos|>")
    )
    return transformers.Qwen2_5OmniThinkerForConditionalGeneration(
        config
    ), transformers.Qwen2_5OmniProcessor(
        qwen_images(),
        transformers.Qwen2VLVideoProcessor(patch_size=4),
        transformers.WhisperFeatureExtractor(),
        words,
    )


def qwen3_omni_moe_thinker() -> Pair:
    words = tokenizer(start=False, **OMNI_MARKS)
    config = transformers.Qwen3OmniMoeThinkerConfig(
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
        audio_config={**AUDIO, "downsample_hidden_size": 16},
        text_config={**QWEN_TEXT, "head_dim": 8, "vocab_size": len(words), **MOE},
        **ids_of(
            words,
            audio_token_id="<|AUDIO|>",
            image_token_id="<|IMAGE|>",
            video_token_id="<|VIDEO|>",
            audio_start_token_id="<|audio_bos|>",
            audio_end_token_id="<|audio_eos|>",
        ),
    )
    config.vision_start_token_id, config.vision_end_token_id = (
        words.convert_tokens_to_ids(m) for m in ("<|vision_bos|>", "<|vision_eos|>")
    )
    return transformers.Qwen3OmniMoeThinkerForConditionalGeneration(
        config
    ), transformers.Qwen3OmniMoeProcessor(
        qwen_images(),
        transformers.Qwen2VLVideoProcessor(patch_size=4),
        transformers.WhisperFeatureExtractor(),
        words,
    )


def kimi_k25() -> Pair:
    words = tokenizer(
        start=False,
        image="<|media_pad|>",
        video_token="<|video|>",
        vision_start_token="<|media_begin|>",
        vision_end_token="<|media_end|>",
        content="<|media_content|>",
    )
    config = transformers.Kimi_K25Config(
        vision_config={
            **TOWER,
            "patch_size": 4,
            "pos_emb_height": 4,
            "pos_emb_width": 4,
        },
        projection_hidden_size=16,
        text_config={
            "model_type": "deepseek_v3",
            **TEXT,
            "num_key_value_heads": 4,
            "moe_intermediate_size": 24,
            "n_routed_experts": 4,
            "num_experts_per_tok": 2,
            "n_group": 1,
            "topk_group": 1,
            "q_lora_rank": 8,
            "kv_lora_rank": 8,
            "qk_rope_head_dim": 8,
            "v_head_dim": 8,
            "qk_nope_head_dim": 8,
            "first_k_dense_replace": 1,
            "vocab_size": len(words),
        },
        **ids_of(
            words,
            image_token_id="<|media_pad|>",
            video_token_id="<|video|>",
            vision_start_token_id="<|media_begin|>",
            vision_end_token_id="<|media_end|>",
        ),
    )
    images = transformers.Kimi_K25ImageProcessor(patch_size=4)
    return transformers.Kimi_K25ForConditionalGeneration(
        config
    ), transformers.Kimi_K25Processor(
        images, words, transformers.Kimi_K25VideoProcessor(patch_size=4)
    )


def qianfan_ocr() -> Pair:
    words = tokenizer(
        start=False,
        image="<image>",
        start_image_token="<img>",
        end_image_token="</img>",
        context_image_token="<IMG_CONTEXT>",
        video_token="<video>",
    )
    config = transformers.QianfanOCRConfig(
        vision_config={"image_size": [16, 16], "patch_size": [4, 4], **TOWER},
        text_config={
            "model_type": "qwen3",
            **TEXT,
            "head_dim": 8,
            "vocab_size": len(words),
        },
        image_token_id=words.convert_tokens_to_ids("<IMG_CONTEXT>"),
        image_seq_length=4,
    )
    images = transformers.GotOcr2ImageProcessorPil(
        size=SIDE, crop_to_patches=True, min_patches=1, max_patches=2
    )
    return transformers.QianfanOCRForConditionalGeneration(
        config
    ), transformers.QianfanOCRProcessor(images, words, image_seq_length=4)


def pp_chart2table() -> Pair:
    words = tokenizer(
        **{n: n for n in ("<img>", "</img>", "<imgpad>", "<|im_start|>", "<|im_end|>")}
    )
    network, _ = got_ocr2()
    images = transformers.PPChart2TableImageProcessorPil(
        size={"height": 64, "width": 64}
    )
    processor = transformers.PPChart2TableProcessor(images, words)
    return network, processor


def molmo2() -> Pair:
    names = (
        "<im_patch>",
        "<im_col>",
        "<im_start>",
        "<low_res_im_start>",
        "<im_end>",
        "<frame_start>",
        "<frame_end>",
    )
    words = tokenizer(
        start=False, image="<|image|>", video_token="<|video|>", **{n: n for n in names}
    )
    config = transformers.Molmo2Config(
        vision_config={
            "hidden_size": 16,
            "intermediate_size": 24,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 2,
            "head_dim": 8,
            "image_size": [16, 16],
            "patch_size": 4,
            "num_position_embeddings": 16,
        },
        adapter_config={
            "vision_feature_layer": [-1],
            "hidden_size": 16,
            "num_attention_heads": 2,
            "num_key_value_heads": 2,
            "head_dim": 8,
            "intermediate_size": 24,
            "text_hidden_size": 32,
        },
        text_config={
            **TEXT,
            "head_dim": 8,
            "vocab_size": len(words),
            "additional_vocab_size": 0,
        },
        **ids_of(
            words,
            image_start_token_id="<im_start>",
            low_res_image_start_token_id="<low_res_im_start>",
            image_end_token_id="<im_end>",
            image_patch_id="<im_patch>",
            frame_start_token_id="<frame_start>",
            frame_end_token_id="<frame_end>",
        ),
    )
    images = transformers.Molmo2ImageProcessor(
        size=SIDE,
        patch_size=4,
        max_crops=2,
        overlap_margins=[1, 1],
        pooling_size=[2, 2],
    )
    return transformers.Molmo2ForConditionalGeneration(
        config
    ), transformers.Molmo2Processor(images, transformers.Molmo2VideoProcessor(), words)


OPT = {
    "model_type": "opt",
    "hidden_size": 32,
    "word_embed_proj_dim": 32,
    "ffn_dim": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 512,
}


T5 = {
    "model_type": "t5",
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 48,
    "num_layers": 2,
    "num_heads": 2,
    "decoder_start_token_id": 0,
    "pad_token_id": 2,
    "eos_token_id": 2,
}


def blip_2(text_config: Mapping[str, Any] = OPT) -> Pair:
    core = tokenizer().backend_tokenizer
    if text_config["model_type"] == "t5":
        ends = [("</s>", 2)]
        core.post_processor = processors.TemplateProcessing(
            single="$A </s>", special_tokens=ends
        )
    # The processor puts the image before the text and has no placeholder of its tokenizer.
    words = transformers.PreTrainedTokenizerFast(
        tokenizer_object=core,
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
        pad_token="</s>",
    )
    config = transformers.Blip2Config(
        vision_config={"image_size": 16, "patch_size": 4, **TOWER},
        qformer_config={
            "hidden_size": 16,
            "intermediate_size": 24,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "encoder_hidden_size": TOWER["hidden_size"],
            "vocab_size": 30,
        },
        text_config={**text_config, "vocab_size": len(words)},
        num_query_tokens=4,
        image_token_index=words.convert_tokens_to_ids("<image>"),
    )
    images = transformers.BlipImageProcessorPil(size=SIDE)
    processor = transformers.Blip2Processor(images, words, num_query_tokens=4)
    return transformers.Blip2ForConditionalGeneration(config), processor


def florence2() -> Pair:
    words = tokenizer(start=False)
    words.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    vision_config = {
        "depths": (1, 1),
        "patch_size": (3, 3),
        "patch_stride": (2, 2),
        "patch_padding": (1, 1),
        "patch_prenorm": (False, True),
        "embed_dim": (8, 16),
        "num_heads": (2, 2),
        "num_groups": (2, 2),
        "window_size": 4,
        "projection_dim": 32,
    }
    text_config = {
        "model_type": "bart",
        "d_model": 32,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 48,
        "decoder_ffn_dim": 48,
        "max_position_embeddings": 512,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 2,
        "decoder_start_token_id": 2,
        "vocab_size": len(words),
    }
    config = transformers.Florence2Config(
        vision_config=vision_config,
        text_config=text_config,
        image_token_id=words.convert_tokens_to_ids("<image>"),
    )
    images = transformers.CLIPImageProcessorPil(size=SIDE, crop_size=SIDE)
    images.image_seq_length = 17
    processor = transformers.Florence2Processor(images, words)
    network = transformers.Florence2ForConditionalGeneration(config)
    network.generation_config.forced_bos_token_id = 1
    return network, processor


def t5gemma2() -> Pair:
    network, processor = tiny_families.gemma3()
    gemma = network.config
    text_config = {
        **TEXT,
        "head_dim": 8,
        "sliding_window": 8,
        "vocab_size": gemma.text_config.vocab_size,
    }
    config = transformers.T5Gemma2Config(
        encoder={
            "text_config": text_config,
            "vision_config": gemma.vision_config.to_dict(),
            "mm_tokens_per_image": 4,
            "boi_token_index": gemma.boi_token_index,
            "eoi_token_index": gemma.eoi_token_index,
        },
        decoder=text_config,
        image_token_index=gemma.image_token_id,
    )
    return transformers.T5Gemma2ForConditionalGeneration(config), processor


def kosmos_2() -> Pair:
    core = tokenizer().backend_tokenizer
    words = transformers.PreTrainedTokenizerFast(
        tokenizer_object=core,
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
        pad_token="</s>",
    )
    images = transformers.CLIPImageProcessorPil(size=SIDE, crop_size=SIDE)
    processor = transformers.Kosmos2Processor(images, words, num_patch_index_tokens=4)
    processor.num_image_tokens = 4
    config = transformers.Kosmos2Config(
        vision_config={"image_size": 16, "patch_size": 4, **TOWER},
        text_config={
            "vocab_size": len(words),
            "embed_dim": 32,
            "layers": 2,
            "ffn_dim": 48,
            "attention_heads": 2,
            "max_position_embeddings": 512,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "pad_token_id": 2,
        },
        latent_query_num=4,
    )
    return transformers.Kosmos2ForConditionalGeneration(config), processor


def chameleon() -> Pair:
    codes = [f"IMGIMG{letter}Z" for letter in "ABCDEFGHI"]
    marks = {"boi_token": "<racm3:break>", "eoi_token": "<eoss>", "sep_token": "<sep>"}
    words = tokenizer(**marks)
    words.add_tokens(codes)
    config = transformers.ChameleonConfig(
        **{**TEXT, "vocab_size": len(words)},
        vq_config={
            "embed_dim": 8,
            "num_embeddings": len(codes),
            "latent_channels": 8,
            "resolution": 16,
            "base_channels": 32,
            "channel_multiplier": (1, 1, 1),
            "num_res_blocks": 1,
        },
        vocabulary_map=words.get_vocab(),
    )
    images = transformers.ChameleonImageProcessorPil(
        size={"shortest_edge": 16}, crop_size=SIDE
    )
    processor = transformers.ChameleonProcessor(images, words, image_seq_length=16)
    return transformers.ChameleonForConditionalGeneration(config), processor


def instructblip() -> Pair:
    network, processor = blip_2()
    config = transformers.InstructBlipConfig(
        vision_config=network.config.vision_config.to_dict(),
        qformer_config={**network.config.qformer_config.to_dict(), "vocab_size": 300},
        text_config=network.config.text_config.to_dict(),
        num_query_tokens=4,
        image_token_index=network.config.image_token_id,
    )
    processor = transformers.InstructBlipProcessor(
        processor.image_processor,
        processor.tokenizer,
        bert_tokenizer(),
        num_query_tokens=4,
    )
    return transformers.InstructBlipForConditionalGeneration(config), processor


def minimax_m3_vl() -> Pair:
    processor = transformers.MiniMaxM3VLProcessor
    marks = {
        "image": processor.IMAGE_TOKEN,
        "video_token": processor.VIDEO_TOKEN,
        "vision_start_token": processor.VISION_START_TOKEN,
        "vision_end_token": processor.VISION_END_TOKEN,
    }
    words = tokenizer(start=False, **marks)
    config = transformers.MiniMaxM3VLConfig(
        vision_config={**TOWER, "hidden_size": 24, "image_size": 64, "patch_size": 4},
        text_config={
            **TEXT,
            "head_dim": 8,
            "rotary_dim": 8,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10000.0,
                "partial_rotary_factor": 1.0,
            },
            "dense_intermediate_size": 48,
            "shared_intermediate_size": 24,
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "index_n_heads": 2,
            "index_head_dim": 8,
            "vocab_size": len(words),
            "mlp_layer_types": ["dense", "sparse"],
        },
        image_token_index=words.convert_tokens_to_ids(marks["image"]),
        video_token_index=words.convert_tokens_to_ids(marks["video_token"]),
        projector_hidden_size=24,
    )
    images = transformers.MiniMaxM3VLImageProcessor(
        patch_size=4, size={"shortest_edge": 256, "longest_edge": 1024}
    )
    return transformers.MiniMaxM3SparseForConditionalGeneration(config), processor(
        images, words, transformers.MiniMaxM3VLVideoProcessor(patch_size=4)
    )


def build_minicpm(
    name: str,
    images_name: str,
    id_marks: Mapping[str, str] = MappingProxyType({}),
    **config_options: Any,
) -> Pair:
    marks = {
        "image": "<|image_pad|>",
        "video_token": "<|video_pad|>",
        "image_start_token": "<img>",
        "image_end_token": "</img>",
        "slice_start_token": "<slice>",
        "slice_end_token": "</slice>",
        "image_id_start_token": "<image_id>",
        "image_id_end_token": "</image_id>",
    }
    words = tokenizer(start=False, **marks)
    config = getattr(transformers, f"{name}Config")(
        vision_config={
            **TOWER,
            "image_size": 64,
            "patch_size": 4,
            "insert_layer_id": 0,
        },
        insert_layer_id=0,
        text_config={
            "model_type": "qwen3_5_text",
            **QWEN_TEXT,
            "head_dim": 8,
            **LINEAR,
            "vocab_size": len(words),
        },
        image_token_id=words.convert_tokens_to_ids("<|image_pad|>"),
        video_token_id=words.convert_tokens_to_ids("<|video_pad|>"),
        **ids_of(words, **id_marks),
        **config_options,
    )
    images = getattr(transformers, images_name)(
        patch_size=4, scale_resolution=32, max_slice_nums=1
    )
    video_class = getattr(
        transformers, images_name.partition("Image")[0] + "VideoProcessor"
    )
    videos = video_class(patch_size=4, scale_resolution=32)
    network = getattr(transformers, f"{name}ForConditionalGeneration")(config)
    return network, getattr(transformers, f"{name}Processor")(images, videos, words)


def minicpmv4_6() -> Pair:
    return build_minicpm("MiniCPMV4_6", "MiniCPMV4_6ImageProcessorPil", image_size=64)


def minicpmv4_7() -> Pair:
    marks = {
        "image_start_id": "<img>",
        "image_end_id": "</img>",
        "slice_start_id": "<slice>",
        "slice_end_id": "</slice>",
    }
    return build_minicpm(
        "MiniCPMV4_7", "MiniCPMV4_6ImageProcessorPil", marks, image_size=64
    )


def minicpm_ocr() -> Pair:
    return build_minicpm("MiniCPMOcr", "MiniCPMOcrImageProcessor")


def idefics() -> Pair:
    words = tokenizer()
    config = transformers.IdeficsConfig(
        **{**TEXT, "vocab_size": len(words)},
        additional_vocab_size=0,
        use_resampler=False,
        cross_layer_interval=1,
        alpha_initializer="ones",
        vision_config={
            "embed_dim": 16,
            "image_size": 16,
            "patch_size": 4,
            "intermediate_size": 24,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
        },
    )
    images = transformers.IdeficsImageProcessorPil(image_size=16)
    return transformers.IdeficsForVisionText2Text(
        config
    ), transformers.IdeficsProcessor(images, words)


def granite_docling() -> Pair:
    words = tokenizer(start=False)
    config = transformers.GraniteDoclingConfig(
        vision_config={
            **TOWER,
            "image_size": 16,
            "patch_size": 4,
            "out_hidden_size": 32,
            "scale_factor": 2,
            "deepstack_visual_indexes": [0],
            "use_fine_route": False,
        },
        text_config={**TEXT, "vocab_size": len(words)},
        image_token_id=words.convert_tokens_to_ids("<image>"),
        pad_token_id=2,
    )
    images = transformers.GraniteDoclingImageProcessorPil(size=SIDE, max_patches=2)
    return transformers.GraniteDoclingForConditionalGeneration(
        config
    ), transformers.GraniteDoclingProcessor(images, words, image_seq_len=4)


def mistral_large4() -> Pair:
    words = tokenizer(**PIXTRAL_MARKS)
    config = transformers.MistralLarge4Config(
        vision_config=PIXTRAL_TOWER,
        text_config={
            **TEXT,
            "num_key_value_heads": 4,
            "moe_intermediate_size": 24,
            "n_routed_experts": 4,
            "num_experts_per_tok": 2,
            "kv_lora_rank": 8,
            "q_lora_rank": 8,
            "qk_rope_head_dim": 8,
            "v_head_dim": 8,
            "qk_nope_head_dim": 8,
            "head_dim": 8,
            "index_topk": 64,
            "index_head_dim": 16,
            "index_n_heads": 2,
            "vocab_size": len(words),
        },
        image_token_index=words.convert_tokens_to_ids("[IMG]"),
    )
    images = transformers.PixtralImageProcessorPil(
        patch_size=4, size={"longest_edge": 16}
    )
    return transformers.MistralLarge4ForConditionalGeneration(
        config
    ), transformers.PixtralProcessor(images, words, patch_size=4, spatial_merge_size=2)


def mistral4() -> Pair:
    _, processor = mistral3()
    config = transformers.Mistral4Config(
        **{**TEXT, "num_key_value_heads": 4},
        vocab_size=len(processor.tokenizer),
        moe_intermediate_size=24,
        n_routed_experts=4,
        num_experts_per_tok=2,
        kv_lora_rank=8,
        q_lora_rank=8,
        qk_rope_head_dim=8,
        v_head_dim=8,
        qk_nope_head_dim=8,
    )
    return transformers.Mistral4ForCausalLM(config), processor


def deepseek_ocr2() -> Pair:
    words = tokenizer()
    sam_config = {
        "hidden_size": 16,
        "output_channels": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "image_size": 64,
        "patch_size": 1,
        "window_size": 4,
        "global_attn_indexes": [],
        "mlp_dim": 24,
        "downsample_channels": [8, 16],
    }
    encoder_config = {**TOWER, "num_hidden_layers": 1, "num_key_value_heads": 2}
    text_config = {
        **TEXT,
        "num_key_value_heads": 4,
        "vocab_size": len(words),
        "moe_intermediate_size": 24,
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "n_shared_experts": 1,
        "mlp_layer_types": ["dense", "sparse"],
    }
    config = transformers.DeepseekOcr2Config(
        vision_config={"sam_config": sam_config, "encoder_config": encoder_config},
        text_config=text_config,
        image_token_id=words.convert_tokens_to_ids("<image>"),
    )
    images = transformers.DeepseekOcr2ImageProcessorPil(
        size={"height": 64, "width": 64}, tile_size=48, max_patches=2
    )
    return transformers.DeepseekOcr2ForConditionalGeneration(
        config
    ), transformers.DeepseekOcr2Processor(images, words, patch_size=1)


def gemma3n() -> Pair:
    marks = {
        "boi_token": "<start_of_image>",
        "eoi_token": "<end_of_image>",
        "image_token": "<image_soft_token>",
        "boa_token": "<start_of_audio>",
        "eoa_token": "<end_of_audio>",
        "audio_token": "<audio_soft_token>",
    }
    text_words = tokenizer()
    text_words.add_tokens(["\n", "\n\n", "\n\n\n"])  # the real one has such tokens, too
    text_count = len(text_words)
    # The marks come behind the ids of text, as in the real vocabulary.
    words = transformers.PreTrainedTokenizerFast(
        tokenizer_object=text_words.backend_tokenizer,
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
        pad_token="</s>",
        extra_special_tokens=marks,
    )
    config = transformers.Gemma3nConfig(
        vision_config={
            "architecture": "test_efficientnet",
            "hidden_size": 256,
            "vocab_size": 3,
            "vocab_offset": text_count,
        },
        audio_config={
            "hidden_size": 16,
            "conf_num_hidden_layers": 1,
            "conf_num_attention_heads": 2,
            "sscp_conv_channel_size": (8, 4),
            "vocab_size": 3,
            "vocab_offset": text_count + 3,
        },
        text_config={
            **TEXT,
            "num_hidden_layers": 4,
            "num_kv_shared_layers": 2,
            "head_dim": 8,
            "sliding_window": 8,
            "layer_types": ["sliding_attention", "full_attention"] * 2,
            "vocab_size": len(words),
            "vocab_size_per_layer_input": text_count,
            "hidden_size_per_layer_input": 8,
            "laurel_rank": 4,
            "activation_sparsity_pattern": [0.5, 0.0, 0.0, 0.0],
        },
        vision_soft_tokens_per_image=4,
        **{f"{n}_id": words.convert_tokens_to_ids(m) for n, m in marks.items()},
    )
    images = transformers.SiglipImageProcessorPil(size={"height": 64, "width": 64})
    return transformers.Gemma3nForConditionalGeneration(
        config
    ), transformers.Gemma3nProcessor(
        transformers.Gemma3nAudioFeatureExtractor(), images, words, image_seq_length=4
    )


def fast_vlm() -> Pair:
    words = tokenizer(start=False)
    tower = {
        "layers": (1, 1, 1, 1, 1),
        "embed_dims": (8, 8, 8, 32, 32),
        "inference_mode": True,
    }
    config = transformers.FastVlmConfig(
        vision_config={
            "model_type": "timm_wrapper",
            "architecture": "fastvit_mci3",
            "hidden_size": 64,
            "model_args": tower,
        },
        text_config={**QWEN2, "vocab_size": len(words)},
        image_token_index=words.convert_tokens_to_ids("<image>"),
        image_seq_length=4,
    )
    images = transformers.CLIPImageProcessorPil(
        size={"shortest_edge": 128}, crop_size={"height": 128, "width": 128}
    )
    processor = transformers.LlavaProcessor(
        images, words, patch_size=64, vision_feature_select_strategy="full"
    )
    return transformers.FastVlmForConditionalGeneration(config), processor


def perception_lm() -> Pair:
    words = tokenizer(video_token="<video>")
    tower = {
        "embed_dim": 16,
        "depth": 2,
        "num_heads": 2,
        "img_size": 16,
        "patch_size": 4,
        "global_pool": "",
        "use_post_transformer_norm": False,
        "ref_feat_shape": (4, 4),
    }
    config = transformers.PerceptionLMConfig(
        vision_config={
            "model_type": "timm_wrapper",
            "architecture": "vit_pe_core_large_patch14_336",
            "model_args": tower,
        },
        text_config={**LLAMA, "vocab_size": len(words)},
        projector_pooling_ratio=2,
        image_token_id=words.convert_tokens_to_ids("<image>"),
        video_token_id=words.convert_tokens_to_ids("<video>"),
    )
    images = transformers.PerceptionLMImageProcessor(tile_size=16, max_num_tiles=2)
    return transformers.PerceptionLMForConditionalGeneration(
        config
    ), transformers.PerceptionLMProcessor(
        transformers.PerceptionLMVideoProcessor(size=SIDE), images, words, patch_size=4
    )


def glm5_next() -> Pair:
    marks = {
        "image": "<|image|>",
        "video_token": "<|video|>",
        "image_start_token": "<|begin_of_image|>",
        "image_end_token": "<|end_of_image|>",
        "video_start_token": "<|begin_of_video|>",
        "video_end_token": "<|end_of_video|>",
    }
    words = tokenizer(start=False, **marks)
    marks["image_token"] = marks.pop("image")
    config = transformers.Glm5NextConfig(
        vision_config={
            **TOWER,
            "image_size": 16,
            "patch_size": 4,
            "out_hidden_size": 32,
            "projection_intermediate_size": 24,
        },
        text_config={
            **TEXT,
            "num_key_value_heads": 4,
            "vocab_size": len(words),
            "moe_intermediate_size": 24,
            "n_routed_experts": 4,
            "num_experts_per_tok": 2,
            "mlp_layer_types": ["dense", "sparse"],
            "layer_types": ["linear_attention", "indexed_attention"],
            "indexer_types": ["full", "full"],
            "kv_lora_rank": 8,
            "q_lora_rank": 8,
            "v_head_dim": 8,
            "qk_nope_head_dim": 8,
            "index_topk": 64,
            "index_kpool": 4,
            "index_head_dim": 8,
            "index_n_heads": 2,
            "linear_head_dim": 8,
            "linear_num_heads": 2,
            "hc_mult": 2,
        },
        **{f"{n}_id": words.convert_tokens_to_ids(m) for n, m in marks.items()},
    )
    images = transformers.Glm5NextImageProcessorPil(
        patch_size=4, min_image_tokens=4, max_image_tokens=8
    )
    videos = transformers.Glm5NextVideoProcessor(patch_size=4)
    return transformers.Glm5NextForConditionalGeneration(
        config
    ), transformers.Glm5NextProcessor(images, words, videos)


def step3p7() -> Pair:
    marks = (
        "<patch_start>",
        "<patch_end>",
        "<patch_newline>",
        "<im_start>",
        "<im_end>",
    )
    words = tokenizer(image="<im_patch>", **{mark: mark for mark in marks})
    config = transformers.Step3p7Config(
        vision_config={
            **TOWER,
            "mlp_ratio": 1.5,
            "image_size": 32,
            "patch_size": 4,
            "max_position_embeddings": 64,
        },
        text_config={
            **TEXT,
            "head_dim": 8,
            "vocab_size": len(words),
            "moe_intermediate_size": 24,
            "share_expert_dim": 24,
            "n_routed_experts": 4,
            "num_experts_per_tok": 2,
            "mlp_layer_types": ["dense", "sparse"],
            "layer_types": ["sliding_attention", "full_attention"],
            "sliding_window": 64,
        },
        image_token_id=words.convert_tokens_to_ids("<im_patch>"),
    )
    images = transformers.Step3p7ImageProcessor(
        size={"height": 32, "width": 32}, patch_size=16, vision_patch_size=4
    )
    return transformers.Step3p7ForConditionalGeneration(
        config
    ), transformers.Step3p7Processor(images, words)


def dots3_note() -> Pair:
    marks = ("<|video_pad|>", "<|audio_comp_pad|>")
    words = tokenizer(start=False, image="<|imgpad|>", **{mark: mark for mark in marks})
    config = transformers.Dots3NoteConfig(
        vision_config={
            **TOWER,
            "hidden_size": 32,
            "moe_intermediate_size": 24,
            "mlp_layer_types": ["dense", "sparse"],
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "patch_size": 4,
            "adapter_in_dim": 32,
            "adapter_out_dim": 32,
        },
        audio_config={
            **TOWER,
            "feature_size": 8,
            "downsample_hidden_size": 8,
            "adapter_input_size": 16,
            "adapter_out_dim": 32,
        },
        text_config={
            **TEXT,
            "num_key_value_heads": 4,
            "vocab_size": len(words),
            "moe_intermediate_size": 24,
            "shared_experts_intermediate_size": 24,
            "n_routed_experts": 4,
            "num_experts_per_tok": 2,
            "mlp_layer_types": ["dense", "sparse"],
            "layer_types": ["indexed_attention", "full_attention"],
            "kv_lora_rank": 8,
            "q_lora_rank": 8,
            "qk_rope_head_dim": 8,
            "qk_nope_head_dim": 8,
            "v_head_dim": 8,
            "head_dim": 16,
            "index_topk": 64,
            "index_head_dim": 16,
            "index_n_heads": 2,
        },
        **ids_of(
            words,
            image_token_id="<|imgpad|>",
            video_token_id="<|video_pad|>",
            audio_token_id="<|audio_comp_pad|>",
        ),
    )
    images = transformers.Qwen2VLImageProcessorPil(
        patch_size=4,
        temporal_patch_size=1,
        size={"shortest_edge": 256, "longest_edge": 1024},
    )
    videos = transformers.Qwen3VLVideoProcessor(patch_size=4)
    return transformers.Dots3NoteForConditionalGeneration(
        config
    ), transformers.Dots3NoteProcessor(
        images, words, videos, transformers.Dots3NoteFeatureExtractor(feature_size=8)
    )


def diffusion_gemma() -> Pair:
    network, processor = gemma4()
    gemma = network.config
    config = transformers.DiffusionGemmaConfig(
        vision_config=gemma.vision_config.to_dict(),
        text_config={
            **TEXT,
            "head_dim": 8,
            "global_head_dim": 8,
            "sliding_window": 8,
            "vocab_size": gemma.text_config.vocab_size,
            "layer_types": ["sliding_attention", "full_attention"],
            "num_experts": 4,
            "top_k_experts": 2,
            "moe_intermediate_size": 24,
        },
        boi_token_id=gemma.boi_token_id,
        eoi_token_id=gemma.eoi_token_id,
        image_token_id=gemma.image_token_id,
        canvas_length=8,
    )
    return transformers.DiffusionGemmaForBlockDiffusion(config), processor


def unlimited_ocr() -> Pair:
    words = tokenizer()
    sam_config = {
        "hidden_size": 16,
        "output_channels": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "image_size": 64,
        "patch_size": 4,
        "window_size": 4,
        "global_attn_indexes": [],
        "mlp_dim": 24,
        "downsample_channels": [8, 16],
    }
    text_config = {
        **TEXT,
        "num_key_value_heads": 4,
        "vocab_size": len(words),
        "moe_intermediate_size": 24,
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "n_shared_experts": 1,
        "mlp_layer_types": ["dense", "sparse"],
    }
    config = transformers.UnlimitedOcrConfig(
        vision_config={
            "sam_config": sam_config,
            "encoder_config": {**TOWER, "image_size": 16, "patch_size": 4},
        },
        text_config=text_config,
        image_token_id=words.convert_tokens_to_ids("<image>"),
    )
    images = transformers.UnlimitedOcrImageProcessor(
        size={"height": 64, "width": 64}, tile_size=32, max_patches=2
    )
    return transformers.UnlimitedOcrForConditionalGeneration(
        config
    ), transformers.UnlimitedOcrProcessor(images, words, patch_size=4)


WRAPPED = MappingProxyType(
    {
        "llava": tiny_decoders.llava,
        "llava_next": tiny_decoders.llava_next,
        "idefics2": tiny_decoders.idefics2,
        "qwen2_vl": tiny_decoders.qwen2_vl,
    }
)
TYPES = MappingProxyType(
    {
        name.replace("qwen2.5", "qwen2_5").replace("-", "_"): build
        for name, build in tiny_families.FAMILIES.items()
    }
    | {name: partial(unwrap, wrap) for name, wrap in WRAPPED.items()}
    | CAPTIONERS
    | {
        "blip-2": blip_2,
        "chameleon": chameleon,
        "florence2": florence2,
        "instructblip": instructblip,
        "kosmos-2": kosmos_2,
        "t5gemma2": t5gemma2,
        "vipllava": vipllava,
        "llava_next_video": llava_next_video,
        "deepseek_ocr2": deepseek_ocr2,
        "mistral3": mistral3,
        "mistral4": mistral4,
        "lighton_ocr": lighton_ocr,
        "aya_vision": aya_vision,
        "cohere2_vision": cohere2_vision,
        "got_ocr2": got_ocr2,
        "aria": aria,
        "deepseek_vl": deepseek_vl,
        "deepseek_vl_hybrid": deepseek_vl_hybrid,
        "janus": janus,
        "ovis2": ovis2,
        "lfm2_vl": lfm2_vl,
        "smolvlm": smolvlm,
        "glm4v": glm4v,
        "glm46v": glm46v,
        "glm_ocr": glm_ocr,
        "glm4v_moe": glm4v_moe,
        "qwen3_vl_moe": qwen3_vl_moe,
        "qwen3_5": qwen3_5,
        "qwen3_5_moe": qwen3_5_moe,
        "qwen4_exp": qwen4_exp,
        "cosmos3_edge": cosmos3_edge,
        "cosmos3_omni": cosmos3_omni,
        "inkling2": inkling2,
        "inkling_mm_model": inkling_mm_model,
        "muse_glimmer": muse_glimmer,
        "muse_spark": muse_spark,
        "nemotron_h_omni": nemotron_h_omni,
        "video_llama_3": video_llama_3,
        "paddleocr_vl": paddleocr_vl,
        "ernie4_5_vl_moe": ernie4_5_vl_moe,
        "video_llava": video_llava,
        "shieldgemma2": shieldgemma2,
        "gemma4": gemma4,
        "cohere_compass": cohere_compass,
        "exaone4_5": exaone4_5,
        "hyperclovax_vision_v2": hyperclovax_vision_v2,
        "glmga": glmga,
        "lfm3_vl": lfm3_vl,
        "hunyuan_vl": hunyuan_vl,
        "gemma4_unified": gemma4_unified,
        "granite4_vision": granite4_vision,
        "qwen2_5_omni_thinker": qwen2_5_omni_thinker,
        "qwen3_omni_moe_thinker": qwen3_omni_moe_thinker,
        "kimi_k25": kimi_k25,
        "qianfan_ocr": qianfan_ocr,
        "pp_chart2table": pp_chart2table,
        "molmo2": molmo2,
        "minimax_m3_vl": minimax_m3_vl,
        "minicpmv4_6": minicpmv4_6,
        "minicpmv4_7": minicpmv4_7,
        "minicpm_ocr": minicpm_ocr,
        "idefics": idefics,
        "granite_docling": granite_docling,
        "mistral_large4": mistral_large4,
        "unlimited_ocr": unlimited_ocr,
        "glm5_next": glm5_next,
        "step3p7": step3p7,
        "dots3_note": dots3_note,
        "diffusion_gemma": diffusion_gemma,
        "gemma3n": gemma3n,
        "fast_vlm": fast_vlm,
        "perception_lm": perception_lm,
    }
)


def build(model_type: str) -> Pair:
    """The network of a type, with random weights, and its processor."""
    network, processor = TYPES[model_type]()
    return random(network), processor
