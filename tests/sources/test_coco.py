"""COCO captions, and FOIL-it, its correct captions looked up in COCO."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waltz.core.errors import UserError
from waltz.core.records import read_records, to_row, write_records
from waltz.sources.formats.coco import read_captions, read_foil_it, read_image_names
from waltz.sources.formats.pairs import read_release
from waltz.sources.readers import read_source
from waltz.sources.records import CaptionRecord, FoilPairRecord

FILE: dict[str, Any] = {
    "annotations": [
        {"id": 7, "image_id": 1, "caption": " A dog\nruns.\n"},
        {"id": 8, "image_id": 2, "caption": " \n"},
    ],
    "images": [
        {"id": 1, "file_name": "000000000001.jpg"},
        {"id": 2, "file_name": "000000000002.jpg"},
    ],
}


def test_captions_become_rows(write_json: Any, tmp_path: Path) -> None:
    rows = list(read_captions(write_json(FILE), "coco2017", "val"))
    assert list(map(to_row, rows)) == [
        {
            "source": "coco2017",
            "source_id": "7",
            "split": "val",
            "image": "000000000001.jpg",
            "caption": "A dog runs.",
            "rejected": None,
        },
        {
            "source": "coco2017",
            "source_id": "8",
            "split": "val",
            "image": "000000000002.jpg",
            "caption": "",
            "rejected": "the caption is empty",
        },
    ]
    path = tmp_path / "captions.parquet"
    assert write_records(path, rows, CaptionRecord) == (2, 1)
    assert list(read_records(path, CaptionRecord)) == rows


def test_foils_of_foil_coco_are_no_captions(write_json: Any) -> None:
    annotation = {"image_id": 1, "caption": "A dog."}
    flags = [{**annotation, "id": 7, "foil": True}, {**annotation, "id": 8}]
    rows = read_captions(write_json({**FILE, "annotations": flags}), "own", None)
    assert [row.rejected for row in rows] == [
        "a foil of FOIL-COCO, no caption",
        None,
    ]


@given(texts=st.lists(st.text(st.characters(codec="utf-8")), max_size=5))
def test_any_captions_survive_json_and_parquet(
    tmp_path_factory: Any, texts: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("coco")
    annotations = [
        {"id": number, "image_id": 1, "caption": text}
        for number, text in enumerate(texts)
    ]
    (folder / "raw.json").write_text(
        json.dumps(FILE | {"annotations": annotations}), encoding="utf-8"
    )
    rows = list(read_captions(folder / "raw.json", "coco", None))
    for text, row in zip(texts, rows, strict=True):
        assert row.caption.split() == text.split()
        assert len(row.caption.splitlines()) <= 1
        assert (row.rejected is None) == bool(text.strip())
    write_records(folder / "rows.parquet", rows, CaptionRecord)
    assert list(read_records(folder / "rows.parquet", CaptionRecord)) == rows


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        (
            {"id": 9, "image_id": 3, "caption": "A"},
            "annotation 9: image_id 3 is not among the file's images",
        ),
        ({"id": 7, "image_id": 1, "caption": "A"}, "annotation 7: duplicate id"),
        (
            {"id": 9, "image_id": 1, "caption": 7},
            "annotation 9: field 'caption' is a whole number, not a text",
        ),
        ({"id": 9, "image_id": 1}, "annotation 9: field 'caption' is missing"),
        (
            {"id": True, "image_id": 1, "caption": "A"},
            "annotation 2: field 'id' is true or false, not a whole number",
        ),
    ],
)
def test_broken_annotations_are_named(
    write_json: Any, annotation: dict[str, Any], message: str
) -> None:
    path = write_json(FILE | {"annotations": [*FILE["annotations"], annotation]})
    with pytest.raises(UserError, match=message):
        list(read_captions(path, "coco", None))


def test_a_repeated_image_is_named(write_json: Any) -> None:
    images = [*FILE["images"], {"id": 1, "file_name": "other.jpg"}]
    with pytest.raises(UserError, match="image 1: duplicate id"):
        read_image_names(write_json(FILE | {"images": images}))


def test_an_entry_that_stands_twice_counts_once(write_json: Any, caplog: Any) -> None:
    path = write_json({name: entries * 2 for name, entries in FILE.items()})
    rows = list(read_captions(path, "coco", None))
    assert [row.source_id for row in rows] == ["7", "8"]
    assert [record.getMessage() for record in caplog.records] == [
        f"{path}: 2 entries stand twice; each counts once"
    ] * 2


@pytest.mark.parametrize(
    ("annotation", "reason"),
    [
        ({"caption": None}, "the caption is null"),
        ({"bbox": [0, 0, 9, 9]}, "an annotation without caption (bbox)"),
        ({"category_id": 3}, "an annotation without caption (category_id)"),
        ({"caption": None, "bbox": [0, 0, 9, 9]}, "the caption is null"),
    ],
)
def test_an_annotation_without_caption_is_rejected_alone(
    write_json: Any, annotation: dict[str, Any], reason: str
) -> None:
    other = {"id": 9, "image_id": 1, **annotation}
    path = write_json(FILE | {"annotations": [other, *FILE["annotations"]]})
    rows = list(read_captions(path, "coco", None))
    assert [row.rejected for row in rows] == [reason, None, "the caption is empty"]


def test_ids_with_a_point_are_whole_numbers(write_json: Any) -> None:
    content = {
        "images": [{"id": 1.0, "file_name": "a.jpg"}],
        "annotations": [{"id": 7.0, "image_id": 1, "caption": "A dog."}],
    }
    (row,) = read_captions(write_json(content), "coco", None)
    assert (row.source_id, row.image) == ("7", "a.jpg")
    content["images"][0]["id"] = 1.5
    with pytest.raises(UserError, match="field 'id' is a number, not a whole number"):
        list(read_captions(write_json(content), "coco", None))


def test_karpathys_file_is_read(write_json: Any) -> None:
    sentences = [{"raw": "A dog.\n", "sentid": 5}, {"raw": " ", "sentid": 6}]
    image = {"filename": "a.jpg", "imgid": 0, "sentences": sentences}
    other = {"filename": "b.jpg", "split": "test", "sentences": []}
    content = {"images": [{**image, "split": "val"}, other], "dataset": "x"}
    rows = list(read_captions(write_json(content), "coco", "all"))
    assert [(r.source_id, r.split, r.image, r.caption, r.rejected) for r in rows] == [
        ("5", "val", "a.jpg", "A dog.", None),
        ("6", "val", "a.jpg", "", "the caption is empty"),
    ]
    content["images"] = [image, image]
    with pytest.raises(UserError, match="sentence 5: duplicate id"):
        list(read_captions(write_json(content), "coco", None))


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_file_with_a_byte_order_mark_is_read(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "raw.json"
    path.write_text(json.dumps(FILE), encoding=encoding)
    assert len(list(read_captions(path, "coco", None))) == 2
    path.write_text(json.dumps(FILE)[:-2], encoding=encoding)
    with pytest.raises(UserError, match="truncated: the file ends at byte"):
        list(read_captions(path, "coco", None))


def test_the_real_captions(shared_data: Path) -> None:
    path = shared_data / "coco_captions" / "captions_val2017.json"
    rows = list(read_captions(path, "coco2017", "val2017"))
    assert len(rows) == 25_014
    assert len({row.image for row in rows}) == len(read_image_names(path)) == 5000
    assert not any(
        "\n" in row.caption or row.caption != row.caption.strip() for row in rows
    )
    assert all(row.rejected is None for row in rows)
    mini = list(
        read_captions(
            shared_data / "coco_captions" / "captions_train2017_mini.json",
            "coco2017",
            "train2017",
        )
    )
    assert (len(mini), len({row.image for row in mini})) == (400, 80)


def test_real_captions_equal_those_of_the_benchmark(shared_data: Path) -> None:
    """Compare the released relations with COCO's captions of the same ids, without final periods."""
    path = shared_data / "coco_captions" / "captions_val2017.json"
    captions = {
        row.source_id: row for row in read_captions(path, "coco2017", "val2017")
    }
    items = read_release(shared_data / "valse" / "relations.json", "relations", 2)
    assert len(items) == 614
    for item in items:
        row = captions[item.source_id]
        assert row.image == item.image
        assert row.caption.rstrip(". ") == item.caption.rstrip(". ")


