"""A torchvision that is absent, or of another build than torch, which breaks every network of
transformers.
"""

import os
import subprocess
import sys

import PIL.Image
import pytest

from waltz.core.errors import UserError
from waltz.model_registry import ModelSpec
from waltz.models.pretrained import report_faults


def test_a_torchvision_that_does_not_fit_torch_is_one_line(tmp_path):
    for name, text in {
        "torchvision/__init__.py": "raise RuntimeError('operator torchvision::nms does not exist')",
        "torchvision-0.28.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: torchvision\nVersion: 0.28.0\n",
    }.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    PIL.Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    program = (
        "from waltz.cli.app import app; "
        "app(['explain', '--model', 'ruler-50', '--image', 'a.png', '--text', 'dog'])"
    )
    paths = os.pathsep.join(
        [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    environment = os.environ | {"PYTHONPATH": paths}
    result = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 1
    assert result.stderr.startswith(
        "waltz: torchvision: version 0.28.0 does not fit torch "
    )
    assert (
        "(operator torchvision::nms does not exist); install both in the same build"
        in result.stderr
    )
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("version", "advice"),
    [
        ("2.13.0", r"; run: pip install -c constraints.txt -e '\.\[vision\]'$"),
        ("2.13.0+cpu", "; install the build 'cpu' of torchvision, from where"),
    ],
)
def test_an_absent_torchvision_is_installed_in_the_build_of_torch(
    monkeypatch, version, advice
):
    spec = ModelSpec("qwen", kind="vision", weights="qwen", revision="local")
    monkeypatch.setattr("torch.__version__", version)
    with pytest.raises(UserError, match=advice), report_faults(spec):
        raise ImportError(
            "Qwen2VLVideoProcessor requires the Torchvision library but it was not found. Checkout\n the page"
        )
