"""Tiny random VL decoders whose processors have no placeholder for an image, by their type."""

from types import MappingProxyType
from typing import Any

import transformers
from tokenizers import (
    Regex,
    Tokenizer,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)

from stand_ins.models.tiny_decoders import TEXT, TOWER, tokenizer

Pair = tuple[Any, Any]
"""A network and its processor."""
SIDE = {"height": 16, "width": 16}
BERT = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 512,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 2,
}


def bert_tokenizer() -> transformers.PreTrainedTokenizerFast:
    """A tokenizer that puts a separator behind a text, as BERT's do, and knows no end token."""
    core = tokenizer().backend_tokenizer
    core.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=core,
        unk_token="<unk>",
        cls_token="<s>",
        sep_token="</s>",
        pad_token="</s>",
        mask_token="_",
    )


def blip() -> Pair:
    words = bert_tokenizer()
    # The token with which BLIP begins a text is none of its tokenizer's.
    text_config = {
        **BERT,
        "vocab_size": len(words) + 2,
        "bos_token_id": len(words),
        "sep_token_id": 2,
    }
    config = transformers.BlipConfig(
        vision_config={**TOWER, "image_size": 16, "patch_size": 4},
        text_config=text_config,
    )
    images = transformers.BlipImageProcessorPil(size=SIDE)
    return transformers.BlipForConditionalGeneration(
        config
    ), transformers.BlipProcessor(images, words)


def git() -> Pair:
    words = bert_tokenizer()
    config = transformers.GitConfig(
        vision_config={**TOWER, "image_size": 16, "patch_size": 4},
        **BERT,
        vocab_size=len(words),
    )
    images = transformers.CLIPImageProcessorPil(
        size={"shortest_edge": 16}, crop_size=SIDE
    )
    return transformers.GitForCausalLM(config), transformers.GitProcessor(images, words)


def vision_encoder_decoder() -> Pair:
    words = tokenizer()
    config = transformers.VisionEncoderDecoderConfig.from_encoder_decoder_configs(
        transformers.ViTConfig(**TOWER, image_size=16, patch_size=4),
        transformers.GPT2Config(
            n_embd=32,
            n_layer=2,
            n_head=4,
            n_positions=512,
            vocab_size=len(words),
            bos_token_id=1,
            eos_token_id=2,
        ),
        decoder_start_token_id=1,
        pad_token_id=2,
    )
    images = transformers.ViTImageProcessorPil(size=SIDE)
    return transformers.VisionEncoderDecoderModel(
        config=config
    ), transformers.TrOCRProcessor(images, words)


FLAT_TOWER = {
    "hidden_size": 16,
    "patch_embed_hidden_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
}
"""Tower of patches of 4 by 4 pixels in three colors, each one row."""


def pix2struct() -> Pair:
    words = tokenizer()
    text_config = {
        "vocab_size": len(words),
        "hidden_size": 32,
        "d_kv": 8,
        "d_ff": 48,
        "num_layers": 2,
        "num_heads": 4,
        "decoder_start_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 2,
    }
    config = transformers.Pix2StructConfig(
        vision_config={**FLAT_TOWER, "hidden_size": 32, "d_ff": 24, "d_kv": 8},
        text_config=text_config,
    )
    images = transformers.Pix2StructImageProcessorPil(
        max_patches=24, patch_size={"height": 4, "width": 4}, is_vqa=False
    )
    return transformers.Pix2StructForConditionalGeneration(
        config
    ), transformers.Pix2StructProcessor(images, words)


