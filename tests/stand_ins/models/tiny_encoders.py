"""Tiny networks of every kind of encoder, with random weights, tokenizer and image processor."""

from collections.abc import Callable
from typing import Any

import torch
import transformers

WORDS = (
    "a",
    "dog",
    "cat",
    "rides",
    "sleeps",
    "on",
    "under",
    "the",
    "red",
    "horse",
    "street",
    "two",
)
TEXTS = (
    "a dog",
    "the red horse rides on a street",
    "two cat sleeps under a red dog on the street",
)
"""Of unequal lengths."""
REGIONS, WIDTH = 5, 12
BERT = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
}
VOCABULARY = 17
ANSWERS = ("yes", "no", "two", "red")


def bert_tokenizer() -> Any:
    """Words between [CLS] and [SEP]."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    core = Tokenizer(
        models.WordLevel(
            {word: index for index, word in enumerate([*special, *WORDS])},
            unk_token="[UNK]",
        )
    )
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    core.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = {
        "unk_token": "[UNK]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "pad_token": "[PAD]",
    }
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=core, mask_token="[MASK]", **names
    )


def ended_tokenizer(start: str = "") -> Any:
    """Words before an end token, which pads too; no mask token."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    names = ["<pad>", "</s>", "<unk>", "<s>", "!", *WORDS]
    core = Tokenizer(
        models.WordLevel(
            {word: index for index, word in enumerate(names)}, unk_token="<unk>"
        )
    )
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    core.post_processor = processors.TemplateProcessing(
        single=f"{start} $A </s>".strip(), special_tokens=[("<s>", 3), ("</s>", 1)]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=core, unk_token="<unk>", eos_token="</s>", pad_token="</s>"
    )


def _square(processor: Any, side: int = 32) -> Any:
    size = {"height": side, "width": side}
    return processor(size=size, crop_size=size, do_center_crop=False)


def _clip() -> Any:
    text = transformers.CLIPTextConfig(
        vocab_size=VOCABULARY,
        max_position_embeddings=20,
        eos_token_id=1,
        bos_token_id=3,
        pad_token_id=1,
        **BERT,
    )
    vision = transformers.CLIPVisionConfig(image_size=32, patch_size=8, **BERT)
    config = transformers.CLIPConfig(
        text_config=text.to_dict(), vision_config=vision.to_dict(), projection_dim=10
    )
    return (
        transformers.CLIPModel(config),
        ended_tokenizer("<s>"),
        _square(transformers.CLIPImageProcessor),
    )


def _siglip() -> Any:
    text = {
        "vocab_size": VOCABULARY,
        "max_position_embeddings": 14,
        "pad_token_id": 1,
        "projection_size": 16,
        **BERT,
    }
    vision = {"image_size": 32, "patch_size": 8, **BERT}
    config = transformers.SiglipConfig(text_config=text, vision_config=vision)
    processor = transformers.SiglipImageProcessor(size={"height": 32, "width": 32})
    return transformers.SiglipModel(config), ended_tokenizer(), processor


def _metaclip_2() -> Any:
    text = {
        "vocab_size": VOCABULARY,
        "max_position_embeddings": 20,
        "eos_token_id": 1,
        "bos_token_id": 3,
        **BERT,
    }
    vision = {"image_size": 32, "patch_size": 8, **BERT}
    config = transformers.MetaClip2Config(
        text_config=text, vision_config=vision, projection_dim=10
    )
    return (
        transformers.MetaClip2Model(config),
        ended_tokenizer("<s>"),
        _square(transformers.CLIPImageProcessor),
    )


def gemma_tokenizer(padding_side: str) -> Any:
    """Gemma's tokenizer, with which SigLIP 2 reads: an end token, no start token, a mask token."""
    pieces = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "▁", "a", "d", "o", "g"]
    vocabulary = {
        piece: index for index, piece in enumerate([*pieces, "do", "dog", "▁a", "▁dog"])
    }
    merges = [("d", "o"), ("do", "g"), ("▁", "a"), ("▁", "dog")]
    tokenizer = transformers.GemmaTokenizer(
        vocab=vocabulary, merges=merges, add_bos_token=False, add_eos_token=True
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer.backend_tokenizer,
        padding_side=padding_side,
        **{
            name: tokenizer.special_tokens_map[name]
            for name in ("pad_token", "eos_token", "unk_token", "mask_token")
        },
    )


def _align() -> Any:
    text = {"vocab_size": VOCABULARY, "max_position_embeddings": 20, **BERT}
    vision = {
        "image_size": 32,
        "hidden_dim": 16,
        "width_coefficient": 1.0,
        "depth_coefficient": 0.25,
        "kernel_sizes": [3, 3],
        "in_channels": [32, 16],
        "out_channels": [16, 16],
        "strides": [1, 2],
        "num_block_repeats": [1, 1],
        "expand_ratios": [1, 2],
        "depthwise_padding": [],
        "squeeze_expansion_ratio": 0.25,
    }
    config = transformers.AlignConfig(
        text_config=text, vision_config=vision, projection_dim=16
    )
    size = {"height": 32, "width": 32}
    processor = transformers.EfficientNetImageProcessor(
        size=size, do_center_crop=False, include_top=False
    )
    return transformers.AlignModel(config), bert_tokenizer(), processor


