"""A language model in a GGUF file, by its path: everywhere the numbers of its own network."""

import shutil

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import waltz
from stand_ins.models import tiny_gguf
from waltz.cli.app import app
from waltz.core.errors import UserError
from waltz.core.jobs.devices import Device
from waltz.explainer.explanation import Explanation
from waltz.model_registry import ModelSpec, resolve_model
from waltz.models.decoders import load_decoder

CPU = Device("cpu", 1, "test")
QUESTION = {
    "question": "the answer is",
    "labels": ["A", "B"],
    "max_new_tokens": 3,
    "budget": 100,
}
IDS = np.array([[7, 3, 260, 9, 1], [4, 262, 0, 0, 0]])
MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]])


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tiny_gguf.write_gguf(
        tmp_path_factory.mktemp("models") / "tiny.gguf", tiny_gguf.network()
    )


@pytest.mark.parametrize("entry", ["file", "folder"])
def test_an_entry_of_a_study_reads_it(file, entry):
    weights = file if entry == "file" else file.parent
    spec = resolve_model("mine", {"kind": "text", "weights": str(weights)})
    assert spec.revision == "local"
    decoder = load_decoder(spec, CPU)
    ids = torch.tensor(IDS)
    assert torch.equal(
        decoder.network.model(ids).logits, tiny_gguf.network()(ids).logits
    )
    assert (
        decoder.decode_text(decoder.build_prompt("the answer is A").ids)
        == "the answer is A"
    )


def test_logits_are_those_of_the_network(file, tmp_path):
    np.savez(tmp_path / "in.npz", input_ids=IDS, attention_mask=MASK)
    arguments = [
        "--model",
        file,
        "--kind",
        "text",
        "--inputs",
        tmp_path / "in.npz",
        "--out",
        tmp_path / "out.npz",
    ]
    result = CliRunner().invoke(app, ["score", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    logits = np.load(tmp_path / "out.npz")["logits"]
    network = tiny_gguf.network()
    for row, length in enumerate(MASK.sum(axis=1)):
        expected = (
            network(torch.tensor(IDS[row, :length])[None]).logits[0].detach().numpy()
        )
        assert logits[row, :length] == pytest.approx(expected, abs=1e-5)
        assert not logits[row, length:].any()


def test_an_explainer_reads_it(file, tmp_path):
    explained = waltz.Explainer(str(file), progress=False).explain(**QUESTION)
    assert isinstance(explained, Explanation)
    spec = ModelSpec("own", weights=str(tmp_path), revision="local")
    tiny_gguf.network().save_pretrained(tmp_path)
    load_decoder(
        ModelSpec("file", weights=str(file), revision="local"), CPU
    ).tokenizer.save_pretrained(tmp_path)
    own = waltz.Explainer(spec, progress=False).explain(**QUESTION)
    assert np.abs(own.text).max() > 0
    assert explained.text == pytest.approx(own.text, abs=1e-6)
    assert explained.cc_shap == pytest.approx(own.cc_shap, abs=1e-4)


def test_several_files_in_a_folder_are_refused(file, tmp_path):
    for name in ("a.gguf", "b.gguf"):
        shutil.copy(file, tmp_path / name)
    with pytest.raises(
        UserError, match="holds 2 GGUF files, expected 1; name one of them"
    ):
        load_decoder(ModelSpec("mine", weights=str(tmp_path), revision="local"), CPU)


def test_a_damaged_file_is_one_line(tmp_path):
    (tmp_path / "broken.gguf").write_bytes(b"GGUF nothing")
    with pytest.raises(
        UserError, match=r"cannot load .*broken\.gguf at local: [^\n]*; check the files"
    ):
        waltz.Explainer(str(tmp_path / "broken.gguf"))
