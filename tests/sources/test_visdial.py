"""VisDial v1.0."""

from pathlib import Path
from typing import Any

import pytest

from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.sources.formats.valse import read_release
from waltz.sources.formats.visdial import read_turns
from waltz.sources.layouts import TURNS


def file(*rounds: Any, **changes: Any) -> dict[str, Any]:
    dialogue = {"image_id": 12, "caption": "a dog runs", "dialog": list(rounds)} | changes
    pools = {"questions": ["is it big", "is it brown"], "answers": ["no", "yes it is", " "]}
    return {"data": {"dialogs": [dialogue], **pools}, "version": "1.0", "split": "val2018"}


def turn(question: Any, answer: Any) -> dict[str, Any]:
    return {"question": question, "answer": answer, "answer_options": [0, 1], "gt_index": 0}


def test_rounds_become_rows(write_json: Any, tmp_path: Path) -> None:
    rows = list(read_turns(write_json(file(turn(0, 0), turn(1, 1))), "visdial"))
    assert rows[1] == {
        "source": "visdial",
        "source_id": "12#2",
        "split": "val2018",
        "image": "VisualDialog_val2018_000000000012.jpg",
        "caption": "a dog runs",
        "round": 2,
        "question": "is it brown",
        "answer": "yes it is",
        "history": [{"question": "is it big", "answer": "no"}],
        "rejected": None,
    }
    assert (rows[0]["round"], rows[0]["history"]) == (1, [])
    parquet.write_rows(tmp_path / "turns.parquet", rows, TURNS)
    assert parquet.read(tmp_path / "turns.parquet", TURNS).to_pylist() == rows


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (turn(2, 0), "question 2 is outside its pool of 2"),
        (turn(0, -1), "answer -1 is outside its pool of 3"),
        (turn(0, 2), "the answer is empty"),
        ({"question": 0, "answer_options": []}, "the round has no answer"),
    ],
)
def test_an_unusable_round_and_those_after_it_are_rejected(write_json: Any, broken: Any, reason: str) -> None:
    rows = list(read_turns(write_json(file(turn(0, 0), broken, turn(1, 1))), "visdial"))
    assert [row["rejected"] for row in rows] == [None, reason, f"round 2: {reason}"]
    assert rows[2]["history"] == [{"question": "is it big", "answer": "no"}]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (file(turn("0", 0)), "dialogue of image 12: round 1: field 'question' is a text, not a whole number"),
        (file("none"), "dialogue of image 12: round 1 is a text, not an object"),
        (file(caption=None), "dialogue of image 12: field 'caption' is null, not a text"),
        (file(image_id="twelve"), "image id 'twelve' does not fit the template"),
        ([], "'split' is missing"),
        ({"split": "val2018", "data": []}, "'data.questions' is missing"),
        ({"split": "val2018", "data": {"questions": {}}}, "'data.questions' is an object, not a list"),
    ],
)
def test_broken_files_are_named(write_json: Any, content: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        list(read_turns(write_json(content), "visdial"))


def test_image_names_may_be_given(write_json: Any) -> None:
    path = write_json(file(turn(0, 0)))
    (row,) = read_turns(path, "visdial", {"12": "COCO_val2014_000000000012.jpg"})
    assert row["image"] == "COCO_val2014_000000000012.jpg"
    with pytest.raises(UserError, match="dialogue of image 12: image id 12 is not among the 1 known images"):
        list(read_turns(path, "visdial", {"13": "x.jpg"}))


def test_a_repeated_dialogue_is_named(write_json: Any) -> None:
    content = file(turn(0, 0))
    content["data"]["dialogs"] *= 2
    with pytest.raises(UserError, match="dialogue of image 12: duplicate id"):
        list(read_turns(write_json(content), "visdial"))


def test_the_real_dialogues(shared_data: Path) -> None:
    rows = list(read_turns(shared_data / "visdial" / "visdial_1.0_val_visdialconv.json", "visdial"))
    assert len(rows) == 970
    assert len({row["image"] for row in rows}) == 97
    assert all(row["rejected"] is None for row in rows)
    assert [len(row["history"]) for row in rows[:10]] == list(range(10))
    clean = read_release(shared_data / "valse" / "coreference-hard.json", "coreference-clean", 2)
    assert len({item["image"] for item in clean} & {row["image"] for row in rows}) == 13