COCO = {
    "images": [
        {"id": 1, "file_name": "COCO_val2014_000000000001.jpg"},
        {"id": 2, "file_name": "two.jpg"},
    ],
    "annotations": [
        {"id": 7, "image_id": 1, "caption": "A boy with a baseball bat.\n"},
        {"id": 8, "image_id": 2, "caption": "A cat."},
    ],
}


def foil(foil_id: int = 100, **changes: Any) -> dict[str, Any]:
    return {
        "caption": "A boy with a baseball ball.",
        "image_id": 1,
        "foil_id": foil_id,
        "id": 7,
        "foil": True,
        "target_word": "bat",
        "foil_word": "ball",
    } | changes


def pairs(write_json: Any, *annotations: Any) -> list[FoilPairRecord]:
    captions = write_json(COCO, "captions.json")
    return list(
        read_foil_it(
            write_json({"annotations": list(annotations)}),
            [captions],
            "foil-it",
            "test",
        )
    )


def test_a_foil_is_joined_with_its_caption(write_json: Any, tmp_path: Path) -> None:
    original = foil(
        foil=False,
        caption="A boy with a baseball bat.",
        target_word="ORIG",
        foil_word="ORIG",
    )
    rows = pairs(write_json, original, foil())
    assert to_row(rows[1]) == {
        "source": "foil-it",
        "source_id": "100",
        "split": "test",
        "image": "COCO_val2014_000000000001.jpg",
        "caption_id": "7",
        "caption": "A boy with a baseball bat.",
        "foil": "A boy with a baseball ball.",
        "target_word": "bat",
        "foil_word": "ball",
        "rejected": None,
    }
    assert (rows[0].source_id, rows[0].rejected) == (
        "annotation-0",
        "a correct caption, no foil",
    )
    assert write_records(tmp_path / "pairs.parquet", rows, FoilPairRecord) == (2, 1)


