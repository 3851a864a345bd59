"""Spans of tokens against the characters of valid sentences of VALSE, with each real tokenizer."""

import unicodedata

import pytest

from real_tokenizers import build
from waltz.model_registry import ModelSpec
from waltz.models.decoders.decoder import SPACE
from waltz.models.decoders.language_model import LanguageModel
from waltz.models.encoders.encoder import tokenize_text

pytestmark = pytest.mark.usefixtures("real_vocabularies")

ENCODERS = {"bert": build.build_bert, "clip": build.build_clip}
DECODERS = {
    "llama2": build.build_llama2,
    "mistral": build.build_mistral,
    "falcon": build.build_falcon,
    "gpt2": build.build_gpt2,
    "qwen2": build.build_qwen2,
}


def spell(token):
    """Return the characters that a token stands for, as far as case and accents."""
    return (
        token.removeprefix("##")
        .removesuffix("</w>")
        .replace(SPACE, " ")
        .replace("Ġ", " ")
    )


def simplify(text):
    """Return a text as uncased tokenizers read it."""
    return "".join(
        letter
        for letter in unicodedata.normalize("NFD", text.lower())
        if not unicodedata.combining(letter)
    )


def find_fault(text, tokens, spans, cased):
    """Return what is wrong with the spans of tokens, without special ones; empty if nothing is."""
    end = 0
    for position, (token, span) in enumerate(zip(tokens, spans, strict=True)):
        characters = text[span["start"] : span["end"]]
        is_byte = not characters.isascii()  # several tokens share a character
        if span["start"] < end and not is_byte:
            return f"{token!r} overlaps the token before it"
        if text[end : span["start"]].strip():
            return f"no token stands for {text[end : span['start']]!r}"
        end = span["end"]
        spelt = spell(token)
        if position == 0 and not characters.startswith(" "):
            spelt = spelt.removeprefix(" ")  # of a Llama tokenizer
        if not is_byte and spelt != (characters if cased else simplify(characters)):
            return f"{token!r} does not stand for {characters!r}"
    return f"no token stands for {text[end:]!r}" if text[end:].strip() else ""


def list_faults(sentences, tokenize, cased):
    faults = []
    for sentence in sentences:
        tokenized = tokenize(sentence)
        rows = zip(tokenized.tokens, tokenized.spans, tokenized.special, strict=True)
        plain = [
            (token, span)
            for token, span, special in rows
            if not special and not (token == SPACE and span["start"] == span["end"])
        ]
        fault = find_fault(sentence, *zip(*plain, strict=True), cased)
        if fault:
            faults.append((sentence, fault))
    return faults


@pytest.fixture(
    params=[
        pytest.param(20, id="every-twentieth"),
        pytest.param(1, id="all", marks=pytest.mark.corpora),
    ]
)
def sentences(request, valid_sentences):
    return valid_sentences[:: request.param]


@pytest.mark.parametrize("name", ENCODERS)
def test_spans_of_an_encoder_are_the_characters_of_its_tokens(sentences, name):
    tokenizer = ENCODERS[name]()
    assert not list_faults(
        sentences,
        lambda text: tokenize_text(tokenizer, text, 77, name),
        cased=False,
    )


@pytest.mark.parametrize("name", DECODERS)
def test_spans_of_a_decoder_are_the_characters_of_its_tokens(sentences, name):
    decoder = LanguageModel(
        ModelSpec(name), "cpu", None, DECODERS[name](), frozenset(), 4096
    )
    assert not list_faults(sentences, decoder.build_prompt, cased=True)
