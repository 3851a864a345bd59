"""The tokenizers built here give the ids of other implementations."""

import pytest
import sentencepiece
import transformers

from real_tokenizers import build, vocabularies
from rehearsal import hub
from waltz.core.jobs.devices import Device
from waltz.model_registry import ModelSpec
from waltz.models.decoders import language_model

pytestmark = pytest.mark.usefixtures("real_vocabularies")

BUILDERS = {
    "llama2": (build.build_llama2, 32000),
    "falcon": (build.build_falcon, 65024),
    "gpt2": (build.build_gpt2, 50257),
    "qwen2": (build.build_qwen2, 151646),
    "bert": (build.build_bert, 30522),
}
"""What builds each tokenizer that llama.cpp has test strings for, and its number of tokens."""


def _encode(tokenizer, text):
    return tokenizer(text, add_special_tokens=False)["input_ids"]


@pytest.mark.parametrize("name", BUILDERS)
def test_ids_are_those_of_llama_cpp(name):
    build_tokenizer, size = BUILDERS[name]
    tokenizer, strings = build_tokenizer(), vocabularies.read_test_strings(name)
    assert len(tokenizer) == size
    assert len(strings) == 47
    assert not [text for text, ids in strings if _encode(tokenizer, text) != ids]


def test_ids_of_mistral_are_those_of_sentencepiece():
    tokenizer, strings = build.build_mistral(), vocabularies.read_test_strings("llama2")
    pieces = sentencepiece.SentencePieceProcessor(
        model_file=str(vocabularies.MISTRAL_COMMON.folder / "mistral.model")
    )
    assert len(tokenizer) == 32000
    assert not [
        text for text, _ in strings if _encode(tokenizer, text) != pieces.encode(text)
    ]


def test_ids_of_clip_are_those_of_the_released_code():
    tokenizer = build.build_clip()
    assert len(tokenizer) == 49408
    assert tokenizer("a photo of a cat")["input_ids"] == [
        49406,
        320,
        1125,
        539,
        320,
        2368,
        49407,
    ]


@pytest.fixture(scope="module")
def llama2_folder(tmp_path_factory):
    model, folder = "meta-llama/Llama-2-7b-chat-hf", tmp_path_factory.mktemp("hub")
    hub.build({model: "0" * 40}, folder)
    return folder / model


@pytest.fixture(scope="module")
def llama2(llama2_folder):
    return language_model.load_language_model(
        ModelSpec("mine", "text", str(llama2_folder), "local"), Device("cpu", 1, "")
    )


def test_the_class_that_the_repository_names_replaces_the_rules_for_spaces(
    llama2_folder,
):
    """The reason for `pretrained._restore_llama_spaces`; where this fails, that function can go."""
    tokenizer, strings = (
        transformers.AutoTokenizer.from_pretrained(llama2_folder),
        vocabularies.read_test_strings("llama2"),
    )
    assert type(tokenizer) is transformers.LlamaTokenizer
    wrong = [text for text, ids in strings if _encode(tokenizer, text) != ids]
    assert len(wrong) == 15
    assert all(text.startswith(" ") for text in wrong)


def test_waltz_gives_the_ids_of_the_file(llama2):
    strings = vocabularies.read_test_strings("llama2")
    assert not [
        text
        for text, ids in strings
        if text and list(llama2.build_prompt(text).ids) != [1, *ids]
    ]


def test_a_turn_after_a_start_token_begins_with_a_space_as_in_training(llama2):
    prompt = llama2.build_prompt("<s>[INST] Hi [/INST]")
    assert prompt.tokens == ("<s>", "▁[", "INST", "]", "▁Hi", "▁[", "/", "INST", "]")
    assert prompt.ids == llama2.build_prompt("[INST] Hi [/INST]").ids
