"""Rows of tables, in every arrangement in which people have them."""

import codecs
import json
import unicodedata

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from waltz.core.errors import UserError
from waltz.sources.images import find_image_path, open_images
from waltz.sources.tables import (
    find_only_file,
    read_stored_images,
    read_table,
    stores_images,
)
from waltz.sources.texts import read_texts

ROWS = [
    {"image": "a.jpg", "caption": "Two dogs, ran.", "foil": "Six dogs; ran."},
    {"image": "b.jpg", "caption": "A café.", "foil": "A\u2028“cat”."},
]


def read_rows(path):
    return [row.fields for row in read_table(path)]


def write(folder, name, content):
    path = folder / name
    if isinstance(content, str):
        content = content.encode()
    path.write_bytes(content)
    return path


COLUMNS = {name: [row[name] for row in ROWS] for name in ROWS[0]}
LINES = "\n".join(json.dumps(row) for row in ROWS)
VALUES = [list(row.values()) for row in ROWS]
SERVED = {
    "features": [{"name": name} for name in COLUMNS],
    "rows": [
        {"row_idx": number, "row": row, "truncated_cells": []}
        for number, row in enumerate(ROWS)
    ],
    "num_rows_total": len(ROWS),
}
"""Answer of the server of Hugging Face to a request for rows."""


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.json", json.dumps(ROWS)),
        ("a.json", json.dumps(ROWS, indent=1)),
        ("a.JSON", json.dumps({"data": ROWS})),
        ("a.json", json.dumps({"version": "1", "note": None, "rows": ROWS})),
        ("a.json", json.dumps(COLUMNS)),
        ("a.json", pd.DataFrame(ROWS).to_json()),
        ("a.json", pd.DataFrame(ROWS).to_json(orient="split")),
        ("a.json", pd.DataFrame(ROWS).to_json(orient="records")),
        ("a.jsonl", LINES),
        ("a.jsonl", f"\n{LINES}\n\n"),
        ("a.json", LINES),
        ("a.ndjson", LINES.replace("\n", "\r\n")),
        ("a.jsonl", json.dumps(ROWS)),
        ("a.json", json.dumps([list(COLUMNS), *VALUES])),
        ("a.jsonl", "\n".join(map(json.dumps, [list(COLUMNS), *VALUES]))),
        ("a.json", json.dumps(SERVED)),
        ("a.json", json.dumps(SERVED["rows"])),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_json_is_read_in_every_arrangement(tmp_path, name, content, encoding):
    assert read_rows(write(tmp_path, name, content.encode(encoding))) == ROWS


def test_a_page_of_a_dataset_says_that_it_is_one(tmp_path, caplog):
    page = json.dumps({**SERVED, "num_rows_total": 500})
    assert read_rows(write(tmp_path, "a.json", page)) == ROWS
    (record,) = caplog.records
    assert f"has {len(ROWS)} of the 500 rows of its data set" in record.message


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("name", ["a.csv", "a.CSV", "a.tsv"])
def test_csv_is_read_with_every_separator_and_line_end(
    tmp_path, separator, line_end, encoding, name
):
    text = pd.DataFrame(ROWS).to_csv(index=False, sep=separator, lineterminator="\n")
    content = text.replace("\n", line_end).encode(encoding)
    assert read_rows(write(tmp_path, name, content)) == ROWS


def test_blanks_behind_separators_and_in_names_of_columns_are_no_text(tmp_path):
    path = write(tmp_path, "a.csv", 'image, caption, foil\na.jpg, x y, "z, y"\n')
    (row,) = read_rows(path)
    assert row == {"image": "a.jpg", "caption": "x y", "foil": "z, y"}
    path = write(tmp_path, "a.csv", " image ,caption\na.jpg, x\n")
    assert read_rows(path) == [{"image": "a.jpg", "caption": " x"}]


