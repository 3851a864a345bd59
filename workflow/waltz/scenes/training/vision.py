"""Image-text models of the scenes: CLIP, a BLIP matcher, a LLaVA."""

import re
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
import transformers

from waltz.scenes.training.examples import PATCH, SIDE, Example
from waltz.scenes.training.loop import ReportLoss, TrainedModel, draw_batches, optimise
from waltz.scenes.training.patch_labels import PatchClassifier, PatchLabels
from waltz.scenes.training.vocabulary import train_word_pieces

MEAN, DEVIATION = (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)
CLIP = {"pad_token": "[PAD]", "unk_token": "[UNK]", "bos_token": "<|startoftext|>", "eos_token": "<|endoftext|>"}
BLIP = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
LLAVA = {"pad_token": "<pad>", "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
IMAGE_TOKEN = "<image>"
PAIRS = 2
"""Pairs of caption and foil for each image of a CLIP batch."""
SIMILAR_IMAGES = 64
"""Texts of about the same length that are read together: padding to the longest of all would double the tokens."""

SIDES = re.compile(r"\b(left|right)\b")
OPPOSITE_SIDE = {"left": "right", "right": "left"}


def train_clip(
    pixels: torch.Tensor,
    examples: Sequence[Example],
    labels: PatchLabels,
    *,
    seed: int,
    steps: int,
    report: ReportLoss,
) -> TrainedModel:
    """Train a CLIP to retrieve captions within a batch and to distinguish captions from foils.

    Args:
        pixels: uint8 of shape (scenes, 3, SIDE, SIDE).
        examples: True and false sentences about each scene.
        labels: Patch labels of each scene, an auxiliary objective of the vision tower.
        seed: Seed of weights and batches.
        steps: Number of batches.
        report: Called with step and loss.
    """
    torch.manual_seed(seed)
    tokenizer = train_word_pieces(list_texts(examples), specials=CLIP, template="<|startoftext|> $A <|endoftext|>")
    network = transformers.CLIPModel(_build_clip(tokenizer))
    classifier = PatchClassifier(network.config.vision_config.hidden_size)
    generator = torch.Generator().manual_seed(seed)
    order = draw_batches(len(examples), 64, generator)

    def embed_texts(texts: Sequence[str], mirrored: Sequence[bool]) -> torch.Tensor:
        ids = tokenizer(mirror_texts(texts, mirrored), truncation=True)["input_ids"]
        order = sorted(range(len(ids)), key=lambda place: len(ids[place]))
        parts = [order[first : first + SIMILAR_IMAGES] for first in range(0, len(order), SIMILAR_IMAGES)]
        pooled = torch.cat([encode_texts([ids[place] for place in part]) for part in parts])
        return torch.nn.functional.normalize(network.text_projection(pooled[np.argsort(order)]), dim=-1)

    def encode_texts(ids: Sequence[Sequence[int]]) -> torch.Tensor:
        padded = tokenizer.pad({"input_ids": ids}, return_tensors="pt")
        pooled_states: torch.Tensor = network.text_model(**padded).pooler_output
        return pooled_states

    def loss(_: int) -> torch.Tensor:
        indices = next(order)
        values, mirrored = normalise_pixels(pixels[indices], generator)
        scenes = [examples[index] for index in indices]
        pairs = [texts for _ in range(PAIRS) for texts in _draw_text_pairs(scenes, generator)]
        vision_states = network.vision_model(pixel_values=values)
        image = torch.nn.functional.normalize(network.visual_projection(vision_states.pooler_output), dim=-1)
        image = image * network.logit_scale.exp()
        logits = image @ embed_texts(_draw_captions(scenes, generator), mirrored).T
        pair_embeddings = embed_texts(list(chain.from_iterable(pairs)), mirrored * len(pairs)).reshape(
            -1, 2, *image.shape
        )
        pair_logits = (pair_embeddings * image).sum(dim=-1).transpose(1, 2).reshape(-1, 2)
        cross, targets = torch.nn.functional.cross_entropy, torch.arange(len(indices))
        contrastive_loss = (cross(logits, targets) + cross(logits.T, targets)) / 2 + 2 * cross(
            pair_logits, torch.zeros_like(pair_logits[:, 0]).long()
        )
        patch_loss: torch.Tensor = classifier(
            vision_states.last_hidden_state[:, 1:], vision_states.pooler_output, labels.select(indices, mirrored)
        )
        return contrastive_loss + patch_loss / 2

    optimise(torch.nn.ModuleList([network, classifier]), loss, steps=steps, rate=1e-3, report=report)
    return network, transformers.CLIPProcessor(build_image_processor(transformers.CLIPImageProcessorPil), tokenizer)


def normalise_pixels(pixels: torch.Tensor, mirror: torch.Generator | None = None) -> tuple[torch.Tensor, list[bool]]:
    """Normalise pixels as the image processors do; mirror half of the images where a generator is passed.

    Returns:
        float32 of the shape of `pixels`, and which images are mirrored.
    """
    values = pixels.float().div_(255).sub_(MEAN[0]).div_(DEVIATION[0])
    mirrored = torch.zeros(len(values), dtype=torch.bool)
    if mirror is not None:
        mirrored = torch.rand(len(values), generator=mirror) < 0.5
        values[mirrored] = values[mirrored].flip(-1)
    return values, mirrored.tolist()


def mirror_texts(texts: Sequence[str], mirrored: Sequence[bool]) -> list[str]:
    """Return the texts of mirrored images with left and right exchanged."""
    return [
        SIDES.sub(lambda match: OPPOSITE_SIDE[match.group()], text) if is_mirrored else text
        for text, is_mirrored in zip(texts, mirrored, strict=True)
    ]


def list_texts(examples: Sequence[Example]) -> list[str]:
    """Return every sentence of the examples, true or false."""
    return [sentence for entry in examples for sentence in (*entry.captions, *chain.from_iterable(entry.foils))]


def _draw_captions(examples: Sequence[Example], generator: torch.Generator) -> list[str]:
    """Draw a caption of each scene."""
    return [entry.captions[int(torch.randint(len(entry.captions), (1,), generator=generator))] for entry in examples]


def _draw_text_pairs(examples: Sequence[Example], generator: torch.Generator) -> tuple[list[str], list[str]]:
    """Draw a true and a false sentence of each scene that differ in one place."""
    pairs = [entry.foils[int(torch.randint(len(entry.foils), (1,), generator=generator))] for entry in examples]
    return [caption for caption, _ in pairs], [foil for _, foil in pairs]


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
    """Build the configuration of a vision tower with a hidden size and a number of layers."""
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
    """Build an image processor that computes pixel values as `normalise_pixels` does."""
    return kind(
        size={"height": SIDE, "width": SIDE},
        do_center_crop=False,
        image_mean=list(MEAN),
        image_std=list(DEVIATION),
    )
