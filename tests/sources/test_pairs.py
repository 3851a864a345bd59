import json

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.schema import BENCHMARK
from waltz.sources.formats.pairs import read_pairs

ROWS = [
    {"image": "a.png", "caption": "four, zebras", "foil": "six, zebras", "phenomenon": "counting"},
    {"image": "b.png", "caption": "NA", "foil": "null", "phenomenon": "nouns"},
]


def _write(folder, form, rows):
    path = folder / f"pairs.{form}"
    frame = pd.DataFrame(rows)
    if form == "csv":
        frame.to_csv(path, index=False)
    elif form == "parquet":
        frame.to_parquet(path)
    else:
        path.write_text(json.dumps(rows))
    return path


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_every_file_format_gives_the_same_pairs(tmp_path, form):
    rows = read_pairs(_write(tmp_path, form, ROWS), "mine", "own")
    parquet.build_table(rows, BENCHMARK)
    assert [(row["item_id"], row["piece"], row["caption"], row["foil"]) for row in rows] == [
        ("1", "counting", "four, zebras", "six, zebras"),
        ("2", "nouns", "NA", "null"),
    ]
    assert rows[0]["caption_phrases"] == ["four"]
    assert json.loads(rows[0]["release"]) == ROWS[0]


def test_ids_of_a_user_are_kept(tmp_path):
    path = tmp_path / "pairs.json"
    path.write_text(json.dumps({"x7": {"image": "a", "caption": "b", "foil": "c"}}))
    (row,) = read_pairs(path, "mine", "own")
    assert (row["item_id"], row["piece"]) == ("x7", "mine")


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ([{"image": "a", "caption": "b"}], r"item 1: 'foil' is missing \(got image, caption\)"),
        ([{"image": "a", "caption": " ", "foil": "c"}], "item 1: 'caption' is ' ', not a text"),
        ([{"image": "a", "caption": 3, "foil": "c"}], "item 1: 'caption' is 3, not a text"),
        ([{"id": "1", "image": "a", "caption": "b", "foil": "c"}] * 2, "item 2: duplicate id '1'"),
        ([], "no pairs in the file"),
        (7, "the root is a whole number"),
    ],
)
def test_a_fault_is_named_with_file_item_and_field(tmp_path, rows, fault):
    path = tmp_path / "pairs.json"
    path.write_text(json.dumps(rows))
    with pytest.raises(UserError, match=rf"pairs\.json: {fault}"):
        read_pairs(path, "mine", "own")


@pytest.mark.parametrize(("name", "text"), [("a.txt", ""), ("a.json", "{"), ("a.csv", ""), ("a.parquet", "no")])
def test_a_file_that_cannot_be_read_is_named(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=name):
        read_pairs(tmp_path / name, "mine", "own")


TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1).filter(str.strip)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(st.lists(st.fixed_dictionaries({"image": TEXT, "caption": TEXT, "foil": TEXT}), min_size=1, max_size=4))
def test_any_text_is_read_unchanged(tmp_path, rows):
    for form in ("csv", "json", "parquet"):
        read = read_pairs(_write(tmp_path, form, rows), "mine", "own")
        assert [{name: row[name] for name in ("image", "caption", "foil")} for row in read] == rows
