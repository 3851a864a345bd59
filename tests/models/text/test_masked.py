"""Scores of masked language models, and SpanBERT from its archives."""

import io
import json
import tarfile

import numpy as np
import pytest
import torch
import transformers

from stand_ins.models.tiny_models import (
    bert_tokenizer,
    config,
    masked_model,
    masked_network,
    roberta_model,
)
from waltz.core.errors import UserError
from waltz.core.jobs.devices import Device
from waltz.model_registry import ModelSpec
from waltz.models.text import masked
from waltz.models.text.masked import convert_spanbert, load_masked_model

CPU = Device("cpu", 1, "test")
TEXTS = [
    "A man rides a horse.",
    "There are exactly four zebras in the picture.",
    "A cat sits",
    "dog",
    "",
]
MASK = 4


@pytest.fixture(scope="module")
def model():
    return masked_model()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("models") / "tiny-bert"
    masked_network().save_pretrained(place)
    bert_tokenizer().save_pretrained(place)
    return place


@pytest.fixture
def load_folder(folder):
    return lambda: masked.load_masked_model(
        ModelSpec("tiny", "masked", str(folder), "local"), CPU
    )


def test_a_folder_is_loaded(load_folder):
    model = load_folder()
    assert (model.window, model.special_counts, model.word_prefix) == (40, (1, 1), "")
    assert len(model.word_starts) == model.network.config.vocab_size
    assert model.tokenizer.convert_ids_to_tokens(
        list(model.tokenize("A catman stands"))
    ) == [
        "[CLS]",
        "a",
        "cat",
        "##man",
        "stands",
        "[SEP]",
    ]


def test_a_checkpoint_without_its_head_is_refused_with_the_keys_that_it_lacks(tmp_path):
    transformers.BertModel(config()).save_pretrained(tmp_path)
    bert_tokenizer().save_pretrained(tmp_path)
    fault = r"models\.span: \S+ lacks the weights of .*cls\.predictions\.transform\.dense\.weight.* masked-LM head$"
    with pytest.raises(UserError, match=fault):
        masked.load_masked_model(
            ModelSpec("span", "masked", str(tmp_path), "local"), CPU
        )


@pytest.mark.parametrize("drop", [None, "cls.predictions.transform.dense.weight"])
def test_a_checkpoint_in_berts_first_format_loads_completely_or_is_refused(
    folder, tmp_path, drop
):
    state = {}
    for key, tensor in masked_network().state_dict().items():
        state[
            key.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
                "LayerNorm.bias", "LayerNorm.beta"
            )
        ] = tensor
    state |= {
        "cls.seq_relationship.weight": torch.zeros(2, 32),
        "bert.embeddings.position_ids": torch.arange(64)[None],
    }
    state.pop("cls.predictions.decoder.bias", None)
    state.pop(drop, None)
    for file in folder.iterdir():
        if file.suffix == ".json":
            (tmp_path / file.name).write_bytes(file.read_bytes())
    torch.save(state, tmp_path / "pytorch_model.bin")
    spec = ModelSpec("old", "masked", str(tmp_path), "local")
    if drop:
        with pytest.raises(
            UserError,
            match=r"lacks the weights of cls\.predictions\.transform\.dense\.weight;",
        ):
            masked.load_masked_model(spec, CPU)
        return
    ids = torch.tensor([[2, 5, MASK, 9, 3]])
    with torch.inference_mode():
        logits, expected = (
            masked.load_masked_model(spec, CPU).network(ids).logits,
            masked_network()(ids).logits,
        )
    np.testing.assert_array_equal(logits, expected)


def test_a_model_without_a_mask_token_is_refused(tokenizer):
    with pytest.raises(UserError, match="has no mask token"):
        masked.wrap_masked_model(
            ModelSpec("m", weights="w", revision="0"),
            masked_network(),
            tokenizer,
            "cpu",
        )


def test_unmasked_losses_are_what_the_network_says_of_its_own_labels(model):
    sequences = [model.tokenize(text) for text in TEXTS]
    losses = masked.compute_unmasked_losses(model, sequences)
    for ids in sequences:
        row = torch.tensor([ids])
        with torch.inference_mode():
            expected = float(model.network(input_ids=row, labels=row).loss)
        assert losses[ids] == pytest.approx(expected, abs=2e-5)


def test_a_long_text_is_cut_at_the_window(model):
    ids = model.tokenize("dog " * 100)
    assert len(ids) == 40
    assert (ids[0], ids[-1]) == (2, 3)


def test_pseudo_log_likelihood_masks_each_token_in_turn(model):
    sequences = [model.tokenize(text) for text in TEXTS]
    likelihoods = masked.compute_pseudo_log_likelihoods(model, sequences)
    for ids in sequences[:-1]:
        single = []
        for place in range(1, len(ids) - 1):
            row = torch.tensor([ids])
            row[0, place] = MASK
            with torch.inference_mode():
                scores = torch.log_softmax(
                    model.network(input_ids=row).logits[0, place].double(), dim=-1
                )
            single.append(float(scores[ids[place]]))
        assert likelihoods[ids] == pytest.approx(np.mean(single), abs=2e-5)
    assert likelihoods[sequences[-1]] is None


