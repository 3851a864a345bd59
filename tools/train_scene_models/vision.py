"""Encoders of the scenes: a CLIP, and a BLIP that decides image-text matching."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
import transformers

from tools.train_scene_models.examples import Example
from tools.train_scene_models.loop import (
    TrainedModel,
    draw_batches,
    draw_entry,
    find_noun_ids,
    swap_sides,
    train_word_pieces,
)
from tools.train_scene_models.patches import PATCH, SIDE, PatchClassifier, PatchLabels
from tools.train_scene_models.text import BERT, BERT_ONE
from waltz.models.training import Training

MEAN, DEVIATION = 0.5, 0.5
"""Of each channel, by which pixels are normalized."""
CLIP = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "bos_token": "<|startoftext|>",
    "eos_token": "<|endoftext|>",
}
PAIRS = 2
"""Pairs of caption and foil for each image of a CLIP batch."""
SIMILAR_TEXTS = 64
"""Texts of about the same length that are read together: padding to the longest of all would double
the tokens.
"""


def train_clip(
    pixels: torch.Tensor,
    examples: Sequence[Example],
    labels: PatchLabels,
    training: Training,
) -> TrainedModel:
    """Train a CLIP to retrieve captions within a batch and to distinguish captions from foils.

    An auxiliary loss trains the vision tower to predict the patch labels.
    """
    generator = training.seed_generators()
    tokenizer = train_word_pieces(
        _list_texts(examples),
        specials=CLIP,
        template="<|startoftext|> $A <|endoftext|>",
    )
    network = transformers.CLIPModel(_build_clip_config(tokenizer))
    classifier = PatchClassifier(network.config.vision_config.hidden_size)
    batches = draw_batches(len(examples), 64, generator)
    cross = torch.nn.functional.cross_entropy

    def embed_texts(texts: Sequence[str], mirrored: Sequence[bool]) -> torch.Tensor:
        ids = tokenizer(list(texts), truncation=True)["input_ids"]
        order = sorted(range(len(ids)), key=lambda index: len(ids[index]))
        pooled = []
        for first in range(0, len(order), SIMILAR_TEXTS):
            part = order[first : first + SIMILAR_TEXTS]
            batch = tokenizer.pad(
                {"input_ids": [ids[index] for index in part]}, return_tensors="pt"
            )
            batch["input_ids"] = swap_sides(
                batch["input_ids"], [mirrored[index] for index in part], tokenizer
            )
            pooled.append(network.text_model(**batch).pooler_output)
        return torch.nn.functional.normalize(
            network.text_projection(torch.cat(pooled)[np.argsort(order)]), dim=-1
        )

    def compute_loss(_: int) -> torch.Tensor:
        indices = next(batches)
        values, mirrored = normalize_pixels(pixels[indices], generator)
        scenes = [examples[index] for index in indices]
        pairs = [
            [draw_entry(scene.foils, generator) for scene in scenes]
            for _ in range(PAIRS)
        ]
        texts = [pair[side] for part in pairs for side in (0, 1) for pair in part]
        vision_states = network.vision_model(pixel_values=values)
        image = torch.nn.functional.normalize(
            network.visual_projection(vision_states.pooler_output), dim=-1
        )
        image = image * network.logit_scale.exp()
        captions = [draw_entry(scene.captions, generator) for scene in scenes]
        logits = image @ embed_texts(captions, mirrored).T
        pair_embeddings = embed_texts(texts, mirrored * 2 * PAIRS).reshape(
            -1, 2, *image.shape
        )
        pair_logits = (
            (pair_embeddings * image).sum(dim=-1).transpose(1, 2).reshape(-1, 2)
        )
        targets = torch.arange(len(indices))
        contrastive_loss = (
            cross(logits, targets) + cross(logits.T, targets)
        ) / 2 + 2 * cross(pair_logits, torch.zeros_like(pair_logits[:, 0]).long())
        patch_loss: torch.Tensor = classifier(
            vision_states.last_hidden_state[:, 1:],
            vision_states.pooler_output,
            labels.select(indices, mirrored),
        )
        return contrastive_loss + patch_loss / 2

    training.minimize(
        torch.nn.ModuleList([network, classifier]), compute_loss, rate=1e-3
    )
    return network, transformers.CLIPProcessor(
        build_image_processor(transformers.CLIPImageProcessorPil), tokenizer
    )


def normalize_pixels(
    pixels: torch.Tensor, mirror: torch.Generator | None = None
) -> tuple[torch.Tensor, list[bool]]:
    """Normalize pixels as the image processors do; mirror half of the images where a generator is
    passed.

    Returns:
        float32 of the shape of `pixels`, and which images are mirrored.
    """
    values = pixels.float().div_(255).sub_(MEAN).div_(DEVIATION)
    mirrored = torch.zeros(len(values), dtype=torch.bool)
    if mirror is not None:
        mirrored = torch.rand(len(values), generator=mirror) < 0.5
        values[mirrored] = values[mirrored].flip(-1)
    return values, mirrored.tolist()


def _list_texts(examples: Sequence[Example]) -> list[str]:
    """Return every sentence of the examples, true or false."""
    return [
        sentence
        for entry in examples
        for sentence in (*entry.captions, *chain.from_iterable(entry.foils))
    ]


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
    """Build an image processor that computes pixel values as `normalize_pixels` does."""
    size = {"height": SIDE, "width": SIDE}
    return kind(
        size=size,
        do_center_crop=False,
        image_mean=[MEAN] * 3,
        image_std=[DEVIATION] * 3,
    )


MATCHER_LAYERS = 2
"""Layers of the vision tower that the matcher uses."""
MATCHER_HIDDEN = 96
"""Size of its text states."""
BATCH_IMAGES = 24
"""Images of a batch."""
PAIRS_OF_SORT = (2, 1)
"""Pairs about each image of a batch: of existence, and of the other pieces."""
SHARPNESS = 4.0
"""Scale of the similarity of patches and nouns."""


def train_matcher(
    tower: Any,
    pixels: torch.Tensor,
    examples: Sequence[Example],
    labels: PatchLabels,
    training: Training,
) -> TrainedModel:
    """Train a BLIP with an image-text matching head: captions match; foils and other scenes'
    captions do not.

    The first layers of a trained CLIP's vision tower initialize its own. An auxiliary loss aligns
    the patches with the nouns of what they show.
    """
    generator = training.seed_generators()
    tokenizer = train_word_pieces(
        _list_texts(examples), specials=BERT, template=BERT_ONE
    )
    network = transformers.BlipForImageTextRetrieval(
        build_matcher_config(tokenizer, tower.config)
    )
    imitate_tower(network.vision_model, tower, normalize_pixels(pixels[:200])[0])
    nouns = find_noun_ids(tokenizer)
    _initialize_attention(network.text_encoder, nouns)
    batches = draw_batches(len(examples), BATCH_IMAGES, generator)
    pairs = [_encode_pairs(tokenizer, example) for example in examples]
    captions = [tokenizer(list(example.captions))["input_ids"] for example in examples]
    cross = torch.nn.functional.cross_entropy

    def compute_match_logits(
        rows: Sequence[list[int]], image: torch.Tensor, mirrored: list[bool]
    ) -> torch.Tensor:
        """Return the logits of no match and match; rows go through the images in turn."""
        batch, times = (
            tokenizer.pad({"input_ids": list(rows)}, return_tensors="pt"),
            len(rows) // len(image),
        )
        states = network.text_encoder(
            input_ids=swap_sides(batch["input_ids"], mirrored * times, tokenizer),
            attention_mask=batch["attention_mask"],
            encoder_hidden_states=image.repeat(times, 1, 1),
        ).last_hidden_state
        return network.itm_head(states[:, 0]).reshape(-1, 2, len(image), 2)  # type: ignore[no-any-return]

    def compute_loss(_: int) -> torch.Tensor:
        indices = next(batches)
        values, mirrored = normalize_pixels(pixels[indices], generator)
        image = network.vision_model(pixel_values=values).last_hidden_state
        batch_pairs = [_draw_pairs(pairs[index], generator) for index in indices]
        rows = [
            row[place][side]
            for place in range(sum(PAIRS_OF_SORT))
            for side in (0, 1)
            for row in batch_pairs
        ]
        pair_logits = compute_match_logits(rows, image, mirrored)
        own = [draw_entry(captions[index], generator) for index in indices]
        caption_logits = compute_match_logits(own + own[1:] + own[:1], image, mirrored)
        logits = torch.cat([pair_logits, caption_logits])
        targets = torch.tensor([1, 0])[None, :, None].expand(logits.shape[:3])
        batch_labels = labels.select(indices, mirrored)
        noun_embeddings = network.text_encoder.embeddings.word_embeddings.weight[
            nouns.T.flatten()
        ]
        likeness = (
            image[:, 1:, :MATCHER_HIDDEN]
            @ noun_embeddings.T
            * (SHARPNESS / MATCHER_HIDDEN**0.5)
        )
        kinds, is_plural = batch_labels.kinds.flatten(), batch_labels.find_plurals()
        noun_targets = (kinds - 1 + is_plural * len(nouns)).masked_fill(kinds == 0, -1)
        noun_loss = cross(likeness.flatten(0, 1), noun_targets, ignore_index=-1)
        return cross(logits.flatten(0, 2), targets.flatten()) + noun_loss / 2

    training.minimize(network, compute_loss, rate=1.5e-3)
    return network, transformers.BlipProcessor(
        build_image_processor(transformers.BlipImageProcessorPil), tokenizer
    )


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
    """Initialize a BLIP's vision model with the first layers of a CLIP's.

    BLIP has no layer norm before its first layer: what is linear in CLIP's goes into the
    embeddings, and the deviation of a patch's embedding is taken to be the mean one over some
    images.
    """
    with torch.no_grad():
        tower_embeddings, vision_embeddings, norm = (
            tower.embeddings,
            vision.embeddings,
            tower.pre_layrnorm,
        )
        spread = tower_embeddings(images)[:, 1:].std(dim=-1, correction=0).mean()
        positions = tower_embeddings.position_embedding.weight

        def center(values: torch.Tensor) -> torch.Tensor:
            scale: torch.Tensor = (
                norm.weight.reshape(-1, *[1] * (values.dim() - 1)) / spread
            )
            return (values - values.mean(dim=0)) * scale

        vision_embeddings.patch_embedding.weight.copy_(
            center(tower_embeddings.patch_embedding.weight)
        )
        vision_embeddings.patch_embedding.bias.zero_()
        vision_embeddings.class_embedding.copy_(
            norm(tower_embeddings.class_embedding + positions[0])
        )
        vision_embeddings.position_embedding.zero_()
        vision_embeddings.position_embedding[0, 1:] = (
            center(positions[1:].T).T + norm.bias
        )
        for layer, source in zip(
            vision.encoder.layers, tower.encoder.layers, strict=False
        ):
            attention, source_attention = layer.self_attn, source.self_attn
            parts = (
                source_attention.q_proj,
                source_attention.k_proj,
                source_attention.v_proj,
            )
            attention.qkv.weight.copy_(torch.cat([part.weight for part in parts]))
            attention.qkv.bias.copy_(torch.cat([part.bias for part in parts]))
            attention.projection.load_state_dict(source_attention.out_proj.state_dict())
            for name in ("layer_norm1", "layer_norm2", "mlp"):
                getattr(layer, name).load_state_dict(getattr(source, name).state_dict())


def _initialize_attention(text: Any, nouns: torch.Tensor) -> None:
    """Initialize keys equal to queries, so that a word first attends to similar words and patches."""
    with torch.no_grad():
        relate_nouns(text.embeddings.word_embeddings.weight.normal_(0, 1), nouns)
        text.embeddings.position_embeddings.weight.normal_(0, 0.3)
        for layer in text.encoder.layer:
            for attention in (layer.attention.self, layer.crossattention.self):
                attention.query.weight.normal_(0, MATCHER_HIDDEN**-0.5)
                attention.key.weight.zero_()
                attention.key.weight[:, :MATCHER_HIDDEN] = attention.query.weight


def relate_nouns(embeddings: torch.Tensor, nouns: torch.Tensor) -> None:
    """Make the embedding of each plural (second of `nouns`) similar to that of its singular
    (first), in place.
    """
    embeddings[nouns[:, 1]] = embeddings[nouns[:, 0]] + 0.3 * embeddings[nouns[:, 1]]


Pair = list[list[int]]
"""Token ids of a true and a false sentence."""


def _encode_pairs(tokenizer: Any, example: Example) -> tuple[list[Pair], list[Pair]]:
    """Return a scene's pairs: of existence, and of the other pieces."""
    pairs: tuple[list[Pair], list[Pair]] = ([], [])
    for caption, foil in example.foils:
        pairs[" no " not in caption and " no " not in foil].append(
            tokenizer([caption, foil])["input_ids"]
        )
    return pairs


def _draw_pairs(
    pairs: tuple[list[Pair], list[Pair]], generator: torch.Generator
) -> list[Pair]:
    return [
        draw_entry(part, generator)
        for part, count in zip(pairs, PAIRS_OF_SORT, strict=True)
        for _ in range(count)
    ]
