"""Encoders of the scenes: a CLIP, and a BLIP that decides image-text matching."""

import re
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
import transformers

from waltz.scenes.lexicon import read_kinds
from waltz.scenes.training.examples import PATCH, SIDE, Example, PatchClassifier, PatchLabels
from waltz.scenes.training.loop import ReportLoss, TrainedModel, draw_batches, optimise, train_word_pieces

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
    network = transformers.CLIPModel(_build_clip_config(tokenizer))
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
        logits = image @ embed_texts(_draw_caption_texts(scenes, generator), mirrored).T
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


def _draw_caption_texts(examples: Sequence[Example], generator: torch.Generator) -> list[str]:
    """Draw a caption of each scene."""
    return [entry.captions[int(torch.randint(len(entry.captions), (1,), generator=generator))] for entry in examples]


def _draw_text_pairs(examples: Sequence[Example], generator: torch.Generator) -> tuple[list[str], list[str]]:
    """Draw a true and a false sentence of each scene that differ in one place."""
    pairs = [entry.foils[int(torch.randint(len(entry.foils), (1,), generator=generator))] for entry in examples]
    return [caption for caption, _ in pairs], [foil for _, foil in pairs]


def _build_clip_config(tokenizer: Any) -> Any:
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


MATCHER_LAYERS = 2
"""Layers of the vision tower that it uses."""
MATCHER_HIDDEN = 96
"""Size of its text states."""
BATCH_IMAGES = 24
"""Images of a batch."""
EXISTENCE, OTHER_PIECES = 2, 1
"""Pairs about each image of a batch: of existence, and of the other pieces."""
SHARPNESS = 4.0
"""Scale of the similarity of patches and nouns."""

Pair = tuple[list[int], list[int]]
"""Token ids of the true and the false sentence."""


def train_matcher(
    tower: Any,
    pixels: torch.Tensor,
    examples: Sequence[Example],
    labels: PatchLabels,
    *,
    seed: int,
    steps: int,
    report: ReportLoss,
) -> TrainedModel:
    """Train a BLIP with an image-text matching head: captions match; foils and other scenes' captions do not.

    An auxiliary loss aligns the patches with the nouns of what they show.

    Args:
        tower: The trained `CLIPVisionModel` whose first layers initialise the vision model.
        pixels: uint8 of shape (scenes, 3, SIDE, SIDE).
        examples: True and false sentences about each scene.
        labels: Patch labels of each scene.
        seed: Seed of weights and batches.
        steps: Number of batches.
        report: Called with step and loss.
    """
    torch.manual_seed(seed)
    tokenizer = train_word_pieces(list_texts(examples), specials=BLIP, template="[CLS] $A [SEP]")
    network = transformers.BlipForImageTextRetrieval(build_matcher_config(tokenizer, tower.config))
    imitate_tower(network.vision_model, tower, normalise_pixels(pixels[:200])[0])
    _initialise_matcher(network.text_encoder, _find_noun_ids(tokenizer))
    nouns = _find_noun_ids(tokenizer)
    generator = torch.Generator().manual_seed(seed)
    order = draw_batches(len(examples), BATCH_IMAGES, generator)
    pairs = [_encode_pairs(tokenizer, example) for example in examples]
    captions = [tokenizer(list(example.captions))["input_ids"] for example in examples]
    left_id, right_id = tokenizer.convert_tokens_to_ids(["left", "right"])
    cross = torch.nn.functional.cross_entropy

    def compute_match_logits(rows: Sequence[list[int]], image: torch.Tensor, is_mirrored: torch.Tensor) -> torch.Tensor:
        """Return the logits of no match and match; rows go through the images in turn."""
        batch = tokenizer.pad({"input_ids": list(rows)}, return_tensors="pt")
        ids, times = batch["input_ids"], len(rows) // len(image)
        is_swapped = is_mirrored.repeat(times)[:, None]
        ids = torch.where(
            is_swapped & (ids == left_id), right_id, torch.where(is_swapped & (ids == right_id), left_id, ids)
        )
        states = network.text_encoder(
            input_ids=ids, attention_mask=batch["attention_mask"], encoder_hidden_states=image.repeat(times, 1, 1)
        ).last_hidden_state
        match_logits: torch.Tensor = network.itm_head(states[:, 0])
        return match_logits

    def loss(_: int) -> torch.Tensor:
        indices = next(order)
        values, mirrored = normalise_pixels(pixels[indices], generator)
        is_mirrored = torch.tensor(mirrored)
        image = network.vision_model(pixel_values=values).last_hidden_state
        batch_pairs = [_draw_pairs(pairs[index], generator) for index in indices]
        rows = [
            ids
            for place in range(EXISTENCE + OTHER_PIECES)
            for side in (0, 1)
            for ids in (row[place][side] for row in batch_pairs)
        ]
        logits = compute_match_logits(rows, image, is_mirrored).reshape(-1, 2, len(indices), 2)
        batch_captions = [captions[index][_draw_index(captions[index], generator)] for index in indices]
        caption_logits = compute_match_logits(
            batch_captions + batch_captions[1:] + batch_captions[:1], image, is_mirrored
        )
        all_logits = torch.cat([logits, caption_logits.reshape(1, 2, len(indices), 2)])
        targets = torch.tensor([1, 0])[None, :, None].expand(all_logits.shape[:3])
        noun_embeddings = network.text_encoder.embeddings.word_embeddings.weight[nouns.T.flatten()]
        likeness = image[:, 1:, :MATCHER_HIDDEN] @ noun_embeddings.T * (SHARPNESS / MATCHER_HIDDEN**0.5)
        batch_labels = labels.select(indices, mirrored)
        is_plural = (
            torch.nn.functional.pad(batch_labels.counts > 1, (1, 0)).gather(1, batch_labels.kinds.flatten(1)).flatten()
        )
        noun_targets = (batch_labels.kinds.flatten() - 1 + is_plural * len(nouns)).masked_fill(
            batch_labels.kinds.flatten() == 0, -1
        )
        noun_loss = cross(likeness.flatten(0, 1), noun_targets, ignore_index=-1)
        return cross(all_logits.flatten(0, 2), targets.flatten()) + noun_loss / 2

    optimise(network, loss, steps=steps, rate=1.5e-3, report=report)
    return network, transformers.BlipProcessor(build_image_processor(transformers.BlipImageProcessorPil), tokenizer)


