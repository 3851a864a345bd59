import io
import stat
import tarfile
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from waltz.core.errors import UserError
from waltz.core.files import archives
from waltz.core.files.archives import extract_folder, extract_member

FILES = {"data/a.json": b"[1]", "data/b/a.json": b"[2]", "data/c.txt": b"c" * 5000}


def _zip(path, files):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def _tar(path, files):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path


WRITERS = {"a.zip": _zip, "a.tar.gz": _tar}


@pytest.mark.parametrize("name", WRITERS)
def test_a_member_is_named_by_its_path_or_the_end_of_it(tmp_path, name):
    archive = WRITERS[name](tmp_path / name, FILES)
    extract_member(archive, "data/a.json", tmp_path / "out" / "1")
    extract_member(archive, "b/a.json", tmp_path / "out" / "2")
    assert [(tmp_path / "out" / number).read_bytes() for number in "12"] == [
        b"[1]",
        b"[2]",
    ]
    with pytest.raises(UserError, match=r"contains 2 files 'a\.json'"):
        extract_member(archive, "a.json", tmp_path / "out" / "3")
    with pytest.raises(UserError, match=r"contains 0 files 'd\.json'"):
        extract_member(archive, "d.json", tmp_path / "out" / "3")


@pytest.mark.parametrize("name", WRITERS)
def test_the_folder_of_a_model_is_extracted_without_subfolders(tmp_path, name):
    files = {
        "m/bert/config.json": b"{}",
        "m/bert/vocab.txt": b"a",
        "m/bert/old/x": b"x",
        "m/readme": b"r",
    }
    extract_folder(WRITERS[name](tmp_path / name, files), tmp_path / "model")
    assert {file.name for file in (tmp_path / "model").iterdir()} == {
        "config.json",
        "vocab.txt",
    }
    with pytest.raises(UserError, match="contains 0 folders with a config"):
        extract_folder(WRITERS[name](tmp_path / name, FILES), tmp_path / "none")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("member", ["../out.json", "/out.json", "a/../../out.json"])
def test_members_with_unsafe_names_are_ignored(tmp_path, name, member):
    archive = WRITERS[name](tmp_path / name, {member: b"x"})
    with pytest.raises(UserError, match="contains 0 files"):
        extract_member(archive, member, tmp_path / "extracted")


def test_links_are_ignored(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        link = tarfile.TarInfo("config.json")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    with pytest.raises(UserError, match="contains 0 files"):
        extract_member(tmp_path / "a.tar", "config.json", tmp_path / "extracted")


def test_a_decompression_bomb_is_refused_and_leaves_no_file(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "MAX_BYTES", 1000)
    with pytest.raises(UserError, match="has more than 1000 bytes"):
        extract_member(
            _zip(tmp_path / "a.zip", FILES), "data/c.txt", tmp_path / "extracted"
        )
    assert {file.name for file in tmp_path.iterdir()} == {"a.zip"}


@pytest.mark.parametrize("name", WRITERS)
def test_a_truncated_archive_is_an_error_with_its_name(tmp_path, name):
    archive = WRITERS[name](tmp_path / name, {"a": bytes(range(256)) * 400})
    archive.write_bytes(archive.read_bytes()[:-200])
    with pytest.raises(UserError, match="delete it and run again to fetch it"):
        extract_member(archive, "a", tmp_path / "extracted")


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_two_files_of_one_name_are_refused(tmp_path, kind):
    if kind == "zip":
        with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
            for content in ("1", "2"):
                archive.writestr("a.json", content)
    else:
        with tarfile.open(tmp_path / "a.tar", "w") as archive:
            for _ in range(2):
                archive.addfile(tarfile.TarInfo("a.json"))
    with pytest.raises(UserError, match=r"contains 2 files 'a\.json', expected 1"):
        extract_member(tmp_path / f"a.{kind}", "a.json", tmp_path / "extracted")


@pytest.mark.parametrize("name", WRITERS)
def test_files_that_differ_in_case_alone_do_not_overwrite_each_other(tmp_path, name):
    archive = WRITERS[name](
        tmp_path / name, {"m/config.json": b"{}", "m/A.txt": b"1", "m/a.txt": b"2"}
    )
    with pytest.raises(UserError, match=r"contains 2 files 'm/a\.txt', expected 1"):
        extract_folder(archive, tmp_path / "model")


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFCHR, stat.S_IFIFO])
def test_links_and_devices_in_a_zip_are_ignored(tmp_path, kind):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        link = zipfile.ZipInfo("config.json")
        link.external_attr = (kind | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(UserError, match="contains 0 files"):
        extract_member(tmp_path / "a.zip", "config.json", tmp_path / "extracted")


@pytest.mark.parametrize(
    ("offset", "value"),
    [(8, 1), (10, 99)],
    ids=["encrypted", "unsupported compression"],
)
def test_rare_members_of_a_zip_are_one_line(tmp_path, offset, value):
    content = bytearray(_zip(tmp_path / "a.zip", {"a": b"1" * 100}).read_bytes())
    # The central directory and the file's own.
    for header, shift in (
        (b"PK\x01\x02", 0),
        (b"PK\x03\x04", -2),
    ):
        content[content.index(header) + offset + shift] = value
    (tmp_path / "a.zip").write_bytes(content)
    with pytest.raises(
        UserError, match="damaged archive, or encrypted or in an unknown compression"
    ) as raised:
        extract_member(tmp_path / "a.zip", "a", tmp_path / "extracted")
    assert len(str(raised.value).splitlines()) == 1


@settings(max_examples=200, deadline=None)
@given(
    name=st.sampled_from(sorted(WRITERS)),
    cut=st.integers(0, 200),
    changes=st.lists(st.tuples(st.integers(0, 10**4), st.integers(0, 255)), max_size=4),
)
def test_a_spoilt_archive_is_extracted_or_one_line(
    tmp_path_factory, name, cut, changes
):
    folder = tmp_path_factory.mktemp("spoilt")
    content = bytearray(WRITERS[name](folder / name, FILES).read_bytes())
    for position, byte in changes:
        content[position % len(content)] = byte
    (folder / name).write_bytes(content[: len(content) - cut])
    line = ""
    try:
        extract_member(folder / name, "data/c.txt", folder / "extracted")
    except UserError as error:
        line = str(error)
    assert len(line.splitlines()) == (0 if (folder / "extracted").exists() else 1)
