"""The data set folder: Parquet as the `datasets` library writes it, unchanged images, the same
bytes each time.
"""

import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stand_ins.benchmark_rows import NAUGHTY, facts, item, part, probe
from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.schema import BENCHMARK, CONDITIONS
from waltz.export.folder import (
    ExportInputs,
    ExportSettings,
    export_benchmark,
    write_dataset,
    write_valse_files,
)
from waltz.export.parts import (
    IMAGE,
    ITEM_COLUMNS,
    OMITTED_COLUMNS,
    PROBE_COLUMNS,
    write_part,
)

VALID, INVALID = (f"{subset}-00000-of-00001.parquet" for subset in ("valid", "invalid"))


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_every_column_is_exported_and_explained():
    assert {*BENCHMARK.schema.names, "image_file"} == {*ITEM_COLUMNS, *OMITTED_COLUMNS}
    assert {*CONDITIONS.schema.names, "image_file"} == set(PROBE_COLUMNS)


def read_items(folder):
    """Return the exported items of a part, valid ones first."""
    return [
        row
        for subset in (VALID, INVALID)
        for row in pq.read_table(folder / subset).to_pylist()
    ]


def test_every_cell_is_exported_unchanged(dataset, rows):
    exported = read_items(dataset / "relations")
    rows_with_files = [
        {**row, "image_file": row["image"]}
        for row in (rows[0], rows[1], rows[3], rows[2])
    ]
    assert exported == [
        {name: row[name] for name in ITEM_COLUMNS if name != "image"}
        for row in rows_with_files
    ]
    assert exported[1]["caption"] == NAUGHTY


def test_items_voted_invalid_have_files_of_their_own(dataset):
    for part_name in ("existence", "relations"):
        assert pq.read_table(dataset / part_name / VALID).column(
            "valid"
        ).to_pylist() == [True, None, True]
        assert pq.read_table(dataset / part_name / INVALID).column(
            "valid"
        ).to_pylist() == [False]
    assert [file.name for file in (dataset / "cv-probes").iterdir()] == [VALID]


def test_a_part_without_a_valid_item_has_no_split_of_them(tmp_path):
    written_part = write_part(part([item(valid=False)]), tmp_path)
    assert written_part.splits == {"test": ["existence/invalid-*.parquet"]}


def test_images_are_embedded_byte_for_byte_and_null_where_broken(dataset, images):
    red, grey = (
        (images / "red.png").read_bytes(),
        (images / "below/grey.jpg").read_bytes(),
    )
    assert pq.read_schema(dataset / "existence" / VALID).field("image").type == IMAGE
    exported = read_items(dataset / "existence")
    assert [row["image"] for row in exported] == [
        {"bytes": red, "path": "red.png"},
        {"bytes": grey, "path": "grey.jpg"},
        {"bytes": grey, "path": "grey.jpg"},
        None,
    ]
    assert [row["image_file"] for row in exported] == [
        "red.png",
        "grey.jpg",
        "grey.png",
        "broken.png",
    ]


def test_images_that_may_not_be_passed_on_are_only_named(dataset):
    exported = pq.read_table(dataset / "relations" / VALID)
    assert "image" not in exported.schema.names
    assert exported.column("image_file").to_pylist() == [
        "red.png",
        "grey.jpg",
        "grey.png",
    ]


def test_the_parquet_metadata_names_the_features(dataset):
    schema = pq.read_schema(dataset / "existence" / VALID)
    features = json.loads(schema.metadata[b"huggingface"])["info"]["features"]
    assert list(features) == schema.names
    assert features["image"] == {"_type": "Image"}
    assert features["caption"] == {"dtype": "string", "_type": "Value"}
    assert features["votes_caption"] == {"dtype": "int32", "_type": "Value"}
    assert features["nli_neutral"] == {"dtype": "float64", "_type": "Value"}
    assert features["valid"] == {"dtype": "bool", "_type": "Value"}
    span = {"dtype": "int32", "_type": "Value"}
    assert features["caption_span"] == {"start": span, "end": span}
    phrases = {
        "feature": {"dtype": "string", "_type": "Value"},
        "length": -1,
        "_type": "Sequence",
    }
    assert features["caption_phrases"] == phrases


def test_the_same_input_gives_the_same_bytes(dataset, parts, tmp_path):
    write_dataset(tmp_path / "again", parts, facts())
    assert contents(tmp_path / "again") == contents(dataset)


def test_a_part_is_cut_where_its_images_fill_a_file(images, tmp_path):
    rows = [item(item_id=str(index), image="red.png") for index in range(7)]
    size = (images / "red.png").stat().st_size
    written_part = write_part(
        part(rows, images=str(images)), tmp_path, shard_bytes=3 * size
    )
    assert [file.path for file in written_part.files] == [
        f"existence/valid-0000{index}-of-00003.parquet" for index in range(3)
    ]
    ids = [
        pq.read_table(tmp_path / file.path).column("item_id").to_pylist()
        for file in written_part.files
    ]
    assert ids == [["0", "1", "2"], ["3", "4", "5"], ["6"]]


def test_an_image_larger_than_a_file_has_one_of_its_own(images, tmp_path):
    rows = [item(item_id=str(index)) for index in range(2)]
    assert (
        len(write_part(part(rows, images=str(images)), tmp_path, shard_bytes=1).files)
        == 2
    )


def test_more_rows_than_a_row_group_keep_their_order(images, tmp_path):
    rows = [
        item(item_id=str(index), image=("red.png", "grey.jpg")[index % 2])
        for index in range(230)
    ]
    (file,) = write_part(part(rows, images=str(images)), tmp_path).files
    exported = pq.read_table(tmp_path / file.path)
    assert exported.column("item_id").to_pylist() == [
        str(index) for index in range(230)
    ]
    assert [image["path"] for image in exported.column("image").to_pylist()] == [
        "red.png",
        "grey.jpg",
    ] * 115


