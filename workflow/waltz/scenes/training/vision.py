"""Image-text models of the scenes: CLIP, a BLIP matcher, a LLaVA."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
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
PAIRS = 2
"""Pairs of caption and foil that each image of a CLIP batch is asked about."""

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


def clip(
    pixels: torch.Tensor,
    examples: Sequence[Example],
    *,
    seed: int,
    steps: int,
    told: Told,
    start: Trained | None = None,
) -> Trained:
    """A CLIP that learns to find a caption among the batch's, and to tell captions from their foils.

    Args:
        pixels: uint8 of shape (scenes, 3, SIDE, SIDE).
        examples: What is true and false of each scene.
        seed: Seed of weights and batches.
        steps: Number of batches.
        told: Told step and loss.
        start: A trained CLIP and its processor, to go on from.
    """
    torch.manual_seed(seed)
    if start is None:
        texts = [
            said for entry in examples for said in (*entry.captions, *(word for pair in entry.foils for word in pair))
        ]
        tokenizer = word_pieces(texts, specials=CLIP, template="<|startoftext|> $A <|endoftext|>")
        network = transformers.CLIPModel(_clip(tokenizer))
    else:
        network, tokenizer = start[0], start[1].tokenizer
    generator = torch.Generator().manual_seed(seed)
    order = batches(len(examples), 64, generator)

    def loss(_: int) -> torch.Tensor:
        chosen = next(order)
        values, turned = normalised(pixels[chosen], generator)
        scenes = [examples[index] for index in chosen]
        pairs = [_pairs(scenes, generator) for _ in range(PAIRS)]
        told_apart = [texts for captions, foils in pairs for texts in (captions, foils)]
        texts = [text for part in (_captions(scenes, generator), *told_apart) for text in mirrored(part, turned)]
        encoded = tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
        logits = network(
            input_ids=encoded["input_ids"], attention_mask=encoded["attention_mask"], pixel_values=values
        ).logits_per_image.unflatten(1, (1 + 2 * PAIRS, len(chosen)))
        right = torch.arange(len(chosen))
        cross = torch.nn.functional.cross_entropy
        retrieval = cross(logits[:, 0], right) + cross(logits[:, 0].T, right)
        own = logits[right, 1:, right].reshape(-1, 2)
        return retrieval / 2 + 2 * cross(own, torch.zeros(len(own), dtype=torch.int64))

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
    tokenizer = word_pieces(_said(examples), specials=BLIP, template="[CLS] $A [SEP]")
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
        values, turned = normalised(pixels[chosen], generator)
        scenes = [examples[index] for index in chosen]
        captions, foils = _pairs(scenes, generator)
        described = _captions(scenes, generator)
        texts = [
            text
            for part in (captions, described, foils, described[1:] + described[:1])
            for text in mirrored(part, turned)
        ]
        encoded = tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
        image = network.vision_model(pixel_values=values).last_hidden_state
        states = network.text_encoder(
            input_ids=encoded["input_ids"],
            attention_mask=encoded["attention_mask"],
            encoder_hidden_states=image.repeat(4, 1, 1),
        ).last_hidden_state
        labels = torch.tensor([1, 1, 0, 0]).repeat_interleave(len(chosen))
        return torch.nn.functional.cross_entropy(network.itm_head(states[:, 0]), labels)

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


def _said(examples: Sequence[Example]) -> list[str]:
    """Every sentence of the examples, true or false."""
    return [said for entry in examples for said in (*entry.captions, *chain.from_iterable(entry.foils))]


def _captions(examples: Sequence[Example], generator: torch.Generator) -> list[str]:
    """A caption of each scene."""
    return [entry.captions[int(torch.randint(len(entry.captions), (1,), generator=generator))] for entry in examples]


def _pairs(examples: Sequence[Example], generator: torch.Generator) -> tuple[list[str], list[str]]:
    """A true and a false sentence of each scene that differ in one place."""
    drawn = [entry.foils[int(torch.randint(len(entry.foils), (1,), generator=generator))] for entry in examples]
    return [caption for caption, _ in drawn], [foil for _, foil in drawn]


def _clip(tokenizer: Any) -> Any:
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
        vision_config=_tower(hidden=112, layers=3),
        projection_dim=80,
    )


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
