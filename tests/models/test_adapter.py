"""PEFT adapters, against the same weights merged by peft and saved whole."""

import importlib.util
import json
import logging
from pathlib import Path

import pytest
import safetensors.torch
import torch
import transformers
from PIL import Image

from waltz import Explainer
from waltz.core.errors import UserError
from waltz.core.jobs.devices import Device
from waltz.model_registry import (
    compute_fingerprint,
    list_base_files,
    list_hub_copies,
    resolve_model,
    select_decisive_fields,
)
from waltz.models.encoders import load_encoder
from waltz.models.encoders.alignment import compute_pair_scores
from waltz.models.pretrained import load_pretrained
from waltz.models.resolve_name import resolve_decoder, resolve_encoder

SCENE_MODELS = Path(__file__).parents[2] / "resources" / "scenes" / "models"
NETWORKS = {
    "clip": (transformers.CLIPModel, "clip", ["q_proj", "fc1"]),
    "causal-lm": (transformers.AutoModelForCausalLM, "text", "all-linear"),
    "llava": (transformers.AutoModelForImageTextToText, "vision", ["q_proj", "v_proj"]),
}
"""Class, kind and adapted layers of each base."""
PICTURE = Image.new("RGB", (64, 64), "red")
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def write_adapter(base, folder, **settings):
    """Save an adapter with random weights, and return the merged network."""
    peft = pytest.importorskip("peft")
    network_class, _, layers = NETWORKS[base]
    torch.manual_seed(0)
    network = network_class.from_pretrained(SCENE_MODELS / base, dtype=torch.float32)
    options = {"target_modules": layers, "init_lora_weights": False, **settings}
    adapted = peft.get_peft_model(network, peft.LoraConfig(**options))
    adapted.save_pretrained(folder)
    return adapted.merge_and_unload()


def describe(base, folder, /, **entry):
    values = {"weights": str(folder), "kind": NETWORKS[base][1], **entry}
    return resolve_model("mine", values)


def loaded(base, folder, /, **entry):
    spec = describe(base, folder, **entry)
    return load_pretrained(spec, NETWORKS[base][0])


def change_settings(folder, **settings):
    file = folder / "adapter_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **settings}))


@pytest.mark.parametrize("base", NETWORKS)
def test_an_adapter_is_merged_into_its_base(tmp_path, caplog, base):
    merged = write_adapter(base, tmp_path).state_dict()
    with caplog.at_level(logging.INFO):
        network, tokenizer = loaded(base, tmp_path)
    weights = network.state_dict()
    assert weights.keys() == merged.keys()
    for key, value in merged.items():
        torch.testing.assert_close(weights[key], value, rtol=0, atol=1e-7)
    assert f"adapter merged into {SCENE_MODELS / base}" in caplog.text
    assert tokenizer is not None


def test_scores_are_those_of_the_merged_model_saved_whole(tmp_path):
    whole = tmp_path / "whole"
    write_adapter("clip", tmp_path / "adapter").save_pretrained(whole)
    processor = transformers.AutoProcessor.from_pretrained(SCENE_MODELS / "clip")
    processor.save_pretrained(whole)
    adapted, merged = score(tmp_path / "adapter"), score(whole)
    assert adapted == pytest.approx(merged, abs=1e-5)
    assert adapted != pytest.approx(score(SCENE_MODELS / "clip"), abs=1e-3)


def score(folder):
    encoder = load_encoder(resolve_encoder(str(folder)), Device("cpu", 1, "a test"))
    pair = ("scene", "A dog is chasing a cow.")
    scores = compute_pair_scores(encoder, [pair], lambda name: PICTURE)
    return scores[pair].logit


def test_an_adapter_of_peft_is_read_as_an_object(tmp_path):
    peft = pytest.importorskip("peft")
    write_adapter("clip", tmp_path)
    network = transformers.CLIPModel.from_pretrained(
        SCENE_MODELS / "clip", dtype=torch.float32
    )
    processor = transformers.AutoProcessor.from_pretrained(SCENE_MODELS / "clip")
    adapted = peft.PeftModel.from_pretrained(network, tmp_path).eval()
    text = "A dog is chasing a cow."
    value = Explainer(adapted, processor).explain(PICTURE, text, grid=(1, 1)).score
    assert value == pytest.approx(score(tmp_path), abs=1e-5)


def test_prompts_that_were_learned_are_refused_as_an_object():
    peft = pytest.importorskip("peft")
    network = transformers.AutoModelForCausalLM.from_pretrained(
        SCENE_MODELS / "causal-lm"
    )
    settings = peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2)
    adapted = peft.get_peft_model(network, settings).eval()
    with pytest.raises(TypeError, match="PROMPT_TUNING add input outside"):
        Explainer(adapted, None)