def kosmos_2_5() -> Pair:
    words = tokenizer(
        image="<s>", boi_token="<image>", eoi_token="</image>", start=False
    )
    config = transformers.Kosmos2_5Config(
        vision_config={**FLAT_TOWER, "intermediate_size": 24, "head_dim": 8},
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
    images = transformers.Kosmos2_5ImageProcessorPil(
        max_patches=24, patch_size={"height": 4, "width": 4}
    )
    processor = transformers.Kosmos2_5Processor(images, words, num_image_tokens=4)
    processor.images_kwargs = {**processor.images_kwargs, "max_patches": 24}
    return transformers.Kosmos2_5ForConditionalGeneration(config), processor


def fuyu_tokenizer() -> transformers.PreTrainedTokenizerFast:
    """A tokenizer that begins each text with a token of its own, as SentencePiece does with a space,
    and whose marks of images are not special.
    """
    marks = ["|SPEAKER|", "|NEWLINE|", "<0x04>", "<0x00>"]
    names = list(dict.fromkeys([*tokenizer().get_vocab(), *marks]))
    core = Tokenizer(
        models.WordLevel(
            {name: place for place, name in enumerate(names)}, unk_token="<unk>"
        )
    )
    core.add_special_tokens(["<s>", "</s>"])
    core.normalizer = normalizers.Prepend("Ġ ")
    core.pre_tokenizer = pre_tokenizers.Split(
        Regex(r"\|\w+\||<0x0.>|\w+|[^\w\s]"), behavior="removed", invert=True
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=core,
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
        pad_token="</s>",
    )


def fuyu() -> Pair:
    words = fuyu_tokenizer()
    config = transformers.FuyuConfig(
        patch_size=4,
        image_token_id=words.convert_tokens_to_ids("|SPEAKER|"),
        text_config={
            "model_type": "persimmon",
            "vocab_size": len(words),
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "max_position_embeddings": 512,
            "qk_layernorm": True,
            "partial_rotary_factor": 0.5,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "pad_token_id": 2,
        },
    )
    images = transformers.FuyuImageProcessor(
        size={"height": 16, "width": 24}, patch_size={"height": 4, "width": 4}
    )
    return transformers.FuyuForCausalLM(config), transformers.FuyuProcessor(
        image_processor=images, tokenizer=words
    )


def pp_formulanet() -> Pair:
    words = tokenizer()
    vision_config = {
        "hidden_size": 16,
        "output_channels": 8,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "image_size": 64,
        "patch_size": 8,
        "window_size": 4,
        "global_attn_indexes": [1],
        "mlp_dim": 24,
        "post_conv_in_channels": 8,
        "post_conv_mid_channels": 16,
        "post_conv_out_channels": 24,
        "decoder_hidden_size": 32,
    }
    text_config = {
        "vocab_size": len(words),
        "d_model": 32,
        "encoder_layers": 2,
        "encoder_attention_heads": 4,
        "decoder_layers": 2,
        "decoder_attention_heads": 4,
        "decoder_ffn_dim": 48,
        "max_position_embeddings": 512,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 2,
        "decoder_start_token_id": 1,
    }
    config = transformers.PPFormulaNetConfig(
        vision_config=vision_config, text_config=text_config
    )
    images = transformers.PPFormulaNetImageProcessor(size={"height": 64, "width": 64})
    return transformers.PPFormulaNetForConditionalGeneration(
        config
    ), transformers.PPFormulaNetProcessor(images, words)


def emu3() -> Pair:
    codes = [f"<|visual token {number:06d}|>" for number in range(12)]
    marks = {
        "boi_token": "<|image start|>",
        "eoi_token": "<|image end|>",
        "image_wrapper_token": "<|image token|>",
        "eof_token": "<|extra_201|>",
        "eol_token": "<|extra_200|>",
    }
    words = tokenizer(start=False, **marks)
    words.add_tokens(codes)
    config = transformers.Emu3Config(
        vq_config={
            "codebook_size": len(codes),
            "base_channels": 32,
            "channel_multiplier": [1, 1, 1, 1],
            "num_res_blocks": 1,
            "hidden_size": 32,
            "attn_resolutions": [],
        },
        text_config={**TEXT, "vocab_size": len(words)},
        vocabulary_map=words.get_vocab(),
    )
    images = transformers.Emu3ImageProcessor(min_pixels=256, max_pixels=1024)
    return transformers.Emu3ForConditionalGeneration(
        config
    ), transformers.Emu3Processor(images, words)


CAPTIONERS = MappingProxyType(
    {
        "blip": blip,
        "emu3": emu3,
        "fuyu": fuyu,
        "git": git,
        "kosmos-2.5": kosmos_2_5,
        "pp_formulanet": pp_formulanet,
        "pix2struct": pix2struct,
        "vision-encoder-decoder": vision_encoder_decoder,
    }
)
