"""Loaded and refused checkpoints in transformers format."""

import json
import logging
import os

import pytest
import safetensors.torch
import torch
import transformers

from stand_ins.models.tiny_encoders import BERT, VOCABULARY, bert_tokenizer
from waltz.core.errors import UserError
from waltz.model_registry import ModelSpec
from waltz.models import implied_size
from waltz.models.pretrained import get_user_folder, is_network_weight, load_pretrained

CONFIG = transformers.BertConfig(
    vocab_size=VOCABULARY, max_position_embeddings=20, **BERT
)


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
    safetensors.torch.save_file(
        change(weights), folder / "model.safetensors", metadata={"format": "pt"}
    )


def loaded(folder, **entry):
    spec = ModelSpec("mine", weights=str(folder), revision="local", **entry)
    return load_pretrained(spec, transformers.BertForMaskedLM, "masked-LM head")[0]


def without(*keys):
    return lambda weights: {
        key: value for key, value in weights.items() if key not in keys
    }


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
    with pytest.raises(
        UserError,
        match=rf"models\.mine: .* has unexpected weights {key}; [^\n]*allow_missing",
    ):
        loaded(folder)
    loaded(
        folder,
        allow_missing={key.replace(".0.", ".*."): "an adapter that was never trained"},
    )


@pytest.mark.parametrize(
    "key",
    [
        "bert.embeddings.position_ids",
        "bert.encoder.layer.0.attention.self.masked_bias",
        "score.weight",
    ],
)
def test_other_left_over_weights_are_not(folder, key):
    changed(folder, lambda weights: weights | {key: torch.ones(2)})
    loaded(folder)


