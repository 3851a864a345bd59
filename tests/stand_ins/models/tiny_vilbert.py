"""Random ViLBERT and 12-in-1 checkpoints of any size in the key layout of the release."""

import json
from pathlib import Path
from typing import Any

import torch

from stand_ins.models.tiny_encoders import VOCABULARY, WIDTH, bert_tokenizer

VILBERT: dict[str, Any] = {
    "hidden_size": 24,
    "num_hidden_layers": 4,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 20,
    "type_vocab_size": 2,
    "v_feature_size": WIDTH,
    "v_target_size": 6,
    "v_hidden_size": 16,
    "v_num_hidden_layers": 3,
    "v_num_attention_heads": 4,
    "v_intermediate_size": 28,
    "bi_hidden_size": 32,
    "bi_num_attention_heads": 2,
    "v_biattention_id": [0, 2],
    "t_biattention_id": [2, 3],
    "hidden_act": "gelu",
    "v_hidden_act": "gelu",
    "pooling_method": "mul",
}
"""The keys of the release's JSON; all widths and counts differ, and a layer follows the last
meeting.
"""
VILBERT_TASKS = 20


def vilbert_layout(
    config: dict[str, Any], multitask: bool
) -> dict[str, tuple[int, ...]]:
    """Shapes of all keys of a released file by name."""
    text, image, inner = (
        config[key] for key in ("hidden_size", "v_hidden_size", "bi_hidden_size")
    )
    own, other = config["intermediate_size"], config["v_intermediate_size"]
    words = config["vocab_size"]
    layout: dict[str, tuple[int, ...]] = {}

    def linear(name: str, before: int, after: int) -> None:
        layout.update({f"{name}.weight": (after, before), f"{name}.bias": (after,)})

    def norm(name: str, width: int) -> None:
        layout.update({f"{name}.weight": (width,), f"{name}.bias": (width,)})

    def residual(name: str, before: int, after: int) -> None:
        linear(f"{name}.dense", before, after)
        norm(f"{name}.LayerNorm", after)

    def stream(name: str, width: int, hidden: int) -> None:
        for part in ("query", "key", "value"):
            linear(f"{name}.attention.self.{part}", width, width)
        residual(f"{name}.attention.output", width, width)
        linear(f"{name}.intermediate.dense", width, hidden)
        residual(f"{name}.output", hidden, width)

    for table, rows in (
        ("word", words),
        ("position", config["max_position_embeddings"]),
        ("token_type", config["type_vocab_size"]),
        *([("task", VILBERT_TASKS)] if multitask else []),
    ):
        layout[f"bert.embeddings.{table}_embeddings.weight"] = (rows, text)
    norm("bert.embeddings.LayerNorm", text)
    linear("bert.v_embeddings.image_embeddings", config["v_feature_size"], image)
    linear("bert.v_embeddings.image_location_embeddings", 5, image)
    norm("bert.v_embeddings.LayerNorm", image)
    for number in range(config["num_hidden_layers"]):
        stream(f"bert.encoder.layer.{number}", text, own)
    for number in range(config["v_num_hidden_layers"]):
        stream(f"bert.encoder.v_layer.{number}", image, other)
    for number in range(len(config["v_biattention_id"])):
        name = f"bert.encoder.c_layer.{number}"
        for side, width in ((1, image), (2, text)):
            for part in ("query", "key", "value"):
                linear(f"{name}.biattention.{part}{side}", width, inner)
            linear(f"{name}.biOutput.dense{side}", inner, width)
            norm(f"{name}.biOutput.LayerNorm{side}", width)
            linear(f"{name}.biOutput.q_dense{side}", inner, width)
        for side, width, hidden in (("v", image, other), ("t", text, own)):
            linear(f"{name}.{side}_intermediate.dense", width, hidden)
            residual(f"{name}.{side}_output", hidden, width)
    linear("bert.t_pooler.dense", text, inner)
    linear("bert.v_pooler.dense", image, inner)
    for head, width, outputs in (
        ("predictions", text, words),
        ("imagePredictions", image, config["v_target_size"]),
    ):
        residual(f"cls.{head}.transform", width, width)
        linear(f"cls.{head}.decoder", width, outputs)
    layout["cls.predictions.bias"] = layout.pop("cls.predictions.decoder.bias")
    linear("cls.bi_seq_relationship", inner, 2)
    if multitask:
        for head, width, outputs in (
            ("vil_prediction", inner, 3129),
            ("vil_prediction_gqa", inner, 1533),
            ("vil_binary_prediction", 2 * inner, 2),
        ):
            linear(f"{head}.logit_fc.0", width, 2 * inner)
            norm(f"{head}.logit_fc.2", 2 * inner)
            linear(f"{head}.logit_fc.3", 2 * inner, outputs)
        for head, width, outputs in (
            ("vil_logit", inner, 1),
            ("vil_tri_prediction", inner, 3),
            ("vision_logit", image, 1),
            ("linguisic_logit", text, 1),
        ):
            linear(head, width, outputs)
    return layout


def vilbert_weights(config: dict[str, Any], multitask: bool) -> dict[str, torch.Tensor]:
    """Random weights under all keys of a released file."""
    draw = torch.Generator().manual_seed(4)
    weights = {}
    for key, shape in vilbert_layout(config, multitask).items():
        scale, centre = (
            (0.3, 0.0)
            if len(shape) > 1
            else (0.1, float("Norm" in key and key.endswith("weight")))
        )
        weights[key] = torch.randn(shape, generator=draw) * scale + centre
    return weights


def write_vilbert(folder: Path, multitask: bool) -> Path:
    """Write a tiny checkpoint with its JSON and tokenizer, and return the path of its file."""
    file = folder / ("multi_task_model.bin" if multitask else "pretrained_model.bin")
    torch.save(vilbert_weights(VILBERT, multitask), file)
    (folder / "config.json").write_text(json.dumps(VILBERT))
    bert_tokenizer().save_pretrained(folder)
    return file
