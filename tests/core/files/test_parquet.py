import errno
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.files.atomic import replace_file, write_text
from waltz.core.layout import Layout
from waltz.core.records import get_layout
from waltz.sources.records import CaptionRecord

CAPTIONS = get_layout(CaptionRecord)
LAYOUT = Layout(
    "zoo",
    pa.schema(
        [pa.field("id", pa.string(), nullable=False), pa.field("count", pa.int32())]
    ),
    key=("id",),
)


def test_a_table_is_read_as_written_and_written_with_the_same_bytes_twice(tmp_path):
    table = parquet.build_table([{"id": "a", "count": 1}, {"id": "b"}], LAYOUT)
    parquet.write(tmp_path / "one.parquet", table, LAYOUT)
    parquet.write(tmp_path / "two.parquet", table, LAYOUT)
    assert parquet.read(tmp_path / "one.parquet", LAYOUT).to_pylist() == [
        {"id": "a", "count": 1},
        {"id": "b", "count": None},
    ]
    assert (tmp_path / "one.parquet").read_bytes() == (
        tmp_path / "two.parquet"
    ).read_bytes()


@pytest.mark.parametrize(
    ("table", "fault"),
    [
        (pa.table({"id": ["a"]}), "'count' is missing"),
        (pa.table({"id": ["a"], "count": ["1"]}), "'count' is string, not int32"),
        (
            pa.table({"id": ["a", None], "count": pa.array([1, 2], pa.int32())}),
            "'id' is null in row 1",
        ),
        (
            pa.table({"id": ["a", "a"], "count": pa.array([1, 2], pa.int32())}),
            "occurs in 2 rows",
        ),
        (
            pa.table({"id": ["a"], "count": pa.array([1], pa.int32()), "x": [1]}),
            r"undeclared columns \['x'\]",
        ),
    ],
)
def test_a_table_that_breaks_its_layout_is_not_written(tmp_path, table, fault):
    with pytest.raises(ValueError, match=fault):
        parquet.write(tmp_path / "zoo.parquet", table, LAYOUT)
    assert list(tmp_path.iterdir()) == []


def test_an_undeclared_key_of_a_row_is_an_error():
    with pytest.raises(ValueError, match="undeclared columns \\['colour'\\]"):
        parquet.build_table([{"id": "a", "colour": "red"}], LAYOUT)


def test_a_truncated_file_is_an_error_that_says_what_to_do(tmp_path):
    file = tmp_path / "zoo.parquet"
    parquet.write(file, parquet.build_table([{"id": "a"}], LAYOUT), LAYOUT)
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(
        UserError, match=r"zoo\.parquet: damaged Parquet file .* delete it"
    ):
        parquet.read(file, LAYOUT)


def test_a_file_that_the_system_refuses_is_not_called_damaged(tmp_path):
    file = tmp_path / "zoo.parquet"
    with (
        pytest.raises(
            UserError, match=r"zoo\.parquet: cannot be read: Input/output error; check"
        ),
        parquet._name_damage(file),
    ):
        raise OSError(errno.EIO, "as pyarrow raises it")


def test_a_file_of_another_layout_is_an_error(tmp_path):
    file = tmp_path / "zoo.parquet"
    farm = Layout("farm", pa.schema([pa.field("id", pa.string())]), key=("id",))
    parquet.write(file, parquet.build_table([{"id": "a"}], farm), farm)
    with pytest.raises(UserError, match="'count' is missing"):
        parquet.read(file, LAYOUT)


def _fail_halfway(path):
    with replace_file(path) as temporary:
        temporary.write_text("half")
        raise KeyboardInterrupt


def test_a_failure_while_writing_keeps_the_old_file_alone(tmp_path):
    write_text(tmp_path / "a.txt", "old")
    with pytest.raises(KeyboardInterrupt):
        _fail_halfway(tmp_path / "a.txt")
    assert [file.name for file in tmp_path.iterdir()] == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "old"


def test_temporary_files_of_killed_processes_are_removed_and_of_living_ones_are_not(
    tmp_path,
):
    import multiprocessing
    import os
    import platform

    dead = multiprocessing.get_context("fork").Process(target=int)
    dead.start()
    dead.join()
    stale, living = (
        tmp_path / f".a.txt.{platform.node()}.{pid}.tmp"
        for pid in (dead.pid, os.getppid())
    )
    stale.touch()
    living.touch()
    write_text(tmp_path / "a.txt", "new")
    assert not stale.exists()
    assert living.exists()


def captions(n: int) -> list[dict[str, Any]]:
    return [
        {
            "source": "s",
            "source_id": str(i),
            "split": None,
            "image": "i.jpg",
            "caption": "c",
            "rejected": None,
        }
        for i in range(n)
    ]


@pytest.mark.parametrize("n", [0, 1, 6, 7])
def test_all_rows_of_all_batches_are_written(tmp_path: Path, n: int) -> None:
    path = tmp_path / "rows.parquet"
    assert parquet.write_rows(path, iter(captions(n)), CAPTIONS, batch=3) == (n, 0)
    assert parquet.read(path, CAPTIONS).to_pylist() == captions(n)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"source_id": "1"}, "{'source_id': '1'} occurs in 2 rows"),
        ({"caption": None}, "column 'caption' is null in row 5"),
        ({"colour": "red"}, r"undeclared columns \['colour'\]"),
    ],
)
def test_an_invalid_row_in_a_later_batch_leaves_no_file(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    rows = captions(6)
    rows[5] |= change
    with pytest.raises(ValueError, match=message):
        parquet.write_rows(tmp_path / "rows.parquet", rows, CAPTIONS, batch=2)
    assert list(tmp_path.iterdir()) == []


def test_a_reader_that_fails_midway_leaves_no_file(tmp_path: Path) -> None:
    def broken() -> Iterator[dict[str, Any]]:
        yield from captions(4)
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        parquet.write_rows(tmp_path / "rows.parquet", broken(), CAPTIONS, batch=2)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_and_metadata_that_is_no_text_are_named_or_read(tmp_path):
    with pytest.raises(UserError, match="is a folder, not a Parquet file"):
        parquet.read_table(tmp_path)
    pq.write_table(
        pa.table({"a": [1]}).replace_schema_metadata({b"model": b"\xff"}),
        tmp_path / "zoo.parquet",
    )
    assert parquet.read_metadata(tmp_path / "zoo.parquet") == {"model": "\\xff"}


def test_a_changed_bit_of_the_rows_is_an_error(tmp_path):
    file, draw = tmp_path / "zoo.parquet", Random(0)
    rows = [
        {"id": f"{draw.random()}", "count": draw.randrange(2**31)} for _ in range(500)
    ]
    parquet.write(file, parquet.build_table(rows, LAYOUT), LAYOUT)
    whole = file.read_bytes()
    pages_end = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    for place in draw.sample(range(4, pages_end), 200):
        changed = bytearray(whole)
        changed[place] ^= 1 << draw.randrange(8)
        file.write_bytes(changed)
        with suppress(UserError):
            # A bit of a page's header that decides nothing.
            assert parquet.read_rows(file, LAYOUT) == rows
