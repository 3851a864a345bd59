"""Tiny random VL decoders by their type in transformers, for the table of types.

Those that are not in `tiny_families` or `tiny_decoders` have their real processors, video parts
included, which need torchvision.
"""

import types
from collections.abc import Mapping
from functools import partial
from typing import Any

import transformers
from tokenizers import processors

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


def blip_2(text_config: Mapping[str, Any] = OPT) -> tuple[Any, Any]:
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


def florence2() -> tuple[Any, Any]:
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


def t5gemma2() -> tuple[Any, Any]:
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


def kosmos_2() -> tuple[Any, Any]:
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


def chameleon() -> tuple[Any, Any]:
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


def instructblip() -> tuple[Any, Any]:
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
        processor.tokenizer,
        num_query_tokens=4,
    )
    return transformers.InstructBlipForConditionalGeneration(config), processor


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
        "blip-2": blip_2,
        "chameleon": chameleon,
        "instructblip": instructblip,
        "kosmos-2": kosmos_2,
        "t5gemma2": t5gemma2,
        "florence2": florence2,
        "vipllava": vipllava,
    }
)


def build(model_type: str) -> tuple[Any, Any]:
    """The network of a type, with random weights, and its processor."""
    network, processor = TYPES[model_type]()
    return random(network), processor
