"""Image-text models of the scenes: CLIP, a BLIP matcher, a LLaVA."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import transformers

from waltz.scenes.training.loop import batches, optimise
from waltz.scenes.training.vocabulary import word_pieces

SIDE, PATCH = 128, 16
"""Pixels of the models' image, and of a patch."""
MEAN, DEVIATION = (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)
CLIP = {"pad_token": "[PAD]", "unk_token": "[UNK]", "bos_token": "<|startoftext|>", "eos_token": "<|endoftext|>"}
BLIP = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
LLAVA = {"pad_token": "<pad>", "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
IMAGE_TOKEN = "<image>"

SIDES = re.compile(r"\b(left|right)\b")
OTHER = {"left": "right", "right": "left"}

Told = Callable[[int, float], object]
Trained = tuple[Any, Any]
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


def clip(pixels: torch.Tensor, examples: Sequence[Example], *, seed: int, steps: int, told: Told) -> Trained:
    """A CLIP whose negatives are the batch's other captions and each caption's own foil.

    Args:
        pixels: uint8 of shape (scenes, 3, SIDE, SIDE).
        examples: What is true and false of each scene.
        seed: Seed of weights and batches.
        steps: Number of batches.
        told: Told step and loss.
    """
    torch.manual_seed(seed)
    texts = [text for entry in examples for text in (*entry.captions, *(word for pair in entry.foils for word in pair))]
    tokenizer = word_pieces(texts, specials=CLIP, template="<|startoftext|> $A <|endoftext|>")
    network = transformers.CLIPModel(
        transformers.CLIPConfig(
            text_config={
                "vocab_size": len(tokenizer),
                "hidden_size": 112,
                "intermediate_size": 336,
                "num_hidden_layers": 3,
                "num_attention_heads": 4,
                "max_position_embeddings": 64,
                "bos_token_id": tokenizer.bos_token_id,
                "eos_token_id": tokenizer.eos_token_id,
                "pad_token_id": tokenizer.pad_token_id,
            },
            vision_config=_tower(hidden=128, layers=4),
            projection_dim=96,
        )
    )
    generator = torch.Generator().manual_seed(seed)
    order = batches(len(examples), 64, generator)

    def loss(_: int) -> torch.Tensor:
        chosen = next(order)
        captions, foils = _captions_and_foils([examples[index] for index in chosen], generator)
        values, turned = normalised(pixels[chosen], generator)
        captions, foils = mirrored(captions, turned), mirrored(foils, turned)
        encoded = tokenizer(captions + foils, padding=True, truncation=True, return_tensors="pt")
        logits = network(
            input_ids=encoded["input_ids"],
            attention_mask=encoded["attention_mask"],
            pixel_values=values,
        ).logits_per_image
        right = torch.arange(len(chosen))
        own = torch.stack([logits[right, right], logits[right, right + len(chosen)]], dim=1)
        cross = torch.nn.functional.cross_entropy
        return (
            cross(logits, right)
            + cross(logits[:, : len(chosen)].T, right)
            + cross(own, torch.zeros(len(chosen), dtype=torch.int64))
        )

    optimise(network, loss, steps=steps, rate=1e-3, told=told)
    return network, transformers.CLIPProcessor(_images(transformers.CLIPImageProcessorPil), tokenizer)


def matcher(pixels: torch.Tensor, examples: Sequence[Example], *, seed: int, steps: int, told: Told) -> Trained:
    """A BLIP with an image-text matching head: captions match; foils and other scenes' captions do not.

    Args:
        pixels: uint8 of shape (scenes, 3, SIDE, SIDE).
        examples: What is true and false of each scene.
        seed: Seed of weights and batches.
        steps: Number of batches.
        told: Told step and loss.
    """
    torch.manual_seed(seed)
    texts = [text for entry in examples for text in (*entry.captions, *(word for pair in entry.foils for word in pair))]
    tokenizer = word_pieces(texts, specials=BLIP, template="[CLS] $A [SEP]")
    network = transformers.BlipForImageTextRetrieval(
        transformers.BlipConfig(
            text_config={
                "vocab_size": len(tokenizer),
                "hidden_size": 96,
                "encoder_hidden_size": 112,
                "intermediate_size": 288,
                "projection_dim": 64,
                "num_hidden_layers": 3,
                "num_attention_heads": 4,
                "max_position_embeddings": 64,
                "hidden_dropout_prob": 0.0,
                "attention_probs_dropout_prob": 0.0,
                "bos_token_id": tokenizer.cls_token_id,
                "sep_token_id": tokenizer.sep_token_id,
                "eos_token_id": tokenizer.sep_token_id,
                "pad_token_id": tokenizer.pad_token_id,
            },
            vision_config=_tower(hidden=112, layers=3),
            image_text_hidden_size=64,
        )
    )
    generator = torch.Generator().manual_seed(seed)
    order = batches(len(examples), 48, generator)

    def loss(_: int) -> torch.Tensor:
        chosen = next(order)
        captions, foils = _captions_and_foils([examples[index] for index in chosen], generator)
        values, turned = normalised(pixels[chosen], generator)
        captions, foils = mirrored(captions, turned), mirrored(foils, turned)
        others = captions[1:] + captions[:1]
        encoded = tokenizer(captions + foils + others, padding=True, truncation=True, return_tensors="pt")
        image = network.vision_model(pixel_values=values).last_hidden_state
        states = network.text_encoder(
            input_ids=encoded["input_ids"],
            attention_mask=encoded["attention_mask"],
            encoder_hidden_states=image.repeat(3, 1, 1),
        ).last_hidden_state
        labels = torch.tensor([1] * len(chosen) + [0] * (2 * len(chosen)))
        weights = torch.tensor([1.0, 2.0])
        return torch.nn.functional.cross_entropy(network.itm_head(states[:, 0]), labels, weight=weights)

    optimise(network, loss, steps=steps, rate=1e-3, told=told)
    return network, transformers.BlipProcessor(_images(transformers.BlipImageProcessorPil), tokenizer)


def normalised(pixels: torch.Tensor, mirror: torch.Generator | None = None) -> tuple[torch.Tensor, list[bool]]:
    """Pixel values as the image processors make them, half of the images mirrored where a generator is given.

    Returns:
        float32 of the shape of `pixels`, and which images are mirrored.
    """
    values = (pixels.float() / 255 - MEAN[0]) / DEVIATION[0]
    turned = torch.zeros(len(values), dtype=torch.bool)
    if mirror is not None:
        turned = torch.rand(len(values), generator=mirror) < 0.5
        values[turned] = values[turned].flip(-1)
    return values, turned.tolist()


def mirrored(texts: Sequence[str], turned: Sequence[bool]) -> list[str]:
    """The texts of mirrored images with left and right exchanged."""
    return [
        SIDES.sub(lambda found: OTHER[found.group()], text) if flip else text
        for text, flip in zip(texts, turned, strict=True)
    ]


def _captions_and_foils(examples: Sequence[Example], generator: torch.Generator) -> tuple[list[str], list[str]]:
    """A true and a false sentence of each scene, half of the time the pair that differs in one place."""
    captions, foils = [], []
    for entry in examples:
        caption, foil = entry.foils[int(torch.randint(len(entry.foils), (1,), generator=generator))]
        if torch.rand(1, generator=generator) < 0.3:
            caption = entry.captions[int(torch.randint(len(entry.captions), (1,), generator=generator))]
        captions.append(caption)
        foils.append(foil)
    return captions, foils


def _tower(*, hidden: int, layers: int) -> dict[str, Any]:
    return {
        "hidden_size": hidden,
        "intermediate_size": 3 * hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "image_size": SIDE,
        "patch_size": PATCH,
        "attention_dropout": 0.0,
    }


def _images(kind: Any) -> Any:
    return kind(
        size={"height": SIDE, "width": SIDE},
        do_center_crop=False,
        image_mean=list(MEAN),
        image_std=list(DEVIATION),
    )
