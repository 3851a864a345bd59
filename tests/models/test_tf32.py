"""TF32 in linear layers of encoders."""

import importlib
from types import SimpleNamespace

import pytest
import torch

from waltz import model_registry
from waltz.core.errors import UserError
from waltz.core.jobs.devices import Device
from waltz.model_registry import ModelSpec
from waltz.models.encoders import load_encoder
from waltz.models.tf32 import use_tf32

SCENES_CLIP = "resources/scenes/models/clip"


class Recorded(torch.nn.Linear):
    """A layer that records the precision of its products."""

    def forward(self, inputs):
        self.precision = torch.get_float32_matmul_precision()
        return super().forward(inputs)


def test_precision_is_lower_within_linear_layers_alone():
    layers = torch.nn.Sequential(Recorded(2, 3), torch.nn.ReLU(), Recorded(3, 2))
    other = Recorded(2, 2)
    use_tf32(layers)
    outputs = other(layers(torch.ones(1, 2)))
    assert outputs.shape == (1, 2)
    assert [layers[0].precision, layers[2].precision] == ["high", "high"]
    assert other.precision == torch.get_float32_matmul_precision() == "highest"


def test_precision_is_restored_after_an_error():
    layer = Recorded(2, 3)
    use_tf32(layer)
    with pytest.raises(RuntimeError):
        layer(torch.ones(1, 5))
    assert layer.precision == "high"
    assert torch.get_float32_matmul_precision() == "highest"


def test_other_models_have_no_tf32():
    spec = ModelSpec("gpt2", "text", "openai-community/gpt2", "lock", "tf32")
    with pytest.raises(UserError, match=r"gpt2\.dtype: wrong kind of model for tf32"):
        model_registry._check_dtype(spec)
    model_registry._check_dtype(ModelSpec("clip", "clip", dtype="tf32"))


def test_an_encoder_in_tf32_has_float32_weights_and_its_own_name(monkeypatch):
    networks = []
    monkeypatch.setattr("waltz.models.encoders.use_tf32", networks.append)
    spec = ModelSpec("clip", "clip", SCENES_CLIP, "local", "tf32")
    encoder = load_encoder(spec, Device("cpu", 1, "test"))
    assert networks == [encoder.network]
    assert encoder.spec.dtype == "tf32"
    assert encoder.network.dtype == torch.float32
    exact = ModelSpec("clip", "clip", SCENES_CLIP, "local")
    load_encoder(exact, Device("cpu", 1, "test"))
    assert len(networks) == 1


def test_an_encoder_without_a_network_has_no_tf32(monkeypatch):
    module = SimpleNamespace(load_clip=lambda spec, device: object())
    monkeypatch.setattr(importlib, "import_module", lambda name: module)
    spec = ModelSpec("mine", "clip", SCENES_CLIP, "local", "tf32")
    with pytest.raises(UserError, match="tf32 needs a network of torch"):
        load_encoder(spec, Device("cpu", 1, "test"))
