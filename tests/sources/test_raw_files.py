"""Reading entry by entry: the entries, and the message for a broken file."""

import csv
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waltz.core.errors import UserError
from waltz.sources import raw_files
from waltz.sources.raw_files import (
    find_half_pair,
    read_csv_records,
    read_json_lines,
    read_list_entries,
    read_object_entries,
    read_root_type,
    read_value,
)

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**62), 2**62)
    | st.floats(allow_nan=False, allow_infinity=False)
)
TEXTS = st.text(st.characters(codec="utf-8"))
VALUES = st.recursive(
    SCALARS | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4)
    ),
    max_leaves=10,
)
OBJECTS = st.dictionaries(TEXTS, VALUES, max_size=5)


@given(entries=st.lists(OBJECTS, max_size=5), indent=st.sampled_from([None, 1]))
def test_lists_are_read_as_they_were_written(
    tmp_path_factory: Any, entries: list[Any], indent: int | None
) -> None:
    path = tmp_path_factory.mktemp("stream") / "raw.json"
    path.write_text(
        json.dumps({"info": {}, "data": {"rows": entries}}, indent=indent),
        encoding="utf-8",
    )
    assert list(read_list_entries(path, "data.rows", dict)) == entries
    path.write_text(json.dumps(entries, ensure_ascii=False), encoding="utf-8")
    assert list(read_list_entries(path, "", dict)) == entries


@given(content=st.dictionaries(TEXTS, OBJECTS, max_size=5))
def test_objects_are_read_as_they_were_written(
    tmp_path_factory: Any, content: dict[str, Any]
) -> None:
    path = tmp_path_factory.mktemp("stream") / "raw.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    assert dict(read_object_entries(path, "")) == content


@given(text=st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(tmp_path_factory: Any, text: bytes) -> None:
    path = tmp_path_factory.mktemp("stream") / "raw.json"
    path.write_bytes(text)
    for read in (
        lambda: list(read_list_entries(path, "rows", dict)),
        lambda: list(read_json_lines(path)),
    ):
        try:
            message = f"{path}: {len(read())} entries"
        except UserError as error:
            message = str(error)
        assert message.startswith(f"{path}: ")
        assert len(message.splitlines()) == 1


@given(cut=st.integers(0, 48))
def test_a_truncated_file_is_recognized(tmp_path_factory: Any, cut: int) -> None:
    content = '{"rows": [{"id": 1, "text": "one"}, {"id": 22}]}\n'
    path = tmp_path_factory.mktemp("stream") / "raw.json"
    path.write_text(content[:cut])
    if cut == 48:
        assert len(list(read_list_entries(path, "rows", dict))) == 2
        return
    with pytest.raises(
        UserError, match=f"truncated: the file ends at byte {cut} within"
    ):
        list(read_list_entries(path, "rows", dict))


@pytest.mark.parametrize("before", [0, 3, 70_000])
def test_the_bad_byte_is_named(tmp_path: Path, before: int) -> None:
    path = tmp_path / "raw.json"
    start = '{"rows": [' + " " * before + '{"id": 1}, '
    path.write_text(start + "oops]}")
    with pytest.raises(
        UserError, match=rf"malformed JSON at byte {len(start)}: lexical error"
    ):
        list(read_list_entries(path, "rows", dict))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "the root is a list, not an object with 'rows'"),
        ("3", "the root is a whole number, not an object"),
        ('{"info": {}, "more": 1}', "'rows' is missing (got info, more)"),
        ("{}", "'rows' is missing (got no keys)"),
        ('{"rows": {"a": {}}}', "'rows' is an object, not a list"),
        ('{"rows": "many"}', "'rows' is a text, not a list"),
        ('{"rows": null}', "'rows' is null, not a list"),
        ('{"rows": [{}, 7]}', "entry 1 of 'rows' is a whole number, not an object"),
        ('{"rows": []} {}', "malformed JSON at byte 13: parse error: trailing garbage"),
        (
            '{"rows": ["\xff"]}',
            "malformed JSON at byte 11: lexical error: invalid bytes in UTF8",
        ),
        (
            '{"rows": [{"\xc0\x80": 1}]}',
            "malformed JSON at byte 14: 'utf-8' codec can't decode byte 0xc0",
        ),  # an overlong NUL
        (
            '{"\xc0\x80": 1, "rows": []}',
            "malformed JSON at byte 4: 'utf-8' codec can't decode byte 0xc0",
        ),
    ],
)
def test_a_missing_or_mistyped_list_is_refused(
    tmp_path: Path, content: str, message: str
) -> None:
    path = tmp_path / "raw.json"
    path.write_text(content, encoding="latin-1")
    with pytest.raises(UserError) as caught:
        list(read_list_entries(path, "rows", dict))
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)


