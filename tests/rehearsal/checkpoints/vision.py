"""Decoders that see: BakLLaVA and LLaVA-NeXT as they stood at the commits of the published runs,
and mPLUG-Owl3.

LLaVA's processors know neither the patch size nor which features are dropped: at that time the
network put an image's features in the place of one token.
"""

import functools
import json
from pathlib import Path
from typing import Any

import torch
import transformers

from real_tokenizers.build import build_llama2, build_mistral, build_qwen2
from rehearsal.checkpoints.encoders import DEVIATION, MEAN
from rehearsal.checkpoints.language import (
    DECODER,
    LLAMA_CHAT,
    Builder,
    save_llama_tokenizer,
)
from rehearsal.storing import save_config, save_state, seeded, state_of
from stand_ins.models import tiny_mplug_owl3

SIDE, PATCH = 28, 14
"""Side of a tile, 336 in the release, and of a patch."""
GRIDS = ((1, 2), (2, 1), (2, 2), (3, 1), (1, 3))
"""Rows and columns of tiles, in the release's order."""
ADDED = ("<image>", "<pad>")
PADDED = 64
"""The embeddings are of a multiple of so many rows, more than there are tokens."""
TOWER = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
}
OLD_NAMES = {
    r"^lm_head\.": "language_model.lm_head.",
    r"^model\.language_model\.": "language_model.model.",
    r"^model\.(vision_tower|multi_modal_projector|image_newline)": r"\1",
    r"^vision_tower\.(?!vision_model)": "vision_tower.vision_model.",
}


def bakllava(model: str, folder: Path) -> None:
    """LLaVA 1.5 on Mistral, in four shards."""
    tokenizer = build_mistral(ADDED)
    config = transformers.LlavaConfig(
        text_config=_mistral(tokenizer), **_common(tokenizer, SIDE)
    )
    _save(
        model,
        folder,
        transformers.LlavaForConditionalGeneration,
        config,
        tokenizer,
        shards=4,
    )
    _pictures(folder, "CLIPImageProcessor", "LlavaProcessor", SIDE)


def llava_next(model: str, folder: Path, vicuna: bool, side: int = SIDE) -> None:
    """LLaVA 1.6 on Mistral, in four shards, whose tokenizer alone has a chat template, or on
    Vicuna, in three.
    """
    tokenizer = build_llama2(ADDED) if vicuna else build_mistral(ADDED)
    text = (
        {"model_type": "llama", **_sizes(tokenizer), "num_key_value_heads": 4}
        if vicuna
        else _mistral(tokenizer)
    )
    grids = [[rows * side, columns * side] for rows, columns in GRIDS]
    config = transformers.LlavaNextConfig(
        text_config=text, image_grid_pinpoints=grids, **_common(tokenizer, side)
    )
    build = transformers.LlavaNextForConditionalGeneration
    _save(
        model,
        folder,
        build,
        config,
        tokenizer,
        shards=3 if vicuna else 4,
        template="" if vicuna else LLAMA_CHAT,
    )
    settings = {"image_grid_pinpoints": grids, "aspect_ratio_setting": "anyres"}
    _pictures(folder, "LlavaNextImageProcessor", "LlavaNextProcessor", side, **settings)


def mplug_owl3(model: str, folder: Path) -> None:
    """The release 240728: one file, and the tokenizer of Qwen2, which lacks the placeholder."""
    tokenizer = build_qwen2()
    sizes = {
        "vocab_size": tiny_mplug_owl3.RELEASED["vocab_size"],
        "num_hidden_layers": 2,
        "hyper_layers": [1],
    }
    config = tiny_mplug_owl3.TINY | sizes
    tiny_mplug_owl3.write_owl(folder, config, tokenizer=tokenizer)


def _sizes(tokenizer: Any) -> dict[str, Any]:
    return {**DECODER, "vocab_size": -(-len(tokenizer) // PADDED) * PADDED}


def _mistral(tokenizer: Any) -> dict[str, Any]:
    return {
        "model_type": "mistral",
        **_sizes(tokenizer),
        "num_key_value_heads": 2,
        "sliding_window": None,
    }


def _common(tokenizer: Any, side: int) -> dict[str, Any]:
    return {
        "vision_config": {
            "model_type": "clip_vision_model",
            "image_size": side,
            "patch_size": PATCH,
            **TOWER,
        },
        "image_token_index": tokenizer.convert_tokens_to_ids("<image>"),
        "vision_feature_layer": -2,
        "vision_feature_select_strategy": "default",
        "projector_hidden_act": "gelu",
    }


def _save(
    model: str,
    folder: Path,
    build: Any,
    config: Any,
    tokenizer: Any,
    shards: int,
    template: str = "",
) -> None:
    network = seeded(model, lambda: build(config))
    state = state_of(network, OLD_NAMES, (r"position_ids$",), torch.float16)
    padding = tokenizer.convert_tokens_to_ids("<pad>")
    save_config(
        config, folder, build.__name__, pad_token_id=padding, torch_dtype="float16"
    )
    save_state(state, folder, shards=shards)
    generation = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": padding}
    (folder / "generation_config.json").write_text(
        json.dumps(generation) + "\n", encoding="utf-8"
    )
    save_llama_tokenizer(tokenizer, folder, legacy=True, template=template)


def _pictures(
    folder: Path, images: str, processor: str, side: int, **settings: Any
) -> None:
    written = {
        "image_processor_type": images,
        "processor_class": processor,
        "do_resize": True,
        "do_center_crop": True,
        "do_rescale": True,
        "do_normalize": True,
        "do_convert_rgb": True,
        "rescale_factor": 1 / 255,
        "image_mean": MEAN,
        "image_std": DEVIATION,
        "resample": 3,
        "size": {"shortest_edge": side},
        "crop_size": {"height": side, "width": side},
        **settings,
    }
    (folder / "preprocessor_config.json").write_text(
        json.dumps(written, indent=2) + "\n", encoding="utf-8"
    )


BUILDERS: dict[str, Builder] = {
    "llava-hf/bakLlava-v1-hf": bakllava,
    "llava-hf/llava-v1.6-mistral-7b-hf": functools.partial(llava_next, vicuna=False),
    "llava-hf/llava-v1.6-vicuna-7b-hf": functools.partial(llava_next, vicuna=True),
    "mPLUG/mPLUG-Owl3-7B-240728": mplug_owl3,
}