def test_objects_by_id_keep_their_ids_and_lists_have_positions(tmp_path):
    path = write(tmp_path, "a.json", '{"0": {"a": 1}, "7": {"a": 2}}')
    assert read_rows(path) == [{"id": "0", "a": 1}, {"id": "7", "a": 2}]
    path = write(tmp_path, "a.json", '[["s.png", {"POS": []}]]')
    assert read_rows(path) == [{"0": "s.png", "1": {"POS": []}}]
    path = write(tmp_path, "a.json", '{"data": {"0": {"a": 1}, "x": {"b": 2}}}')
    assert read_rows(path) == [{"id": "0", "a": 1}, {"id": "x", "b": 2}]


def test_a_row_is_located_by_its_line_or_position(tmp_path):
    path = write(tmp_path, "a.csv", 'image\n"a\nb"\nc\n')
    assert [row.location for row in read_table(path)] == [
        f"{path}: line 3",
        f"{path}: line 4",
    ]
    path = write(tmp_path, "a.json", '[{"a": 1}]')
    assert [row.location for row in read_table(path)] == [f"{path}: item 1"]


def save_dataset(folder, table, files=("data-00000-of-00001.arrow",)):
    """Write a folder as `Dataset.save_to_disk` does."""
    folder.mkdir(parents=True)
    step = -(-len(table) // len(files))
    for index, name in enumerate(files):
        part = table.slice(index * step, step)
        with pa.ipc.new_stream(str(folder / name), part.schema) as writer:
            writer.write_table(part)
    names = [{"filename": name} for name in files]
    (folder / "state.json").write_text(json.dumps({"_data_files": names}))
    (folder / "dataset_info.json").write_text("{}")


IMAGES = pa.array(
    [{"bytes": b"x", "path": "a.jpg"}, {"bytes": b"y", "path": None}],
    pa.struct([("bytes", pa.binary()), ("path", pa.string())]),
)


def test_a_saved_dataset_is_read_and_its_images_have_names(tmp_path):
    table = pa.table({"image": IMAGES, "caption": ["a", "b"]})
    rows = [
        {"caption": "a", "image": "a.jpg"},
        {"caption": "b", "image": "image-2"},
    ]
    save_dataset(tmp_path / "one", table)
    assert read_rows(tmp_path / "one") == rows
    save_dataset(tmp_path / "two" / "test", table, ("a.arrow", "b.arrow"))
    splits = tmp_path / "two" / "dataset_dict.json"
    splits.write_text('{"splits": ["test"]}')
    assert read_rows(tmp_path / "two") == rows
    assert read_rows(tmp_path / "two" / "test" / "a.arrow") == rows[:1]
    splits.write_text('{"splits": ["train", "test"]}')
    with pytest.raises(UserError, match=r"several splits \(train and test\); name one"):
        read_table(tmp_path / "two")
    with pa.ipc.new_file(str(tmp_path / "file.arrow"), table.schema) as writer:
        writer.write_table(table)
    assert read_rows(tmp_path / "file.arrow") == rows


def test_images_that_a_dataset_stores_are_found_by_their_names(tmp_path):
    table = pa.table({"image": IMAGES, "caption": ["a", "b"]})
    save_dataset(tmp_path / "one", table)
    pq.write_table(table, tmp_path / "a.parquet")
    for path in (tmp_path / "one", tmp_path / "a.parquet"):
        assert read_stored_images(path) == {"a.jpg": b"x", "image-2": b"y"}
        assert stores_images(path)
        with open_images(path) as source:
            found = find_image_path(source, read_rows(path)[1]["image"])
            assert (source.read(found), source.size(found)) == (b"y", 1)
    assert find_only_file(tmp_path / "one").name == "data-00000-of-00001.arrow"
    pq.write_table(table.select(["caption"]), tmp_path / "b.parquet")
    assert not stores_images(tmp_path / "b.parquet")
    assert not stores_images(tmp_path)
    save_dataset(tmp_path / "two", table, ("a.arrow", "b.arrow"))
    assert read_stored_images(tmp_path / "two") == {"a.jpg": b"x", "image-2": b"y"}
    with pytest.raises(UserError, match="has 2 files of rows; write them as one"):
        find_only_file(tmp_path / "two")


def test_one_name_of_two_stored_images_is_refused(tmp_path):
    images = pa.array([{"bytes": letter, "path": "a.jpg"} for letter in (b"x", b"y")])
    pq.write_table(pa.table({"image": images}), tmp_path / "a.parquet")
    with pytest.raises(UserError, match=r"two images have the name 'a\.jpg'"):
        read_stored_images(tmp_path / "a.parquet")
    same = pa.array([{"bytes": b"x", "path": "a.jpg"}] * 2 + [None])
    pq.write_table(pa.table({"image": same}), tmp_path / "a.parquet")
    assert read_stored_images(tmp_path / "a.parquet") == {"a.jpg": b"x"}


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("a.xlsx", "", "is a spreadsheet, which is not read; save it as CSV"),
        ("a.txt", "", "its name ends in .txt; rows are read from .csv, .tsv"),
        ("a", "", "its name ends in nothing; rows are read from .csv, .tsv"),
        ("a.json", "", "no rows in the file"),
        ("a.json", '[{"a": "b', "truncated: the file ends within its JSON"),
        (
            "a.json",
            '[{"a": 1,}]',
            "a comma stands behind the last value, before line 1,",
        ),
        ("a.csv", "a|b\n--|:-:\n1|2\n", "line 2: a line of dashes, as in a table of"),
        ("a.csv", "BZh91", "is an archive, a compressed file or a spreadsheet"),
        ("a.json", "[]\n{}\n", "something follows the first value at line 2, column 1"),
        (
            "a.json",
            '{"x": {"0": {}}, "y": {"0": {}}}',
            "several groups of rows .x and y",
        ),
        ("a.csv", "a\0,b\n", "has bytes of value 0"),
        ("a.csv", "PK\x03\x04", "is an archive, a compressed file or a spreadsheet"),
        ("a.csv", "<!DOCTYPE html>", "is a web page; download the file itself"),
        (
            "a.parquet",
            "version https://git-lfs.github.com/spec/v1",
            "is a pointer of Git",
        ),
        ("a.tar", "", "is an archive or compressed; unpack it"),
        ("a.json", '[{"a": 1}', "truncated: the file ends within its JSON"),
        ("a.json", '[{"a": 1}\n{', "malformed JSON at line 2, column 1 .Expecting"),
        ("a.json", "[]", "no rows in the file"),
        ("a.json", "{}", "no rows in the file"),
        ("a.json", "[7]", "item 1 is a whole number, not an object"),
        ("a.json", '"x"', "the root is a text, not a list of objects"),
        ("a.json", '[{"a": 1, "a": 2}]', "key 'a' stands twice"),
        ("a.json", "[" * 9**5, "values are nested too deeply"),
        ("a.json", f"[{'1' * 5000}]", "Exceeds the limit"),
        ("a.json", b'["\xff"]', "not UTF-8 at byte 2"),
        ("a.json", codecs.BOM_UTF16_LE + b"\x00\xd8a\x00", "not UTF-16, though"),
        ("a.json", '{"a": [1], "b": [1, 2]}', "different lengths .got a 1, b 2"),
        (
            "a.json",
            '{"images": [{"id": 1}], "annotations": [{"id": 1}]}',
            "several lists of objects .images and annotations.; write one list of rows, or name a COCO file",
        ),
        ("a.json", '{"columns": ["a"], "data": [[1, 2]]}', "is not a list of 1 values"),
        ("a.jsonl", '{"a": 1}\n{"a":\n', "line 2: malformed JSON at column"),
        ("a.jsonl", '{"a": 1}\n[1]\n', "line 2 is a list, not an object"),
        ("a.jsonl", '["a"]\n{"a": 1}\n', "line 2 is an object .expected a list, as"),
        ("a.json", '[["id", "image"], ["1"]]', "item 1 is not a list of 2 values"),
        (
            "a.json",
            '[{"row": {"caption": "A"}, "truncated_cells": ["caption"]}]',
            "item 1: caption is shortened by the server; download the data set",
        ),
        ("a.jsonl", f'{{"a": {"1" * 5000}}}\n', "line 1: Exceeds the limit"),
        ("a.csv", "a,b\n1,2,3\n", "line 2: 3 cells, not 2; correct the line"),
        (
            "a.csv",
            "# made by hand\nimage,caption\na.jpg,A dog.\n",
            "line 1: a comment stands where the names .* .got '# made by hand'.; remove the lines of comments",
        ),
        ("a.csv", "a,a\n1,2\n", "column 'a' stands 2 times"),
        ("a.csv", b"a,b\n1,\xe9\n", "line 2: not UTF-8 at byte 2"),
        ("a.arrow", "no", "cannot be read"),
        ("a.parquet", "no", "cannot be read"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_line(tmp_path, name, content, fault):
    path = write(tmp_path, name, content)
    with pytest.raises(UserError, match=fault) as raised:
        read_table(path)
    assert len(str(raised.value).splitlines()) == 1
    assert str(raised.value).startswith(str(path))


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("[]", "'_data_files' lists nothing"),
        ("{}", "'_data_files' lists nothing"),
        (
            '{"_data_files": [{"x": 1}]}',
            "'_data_files' has an entry that names nothing",
        ),
        (
            '{"_data_files": [{"filename": "../a"}]}',
            "'_data_files' has an entry that names nothing",
        ),
    ],
)
def test_a_dataset_that_names_no_files_is_one_line(tmp_path, content, fault):
    (tmp_path / "state.json").write_text(content)
    with pytest.raises(UserError, match=f"state.json: {fault}"):
        read_table(tmp_path)


