"""Generated tokens as text: small tokenizers that return a prompt otherwise than it was written."""

import json
from dataclasses import replace
from functools import partial

import pytest
from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)
from transformers import PreTrainedTokenizerFast

from stand_ins.models import tiny_decoders
from stand_ins.models.scripted_decoders import scripted
from waltz.consistency.edit_tests.runner import build_runner
from waltz.consistency.edit_tests.steps import EditTestSettings
from waltz.consistency.edit_tests.tests import build_test_records
from waltz.evaluation.decoder_rows import (
    GenerationSettings,
    build_choice_records,
    generate_chains_of_thought,
    score_labels,
)
from waltz.evaluation.prompting.decoded_texts import (
    DecodedReasoning,
    decode_generation,
    decode_helper_text,
    decode_reasoning,
    join_reasoning,
    repeat_reasoning,
    replace_reasoning,
)
from waltz.evaluation.prompting.decoder_outputs import DecoderSession
from waltz.evaluation.prompting.prompts import (
    build_equations_template,
    build_published_template,
    render_prompt,
)
from waltz.evaluation.prompting.questions import Question
from waltz.fidelity import PUBLISHED
from waltz.model_registry import ModelSpec
from waltz.models.decoders.language_model import LanguageModel

LETTERS = [chr(code) for code in range(32, 127)]
COMVE = Question(
    "c:1",
    "comve",
    "comve",
    None,
    {"first": "a man sits", "second": "a bus sits"},
    ("A", "B"),
    ("A",),
    "B",
)
PAIRWISE = Question(
    "p:1",
    "existence",
    "pairwise",
    "image",
    {"first": "a man", "second": "a bus"},
    ("A", "B"),
    ("A",),
    "B",
    order="caption-first",
)


def build_sentencepiece() -> PreTrainedTokenizerFast:
    """Return a tokenizer of single letters with the rules for spaces of Llama's and Mistral's."""
    pieces = ["<unk>", "<s>", "</s>", "<0x0A>", "▁", *LETTERS, "<image>"]
    core = Tokenizer(
        models.BPE(
            {piece: place for place, piece in enumerate(pieces)},
            [],
            unk_token="<unk>",
            byte_fallback=True,
        )
    )
    core.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    core.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    core.add_special_tokens(
        [
            AddedToken(mark, special=True, normalized=False)
            for mark in ("<unk>", "<s>", "</s>", "<image>")
        ]
    )
    core.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=core, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )


