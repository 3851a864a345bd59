import pyarrow as pa
import pytest

from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.files.atomic import replace_file, write_text
from waltz.core.schema import Layout

LAYOUT = Layout(
    "zoo", pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("count", pa.int32())]), key=("id",)
)


def test_what_is_written_is_read_and_twice_gives_the_same_bytes(tmp_path):
    table = parquet.build_table([{"id": "a", "count": 1}, {"id": "b"}], LAYOUT)
    parquet.write(tmp_path / "one.parquet", table, LAYOUT)
    parquet.write(tmp_path / "two.parquet", table, LAYOUT)
    assert parquet.read(tmp_path / "one.parquet", LAYOUT).to_pylist() == [
        {"id": "a", "count": 1},
        {"id": "b", "count": None},
    ]
    assert (tmp_path / "one.parquet").read_bytes() == (tmp_path / "two.parquet").read_bytes()


@pytest.mark.parametrize(
    ("table", "fault"),
    [
        (pa.table({"id": ["a"]}), "'count' is missing"),
        (pa.table({"id": ["a"], "count": ["1"]}), "'count' is string, not int32"),
        (pa.table({"id": ["a", None], "count": pa.array([1, 2], pa.int32())}), "'id' is null in row 1"),
        (pa.table({"id": ["a", "a"], "count": pa.array([1, 2], pa.int32())}), "stands in 2 rows"),
        (pa.table({"id": ["a"], "count": pa.array([1], pa.int32()), "x": [1]}), r"undeclared columns \['x'\]"),
    ],
)
def test_a_table_that_breaks_its_layout_is_not_written(tmp_path, table, fault):
    with pytest.raises(ValueError, match=fault):
        parquet.write(tmp_path / "zoo.parquet", table, LAYOUT)
    assert list(tmp_path.iterdir()) == []


def test_an_undeclared_key_of_a_row_is_an_error():
    with pytest.raises(ValueError, match="undeclared columns \\['colour'\\]"):
        parquet.build_table([{"id": "a", "colour": "red"}], LAYOUT)


def test_a_cut_off_file_is_named_with_what_to_do(tmp_path):
    file = tmp_path / "zoo.parquet"
    parquet.write(file, parquet.build_table([{"id": "a"}], LAYOUT), LAYOUT)
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(UserError, match=r"zoo\.parquet: no whole Parquet file .* delete it"):
        parquet.read(file, LAYOUT)


def test_a_file_of_another_layout_is_named(tmp_path):
    file = tmp_path / "zoo.parquet"
    other = Layout("farm", pa.schema([pa.field("id", pa.string())]), key=("id",))
    parquet.write(file, parquet.build_table([{"id": "a"}], other), other)
    with pytest.raises(UserError, match="'count' is missing"):
        parquet.read(file, LAYOUT)


def _fail_halfway(path):
    with replace_file(path) as temporary:
        temporary.write_text("half")
        raise KeyboardInterrupt


def test_a_failure_while_writing_leaves_the_old_file_and_no_other(tmp_path):
    write_text(tmp_path / "a.txt", "old")
    with pytest.raises(KeyboardInterrupt):
        _fail_halfway(tmp_path / "a.txt")
    assert [file.name for file in tmp_path.iterdir()] == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "old"


def test_what_a_killed_process_left_is_removed_and_a_living_ones_is_not(tmp_path):
    import multiprocessing
    import os
    import platform

    dead = multiprocessing.get_context("fork").Process(target=int)
    dead.start()
    dead.join()
    left, living = (tmp_path / f".a.txt.{platform.node()}.{pid}.tmp" for pid in (dead.pid, os.getppid()))
    left.touch()
    living.touch()
    write_text(tmp_path / "a.txt", "new")
    assert not left.exists()
    assert living.exists()
