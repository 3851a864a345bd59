"""Damaged and hostile files: readers of downloads, archives and lists give what is there, or one
line.
"""

import bz2
import gzip
import io
import json
import lzma
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image

from waltz.core.downloads.content_checks import (
    CHECKS,
    HEAD_BYTES,
    find_content_fault,
    find_head_fault,
)
from waltz.core.errors import UserError
from waltz.core.files.archives import extract_folder, extract_member
from waltz.sources.images import check_images, open_images
from waltz.sources.listed_images import read_image_list


def build_png():
    file = io.BytesIO()
    Image.new("RGB", (5, 4), "red").save(file, format="PNG")
    return file.getvalue()


def build_zip():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model/config.json", b"{}")
        archive.writestr("a.png", build_png())
    return file.getvalue()


def build_tar():
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name, content in (("model/config.json", b"{}"), ("a.png", build_png())):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return file.getvalue()


HEADER = json.dumps(
    {"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}
).encode()
FILES = {
    "a.zip": build_zip(),
    "a.npz": build_zip(),
    "a.tar": build_tar(),
    "a.tar.gz": gzip.compress(build_tar(), mtime=0),
    "a.tar.bz2": bz2.compress(build_tar()),
    "a.tar.xz": lzma.compress(build_tar()),
    "a.json": b'{"a": [1, 2.5, "b", null]}',
    "a.json.gz": gzip.compress(b'{"a": 1}', mtime=0),
    "a.jsonl": b'{"a": 1}\n{"b": "\xc3\xa4"}\n',
    "a.safetensors": len(HEADER).to_bytes(8, "little") + HEADER + b"1234",
    "a.parquet": b"PAR1 and so on PAR1",
    "a.pth": b"\x80\x02}.",
    "a.png": build_png(),
    "a.csv": b"item,caption\n1,a dog\n",
}
FOLDERS = ["images", "..", "/proc/self/fdinfo", ".", "~", "a" * 300, "\0"]
INSERTED = st.one_of(
    st.binary(max_size=9),
    st.sampled_from(
        [
            b"\xff" * 8,
            b"[" * 3000,
            b"\0" * 600,
            b"NaN",
            b"9" * 5000,
            b"<html>",
            b'{"a":' * 2000,
            b"\xef\xbb\xbf",
        ]
    ),
)
CHANGES = st.lists(
    st.tuples(st.integers(0, 400), st.integers(0, 9), INSERTED), max_size=3
)


def damage(content, changes, cut):
    for position, length, inserted in changes:
        content = content[:position] + inserted + content[position + length :]
    return content[: len(content) - cut]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("damaged")


def test_every_format_is_tried():
    assert {suffixes for suffixes, _ in CHECKS} == {
        next(suffixes for suffixes, _ in CHECKS if name.endswith(suffixes))
        for name in FILES
    }


@settings(max_examples=250, deadline=None, derandomize=True)
@given(
    name=st.sampled_from(sorted(FILES)),
    changes=CHANGES,
    cut=st.just(0) | st.integers(0, 200),
)
@example(name="a.safetensors", changes=[(0, 8, b"\xff" * 8)], cut=0)
@example(name="a.safetensors", changes=[(8, 400, b'{"a": 5}')], cut=0)
@example(
    name="a.safetensors", changes=[(0, 400, (2).to_bytes(8, "little") + b"[]")], cut=0
)
@example(name="a.json", changes=[(0, 400, b"[" * 200_000)], cut=0)
@example(name="a.jsonl", changes=[(0, 400, b"9" * 5000)], cut=0)
def test_a_damaged_file_has_a_fault_of_one_line_or_none(folder, name, changes, cut):
    content = damage(FILES[name], changes, cut)
    (folder / name).write_bytes(content)
    for fault in (
        find_content_fault(folder / name, name),
        find_head_fault(content[:HEAD_BYTES], name),
    ):
        assert fault is None or len(fault.splitlines()) == 1


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    name=st.sampled_from([name for name in FILES if ".tar" in name or ".zip" in name]),
    changes=CHANGES,
    cut=st.just(0) | st.integers(0, 200),
)
def test_a_damaged_archive_is_read_or_one_line(folder, name, changes, cut):
    path = folder / name
    path.write_bytes(damage(FILES[name], changes, cut))

    def check():
        with open_images(path) as images:
            check_images(images, ["a.png", "b.png"])

    for read in (
        check,
        lambda: extract_folder(path, folder / "model"),
        lambda: extract_member(path, "a.png", folder / "b.png"),
    ):
        line = ""
        try:
            read()
        except UserError as error:
            line = str(error)
        assert len(line.splitlines()) <= 1


def test_a_folder_that_cannot_be_read_is_one_line(folder, monkeypatch):
    def refuse(self):
        raise PermissionError(13, "Permission denied", str(self))

    (folder / "images").mkdir(exist_ok=True)
    (folder / "images" / "a.png").write_bytes(build_png())
    monkeypatch.setattr(Path, "is_file", refuse)
    with (
        pytest.raises(UserError, match=r"a\.png: cannot be read \(Permission denied\)"),
        open_images(folder / "images"),
    ):
        pass


@settings(max_examples=120, deadline=None, derandomize=True)
@given(
    content=st.binary(max_size=60)
    | st.lists(st.text(max_size=20) | st.sampled_from(FOLDERS), max_size=5).map(
        lambda lines: "\n".join(lines).encode(errors="surrogatepass")
    )
)
def test_a_list_of_folders_is_read_or_one_line(folder, content):
    (folder / "images").mkdir(exist_ok=True)
    (folder / "images" / "a.png").write_bytes(build_png())
    (folder / "list.txt").write_bytes(content)
    line = ""
    try:
        with open_images(folder / "list.txt") as images:
            check_images(images, ["a.png"])
    except UserError as error:
        line = str(error)
    assert len(line.splitlines()) <= 1


@settings(max_examples=120, deadline=None, derandomize=True)
@given(
    rows=st.lists(
        st.lists(
            st.text(max_size=12)
            | st.sampled_from(
                [
                    "a.jpg",
                    "../a",
                    "https://h/a",
                    "5",
                    "9" * 5000,
                    "\u0663",
                    "0" * 64,
                    "a" * 300,
                ]
            ),
            min_size=3,
            max_size=5,
        ),
        max_size=3,
    ),
    header=st.sampled_from(
        ["file\turl\tbytes\tsha256", "file\turl", "", "\ufefffile\turl\tbytes\tsha256"]
    ),
    tail=st.binary(max_size=5),
)
def test_a_list_of_images_is_read_or_one_line(folder, rows, header, tail):
    text = "\n".join([header, *("\t".join(row) for row in rows)])
    (folder / "images.tsv").write_bytes(text.encode(errors="surrogatepass") + tail)
    line = ""
    try:
        read_image_list(folder / "images.tsv")
    except UserError as error:
        line = str(error)
    assert len(line.splitlines()) <= 1