@pytest.mark.parametrize(
    ("annotation", "reason"),
    [
        (foil(id=9), "its caption 9 is not in the captions files"),
        (foil(id=8), "its caption 8 is of another image"),
        (foil(caption="A boy with a baseball bat. "), "the foil equals its caption"),
        (foil(caption=""), "the foil is empty"),
    ],
)
def test_unusable_foils_stay_with_their_reason(
    write_json: Any, annotation: Any, reason: str
) -> None:
    assert [row.rejected for row in pairs(write_json, annotation)] == [reason]


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        (foil(), "foil 100: duplicate id"),
        (
            foil(101, image_id=3),
            "foil 101: image_id 3 is not among the images of .*captions.json",
        ),
        (
            foil(101, foil="yes"),
            "annotation 1: field 'foil' is a text, not true or false",
        ),
        (foil(101, target_word=None), "foil 101: field 'target_word' is null"),
    ],
)
def test_broken_foils_are_named(write_json: Any, annotation: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        pairs(write_json, foil(), annotation)


def test_a_caption_that_is_no_unicode_is_kept_and_rejected(tmp_path: Path) -> None:
    path = tmp_path / "captions.json"
    captions = [
        {**FILE["annotations"][0], "id": number, "caption": text}
        for number, text in enumerate(["a", "\ud800 x"])
    ]
    path.write_text(json.dumps({**FILE, "annotations": captions}))
    rows, record_type = read_source("coco-captions", {"val": str(path)}, "coco")
    assert write_records(tmp_path / "rows.parquet", rows, record_type) == (2, 1)
    sound, broken = read_records(tmp_path / "rows.parquet", CaptionRecord)
    assert (sound.caption, sound.rejected) == ("a", None)
    assert broken.source_id == "1"
    assert broken.caption == "\\ud800 x"
    assert broken.rejected == "\\ud800 is half of a surrogate pair, no character"


def test_a_released_item_that_is_no_unicode_is_named(tmp_path: Path) -> None:
    (tmp_path / "plurality.json").write_text('{"p_1": {"caption": "\\ud800 x"}}')
    with pytest.raises(
        UserError,
        match=r"id 'p_1': \\ud800 is half of a surrogate pair, no character; write",
    ):
        read_release(tmp_path / "plurality.json", "plurality", 2)
