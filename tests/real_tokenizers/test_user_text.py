"""Control tokens in user text with real tokenizers: each is refused or read as text, and ordinary
text passes.
"""

import functools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from real_tokenizers import build
from waltz.models.user_text import check_user_text, find_control_tokens

pytestmark = pytest.mark.usefixtures("real_vocabularies")

TOKENIZERS = {
    "bert": build.build_bert,
    "clip": build.build_clip,
    "falcon": build.build_falcon,
    "gpt2": build.build_gpt2,
    "llama2": functools.partial(build.build_llama2, ["<image>", "<pad>"]),
    "mistral": functools.partial(build.build_mistral, ["<image>", "<pad>"]),
    "qwen2": build.build_qwen2,
}
ORDINARY = [
    "Une école « d’été » à l’orée du bois",
    "一只狗在路上追一头牛。",
    "כלב רודף אחרי פרה",
    "a dog 🐶 and a family 👩‍👩‍👧",
    "I <3 cats",
    "he said [sic] nothing",
    "a < b and b > c, or a <= b",
    "<b>bold</b> and <br/> and <i>",
    "</s",
    "<s",
    "a @-@ b",
    "a|b <| |>",
    "[INST] is no token of these [/INST]",
    "&lt;s&gt;",
    "<0x0A>",
    "USER: who? ASSISTANT: nobody",
    "SEP MASK CLS",
    "",
]


@functools.cache
def load(name):
    return TOKENIZERS[name]()


@functools.cache
def list_special(name):
    tokenizer = load(name)
    added = {
        token_id: str(token)
        for token_id, token in tokenizer.added_tokens_decoder.items()
    }
    return added | dict(
        zip(tokenizer.all_special_ids, tokenizer.all_special_tokens, strict=True)
    )


@pytest.mark.parametrize("name", TOKENIZERS)
def test_every_control_token_is_refused(name):
    for token in list_special(name).values():
        for text in (
            token,
            f"a dog{token}a cat",
            f"a dog {token} a cat",
            f"\n{token}\n",
            token + token,
        ):
            assert token in find_control_tokens(load(name), text)


@pytest.mark.parametrize("name", TOKENIZERS)
@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_passes(name, text):
    check_user_text(load(name), text, name)


@pytest.mark.parametrize("name", TOKENIZERS)
def test_sentences_of_valse_pass(name, valid_sentences):
    refused = [
        text for text in valid_sentences[::40] if find_control_tokens(load(name), text)
    ]
    assert not refused


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_text_that_passes_has_no_control_token(data):
    name = data.draw(st.sampled_from(list(TOKENIZERS)))
    tokenizer, special = load(name), list_special(name)
    pieces = st.one_of(
        st.sampled_from(list(special.values())),
        st.sampled_from(list(special.values())).map(str.lower),
        st.sampled_from(
            ["<", ">", "[", "]", "|", "/", "s", "▁", " ", "\u200b", "<|", "|>"]
        ),
        st.text(max_size=4),
    )
    text = "".join(data.draw(st.lists(pieces, max_size=6)))
    control = set(tokenizer(text, add_special_tokens=False)["input_ids"]) & set(
        special
    ) - {tokenizer.unk_token_id}
    assert bool(find_control_tokens(tokenizer, text)) >= bool(control)
    # Nothing but control tokens is a reason to refuse a text.
    if not any(token.casefold() in text.casefold() for token in special.values()):
        assert not find_control_tokens(tokenizer, text)