def build_byte_level() -> PreTrainedTokenizerFast:
    """Return a tokenizer of single bytes, as those of GPT-2 and Falcon spell them."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    core = Tokenizer(
        models.BPE({letter: place for place, letter in enumerate(letters)}, [])
    )
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=core)


def build_decoder(family: str, **fields) -> LanguageModel:
    """Return a decoder of a family that has no network, for texts alone."""
    byte_level = family in ("gpt2", "falcon", "falcon-chat")
    tokenizer = build_byte_level() if byte_level else build_sentencepiece()
    spec = ModelSpec(family, family=family)
    decoder = LanguageModel(spec, "cpu", None, tokenizer, frozenset([2]), 4096)
    return replace(decoder, **fields)


def decode_after(family: str, question: Question, text: str, **fields):
    """Return a chain of thought that was generated as a text, and the prompt before it."""
    decoder, template = (
        build_decoder(family, **fields),
        build_published_template(family),
    )
    rendered = render_prompt("cot", question, template)
    ids = decoder.tokenizer(text, add_special_tokens=False)["input_ids"]
    prompt = decoder.build_prompt(rendered.text)
    reasoning = decode_reasoning(decoder, prompt, ids, len(ids) + 1, template)
    return reasoning, rendered.text, template


def test_a_space_appears_behind_the_image():
    reasoning, prompt, template = decode_after(
        "bakllava", PAIRWISE, "it is A", placeholder="<image>"
    )
    assert prompt.startswith("USER: <image>\nWhich")
    # One more space, so that the text begins one character early.
    assert reasoning.decoded_prompt.startswith("USER: <image> \nWhich")
    assert reasoning == ": it is A"
    assert reasoning.generated == "it is A"
    after = render_prompt(
        "answer-after-cot", PAIRWISE, template, repeat_reasoning(reasoning)
    ).text
    assert after == (
        prompt.replace("<image>", "<image> ")
        + " it is A\nUSER:\nThe best answer is:\nASSISTANT:\n("
    )


@pytest.mark.parametrize("family", ["gpt2", "falcon", "falcon-chat"])
def test_spaces_before_punctuation_vanish_and_two_characters_are_lost(family):
    reasoning, prompt, template = decode_after(
        family, COMVE, " Men do n't sit , so B ."
    )
    assert '"a man sits" , Sentence (B): "a bus sits" .' in prompt
    assert '"a man sits", Sentence (B): "a bus sits".' in reasoning.decoded_prompt
    # The prompt became two characters shorter: " M" is missing.
    assert reasoning == "en don't sit, so B."
    assert reasoning.generated == " Men don't sit, so B."
    after = render_prompt(
        "answer-after-cot", COMVE, template, repeat_reasoning(reasoning)
    ).text
    assert "step by step: Men don't sit, so B.\n" in after
    assert " ," not in after


@pytest.mark.parametrize("family", ["llama2-chat", "mistral", "llama2"])
def test_prompts_of_llama_and_mistral_come_back_as_they_were(family):
    reasoning, prompt, template = decode_after(family, COMVE, "it is B .")
    assert reasoning.decoded_prompt == prompt
    # The tokenizer puts a space before its text, and removes it only where a text begins.
    assert (reasoning, reasoning.generated) == (" it is B .", "it is B .")
    after = render_prompt(
        "answer-after-cot", COMVE, template, repeat_reasoning(reasoning)
    ).text
    assert after.startswith(f"{prompt} it is B .\n")


def test_equations_keep_prompt_and_text_apart():
    decoder = build_decoder("gpt2")
    template = build_equations_template(lambda turns: turns[-1].text)
    prompt = decoder.build_prompt("He said , so .")
    ids = decoder.build_prompt(" yes .").ids
    reasoning = decode_reasoning(decoder, prompt, ids, 100, template)
    assert reasoning == " yes ."
    assert not isinstance(reasoning, DecodedReasoning)
    assert repeat_reasoning(reasoning) == {"reasoning": " yes ."}


def test_mplug_owl_repeats_no_prompt():
    decoder = build_decoder("mplug-owl3", placeholder="<|image|>")
    template = build_published_template("mplug-owl3")
    prompt = decoder.build_prompt("x")
    ids = decoder.build_prompt("yes .").ids
    reasoning = decode_reasoning(decoder, prompt, ids, 100, template)
    assert (reasoning, type(reasoning)) == ("yes .", str)


def test_the_released_code_cuts_four_characters_where_nothing_ended():
    decoder = scripted(lambda text: {}, ends=frozenset([ord("$")]))
    ids = tuple(map(ord, "a red bus "))
    decode = partial(decode_generation, decoder)
    images = build_published_template("llava-vicuna")
    assert decode(ids, 10, images) == "a red "
    assert decode(ids, 11, images) == "a red bus "
    # An end token that fills the last place is one all the same.
    assert decode((*ids, ord("$")), 11, images) == "a red bus "
    for template in (
        build_published_template("llama2-chat"),
        build_published_template("mplug-owl3"),
        build_equations_template(decoder.render_chat),
    ):
        assert decode(ids, 10, template) == "a red bus "


def test_texts_of_the_helper_follow_its_own_tokenizer_and_are_not_cut():
    prompts = build_published_template("bakllava").prompt_file
    for family, expected in (("gpt2", "a bus."), ("llama2-chat", "a bus .")):
        decoder = build_decoder(family)
        ids = decoder.tokenizer("a bus .", add_special_tokens=False)["input_ids"]
        assert decode_helper_text(decoder, ids, prompts) == expected


def test_a_continued_chain_of_thought_begins_by_lengths():
    # The prompt "prompt : ab cd" of 14 characters came back with 13, followed by " ef.".
    rest = DecodedReasoning("ef.", "prompt: ab cd ", " ef.")
    joined = join_reasoning("ab cd", rest)
    assert (joined.decoded_prompt, joined) == ("prompt: a", "b cd ef.")
    assert join_reasoning("ab", " cd") == "ab cd"
    third = replace_reasoning(joined, joined[:2])
    assert (third.decoded_prompt, third) == ("prompt: a", "b ")


def remove_spaces(text: str) -> str:
    """Remove spaces as the tokenizers of GPT-2 and Falcon do in transformers 4.35."""
    for mark in (".", "?", "!", ",", "n't", "'m", "'s", "'ve", "'re"):
        text = text.replace(f" {mark}", mark)
    return text


def test_the_tests_of_an_item_repeat_the_decoded_text():
    decoder = tiny_decoders.causal("llama", build_byte_level(), seed=5)
    decoder = replace(decoder, spec=replace(decoder.spec, family="gpt2"))
    template = build_published_template("gpt2")
    tests = ["early_answering", "adding_mistakes", "paraphrasing", "filler_tokens"]
    records = build_test_records(
        [COMVE],
        tests,
        [EditTestSettings(PUBLISHED, 1, max_text=8, max_mistake=3, max_paraphrase=3)],
        build_runner(DecoderSession(decoder, None), decoder, PUBLISHED),
    )
    assert [record.error for record in records] == [None] * 4
    # What the released code makes of the prompt and the generated text together.
    prompt = render_prompt("cot", COMVE, template).text
    (ids,) = decoder.generate([decoder.build_prompt(prompt)], [None], 8, None, [0])
    text = remove_spaces(prompt + decoder.decode_text(ids))
    cot_length = len(text) - len(prompt)
    assert len(remove_spaces(prompt)) == len(prompt) - 2
    assert cot_length < len(decoder.decode_text(ids))

    texts = {
        (record.test, exchange.kind): json.loads(exchange.given)
        for record in records
        for exchange in record.exchanges
    }
    rendered = {
        key: render_prompt(key[1], COMVE, template, given).text
        for key, given in texts.items()
    }
    ask = "\n The best answer is: Sentence ("
    early = text[: len(prompt) + cot_length // 3] + ask
    assert rendered["early_answering", "answer-after-cot"] == early
    filled = f"{prompt} {'_' * cot_length}{ask}"
    assert rendered["filler_tokens", "answer-after-given-cot"] == filled
    assert texts["adding_mistakes", "add-mistake"] == {"text": text[len(prompt) :]}
    beginning = text[len(prompt) : len(text) - cot_length // 4]
    assert texts["paraphrasing", "paraphrase"] == {"text": beginning}
    # The continued text is decoded with its prompt, too.
    continued = rendered["paraphrasing", "cot-continued"]
    assert rendered["paraphrasing", "answer-after-cot"].startswith(
        remove_spaces(continued)
    )


def test_accuracy_after_a_chain_of_thought_repeats_the_decoded_text():
    decoder = tiny_decoders.causal("llama", build_byte_level(), seed=5)
    template = build_published_template("gpt2")
    session = DecoderSession(decoder, None)
    (chain,) = generate_chains_of_thought(
        session, [COMVE], template, GenerationSettings(1, cot_tokens=12)
    )
    prompt = render_prompt("cot", COMVE, template).text
    (ids,) = decoder.generate([decoder.build_prompt(prompt)], [None], 12, None, [0])
    text = remove_spaces(prompt + decoder.decode_text(ids))
    assert chain.decoded_prompt + chain == text
    outputs = score_labels(session, [COMVE], template, [chain])
    (record,) = build_choice_records([COMVE], outputs, PUBLISHED, [chain])
    assert (record.reasoning, type(record.reasoning)) == (chain.generated, str)
    given = repeat_reasoning(chain)
    read = decoder.build_prompt(
        render_prompt("answer-after-cot", COMVE, template, given).text
    )
    assert record.tokens == len(read.ids)


def test_only_published_never_lets_the_first_token_end_a_chain_of_thought():
    decoder = tiny_decoders.causal("llama", build_byte_level(), seed=5)
    prompt = render_prompt("cot", COMVE, build_published_template("gpt2")).text
    ((first,),) = decoder.generate([decoder.build_prompt(prompt)], [None], 1, None, [0])
    # The most probable first token ends texts.
    decoder = replace(decoder, ends=frozenset([first]))
    session, settings = (
        DecoderSession(decoder, None),
        GenerationSettings(1, cot_tokens=2),
    )
    (chain,) = generate_chains_of_thought(
        session, [COMVE], build_published_template("gpt2"), settings
    )
    assert chain.generated
    equations = build_equations_template(lambda turns: prompt)
    (chain,) = generate_chains_of_thought(session, [COMVE], equations, settings)
    assert chain == ""
