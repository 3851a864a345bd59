"""Generated tokens."""

import numpy as np
import pytest
import torch
from PIL import Image

from stand_ins.models import tiny_decoders
from waltz.models.decoders.continuations import (
    FIRST_STEP,
    choose_token,
    get_published_sampling,
    score_targets,
)
from waltz.models.decoders.decoder import Sampling

INSTRUCTION = "what is this ? there are six zebras on the table"

torch.set_num_threads(1)  # tiny batches: threads cost more than they give
TEXTS = [
    "a man rides a horse",
    "what is this ? ( A ) a cat",
    "a dog",
    "there are six zebras on the table and a ball .",
]


@torch.inference_mode()
def by_hand(decoder, ids, most):
    """The most likely token after all tokens so far, again and again."""
    token_ids = []
    for _ in range(most):
        logits = decoder.network.model(
            input_ids=torch.tensor([[*ids, *token_ids]])
        ).logits[0, -1]
        if int(logits.argmax()) in decoder.ends:
            break
        token_ids.append(int(logits.argmax()))
    return tuple(token_ids)


@pytest.mark.parametrize(
    "kind", ["llama", "gpt2", "openai-gpt", "bloom", "falcon", "mistral"]
)
def test_each_token_is_the_likeliest_and_neighbors_change_nothing(kind):
    decoder = tiny_decoders.causal(kind)
    prompts = [decoder.build_prompt(text) for text in [*TEXTS, TEXTS[0]]]
    together = decoder.generate(prompts, [None] * 5, 9, None, [0] * 5)
    assert together == [by_hand(decoder, prompt.ids, 9) for prompt in prompts]
    assert together[0] == together[4]
    assert len(set(together)) >= 3
    alone = [decoder.generate([prompt], [None], 9, None, [0])[0] for prompt in prompts]
    assert together == alone
    object.__setattr__(decoder, "positions_per_batch", 20)
    assert decoder.generate(prompts, [None] * 5, 9, None, [0] * 5) == alone


def test_an_answer_ends_at_an_end_token_and_at_the_end_of_the_window():
    decoder = tiny_decoders.causal("llama")
    prompt = decoder.build_prompt(TEXTS[0])
    generated = decoder.generate([prompt], [None], 9, None, [0])[0]
    object.__setattr__(decoder, "ends", frozenset({generated[3]}))
    assert (
        decoder.generate([prompt], [None], 9, None, [0])[0]
        == generated[: generated.index(generated[3])]
    )
    object.__setattr__(decoder, "ends", frozenset())
    object.__setattr__(decoder, "window", len(prompt.ids) + 2)
    assert decoder.generate([prompt], [None], 9, None, [0])[0] == generated[:2]
    object.__setattr__(decoder, "window", len(prompt.ids))
    assert decoder.generate([prompt], [None], 9, None, [0])[0] == ()


def test_the_settings_of_a_checkpoint_change_nothing():
    decoder = tiny_decoders.causal("llama")
    prompt = decoder.build_prompt(TEXTS[0])
    plain = decoder.generate([prompt], [None], 9, None, [0])
    decoder.network.model.generation_config.update(
        do_sample=True, repetition_penalty=9.0, no_repeat_ngram_size=1
    )
    assert decoder.generate([prompt], [None], 9, None, [0]) == plain


def test_draws_belong_to_their_seed_alone():
    decoder = tiny_decoders.causal("llama")
    prompts, sampling = (
        [decoder.build_prompt(text) for text in TEXTS],
        Sampling(temperature=1.5, top_k=20, top_p=0.9),
    )
    drawn = decoder.generate(prompts, [None] * 4, 9, sampling, [5, 6, 7, 8])
    assert drawn[2:] == decoder.generate(prompts[2:], [None] * 2, 9, sampling, [7, 8])
    assert drawn[::-1] == decoder.generate(
        prompts[::-1], [None] * 4, 9, sampling, [8, 7, 6, 5]
    )
    others = decoder.generate(prompts, [None] * 4, 9, sampling, [9, 10, 11, 12])
    assert all(one != other for one, other in zip(drawn, others, strict=True))


def test_draws_have_the_probabilities_of_the_model():
    logits = torch.tensor([2.0, 1.0, 0.0, -1.0, -9.0])
    draws = torch.Generator().manual_seed(0)
    for sampling, expected in (
        (Sampling(temperature=0.5), torch.softmax(logits / 0.5, dim=0)),
        (Sampling(top_k=2), torch.softmax(logits[:2], dim=0)),
        # 0.64 of the first is not enough.
        (
            Sampling(top_p=0.7),
            torch.softmax(logits[:2], dim=0),
        ),
    ):
        counts = torch.zeros(5)
        for _ in range(1500):
            uniform = torch.rand(5, generator=draws, dtype=torch.float64)
            counts[
                choose_token(logits, sampling, -torch.log(-torch.log(uniform)))[0]
            ] += 1
        shares = counts / 1500
        assert (shares[: len(expected)] - expected).abs().max() < 0.04
        assert shares[len(expected) :].sum() == 0


