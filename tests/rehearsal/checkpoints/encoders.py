"""Encoders of image and text that have a class in transformers, as their repositories hold them."""

import functools
import json
from pathlib import Path
from typing import Any

import torch
import transformers

from real_tokenizers.build import build_bert, build_clip
from rehearsal.checkpoints.language import Builder
from rehearsal.checkpoints.original import REGION_WIDTH
from rehearsal.storing import Form, save_config, save_state, seeded, state_of

SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 48,
}
WINDOW = 512
MEAN, DEVIATION = (
    [0.48145466, 0.4578275, 0.40821073],
    [0.26862954, 0.26130258, 0.27577711],
)
"""Colours that CLIP, and after it BLIP and FLAVA, take for 0 and 1."""


def clip(model: str, folder: Path) -> None:
    """CLIP, with the constants that old files carry."""
    tokenizer = build_clip()
    text = {"vocab_size": len(tokenizer), "max_position_embeddings": 77}
    text |= {
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
    }
    config = transformers.CLIPConfig(
        text_config={**text, **SIZES},
        vision_config={"image_size": 64, "patch_size": 16, **SIZES},
        projection_dim=16,
    )
    network = seeded(model, lambda: transformers.CLIPModel(config))
    state = state_of(network, without=(r"position_ids$",))
    state["text_model.embeddings.position_ids"] = torch.arange(77)[None]
    state["vision_model.embeddings.position_ids"] = torch.arange(17)[None]
    save_config(config, folder, "CLIPModel")
    save_state(state, folder, "bin")
    tokenizer.save_pretrained(folder)
    _pictures(
        folder,
        "CLIPFeatureExtractor",
        size=64,
        crop_size=64,
        do_center_crop=True,
        resample=3,
    )


def blip(model: str, folder: Path) -> None:
    """BLIP for retrieval."""
    tokenizer = build_bert()
    text = {
        "vocab_size": len(tokenizer),
        "max_position_embeddings": WINDOW,
        "encoder_hidden_size": 32,
    }
    text |= {
        "bos_token_id": 101,
        "sep_token_id": 102,
        "eos_token_id": 102,
        "pad_token_id": 0,
    }
    config = transformers.BlipConfig(
        text_config={**text, **SIZES},
        vision_config={"image_size": 64, "patch_size": 16, **SIZES},
        projection_dim=16,
        image_text_hidden_size=16,
    )
    network = seeded(model, lambda: transformers.BlipForImageTextRetrieval(config))
    state = state_of(network, without=(r"position_ids$",))
    state["text_encoder.embeddings.position_ids"] = torch.arange(WINDOW)[None]
    save_config(config, folder, "BlipForImageTextRetrieval")
    save_state(state, folder)
    tokenizer.save_pretrained(folder)
    _pictures(
        folder, "BlipImageProcessor", size={"height": 64, "width": 64}, resample=3
    )


def blip_2(model: str, folder: Path) -> None:
    """BLIP-2 for retrieval."""
    tokenizer = build_bert()
    config = transformers.Blip2Config(
        vision_config={
            "image_size": 56,
            "patch_size": 14,
            "attention_dropout": 0.0,
            **SIZES,
        },
        qformer_config={
            "vocab_size": len(tokenizer),
            "max_position_embeddings": WINDOW,
            "encoder_hidden_size": 32,
            "cross_attention_frequency": 2,
            "use_qformer_text_input": True,
            "pad_token_id": 0,
            **SIZES,
        },
        text_config={
            "model_type": "opt",
            "vocab_size": len(tokenizer),
            "hidden_size": 32,
            "num_hidden_layers": 1,
        },
        num_query_tokens=4,
        image_text_hidden_size=16,
    )
    config.image_token_index = None
    network = seeded(model, lambda: transformers.Blip2ForImageTextRetrieval(config))
    save_config(config, folder, "Blip2ForImageTextRetrieval")
    save_state(state_of(network), folder)
    tokenizer.save_pretrained(folder)
    _pictures(
        folder, "BlipImageProcessor", size={"height": 56, "width": 56}, resample=3
    )


