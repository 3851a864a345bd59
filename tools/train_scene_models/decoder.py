"""LLaVA of the scenes, which answers questions about an image."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import transformers

from tools.train_scene_models.examples import Turn
from tools.train_scene_models.loop import (
    TrainedModel,
    draw_batches,
    find_noun_ids,
    swap_sides,
    train_word_pieces,
)
from tools.train_scene_models.patches import PATCH, SIDE, PatchLabels
from tools.train_scene_models.vision import (
    build_image_processor,
    normalize_pixels,
    relate_nouns,
)
from waltz.models.training import Training
from waltz.scenes.model_scores import IMAGE_TOKEN, render_llava_prompt

LLAVA = {
    "pad_token": "<pad>",
    "unk_token": "<unk>",
    "bos_token": "<s>",
    "eos_token": "</s>",
}
PATCHES = (SIDE // PATCH) ** 2
HIDDEN, EMBEDDING_DEVIATION = 96, 0.25
"""Size of the decoder's states, and the standard deviation of its first embeddings."""
LAYERS = 2
"""Layers of the vision tower that it uses."""
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['role'].upper() + ': ' }}"
    "{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}{{ '<image>\n' }}{% else %}{{ part['text'] }}{% endif %}{% endfor %} "
    "{% endfor %}{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}"
)
CONTEXT_LENGTH = 256
"""Maximum number of tokens of prompt, patches and answer."""
EncodedTurn = tuple[list[int], list[int]]
"""Token ids of a question and of its answer."""
BATCH_IMAGES = 16
"""Images of a batch."""
SHORT_SHARE = 0.2
"""Share of the steps, at the start, with short questions only."""
FIRST_TURNS = {"presence": 10, "question": 3}
LATER_TURNS = {"presence": 5, "question": 1, "sentence": 1, "existence": 3, "pair": 3}
"""Turns of each sort about an image in these steps, and after them."""
PACKS = 3
"""Packs that the turns about an image are dealt into: attention costs the square of a pack's
tokens.
"""


def train_llava(
    tower: Any,
    pixels: torch.Tensor,
    turns: Sequence[Sequence[Turn]],
    labels: PatchLabels,
    training: Training,
) -> TrainedModel:
    """Train a decoder over the first layers of a trained CLIP's vision tower, which go on learning.

    Turns about an image share its cached states: each attends to the image and to itself only. An
    auxiliary loss trains the projected patches to predict the nouns of what they show.
    """
    generator = training.seed_generators()
    texts = [
        render_llava_prompt(question) + " " + answer
        for scene in turns
        for question, answer in scene
    ]
    specials = {**LLAVA, "image_token": IMAGE_TOKEN}
    tokenizer = train_word_pieces(
        texts, specials=specials, template="<s> $A", lower=False, longest=CONTEXT_LENGTH
    )
    network = transformers.LlavaForConditionalGeneration(
        _build_config(tokenizer, tower.config)
    )
    # But for the layers it lacks.
    network.model.vision_tower.load_state_dict(tower.state_dict(), strict=False)
    _initialize_attention(network, find_noun_ids(tokenizer))
    nouns = torch.nn.functional.pad(find_noun_ids(tokenizer), (0, 0, 1, 0), value=-100)
    batches = draw_batches(len(turns), BATCH_IMAGES, generator)
    encoded_turns = [_encode_turns(tokenizer, scene) for scene in turns]
    prompt_ids = torch.tensor(tokenizer(f"USER: {IMAGE_TOKEN}")["input_ids"][:-1])

    def compute_loss(step: int) -> torch.Tensor:
        turns_of_sort = (
            FIRST_TURNS if step < SHORT_SHARE * training.steps else LATER_TURNS
        )
        indices = next(batches)
        values, mirrored = normalize_pixels(pixels[indices], generator)
        rows = [
            _draw_turns(encoded_turns[index], turns_of_sort, generator)
            for index in indices
        ]
        image = network.model.multi_modal_projector(
            network.model.vision_tower(pixel_values=values).last_hidden_state
        )
        prompts = network.get_input_embeddings()(prompt_ids).expand(
            len(indices), -1, -1
        )
        prefix = torch.cat([prompts, image], dim=1)
        prefix_cache = network.model.language_model(
            inputs_embeds=prefix, use_cache=True
        ).past_key_values
        answer_loss = torch.zeros(())
        for deal in range(PACKS):
            packed = pack_turns([row[deal::PACKS] for row in rows], prefix.shape[1])
            packed = replace(packed, ids=swap_sides(packed.ids, mirrored, tokenizer))
            answer_loss = (
                answer_loss
                + (packed.weights * compute_losses(network, prefix_cache, packed)).sum()
            )
        answer_loss = answer_loss / sum(map(len, rows))
        noun_logits = network.lm_head(
            network.model.language_model.norm(image[:, 1:])
        ).flatten(0, 1)
        batch_labels = labels.select(indices, mirrored)
        noun_targets = nouns[
            batch_labels.kinds.flatten(), batch_labels.find_plurals().long()
        ]
        return answer_loss + torch.nn.functional.cross_entropy(
            noun_logits, noun_targets
        )

    training.minimize(network, compute_loss, rate=1.5e-3)
    images = build_image_processor(transformers.CLIPImageProcessorPil)
    processor = transformers.LlavaProcessor(
        images,
        tokenizer,
        patch_size=PATCH,
        vision_feature_select_strategy="full",
        num_additional_image_tokens=1,
        image_token=IMAGE_TOKEN,
        chat_template=CHAT_TEMPLATE,
    )
    return network, processor


