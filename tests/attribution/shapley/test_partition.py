"""Owen values of a text's pieces, compared with shap on a tiny language model with random weights."""

import re

import numpy as np
import pytest
import shap
import torch
from shap.explainers import _partition
from shap.utils import _masked_model
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

from waltz.attribution.shapley.partition import compute_owen_values
from waltz.core.errors import UserError

TEXT = "there are two dogs and a cat, the big dog runs fast (not so). Why is it not the answer?"
TARGETS = [5, 77, 200]
SIZES = {
    "vocab_size": 330,
    "initializer_range": 0.5,
    "bos_token_id": 0,
    "eos_token_id": 1,
}


def byte_tokenizer(start):
    """Byte pairs, with or without a start token."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer, core.decoder = (
        pre_tokenizers.ByteLevel(add_prefix_space=False),
        decoders.ByteLevel(),
    )
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=alphabet,
        show_progress=False,
    )
    core.train_from_iterator([TEXT, "Because ... the answer is there"], trainer)
    if start:
        core.post_processor = processors.TemplateProcessing(
            single="<s> $A", special_tokens=[("<s>", 0)]
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=core, bos_token="<s>", eos_token="</s>", pad_token="</s>"
    )


@pytest.fixture(scope="module")
def gpt2():
    torch.manual_seed(0)
    return (
        GPT2LMHeadModel(
            GPT2Config(n_embd=32, n_layer=2, n_head=2, n_positions=128, **SIZES)
        )
        .double()
        .eval()
    )


@pytest.fixture(scope="module")
def llama():
    torch.manual_seed(1)
    shape = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
    }
    return LlamaForCausalLM(LlamaConfig(**shape, **SIZES)).double().eval()


@pytest.fixture
def interpreted(monkeypatch):
    """Spare the compiler, which takes longer than the test."""
    for module, name in (
        (_partition, "lower_credit"),
        (_masked_model, "_init_masks"),
        (_masked_model, "_rec_fill_masks"),
        (_masked_model, "_build_fixed_multi_output"),
    ):
        monkeypatch.setattr(module, name, getattr(module, name).py_func)


def log_odds(network, tokenizer):
    """ln(q / (1 - q)) of each target after a text, one text after the other."""

    def value(texts):
        part = []
        for text in texts:
            ids = tokenizer(text)["input_ids"]
            with torch.inference_mode():
                logits = (
                    network(torch.tensor([ids + TARGETS[:-1]]))
                    .logits[0, len(ids) - 1 :]
                    .double()
                )
            q = logits.softmax(dim=-1)[range(len(TARGETS)), TARGETS]
            part.append((q / (1 - q)).log().numpy())
        return np.array(part)

    return value


def test_the_values_are_those_of_shap_with_a_language_model(gpt2, interpreted):
    tokenizer = byte_tokenizer(start=False)
    owen_values = compute_owen_values(
        TEXT, tokenizer, log_odds(gpt2, tokenizer), seed=3
    )
    text = shap.maskers.Text(tokenizer, mask_token="...", collapse_mask_token=True)
    masker = shap.maskers.OutputComposite(text, lambda prompt: np.array([TARGETS]))
    np.random.seed(3)
    explainer = shap.PartitionExplainer(
        shap.models.TeacherForcing(gpt2, tokenizer), masker
    )
    expected = explainer([TEXT], batch_size=10, max_evals=500, silent=True)
    np.testing.assert_allclose(
        owen_values.estimate.phi, expected.values[0], rtol=0, atol=1e-6
    )
    np.testing.assert_allclose(
        owen_values.estimate.base_value, expected.base_values[0], rtol=0, atol=1e-6
    )
    assert "".join(owen_values.pieces) == TEXT
    assert owen_values.estimate.phi.shape == (len(owen_values.pieces), 3)


class Plain(shap.maskers.Text):
    """Tokens decoded one by one and joined with blanks; the start token is masked like any other."""

    def __init__(self, tokenizer):
        super().__init__(tokenizer, mask_token="...", collapse_mask_token=True)
        self.keep_prefix = self.keep_suffix = 0

    def token_segments(self, text):
        ids = self.tokenizer(text)["input_ids"]
        words = [
            ""
            if token in self.tokenizer.all_special_ids
            else self.tokenizer.decode([token])
            for token in ids
        ]
        return [
            f" {word}" if place and word else word for place, word in enumerate(words)
        ], ids


@pytest.mark.parametrize(("kind", "start"), [("gpt2", False), ("llama", True)])
def test_tokenizers_without_offsets_join_with_blanks(kind, start, request, interpreted):
    tokenizer = byte_tokenizer(start)
    value = log_odds(request.getfixturevalue(kind), tokenizer)
    texts = []

    def noting(requests):
        texts.extend(requests)
        return value(requests)

    owen_values = compute_owen_values(
        TEXT, tokenizer, noting, seed=0, joins_tokens=True
    )
    np.random.seed(0)
    explainer = shap.PartitionExplainer(value, Plain(tokenizer))
    expected = explainer([TEXT], batch_size=10, max_evals=500, silent=True)
    np.testing.assert_allclose(
        owen_values.estimate.phi, expected.values[0], rtol=0, atol=1e-9
    )
    assert owen_values.pieces[0] == ("" if start else "there")
    joined_text = re.sub(r"\s+", " ", "".join(owen_values.pieces)).strip()
    assert joined_text != TEXT
    assert joined_text in texts
    np.testing.assert_allclose(owen_values.estimate.value, value([joined_text])[0])


def test_a_start_token_plays_and_its_removal_inserts_dots(gpt2):
    tokenizer = byte_tokenizer(start=True)
    texts = []

    def value(requests):
        texts.extend(requests)
        return log_odds(gpt2, tokenizer)(requests)

    owen_values = compute_owen_values(TEXT, tokenizer, value, seed=0)
    assert owen_values.pieces[:3] == ("", "there", " are")
    assert owen_values.estimate.phi[0].any()
    assert any(
        re.match(r"\.\.\.there are", text.replace("... ", "...")) for text in texts
    )
    assert {"...", TEXT} <= set(texts)


def test_all_rows_are_spent_and_no_text_is_read_twice(gpt2):
    tokenizer = byte_tokenizer(start=False)
    texts = []

    def value(requests):
        assert len(requests) <= 10
        texts.extend(requests)
        return log_odds(gpt2, tokenizer)(requests)

    owen_values = compute_owen_values(TEXT, tokenizer, value, seed=0)
    assert owen_values.estimate.requested == 500
    assert len(set(texts)) == len(texts) == owen_values.evaluated <= 500
    assert owen_values.estimate.residual < 1e-9
    few = compute_owen_values(
        TEXT, tokenizer, log_odds(gpt2, tokenizer), seed=0, rows=20
    )
    assert few.estimate.requested == 20
    # What stays together shares alike.
    assert np.unique(few.estimate.phi[:, 0]).size < len(few.pieces) / 2


def test_pieces_that_add_up_get_their_own(interpreted):
    # each word's value is its length, whatever stands next to it: Owen values are those lengths
    tokenizer = byte_tokenizer(start=False)
    text = "the big dog runs fast"

    def value(texts):
        return np.array(
            [
                [float(sum(len(word) for word in part.split() if word in text.split()))]
                for part in texts
            ]
        )

    part = compute_owen_values(text, tokenizer, value, seed=0, joins_tokens=True)
    words = [piece.strip() for piece in part.pieces]
    assert words == text.split()
    np.testing.assert_allclose(part.estimate.phi[:, 0], [len(word) for word in words])
    assert part.estimate.requested < 500  # the tree is exhausted


def test_numpys_global_generator_is_left_as_it_was():
    tokenizer = byte_tokenizer(start=False)
    compiled = _partition.lower_credit
    np.random.seed(7)
    expected = np.random.random(2)
    np.random.seed(7)
    drawn = [np.random.random()]
    values = [
        compute_owen_values(
            "the big dog", tokenizer, lambda texts: np.ones((len(texts), 1)), seed=seed
        )
        for seed in (1, 1)
    ]
    drawn.append(np.random.random())
    np.testing.assert_array_equal(drawn, expected)
    np.testing.assert_array_equal(*(one.estimate.phi for one in values))
    assert _partition.lower_credit is compiled


def test_what_cannot_be_split_is_refused():
    tokenizer = byte_tokenizer(start=False)
    with pytest.raises(UserError, match="at least 4"):
        compute_owen_values(TEXT, tokenizer, len, seed=0, rows=3)
    with pytest.raises(UserError, match="is not a seed"):
        compute_owen_values(TEXT, tokenizer, len, seed=-1)
    with pytest.raises(UserError, match="expected at least 2"):
        compute_owen_values("there", tokenizer, len, seed=0)
