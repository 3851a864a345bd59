"""A LLaVA of the scenes, which answers questions about an image."""

from collections.abc import Sequence
from typing import Any

import torch
import transformers

from waltz.scenes.training.loop import batches, optimise
from waltz.scenes.training.vision import (
    IMAGE_TOKEN,
    LLAVA,
    PATCH,
    SIDE,
    Told,
    Trained,
    mirrored,
    normalised,
)
from waltz.scenes.training.vocabulary import word_pieces

PATCHES = (SIDE // PATCH) ** 2
CHAT = (
    "{% for message in messages %}{{ message['role'].upper() + ': ' }}"
    "{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}{{ '<image>\n' }}{% else %}{{ part['text'] }}{% endif %}{% endfor %} "
    "{% endfor %}{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}"
)
WINDOW = 256
"""Most tokens of prompt, patches and answer."""
Turn = tuple[str, str]
"""What is asked, what is answered."""


def prompt(question: str) -> str:
    """The text that asks a question about an image."""
    return f"USER: {IMAGE_TOKEN}\n{question} ASSISTANT:"


def llava(
    tower: Any,
    pixels: torch.Tensor,
    turns: Sequence[Sequence[Turn]],
    *,
    seed: int,
    steps: int,
    told: Told,
    start: Trained | None = None,
) -> Trained:
    """A decoder over the patches of a trained CLIP's vision tower, which goes on learning.

    Args:
        tower: The trained `CLIPVisionModel`.
        pixels: uint8 of shape (scenes, 3, SIDE, SIDE).
        turns: Questions and answers about each scene.
        seed: Seed of weights and batches.
        steps: Number of batches.
        told: Told step and loss.
        start: A trained LLaVA and its processor, to go on from; the tower is then its own.
    """
    torch.manual_seed(seed)
    if start is None:
        texts = [prompt(asked) + " " + answered for scene in turns for asked, answered in scene]
        specials = {**LLAVA, "image_token": IMAGE_TOKEN}
        tokenizer = word_pieces(texts, specials=specials, template="<s> $A", lower=False, longest=WINDOW)
        network = transformers.LlavaForConditionalGeneration(_config(tokenizer, tower.config))
        network.model.vision_tower.load_state_dict(tower.state_dict())
    else:
        network, tokenizer = start[0], start[1].tokenizer
    generator = torch.Generator().manual_seed(seed)
    order = batches(len(turns), 40, generator)

    def loss(_: int) -> torch.Tensor:
        chosen = next(order)
        drawn = [turns[index][int(torch.randint(len(turns[index]), (1,), generator=generator))] for index in chosen]
        values, turned = normalised(pixels[chosen], generator)
        asked = mirrored([turn[0] for turn in drawn], turned)
        answered = mirrored([turn[1] for turn in drawn], turned)
        ids, labels, mask = _rows(tokenizer, list(zip(asked, answered, strict=True)))
        found: torch.Tensor = network(
            input_ids=ids,
            attention_mask=mask,
            pixel_values=values,
            labels=labels,
        ).loss
        return found

    optimise(network, loss, steps=steps, rate=1e-3, told=told)
    return network, processor(tokenizer)


def processor(tokenizer: Any) -> Any:
    """The LLaVA processor of a tokenizer of the scenes."""
    images = transformers.CLIPImageProcessorPil(
        size={"height": SIDE, "width": SIDE},
        do_center_crop=False,
        image_mean=[0.5] * 3,
        image_std=[0.5] * 3,
    )
    return transformers.LlavaProcessor(
        images,
        tokenizer,
        patch_size=PATCH,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        image_token=IMAGE_TOKEN,
        chat_template=CHAT,
    )


def _config(tokenizer: Any, tower: Any) -> Any:
    return transformers.LlavaConfig(
        vision_config=tower,
        text_config=transformers.LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=112,
            intermediate_size=280,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=4,
            max_position_embeddings=WINDOW,
            tie_word_embeddings=True,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        ),
        image_token_index=tokenizer.convert_tokens_to_ids(IMAGE_TOKEN),
        image_seq_length=PATCHES,
        vision_feature_layer=-1,
        vision_feature_select_strategy="default",
        tie_word_embeddings=True,
    )


def _rows(tokenizer: Any, turns: Sequence[Turn]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Ids, labels (the answer and the end only) and mask, padded at the end."""
    rows = []
    for asked, answered in turns:
        before = tokenizer(prompt(asked).replace(IMAGE_TOKEN, IMAGE_TOKEN * PATCHES))["input_ids"]
        after = [*tokenizer(answered, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
        rows.append((before, after))
    longest = max(len(before) + len(after) for before, after in rows)
    ids = torch.full((len(rows), longest), tokenizer.pad_token_id)
    labels = torch.full_like(ids, -100)
    mask = torch.zeros_like(ids)
    for row, (before, after) in enumerate(rows):
        end = len(before) + len(after)
        ids[row, :end] = torch.tensor(before + after)
        labels[row, len(before) : end] = torch.tensor(after)
        mask[row, :end] = 1
    return ids, labels, mask
