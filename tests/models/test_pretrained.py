"""Loaded and refused checkpoints in transformers format."""

import logging

import pytest
import safetensors.torch
import torch
import transformers

from stand_ins.models.tiny_encoders import BERT, VOCABULARY, bert_tokenizer
from waltz.core.errors import UserError
from waltz.model_registry import ModelSpec
from waltz.models.pretrained import is_network_weight, load_pretrained

CONFIG = transformers.BertConfig(vocab_size=VOCABULARY, max_position_embeddings=20, **BERT)


@pytest.fixture
def folder(tmp_path):
    """A BERT with both heads of its pre-training, and a tokenizer."""
    torch.manual_seed(0)
    transformers.BertForPreTraining(CONFIG).save_pretrained(tmp_path)
    bert_tokenizer().save_pretrained(tmp_path)
    return tmp_path


def changed(folder, change):
    """The checkpoint with a change to its weights by key."""
    weights = safetensors.torch.load_file(folder / "model.safetensors")
    safetensors.torch.save_file(change(weights), folder / "model.safetensors", metadata={"format": "pt"})


def loaded(folder, **entry):
    spec = ModelSpec("mine", weights=str(folder), revision="local", **entry)
    return load_pretrained(spec, transformers.BertForMaskedLM, "masked-LM head")[0]


def without(*keys):
    return lambda weights: {key: value for key, value in weights.items() if key not in keys}


def test_parts_that_a_class_does_not_use_are_logged(folder, caplog):
    with caplog.at_level(logging.INFO):
        loaded(folder)
    assert "cls.seq_relationship.bias" in caplog.text
    assert "bert.pooler.dense.weight" in caplog.text


@pytest.mark.parametrize(
    "key",
    [
        "bert.encoder.layer.2.output.dense.bias",
        "bert.encoder.layer.0.output.gate.weight",
        "bert.encoder.layer.0.attention.self.query.scale",
        "bert.embeddings.visual_embeddings.weight",
        "bert.encoder.gate.weight",
        "cls.predictions.transform.gate.weight",
    ],
)
def test_left_over_weights_among_the_networks_own_are_refused(folder, key):
    changed(folder, lambda weights: weights | {key: torch.ones(2)})
    with pytest.raises(UserError, match=rf"models\.mine: .* has unexpected weights {key}; [^\n]*allow_missing"):
        loaded(folder)
    loaded(folder, allow_missing={key.replace(".0.", ".*."): "an adapter that was never trained"})


@pytest.mark.parametrize(
    "key", ["bert.embeddings.position_ids", "bert.encoder.layer.0.attention.self.masked_bias", "score.weight"]
)
def test_other_left_over_weights_are_not(folder, key):
    changed(folder, lambda weights: weights | {key: torch.ones(2)})
    loaded(folder)


def test_weights_of_another_shape_are_refused(folder):
    key = "bert.encoder.layer.1.output.dense.bias"
    changed(folder, lambda weights: weights | {key: torch.ones(5)})
    with pytest.raises(UserError, match=rf"has weights of another shape: {key} \[5\] for \[16\]; [^\n]*$"):
        loaded(folder)


def test_a_missing_weight_that_is_excused_is_zero(folder):
    key = "bert.encoder.layer.1.output.dense.bias"
    changed(folder, without(key))
    with pytest.raises(UserError, match=f"lacks the weights of {key}"):
        loaded(folder)
    network = loaded(folder, allow_missing={"*.1.output.dense.bias": "trained without"})
    assert network.get_parameter(key).tolist() == [0] * 16


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
def test_a_truncated_checkpoint_is_refused_in_one_line(folder, name):
    if name.endswith("bin"):
        torch.save(safetensors.torch.load_file(folder / "model.safetensors"), folder / name)
        (folder / "model.safetensors").unlink()
    content = (folder / name).read_bytes()
    for size in (0, 5, len(content) // 2, len(content) - 10):
        (folder / name).write_bytes(content[:size])
        with pytest.raises(UserError, match=r"models\.mine: cannot load [^\n]*$"):
            loaded(folder)


def test_a_file_is_no_folder_in_transformers_format(folder):
    with pytest.raises(UserError, match=r"model\.safetensors is a file; kind text reads a folder or hub id"):
        loaded(folder / "model.safetensors")


def test_a_file_of_the_base_model_is_one_of_the_network():
    network = transformers.BertModel(CONFIG)
    assert is_network_weight(network, "bert.encoder.layer.2.output.dense.bias")
    assert is_network_weight(network, "encoder.layer.2.output.dense.bias")
    assert is_network_weight(network, "embeddings.more.weight")
    assert not is_network_weight(network, "cls.predictions.bias")
    assert not is_network_weight(network, "pooling.weight")
    masked = transformers.BertForMaskedLM(CONFIG)
    assert is_network_weight(masked, "encoder.layer.2.output.dense.bias")
    assert not is_network_weight(masked, "cls.seq_relationship.weight")


def test_buffers_that_older_versions_stored_are_none_of_the_networks_weights():
    sizes = {"n_embd": 8, "n_layer": 1, "n_head": 2, "vocab_size": 9}
    network = transformers.OpenAIGPTLMHeadModel(transformers.OpenAIGPTConfig(**sizes))
    assert not is_network_weight(network, "transformer.h.0.attn.bias")
    assert not is_network_weight(network, "h.0.attn.masked_bias")
    assert is_network_weight(network, "transformer.h.0.attn.gate")
    assert is_network_weight(network, "h.1.ln_1.weight")