def test_a_choice_that_rounding_could_change_is_not_sure():
    assert choose_token(torch.tensor([1.0, 0.5]), None, None) == (0, True)
    assert choose_token(torch.tensor([1.0, 1.0 + 1e-7]), None, None)[1] is False
    logits, noise = (
        torch.tensor([3.0, 1.0, 1.0 + 1e-7]),
        torch.zeros(3, dtype=torch.float64),
    )
    assert choose_token(logits, Sampling(top_k=1), noise) == (0, True)
    # Which of two belongs to the best two.
    assert choose_token(logits, Sampling(top_k=2), noise)[1] is False
    share = float(torch.softmax(logits.double(), dim=0)[0])
    # Whether the first is enough.
    assert choose_token(logits, Sampling(top_p=share + 1e-9), noise)[1] is False


def test_a_near_tie_is_decided_by_the_row_alone(monkeypatch):
    decoder = tiny_decoders.causal("llama")
    prompts = [decoder.build_prompt(text) for text in TEXTS]
    plain = decoder.generate(prompts, [None] * 4, 5, None, [0] * 4)
    # Every choice is a near tie.
    monkeypatch.setattr("waltz.models.decoders.continuations.ROUNDING_UNITS", 1e12)
    requests = []
    read = type(decoder.network).compute_logits
    monkeypatch.setattr(
        type(decoder.network),
        "compute_logits",
        lambda network, request: (
            requests.append(request.ids.shape) or read(network, request)
        ),
    )
    assert decoder.generate(prompts, [None] * 4, 5, None, [0] * 4) == plain
    assert sum(rows == 1 and length > 5 for rows, length in requests) >= 20 - 4


@pytest.mark.parametrize("name", list(tiny_decoders.SEEING))
def test_models_that_see_say_what_their_own_forward_pass_makes_likeliest(name):
    decoder = tiny_decoders.SEEING[name]()
    image = Image.effect_noise((61, 40), 90).convert("RGB")
    pictures = [
        decoder.prepare_image(image),
        decoder.prepare_image(image.rotate(180)),
        None,
    ]
    prompts = [
        decoder.build_prompt(f"{decoder.placeholder} USER : what is this ?")
    ] * 2 + [decoder.build_prompt("a dog")]
    generated = decoder.generate(prompts, pictures, 4, None, [0] * 3)
    for prompt, picture, answer in zip(
        prompts[:2], pictures[:2], generated[:2], strict=True
    ):
        given = {
            key: value
            for key, value in decoder._process(prompt.text, picture.image).items()
            if torch.is_tensor(value)
        }
        ids, token_ids = given["input_ids"], []
        for _ in range(4):
            given["input_ids"] = torch.cat(
                [ids, torch.tensor([token_ids], dtype=torch.long)], dim=1
            )
            given["attention_mask"] = torch.ones_like(given["input_ids"])
            if "mm_token_type_ids" in given:
                given["mm_token_type_ids"] = (
                    given["input_ids"] == decoder.image_id
                ).int()
            with torch.inference_mode():
                token = int(decoder.network.model(**given).logits[0, -1].argmax())
            if token in decoder.ends:
                break
            token_ids.append(token)
        assert answer == tuple(token_ids)
    assert (
        decoder.generate(prompts[::-1], pictures[::-1], 4, None, [0] * 3)
        == generated[::-1]
    )


def test_published_draws_take_what_the_checkpoint_says_and_the_best_50():
    decoder = tiny_decoders.causal("llama")
    decoder.network.model.generation_config.temperature = 0.7
    assert get_published_sampling(decoder) == Sampling(
        temperature=0.7, top_k=50, top_p=1.0
    )


def record_shapes(decoder, monkeypatch):
    """Return a list that gets the shape of each pass's ids."""
    shapes = []
    read = type(decoder.network).compute_logits
    monkeypatch.setattr(
        type(decoder.network),
        "compute_logits",
        lambda network, request: (
            shapes.append(tuple(request.ids.shape)) or read(network, request)
        ),
    )
    return shapes


@pytest.mark.parametrize("value", ["log-probability", FIRST_STEP])
@pytest.mark.parametrize(
    "name",
    [*tiny_decoders.SEEING, "llama", "gpt2", "bloom"],
)
def test_the_beginning_of_the_prompts_of_an_image_is_read_once(
    name, value, monkeypatch
):
    if name in tiny_decoders.SEEING:
        decoder = tiny_decoders.SEEING[name]()
        image = Image.effect_noise((61, 40), 90).convert("RGB")
        picture = decoder.prepare_image(image)
    else:
        decoder, picture = tiny_decoders.causal(name), None
    endings = ["a cat", "( A ) a dog ?", "a man rides a horse", "( B )"]
    prompts = [
        decoder.build_prompt(f"{decoder.placeholder} {INSTRUCTION} {ending}")
        for ending in endings
    ]
    targets = [(5, 6, 7), (7, 9), (8,), (6, 5, 8, 9)]
    alone = [
        score_targets(decoder, [prompt], [picture], [ids], value)[0]
        for prompt, ids in zip(prompts, targets, strict=True)
    ]
    shapes = record_shapes(decoder, monkeypatch)
    together = score_targets(decoder, prompts, [picture] * 4, targets, value)
    for scores, expected in zip(together, alone, strict=True):
        np.testing.assert_allclose(scores, expected, rtol=1e-6, atol=1e-6)
    assert [rows for rows, _ in shapes] == [1, 4]
    # The longest ending decides the width of the second pass.
    beginning, ending = (width for _, width in shapes)
    following = 0 if value == FIRST_STEP else 3
    assert beginning > len(INSTRUCTION.split())
    assert ending <= 8 + following
