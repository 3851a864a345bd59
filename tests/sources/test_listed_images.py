"""Images that a table lists: fetched into one zip, and the rows about others rejected."""

import hashlib
import zipfile

import pytest

from waltz.core.errors import UserError
from waltz.core.records import write_records
from waltz.sources.images import list_image_names
from waltz.sources.listed_images import (
    COLUMNS,
    NOT_LISTED,
    fetch_listed_images,
    read_image_list,
    reject_unlisted,
)
from waltz.sources.records import CaptionRecord

HEADER = "file\turl\tbytes\tsha256\tlicence\n"
CONTENTS = {"val2017/1.jpg": b"first", "train2017/2.jpg": b"second"}


def write_list(folder, contents, header=HEADER):
    path = folder / "images.tsv"
    lines = [
        f"{file}\thttp://nowhere.invalid/{file}\t{len(content)}\t{hashlib.sha256(content).hexdigest()}\tCC BY 2.0\n"
        for file, content in contents.items()
    ]
    path.write_text(header + "".join(lines))
    return path


def write_copies(folder, contents):
    for file, content in contents.items():
        (folder / "copies" / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / "copies" / file).write_bytes(content)


def fetch(folder, listed):
    fetch_listed_images(
        listed, "copies", folder / "images.zip", folder / "lock.yaml", folder / "cache"
    )
    return folder / "images.zip"


def test_images_come_into_one_zip_of_the_same_bytes_each_time(tmp_path, monkeypatch):
    monkeypatch.setenv("WALTZ_DATA", str(tmp_path))
    write_copies(tmp_path, CONTENTS)
    listed = write_list(tmp_path, CONTENTS)
    zipped = fetch(tmp_path, listed)
    with zipfile.ZipFile(zipped) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == CONTENTS
    first = zipped.read_bytes()
    assert fetch(tmp_path, listed).read_bytes() == first


def test_an_image_of_other_bytes_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("WALTZ_DATA", str(tmp_path))
    write_copies(tmp_path, {**CONTENTS, "val2017/1.jpg": b"other"})
    with pytest.raises(UserError, match=r"1\.jpg: sha256 is .*, the study says"):
        fetch(tmp_path, write_list(tmp_path, CONTENTS))
    assert not (tmp_path / "images.zip").exists()


def test_rows_about_other_images_are_rejected_and_need_no_image(tmp_path):
    rows = [
        CaptionRecord(source="a", source_id="0", image="1.jpg", caption="A dog."),
        CaptionRecord(source="a", source_id="1", image="3.jpg", caption="A cat."),
        CaptionRecord(
            source="a",
            source_id="2",
            image="2.jpg",
            caption="",
            rejected="the caption is empty",
        ),
    ]
    checked = list(reject_unlisted(rows, write_list(tmp_path, CONTENTS)))
    assert [row.rejected for row in checked] == [
        None,
        NOT_LISTED,
        "the caption is empty",
    ]
    write_records(tmp_path / "rows.parquet", checked, CaptionRecord)
    assert list_image_names([tmp_path / "rows.parquet"]) == ["1.jpg", "2.jpg"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("file\turl\tbytes\n1.jpg\thttp://a/1.jpg\t5\n", "line 1: no column sha256"),
        (
            f"{HEADER}1.jpg\thttp://a/1.jpg\tfive\t{'0' * 64}\tCC\n",
            "line 2: bytes is not a number, or sha256",
        ),
        (
            HEADER + f"1.jpg\thttp://a/1.jpg\t5\t{'0' * 64}\tCC\n" * 2,
            "line 3: 1.jpg is listed twice",
        ),
    ],
)
def test_a_wrong_list_is_refused(tmp_path, text, fault):
    (tmp_path / "images.tsv").write_text(text)
    with pytest.raises(UserError, match=fault):
        read_image_list(tmp_path / "images.tsv")


NO_FILES = ("..", "../a.jpg", "/a.jpg", "a/", ".", "a\x01.jpg", "x" * 300)
NO_URLS = (
    "file:///etc/passwd",
    "/etc/passwd",
    "javascript:alert(1)",
    "ftp://nowhere.invalid/a",
)
GOOD = ("a.jpg", "http://nowhere.invalid/a", "3", "0" * 64)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "line 1: no column file, or two"),
        ([GOOD], "line 1: no column file, or two"),
        ([("file", *COLUMNS), ("a", *GOOD)], "line 1: no column file, or two"),
        ([COLUMNS, GOOD[:3]], "line 2: sha256 is missing"),
        *(
            ([COLUMNS, (name, *GOOD[1:])], "line 2: file is not a path in a folder")
            for name in NO_FILES
        ),
        *(
            (
                [COLUMNS, (GOOD[0], url, *GOOD[2:])],
                "line 2: url is none of http or https",
            )
            for url in NO_URLS
        ),
        *(
            ([COLUMNS, (*GOOD[:2], size, GOOD[3])], "line 2: bytes is not a number")
            for size in ("-3", "\u0663", "9" * 5000)
        ),
        (
            [COLUMNS, ("x/a.jpg", *GOOD[1:]), ("y/a.jpg", *GOOD[1:])],
            "line 3: y/a.jpg is listed twice, or another file of",
        ),
        ([COLUMNS, ("\udce9", *GOOD[1:])], "line 2: not UTF-8"),
    ],
)
def test_a_list_that_names_no_images_is_refused_in_one_line(tmp_path, lines, message):
    path = tmp_path / "images.tsv"
    path.write_bytes(
        "".join("\t".join(cells) + "\n" for cells in lines).encode(
            errors="surrogateescape"
        )
    )
    with pytest.raises(UserError, match=message) as refused:
        read_image_list(path)
    assert "\n" not in str(refused.value)
