"""Folders that come with Python code of their own: it never runs without the entry's consent,
whatever is answered.
"""

import builtins
import io
import json
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from stand_ins.models import tiny_clip
from waltz.core.errors import UserError
from waltz.core.jobs.devices import Device
from waltz.model_registry import ModelSpec
from waltz.models.decoders import language_model, vision_loading
from waltz.models.encoders import load_encoder
from waltz.models.encoders.base import load_bert_tokenizer
from waltz.models.resolve_name import resolve_decoder, resolve_encoder
from waltz.models.text.causal import load_causal_model
from waltz.models.text.classifier import load_classifier
from waltz.models.text.masked import load_masked_model

CPU = Device("cpu", 1, "a test")
CODE = """
from pathlib import Path
Path({marker!r}).touch()
from transformers import PretrainedConfig
class Foreign(PretrainedConfig):
    model_type = "foreign"
"""
NETWORKS = ("CausalLM", "ImageTextToText", "MaskedLM", "SequenceClassification")
CLASSES = {
    "config.json": [
        "AutoConfig",
        "AutoModel",
        *(f"AutoModelFor{task}" for task in NETWORKS),
    ],
    "tokenizer_config.json": ["AutoProcessor", "AutoTokenizer"],
    "preprocessor_config.json": ["AutoImageProcessor", "AutoProcessor"],
    "processor_config.json": ["AutoProcessor"],
}
"""Auto classes of each file whose `auto_map` names code."""
TYPES = ("model_type", "tokenizer_class", "image_processor_type", "processor_class")
LOADERS = {
    "causal": load_causal_model,
    "classifier": load_classifier,
    "masked": load_masked_model,
    "text": language_model.load_language_model,
    "vision": vision_loading.load_vision_decoder,
    "clip": load_encoder,
    "flava": load_encoder,
    "lxmert": load_encoder,
    "bert": lambda spec, _: load_bert_tokenizer(spec, Path(spec.weights)),
    "named encoder": lambda spec, _: resolve_encoder(spec.weights),
    "named decoder": lambda spec, _: resolve_decoder(spec.weights),
}


@pytest.fixture
def answers(monkeypatch):
    """Answer every question with yes."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n" * 20))
    monkeypatch.setattr(builtins, "input", lambda *_: "y")


@pytest.fixture
def marker(tmp_path):
    return tmp_path / "ran"


def add_code(folder, marker, foreign):
    """Name code in the `auto_map` of each file, and where asked for take away the types that
    transformers knows.
    """
    (folder / "code.py").write_text(CODE.format(marker=str(marker)))
    for name, classes in CLASSES.items():
        path = folder / name
        config = json.loads(path.read_text()) if path.is_file() else {}
        if name in foreign:
            config |= dict.fromkeys(
                (
                    "model_type",
                    "tokenizer_class",
                    "image_processor_type",
                    "processor_class",
                ),
                "Foreign",
            )
        values = {
            each: ["code.Foreign"] * 2 if each == "AutoTokenizer" else "code.Foreign"
            for each in classes
        }
        path.write_text(json.dumps(config | {"auto_map": values}))
    return folder


@pytest.mark.parametrize(
    "foreign", [["config.json"], list(CLASSES)[1:]], ids=["config", "processors"]
)
@pytest.mark.parametrize("kind", LOADERS)
def test_no_kind_of_model_runs_its_code(kind, foreign, tmp_path, marker, answers):
    folder = add_code(tiny_clip.save_clip(tmp_path / "model"), marker, foreign)
    # Some load, since the type of an encoder is not read from the folder.
    with suppress(Exception):
        LOADERS[kind](ModelSpec("mine", kind, str(folder), "local"), CPU)
    assert not marker.exists()


@pytest.mark.parametrize(
    "load",
    [
        load_causal_model,
        language_model.load_language_model,
        vision_loading.load_vision_decoder,
    ],
)
def test_the_key_that_would_trust_it_is_named(load, tmp_path, marker):
    folder = add_code(tiny_clip.save_clip(tmp_path / "model"), marker, ["config.json"])
    with pytest.raises(
        UserError,
        match=r"^models\.mine: .* was not run; .* set models\.mine\.trust_remote_code to true",
    ) as error:
        load(ModelSpec("mine", weights=str(folder), revision="local"), CPU)
    assert "\n" not in str(error.value)


def test_trusted_code_runs(tmp_path, marker):
    folder = add_code(tiny_clip.save_clip(tmp_path / "model"), marker, ["config.json"])
    with pytest.raises(UserError):  # it is no network
        language_model.load_language_model(
            ModelSpec(
                "mine", weights=str(folder), revision="local", trust_remote_code=True
            ),
            CPU,
        )
    assert marker.exists()


def test_code_is_trusted_at_one_commit():
    with pytest.raises(UserError, match="not a full commit hash"):
        load_masked_model(
            ModelSpec(
                "mine", weights="some/model", revision="main", trust_remote_code=True
            ),
            CPU,
        )
