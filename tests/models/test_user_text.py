"""Control tokens that users spell in their texts, with tokenizers of several classes."""

import copy
from dataclasses import replace

import pytest
import tokenizers
import transformers

from waltz.core.errors import ItemError, UserError
from waltz.evaluation.prompting.prompt_files import QuestionForm
from waltz.evaluation.prompting.prompts import (
    build_equations_template,
    join_turns,
    render_prompt,
)
from waltz.evaluation.prompting.questions import Question
from waltz.models.user_text import (
    check_generated_text,
    check_user_text,
    find_control_tokens,
    list_message_texts,
)

WORDS = ["[UNK]", "[CLS]", "[SEP]", "[MASK]", "[PAD]", "a", "dog", "cat"]


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    path = tmp_path_factory.mktemp("bert") / "vocab.txt"
    path.write_text("\n".join(WORDS))
    return transformers.BertTokenizer(str(path))


@pytest.fixture(scope="module")
def byte_pairs():
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    model = tokenizers.models.BPE(
        {letter: place for place, letter in enumerate(sorted(alphabet))}, []
    )
    backend = tokenizers.Tokenizer(model)
    backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend,
        eos_token="<|endoftext|>",
        unk_token="<|endoftext|>",
        pad_token="!",
    )
    tokenizer.add_tokens(["<tool_call>", "dog"])
    return tokenizer


@pytest.mark.parametrize("token", ["[SEP]", "[MASK]", "[CLS]", "[PAD]", "[UNK]"])
def test_word_pieces(bert, token):
    assert find_control_tokens(bert, f"a dog {token} a cat") == [token]


@pytest.mark.parametrize("token", ["<|endoftext|>", "<tool_call>"])
def test_byte_pairs(byte_pairs, token):
    with pytest.raises(UserError, match="control token in a text"):
        check_user_text(byte_pairs, f"a dog{token} a cat", "models.tiny")


def test_the_message_quotes_the_text_around_the_token(bert):
    with pytest.raises(UserError, match=r"in a text: '[^']*a dog \[SEP\] a cat"):
        check_user_text(
            bert,
            f"{'which caption describes the image ' * 9} a dog [SEP] a cat",
            "models.tiny",
        )


@pytest.mark.parametrize(
    "text", ["a dog", "a zebra", "a [dog] < cat >", "a dog!", "", "SEP MASK"]
)
def test_plain_text_passes(bert, byte_pairs, text):
    check_user_text(bert, text, "models.tiny")
    check_user_text(byte_pairs, text, "models.tiny")


def test_an_items_text_in_a_prompt_names_the_item(bert):
    question = Question(
        "item 7", "toy", "single", "", {"caption": "a dog [SEP] a cat"}, (), "", ""
    )
    template = replace(build_equations_template(join_turns), tokenizer=bert)
    with pytest.raises(UserError, match=r"item 7: control token .*\[SEP\]"):
        render_prompt("caption", question, template)


def test_texts_of_messages_are_listed():
    parts = [{"type": "image"}, {"type": "text", "text": "b"}]
    messages = [
        {"role": "user", "content": "a"},
        {"content": parts},
        {},
        {"name": "c", "calls": [{"x": "d"}]},
    ]
    assert list(list_message_texts(messages)) == ["user", "a", "b", "c", "d"]


@pytest.fixture(scope="module")
def unigram():
    """A SentencePiece of single pieces which reads texts in their compatible Unicode form, as T5's
    does.
    """
    letters = [(letter, -2.0) for letter in "▁<>/abcdefghijklmnopqrstuvwxyz"]
    model = tokenizers.models.Unigram(
        [("<unk>", 0.0), ("<s>", 0.0), ("</s>", 0.0), ("▁dog", -1.0), *letters], 0
    )
    backend = tokenizers.Tokenizer(model)
    backend.normalizer = tokenizers.normalizers.NFKC()
    backend.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )


@pytest.mark.parametrize(
    "text", ["a dog</s>", "<s> a dog", "a dog＜s＞ ran", "a <unk> dog"]
)
def test_sentence_pieces(unigram, text):
    assert find_control_tokens(unigram, text)


@pytest.mark.parametrize(
    "text", ["a dog </s", "a 狗 dog", "a dog 🐶", "< s >", "<b>dog</b>", "unk"]
)
def test_plain_text_of_sentence_pieces_passes(unigram, text):
    check_user_text(unigram, text, "models.tiny")


def test_tags_of_html_are_text_though_they_are_tokens(byte_pairs):
    tokenizer = copy.deepcopy(byte_pairs)
    tokenizer.add_tokens(
        ["<b>", "</b>", "<h1>", "<br/>", "<s>", "<mask>", "[multimodal]", "<unused0>"]
    )
    check_user_text(tokenizer, "<h1>a <b>dog</b><br/> <s>cat</s></h1>", "models.gemma")
    for token in ("<mask>", "[multimodal]", "<unused0>"):
        assert find_control_tokens(tokenizer, f"a {token} dog") == [token]
    special = copy.deepcopy(byte_pairs)
    special.add_tokens(["<s>"], special_tokens=True)
    assert find_control_tokens(special, "a <s> dog") == ["<s>"]


def test_texts_of_models_may_hold_markers_of_formats_but_no_special_tokens(byte_pairs):
    check_generated_text(byte_pairs, "<tool_call> a dog", "item 7")
    with pytest.raises(
        ItemError, match=r"item 7: control token in a text: 'a<\|endoftext\|>'"
    ):
        check_generated_text(byte_pairs, "a<|endoftext|>", "item 7")


def test_a_tokenizer_that_reads_control_tokens_as_text_refuses_none(byte_pairs):
    """The tokenizer of mistral-common has a method where others have a property."""

    class Backend:
        unk_token_id, all_special_ids, all_special_tokens = 0, [0, 1], ["<unk>", "<s>"]

        def added_tokens_decoder(self):
            raise NotImplementedError

        def __call__(self, text, add_special_tokens, verbose):
            return {"input_ids": [10 + ord(letter) for letter in text]}

    check_user_text(Backend(), "a <s> dog [INST]", "models.mistral")


def test_labels_and_repeated_texts_of_a_prompt_are_checked(bert):
    question = Question(
        "item 7",
        "toy",
        "choice",
        None,
        {"question": "what ?"},
        ("A", "B [SEP]"),
        ("A",),
        "",
    )
    template = replace(build_equations_template(join_turns), tokenizer=bert)
    forms = {
        **template.prompt_file.forms,
        "choice": QuestionForm(text="{question}"),
    }
    template = replace(
        template, prompt_file=template.prompt_file.model_copy(update={"forms": forms})
    )
    with pytest.raises(ItemError, match=r"item 7: control token .*'B \[SEP\]'"):
        render_prompt("answer", question, template)
    plain = replace(question, labels=("A", "B"))
    with pytest.raises(ItemError, match=r"item 7: control token .*'so \[SEP\]'"):
        render_prompt("answer-after-cot", plain, template, {"reasoning": "so [SEP]"})
    with pytest.raises(ItemError, match=r"item 7: control token .*'what \[MASK\] \?'"):
        render_prompt("answer", plain, template, {"input": "what [MASK] ?"})
    assert render_prompt(
        "answer-after-cot", plain, template, {"reasoning": "so it is"}
    ).text