def test_layers_that_were_saved_whole_and_new_tokens_are_read(tmp_path):
    peft = pytest.importorskip("peft")
    source = SCENE_MODELS / "causal-lm"
    network = transformers.AutoModelForCausalLM.from_pretrained(
        source, dtype=torch.float32
    )
    tokenizer = transformers.AutoTokenizer.from_pretrained(source)
    tokenizer.add_tokens(["<new>"])
    network.resize_token_embeddings(len(tokenizer))
    settings = peft.LoraConfig(
        target_modules="all-linear", modules_to_save=["ln_f"], init_lora_weights=False
    )
    adapted = peft.get_peft_model(network, settings)
    with torch.no_grad():
        adapted.get_input_embeddings().weight[-1] = 1
    adapted.save_pretrained(tmp_path, save_embedding_layers=True)
    tokenizer.save_pretrained(tmp_path)
    read, read_tokenizer = loaded("causal-lm", tmp_path, base=str(source))
    assert len(read_tokenizer) == len(tokenizer)
    ids = torch.tensor([[1, len(tokenizer) - 1, 5]])
    torch.testing.assert_close(
        read.eval()(ids).logits, adapted.eval()(ids).logits, rtol=0, atol=1e-5
    )


def test_weights_of_another_base_are_refused(tmp_path):
    write_adapter("causal-lm", tmp_path)
    file = tmp_path / "adapter_model.safetensors"
    weights = safetensors.torch.load_file(file)
    first, second, *_ = sorted(weights)
    changed = {**weights, first: torch.zeros(3, 3)}
    del changed[second]
    safetensors.torch.save_file(changed, file)
    with pytest.raises(
        UserError, match=r"lacks, or has of another shape, 2 weights: .*as base$"
    ):
        loaded("causal-lm", tmp_path)
    safetensors.torch.save_file({**weights, "lora_A": torch.zeros(1)}, file)
    with pytest.raises(UserError, match="has unexpected 1 weights: lora_A"):
        loaded("causal-lm", tmp_path)


def test_faults_of_adapters_are_one_line(tmp_path, monkeypatch):
    write_adapter("causal-lm", tmp_path)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        UserError, match=r"peft, which is not installed; run: pip install"
    ):
        loaded("causal-lm", tmp_path)
    monkeypatch.undo()
    change_settings(tmp_path, target_modules=["absent"])
    with pytest.raises(UserError, match=r"absent.* not found in the base model"):
        loaded("causal-lm", tmp_path)
    prompts = {"peft_type": "PROMPT_TUNING", "num_virtual_tokens": 2}
    (tmp_path / "adapter_config.json").write_text(
        json.dumps({**prompts, "base_model_name_or_path": str(SCENE_MODELS / "clip")})
    )
    with pytest.raises(UserError, match="PROMPT_TUNING, which adds input"):
        loaded("causal-lm", tmp_path, base=str(SCENE_MODELS / "causal-lm"))


def write_settings(folder, **settings):
    (folder / "adapter_config.json").write_text(json.dumps(settings))


def test_the_base_of_an_adapter_is_part_of_its_record(tmp_path):
    base = tmp_path / "base"
    base.mkdir()
    (base / "config.json").write_text("{}")
    # A path relative to the adapter's folder.
    write_settings(tmp_path, base_model_name_or_path="base")
    spec = resolve_model("mine", {"weights": str(tmp_path)})
    assert select_decisive_fields(spec)["base"] == str(base)
    assert list_base_files(spec) == [str(base / "config.json")]
    before = compute_fingerprint(spec)
    (base / "config.json").write_text('{"changed": 1}')
    compute_fingerprint.cache_clear()
    assert compute_fingerprint(spec) != before


def test_a_base_on_the_hub_needs_a_commit(tmp_path):
    write_settings(tmp_path, base_model_name_or_path="owner/name")
    with pytest.raises(
        UserError,
        match=r"base: owner/name needs a commit \(got none\); set models.mine",
    ):
        resolve_model("mine", {"weights": str(tmp_path)})
    write_settings(tmp_path, base_model_name_or_path="owner/name", revision=COMMIT)
    spec = resolve_model("mine", {"weights": str(tmp_path)})
    assert list_hub_copies(spec) == [("owner/name", COMMIT)]
    assert compute_fingerprint(spec).endswith(f"+owner/name@{COMMIT}")


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ("", "cannot be read as JSON"),
        ("[]", "is not a JSON mapping"),
        ("{}", "base_model_name_or_path names no model"),
    ],
)
def test_settings_without_a_base_are_refused(tmp_path, settings, fault):
    (tmp_path / "adapter_config.json").write_text(settings)
    with pytest.raises(UserError, match=rf"adapter_config.json: {fault}"):
        resolve_model("mine", {"weights": str(tmp_path)})


def test_the_base_must_be_of_transformers(tmp_path):
    write_settings(tmp_path, base_model_name_or_path=str(tmp_path))
    with pytest.raises(UserError, match="of kind albef is not read on a base"):
        resolve_model("mine", {"weights": str(tmp_path), "kind": "albef"})


def test_a_command_finds_the_kind_of_an_adapter_by_its_base(tmp_path):
    base = SCENE_MODELS / "causal-lm"
    write_settings(tmp_path, base_model_name_or_path=str(base))
    spec = resolve_decoder(str(tmp_path))
    assert (spec.kind, spec.weights, spec.base) == ("text", str(tmp_path), str(base))
    write_settings(tmp_path, base_model_name_or_path=str(SCENE_MODELS / "clip"))
    assert resolve_decoder(str(tmp_path)) is None
    assert resolve_encoder(str(tmp_path)).kind == "clip"
