"""Generated tokens."""

import numpy as np
import pytest
import torch
from PIL import Image

from stand_ins.gpu_memory import SimulatedMemory
from stand_ins.models import tiny_decoders
from stand_ins.transfers import CountTransfers
from waltz.models import batch_size
from waltz.models.decoders import continuations
from waltz.models.decoders.continuations import (
    FIRST_STEP,
    choose_tokens,
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


@pytest.mark.parametrize("sampling", [None, Sampling(temperature=1.5, top_k=20)])
def test_texts_that_do_not_fit_into_memory_are_halved_and_stay_the_same(
    sampling, monkeypatch
):
    decoder = tiny_decoders.causal("llama")
    prompts = [decoder.build_prompt(text) for text in TEXTS]
    expected = decoder.generate(prompts, [None] * 4, 9, sampling, [5, 6, 7, 8])
    steps, choose = [], continuations.choose_tokens

    def limited(logits, *settings):
        # Memory is full after the numbers of the third token were drawn.
        steps.append(len(logits))
        if len(steps) > 2 and len(logits) > 1:
            raise torch.OutOfMemoryError("simulated")
        return choose(logits, *settings)

    monkeypatch.setattr(continuations, "choose_tokens", limited)
    texts = decoder.generate(prompts, [None] * 4, 9, sampling, [5, 6, 7, 8])
    assert texts == expected
    assert steps[:3] == [4, 4, 4]


def test_generations_in_a_batch_grow_with_the_memory_of_a_gpu(monkeypatch):
    decoder = tiny_decoders.causal("llama")
    object.__setattr__(decoder, "positions_per_batch", 40)
    prompts = [decoder.build_prompt(text) for text in TEXTS * 3]
    sampling, seeds = Sampling(temperature=1.5), list(range(12))
    steps, choose = [], continuations.choose_tokens
    memory = SimulatedMemory(capacity=240, row_bytes=10)

    def counted(logits, *settings):
        steps.append(len(logits))
        memory.hold(len(logits))
        return choose(logits, *settings)

    monkeypatch.setattr(continuations, "choose_tokens", counted)
    expected = decoder.generate(prompts, [None] * 12, 5, sampling, seeds)
    constant_steps = steps.copy()
    steps.clear()
    monkeypatch.setattr(batch_size, "open_memory", lambda device: memory)
    assert decoder.generate(prompts, [None] * 12, 5, sampling, seeds) == expected
    # The first batch is that of a CPU; half of the memory holds 12 rows.
    assert steps[0] == constant_steps[0]
    assert max(constant_steps) < max(steps) <= 12
    assert len(steps) < len(constant_steps)


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
        uniform = torch.rand(1500, 5, generator=draws, dtype=torch.float64)
        noise = -torch.log(-torch.log(uniform))
        tokens, _ = choose_tokens(logits.expand(1500, 5), sampling, noise)
        shares = torch.bincount(torch.tensor(tokens), minlength=5) / 1500
        assert (shares[: len(expected)] - expected).abs().max() < 0.04
        assert shares[len(expected) :].sum() == 0


def test_a_choice_that_rounding_could_change_is_not_sure():
    rows = torch.tensor([[1.0, 0.5], [1.0, 1.0 + 1e-7]])
    tokens, is_certain = choose_tokens(rows, None, None)
    assert (tokens[0], is_certain) == (0, [True, False])
    logits, noise = (
        torch.tensor([[3.0, 1.0, 1.0 + 1e-7]]),
        torch.zeros(1, 3, dtype=torch.float64),
    )
    assert choose_tokens(logits, Sampling(top_k=1), noise) == ([0], [True])
    # Which of two belongs to the best two.
    assert choose_tokens(logits, Sampling(top_k=2), noise)[1] == [False]
    share = float(torch.softmax(logits.double(), dim=-1)[0, 0])
    # Whether the first is enough.
    assert choose_tokens(logits, Sampling(top_p=share + 1e-9), noise)[1] == [False]


@pytest.mark.parametrize(
    "sampling",
    [
        None,
        Sampling(temperature=0.7),
        Sampling(top_k=5, top_p=0.8),
        Sampling(top_p=0.6),
        Sampling(top_k=100),
    ],
)
def test_a_row_is_chosen_as_if_it_were_alone_and_as_by_hand(sampling):
    draws = torch.Generator().manual_seed(3)
    logits = 2 * torch.randn(40, 30, generator=draws)
    noise = -torch.log(
        -torch.log(torch.rand(40, 30, generator=draws, dtype=torch.float64))
    )
    tokens, is_certain = choose_tokens(logits, sampling, noise)
    for row in range(40):
        alone = choose_tokens(logits[row : row + 1], sampling, noise[row : row + 1])
        assert alone == ([tokens[row]], [is_certain[row]])
        scores = logits[row].numpy().astype(float)
        if sampling is None:
            assert tokens[row] == scores.argmax()
            continue
        scores /= sampling.temperature
        order = np.argsort(-scores)[: sampling.top_k or None]
        shares = np.exp(scores[order])
        before = shares.cumsum() / shares.sum() < sampling.top_p
        kept = order[: 1 + before.sum()]
        assert tokens[row] == kept[(scores + noise[row].numpy())[kept].argmax()]


@pytest.mark.parametrize("sampling", [None, Sampling(top_k=9, top_p=0.9)])
def test_a_step_transfers_its_tokens_to_the_host_once(sampling):
    decoder = tiny_decoders.causal("llama")
    object.__setattr__(decoder, "ends", frozenset())
    prompts = [decoder.build_prompt(text) for text in TEXTS]
    with CountTransfers() as transfers:
        decoder.generate(prompts, [None] * 4, 6, sampling, [0] * 4)
    assert transfers.names == ["tolist"] * 6


def test_a_near_tie_is_decided_by_the_row_alone(monkeypatch):
    decoder = tiny_decoders.causal("llama")
    prompts = [decoder.build_prompt(text) for text in TEXTS]
    plain = decoder.generate(prompts, [None] * 4, 5, None, [0] * 4)
    # Every choice is a near tie.
    monkeypatch.setitem(continuations.ROUNDING_UNITS, torch.float32, 1e12)
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


@pytest.mark.parametrize(
    ("dtype", "margin"), [(torch.bfloat16, 8 * 2**-7), (torch.float16, 8 * 2**-10)]
)
def test_the_rounding_of_half_precision_is_eight_units(dtype, margin):
    # The largest logit is 16 in magnitude, though it is not the likeliest.
    gaps = torch.tensor([0.75, 1.25]) * 16 * margin
    rows = torch.zeros(2, 3)
    rows[:, 0], rows[:, 1], rows[:, 2] = 8, 8 - gaps, -16
    assert choose_tokens(rows.to(dtype), None, None)[1] == [False, True]
    # A network in half precision may widen its logits.
    assert choose_tokens(rows, None, None, dtype)[1] == [False, True]
    assert choose_tokens(rows, None, None)[1] == [True, True]


def test_few_texts_in_half_precision_are_read_again_and_all_are_those_of_each_alone(
    monkeypatch,
):
    decoder = tiny_decoders.causal("llama")
    decoder.network.model.to(torch.bfloat16)
    object.__setattr__(decoder, "ends", frozenset())
    prompts = [decoder.build_prompt(text) for text in TEXTS * 2]
    alone = [decoder.generate([prompt], [None], 9, None, [0])[0] for prompt in prompts]
    rows, read = [], continuations._read_rows

    def counted(decoder, batch, *inputs):
        rows.append(len(batch))
        return read(decoder, batch, *inputs)

    monkeypatch.setattr(continuations, "_read_rows", counted)
    assert decoder.generate(prompts, [None] * 8, 9, None, [0] * 8) == alone
    # Four passes of two prompts each, then rows again: 72 tokens in all.
    again = len(rows) - 4
    monkeypatch.setitem(continuations.ROUNDING_UNITS, torch.bfloat16, 32)
    rows.clear()
    assert decoder.generate(prompts, [None] * 8, 9, None, [0] * 8) == alone
    assert again < 0.5 * (len(rows) - 4)


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
        np.testing.assert_allclose(scores, expected, rtol=5e-6, atol=1e-5)
    assert [rows for rows, _ in shapes] == [1, 4]
    # The longest ending decides the width of the second pass.
    beginning, ending = (width for _, width in shapes)
    following = 0 if value == FIRST_STEP else 3
    assert beginning > len(INSTRUCTION.split())
    assert ending <= 8 + following
