"""The conversion of SpanBERT's released archives, on a tiny network in their layout."""

import io
import json
import tarfile

import pytest
import torch
import transformers

from waltz.core.devices import Device
from waltz.core.errors import UserError
from waltz.model_registry import ModelSpec
from waltz.models.text.masked import load_masked_model
from waltz.models.text.spanbert import convert_spanbert

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c"]
CONFIG = transformers.BertConfig(
    vocab_size=len(WORDS), hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16
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
    """The two archives: keys of the checkpoint under `decoder.`, with the span head, the pooler and old names."""
    state = {f"decoder.{name}": value.clone() for name, value in network.state_dict().items()}
    state |= {"decoder.bert.pooler.dense.weight": torch.zeros(8, 8), "decoder.cls.pair_bias": torch.zeros(3)}
    state = {name.replace("LayerNorm.weight", "LayerNorm.gamma"): value for name, value in state.items()}
    state = {name: value for name, value in state.items() if not without or without not in name}
    buffer = io.BytesIO()
    torch.save({"model": state} if wrapped else {"encoder.x": torch.zeros(1), **state}, buffer)
    config = json.dumps(CONFIG.to_dict()).encode()
    return (
        _archive(tmp_path / "head.tar.gz", {"spanbert_large_with_head/model.pt": buffer.getvalue()}),
        _archive(tmp_path / "hf.tar.gz", {"config.json": config, "vocab.txt": "\n".join(WORDS).encode()}),
    )


@pytest.mark.parametrize("wrapped", [False, True])
def test_the_converted_model_says_what_the_network_says(network, tmp_path, wrapped):
    dropped = convert_spanbert(*_released(network, tmp_path, wrapped=wrapped), tmp_path / "spanbert")
    assert dropped == ["bert.pooler.dense.weight", "cls.pair_bias"]
    spec = ModelSpec("spanbert", kind="masked", weights=str(tmp_path / "spanbert"), revision="local")
    found = load_masked_model(spec, Device("cpu", 1, "test"))
    ids = torch.tensor([[2, 5, 4, 7, 3]])
    with torch.inference_mode():
        assert torch.equal(found.network(ids).logits, network(ids).logits)
    assert found.tokenizer("a B c")["input_ids"] == [2, 5, 1, 7, 3]


def test_an_archive_without_the_head_is_refused_and_leaves_nothing(network, tmp_path):
    with pytest.raises(UserError, match=r"head\.tar\.gz: model\.pt lacks cls\.predictions\.transform"):
        convert_spanbert(*_released(network, tmp_path, without="cls.predictions"), tmp_path / "spanbert")
    assert {file.name for file in tmp_path.iterdir()} == {"head.tar.gz", "hf.tar.gz"}
