"""A tiny checkpoint in the layout of open_clip, with weights drawn by NumPy, so that the package
reads the same.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch

from stand_ins.models.tiny_encoders import VOCABULARY, ended_tokenizer

VISION = {
    "image_size": 32,
    "layers": 2,
    "width": 16,
    "head_width": 8,
    "mlp_ratio": 2.5,
    "patch_size": 8,
}
TEXT = {
    "context_length": 20,
    "vocab_size": VOCABULARY,
    "width": 12,
    "heads": 3,
    "layers": 1,
}
MODEL = {"embed_dim": 10, "quick_gelu": True, "vision_cfg": VISION, "text_cfg": TEXT}
IMAGES = {
    "mean": [0.5, 0.4, 0.3],
    "std": [0.2, 0.3, 0.25],
    "interpolation": "bicubic",
    "resize_mode": "shortest",
}


def _list_blocks(
    prefix: str, layers: int, width: int, inner: int
) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    for layer in range(layers):
        block = f"{prefix}transformer.resblocks.{layer}."
        for norm in ("ln_1", "ln_2"):
            shapes |= {
                f"{block}{norm}.weight": (width,),
                f"{block}{norm}.bias": (width,),
            }
        shapes |= {
            f"{block}attn.in_proj_weight": (3 * width, width),
            f"{block}attn.in_proj_bias": (3 * width,),
        }
        shapes |= {
            f"{block}attn.out_proj.weight": (width, width),
            f"{block}attn.out_proj.bias": (width,),
        }
        shapes |= {
            f"{block}mlp.c_fc.weight": (inner, width),
            f"{block}mlp.c_fc.bias": (inner,),
        }
        shapes |= {
            f"{block}mlp.c_proj.weight": (width, inner),
            f"{block}mlp.c_proj.bias": (width,),
        }
    return shapes


SHAPES: dict[str, tuple[int, ...]] = {
    "positional_embedding": (20, 12),
    "text_projection": (12, 10),
    "visual.class_embedding": (16,),
    "visual.positional_embedding": (17, 16),
    "visual.proj": (16, 10),
    "visual.conv1.weight": (16, 3, 8, 8),
    **{
        f"visual.{norm}.{part}": (16,)
        for norm in ("ln_pre", "ln_post")
        for part in ("weight", "bias")
    },
    **_list_blocks("visual.", 2, 16, 40),
    **_list_blocks("", 1, 12, 48),
    "token_embedding.weight": (VOCABULARY, 12),
    "ln_final.weight": (12,),
    "ln_final.bias": (12,),
}
"""Shapes of weights but for the two scalars, by their names in open_clip."""


def draw_weights() -> dict[str, torch.Tensor]:
    draws = np.random.default_rng(0)
    weights = {
        name: torch.from_numpy(draws.normal(0, 0.3, shape).astype(np.float32))
        for name, shape in SHAPES.items()
    }
    return weights | {"logit_scale": torch.tensor(2.5)}


def write_open_clip(folder: Path, bias: float | None = None, **settings: Any) -> Path:
    """Write the checkpoint with its tokenizer, and return the folder."""
    weights = draw_weights()
    if bias is not None:
        weights["logit_bias"], settings = (
            torch.tensor(bias),
            settings | {"init_logit_bias": bias},
        )
    safetensors.torch.save_file(weights, folder / "open_clip_model.safetensors")
    config = {"model_cfg": MODEL | settings, "preprocess_cfg": IMAGES}
    (folder / "open_clip_config.json").write_text(json.dumps(config))
    ended_tokenizer("<s>").save_pretrained(folder)
    return folder