def test_weights_of_another_shape_are_refused(folder):
    key = "bert.encoder.layer.1.output.dense.bias"
    changed(folder, lambda weights: weights | {key: torch.ones(5)})
    with pytest.raises(
        UserError,
        match=rf"has weights of another shape: {key} \[5\] for \[16\]; [^\n]*$",
    ):
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
        torch.save(
            safetensors.torch.load_file(folder / "model.safetensors"), folder / name
        )
        (folder / "model.safetensors").unlink()
    content = (folder / name).read_bytes()
    for size in (0, 5, len(content) // 2, len(content) - 10):
        (folder / name).write_bytes(content[:size])
        with pytest.raises(UserError, match=r"models\.mine: cannot load [^\n]*$"):
            loaded(folder)


class Command:
    """An object whose loading would run a command."""

    def __init__(self, file):
        self.file = file

    def __reduce__(self):
        return os.mkdir, (str(self.file),)


def test_a_pickle_with_code_in_it_is_refused_without_advice_to_run_it(folder):
    weights = safetensors.torch.load_file(folder / "model.safetensors")
    torch.save(
        weights | {"command": Command(folder / "ran")}, folder / "pytorch_model.bin"
    )
    (folder / "model.safetensors").unlink()
    with pytest.raises(
        UserError,
        match=r"cannot load [^\n]* are truncated, or hold Python objects, [^\n]*$",
    ) as raised:
        loaded(folder)
    assert "weights_only" not in str(raised.value)
    assert not (folder / "ran").exists()


def change_settings(folder, name, **changes):
    settings = json.loads((folder / name).read_text(encoding="utf-8")) | changes
    (folder / name).write_text(json.dumps(settings), encoding="utf-8")


DAMAGE = {
    "no JSON": (
        lambda folder: (folder / "tokenizer.json").write_text('{"a":'),
        r"tokenizer\.json: no JSON: Expecting",
    ),
    "bytes": (
        lambda folder: (folder / "tokenizer.json").write_bytes(b"\xb5\xff"),
        r"tokenizer\.json: no JSON: 'utf-8'",
    ),
    "a list": (
        lambda folder: (folder / "tokenizer_config.json").write_text("[]"),
        r"tokenizer_config\.json: no JSON object \(got list\)",
    ),
    "deep": (
        lambda folder: (folder / "config.json").write_text("[" * 9000 + "]" * 9000),
        r"config\.json: no JSON: ",
    ),
    "another tokenizer": (
        lambda folder: (folder / "tokenizer.json").write_text('{"a": 1}'),
        "tokenizer or processor: ",
    ),
    "heads": (
        lambda folder: change_settings(folder, "config.json", num_attention_heads=0),
        r"config\.json: ",
    ),
    "width": (
        lambda folder: change_settings(folder, "config.json", hidden_size="many"),
        r"config\.json: StrictDataclassFieldValidationError: .*hidden_size.* expected int, got str",
    ),
    "activation": (
        lambda folder: change_settings(folder, "config.json", hidden_act="no"),
        r"config\.json: KeyError: ",
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_settings_are_one_line_with_folder_and_file(folder, damage):
    change, expected = DAMAGE[damage]
    change(folder)
    message = rf"^models\.mine: cannot load {folder} at local: {expected}[^\n]*; check the files, or copy [^\n]*$"
    with pytest.raises(UserError, match=message):
        loaded(folder)


@pytest.mark.parametrize(
    "changes",
    [
        {"num_hidden_layers": 10_000},
        {"vocab_size": 10**12},
        {"intermediate_size": 10**11},
    ],
    ids=str,
)
def test_a_config_of_more_parameters_than_the_weights_hold_is_refused_before_they_are_loaded(
    folder, changes, monkeypatch
):
    change_settings(folder, "config.json", **changes)
    monkeypatch.setattr(transformers.BertForMaskedLM, "from_pretrained", pytest.fail)
    with pytest.raises(
        UserError,
        match=r"config\.json describes [\d,]+ parameters, more than its weights can hold",
    ):
        loaded(folder)


def test_a_config_that_needs_more_memory_than_there_is_is_refused(folder, monkeypatch):
    count = sum(
        parameter.numel()
        for parameter in transformers.BertForMaskedLM(CONFIG).parameters()
    )
    monkeypatch.setattr(implied_size, "count_usable_bytes", lambda: 4 * count - 1)
    with pytest.raises(
        UserError,
        match=rf"config\.json describes {count:,} parameters, which need 0\.0 GB",
    ):
        loaded(folder)
    monkeypatch.setattr(implied_size, "count_usable_bytes", lambda: 4 * count)
    loaded(folder)


FALCON_40B = transformers.FalconConfig(
    hidden_size=8192,
    num_hidden_layers=60,
    num_attention_heads=128,
    num_kv_heads=8,
    new_decoder_architecture=True,
    vocab_size=65024,
)


@pytest.mark.parametrize(
    ("network_class", "config"),
    [
        (transformers.BertForMaskedLM, CONFIG),
        (transformers.CLIPModel, transformers.CLIPConfig()),
        (transformers.LxmertForPreTraining, transformers.LxmertConfig()),
        (transformers.AutoModelForImageTextToText, transformers.LlavaConfig()),
        (transformers.AutoModelForSequenceClassification, transformers.AlbertConfig()),
        (transformers.AutoModelForCausalLM, FALCON_40B),
    ],
    ids=["bert", "clip", "lxmert", "llava", "albert", "falcon"],
)
def test_parameters_are_counted_without_building_all_layers(network_class, config):
    with torch.device("meta"):
        network = getattr(network_class, "from_config", network_class)(config)
    assert implied_size.count_parameters(network_class, config) == sum(
        p.numel() for p in network.parameters()
    )


def test_falcon_40b_fits_a_large_machine(tmp_path, monkeypatch):
    FALCON_40B.save_pretrained(tmp_path)
    with (tmp_path / "model.safetensors").open("wb") as file:
        file.truncate(83_000_000_000)  # sparse
    spec = ModelSpec(
        "falcon", weights=str(tmp_path), revision="local", dtype="bfloat16"
    )

    def check(memory, gpus):
        monkeypatch.setattr(implied_size, "count_usable_bytes", lambda: memory)
        monkeypatch.setattr(implied_size, "_count_gpu_bytes", lambda: gpus)
        config = transformers.AutoConfig.from_pretrained(tmp_path)
        implied_size.check_implied_size(
            spec, transformers.AutoModelForCausalLM, config, tmp_path
        )

    check(memory=256_000_000_000, gpus=0)
    check(memory=64_000_000_000, gpus=160_000_000_000)
    with pytest.raises(
        UserError, match=r"which need 82\.6 GB \(got 64\.0 GB of memory\)"
    ):
        check(memory=64_000_000_000, gpus=0)


def test_a_file_is_no_folder_in_transformers_format(folder):
    with pytest.raises(
        UserError,
        match=r"model\.safetensors is a file \(kind text reads a folder, hub id or \.gguf file\)",
    ):
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


def test_a_user_without_a_home_folder_is_told_to_set_it(monkeypatch):
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", lambda uid: {}[uid])
    with pytest.raises(UserError, match="set HOME to a folder"):
        get_user_folder()
