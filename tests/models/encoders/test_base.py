"""Vectors of late fusion, and packed linear layers."""

import csv
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from stand_ins.models.tiny_encoders import build
from waltz.cli.app import app
from waltz.core.errors import UserError
from waltz.core.jobs.devices import Device
from waltz.model_registry import ModelSpec
from waltz.models.encoders import load_encoder
from waltz.models.encoders.base import (
    PackedLinear,
    compute_image_vector,
    compute_text_vector,
    pack_linear_layers,
)
from waltz.scenes.drawing import render_scene
from waltz.scenes.sampling import draw_scenes

CLIP = Path(__file__).parents[3] / "resources" / "scenes" / "models" / "clip"
CPU = Device("cpu", 1, "a test")
CAPTIONS = (
    "A boy is dancing in the snow.",
    "A sheep is sleeping on the street.",
    "A dog is chasing a cow on the street.",
)
"""What the first three scenes of seed 2026 show."""


def test_each_caption_finds_its_scene():
    encoder = load_encoder(
        ModelSpec("clip", kind="clip", weights=str(CLIP), revision="local"), CPU
    )
    images = np.stack(
        [
            compute_image_vector(encoder, render_scene(graph))
            for graph in draw_scenes(3, 2026)
        ]
    )
    scores = (
        np.stack([compute_text_vector(encoder, caption) for caption in CAPTIONS])
        @ images.T
    )
    assert np.linalg.norm(images, axis=1) == pytest.approx(1)
    assert scores.argmax(axis=1).tolist() == [0, 1, 2]


def test_a_missing_model_is_named(tmp_path):
    with pytest.raises(UserError, match="cannot load"):
        load_encoder(
            ModelSpec("clip", kind="clip", weights=str(tmp_path), revision="local"), CPU
        )


def test_empty_cells_are_filled_with_images_that_no_caption_was_written_for(tmp_path):
    (tmp_path / "images").mkdir()
    for name, graph in zip("abc", draw_scenes(3, 2026), strict=True):
        render_scene(graph).save(tmp_path / "images" / f"{name}.png")
    written = tmp_path / "written.csv"
    rows = [
        ("a.png", "one", CAPTIONS[1], ""),
        ("a.png", "two", CAPTIONS[2], "own.png"),
        ("a.png", "two", CAPTIONS[0], ""),
    ]
    with written.open("w", newline="") as file:
        csv.writer(file).writerows(
            [("image", "annotator", "caption", "plain_image"), *rows]
        )
    done = CliRunner().invoke(
        app,
        [
            "people",
            "find-images",
            str(written),
            "--images",
            str(tmp_path / "images"),
            "--model",
            str(CLIP),
        ],
    )
    assert done.exit_code == 0, done.output
    with written.open(newline="") as file:
        plain_images = [row["plain_image"] for row in csv.DictReader(file)]
    assert plain_images[:2] == ["b.png", "own.png"]
    assert plain_images[2] in ("b.png", "c.png")


def test_an_encoder_without_vectors_finds_no_images(tmp_path):
    for part in build("vilt"):
        part.save_pretrained(tmp_path / "vilt")
    render_scene(next(iter(draw_scenes(1, 2026)))).save(tmp_path / "a.png")
    written = tmp_path / "written.csv"
    with written.open("w", newline="") as file:
        csv.writer(file).writerows(
            [
                ("image", "annotator", "caption", "plain_image"),
                ("b.png", "one", "a dog", ""),
            ]
        )
    options = ["--images", str(tmp_path), "--model", str(tmp_path / "vilt")]
    done = CliRunner().invoke(app, ["people", "find-images", str(written), *options])
    assert done.exit_code != 0
    assert "a vilt gives no vectors" in done.output


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(1, 7), (3, 5, 7), (40, 7)])
def test_the_numbers_are_those_of_the_plain_layer(shape, bias):
    layer, states = torch.nn.Linear(7, 11, bias=bias), torch.randn(shape)
    with torch.inference_mode():
        torch.testing.assert_close(
            PackedLinear(layer)(states), layer(states), rtol=0, atol=1e-6
        )


def test_gradients_are_those_of_the_plain_layer():
    layer = torch.nn.Linear(7, 11)
    gradients = []
    for one in (layer, PackedLinear(layer)):
        states = torch.ones(2, 7, requires_grad=True)
        one(states).square().sum().backward()
        gradients.append(states.grad)
    torch.testing.assert_close(*gradients)


def test_only_single_precision_linear_layers_are_packed():
    network = torch.nn.Sequential(
        torch.nn.Linear(4, 4),
        torch.nn.Sequential(torch.nn.GELU(), torch.nn.Linear(4, 4)),
        torch.nn.Linear(4, 4).double(),
    )
    pack_linear_layers(network)
    assert isinstance(network[0], PackedLinear)
    assert isinstance(network[1][1], PackedLinear)
    assert type(network[2]) is torch.nn.Linear
