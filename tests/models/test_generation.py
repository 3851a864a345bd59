"""Greedy answers of tiny random networks, against argmax by hand."""

import pytest
import torch

from conftest import build_network
from waltz.models.generation import greedy
from waltz.models.registry import ModelSpec
from waltz.models.text import TextModel, adopt

torch.set_num_threads(1)  # tiny batches: threads cost more than they give
PROMPT = "a man rides a horse"


def model(kind, tokenizer) -> TextModel:
    return adopt(ModelSpec(f"tiny-{kind}", weights="tiny", revision="local"), build_network(kind), tokenizer, "cpu")


@torch.inference_mode()
def by_hand(loaded, ids, most):
    """The most likely token after all tokens so far, again and again."""
    end, written = loaded.network.generation_config.eos_token_id, []
    for _ in range(most):
        logits = loaded.network(input_ids=torch.tensor([[*ids, *written]])).logits
        written.append(int(logits[0, -1].argmax()))
        if written[-1] == end:
            break
    return loaded.tokenizer.decode(written, skip_special_tokens=True)


@pytest.mark.parametrize("kind", ["gpt2", "llama", "openai-gpt"])
def test_each_token_is_the_most_likely_one(kind, tokenizer):
    loaded = model(kind, tokenizer)
    answer = greedy(loaded, PROMPT, 9)
    assert answer == by_hand(loaded, [loaded.start, *loaded.tokens(PROMPT)], 9)
    assert answer == greedy(loaded, PROMPT, 9)
    assert answer.startswith(greedy(loaded, PROMPT, 3))


def test_settings_of_a_checkpoint_draw_nothing_and_change_nothing(tokenizer):
    loaded = model("llama", tokenizer)
    plain = greedy(loaded, PROMPT, 9)
    loaded.network.generation_config.update(do_sample=True, num_beams=3, repetition_penalty=9.0, no_repeat_ngram_size=1)
    assert greedy(loaded, PROMPT, 9) == plain


def test_an_answer_ends_where_the_window_does(tokenizer):
    loaded = model("gpt2", tokenizer)
    assert (
        greedy(loaded, "a man " * 31, 9).split()
        == by_hand(loaded, [loaded.start, *loaded.tokens("a man " * 31)], 1).split()
    )
    assert greedy(loaded, "a man " * 32, 9) == ""


def test_a_chat_models_prompt_is_a_users_message(tokenizer):
    loaded = model("llama", tokenizer)
    expected = by_hand(loaded, loaded.tokens(f"man {PROMPT} ? woman"), 5)
    loaded.tokenizer.chat_template = "{% for m in messages %}man {{ m.content }} ? {% endfor %}woman"
    try:
        assert greedy(loaded, PROMPT, 5) == expected
    finally:
        loaded.tokenizer.chat_template = None
