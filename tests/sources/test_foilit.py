"""FOIL-it, its correct captions looked up in COCO."""

from pathlib import Path
from typing import Any

import pytest

from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.sources.formats.foilit import read_pairs
from waltz.sources.layouts import FOIL_PAIRS

COCO = {
    "images": [{"id": 1, "file_name": "COCO_val2014_000000000001.jpg"}, {"id": 2, "file_name": "two.jpg"}],
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


def pairs(write_json: Any, *annotations: Any) -> list[dict[str, Any]]:
    captions = write_json(COCO, "captions.json")
    return list(read_pairs(write_json({"annotations": list(annotations)}), [captions], "foil-it", "test"))


def test_a_foil_is_joined_with_its_caption(write_json: Any, tmp_path: Path) -> None:
    original = foil(foil=False, caption="A boy with a baseball bat.", target_word="ORIG", foil_word="ORIG")
    rows = pairs(write_json, original, foil())
    assert rows[1] == {
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
    assert (rows[0]["source_id"], rows[0]["rejected"]) == ("annotation-0", "a correct caption, no foil")
    assert parquet.write_rows(tmp_path / "pairs.parquet", rows, FOIL_PAIRS) == (2, 1)


@pytest.mark.parametrize(
    ("annotation", "reason"),
    [
        (foil(id=9), "its caption 9 is not in the captions files"),
        (foil(id=8), "its caption 8 is of another image"),
        (foil(caption="A boy with a baseball bat. "), "the foil equals its caption"),
        (foil(caption=""), "the foil is empty"),
    ],
)
def test_unusable_foils_stay_with_their_reason(write_json: Any, annotation: Any, reason: str) -> None:
    assert [row["rejected"] for row in pairs(write_json, annotation)] == [reason]


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        (foil(), "foil 100: duplicate id"),
        (foil(101, image_id=3), "foil 101: image_id 3 is not among the images of .*captions.json"),
        (foil(101, foil="yes"), "annotation 1: field 'foil' is a text, not true or false"),
        (foil(101, target_word=None), "foil 101: field 'target_word' is null"),
    ],
)
def test_broken_annotations_are_named(write_json: Any, annotation: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        pairs(write_json, foil(), annotation)
