"""Own data in the layouts of published sets, all with self-made texts."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from waltz.core.errors import UserError
from waltz.core.text_diff import SAME_TEXT
from waltz.sources.formats import pairs
from waltz.sources.formats.pairs import SAME_RECORD, read_pairs
from waltz.sources.pair_layouts import LAYOUTS


def read(tmp_path, content, name="a.json", columns=None):
    path = tmp_path / name
    text = content if isinstance(content, str) else json.dumps(content)
    path.write_text(text)
    return [
        (item.item_id, item.piece, item.image, item.caption, item.foil)
        for item in read_pairs(path, "mine", "own", columns)
    ]


TWO = [("0-1", "mine", "a", "x y", "y x"), ("0-2", "mine", "b", "y x", "x y")]

PUBLISHED = {
    "SugarCrepe": (
        {
            "0": {"filename": "a.png", "caption": "a dog", "negative_caption": "a cat"},
            "2": {"filename": "b.png", "caption": "a cow", "negative_caption": "a hen"},
        },
        [
            ("0", "mine", "a.png", "a dog", "a cat"),
            ("2", "mine", "b.png", "a cow", "a hen"),
        ],
    ),
    "SugarCrepe with images": (
        [{"images": ["a.png"], "caption": "a dog", "negative_caption": "a cat"}],
        [("1", "mine", "a.png", "a dog", "a cat")],
    ),
    "SugarCrepe++": (
        [
            {
                "id": 5,
                "filename": "a.png",
                "caption": "a dog",
                "caption2": "one dog",
                "negative_caption": "a cat",
            }
        ],
        [
            ("5-1", "mine", "a.png", "a dog", "a cat"),
            ("5-2", "mine", "a.png", "one dog", "a cat"),
        ],
    ),
    "Winoground": (
        [
            {
                "id": 0,
                "tag": "x",
                "image_0": "a",
                "image_1": "b",
                "caption_0": "x y",
                "caption_1": "y x",
            }
        ],
        TWO,
    ),
    "EqBen": (
        [
            {
                "id": 0,
                "image0": "a",
                "image1": "b",
                "caption0": "x y",
                "caption1": "y x",
            }
        ],
        TWO,
    ),
    "BiVLC": (
        [
            {
                "image": "a",
                "negative_image": "b",
                "caption": "x y",
                "negative_caption": "y x",
            }
        ],
        [(f"1{pair[0][1:]}", *pair[1:]) for pair in TWO],
    ),
    "ColorSwap": (
        [
            {
                "id": 0,
                "image_1": "a",
                "image_2": "b",
                "caption_1": "x y",
                "caption_2": "y x",
            }
        ],
        TWO,
    ),
    "ARO": (
        [
            {
                "image_id": "7",
                "image_path": "a.png",
                "bbox_x": 0,
                "true_caption": "x on y",
                "false_caption": "y on x",
                "relation_name": "on",
            }
        ],
        [("1", "on", "a.png", "x on y", "y on x")],
    ),
    "caption options": (
        [{"image_path": "a.png", "caption_options": ["x y z", "y x z", "z y x"]}],
        [
            ("1-1", "mine", "a.png", "x y z", "y x z"),
            ("1-2", "mine", "a.png", "x y z", "z y x"),
        ],
    ),
    "VL-CheckList": (
        [["a.png", {"POS": ["white dog", "a"], "NEG": ["black dog", "b"]}]],
        [
            ("1-1", "mine", "a.png", "white dog", "black dog"),
            ("1-2", "mine", "a.png", "a", "b"),
        ],
    ),
    "VL-CheckList with one": (
        [["a.png", {"POS": ["white dog"], "NEG": ["black dog"]}]],
        [("1", "mine", "a.png", "white dog", "black dog")],
    ),
    "BLA": (
        [
            {
                "image_id": 73,
                "index": 0,
                "caption_group": [
                    {
                        "group_index": 0,
                        "True1": "a",
                        "True2": "b",
                        "False1": "c",
                        "False2": "d",
                        "score": [0.5],
                    }
                ],
            }
        ],
        [("1-1", "mine", "73", "a", "c"), ("1-2", "mine", "73", "b", "d")],
    ),
    "VALSE": (
        {
            "existence_1": {
                "dataset": "visual7w",
                "linguistic_phenomena": "existence",
                "image_file": "a.png",
                "caption": "There are no dogs.",
                "classes": "False",
                "classes_foil": "True",
                "mturk": {"foil": 0, "caption": 3, "other": 0},
                "foil": "There are dogs.",
            }
        },
        [
            (
                "existence_1",
                "existence",
                "a.png",
                "There are no dogs.",
                "There are dogs.",
            )
        ],
    ),
    "VL-CheckList by image": (
        {"a.png": {"POS": ["white dog"], "NEG": ["black dog"]}},
        [("1", "mine", "a.png", "white dog", "black dog")],
    ),
    "foils in numbered columns": (
        [
            {"image": "a.png", "caption": "a dog", "foil1": "a cat", "foil2": "a hen"},
            {"image": "a.png", "caption": "a pig", "foil1": "a cow", "foil2": None},
        ],
        [
            ("1-1", "mine", "a.png", "a dog", "a cat"),
            ("1-2", "mine", "a.png", "a dog", "a hen"),
            ("2", "mine", "a.png", "a pig", "a cow"),
        ],
    ),
    "rows without names": (
        [["a.png", "a dog", "a cat"]],
        [("1", "mine", "a.png", "a dog", "a cat")],
    ),
    "VALSE in a mirror": (
        [
            {
                "image": {"bytes": None, "path": "a.png"},
                "caption": "a dog",
                "foil": "a cat",
                "linguistic_phenomena": "existence",
            }
        ],
        [("1", "existence", "a.png", "a dog", "a cat")],
    ),
    "an image folder's metadata": (
        [{"file_name": "a.png", "positive_caption": "b", "negative_caption": "c"}],
        [("1", "mine", "a.png", "b", "c")],
    ),
    "ARO as its classes give it": (
        [{"image_options": ["a.png"], "caption_options": ["x y", "y x"]}],
        [("1", "mine", "a.png", "x y", "y x")],
    ),
    "several captions and foils": (
        [{"image": "a.png", "captions": ["b", "c"], "foils": ["d", "e"]}],
        [("1-1", "mine", "a.png", "b", "d"), ("1-2", "mine", "a.png", "c", "e")],
    ),
    "several foils": (
        [{"image": "a.png", "caption": "a dog", "foils": ["a cat", "a hen"]}],
        [
            ("1-1", "mine", "a.png", "a dog", "a cat"),
            ("1-2", "mine", "a.png", "a dog", "a hen"),
        ],
    ),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_layouts_of_published_sets_are_read(tmp_path, name):
    content, items = PUBLISHED[name]
    assert read(tmp_path, content) == items


def test_every_pair_of_a_group_of_captions_is_read(tmp_path):
    group = {"True1": "a", "False1": "c", "True2": "b", "False2": "d"}
    row = {"image_id": 73, "caption_group": [group, {**group, "True1": "e"}]}
    captions = [item[3] for item in read(tmp_path, [row])]
    assert captions == ["a", "e", "b", "b"]


@pytest.mark.parametrize(
    "column", ["hard_negs", "valid_hard_negs_atom", "valid_hard_negs_comp"]
)
def test_lists_within_a_csv_are_foils(tmp_path, column):
    content = (
        f"""image_id,x,caption,{column}\n7,0,a dog,"['a cat', ""a dog's hen""]"\n"""
    )
    assert read(tmp_path, content, "a.csv") == [
        ("1-1", "mine", "7", "a dog", "a cat"),
        ("1-2", "mine", "7", "a dog", "a dog's hen"),
    ]
    content = "image,caption,foil\na,[UNK],[a dog]\n"
    assert read(tmp_path, content, "a.csv")[0][3:] == ("[UNK]", "[a dog]")


def test_lists_in_json_within_a_csv_are_foils(tmp_path):
    content = """image,caption,foils\na,a dog,"[""a cat"", ""a hen""]"\n"""
    assert [row[4] for row in read(tmp_path, content, "a.csv")] == ["a cat", "a hen"]
    for absent in ("null", '"" ""', '""NA""'):
        gap = content.replace('""a hen""', absent)
        assert [row[4] for row in read(tmp_path, gap, "a.csv")] == ["a cat"]


@pytest.mark.parametrize(
    ("cell", "foils"),
    [
        ("['a cat' ''a dog's hen'']", ["a cat", "a dog's hen"]),
        ("['a cat'\n 'a hen']", ["a cat", "a hen"]),
        ("['a cat', nan, None, 'none']", ["a cat", "none"]),
        ("['a', ['b']]", None),
        ("['a' ... 'b']", None),
        ("[np.str_('a')]", None),
        ("a cat|a hen", None),
    ],
)
def test_lists_of_other_programs_within_a_csv_are_foils(tmp_path, cell, foils):
    cell = cell.replace("''", '""')  # a quotation mark within a cell
    content = f"""image,caption,foils\na,a dog,"{cell}"\n"""
    if foils is not None:
        assert [row[4] for row in read(tmp_path, content, "a.csv")] == foils
        return
    with pytest.raises(
        UserError, match=r"line 2: .*; write (it as|them as a list of) JSON"
    ):
        read(tmp_path, content, "a.csv")


def test_a_word_for_an_absent_value_is_a_text_with_a_warning(tmp_path, caplog):
    content = (
        "id,image,caption,foil,phenomenon\n1,a,a dog,\\N,\\N\n2,a,a dog,a cat,NA\n"
    )
    rows = read(tmp_path, content, "a.csv")
    assert [(row[1], row[4]) for row in rows] == [("mine", "\\N"), ("mine", "a cat")]
    assert r"captions or foils are words for absent values (\N)" in caplog.text


def test_an_absent_value_in_the_first_row_hides_no_layout(tmp_path):
    row = {"filename": "a", "caption": "b", "negative_caption": "c"}
    content = [{**row, "negative_caption": None}, row]
    with pytest.raises(UserError, match="item 1: 'foil' is not a text with content"):
        read(tmp_path, content)


def test_several_captions_or_foils_have_numbers_and_some_may_be_absent(tmp_path):
    row = {"filename": "a", "caption": "b", "negative_caption": "c"}
    # The second caption of SugarCrepe++ is absent in the first row.
    content = [{**row, "caption2": None}, {**row, "caption2": "d"}]
    assert read(tmp_path, content) == [
        ("1", "mine", "a", "b", "c"),
        ("2-1", "mine", "a", "b", "c"),
        ("2-2", "mine", "a", "d", "c"),
    ]
    row = {"image": "a", "caption": "b", "foil1": "c"}
    content = [row, {**row, "foil_2": "d"}]
    assert [pair[0] for pair in read(tmp_path, content)] == ["1", "2-1", "2-2"]
    content = "image,caption1,caption2,foil1,foil2\na,b,c,d,e\n"
    pairs_of_row = [pair[3:] for pair in read(tmp_path, content, "a.csv")]
    assert pairs_of_row == [("b", "d"), ("c", "e")]


@pytest.mark.parametrize("absent", [{}, {"True2": "", "False2": None}])
def test_a_group_of_bla_may_lack_its_second_pair(tmp_path, absent):
    one = {"True1": "b", "False1": "c"}
    two = {**one, "True2": "d", "False2": "e"}
    content = [
        {"image_id": 1, "caption_group": [group]} for group in ({**one, **absent}, two)
    ]
    assert [pair[0] for pair in read(tmp_path, content)] == ["1", "2-1", "2-2"]


def test_numbers_of_json_are_texts_as_those_of_csv(tmp_path):
    row = {"image": 1.0, "caption": 4, "foil": 5.5, "phenomenon": 3}
    assert read(tmp_path, [row]) == [("1", "3", "1", "4", "5.5")]


def test_no_layout_hides_a_later_one():
    for number, layout in enumerate(LAYOUTS):
        for earlier in LAYOUTS[:number]:
            assert not set(earlier.paths) <= set(layout.paths), (earlier, layout)


def test_what_is_ignored_is_said_once(tmp_path, caplog):
    content, _ = PUBLISHED["ARO"]
    pairs._say_once.cache_clear()
    read(tmp_path, content)
    read(tmp_path, content)
    (record,) = caplog.records
    assert "a.json: bbox_x: boxes are not cut out; the whole image" in record.message


def test_case_of_letters_and_blanks_of_names_do_not_matter(tmp_path):
    content = "Image, CAPTION,foil\na,b,c\n"
    assert read(tmp_path, content, "a.csv") == [("1", "mine", "a", "b", "c")]
    content = [{" Filename": "a", "Caption": "b", "Negative_Caption": "c"}]
    assert read(tmp_path, content) == [("1", "mine", "a", "b", "c")]


OPTIONS = {"image": "a.png", "caption_options": ["one", "two", "three"]}
LETTERED = {"image": "a.png", "caption_a": "one", "caption_b": "two", "caption_c": ""}
FROM_1 = {"image": "a.png", "text_1": "one", "text_2": "two", "text_10": "three"}


@pytest.mark.parametrize(
    ("row", "caption"),
    [
        ({**OPTIONS, "correct_option": 0}, "one"),
        ({**OPTIONS, "correct_option": 1}, "two"),
        ({**OPTIONS, "correct_option": 2.0}, "three"),
        ({**OPTIONS, "Correct_Option": "2"}, "three"),
        ({**OPTIONS, "answer": "B"}, "two"),
        ({**OPTIONS, "answer": "(c)"}, "three"),
        ({**OPTIONS, "answer": " two"}, "two"),
        ({**OPTIONS, "labels": [0, 0, 1]}, "three"),
        ({**OPTIONS, "labels": [False, True, False]}, "two"),
        ({**OPTIONS, "label": [1]}, "two"),
        ({"image": "a.png", "choices": ["one", "two"], "answer": "two"}, "two"),
        ({"image": "a.png", "captions": ["1", "0"], "label": 0}, "0"),
        ({**LETTERED, "answer": "b"}, "two"),
        ({**LETTERED, "answer": 1}, "two"),
        ({**LETTERED, "answer": "caption_b"}, "two"),
        ({**FROM_1, "label": 1}, "one"),
        ({**FROM_1, "label": 10}, "three"),
        ({**FROM_1, "label": "C"}, "three"),
        ({"image": "a.png", "caption_0": "one", "caption_1": "two", "label": 1}, "two"),
    ],
)
def test_the_answer_says_which_option_is_the_caption(tmp_path, row, caption):
    items = read(tmp_path, [row])
    assert {item[3] for item in items} == {caption}


def test_all_options_but_the_answer_are_foils_in_their_order(tmp_path):
    row = {**OPTIONS, "correct_option": 1}
    assert [item[4] for item in read(tmp_path, [row])] == ["one", "three"]
    content = """image,caption_options,correct_option\na.png,"['one', 'two']",1\n"""
    assert read(tmp_path, content, "a.csv") == [("1", "mine", "a.png", "two", "one")]


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        (
            {**OPTIONS, "correct_option": 3},
            r"'correct_option' names none of 3 options \(got '3', expected 0 to 2, a letter",
        ),
        ({**OPTIONS, "correct_option": -1}, r"none of 3 options \(got '-1'"),
        ({**OPTIONS, "correct_option": True}, r"none of 3 options \(got 'True'"),
        ({**OPTIONS, "labels": [1, 1, 0]}, r"none of 3 options \(got '\[1, 1, 0\]'"),
        ({**OPTIONS, "correct_option": None}, "'correct_option' is missing or empty"),
        ({**LETTERED, "answer": "c"}, r"got 'c', expected 0 to 1"),
        ({**FROM_1, "label": 0}, r"got '0', expected 1 to 10"),
        ({**OPTIONS, "caption_options": ["one"]}, "'caption_options' has 1 options"),
        ({**OPTIONS, "question": "Which?", "answer": 1}, "no caption and foil but a"),
    ],
)
def test_an_answer_that_names_no_option_is_refused(tmp_path, row, fault):
    with pytest.raises(UserError, match=f"a.json: item 1: .*{fault}"):
        read(tmp_path, [row])


def test_a_row_without_the_answer_that_others_have_is_refused(tmp_path):
    with pytest.raises(UserError, match="item 2: 'correct_option' is missing or empty"):
        read(tmp_path, [{**OPTIONS, "correct_option": 1}, OPTIONS])


def test_options_without_answers_are_said_to_begin_with_the_caption(tmp_path, caplog):
    pairs._say_once.cache_clear()
    read(tmp_path, [OPTIONS])
    assert "no column says which option is the caption; the first" in caplog.text


@pytest.mark.parametrize("absent", [float("nan"), None, "", " ", "NaN", "null"])
def test_an_optional_value_may_be_absent(tmp_path, absent):
    row = {"image": "a", "caption": "b", "foil": "c", "phenomenon": absent}
    assert read(tmp_path, [{**row, "id": absent}]) == [("1", "mine", "a", "b", "c")]


def test_ids_that_became_numbers_with_a_point_are_whole(tmp_path):
    row = {"image": "a", "caption": "b", "foil": "c"}
    assert read(tmp_path, [{**row, "id": 3.0}])[0][0] == "3"


def test_columns_are_mapped_by_the_user(tmp_path):
    content = [{"pic": "a", "t": {"good": "b", "bad": "c"}, "kind": "k", "key": "q"}]
    columns = {
        "image": "pic",
        "caption": "t.good",
        "foil": "t.bad",
        "phenomenon": "kind",
        "id": "key",
    }
    assert read(tmp_path, content, columns=columns) == [("q", "k", "a", "b", "c")]
    # Columns that are not mapped keep their names.
    content = [{"image": "a", "caption": "b", "neg": "c"}]
    mapped = read(tmp_path, content, columns={"foil": "neg"})
    assert mapped == [("1", "mine", "a", "b", "c")]


@pytest.mark.parametrize(
    ("row", "columns", "fault"),
    [
        (
            {"image": "a", "captoin": "b", "foil": "c"},
            {},
            r"'caption' is missing \(got image, captoin and foil\); did you mean 'captoin'\?; name the"
            r" column of the caption \(--columns caption=NAME, or `columns` in a study\)",
        ),
        (
            {"filename": "a", "caption": "b", "negative": "c"},
            {"image": "filenam", "foil": "negative"},
            r"'filenam' is missing .*did you mean 'filename'\?; .*--columns image=NAME",
        ),
        (
            {"image": "a", "caption": ["b", "d"], "foil": ["c"]},
            {},
            "2 captions and 1 foils; write as many captions as foils, or one caption",
        ),
        (
            {"image": "a", "caption": "b", "foil": []},
            {},
            "1 captions and 0 foils",
        ),
        (
            {"image": "a", "caption": "b", "foil": ["", None]},
            {},
            r"'foil' is not a text with content \(got ''\)",
        ),
        (
            {"image": "a", "caption": "b", "foils": None},
            {},
            r"'foil' is not a text with content \(got None\)",
        ),
        (
            {"image_path": "a", "caption": "b", "lie": "c"},
            {},
            r"'foil' is missing \(got image_path, caption and lie\)",
        ),
        (
            {"image": None, "caption": "b", "foil": "c"},
            {},
            r"'image' is not a text with content \(got None\)",
        ),
        (
            {"image": "a", "caption": "b", "foil": "c", "phenomenon": ["x"]},
            {},
            r"'phenomenon' is not a text with content \(got a list\)",
        ),
        (
            {"image": "a", "caption": "b", "foil": "c", "id": True},
            {},
            "'id' is true or false, not a text or whole number",
        ),
    ],
)
def test_a_row_without_a_pair_is_one_line(tmp_path, row, columns, fault):
    with pytest.raises(UserError, match=f"a.json: item 1: {fault}") as raised:
        read(tmp_path, [row], columns=columns)
    assert len(str(raised.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        (["a.png", "b", "c.png", "d"], "'image' is missing .got 0, 1, 2 and 3"),
        (
            {"sentence": "a", "pos_url": "b", "neg_url": "c"},
            "a sentence with a right and a wrong image, and no foil",
        ),
        ({"image": "a", "caption": "b", "label": 1}, "a caption with a label"),
        ({"image": "a", "caption": "b", "is_foil": 1}, "a caption with a label"),
        (["b", "c", "a.png"], "'image' is missing .got 0, 1 and 2"),
        (
            {"image": "a", "foils": {"color": "b"}, "caption": "c"},
            "'foil' is not .* name one of its fields, such as --columns foil=COLUMN.color",
        ),
        (
            {"image": "a", "texts": {"caption": "b", "foil": "c"}},
            r"'caption' is missing .*; did you mean 'texts.caption'\?",
        ),
        (
            {"image": "a", "original_caption": "b", "edited_caption": "c"},
            "'caption' is missing [^;]*; name the column",
        ),
        ({"image": "a", "Question": "b", "Answer": "c"}, "no caption and foil but a"),
    ],
)
def test_rows_of_published_sets_without_foils_are_refused(tmp_path, row, fault):
    with pytest.raises(UserError, match=f"a.json: item 1: {fault}"):
        read(tmp_path, [row])


@pytest.mark.parametrize("flags", [(True, False), ("0", "1"), (0, 1)])
def test_a_flag_for_each_caption_is_no_foil(tmp_path, flags):
    row = {"image_id": 1, "caption": "A dog."}
    rows = [{**row, "foil": flag} for flag in flags]
    with pytest.raises(
        UserError, match=r"'foil' says whether the caption is one \(got"
    ):
        read(tmp_path, rows)
    content = "image,caption,foil\na,1,0\nb,0,1\n"
    assert [pair[3:] for pair in read(tmp_path, content, "a.csv")] == [
        ("1", "0"),
        ("0", "1"),
    ]


@pytest.mark.parametrize("ends", [("_left", "_right"), ("1", "2"), ("_a", "_b")])
def test_two_images_have_the_foil_of_each_other(tmp_path, ends):
    row = {}
    for end, image, caption in zip(ends, "ab", ("x y", "y x"), strict=True):
        row |= {f"image{end}": image, f"caption{end}": caption}
    assert read(tmp_path, [{"id": 0, **row}]) == TWO


@pytest.mark.parametrize("labels", [[-1, 1], [0, 1], [False, True]])
def test_flags_of_options_say_which_is_the_caption(tmp_path, labels):
    row = {"image": "a", "captions": ["x", "y"], "labels": labels}
    assert read(tmp_path, [row])[0][3:] == ("y", "x")
    with pytest.raises(UserError, match="'labels' names none of 3 options"):
        read(tmp_path, [{**row, "captions": ["x", "y", "z"], "labels": [-1, 0, 1]}])


def test_a_layout_is_known_by_columns_without_values(tmp_path):
    (row,) = PUBLISHED["Winoground"][0]
    with pytest.raises(UserError, match=r"'caption' is not a text .*got None"):
        read(tmp_path, [{**row, "caption_0": None}])


def test_a_long_value_is_shortened_in_a_message(tmp_path):
    columns = {"image": "image", "caption": "b", "foil": "c"}
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"image": [b"x" * 999], "b": ["b"], "c": ["c"]}), path)
    with pytest.raises(UserError, match="'image' is not a text") as raised:
        read_pairs(path, "mine", "own", columns)
    assert len(str(raised.value)) < len(str(path)) + 200


def test_a_record_that_stands_twice_is_one_item(tmp_path):
    path = tmp_path / "a.json"
    row = {"image": "a", "caption": "b", "foil": "c"}
    for twice in ([{**row, "id": 1}] * 2, [row] * 2):
        path.write_text(json.dumps([*twice, {**row, "foil": "d"}]))
        items = read_pairs(path, "mine", "own")
        assert [item.rejected for item in items] == [None, SAME_RECORD, None]
        assert [item.kept for item in items] == [True, False, True]
    path.write_text(json.dumps([{**row, "id": 2}, row]))
    with pytest.raises(UserError, match="item 2: duplicate id '2', with other content"):
        read_pairs(path, "mine", "own")


def test_as_many_pairs_are_counted_as_the_file_has(tmp_path):
    row = {"image": "a", "caption": "b", "foils": ["c", "b ", "d"]}
    path = tmp_path / "a.json"
    path.write_text(json.dumps([row, row]))
    items = read_pairs(path, "mine", "own")
    assert len(items) == 6
    assert [item.rejected for item in items[:3]] == [None, SAME_TEXT, None]


@pytest.mark.parametrize(
    ("name", "groups"),
    [
        ("Winoground", ["0", "0"]),
        ("EqBen", ["0", "0"]),
        ("BiVLC", ["1", "1"]),
        ("ColorSwap", ["0", "0"]),
        ("SugarCrepe++", [None, None]),
        ("caption options", [None, None]),
    ],
)
def test_only_rows_with_two_images_are_groups(tmp_path, name, groups):
    content, _ = PUBLISHED[name]
    path = tmp_path / "a.json"
    path.write_text(json.dumps(content))
    assert [item.group for item in read_pairs(path, "mine", "own")] == groups
