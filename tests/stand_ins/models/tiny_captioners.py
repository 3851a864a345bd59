"""Tiny random VL decoders whose processors have no placeholder for an image, by their type."""

from types import MappingProxyType
from typing import Any

import transformers
from tokenizers import processors

from stand_ins.models.tiny_decoders import TOWER, tokenizer

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


CAPTIONERS = MappingProxyType(
    {
        "blip": blip,
        "git": git,
        "vision-encoder-decoder": vision_encoder_decoder,
    }
)
