import csv
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from waltz.cli import app
from waltz.core.devices import Device
from waltz.core.errors import UserError
from waltz.models.registry import ModelSpec
from waltz.models.retrieval import image_vectors, load_retriever, text_vectors
from waltz.scenes.draw import draw
from waltz.scenes.sample import scenes

CLIP = Path(__file__).parents[2] / "resources" / "scenes" / "models" / "clip"
CAPTIONS = (
    "A boy is dancing in the snow.",
    "A sheep is sleeping on the street.",
    "A dog is chasing a cow on the street.",
)
"""What the first three scenes of seed 2026 show."""


def test_each_caption_finds_its_scene():
    retriever = load_retriever(ModelSpec("clip", weights=str(CLIP), revision="local"), Device("cpu", 1, "a test"))
    images = image_vectors(retriever, [draw(graph) for graph in scenes(3, 2026)])
    scores = text_vectors(retriever, CAPTIONS) @ images.T
    assert np.linalg.norm(images, axis=1) == pytest.approx(1)
    assert scores.argmax(axis=1).tolist() == [0, 1, 2]


def test_a_missing_model_is_named(tmp_path):
    with pytest.raises(UserError, match="cannot load"):
        load_retriever(ModelSpec("clip", weights=str(tmp_path), revision="local"), Device("cpu", 1, "a test"))


def test_empty_cells_are_filled_with_images_that_no_caption_was_written_for(tmp_path):
    (tmp_path / "images").mkdir()
    for name, graph in zip("abc", scenes(3, 2026), strict=True):
        draw(graph).save(tmp_path / "images" / f"{name}.png")
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
