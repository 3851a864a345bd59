"""CLIP in the layout of open_clip: the logits of the package itself."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

from stand_ins.models.tiny_encoders import TEXTS
from stand_ins.models.tiny_open_clip import TEXT, VISION, draw_weights, write_open_clip
from waltz.core.errors import UserError
from waltz.core.jobs.devices import Device
from waltz.model_registry import ModelSpec
from waltz.models.encoders import load_encoder
from waltz.models.resolve_name import resolve_decoder, resolve_encoder

CPU = Device("cpu", 1, "a test")
LOGITS = (-6.353386, -5.380812, -4.568573)
"""Of the three texts with the image, as computed by open_clip 3.3.0 from the same weights with its
own preparation.
"""


def load(folder):
    return load_encoder(
        ModelSpec("mine", kind="open-clip", weights=str(folder), revision="local"), CPU
    )


def photo():
    return Image.fromarray(
        np.random.default_rng(7).integers(0, 255, (47, 61, 3), dtype=np.uint8)
    )


@pytest.mark.parametrize("bias", [None, -3.0])
@torch.inference_mode()
def test_logits_are_those_of_the_package(tmp_path, bias):
    encoder = load(write_open_clip(tmp_path, bias))
    image = encoder.encode_image(encoder.prepare_image(photo())[None])
    for text, expected in zip(TEXTS, LOGITS, strict=True):
        logit = encoder.fuse(
            encoder.encode_text(torch.tensor([encoder.tokenize(text).ids])), image
        )
        assert logit.tolist() == pytest.approx([expected + (bias or 0)], abs=1e-5)


def test_a_checkpoint_of_torch_save_is_read_too(tmp_path):
    write_open_clip(tmp_path)
    expected = load(tmp_path).network.state_dict()
    (tmp_path / "open_clip_model.safetensors").unlink()
    torch.save({"state_dict": draw_weights()}, tmp_path / "open_clip_pytorch_model.bin")
    weights = load(tmp_path).network.state_dict()
    assert all(torch.equal(weights[name], value) for name, value in expected.items())


def test_the_kind_of_a_folder_is_found(tmp_path):
    # As commands ask first.
    assert resolve_decoder(str(write_open_clip(tmp_path))) is None
    spec = resolve_encoder(str(tmp_path))
    assert (spec.kind, spec.revision) == ("open-clip", "local")


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"custom_text": True}, "custom_text"),
        (
            {"vision_cfg": VISION | {"timm_model_name": "vit"}},
            "vision_cfg.timm_model_name",
        ),
        ({"vision_cfg": VISION | {"layers": [3, 4, 6, 3]}}, "vision_cfg.layers"),
        ({"text_cfg": TEXT | {"hf_model_name": "roberta"}}, "text_cfg.hf_model_name"),
    ],
)
def test_another_architecture_is_refused(tmp_path, settings, named):
    with pytest.raises(UserError, match=f"not CLIP's own: {named};"):
        load(write_open_clip(tmp_path, **settings))


def test_weights_of_another_shape_are_refused(tmp_path):
    write_open_clip(tmp_path, embed_dim=11)
    with pytest.raises(UserError, match="of another shape"):
        load(tmp_path)


def test_another_preparation_of_images_is_refused(tmp_path):
    write_open_clip(tmp_path)
    config = json.loads((tmp_path / "open_clip_config.json").read_text())
    config["preprocess_cfg"]["resize_mode"] = "longest"
    (tmp_path / "open_clip_config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match=r"preprocess_cfg\.resize_mode"):
        load(tmp_path)


def test_more_layers_than_the_weights_hold_are_refused_before_they_are_built(tmp_path):
    write_open_clip(tmp_path, vision_cfg=VISION | {"layers": 10**6})
    with pytest.raises(
        UserError,
        match=r"open_clip_config\.json describes .* more than its weights can hold",
    ):
        load(tmp_path)


def test_a_folder_without_a_tokenizer_is_refused(tmp_path):
    write_open_clip(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    (tmp_path / "tokenizer_config.json").unlink()
    with pytest.raises(UserError, match="tokenizer"):
        load(tmp_path)
