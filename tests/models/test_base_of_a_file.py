"""Checkpoint files of training scripts, whose base has settings and processor."""

import logging
import sys
from pathlib import Path

import pytest
import safetensors.torch
import torch
import transformers

from stand_ins.models.tiny_encoders import TEXTS
from stand_ins.models.tiny_open_clip import MODEL, draw_weights, write_open_clip
from waltz import model_registry
from waltz.core.errors import UserError
from waltz.core.jobs.devices import Device
from waltz.model_registry import (
    compute_fingerprint,
    list_hub_copies,
    load_architectures,
    resolve_model,
)
from waltz.models.checkpoint_file import align_keys
from waltz.models.encoders import load_encoder
from waltz.models.encoders.kinds import open_clip
from waltz.models.pretrained import load_pretrained
from waltz.models.resolve_name import resolve_decoder, resolve_encoder

SCENE_MODELS = Path(__file__).parents[2] / "resources" / "scenes" / "models"
CAUSAL = SCENE_MODELS / "causal-lm"
CPU = Device("cpu", 1, "a test")


@pytest.fixture(scope="module")
def tuned():
    """Weights of the causal network after training, with the tied head."""
    network = transformers.AutoModelForCausalLM.from_pretrained(
        CAUSAL, dtype=torch.float32
    )
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.01 * torch.randn_like(parameter)
    return {key: value.clone() for key, value in network.state_dict().items()}


def prefixed(prefix, weights):
    return {prefix + key: value for key, value in weights.items()}


def read(file, base=CAUSAL, kind="text"):
    spec = resolve_model(
        "mine", {"weights": str(file), "base": str(base), "kind": kind}
    )
    return load_pretrained(spec, transformers.AutoModelForCausalLM)


def write_lightning(file, weights):
    loss = {"loss.scale": torch.ones(1)}
    content = {
        "epoch": 3,
        "pytorch-lightning_version": "2.5",
        "state_dict": {**prefixed("model.", weights), **loss},
        "optimizer_states": [{"state": {0: {"step": torch.tensor(1.0)}}}],
        "hyper_parameters": {"lr": 0.1},
    }
    torch.save(content, file)


def write_wrapped(file, weights):
    torch.save({"epoch": 1, "state_dict": prefixed("module.", weights)}, file)


def write_compiled(file, weights):
    torch.save(prefixed("module._orig_mod.", weights), file)


def write_alone(file, weights):
    half = {key: value.half() for key, value in weights.items()}
    safetensors.torch.save_file(half, file)


@pytest.mark.parametrize(
    ("name", "write", "tolerance"),
    [
        ("epoch=3.ckpt", write_lightning, 0),
        ("epoch_1.pt", write_wrapped, 0),
        ("compiled.pth", write_compiled, 0),
        ("model.safetensors", write_alone, 1e-3),
    ],
)
def test_files_of_training_scripts_are_read(
    tmp_path, tuned, caplog, name, write, tolerance
):
    write(tmp_path / name, tuned)
    with caplog.at_level(logging.INFO):
        network, tokenizer = read(tmp_path / name)
    weights = network.state_dict()
    assert weights.keys() == tuned.keys()
    assert network.dtype == torch.float32
    for key, value in tuned.items():
        torch.testing.assert_close(weights[key], value, rtol=0, atol=tolerance)
    assert tokenizer("dog").input_ids
    assert ("loss.scale" in caplog.text) == name.endswith(".ckpt")


def test_a_file_without_the_head_or_its_prefix_is_read(tmp_path, tuned):
    inner = {
        key.removeprefix("transformer."): value
        for key, value in tuned.items()
        if key != "lm_head.weight"
    }
    torch.save(prefixed("module.", inner), tmp_path / "a.pt")
    weights = read(tmp_path / "a.pt")[0].state_dict()
    assert all(torch.equal(weights[key], value) for key, value in tuned.items())


def test_missing_unexpected_and_misshapen_weights_are_refused(tmp_path, tuned):
    file = tmp_path / "a.pt"
    first, *_ = tuned
    torch.save({key: value for key, value in tuned.items() if "ln_" not in key}, file)
    with pytest.raises(
        UserError, match=r"a\.pt lacks the weights of .*ln_.* and \d+ more"
    ):
        read(file)
    torch.save({**tuned, "transformer.h.99.ln_1.bias": torch.ones(1)}, file)
    with pytest.raises(UserError, match=r"a\.pt has unexpected weights .*h\.99"):
        read(file)
    torch.save({**tuned, first: torch.ones(2, 3)}, file)
    with pytest.raises(UserError, match=r"a\.pt has weights of another shape"):
        read(file)
    torch.save({"other": torch.ones(1)}, file)
    with pytest.raises(UserError, match=r"a\.pt lacks the weights of"):
        read(file)


