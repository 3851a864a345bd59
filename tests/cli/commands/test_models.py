"""The command `waltz models`."""

from pathlib import Path

from typer.testing import CliRunner

from waltz.cli.app import app
from waltz.model_registry import load_scene_models

ROOT = Path(__file__).parents[3]


def test_models_of_a_checkout_have_size_licence_and_path(monkeypatch):
    monkeypatch.chdir(ROOT)
    lines = CliRunner().invoke(app, ["models"]).output.splitlines()
    (line,) = [line for line in lines if "scenes-clip" in line]
    cells = list(map(str.strip, line.strip("│").split("│")))
    path = "resources/scenes/models/clip"
    assert cells[:5] == ["scenes-clip", "clip", "658 k", "MIT", path]
    assert not [line for line in lines if "scenes-" in line and "unknown" in line]


def test_their_paths_stay_valid_in_another_folder(monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT)
    load_scene_models.cache_clear()
    load_scene_models()
    monkeypatch.chdir(tmp_path)
    assert Path(load_scene_models()["scenes-clip"].weights).is_dir()