def test_no_score_depends_on_what_it_is_computed_with(model):
    together = masked.compute_pseudo_log_likelihoods(
        model, [model.tokenize(text) for text in TEXTS[:3]]
    )
    for text in TEXTS[:3]:
        ids = model.tokenize(text)
        assert masked.compute_pseudo_log_likelihoods(model, [ids])[
            ids
        ] == pytest.approx(together[ids], abs=1e-5)


@pytest.mark.parametrize("scale", ["logit", "log_softmax"])
def test_best_tokens_are_the_first_of_the_sorted_vocabulary(model, scale):
    ids = (2, 5, MASK, 9, 3)
    best = masked.find_best_tokens(model, [(ids, 2, False)], 7, scale)[ids, 2, False]
    with torch.inference_mode():
        scores = model.network(input_ids=torch.tensor([ids])).logits[0, 2]
    scores = torch.log_softmax(scores, dim=-1) if scale == "log_softmax" else scores
    expected = torch.sort(scores, descending=True)
    assert best[:, 0].tolist() == expected.indices[:7].tolist()
    np.testing.assert_allclose(best[:, 1], expected.values[:7], atol=1e-5)
    token_scores = masked.compute_token_scores(
        model, [(ids, 2, (9, 5)), (ids, 2, (7,))], scale
    )
    np.testing.assert_allclose(token_scores[ids, 2, (9, 5)], scores[[9, 5]], atol=1e-5)
    np.testing.assert_allclose(token_scores[ids, 2, (7,)], scores[[7]], atol=1e-5)


def test_where_a_vocabulary_marks_beginnings_only_they_may_begin_a_word():
    model = roberta_model()
    ids = model.tokenize_masked("a man<mask> horse")
    place = (ids, ids.index(model.tokenizer.mask_token_id), True)
    best = masked.find_best_tokens(model, [place], 1000, "logit")[place]
    names = model.tokenizer.convert_ids_to_tokens(best[:, 0].astype(int).tolist())
    assert model.word_prefix == "Ġ"
    assert len(names) == len(model.word_starts) < len(model.tokenizer)
    assert all(name.startswith("Ġ") for name in names)
    assert (np.diff(best[:, 1]) <= 0).all()


WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c"]
CONFIG = transformers.BertConfig(
    vocab_size=len(WORDS),
    hidden_size=8,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=16,
)


def _archive(path, files):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    return transformers.BertForMaskedLM(CONFIG).eval()


def _released(network, tmp_path, without="", wrapped=False):
    """The two archives: keys of the checkpoint under `decoder.`, with the span head, the pooler and
    old names.
    """
    state = {
        f"decoder.{name}": value.clone() for name, value in network.state_dict().items()
    }
    state |= {
        "decoder.bert.pooler.dense.weight": torch.zeros(8, 8),
        "decoder.cls.pair_bias": torch.zeros(3),
    }
    state = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma"): value
        for name, value in state.items()
    }
    state = {
        name: value
        for name, value in state.items()
        if not without or without not in name
    }
    buffer = io.BytesIO()
    torch.save(
        {"model": state} if wrapped else {"encoder.x": torch.zeros(1), **state}, buffer
    )
    config = json.dumps(CONFIG.to_dict()).encode()
    return (
        _archive(
            tmp_path / "head.tar.gz",
            {"spanbert_large_with_head/model.pt": buffer.getvalue()},
        ),
        _archive(
            tmp_path / "hf.tar.gz",
            {"config.json": config, "vocab.txt": "\n".join(WORDS).encode()},
        ),
    )


@pytest.mark.parametrize("wrapped", [False, True])
def test_the_converted_model_says_what_the_network_says(network, tmp_path, wrapped):
    dropped = convert_spanbert(
        *_released(network, tmp_path, wrapped=wrapped), tmp_path / "spanbert"
    )
    assert dropped == ["bert.pooler.dense.weight", "cls.pair_bias"]
    spec = ModelSpec(
        "spanbert", kind="masked", weights=str(tmp_path / "spanbert"), revision="local"
    )
    loaded_model = load_masked_model(spec, Device("cpu", 1, "test"))
    ids = torch.tensor([[2, 5, 4, 7, 3]])
    with torch.inference_mode():
        assert torch.equal(loaded_model.network(ids).logits, network(ids).logits)
    assert loaded_model.tokenizer("a B c")["input_ids"] == [2, 5, 1, 7, 3]


def test_an_archive_without_the_head_is_refused_and_leaves_nothing(network, tmp_path):
    with pytest.raises(
        UserError, match=r"head\.tar\.gz: model\.pt lacks cls\.predictions\.transform"
    ):
        convert_spanbert(
            *_released(network, tmp_path, without="cls.predictions"),
            tmp_path / "spanbert",
        )
    assert {file.name for file in tmp_path.iterdir()} == {"head.tar.gz", "hf.tar.gz"}
