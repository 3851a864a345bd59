"""Names that others wrote and that become paths: none leads out of its folder, and each wrong one
is one line.
"""

import hashlib
import io
import json
import tarfile
import zipfile

import numpy as np
import pytest

from waltz.core.downloads.transfer import find_local_copy
from waltz.core.errors import UserError, convert_to_user_error
from waltz.core.files.archives import extract_folder, extract_member
from waltz.core.files.atomic import write_text
from waltz.core.files.safe_names import is_safe_name
from waltz.model_registry import ModelSpec, resolve_model
from waltz.models.checkpoint_file import read_shard_names
from waltz.models.pretrained import load_pretrained
from waltz.models.regions import StoredRegions
from waltz.plan.study import File
from waltz.sources.images import load_image, open_images
from waltz.sources.listed_images import read_image_list

OUTSIDE = [
    "../decoy",
    "/decoy",
    "//decoy",
    "a/../../decoy",
    "..",
    ".",
    "",
    "a\0b",
    "..\\decoy",
    "\ud800",
    "a" * 256,
    "b/" * 600 + "c",
]


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_name_that_leads_out_or_that_no_file_can_have_is_not_safe(name):
    assert not is_safe_name(name)


@pytest.mark.parametrize(
    "name", ["a", "a/b.c", "..a", "a..b/c", ".a", "\u00e9" * 127, "a b"]
)
def test_other_names_are_safe(name):
    assert is_safe_name(name)


@pytest.fixture
def folder(tmp_path):
    """A folder next to a decoy that its names must not reach."""
    (tmp_path / "decoy").write_text("precious")
    np.savez(
        tmp_path / "decoy.npz",
        features=np.ones((1, 3)),
        boxes=np.ones((1, 4)),
        size=np.array([9, 9]),
    )
    inner = tmp_path / "inner"
    inner.mkdir()
    yield inner
    assert (tmp_path / "decoy").read_text() == "precious"


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_local_copy_lies_below_its_folder(folder, monkeypatch, name):
    monkeypatch.setenv("WALTZ_DATA", str(folder))
    with pytest.raises(UserError, match="leads out of the folder WALTZ_DATA"):
        find_local_copy(name)


@pytest.mark.parametrize("name", ["../decoy", "a\0b", "a" * 256, "\ud800"])
def test_a_study_names_no_copy_outside(name):
    with pytest.raises(
        ValueError, match=r"leads out of the folder WALTZ_DATA|surrogate|unicode"
    ):
        File.model_validate({"url": "https://host/a", "sha256": "lock", "local": name})


BAD_URLS = [
    "https://host/..",
    "https://host/",
    "https://host/a/.?x=y",
    "https://host/a\0b.csv",
    "https://host/" + "a" * 256,
    "https://host/a.zip#../decoy",
    "https://host/a.zip#/decoy",
    "https://host/a.zip#b/..",
]


@pytest.mark.parametrize("url", BAD_URLS)
def test_a_url_names_a_file(url):
    with pytest.raises(ValueError, match="no file can have the name"):
        File.model_validate({"url": url, "sha256": "lock"})
    with pytest.raises(UserError, match=r"models\.mine: no file can have the name"):
        resolve_model("mine", {"kind": "text", "weights": url, "sha256": "lock"})
    with pytest.raises(UserError, match=r"models\.mine: no file can have the name"):
        resolve_model(
            "mine",
            {"kind": "text", "weights": "a/b", "revision": "c" * 40, "answers": url},
        )


@pytest.mark.parametrize("weights", ["a/../../decoy", "a/..", "a\0b"])
def test_a_hub_id_is_no_path(weights):
    with pytest.raises(
        UserError,
        match=r"models\.mine\.weights: .* is not a file, folder, url or hub id",
    ):
        resolve_model("mine", {"kind": "text", "weights": weights, "revision": "lock"})


@pytest.mark.parametrize(
    "name",
    [name for name in OUTSIDE if name not in (".", "", "..", "a" * 256)] + ["a" * 254],
)
def test_stored_regions_lie_in_their_folder(folder, name):
    with pytest.raises(UserError, match="would lie outside"):
        StoredRegions(folder, 3, "cpu").load_regions(name)


def write_index(folder, weight_map):
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}))
    return index


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_shard_lies_next_to_its_index(folder, name):
    index = write_index(folder, {"a": "model-1.safetensors", "b": name})
    with pytest.raises(
        UserError, match=r"index\.json: names a file outside its folder"
    ):
        read_shard_names(index)
    with pytest.raises(
        UserError, match=r"index\.json: names a file outside its folder"
    ):
        load_pretrained(
            ModelSpec("mine", kind="text", weights=str(folder), revision="local"), None
        )


@pytest.mark.parametrize(
    "weight_map", [None, [], "a", {"a": 1}, {"a": None}, {"a": ["b"]}]
)
def test_an_index_without_files_is_refused(folder, weight_map):
    with pytest.raises(UserError, match=r"index\.json: is not an index of weights"):
        read_shard_names(write_index(folder, weight_map))


def test_an_adapter_without_a_base_in_the_entry_is_refused(folder):
    (folder / "adapter_config.json").write_text(
        '{"base_model_name_or_path": "../decoy"}'
    )
    with pytest.raises(UserError, match=r"is an adapter; name the model"):
        load_pretrained(
            ModelSpec("mine", kind="text", weights=str(folder), revision="local"), None
        )


@pytest.mark.parametrize(
    "name",
    [name for name in OUTSIDE if "\0" not in name and name not in ("", ".", "\ud800")],
)
@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_members_of_archives_stay_inside(folder, kind, name):
    path = folder / f"a.{kind}"
    content = b"evil"
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("model/config.json", b"{}")
            archive.writestr(name, content)
            archive.writestr(
                f"model/./{name}" if name[0] != "/" else f"/model{name}", content
            )
    else:
        with tarfile.open(path, "w") as archive:
            for member in (
                "model/config.json",
                name,
                f"model/./{name}" if name[0] != "/" else f"/model{name}",
            ):
                entry = tarfile.TarInfo(member)
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
    extract_folder(path, folder / "target")
    assert [file.name for file in (folder / "target").iterdir()] == ["config.json"]
    with pytest.raises(UserError, match="contains 0 files"):
        extract_member(path, name, folder / "member")
    with open_images(path) as images, pytest.raises(UserError, match="is missing"):
        load_image(images, name)


@pytest.mark.parametrize("name", [*OUTSIDE[:5], "a" * 256])
def test_a_listed_image_lies_in_a_folder(folder, name):
    row = [name, "https://host/a.jpg", "1", hashlib.sha256().hexdigest()]
    (folder / "list.tsv").write_text(
        "file\turl\tbytes\tsha256\n" + "\t".join(row) + "\n"
    )
    with pytest.raises(UserError, match=r"line 2: file is (not a path|missing)"):
        read_image_list(folder / "list.tsv")


def test_a_name_that_is_too_long_is_one_line():
    with pytest.raises(OSError, match="File name too long") as error:
        resolve_model(
            "mine", {"kind": "text", "weights": "a" * 300, "revision": "lock"}
        )
    assert (
        str(convert_to_user_error(error.value))
        == f"{'a' * 300}: the name is too long; shorten it and run again"
    )


def test_a_file_of_the_longest_name_is_written_atomically(folder):
    write_text(folder / ("a" * 255), "text")
    assert [len(file.name) for file in folder.iterdir()] == [255]