def test_bytes_of_images_are_stored_images(tmp_path):
    path = tmp_path / "a.parquet"
    content = b"\x89PNG of a test"
    pq.write_table(pa.table({"image": [content, None], "key": [b"x", b"y"]}), path)
    assert read_rows(path) == [
        {"image": "image-1", "key": b"x"},
        {"image": "image-2", "key": b"y"},
    ]
    assert stores_images(path)
    assert read_stored_images(path) == {"image-1": content}


def test_lists_of_rows_by_image_are_rows(tmp_path):
    rows = [{"caption": "b", "foil": "c"}, {"caption": "d", "foil": "e"}]
    path = write(tmp_path, "a.json", json.dumps({"a.png": rows, "z.jpg": rows[:1]}))
    assert [row["image"] for row in read_rows(path)] == ["a.png", "a.png", "z.jpg"]
    assert read_rows(path)[1] == {"image": "a.png", **rows[1]}


def test_lists_of_one_stored_image_are_that_image(tmp_path):
    images = [[{"bytes": b"1", "path": "a.png"}], [{"bytes": b"2", "path": None}]]
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"images": images}), path)
    assert stores_images(path)
    assert [row.fields["images"] for row in read_table(path)] == ["a.png", "images-2"]
    assert read_stored_images(path) == {"a.png": b"1", "images-2": b"2"}