def flava(model: str, folder: Path) -> None:
    """FLAVA with the heads of its pre-training and its codebook."""
    tokenizer = build_bert()
    common = {**SIZES, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    config = transformers.FlavaConfig(
        image_config={"image_size": 64, "patch_size": 16, "vocab_size": 64, **common},
        text_config={
            "vocab_size": len(tokenizer),
            "max_position_embeddings": WINDOW,
            **common,
        },
        multimodal_config=common,
        image_codebook_config={"num_groups": 4, "hidden_size": 8, "vocab_size": 64},
        hidden_size=32,
        projection_dim=16,
        layer_norm_eps=1e-12,
    )
    network = seeded(model, lambda: transformers.FlavaForPreTraining(config))
    save_config(config, folder, "FlavaForPreTraining")
    save_state(state_of(network, without=(r"position_ids$",)), folder, "bin")
    tokenizer.save_pretrained(folder)
    _pictures(
        folder,
        "FlavaFeatureExtractor",
        size=64,
        crop_size=64,
        do_center_crop=True,
        resample=3,
    )


def lxmert(model: str, folder: Path, answers: int = 0, form: Form = "bin") -> None:
    """LXMERT with the heads of its pre-training, or with a head of some number of answers alone."""
    tokenizer = build_bert()
    config = transformers.LxmertConfig(
        vocab_size=len(tokenizer),
        max_position_embeddings=WINDOW,
        visual_feat_dim=REGION_WIDTH,
        num_qa_labels=answers or 9500,
        hidden_size=32,
        intermediate_size=48,
        num_attention_heads=2,
        l_layers=2,
        r_layers=2,
        x_layers=2,
    )
    build = (
        transformers.LxmertForQuestionAnswering
        if answers
        else transformers.LxmertForPreTraining
    )
    network = seeded(model, lambda: build(config))
    state = state_of(network, without=(r"position_ids$",))
    save_config(config, folder, build.__name__)
    save_state(state, folder, form)
    tokenizer.save_pretrained(folder)


def visual_bert(model: str, folder: Path, width: int) -> None:
    """VisualBERT with the heads of its pre-training; the repository has no tokenizer."""
    size = len(build_bert())
    config = transformers.VisualBertConfig(
        vocab_size=size,
        max_position_embeddings=WINDOW,
        visual_embedding_dim=width,
        **SIZES,
    )
    network = seeded(model, lambda: transformers.VisualBertForPreTraining(config))
    save_config(config, folder, "VisualBertForPreTraining")
    save_state(state_of(network, without=(r"position_ids$",)), folder, "bin")


def _pictures(folder: Path, processor: str, **settings: Any) -> None:
    """`preprocessor_config.json`, with the class names and short forms of its time."""
    written = {
        "feature_extractor_type"
        if processor.endswith("FeatureExtractor")
        else "image_processor_type": processor,
        "do_resize": True,
        "do_normalize": True,
        "image_mean": MEAN,
        "image_std": DEVIATION,
        **settings,
    }
    (folder / "preprocessor_config.json").write_text(
        json.dumps(written, indent=2) + "\n", encoding="utf-8"
    )


BUILDERS: dict[str, Builder] = {
    "openai/clip-vit-base-patch32": clip,
    "Salesforce/blip-itm-base-coco": blip,
    "Salesforce/blip-itm-large-coco": blip,
    "Salesforce/blip-itm-base-flickr": blip,
    "Salesforce/blip-itm-large-flickr": blip,
    "Salesforce/blip2-itm-vit-g": blip_2,
    "Salesforce/blip2-itm-vit-g-coco": blip_2,
    "facebook/flava-full": flava,
    "unc-nlp/lxmert-base-uncased": lxmert,
    "unc-nlp/lxmert-vqa-uncased": functools.partial(lxmert, answers=3129),
    "unc-nlp/lxmert-gqa-uncased": functools.partial(lxmert, answers=1842),
    "uclanlp/visualbert-vqa-coco-pre": functools.partial(
        visual_bert, width=REGION_WIDTH
    ),
    "uclanlp/visualbert-nlvr2-coco-pre": functools.partial(visual_bert, width=1024),
}