def test_an_empty_list_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "raw.json"
    path.write_text('{"rows": [], "objects": {}}')
    assert list(read_list_entries(path, "rows", dict)) == []
    assert list(read_object_entries(path, "objects")) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[1]", "the root is a list, not an object"),
        ('{"a": [1]}', "'a' of the root is a list, not an object"),
        (
            '{"a": {"\xc0\x80": 1}}',
            "malformed JSON at byte 10: 'utf-8' codec can't decode byte 0xc0",
        ),
    ],
)
def test_a_missing_or_mistyped_object_is_refused(
    tmp_path: Path, content: str, message: str
) -> None:
    path = tmp_path / "raw.json"
    path.write_text(content, encoding="latin-1")
    with pytest.raises(UserError, match=message):
        list(read_object_entries(path, ""))


def test_a_single_value_is_read_or_missing(tmp_path: Path) -> None:
    path = tmp_path / "raw.json"
    path.write_text('{"data": {"split": "val"}, "n": 3}')
    assert read_value(path, "data.split", str) == "val"
    with pytest.raises(UserError, match="'n' is a whole number, not a text"):
        read_value(path, "n", str)
    with pytest.raises(UserError, match="'version' is missing"):
        read_value(path, "version", str)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.json: no such file"):
        list(read_list_entries(tmp_path / "none.json", "rows", dict))


def test_json_lines_name_the_line(tmp_path: Path) -> None:
    path = tmp_path / "raw.jsonl"
    path.write_text('{"a": 1}\n\n{"a": 2}\n')
    assert list(read_json_lines(path)) == [(1, {"a": 1}), (3, {"a": 2})]
    path.write_text('{"a": 1}\n{"a": \n')
    with pytest.raises(UserError, match="line 2: malformed JSON"):
        list(read_json_lines(path))
    path.write_text("[1]\n")
    with pytest.raises(UserError, match="line 1 is a list, not an object"):
        list(read_json_lines(path))


def test_csv_keeps_quoted_commas_and_lines(tmp_path: Path) -> None:
    path = tmp_path / "raw.csv"
    path.write_bytes(b'\xef\xbb\xbfid,text\n1,"a, b"\n2,"two\nlines"\n')
    assert list(read_csv_records(path, required=["text"])) == [
        (2, {"id": "1", "text": "a, b"}),
        (4, {"id": "2", "text": "two\nlines"}),
    ]


@given(cells=st.lists(st.tuples(TEXTS, TEXTS), max_size=5))
def test_csv_cells_are_read_as_they_were_written(
    tmp_path_factory: Any, cells: list[tuple[str, str]]
) -> None:
    path = tmp_path_factory.mktemp("stream") / "raw.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("left", "right"), *cells])
    assert [
        (record["left"], record["right"]) for _, record in read_csv_records(path)
    ] == [row for row in cells if any(row)]


def test_blank_lines_and_long_cells_are_no_fault(tmp_path: Path) -> None:
    path = tmp_path / "raw.csv"
    path.write_text(f"id,text\n1,{'a' * 200_000}\n,\n2,b\n", encoding="utf-8")
    assert [(line, len(record["text"])) for line, record in read_csv_records(path)] == [
        (2, 200_000),
        (4, 1),
    ]


TOO_DEEP = r"nested too deeply \(got 200 levels or more\); flatten them$"


@pytest.mark.parametrize("depth", [1_000, 100_000])
@pytest.mark.parametrize(("start", "end"), [("[", "]"), ('{"a": ', "}")])
def test_values_that_are_nested_too_deeply_are_one_line(
    tmp_path: Path, start: str, end: str, depth: int
) -> None:
    path = tmp_path / "raw.json"
    path.write_text(f'[{{"rows": {start * depth}1{end * depth}}}]\n', encoding="utf-8")
    for read in (
        lambda: list(read_list_entries(path, "", dict)),
        lambda: list(read_json_lines(path)),
    ):
        with pytest.raises(UserError, match=TOO_DEEP):
            read()


def test_the_type_of_a_deep_root_is_told_at_once(tmp_path: Path) -> None:
    file = tmp_path / "deep.json"
    file.write_bytes(b"[" * 100_000)
    start = time.process_time()
    assert read_root_type(file) == "a list"
    assert time.process_time() - start < 2


