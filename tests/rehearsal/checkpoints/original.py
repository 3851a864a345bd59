"""Files in their authors' own layouts: ALBEF, ViLBERT, 12-in-1, detectors, SpanBERT with its head,
GRUEN's BERT.

Their sizes are small; a network whose shapes do not tell its heads gets a JSON next to its file
(`SETTINGS_FILES`).
"""

import io
import json
import pickle
from typing import Any

import torch
import transformers
import yaml

from real_tokenizers.build import build_bert
from rehearsal import words
from rehearsal.checkpoints.judges import SIZES
from rehearsal.storing import seeded, state_of
from rehearsal.upstream import packed
from stand_ins.models import (
    tiny_albef,
    tiny_detector,
    tiny_vilbert,
    tiny_vilbert_detector,
)

WINDOW = 512
ALBEF = {
    **tiny_albef.CONFIG,
    "image_res": 64,
    "patch_size": 16,
    "vision_width": 64,
    "vision_heads": 1,
}
ALBEF["bert_config"] = {
    **tiny_albef.CONFIG["bert_config"],
    "hidden_size": 64,
    "num_attention_heads": 1,
}
ALBEF["bert_config"]["encoder_width"] = 64
"""Heads are 64 wide, as in the release, so that shapes tell their number."""
REGION_WIDTH = tiny_detector.WIDTH
"""Features of a region as the tiny detector gives them."""


def albef(name: str, layout: str, momentum: bool = False) -> bytes:
    """A checkpoint of matching (`retrieval`) or answering (`answering`), with a vocabulary that
    fits the tokenizer.
    """
    weights = tiny_albef.random_weights(layout, ALBEF, seed=sum(name.encode()))
    if not momentum:
        weights = {
            key: values
            for key, values in weights.items()
            if not key.partition(".")[0].endswith("_m")
        }
        weights = {key: values for key, values in weights.items() if "queue" not in key}
    draw = torch.Generator().manual_seed(sum(name.encode()))
    size = len(build_bert())
    rows = {
        "word_embeddings.weight": size,
        "position_embeddings.weight": WINDOW,
        "decoder.weight": size,
    }
    rows |= {"decoder.bias": size, "predictions.bias": size}
    for key, values in weights.items():
        count = next((count for end, count in rows.items() if key.endswith(end)), None)
        if count is not None:
            weights[key] = torch.randn((count, *values.shape[1:]), generator=draw) * 0.3
        elif key.endswith("position_ids"):
            weights[key] = torch.arange(WINDOW)[None]
    for key in [key for key in weights if key.endswith("predictions.bias")]:
        weights[key] = weights[
            key.replace("predictions.bias", "predictions.decoder.bias")
        ]
    return _saved(weights)


def vilbert_settings() -> dict[str, Any]:
    """The JSON of both ViLBERTs."""
    sizes = {"vocab_size": len(build_bert()), "max_position_embeddings": WINDOW}
    return {**tiny_vilbert.VILBERT, **sizes, "v_feature_size": REGION_WIDTH}


def vilbert(multitask: bool) -> bytes:
    """A checkpoint of the pre-trained model, or of 12-in-1."""
    return _saved(tiny_vilbert.vilbert_weights(vilbert_settings(), multitask))


def vilbert_detector() -> bytes:
    """ViLBERT's detector with as many features of a region, as several GPUs trained it."""
    weights = tiny_vilbert_detector.tiny_pyramid_weights(width=REGION_WIDTH)
    return _saved(
        {
            "model": {f"module.{key}": values for key, values in weights.items()},
            "iteration": 9,
        }
    )


def vilbert_detector_settings() -> bytes:
    """Its released configuration, which makes it quick."""
    return yaml.safe_dump(tiny_vilbert_detector.CONFIG).encode()


def detector() -> bytes:
    """The detector of LXMERT and VisualBERT as the pickle of NumPy arrays that came first."""
    weights = {
        key: values.numpy()
        for key, values in tiny_detector.tiny_weights(counters=False).items()
    }
    return pickle.dumps(
        {"model": weights, "__author__": "random", "matching_heuristics": True},
        protocol=2,
    )


def detector_settings() -> bytes:
    """What makes the detector quick: small images, few regions."""
    return yaml.safe_dump(tiny_detector.CONFIG).encode()


def spanbert_with_head() -> bytes:
    """The archive with the checkpoint of fairseq: model and heads below `decoder.`, next to the
    state of training.
    """
    network = seeded("spanbert", lambda: transformers.BertForMaskedLM(_bert()))
    state = {
        f"decoder.{key}": values
        for key, values in state_of(network, without=(r"position_ids$",)).items()
    }
    state["decoder.pair_target_predictions.bias"] = torch.zeros(4)
    vocabulary = words.build_cased_bert().get_vocab()
    listed = "".join(
        f"{word}\n" for word in sorted(vocabulary, key=vocabulary.__getitem__)
    ).encode()
    saved = _saved({"model": state, "extra_state": {"epoch": 1}})
    return packed(
        "spanbert_large_with_head.tar.gz", {"model.pt": saved, "dict.txt": listed}
    )


def spanbert_in_library_format() -> bytes:
    """The archive without heads: config, vocabulary, weights of the encoder alone."""
    vocabulary = words.build_cased_bert().get_vocab()
    listed = "".join(
        f"{word}\n" for word in sorted(vocabulary, key=vocabulary.__getitem__)
    ).encode()
    network = seeded("spanbert-hf", lambda: transformers.BertModel(_bert()))
    files = {"config.json": _config(architecture="BertModel"), "vocab.txt": listed}
    return packed(
        "spanbert_hf.tar.gz", {**files, "pytorch_model.bin": _saved(state_of(network))}
    )


def gruen_cola() -> bytes:
    """The folder that GRUEN's authors offer as a zip: a classifier of two classes, in the files of
    2019.
    """
    network = seeded(
        "gruen", lambda: transformers.BertForSequenceClassification(_bert(num_labels=2))
    )
    vocabulary = words.build_cased_bert().get_vocab()
    listed = "".join(
        f"{word}\n" for word in sorted(vocabulary, key=vocabulary.__getitem__)
    ).encode()
    files = {
        "config.json": _config(
            architecture="BertForSequenceClassification", finetuning_task="cola"
        ),
        "pytorch_model.bin": _saved(state_of(network, without=(r"position_ids$",))),
        "vocab.txt": listed,
        "special_tokens_map.json": b'{"unk_token": "[UNK]", "sep_token": "[SEP]", "cls_token": "[CLS]"}',
        "tokenizer_config.json": b'{"do_lower_case": false, "max_len": 512}',
    }
    return packed(
        "cola_model.zip",
        {
            f"cola_model/bert-base-cased/{name}": content
            for name, content in files.items()
        },
    )


SETTINGS_FILES = {
    "dl.fbaipublicfiles.com/vilbert-multi-task/config.json": lambda: json.dumps(
        vilbert_settings()
    ).encode(),
    "nlp.cs.unc.edu/models/config.yaml": detector_settings,
}
"""Settings that no released file needs, by their place among fetched weights."""


def _bert(**changes: Any) -> Any:
    size = len(words.build_cased_bert())
    return transformers.BertConfig(
        vocab_size=size, max_position_embeddings=WINDOW, **SIZES, **changes
    )


def _config(architecture: str, **added: Any) -> bytes:
    """A config as it was written before it named the kind of model."""
    settings = {**_bert().to_diff_dict(), "architectures": [architecture], **added}
    settings.pop("transformers_version", None)
    return json.dumps(settings, indent=2, sort_keys=True).encode()


def _saved(value: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()
