"""Croissant metadata: every file with its checksum, every column a field, valid for MLCommons' own
reader.
"""

import hashlib
import json
import shutil
from datetime import date

import pyarrow.parquet as pq
import pytest

from stand_ins.benchmark_rows import facts, item, part
from waltz.core.measure import Measure
from waltz.core.schema import AuditRecord
from waltz.export.folder import write_dataset


@pytest.fixture(scope="module")
def metadata(dataset):
    return json.loads((dataset / "croissant.json").read_text())


@pytest.fixture(scope="module")
def cut(images, tmp_path_factory):
    """Return a data set whose only part fills three files."""
    folder = tmp_path_factory.mktemp("cut") / "set"
    rows = [item(item_id=str(index)) for index in range(5)]
    study_facts = facts(
        about={
            "url": "https://x.example/set",
            "creators": ["A group"],
            "published": date(2020, 2, 29),
            "version": "2.0.1",
        }
    )
    write_dataset(
        folder,
        [part(rows, images=str(images))],
        study_facts,
        shard_bytes=2 * (images / "red.png").stat().st_size,
    )
    return folder


def test_every_file_is_listed_with_its_checksum(metadata, dataset):
    listed = {
        file["contentUrl"]: file["sha256"]
        for file in metadata["distribution"]
        if "contentUrl" in file
    }
    files = {
        str(path.relative_to(dataset)): path for path in dataset.rglob("*.parquet")
    }
    assert listed == {
        name: hashlib.sha256(path.read_bytes()).hexdigest()
        for name, path in files.items()
    }


def test_every_column_is_a_field(metadata, dataset):
    for records in metadata["recordSet"]:
        file = dataset / records["name"] / "valid-00000-of-00001.parquet"
        fields = [
            field["@id"].removeprefix(f"{records['@id']}/")
            for field in records["field"]
        ]
        assert fields == pq.read_schema(file).names
        assert all(field["description"] for field in records["field"])
        lists = {
            field["@id"].rpartition("/")[2]
            for field in records["field"]
            if field.get("repeated")
        }
        assert lists == {name for name in fields if name.endswith("_phrases")}


def test_unknown_fields_are_missing(metadata):
    assert "datePublished" not in metadata
    assert "url" not in metadata
    assert "creator" not in metadata
    assert "rai:dataAnnotationPlatform" not in metadata
    assert "rai:dataBiases" not in metadata


def test_the_responsible_ai_fields_describe_the_votes(metadata):
    assert metadata["rai:annotationsPerItem"] == "3"
    assert metadata["rai:dataCollectionMissingData"].startswith(
        "`valid` is null for 2 items"
    )
    assert (
        "existence: 2 of 3 items with votes are valid."
        in metadata["rai:dataAnnotationAnalysis"]
    )
    assert metadata["rai:dataAnnotationProtocol"][0].startswith("People saw the image")


def test_the_studys_own_description_is_used(cut):
    metadata = json.loads((cut / "croissant.json").read_text())
    assert (metadata["url"], metadata["version"], metadata["datePublished"]) == (
        "https://x.example/set",
        "2.0.1",
        "2020-02-29",
    )
    assert metadata["creator"] == [{"@type": "Organization", "name": "A group"}]


def test_biases_are_the_warnings_of_the_audit(tmp_path):
    records = [
        AuditRecord(
            instrument="existence",
            judge="length",
            measure=Measure(50.0, 1),
            warning=text,
        )
        for text in (None, "length alone prefers the foil")
    ]
    write_dataset(tmp_path / "x", [part([item()])], facts(audit=records))
    metadata = json.loads((tmp_path / "x/croissant.json").read_text())
    assert metadata["rai:dataBiases"] == ["existence: length alone prefers the foil."]


def test_mlcroissant_accepts_it_and_reads_the_same_items(dataset, rows):
    mlc = pytest.importorskip(
        "mlcroissant", reason="mlcroissant is not here: pip install mlcroissant"
    )
    read = mlc.Dataset(str(dataset / "croissant.json"))
    assert not read.metadata.ctx.issues.errors
    assert read.metadata.data_limitations
    assert read.metadata.annotations_per_item == "3"
    records = sorted(
        read.records("existence"), key=lambda record: record["existence/item_id"]
    )
    assert [record["existence/caption"].decode() for record in records] == [
        row["caption"] for row in rows
    ]
    assert [record["existence/valid"] for record in records] == [
        True,
        None,
        False,
        True,
    ]
    assert [
        record["existence/image"] and record["existence/image"].size
        for record in records
    ] == [
        (6, 4),
        (5, 5),
        None,
        (5, 5),
    ]
    assert records[0]["existence/foil_span"] == {
        "existence/foil_span/start": 10,
        "existence/foil_span/end": 12,
    }
    assert records[0]["existence/foil_phrases"] == [b"no"]
    assert [record["cv-probes/match"] for record in read.records("cv-probes")] == [
        True,
        False,
    ]
    assert "relations/image" not in next(iter(read.records("relations")))


def test_mlcroissant_reads_a_part_of_several_files(cut):
    mlc = pytest.importorskip(
        "mlcroissant", reason="mlcroissant is not here: pip install mlcroissant"
    )
    read = mlc.Dataset(str(cut / "croissant.json"))
    assert not read.metadata.ctx.issues.errors
    assert not read.metadata.ctx.issues.warnings
    assert [record["existence/item_id"] for record in read.records("existence")] == [
        b"0",
        b"1",
        b"2",
        b"3",
        b"4",
    ]


def test_mlcroissant_notices_a_changed_file(dataset, tmp_path):
    mlc = pytest.importorskip(
        "mlcroissant", reason="mlcroissant is not here: pip install mlcroissant"
    )
    copy = shutil.copytree(dataset, tmp_path / "copy")
    file = copy / "cv-probes/valid-00000-of-00001.parquet"
    file.write_bytes(file.read_bytes() + b" ")
    with pytest.raises(Exception, match="Download") as caught:
        list(mlc.Dataset(str(copy / "croissant.json")).records("cv-probes"))
    assert "Hash of downloaded file" in str(caught.value.__cause__)