def test_the_separator_that_excel_writes_above_the_header_is_no_row(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("sep=;\r\na;b\r\n1,5;2\r\n")
    (row,) = read_table(path)
    assert (row.fields, row.location) == ({"a": "1,5", "b": "2"}, f"{path}: line 3")


def test_a_folder_that_is_no_dataset_is_one_line(tmp_path):
    with pytest.raises(UserError, match="no data set that `save_to_disk` wrote"):
        read_table(tmp_path)
    with pytest.raises(UserError, match="no such file"):
        read_table(tmp_path / "a.csv")


CELL = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    st.lists(st.fixed_dictionaries({"a": CELL, "b": CELL}), min_size=1, max_size=4),
    st.sampled_from(",;\t|"),
)
def test_every_cell_is_read_as_it_was_written(tmp_path, rows, separator):
    frame = pd.DataFrame(rows)
    frame.to_csv(tmp_path / "a.csv", index=False, sep=separator, lineterminator="\r\n")
    assert read_rows(tmp_path / "a.csv") == rows
    for orient, lines in (("records", True), ("split", False), ("columns", False)):
        frame.to_json(tmp_path / "a.json", orient=orient, lines=lines)
        assert read_rows(tmp_path / "a.json") == rows


SPOILT = json.dumps(ROWS).encode(), LINES.encode(), b"image,caption\na,b\nc,d\n"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
@given(
    st.sampled_from(SPOILT),
    st.sampled_from(["a.csv", "a.json", "a.jsonl", "a.tsv"]),
    st.integers(0, 200),
    st.integers(0, 9),
    st.binary(max_size=4),
)
def test_a_spoilt_file_is_read_or_one_line(tmp_path, content, name, at, cut, put):
    path = write(tmp_path, name, content[:at] + put + content[at + cut :])
    try:
        message = f"{path}: {len(read_table(path))} rows"
    except UserError as error:
        message = str(error)
    assert len(message.splitlines()) == 1
    assert message.startswith(f"{path}: ")