@pytest.mark.parametrize(
    "start", ["[1, ", "[[], ", '["]", ', '["\\\\", ', '["\\"]", ', '[{"a": "[b"}, ']
)
def test_a_deep_value_next_to_others_is_refused_at_once(
    tmp_path: Path, start: str
) -> None:
    path = tmp_path / "raw.json"
    path.write_text(f'[{{"rows": {start * 60_000}1{"]" * 60_000}}}]', encoding="utf-8")
    begin = time.process_time()
    with pytest.raises(UserError, match=TOO_DEEP):
        list(read_list_entries(path, "", dict))
    assert time.process_time() - begin < 2


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 1 << 20])
def test_brackets_in_strings_are_no_depth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(raw_files, "CHUNK_BYTES", chunk)
    entry = {"a": "[{" * 300, "b": '\\"[' * 300, "c": "\\", "d": [[[1]]]}
    path = tmp_path / "raw.json"
    path.write_text(json.dumps([entry] * 3), encoding="utf-8")
    assert list(read_list_entries(path, "", dict)) == [entry] * 3


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"id\n1\n", "column 'text' is missing \\(got id, expected"),
        (b"", "column 'text' is missing \\(got nothing, expected"),
        (b"id,text\n1\n", "line 2: 1 cells, not 2"),
        (b"id,text,text\n1,a,b\n", "column 'text' stands 2 times; rename all but one"),
        (b'id,text\n1,"open\n', "line 2: malformed CSV"),
        (
            b"id,text\n1,\xff\n",
            "line 2: not UTF-8 at byte 2 of the line; save it as UTF-8",
        ),
        (
            "id,text\n1,a\n".encode("utf-16")[:-1],
            "not UTF-16, though its first bytes say so; save it as UTF-8",
        ),
        (
            "id,text\n1,a\n".encode("utf-32"),
            "line 1: not UTF-8 at byte 0 of the line; save it as UTF-8",
        ),
        (
            b"id,text\n1,a,b\n",
            "line 2: 3 cells, not 2; correct the line",
        ),
    ],
)
def test_broken_csv_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "raw.csv"
    path.write_bytes(content)
    with pytest.raises(UserError, match=message):
        list(read_csv_records(path, required=["text"]))


@pytest.mark.parametrize(
    "text", ["\\ud800 x", "x \\udc00", "\\ud83d\\ud83d\\ude00", "\\udc00\\ud800"]
)
def test_half_a_surrogate_pair_is_kept_as_it_stands(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(
        f'{{"a": [{{"t": "{text}", "{text}": "\\ud83d\\ude00 \\\\ud800"}}]}}'
    )
    (entry,) = read_list_entries(path, "a", dict)
    assert entry == json.loads(path.read_text())["a"][0]
    assert re.fullmatch(
        r"\\ud[89a-f].. is half of a surrogate pair, no character",
        find_half_pair([entry]) or "",
    )


def test_a_whole_surrogate_pair_is_a_character(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('["\\ud83d\\ude00"]')
    assert list(read_list_entries(path, "", str)) == ["😀"]
    assert find_half_pair("😀") is None


def test_half_a_surrogate_pair_in_malformed_json_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('["\\ud8"]')
    with pytest.raises(UserError, match=r"a\.json: malformed JSON at byte \d+: "):
        list(read_list_entries(path, "", str))
    path.write_text('["\\ud800", "\\uDefo"]')
    with pytest.raises(UserError, match=r"a\.json: malformed JSON at byte \d+: "):
        list(read_list_entries(path, "", str))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            '{"rows": [{"id": 1}, {"id": 2, "text": "a", "text": "b"}]}',
            "rows[1]: key 'text' stands twice",
        ),
        (
            '{"rows": [{"id": 1, "deep": [{"a": {"b": 1, "\\u0062": 2}}]}]}',
            "rows[0].deep[0].a: key 'b' stands twice",
        ),
        (
            '{"rows": [{"id": 1}], "rows": [{"id": 2}]}',
            "the root: key 'rows' stands twice",
        ),
        (
            '{"rows": [{"text": "\\ud800", "id": 1, "id": 2}]}',
            "rows[0]: key 'id' stands twice",
        ),
        ('{"rows": [{"": 1, "": 2}]}', "rows[0]: key '' stands twice"),
    ],
)
def test_a_key_that_stands_twice_is_refused(
    tmp_path: Path, content: str, message: str
) -> None:
    path = tmp_path / "raw.json"
    path.write_text(content, encoding="utf-8")
    expected = rf"raw\.json: {re.escape(message)}; only one of its values can hold; keep that one$"
    with pytest.raises(UserError, match=expected):
        list(read_list_entries(path, "rows", dict))
    path.write_text(f'{{"kind": 1}}\n{content}\n', encoding="utf-8")
    with pytest.raises(
        UserError, match=r"raw\.json: line 2: key '\w*' stands twice; only one"
    ):
        list(read_json_lines(path))


def test_names_and_values_that_stand_twice_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "raw.json"
    path.write_text(
        '{"a": {"x": 1}, "b": {}, "a": {"x": 2}, "split": "val", "split": "test"}',
        encoding="utf-8",
    )
    with pytest.raises(UserError, match="the root: key 'a' stands twice"):
        read_value(path, "split", str)
    path.write_text('{"verbs": {"a": {}, "b": {}, "a": {}}}', encoding="utf-8")
    with pytest.raises(UserError, match="'verbs': key 'a' stands twice"):
        list(read_object_entries(path, "verbs"))


def test_equal_keys_of_different_objects_are_read(tmp_path: Path) -> None:
    path = tmp_path / "raw.json"
    path.write_text(
        '{"info": {"rows": 2}, "rows": [{"rows": "rows"}, {"rows": [{"rows": 1}]}]}',
        encoding="utf-8",
    )
    assert list(read_list_entries(path, "rows", dict)) == [
        {"rows": "rows"},
        {"rows": [{"rows": 1}]},
    ]
