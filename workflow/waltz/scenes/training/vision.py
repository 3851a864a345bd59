"""Image-text models of the scenes: CLIP, a BLIP matcher, a LLaVA."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import torch
import transformers

from waltz.scenes.training.loop import draw_batches, optimise
from waltz.scenes.training.patch_labels import PatchClassifier, PatchLabels
from waltz.scenes.training.vocabulary import train_word_pieces

SIDE, PATCH = 128, 16
"""Pixels of the models' image, and of a patch."""
MEAN, DEVIATION = (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)
CLIP = {"pad_token": "[PAD]", "unk_token": "[UNK]", "bos_token": "<|startoftext|>", "eos_token": "<|endoftext|>"}
BLIP = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
LLAVA = {"pad_token": "<pad>", "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
IMAGE_TOKEN = "<image>"
PAIRS = 2
"""Pairs of caption and foil that each image of a CLIP batch is asked about."""
SIMILAR_IMAGES = 64
"""Texts of about the same length that are read together: padding to the longest of all would double the tokens."""

SIDES = re.compile(r"\b(left|right)\b")
OPPOSITE_SIDE = {"left": "right", "right": "left"}

ReportLoss = Callable[[int, float], object]
TrainedModel = tuple[Any, Any]
"""A network and its processor."""


@dataclass(frozen=True)
class Example:
    """A training scene.

    Attributes:
        captions: True sentences about it.
        foils: (caption, foil) that differ in one place; the foil is false.
    """

    captions: tuple[str, ...]
    foils: tuple[tuple[str, str], ...]


def train_clip(
    pixels: torch.Tensor,
    examples: Sequence[Example],
    seen: PatchLabels,
    *,
    seed: int,
    steps: int,
    report: ReportLoss,
) -> TrainedModel:
    """Train a CLIP that learns to find a caption among the batch's, and to tell captions from their foils.

    Args:
        pixels: uint8 of shape (scenes, 3, SIDE, SIDE).
        examples: What is true and false of each scene.
        seen: What there is to be seen in each scene, which its vision tower learns to tell as well.
        seed: Seed of weights and batches.
        steps: Number of batches.
        report: Called with step and loss.
    """
    torch.manual_seed(seed)
    tokenizer = train_word_pieces(list_texts(examples), specials=CLIP, template="<|startoftext|> $A <|endoftext|>")
    network = transformers.CLIPModel(_build_clip(tokenizer))
    eyes = PatchClassifier(network.config.vision_config.hidden_size)
    generator = torch.Generator().manual_seed(seed)
    order = draw_batches(len(examples), 64, generator)

    def described(texts: Sequence[str], turned: Sequence[bool]) -> torch.Tensor:
        ids = tokenizer(mirror_texts(texts, turned), truncation=True)["input_ids"]
        order = sorted(range(len(ids)), key=lambda place: len(ids[place]))
        parts = [order[first : first + SIMILAR_IMAGES] for first in range(0, len(order), SIMILAR_IMAGES)]
        pooled = torch.cat([read([ids[place] for place in part]) for part in parts])
        return torch.nn.functional.normalize(network.text_projection(pooled[np.argsort(order)]), dim=-1)

    def read(ids: Sequence[Sequence[int]]) -> torch.Tensor:
        padded = tokenizer.pad({"input_ids": ids}, return_tensors="pt")
        found: torch.Tensor = network.text_model(**padded).pooler_output
        return found

    def loss(_: int) -> torch.Tensor:
        chosen = next(order)
        values, turned = normalise_pixels(pixels[chosen], generator)
        scenes = [examples[index] for index in chosen]
        pairs = [texts for _ in range(PAIRS) for texts in _draw_text_pairs(scenes, generator)]
        looked = network.vision_model(pixel_values=values)
        image = torch.nn.functional.normalize(network.visual_projection(looked.pooler_output), dim=-1)
        image = image * network.logit_scale.exp()
        logits = image @ described(_draw_captions(scenes, generator), turned).T
        told_apart = described(list(chain.from_iterable(pairs)), turned * len(pairs)).reshape(-1, 2, *image.shape)
        own = (told_apart * image).sum(dim=-1).transpose(1, 2).reshape(-1, 2)
        cross, right = torch.nn.functional.cross_entropy, torch.arange(len(chosen))
        found = (cross(logits, right) + cross(logits.T, right)) / 2 + 2 * cross(own, torch.zeros_like(own[:, 0]).long())
        told_of: torch.Tensor = eyes(looked.last_hidden_state[:, 1:], looked.pooler_output, seen.of(chosen, turned))
        return found + told_of / 2

    optimise(torch.nn.ModuleList([network, eyes]), loss, steps=steps, rate=1e-3, report=report)
    return network, transformers.CLIPProcessor(build_image_processor(transformers.CLIPImageProcessorPil), tokenizer)


def normalise_pixels(pixels: torch.Tensor, mirror: torch.Generator | None = None) -> tuple[torch.Tensor, list[bool]]:
    """Pixel values as the image processors make them, half of the images mirrored where a generator is given.

    Returns:
        float32 of the shape of `pixels`, and which images are mirrored.
    """
    values = pixels.float().div_(255).sub_(MEAN[0]).div_(DEVIATION[0])
    turned = torch.zeros(len(values), dtype=torch.bool)
    if mirror is not None:
        turned = torch.rand(len(values), generator=mirror) < 0.5
        values[turned] = values[turned].flip(-1)
    return values, turned.tolist()


def mirror_texts(texts: Sequence[str], turned: Sequence[bool]) -> list[str]:
    """Return the texts of mirrored images with left and right exchanged."""
    return [
        SIDES.sub(lambda found: OPPOSITE_SIDE[found.group()], text) if flip else text
        for text, flip in zip(texts, turned, strict=True)
    ]


def list_texts(examples: Sequence[Example]) -> list[str]:
    """Return every sentence of the examples, true or false."""
    return [said for entry in examples for said in (*entry.captions, *chain.from_iterable(entry.foils))]


def _draw_captions(examples: Sequence[Example], generator: torch.Generator) -> list[str]:
    """Draw a caption of each scene."""
    return [entry.captions[int(torch.randint(len(entry.captions), (1,), generator=generator))] for entry in examples]


def _draw_text_pairs(examples: Sequence[Example], generator: torch.Generator) -> tuple[list[str], list[str]]:
    """Draw a true and a false sentence of each scene that differ in one place."""
    drawn = [entry.foils[int(torch.randint(len(entry.foils), (1,), generator=generator))] for entry in examples]
    return [caption for caption, _ in drawn], [foil for _, foil in drawn]


def _build_clip(tokenizer: Any) -> Any:
    return transformers.CLIPConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": 80,
            "intermediate_size": 240,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "max_position_embeddings": 64,
            "bos_token_id": tokenizer.bos_token_id,
            "eos_token_id": tokenizer.eos_token_id,
            "pad_token_id": tokenizer.pad_token_id,
        },
        vision_config=build_vision_config(hidden=112, layers=3),
        projection_dim=80,
    )


def build_vision_config(*, hidden: int, layers: int) -> dict[str, Any]:
    """Build what a vision tower of the scenes is like: states of a size, so many layers."""
    return {
        "hidden_size": hidden,
        "intermediate_size": 3 * hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "image_size": SIDE,
        "patch_size": PATCH,
        "attention_dropout": 0.0,
    }


def build_image_processor(kind: Any) -> Any:
    """Build an image processor of a kind that makes pixel values as `normalised` does."""
    return kind(
        size={"height": SIDE, "width": SIDE},
        do_center_crop=False,
        image_mean=list(MEAN),
        image_std=list(DEVIATION),
    )