def test_a_pickle_of_objects_is_not_run(tmp_path):
    torch.save({"model": Device("cpu", 1, "an object")}, tmp_path / "a.pt")
    with pytest.raises(UserError, match=r"a\.pt: .*is not loaded because"):
        read(tmp_path / "a.pt")


def test_a_prefix_is_removed_only_before_the_network():
    names = {"a.b", "a.c", "b"}
    one = torch.ones(1)
    assert align_keys({"a.b": one, "a.c": one}, names).keys() == {"a.b", "a.c"}
    aligned = align_keys({"x.a.b": one, "x.a.c": one, "y": one}, names)
    assert aligned.keys() == {"a.b", "a.c"}
    assert align_keys({"q": one}, names).keys() == {"q"}


def test_a_command_takes_the_base_before_the_file(tmp_path, tuned):
    file = tmp_path / "a.pt"
    torch.save(tuned, file)
    spec = resolve_decoder(f"{CAUSAL}:{file}")
    assert (spec.kind, spec.weights, spec.base) == ("text", str(file), str(CAUSAL))
    with pytest.raises(UserError, match=r"there is no file absent\.pt; correct"):
        resolve_decoder(f"{CAUSAL}:absent.pt")
    before = compute_fingerprint(spec)
    torch.save({**tuned, "more": torch.ones(1)}, file)
    compute_fingerprint.cache_clear()
    assert compute_fingerprint(spec) != before


@pytest.fixture
def architecture(monkeypatch):
    monkeypatch.setattr(
        model_registry, "load_architectures", lambda: {"ViT-tiny": MODEL}
    )
    for module in (open_clip, sys.modules[resolve_encoder.__module__]):
        monkeypatch.setattr(module, "load_architectures", lambda: {"ViT-tiny": MODEL})


@pytest.mark.parametrize("prefix", ["", "module.", "model."])
@torch.inference_mode()
def test_a_file_of_open_clip_is_read_by_its_architecture(
    tmp_path, architecture, prefix
):
    folder = write_open_clip(tmp_path)
    expected = load_encoder(resolve_encoder(str(folder)), CPU)
    (folder / "open_clip_config.json").unlink()
    file = folder / "epoch_1.pt"
    content = {"epoch": 1, "state_dict": prefixed(prefix, draw_weights())}
    torch.save(content, file)
    spec = resolve_encoder(f"ViT-tiny:{file}")
    assert resolve_decoder(f"ViT-tiny:{file}") is None
    encoder = load_encoder(spec, CPU)
    weights = encoder.network.state_dict()
    for key, value in expected.network.state_dict().items():
        assert torch.equal(weights[key], value)
    assert encoder.tokenize(TEXTS[0]).ids == expected.tokenize(TEXTS[0]).ids


def test_a_file_of_open_clip_is_read_with_the_settings_of_a_folder(tmp_path):
    folder = tmp_path / "base"
    folder.mkdir()
    write_open_clip(folder, bias=-3.0)
    file = tmp_path / "epoch_2.pt"
    torch.save({"state_dict": prefixed("module.", draw_weights())}, file)
    (folder / "open_clip_model.safetensors").unlink()
    encoder = load_encoder(resolve_encoder(f"{folder}:{file}"), CPU)
    assert encoder.bias == 0


def test_architectures_are_clip_s_own(tmp_path):
    file = tmp_path / "a.pt"
    file.touch()
    entry = {"kind": "open-clip", "weights": str(file), "base": "ViT-B-32"}
    spec = resolve_model("mine", entry)
    ((path, _),) = list_hub_copies(spec)
    assert path == "openai/clip-vit-base-patch32/tokenizer.json"
    for settings in load_architectures().values():
        open_clip._check_settings(spec, settings, {})
        # Heads of equal width in each tower.
        assert (
            settings["vision_cfg"]["width"]
            % settings["vision_cfg"].get("head_width", 64)
            == 0
        )
        assert settings["text_cfg"]["width"] % settings["text_cfg"]["heads"] == 0
    with pytest.raises(UserError, match="there is no folder ViT B"):
        resolve_model("mine", {**entry, "base": "ViT B"})
    with pytest.raises(UserError, match="did you mean 'ViT-B-32'"):
        resolve_model("mine", {**entry, "base": "ViT-B32"})
