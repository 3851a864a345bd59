"""SWiG and imSitu frames."""

from pathlib import Path
from typing import Any

import pytest

from waltz.core.errors import UserError
from waltz.core.records import read_records, to_row, write_records
from waltz.sources.formats.swig import (
    SituationSpace,
    VerbDefinition,
    read_frames,
    read_situation_space,
)
from waltz.sources.records import FrameRecord, RoleFiller

SPACE = {
    "nouns": {
        "n1": {"gloss": ["woman", "adult female"], "def": "an adult"},
        "n2": {"gloss": ["bicycle", "bike"], "def": "two wheels"},
        "n3": {"gloss": [], "def": "nothing"},
    },
    "verbs": {
        "riding": {
            "framenet": "Ride_vehicle",
            "abstract": "AGENT rides VEHICLE at PLACE",
            "def": "to ride",
            "order": ["agent", "vehicle", "place"],
            "roles": {"place": {}, "agent": {}, "vehicle": {}},
        }
    },
}


def image(*frames: dict[str, str], **changes: Any) -> dict[str, Any]:
    bb = {
        "agent": [1, 2, 30, 40],
        "vehicle": [-1, -1, -1, -1],
        "place": [-1, -1, -1, -1],
    }
    return {
        "verb": "riding",
        "height": 60,
        "width": 50,
        "bb": bb,
        "frames": list(frames),
    } | changes


FRAME = {"place": "", "vehicle": "n2", "agent": "n1"}


def frames(write_json: Any, content: Any) -> list[FrameRecord]:
    space = read_situation_space(write_json(SPACE, "space.json"))
    return list(read_frames(write_json(content), space, "swig", "train"))


def test_the_space_is_read(write_json: Any) -> None:
    assert read_situation_space(write_json(SPACE)) == SituationSpace(
        {"n1": ("woman", "adult female"), "n2": ("bicycle", "bike"), "n3": ()},
        {
            "riding": VerbDefinition(
                "AGENT rides VEHICLE at PLACE", ("agent", "vehicle", "place")
            )
        },
    )


def test_each_annotator_becomes_a_row(write_json: Any, tmp_path: Path) -> None:
    rows = frames(write_json, {"riding_1.jpg": image(FRAME, FRAME | {"place": "n1"})})
    assert to_row(rows[0]) == {
        "source": "swig",
        "source_id": "riding_1.jpg#0",
        "split": "train",
        "image": "riding_1.jpg",
        "verb": "riding",
        "annotator": 0,
        "abstract": "AGENT rides VEHICLE at PLACE",
        "roles": [
            {
                "role": "agent",
                "noun": "n1",
                "gloss": "woman",
                "box": [1.0, 2.0, 30.0, 40.0],
            },
            {"role": "vehicle", "noun": "n2", "gloss": "bicycle", "box": None},
            {"role": "place", "noun": None, "gloss": None, "box": None},
        ],
        "width": 50,
        "height": 60,
        "rejected": None,
    }
    assert (rows[1].source_id, rows[1].annotator) == ("riding_1.jpg#1", 1)
    write_records(tmp_path / "frames.parquet", rows, FrameRecord)
    assert list(read_records(tmp_path / "frames.parquet", FrameRecord)) == rows


def test_imsitu_has_neither_size_nor_boxes(write_json: Any) -> None:
    (row,) = frames(write_json, {"riding_1.jpg": {"verb": "riding", "frames": [FRAME]}})
    assert (row.width, row.height, row.rejected) == (None, None, None)
    assert [filler.box for filler in row.roles] == [None, None, None]


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (image(FRAME, verb="flying"), "verb 'flying' is not in the space"),
        (image({"agent": "n1"}), "its roles are not those of 'riding'"),
        (image(dict.fromkeys(FRAME, "")), "no role is filled"),
        (
            image(FRAME | {"agent": "n9"}),
            "noun 'n9' of role 'agent' is not in the space",
        ),
        (
            image(FRAME | {"agent": "n3"}),
            "noun 'n3' of role 'agent' is not in the space",
        ),
    ],
)
def test_unusable_frames_stay_with_their_reason(
    write_json: Any, entry: Any, reason: str
) -> None:
    (row,) = frames(write_json, {"riding_1.jpg": entry})
    assert row.rejected == reason


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (image(FRAME | {"agent": None}), "frame 0: field 'agent' is null, not a text"),
        (
            image(FRAME, bb={"agent": [1, 2, 3]}),
            r"box of 'agent' is \[1, 2, 3\], not four numbers",
        ),
        (image(FRAME, bb=[]), "field 'bb' is a list, not an object"),
        (image(FRAME, width="wide"), "field 'width' is a text, not a whole number"),
        (image(FRAME, width=2**40), "field 'width' is 1099511627776, not a number of"),
        ({"verb": "riding"}, "field 'frames' is missing"),
        (
            {"verb": "riding", "frames": ["n1"]},
            "field 'frames': entry 0 is a text, not an object",
        ),
    ],
)
def test_broken_entries_are_named(write_json: Any, entry: Any, message: str) -> None:
    with pytest.raises(UserError, match=f"image 'riding_1.jpg'.*{message}"):
        frames(write_json, {"riding_1.jpg": entry})


def test_a_repeated_image_is_named(write_json: Any, tmp_path: Path) -> None:
    path = tmp_path / "twice.json"
    path.write_text(
        '{"a.jpg": {"verb": "riding", "frames": []}, "a.jpg": {"verb": "riding", "frames": []}}'
    )
    with pytest.raises(UserError, match=r"the root: key 'a\.jpg' stands twice"):
        list(read_frames(path, read_situation_space(write_json(SPACE)), "swig", None))


def test_an_order_that_is_not_the_roles_is_named(write_json: Any) -> None:
    verb = SPACE["verbs"]["riding"] | {"order": ["agent"]}
    with pytest.raises(
        UserError, match="verb 'riding': 'order' does not name its roles"
    ):
        read_situation_space(write_json(SPACE | {"verbs": {"riding": verb}}))


def test_the_real_excerpts(shared_data: Path) -> None:
    folder = shared_data / "swig_imsitu"
    space = read_situation_space(folder / "imsitu_space_excerpt.json")
    assert (len(space.glosses), len(space.verbs)) == (3, 3)
    assert space.verbs["catching"].order == ("agent", "caughtitem", "tool", "place")
    rows = list(
        read_frames(folder / "swig_annotation_excerpt.json", space, "swig", "train")
    )
    assert [row.annotator for row in rows] == [0, 1, 2, 0, 1, 2]
    catching = rows[3]
    assert (catching.width, catching.height) == (910, 512)
    assert catching.roles[0] == RoleFiller(
        "agent", noun="n00017222", gloss="plant", box=[270.0, 112.0, 909.0, 389.0]
    )
    assert catching.rejected == "noun 'n05282433' of role 'tool' is not in the space"
    clinging = list(
        read_frames(folder / "imsitu_annotation_excerpt.json", space, "imsitu", "train")
    )
    assert len(clinging) == 3
    assert clinging[0].abstract == "an AGENT clings to the CLUNGTO at a PLACE"
