"""A torchvision of another build than torch, which breaks every network of transformers."""

import os
import subprocess
import sys

import PIL.Image


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