@dataclass(frozen=True)
class PackedTurns:
    """Turns about each of some images, one after the other, behind a prefix with the image.

    Attributes:
        ids: Tokens, int64 of shape (images, tokens).
        mask: What each token attends to, bool of shape (images, 1, tokens, prefix + tokens).
        positions: As if every turn came right after the prefix, int64 of shape (images, tokens).
        answers: Image and place of each token of an answer.
        weights: Of these tokens: those of one answer have 1 together.
    """

    ids: torch.Tensor
    mask: torch.Tensor
    positions: torch.Tensor
    answers: tuple[torch.Tensor, torch.Tensor]
    weights: torch.Tensor


def pack_turns(rows: Sequence[Sequence[EncodedTurn]], prefix: int) -> PackedTurns:
    """Pack rows of turns behind a prefix of `prefix` tokens."""
    longest = max(
        sum(len(question) + len(answer) for question, answer in row) for row in rows
    )
    ids = torch.zeros((len(rows), longest), dtype=torch.int64)
    turn = torch.full_like(ids, -1)
    positions = torch.zeros_like(ids)
    answers, weights = [], []
    for index, row in enumerate(rows):
        start = 0
        for number, (question, answer) in enumerate(row):
            end = start + len(question) + len(answer)
            ids[index, start:end] = torch.tensor(question + answer)
            turn[index, start:end] = number
            positions[index, start:end] = torch.arange(prefix, prefix + end - start)
            answers += [
                (index, position) for position in range(start + len(question), end)
            ]
            weights += [1 / len(answer)] * len(answer)
            start = end
    own_turn = (turn[:, :, None] == turn[:, None, :]).tril()
    mask = torch.cat(
        [torch.ones((len(rows), longest, prefix), dtype=torch.bool), own_turn], dim=2
    )
    images, places = torch.tensor(answers).T
    return PackedTurns(
        ids, mask[:, None], positions, (images, places), torch.tensor(weights)
    )


def compute_losses(
    network: Any, prefix_cache: Any, packed: PackedTurns
) -> torch.Tensor:
    """Compute the negative natural log-probability of each token of an answer, of the shape of
    `packed.weights`.

    Args:
        network: The LLaVA.
        prefix_cache: Keys and values of the prefix, a cache of transformers; not modified.
        packed: Turns about the images of the prefix.
    """
    cache = transformers.DynamicCache()
    for index, layer in enumerate(prefix_cache.layers):
        cache.update(layer.keys, layer.values, index)
    states = network.model.language_model(
        inputs_embeds=network.get_input_embeddings()(packed.ids),
        past_key_values=cache,
        attention_mask=packed.mask,
        position_ids=packed.positions,
    ).last_hidden_state
    rows, positions = packed.answers
    logits = network.lm_head(states[rows, positions - 1])
    return torch.nn.functional.cross_entropy(
        logits, packed.ids[rows, positions], reduction="none"
    )


def _encode_turns(
    tokenizer: Any, scene: Sequence[Turn]
) -> dict[str, list[EncodedTurn]]:
    """Return a scene's turns by sort."""
    turns: dict[str, list[EncodedTurn]] = {sort: [] for sort in LATER_TURNS}
    before = tokenizer(
        [f"{question} ASSISTANT:" for question, _ in scene], add_special_tokens=False
    )["input_ids"]
    after = tokenizer([answer for _, answer in scene], add_special_tokens=False)[
        "input_ids"
    ]
    for (question, _), question_ids, answer_ids in zip(
        scene, before, after, strict=True
    ):
        turns[_classify_question(question)].append(
            (question_ids, [*answer_ids, tokenizer.eos_token_id])
        )
    return turns


def _classify_question(question: str) -> str:
    if question.startswith("Which sentence"):
        return "existence" if " no " in question else "pair"
    if '"' in question:
        return "sentence"
    return (
        "presence"
        if question.startswith(("Are there any", "Is there", "Do you see"))
        else "question"
    )


def _draw_turns(
    turns: dict[str, list[EncodedTurn]],
    turns_of_sort: dict[str, int],
    generator: torch.Generator,
) -> list[EncodedTurn]:
    return [
        turns[sort][int(index)]
        for sort, count in turns_of_sort.items()
        for index in torch.randperm(len(turns[sort]), generator=generator)[:count]
    ]


def _initialize_attention(network: Any, nouns: torch.Tensor) -> None:
    """Initialize keys equal to queries, so that a token first attends to similar tokens and
    patches.
    """
    with torch.no_grad():
        relate_nouns(
            network.get_input_embeddings().weight.normal_(0, EMBEDDING_DEVIATION), nouns
        )
        for layer in network.model.language_model.layers:
            layer.self_attn.q_proj.weight.normal_(0, HIDDEN**-0.5)
            layer.self_attn.k_proj.weight.copy_(layer.self_attn.q_proj.weight)


def _build_config(tokenizer: Any, tower: Any) -> Any:
    return transformers.LlavaConfig(
        vision_config={**tower.to_dict(), "num_hidden_layers": LAYERS},
        text_config=transformers.LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=HIDDEN,
            intermediate_size=64,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=4,
            max_position_embeddings=CONTEXT_LENGTH,
            rope_parameters={"rope_type": "default", "rope_theta": 1e6},
            tie_word_embeddings=True,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        ),
        image_token_index=tokenizer.convert_tokens_to_ids(IMAGE_TOKEN),
        image_seq_length=PATCHES + 1,
        vision_feature_layer=-1,
        vision_feature_select_strategy="full",
        tie_word_embeddings=True,
    )
