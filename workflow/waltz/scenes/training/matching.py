"""BLIP of the scenes, which decides image-text matching."""

from collections.abc import Sequence
from typing import Any

import torch
import transformers

from waltz.scenes.training.examples import Example
from waltz.scenes.training.loop import ReportLoss, TrainedModel, draw_batches, optimise
from waltz.scenes.training.patch_labels import PatchLabels
from waltz.scenes.training.vision import (
    BLIP,
    build_image_processor,
    build_vision_config,
    list_texts,
    normalise_pixels,
)
from waltz.scenes.training.vocabulary import train_word_pieces
from waltz.scenes.world.lexicon import read_kinds

LAYERS = 2
"""Layers of the vision tower that it uses."""
HIDDEN = 96
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
    network = transformers.BlipForImageTextRetrieval(build_config(tokenizer, tower.config))
    imitate_tower(network.vision_model, tower, normalise_pixels(pixels[:200])[0])
    _initialise_attention(network.text_encoder, _find_noun_ids(tokenizer))
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
        likeness = image[:, 1:, :HIDDEN] @ noun_embeddings.T * (SHARPNESS / HIDDEN**0.5)
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


def build_config(tokenizer: Any, tower: Any) -> Any:
    """Build the configuration of a matcher with these words and the first layers of this tower."""
    return transformers.BlipConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": HIDDEN,
            "encoder_hidden_size": tower.hidden_size,
            "intermediate_size": 2 * HIDDEN,
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
            **build_vision_config(hidden=tower.hidden_size, layers=LAYERS),
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


def _initialise_attention(text: Any, nouns: torch.Tensor) -> None:
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
                attention.query.weight.normal_(0, HIDDEN**-0.5)
                attention.key.weight.zero_()
                attention.key.weight[:, :HIDDEN] = attention.query.weight


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
