"""A user's table of captions."""

import pytest

from waltz.core.errors import UserError
from waltz.sources.readers import read_source


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


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (
            "image,captoin\na.png,A dog.\n",
            r"no column 'caption' .did you mean 'captoin'",
        ),
        ("picture,caption\na.png,A dog.\n", "no column 'image'"),
        ("id,image,caption\n0,a.png,A dog.\n0,a.png,A cat.\n", "duplicate id"),
        ("id,image,caption\n1,a.png,A dog.\n1,a.png,A cat.\n", "duplicate id"),
    ],
)
def test_a_table_without_captions_is_refused(tmp_path, text, fault):
    (tmp_path / "own.csv").write_text(text)
    with pytest.raises(UserError, match=fault):
        read(tmp_path / "own.csv")


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
