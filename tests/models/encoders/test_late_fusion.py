import csv
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from stand_ins.tiny_encoders import build
from waltz.cli.app import app
from waltz.core.devices import Device
from waltz.core.errors import UserError
from waltz.model_registry import ModelSpec
from waltz.models.encoders import load_encoder
from waltz.models.encoders.base import compute_image_vector, compute_text_vector
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
    encoder = load_encoder(ModelSpec("clip", kind="clip", weights=str(CLIP), revision="local"), CPU)
    images = np.stack([compute_image_vector(encoder, render_scene(graph)) for graph in draw_scenes(3, 2026)])
    scores = np.stack([compute_text_vector(encoder, caption) for caption in CAPTIONS]) @ images.T
    assert np.linalg.norm(images, axis=1) == pytest.approx(1)
    assert scores.argmax(axis=1).tolist() == [0, 1, 2]


def test_a_missing_model_is_named(tmp_path):
    with pytest.raises(UserError, match="cannot load"):
        load_encoder(ModelSpec("clip", kind="clip", weights=str(tmp_path), revision="local"), CPU)


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
        csv.writer(file).writerows([("image", "annotator", "caption", "plain_image"), *rows])
    done = CliRunner().invoke(
        app, ["people", "find-images", str(written), "--images", str(tmp_path / "images"), "--model", str(CLIP)]
    )
    assert done.exit_code == 0, done.output
    with written.open(newline="") as file:
        found = [row["plain_image"] for row in csv.DictReader(file)]
    assert found[:2] == ["b.png", "own.png"]
    assert found[2] in ("b.png", "c.png")


def test_images_are_not_found_by_an_encoder_without_vectors(tmp_path):
    for part in build("vilt"):
        part.save_pretrained(tmp_path / "vilt")
    render_scene(next(iter(draw_scenes(1, 2026)))).save(tmp_path / "a.png")
    written = tmp_path / "written.csv"
    with written.open("w", newline="") as file:
        csv.writer(file).writerows([("image", "annotator", "caption", "plain_image"), ("b.png", "one", "a dog", "")])
    options = ["--images", str(tmp_path), "--model", str(tmp_path / "vilt")]
    done = CliRunner().invoke(app, ["people", "find-images", str(written), *options])
    assert done.exit_code != 0
    assert "a vilt gives no vectors" in done.output
