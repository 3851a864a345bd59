"""The commands of a wheel that is installed in a venv of its own and called in a folder outside the
checkout.
"""

import os
import shutil
import site
import subprocess
import sys
import venv

import pytest
from PIL import Image

from workflow_runs.checkout import ROOT

pytestmark = pytest.mark.workflow

MODELS = ROOT / "resources" / "scenes" / "models"


@pytest.fixture(scope="module")
def waltz(tmp_path_factory):
    """Return a function that runs `waltz` of the wheel and returns its output.

    The venv sees the other packages of this environment, whose installation takes minutes, but not
    its waltz.
    """
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(
        ROOT / "workflow",
        folder / "sources" / "workflow",
        ignore=shutil.ignore_patterns("*.egg-info"),
    )
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy2(ROOT / file, folder / "sources")
    environment = {
        name: value for name, value in os.environ.items() if name != "PYTHONPATH"
    }
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run(
        [*pip, "wheel", "--no-deps", "-w", folder, folder / "sources"],
        check=True,
        env=environment,
    )
    venv.create(folder / "venv")
    (packages,) = (folder / "venv").glob("lib/python*/site-packages")
    (packages / "others.pth").write_text("\n".join(site.getsitepackages()))
    (wheel,) = folder.glob("*.whl")
    python = folder / "venv" / "bin" / "python"
    subprocess.run(
        [*pip, "--python", python, "install", "--no-deps", wheel],
        check=True,
        env=environment,
    )
    here = folder / "empty"
    here.mkdir()

    def run(*arguments: str) -> str:
        command = [folder / "venv" / "bin" / "waltz", *map(str, arguments)]
        result = subprocess.run(
            command, cwd=here, env=environment, capture_output=True, text=True
        )
        assert result.returncode == 0, result.stderr
        return result.stdout

    return run


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "image.png"
    Image.effect_noise((128, 128), 80).convert("RGB").save(path)
    return path


def test_it_lists_models_and_makes_foils(waltz):
    assert "clip" in waltz("models")
    assert "vases" in waltz("foil", "A small copper vase with some flowers in it.")


def test_it_explains_an_encoder_in_a_folder(waltz, image, tmp_path):
    figure = tmp_path / "figure.png"
    output = waltz(
        "explain",
        "--model",
        MODELS / "clip",
        "--image",
        image,
        "--text",
        "there are two dogs .",
        "--figure",
        figure,
    )
    assert "T-SHAP" in output
    assert figure.stat().st_size > 0


def test_it_explains_a_decoder_in_a_folder_with_prompts_of_its_own(waltz, image):
    output = waltz(
        *(
            "explain",
            "--model",
            MODELS / "llava",
            "--prompts",
            "scenes.yaml",
            "--image",
            image,
        ),
        *(
            "--question",
            "is there a dog ?",
            "--labels",
            "yes,no",
            "--max-new-tokens",
            "8",
        ),
    )
    assert "CC-SHAP" in output
