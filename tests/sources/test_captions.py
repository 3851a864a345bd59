"""A user's table of captions."""

import json

import pytest

from waltz.core.errors import UserError
from waltz.sources.formats.captions import UNTRUE
from waltz.sources.readers import read_source
from waltz.sources.texts import read_texts


def read(path):
    rows, _ = read_source("captions", {"captions": str(path)}, "own")
    return [(row.source_id, row.image, row.caption, row.rejected) for row in rows]


def test_captions_are_read_in_several_forms(tmp_path):
    expected = [
        ("1", "a.png", "A dog.", None),
        ("2", "a.png", "Two cats.", None),
        ("3", "b.png", "", "the caption is empty"),
    ]
    forms = {
        "a.csv": "image,caption\na.png,A dog.\na.png,Two cats.\nb.png,\n",
        "b.tsv": "Image\t Caption\na.png\tA dog.\na.png\tTwo\u2028cats.\nb.png\t\n",
        "c.jsonl": '{"filename": "a.png", "text": "A dog."}\n'
        '{"filename": "a.png", "text": "Two cats."}\n'
        '{"filename": "b.png", "text": null}\n',
    }
    for name, text in forms.items():
        (tmp_path / name).write_text(text.replace("\u2028", " "), encoding="utf-8")
        assert read(tmp_path / name) == expected


@pytest.mark.parametrize("start", ["image,caption\n", ""])
def test_html_escapes_are_the_characters_that_they_mean(tmp_path, start):
    # `&copy` has no semicolon: it may be a part of an address. Nothing is replaced twice.
    escaped = "A dog &amp; a &quot;cat&#39;s&QUOT; a?b=1&copy=2 &amp;lt;"
    expected = 'A dog & a "cat\'s" a?b=1&copy=2 &lt;'
    path = tmp_path / ("a.csv" if start else "a.txt")
    separator = "," if start else "\t"
    path.write_text(f"{start}a.png{separator}{escaped}\n", encoding="utf-8")
    assert [caption for _, _, caption, _ in read(path)] == [expected]
    assert list(read_texts(path)) == [expected]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (
            "image,captoin\na.png,A dog.\n",
            r"no column 'caption' .did you mean 'captoin'",
        ),
        ("picture,caption\na.png,A dog.\n", "no column 'image'"),
        ("a.png,A dog.\nb.png,A cat.\n", "line 1: no header .got 'a.png'"),
        ("7,A dog.\n8,A cat.\n", "line 1: no header .got '7'"),
        ("id,image,caption\n0,a.png,A dog.\n0,a.png,A cat.\n", "duplicate id"),
        ("a.png#0\tA dog.\nA cat.\n", "line 2: no image and caption .got 'A cat.'"),
        ("id,image,caption\n1,a.png,A dog.\n1,a.png,A cat.\n", "duplicate id"),
    ],
)
def test_a_table_without_captions_is_refused(tmp_path, text, fault):
    (tmp_path / "own.csv").write_text(text)
    with pytest.raises(UserError, match=fault):
        read(tmp_path / "own.csv")


@pytest.mark.parametrize(
    ("column", "true", "false"),
    [("label", 1, 0), ("is_correct", True, False), ("foil", "false", "true")],
)
def test_captions_that_a_column_calls_false_are_rejected(tmp_path, column, true, false):
    row = {"image": "a.png", "caption": "A dog."}
    rows = [{**row, column: true}, {**row, "caption": "A cat.", column: false}]
    path = tmp_path / "own.json"
    path.write_text(json.dumps(rows))
    assert [rejected for *_, rejected in read(path)] == [None, UNTRUE]
    # A column of one value, or of names, is something else.
    path.write_text(json.dumps([{**row, "label": 0}, {**row, "label": "dog"}]))
    assert [rejected for *_, rejected in read(path)] == [None, None]


def test_flags_of_a_list_of_captions_reject_its_false_ones(tmp_path):
    path = tmp_path / "own.json"
    row = {"image": "a.png", "captions": ["A dog.", "A cat."], "labels": [0, 1]}
    path.write_text(json.dumps([row]))
    assert [rejected for *_, rejected in read(path)] == [UNTRUE, None]


def test_ids_start_at_0_and_an_entry_may_lack_a_field(tmp_path):
    path = tmp_path / "own.json"
    path.write_text(
        '[{"id": 0, "image": "a.png"}, {"id": 1, "image": "b.png", "caption": "A cat."}]'
    )
    assert read(path) == [
        ("0", "a.png", "", "the caption is empty"),
        ("1", "b.png", "A cat.", None),
    ]


def test_lines_without_images_are_refused(tmp_path):
    (tmp_path / "own.txt").write_text("A dog.\n")
    with pytest.raises(UserError, match="lines of text name no images"):
        read(tmp_path / "own.txt")


TWO = [("1", "a.jpg", "A dog.", None), ("2", "b.jpg", "A cat.", None)]
OF_ONE_IMAGE = [("1:1", "a.jpg", "A dog.", None), ("1:2", "a.jpg", "A cat.", None)]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.token", "a.jpg#0\tA dog.\nb.jpg#0\tA cat.\n", TWO),
        ("a.txt", "a.jpg\tA dog.\n\nb.jpg\tA cat.\n", TWO),
        (
            "a.csv",
            "image_name| comment_number| comment\na.jpg|0|A dog.\nb.jpg|0|A cat.\n",
            TWO,
        ),
        ("a.json", '{"a.jpg": "A dog.", "b.jpg": "A cat."}', TWO),
        (
            "a.json",
            '[{"image": "a.jpg", "captions": ["A dog.", "A cat."]}]',
            OF_ONE_IMAGE,
        ),
        (
            "karpathy.json",
            '{"images": [{"filename": "a.jpg", "split": "test", "sentences":'
            ' [{"raw": "A dog.", "tokens": ["a", "dog"]}, {"raw": "A cat."}]}], "dataset": "x"}',
            OF_ONE_IMAGE,
        ),
        (
            "a.csv",
            "id,image,caption\n7,a.jpg,A dog.\n7,a.jpg,A dog.\n",
            [("7", *TWO[0][1:])],
        ),
        (
            "a.json",
            '[{"id": 3.0, "image": "a.jpg", "caption": "A dog."}]',
            [("3", *TWO[0][1:])],
        ),
        ("a.json", '[{"id": NaN, "image": "a.jpg", "caption": "A dog."}]', TWO[:1]),
        (
            "a.json",
            '[{"image": "a.jpg", "caption": NaN}]',
            [("1", "a.jpg", "", "the caption is empty")],
        ),
    ],
)
def test_captions_are_read_as_others_publish_them(tmp_path, name, text, expected):
    (tmp_path / name).write_text(text)
    assert read(tmp_path / name) == expected


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.token", "a.jpg#0\tA dog.\na.jpg#1\tA cat.\n"),
        ("a.json", '["A dog.", "A cat."]'),
        ("a.json", '[{"image": "a.jpg", "captions": ["A dog.", "A cat."]}]'),
        ("a.json", '{"a.jpg": "A dog.", "b.jpg": "A cat."}'),
    ],
)
def test_texts_are_those_of_captions(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    assert list(read_texts(tmp_path / name)) == ["A dog.", "A cat."]
