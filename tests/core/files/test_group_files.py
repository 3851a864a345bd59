import json
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pytest

from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.files.group_files import (
    DatasetFiles,
    DatasetResult,
    RunRecords,
    Shard,
    list_dataset_files,
    merge_shards,
    read_run_frames,
    read_run_records,
    read_runs,
    write_results,
)
from waltz.core.layout import POSITION, Layout
from waltz.core.records import Record

LAYOUT = Layout(
    "numbers", pa.schema([("item_id", pa.string()), ("n", pa.int64())]), ("item_id",)
)


def written(folder, name, ids, model="clip"):
    """One shard of two data sets; the second has no rows."""
    (folder / "rows.parquet").write_bytes(b"rows")
    files = list_dataset_files(
        {"a": {"form": "pairs"}, "b": {}}, [str(folder / "rows.parquet")] * 2
    )
    rows = [{"item_id": item, "n": int(item)} for item in ids]
    results = (
        DatasetResult(file, {"rows": rows if file.name == "a" else []}, 5, {"ties": 1})
        for file in files
    )
    path, record = str(folder / f"{name}.parquet"), str(folder / f"{name}.run.json")
    write_results(
        {"rows": (path, LAYOUT)}, record, results, model={"name": model}, seed=3
    )
    return path, record


def test_shards_share_all_items():
    items = list(range(7))
    shards = [Shard(index, 3) for index in range(3)]
    assert [items[shard.items] for shard in shards] == [[0, 3, 6], [1, 4], [2, 5]]
    assert str(shards[2]) == "3 of 3"


def test_rows_come_back_by_run_and_each_data_set_has_a_record(tmp_path):
    path, _ = written(tmp_path, "one", ["2", "1"])
    runs = read_runs([path], LAYOUT, [("clip", "b"), ("clip", "a")])
    assert list(runs) == [("clip", "b"), ("clip", "a")]
    assert runs["clip", "b"].num_rows == 0
    assert runs["clip", "a"].schema.names == ["item_id", "n"]
    assert list(read_runs([path], LAYOUT)) == [("clip", "a")]
    records = json.loads((tmp_path / "one.run.json").read_text())
    assert [
        (entry["dataset"], entry["rows_in"], entry["rows_out"], entry["ties"])
        for entry in records
    ] == [
        ("a", 5, 2, 1),
        ("b", 5, 0, 1),
    ]
    assert {entry["model"]["name"] for entry in records} == {"clip"}


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberRecord(Record):
    """One row per number."""

    LAYOUT_NAME: ClassVar = "numbers"
    KEY: ClassVar = ("item_id",)

    item_id: str | None
    n: int | None


def test_rows_of_a_run_come_back_as_records_and_as_columns(tmp_path):
    path, _ = written(tmp_path, "one", ["2", "1"])
    records = read_run_records([path], NumberRecord)
    assert records == {
        ("clip", "a"): [NumberRecord(item_id="2", n=2), NumberRecord(item_id="1", n=1)]
    }
    runs = [("clip", "b"), ("clip", "a"), ("clip", "c")]
    lazy = RunRecords([path], NumberRecord, runs)
    assert list(lazy.items()) == [
        (runs[0], []),
        (runs[1], records[runs[1]]),
        (runs[2], []),
    ]
    assert lazy[runs[1]] is not lazy[runs[1]]  # read again, not kept
    with pytest.raises(KeyError):
        lazy["clip", "d"]
    frames = read_run_frames([path], NumberRecord, [("clip", "a"), ("clip", "b")])
    assert frames["clip", "a"]["n"].tolist() == [2, 1]
    assert frames["clip", "b"].empty


def test_shards_are_merged_in_order_and_keep_their_model(tmp_path):
    shards = [written(tmp_path, "one", ["3", "1"]), written(tmp_path, "two", ["2"])]
    paths, records = zip(*shards, strict=True)
    merge_shards(
        paths,
        records,
        str(tmp_path / "m.parquet"),
        str(tmp_path / "m.run.json"),
        LAYOUT,
        ["item_id"],
    )
    table = read_runs([tmp_path / "m.parquet"], LAYOUT)["clip", "a"]
    assert table["n"].to_pylist() == [1, 2, 3]
    assert len(json.loads((tmp_path / "m.run.json").read_text())) == 4


def test_shards_without_rows_are_merged_by_position(tmp_path):
    table = LAYOUT.with_position().with_dataset().schema.empty_table()
    metadata = {"model": "clip", "datasets": '["a"]'}
    shards = [str(tmp_path / "one.parquet"), str(tmp_path / "two.parquet")]
    for shard in shards:
        parquet.write(shard, table, LAYOUT.with_position().with_dataset(), **metadata)
    merged, record = str(tmp_path / "m.parquet"), str(tmp_path / "m.run.json")
    merge_shards(shards, [], merged, record, LAYOUT, [POSITION])
    runs = read_runs([merged], LAYOUT, [("clip", "a")])
    assert runs["clip", "a"].num_rows == 0


def test_a_file_in_the_place_of_another_is_refused(tmp_path):
    clip, lxmert = (
        written(tmp_path, name, ["1"], name)[0] for name in ("clip", "lxmert")
    )
    with pytest.raises(
        UserError,
        match=r"lxmert\.parquet: holds lxmert on a, expected clip on a: .* delete it",
    ):
        read_runs([lxmert], LAYOUT, [("clip", "a")])
    with pytest.raises(
        UserError, match=r"clip\.parquet: holds clip on a, as .*clip\.parquet does"
    ):
        read_runs([clip, clip], LAYOUT)
    with pytest.raises(
        UserError,
        match=r"lxmert\.parquet: is of another model or group than .*clip\.parquet",
    ):
        merge_shards(
            [clip, lxmert],
            [],
            str(tmp_path / "m.parquet"),
            str(tmp_path / "m.json"),
            LAYOUT,
            ["item_id"],
        )


def test_a_file_without_a_data_set_is_named(tmp_path):
    with pytest.raises(UserError, match="no such file"):
        read_runs([tmp_path / "gone.parquet"], LAYOUT)


def test_images_are_empty_where_a_model_looks_at_none():
    (file,) = list_dataset_files({"a": {"size": 3}}, ["a.parquet"], [])
    assert (file.images, file.settings) == ("", {"size": 3})


def test_models_are_run_in_the_profiles_of_the_data_set():
    assert DatasetFiles("d", "d.parquet").select_profiles(
        ["published", "equations"]
    ) == ["published", "equations"]
    released = DatasetFiles(
        "d", "d.parquet", settings={"form": "pairs", "profiles": ["published"]}
    )
    assert released.select_profiles(["published", "equations"]) == ["published"]
    assert released.select_profiles(["equations"]) == []
