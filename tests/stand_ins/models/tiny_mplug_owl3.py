"""Random mPLUG-Owl3 checkpoints of any size in the key layout of the release 240728."""

import copy
import json
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
import transformers
from transformers.convert_slow_tokenizer import bytes_to_unicode

RELEASED: dict[str, Any] = {
    "hidden_size": 3584,
    "vocab_size": 151851,
    "num_hidden_layers": 28,
    "max_position_embeddings": 32768,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "rope_theta": 1000000.0,
    "intermediate_size": 18944,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-06,
    "tie_word_embeddings": False,
    "use_sliding_window": False,
    "sliding_window": 131072,
    "max_window_layers": 28,
    "hyper_layers": [1, 9, 17, 25],
    "bos_token_id": 151643,
    "eos_token_id": 151645,
    "model_type": "mplugowl3",
    "vision_config": {
        "hidden_size": 1152,
        "image_size": 384,
        "patch_size": 14,
        "intermediate_size": 4304,
        "num_attention_heads": 16,
        "num_hidden_layers": 27,
        "model_type": "siglip_vision_model",
    },
}
"""The `config.json` of the release."""
TINY: dict[str, Any] = RELEASED | {
    "hidden_size": 32,
    "vocab_size": 300,
    "num_hidden_layers": 5,
    "max_position_embeddings": 2048,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "rope_theta": 100.0,
    "intermediate_size": 40,
    "hyper_layers": [1, 4],
    "vision_config": {
        "hidden_size": 16,
        "image_size": 20,
        "patch_size": 6,
        "intermediate_size": 24,
        "num_attention_heads": 2,
        "num_hidden_layers": 3,
        "model_type": "siglip_vision_model",
    },
}
"""All widths and counts differ; of a tile the last 2 rows and columns are not seen."""


def owl_layout(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Shapes of all keys of a released file by name."""
    width, inner = config["hidden_size"], config["intermediate_size"]
    head = width // config["num_attention_heads"]
    shared = head * config["num_key_value_heads"]
    layout: dict[str, tuple[int, ...]] = {}

    def linear(name: str, before: int, after: int, bias: bool = True) -> None:
        layout.update(
            {f"{name}.weight": (after, before)}
            | ({f"{name}.bias": (after,)} if bias else {})
        )

    text = "language_model.model"
    layout[f"{text}.embed_tokens.weight"] = (config["vocab_size"], width)
    for number in range(config["num_hidden_layers"]):
        layer = f"{text}.layers.{number}"
        linear(f"{layer}.self_attn.q_proj", width, width)
        linear(f"{layer}.self_attn.k_proj", width, shared)
        linear(f"{layer}.self_attn.v_proj", width, shared)
        linear(f"{layer}.self_attn.o_proj", width, width, bias=False)
        if number + 1 in config["hyper_layers"]:
            linear(f"{layer}.self_attn.v_kv_proj", width, 2 * shared)
            linear(f"{layer}.self_attn.gate_proj.0", head, head)
        linear(f"{layer}.mlp.gate_proj", width, inner, bias=False)
        linear(f"{layer}.mlp.up_proj", width, inner, bias=False)
        linear(f"{layer}.mlp.down_proj", inner, width, bias=False)
        layout[f"{layer}.input_layernorm.weight"] = layout[
            f"{layer}.post_attention_layernorm.weight"
        ] = (width,)
    layout[f"{text}.norm.weight"] = (width,)
    layout["language_model.lm_head.weight"] = (config["vocab_size"], width)

    tower = config["vision_config"]
    seen, wide, patch = (
        tower["hidden_size"],
        tower["intermediate_size"],
        tower["patch_size"],
    )

    def norm(name: str) -> None:
        layout.update({f"{name}.weight": (seen,), f"{name}.bias": (seen,)})

    def perceptron(name: str) -> None:
        linear(f"{name}.mlp.fc1", seen, wide)
        linear(f"{name}.mlp.fc2", wide, seen)

    layout["vision_model.embeddings.patch_embedding.weight"] = (seen, 3, patch, patch)
    layout["vision_model.embeddings.patch_embedding.bias"] = (seen,)
    layout["vision_model.embeddings.position_embedding.weight"] = (
        (tower["image_size"] // patch) ** 2,
        seen,
    )
    for number in range(tower["num_hidden_layers"]):
        layer = f"vision_model.encoder.layers.{number}"
        for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
            linear(f"{layer}.self_attn.{part}", seen, seen)
        norm(f"{layer}.layer_norm1")
        norm(f"{layer}.layer_norm2")
        perceptron(layer)
    norm("vision_model.post_layernorm")
    layout["vision_model.head.probe"] = (1, 1, seen)
    layout["vision_model.head.attention.in_proj_weight"] = (3 * seen, seen)
    layout["vision_model.head.attention.in_proj_bias"] = (3 * seen,)
    linear("vision_model.head.attention.out_proj", seen, seen)
    norm("vision_model.head.layernorm")
    perceptron("vision_model.head")
    linear("vision2text_model", seen, width)
    return layout


def owl_weights(config: dict[str, Any], seed: int = 0) -> dict[str, torch.Tensor]:
    """Random weights, wide enough that each step changes the logits."""
    draws = torch.Generator().manual_seed(seed)
    weights = {}
    for key, shape in owl_layout(config).items():
        values = torch.randn(shape, generator=draws) * (
            0.25 if len(shape) == 2 else 0.1
        )
        weights[key] = (
            values + 1 if "norm" in key and key.endswith("weight") else values
        )
    return weights


def owl_tokenizer() -> transformers.Qwen2Tokenizer:
    """A tokenizer of Qwen2 that merges nothing but the word image, with Qwen2's own chat template."""
    merges = [("i", "m"), ("a", "g"), ("im", "ag"), ("imag", "e")]
    pieces = [
        *bytes_to_unicode().values(),
        *(first + second for first, second in merges),
    ]
    words = transformers.Qwen2Tokenizer(
        vocab={piece: number for number, piece in enumerate(pieces)},
        merges=merges,
        eos_token="<|im_end|>",
        model_max_length=32768,
    )
    words.add_special_tokens(
        {"additional_special_tokens": ["<|im_start|>", "<|im_end|>", "<|endoftext|>"]}
    )
    words.chat_template = "You are a helpful assistant."
    return words


def write_owl(
    folder: Path,
    config: dict[str, Any] | None = None,
    seed: int = 0,
    tokenizer: Any = None,
) -> Path:
    """Write a checkpoint with its config.json and tokenizer, by default a tiny one; return the
    folder.
    """
    config = copy.deepcopy(TINY if config is None else config)
    safetensors.torch.save_file(owl_weights(config, seed), folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (tokenizer or owl_tokenizer()).save_pretrained(folder)
    return folder