def build_matcher_config(tokenizer: Any, tower: Any) -> Any:
    """Build the configuration of a matcher with these words and the first layers of this tower."""
    return transformers.BlipConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": MATCHER_HIDDEN,
            "encoder_hidden_size": tower.hidden_size,
            "intermediate_size": 2 * MATCHER_HIDDEN,
            "projection_dim": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 8,
            "max_position_embeddings": 64,
            "hidden_dropout_prob": 0.0,
            "attention_probs_dropout_prob": 0.0,
            "bos_token_id": tokenizer.cls_token_id,
            "sep_token_id": tokenizer.sep_token_id,
            "eos_token_id": tokenizer.sep_token_id,
            "pad_token_id": tokenizer.pad_token_id,
        },
        vision_config={
            **build_vision_config(hidden=tower.hidden_size, layers=MATCHER_LAYERS),
            "hidden_act": tower.hidden_act,
            "layer_norm_eps": tower.layer_norm_eps,
        },
        image_text_hidden_size=64,
    )


def imitate_tower(vision: Any, tower: Any, images: torch.Tensor) -> None:
    """Initialise a BLIP's vision model with the first layers of a CLIP's.

    BLIP has no layer norm before its first layer: what is linear in CLIP's goes into the embeddings, and the deviation
    of a patch's embedding is taken to be the mean one over some images.
    """
    with torch.no_grad():
        tower_embeddings, vision_embeddings, norm = tower.embeddings, vision.embeddings, tower.pre_layrnorm
        spread = tower_embeddings(images)[:, 1:].std(dim=-1, correction=0).mean()
        positions = tower_embeddings.position_embedding.weight

        def centred(values: torch.Tensor) -> torch.Tensor:
            scale: torch.Tensor = norm.weight.reshape(-1, *[1] * (values.dim() - 1)) / spread
            return (values - values.mean(dim=0)) * scale

        vision_embeddings.patch_embedding.weight.copy_(centred(tower_embeddings.patch_embedding.weight))
        vision_embeddings.patch_embedding.bias.zero_()
        vision_embeddings.class_embedding.copy_(norm(tower_embeddings.class_embedding + positions[0]))
        vision_embeddings.position_embedding.zero_()
        vision_embeddings.position_embedding[0, 1:] = centred(positions[1:].T).T + norm.bias
        for layer, source in zip(vision.encoder.layers, tower.encoder.layers, strict=False):
            attention, source_attention = layer.self_attn, source.self_attn
            parts = (source_attention.q_proj, source_attention.k_proj, source_attention.v_proj)
            attention.qkv.weight.copy_(torch.cat([part.weight for part in parts]))
            attention.qkv.bias.copy_(torch.cat([part.bias for part in parts]))
            attention.projection.load_state_dict(source_attention.out_proj.state_dict())
            for name in ("layer_norm1", "layer_norm2", "mlp"):
                getattr(layer, name).load_state_dict(getattr(source, name).state_dict())


def _initialise_matcher(text: Any, nouns: torch.Tensor) -> None:
    """Initialise keys equal to queries, so that a word first attends to similar words and patches.

    Args:
        text: The text encoder.
        nouns: Ids of words with similar initial embeddings, of shape (kinds, 2).
    """
    with torch.no_grad():
        words = text.embeddings.word_embeddings.weight.normal_(0, 1)
        words[nouns[:, 1]] = words[nouns[:, 0]] + 0.3 * words[nouns[:, 1]]
        text.embeddings.position_embeddings.weight.normal_(0, 0.3)
        for layer in text.encoder.layer:
            for attention in (layer.attention.self, layer.crossattention.self):
                attention.query.weight.normal_(0, MATCHER_HIDDEN**-0.5)
                attention.key.weight.zero_()
                attention.key.weight[:, :MATCHER_HIDDEN] = attention.query.weight


def _find_noun_ids(tokenizer: Any) -> torch.Tensor:
    """Return the token ids of the singular and the plural of each kind, of shape (kinds, 2)."""
    return torch.tensor(
        [[tokenizer(noun)["input_ids"][1] for noun in (kind.name, kind.plural)] for kind in read_kinds().values()]
    )


def _encode_pairs(tokenizer: Any, example: Example) -> tuple[list[Pair], list[Pair]]:
    """Return the ids of a scene's pairs: of existence, and of the other pieces."""
    pairs: tuple[list[Pair], list[Pair]] = ([], [])
    for caption, foil in example.foils:
        true, false = tokenizer([caption, foil])["input_ids"]
        pairs[" no " not in caption and " no " not in foil].append((true, false))
    return pairs


def _draw_pairs(pairs: tuple[list[Pair], list[Pair]], generator: torch.Generator) -> list[Pair]:
    return [
        part[_draw_index(part, generator)]
        for part, count in zip(pairs, (EXISTENCE, OTHER_PIECES), strict=True)
        for _ in range(count)
    ]


def _draw_index(entries: Sequence[Any], generator: torch.Generator) -> int:
    return int(torch.randint(len(entries), (1,), generator=generator))