def test_names_in_another_unicode_form_stay_as_they_are(tmp_path):
    name = unicodedata.normalize("NFD", "café.jpg")
    path = write(tmp_path, "a.csv", f"image\n{name}\n")
    assert read_rows(path) == [{"image": name}]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "Image;Caption\na.jpg;Two dogs.\n"),
        ("a.TSV", "image\ttext\na.jpg\tTwo dogs.\n"),
        ("a.json", '[{"image": "a.jpg", "caption": "Two  dogs."}]'),
        ("a.json", '{"x": {"sentence": "Two dogs."}}'),
        ("a.json", '{"image": "a.jpg", "caption": "Two dogs."}'),
        ("a.jsonl", '{"caption": "Two dogs."}\n'),
        ("a.txt", "\ufeffTwo dogs.\r\n\r\n"),
        (
            "a.json",
            '{"images": [{"id": 1, "file_name": "a"}], "annotations":'
            ' [{"id": 1, "image_id": 1, "caption": "Two dogs."}]}',
        ),
    ],
)
def test_captions_are_read_from_every_table(tmp_path, name, content):
    assert list(read_texts(write(tmp_path, name, content))) == ["Two dogs."]


def test_an_absent_text_of_a_table_is_empty(tmp_path):
    content = '{"caption": "Two dogs."}\n{"caption": " "}\n{"caption": null}\n'
    texts = list(read_texts(write(tmp_path, "a.jsonl", content)))
    assert texts == ["Two dogs.", "", ""]


def test_a_text_in_place_of_a_header_is_not_lost(tmp_path):
    path = write(tmp_path, "a.csv", "Two dogs run.\nA cat sleeps.\n")
    with pytest.raises(UserError, match=r"got 'two dogs run\.'\); write caption in a"):
        list(read_texts(path))


def test_a_table_without_captions_is_one_line(tmp_path):
    path = write(tmp_path, "a.csv", "image,heading\na,b\n")
    fault = r"line 2: no column of texts \(got image, heading, expected caption"
    with pytest.raises(UserError, match=fault):
        list(read_texts(path))
    with pytest.raises(UserError, match="is a spreadsheet, which is not read"):
        list(read_texts(write(tmp_path, "a.xlsx", "")))


def test_a_map_column_holds_objects(tmp_path):
    kind = pa.map_(pa.string(), pa.string())
    maps = pa.array([[("en", "A dog."), ("de", "Ein Hund.")]], type=kind)
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"image": ["a.png"], "caption": maps}), path)
    (row,) = read_table(path)
    assert row.fields == {
        "image": "a.png",
        "caption": {"en": "A dog.", "de": "Ein Hund."},
    }
    # A name that stands twice has two values.
    twice = pa.array([[("en", "A dog."), ("en", "A cat.")]], type=kind)
    pq.write_table(pa.table({"caption": twice}), path)
    with pytest.raises(UserError, match="duplicate key"):
        read_table(path)