def test_images_in_an_archive_are_embedded_the_same(images, rows, tmp_path):
    archive = shutil.make_archive(str(tmp_path / "images"), "zip", images)
    packed = write_part(part(rows, images=archive), tmp_path / "packed")
    plain = write_part(part(rows, images=str(images)), tmp_path / "plain")
    assert packed.files == plain.files
    assert [fault.image for fault in packed.faults] == ["broken.png"]


def test_other_items_give_another_version(parts, tmp_path):
    versions = []
    for name, row in (("one", item()), ("two", item(caption="There are cats."))):
        write_dataset(tmp_path / name, [part([row])], facts())
        versions.append(
            json.loads((tmp_path / name / "croissant.json").read_text())["version"]
        )
    assert versions[0] != versions[1]


def test_the_funnel_is_copied(tmp_path):
    pq.write_table(pa.table({"x": [1]}), tmp_path / "source.parquet")
    write_dataset(
        tmp_path / "out", [part([item()])], facts(), str(tmp_path / "source.parquet")
    )
    assert (tmp_path / "out/funnel.parquet").read_bytes() == (
        tmp_path / "source.parquet"
    ).read_bytes()


def test_a_folder_that_is_not_empty_is_refused(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(UserError, match="the folder is not empty"):
        write_dataset(tmp_path, [part([item()])], facts())
    with pytest.raises(UserError, match="the folder is not empty"):
        write_valse_files(tmp_path, [part([item()])], {}, "", {})


def test_nothing_to_export_is_an_error(tmp_path):
    with pytest.raises(UserError, match="has no benchmark to export"):
        write_dataset(tmp_path / "a", [], facts())
    with pytest.raises(UserError, match="'existence': no items to export"):
        write_dataset(tmp_path / "b", [part([])], facts())


def test_valse_files_have_the_names_of_the_release_and_skip_probes(tmp_path):
    parts = [
        part([item("plurality")], "plurality"),
        part([probe()], "cv-probes", "cv-probes"),
    ]
    counts = write_valse_files(
        tmp_path,
        parts,
        {"own": {"7": {"caption": "A dog runs."}}},
        "",
        {"own": "coco-captions"},
    )
    assert counts == {"plurals.json": 1}
    assert list(json.loads((tmp_path / "plurals.json").read_text())) == ["plurality:1"]


def test_two_parts_for_one_file_are_refused(tmp_path):
    own = {**item(), "release": "{}"}
    parts = [part([item("foil-it")], "foil-it"), part([own], "foil-it", "pairs")]
    with pytest.raises(
        UserError,
        match=r"two data sets have one file name in the layout of VALSE: foil-it\.json",
    ):
        write_valse_files(tmp_path, parts, {}, "", {"own": "foil-it"})


def test_the_datasets_library_reads_it(dataset, images, rows, tmp_path, monkeypatch):
    pytest.importorskip(
        "datasets", reason="the datasets library is not here: pip install datasets"
    )
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path))
    import datasets

    cache = str(tmp_path / "cache")
    assert datasets.get_dataset_config_names(str(dataset)) == [
        "existence",
        "cv-probes",
        "relations",
    ]
    read = datasets.load_dataset(
        str(dataset), "existence", split="test", cache_dir=cache
    )
    assert isinstance(read.features["image"], datasets.Image)
    assert read[0]["image"].getpixel((0, 0)) == (255, 0, 0)
    assert read[2]["image"] is None
    assert [row["valid"] for row in read] == [True, None, False, True]
    assert read[1]["caption"] == NAUGHTY
    assert read[0]["foil_phrases"] == ["no"]
    names = datasets.load_dataset(
        str(dataset), "relations", split="test", cache_dir=cache
    )
    assert names.column_names == [name for name in ITEM_COLUMNS if name != "image"]


def test_the_benchmark_of_a_study_is_exported_in_both_layouts(tmp_path, images):
    rows = [
        item("relations", item_id="a"),
        item("relations", item_id="b", image="broken.png"),
    ]
    parquet.write(
        tmp_path / "relations.parquet", part(rows, "relations").items, BENCHMARK
    )
    (tmp_path / "raw.json").write_text("[]")
    inputs = ExportInputs(
        benchmark=[str(tmp_path / "relations.parquet")],
        raw=[str(tmp_path / "raw.json")],
        images=[str(images)],
        rows=[],
    )
    source = {
        "format": "pairs",
        "files": {"pairs": {"path": "own/raw.json"}},
        "images": {"licence": "MIT"},
    }
    settings = ExportSettings(
        study="small",
        seed=1,
        valid_votes=2,
        parts={"relations": ("own", "instrument")},
        sources={"own": source},
        rows=[],
        images=["own"],
        instruments={"relations": {"source": "own", "filters": []}},
        models={},
        span_method="a method",
        about={},
    )
    record = export_benchmark(
        inputs, settings, tmp_path / "dataset", tmp_path / "valse"
    )
    assert record == {
        "rows_in": 2,
        "rows_out": 2,
        "valse": {"relations.json": 2},
        "images_skipped": [
            "relations: image broken.png is not an image of a known format"
        ],
    }
    exported = pq.read_table(tmp_path / "dataset" / "relations" / VALID)
    assert exported.column("image").null_count == 1
    assert (
        json.loads((tmp_path / "valse" / "relations.json").read_text())["a"][
            "foil_method"
        ]
        == "a method"
    )