def _flava() -> Any:
    common = {**BERT, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    config = transformers.FlavaConfig(
        image_config={"image_size": 32, "patch_size": 8, "vocab_size": 20, **common},
        text_config={"vocab_size": VOCABULARY, "max_position_embeddings": 20, **common},
        multimodal_config=common,
        image_codebook_config={"num_groups": 1, "hidden_size": 4, "vocab_size": 20},
        hidden_size=16,
        projection_dim=10,
        init_codebook=False,
        layer_norm_eps=1e-12,
    )
    processor = transformers.FlavaImageProcessor(
        size={"height": 32, "width": 32}, do_center_crop=False
    )
    return transformers.FlavaForPreTraining(config), bert_tokenizer(), processor


def _blip_2() -> Any:
    config = transformers.Blip2Config(
        vision_config={
            "image_size": 32,
            "patch_size": 8,
            "attention_dropout": 0.0,
            **BERT,
        },
        qformer_config={
            "vocab_size": VOCABULARY,
            "max_position_embeddings": 20,
            "encoder_hidden_size": 16,
            "cross_attention_frequency": 1,
            "use_qformer_text_input": True,
            "pad_token_id": 0,
            **BERT,
        },
        text_config={
            "model_type": "opt",
            "vocab_size": VOCABULARY,
            "hidden_size": 16,
            "num_hidden_layers": 1,
        },
        num_query_tokens=4,
        image_text_hidden_size=8,
    )
    config.image_token_index = None
    processor = transformers.BlipImageProcessor(size={"height": 32, "width": 32})
    return transformers.Blip2ForImageTextRetrieval(config), bert_tokenizer(), processor


def _vilt() -> Any:
    config = transformers.ViltConfig(
        vocab_size=VOCABULARY,
        max_position_embeddings=20,
        image_size=32,
        patch_size=8,
        max_image_length=-1,
        **BERT,
    )
    processor = transformers.ViltImageProcessor(
        size={"shortest_edge": 32}, size_divisor=8
    )
    return (
        transformers.ViltForImageAndTextRetrieval(config),
        bert_tokenizer(),
        processor,
    )


def _vilt_answering() -> Any:
    network, tokenizer, processor = _vilt()
    network.config.num_labels = len(ANSWERS)
    network.config.id2label = dict(enumerate(ANSWERS))
    return transformers.ViltForQuestionAnswering(network.config), tokenizer, processor


def _bridgetower() -> Any:
    text = {**BERT, "num_hidden_layers": 4, "pad_token_id": 0, "type_vocab_size": 1}
    config = transformers.BridgeTowerConfig(
        # The first position of RoBERTa is behind that of padding.
        text_config={
            **text,
            "vocab_size": VOCABULARY,
            "max_position_embeddings": 21,
        },
        vision_config={
            "hidden_size": 64,
            "num_hidden_layers": 4,
            "patch_size": 8,
            "image_size": 32,
        },
        hidden_size=16,
        num_attention_heads=2,
        num_hidden_layers=3,
    )
    processor = transformers.BridgeTowerImageProcessor(
        size={"shortest_edge": 32},
        crop_size={"shortest_edge": 32},
        size_divisor=8,
    )
    network = transformers.BridgeTowerForImageAndTextRetrieval(config)
    return network, bert_tokenizer(), processor


def _lxmert_config() -> Any:
    layers = {
        "l_layers": 2,
        "r_layers": 2,
        "x_layers": 2,
        "hidden_size": 16,
        "intermediate_size": 24,
    }
    return transformers.LxmertConfig(
        vocab_size=VOCABULARY,
        num_attention_heads=2,
        max_position_embeddings=20,
        visual_feat_dim=WIDTH,
        num_qa_labels=len(ANSWERS),
        num_object_labels=3,
        num_attr_labels=3,
        **layers,
    )


def _lxmert() -> Any:
    return transformers.LxmertForPreTraining(_lxmert_config()), bert_tokenizer(), None


def _lxmert_answering() -> Any:
    return (
        transformers.LxmertForQuestionAnswering(_lxmert_config()),
        bert_tokenizer(),
        None,
    )


def _visual_bert() -> Any:
    config = transformers.VisualBertConfig(
        vocab_size=VOCABULARY,
        max_position_embeddings=20,
        visual_embedding_dim=WIDTH,
        **BERT,
    )
    return transformers.VisualBertForPreTraining(config), bert_tokenizer(), None


BUILDERS: dict[str, Callable[[], Any]] = {
    "clip": _clip,
    "metaclip-2": _metaclip_2,
    "siglip": _siglip,
    "align": _align,
    "flava": _flava,
    "flava-contrastive": _flava,
    "blip-2": _blip_2,
    "bridgetower": _bridgetower,
    "vilt": _vilt,
    "vilt-answering": _vilt_answering,
    "lxmert": _lxmert,
    "lxmert-answering": _lxmert_answering,
    "visual-bert": _visual_bert,
}


def build(kind: str) -> list[Any]:
    """Network, tokenizer and, where it sees pixels, image processor; logits differ from input to
    input.
    """
    torch.manual_seed(3)
    network, tokenizer, processor = BUILDERS[kind]()
    with torch.no_grad():
        for name, values in network.named_parameters():
            if values.ndim > 1:
                values.normal_(std=0.3)
            elif name.endswith("bias"):
                values.normal_(std=0.1)
    return [part for part in (network, tokenizer, processor) if part is not None]
