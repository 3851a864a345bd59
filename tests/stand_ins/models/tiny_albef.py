"""Random ALBEF checkpoints of any size in the key layout of the release, written down key by key."""

import json
from pathlib import Path

import torch

from stand_ins.models.tiny_encoders import VOCABULARY, bert_tokenizer

CONFIG = {
    "image_res": 24,
    "patch_size": 8,
    "vision_width": 24,
    "vision_depth": 2,
    "vision_heads": 3,
    "bert_config": {
        "hidden_size": 16,
        "num_hidden_layers": 3,
        "num_attention_heads": 2,
        "intermediate_size": 20,
        "fusion_layer": 1,
        "encoder_width": 24,
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-12,
    },
}
"""Width of the image side and of the text side differ, and neither tells its number of heads."""
POSITIONS, SEGMENTS, DECODER_DEPTH = 14, 2, 2

Shapes = dict[str, tuple[int, ...]]


def _linear(key: str, size: int, width: int) -> Shapes:
    return {f"{key}.weight": (size, width), f"{key}.bias": (size,)}


def _norm(key: str, width: int) -> Shapes:
    return {f"{key}.weight": (width,), f"{key}.bias": (width,)}


def vision_shapes(config: dict, prefix: str = "visual_encoder") -> Shapes:
    width, patch = config["vision_width"], config["patch_size"]
    hidden = 2 * width
    shapes: Shapes = {
        f"{prefix}.cls_token": (1, 1, width),
        f"{prefix}.pos_embed": (1, (config["image_res"] // patch) ** 2 + 1, width),
        f"{prefix}.patch_embed.proj.weight": (width, 3, patch, patch),
        f"{prefix}.patch_embed.proj.bias": (width,),
        **_norm(f"{prefix}.norm", width),
    }
    for number in range(config["vision_depth"]):
        block = f"{prefix}.blocks.{number}"
        shapes |= _norm(f"{block}.norm1", width) | _norm(f"{block}.norm2", width)
        shapes |= _linear(f"{block}.attn.qkv", 3 * width, width) | _linear(
            f"{block}.attn.proj", width, width
        )
        shapes |= _linear(f"{block}.mlp.fc1", hidden, width) | _linear(
            f"{block}.mlp.fc2", width, hidden
        )
    return shapes


def text_shapes(bert: dict, prefix: str = "text_encoder") -> Shapes:
    width, hidden = bert["hidden_size"], bert["intermediate_size"]
    shapes: Shapes = {
        f"{prefix}.embeddings.position_ids": (1, POSITIONS),
        f"{prefix}.embeddings.word_embeddings.weight": (VOCABULARY, width),
        f"{prefix}.embeddings.position_embeddings.weight": (POSITIONS, width),
        f"{prefix}.embeddings.token_type_embeddings.weight": (SEGMENTS, width),
        **_norm(f"{prefix}.embeddings.LayerNorm", width),
    }
    for number in range(bert["num_hidden_layers"]):
        layer = f"{prefix}.encoder.layer.{number}"
        looks = {"attention": width}
        if number >= bert["fusion_layer"]:
            looks["crossattention"] = bert["encoder_width"]
        for name, context in looks.items():
            shapes |= _linear(f"{layer}.{name}.self.query", width, width)
            shapes |= _linear(f"{layer}.{name}.self.key", width, context)
            shapes |= _linear(f"{layer}.{name}.self.value", width, context)
            shapes |= _linear(f"{layer}.{name}.output.dense", width, width)
            shapes |= _norm(f"{layer}.{name}.output.LayerNorm", width)
        shapes |= _linear(f"{layer}.intermediate.dense", hidden, width)
        shapes |= _linear(f"{layer}.output.dense", width, hidden) | _norm(
            f"{layer}.output.LayerNorm", width
        )
    return shapes


def prediction_shapes(width: int, prefix: str) -> Shapes:
    shapes: Shapes = {f"{prefix}.bias": (VOCABULARY,)}
    shapes |= _linear(f"{prefix}.transform.dense", width, width) | _norm(
        f"{prefix}.transform.LayerNorm", width
    )
    return shapes | _linear(f"{prefix}.decoder", VOCABULARY, width)


def encoder_shapes(config: dict, momentum: str = "") -> Shapes:
    """What every network of the release has, or its momentum copy `_m`."""
    shapes = vision_shapes(config, f"visual_encoder{momentum}")
    return shapes | text_shapes(config["bert_config"], f"text_encoder{momentum}")


def retrieval_shapes(config: dict) -> Shapes:
    """As `mscoco.pth`, with the momentum copies that training adds."""
    text, vision = config["bert_config"]["hidden_size"], config["vision_width"]
    shapes: Shapes = {
        "temp": (),
        "image_queue": (4, 6),
        "text_queue": (4, 6),
        "idx_queue": (1, 6),
        "queue_ptr": (1,),
    }
    for momentum in ("", "_m"):
        shapes |= encoder_shapes(config, momentum)
        shapes |= _linear(f"vision_proj{momentum}", 4, vision) | _linear(
            f"text_proj{momentum}", 4, text
        )
    return shapes | _linear("itm_head", 2, text)


def pretrained_shapes(config: dict) -> Shapes:
    """As `ALBEF.pth`: the text encoder is one level deeper, and it has the head for masked words."""
    shapes = retrieval_shapes(config)
    del shapes["idx_queue"]
    for name in ("text_encoder", "text_encoder_m"):
        deeper = {
            key: shapes.pop(key) for key in list(shapes) if key.startswith(f"{name}.")
        }
        shapes |= {
            key.replace(name, f"{name}.bert", 1): shape for key, shape in deeper.items()
        }
        shapes |= prediction_shapes(
            config["bert_config"]["hidden_size"], f"{name}.cls.predictions"
        )
    return shapes


def answering_shapes(config: dict) -> Shapes:
    """As `vqa.pth`: a decoder, each layer of which looks at the question, and no matching head."""
    bert = config["bert_config"]
    width = bert["hidden_size"]
    decoder = bert | {
        "num_hidden_layers": DECODER_DEPTH,
        "fusion_layer": 0,
        "encoder_width": width,
    }
    shapes: Shapes = {}
    for momentum in ("", "_m"):
        shapes |= encoder_shapes(config, momentum) | text_shapes(
            decoder, f"text_decoder{momentum}.bert"
        )
        shapes |= prediction_shapes(width, f"text_decoder{momentum}.cls.predictions")
    return shapes


LAYOUTS = {
    "retrieval": retrieval_shapes,
    "pretrained": pretrained_shapes,
    "answering": answering_shapes,
}


def random_weights(
    layout: str, config: dict = CONFIG, seed: int = 0
) -> dict[str, torch.Tensor]:
    """Weights large enough that logits differ from input to input."""
    draw = torch.Generator().manual_seed(seed)
    weights = {}
    for key, shape in LAYOUTS[layout](config).items():
        if key.endswith("position_ids"):
            weights[key] = torch.arange(shape[1])[None]
        elif key in ("idx_queue", "queue_ptr"):
            weights[key] = torch.zeros(shape, dtype=torch.long)
        else:
            values = torch.randn(shape, generator=draw)
            scale = (
                1.2 * shape[1] ** -0.5
                if len(shape) == 2 and "embeddings" not in key
                else 0.3
            )
            weights[key] = values * scale + (
                1 if "orm" in key and key.endswith("weight") else 0
            )
    if layout == "answering":  # the release ties both
        weights["text_decoder.cls.predictions.bias"] = weights[
            "text_decoder.cls.predictions.decoder.bias"
        ]
    return weights


def folder_of(folder: Path, layout: str, config: dict = CONFIG) -> Path:
    """A folder with a checkpoint file, its settings and its tokenizer."""
    torch.save(random_weights(layout, config), folder / "weights.pth")
    bert_tokenizer().save_pretrained(folder)
    (folder / "weights.json").write_text(json.dumps(config))
    return folder
